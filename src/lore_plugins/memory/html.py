"""Render the results of `lore memory` as HTML pages without scripts, and return the content policy for them.

Every text passes `visible` (no control characters, direction marks or credentials) and is escaped. Values that a form
or link sends back are only escaped, so that they stay exact. Pages load nothing and run nothing.

Source: Content Security Policy Level 3 (W3C, read on 2026-11-23).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec.structs import replace

from lore.report import counted, named, visible
from lore.store import SessionSummary
from lore_plugins.memory import results
from lore_plugins.memory.report import (
    agent_label,
    describe_change,
    describe_owner,
    describe_wipe,
    format_counts,
    kind_label,
    still_in_topic,
)

MOST = 500  # texts of an agent, and entries of a log, on one page
LONGEST = 4_000  # characters of a text on a page
REMAINS = "The sessions remain: learning from one again may bring it back. The audit log remains, too."


class PageSubject(NamedTuple):
    """The memory that a page is about."""

    store: str
    user: str | None = None
    agent: str | None = None
    notes: Sequence[str] = ()  # sentences on memory that is not shown


class MemoryFilter(NamedTuple):
    """The part of a user's memory to show."""

    text: str = ""  # texts and topics that contain this
    session: str | None = None  # texts learned from this session


class AgentPage(NamedTuple):
    """The part of an agent's memory that a page shows."""

    agent: results.RememberedAgent
    topics: list[results.RememberedTopic]
    texts: list[results.RememberedText]
    left: int  # texts left out


def content_policy() -> str:
    """Return the Content-Security-Policy of every page: only its own style."""
    style = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; img-src data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def users_page(result: results.MemoryUsers) -> str:
    """Return the page that lists the users."""
    return _page("users.html", PageSubject(result.store), users=result.users)


def user_page(
    result: results.MemoryShown,
    subject: PageSubject,
    memory_filter: MemoryFilter,
    source: SessionSummary | None,
    entries: Sequence[results.AuditEntry],
) -> str:
    """Return the page of a user's memory; `source` and `entries` belong to the session that the filter names."""
    found = [_filtered(agent, memory_filter) for agent in result.agents]
    is_filtered = bool(memory_filter.text) or memory_filter.session is not None
    parts = [
        part for part in found if part.topics or part.texts or (any(part.agent.counts.values()) and not is_filtered)
    ]
    return _page(
        "user.html", subject, agents=parts, wanted=memory_filter.text, session=memory_filter.session,
        source=_describe_session(source), is_filtered=is_filtered, entries=list(entries),
    )  # fmt: skip


def _filtered(agent: results.RememberedAgent, memory_filter: MemoryFilter) -> AgentPage:
    wanted, session = memory_filter.text.casefold(), memory_filter.session
    topics = [
        topic for topic in agent.topics
        if session is None and wanted in f"{topic.topic}\n{topic.summary}\n{topic.content}".casefold()
    ]  # fmt: skip
    texts = [
        text for text in agent.texts
        if session in (None, text.session_id) and wanted in f"{text.id}\n{text.text}".casefold()
    ]  # fmt: skip
    return AgentPage(agent, topics, texts[:MOST], max(0, len(texts) - MOST))


def _describe_session(source: SessionSummary | None) -> str:
    if source is None:
        return "it was deleted from the store since."
    parts = [
        "no project" if source.project_id is None else f"project {source.project_id}",
        counted(source.head.number, "event"),
        f"stored {source.created_at or 'at a time that is not recorded'}",
    ]
    return f"{', '.join(parts)}."


def audit_page(result: results.MemoryAudit, subject: PageSubject) -> str:
    """Return the page of a user's audit log, the latest entry first."""
    entries = result.entries[::-1]
    return _page(
        "audit.html", subject, entries=entries[:MOST], left=max(0, len(entries) - MOST), unreadable=result.unreadable
    )


def wipe_page(result: results.MemoryWiped, subject: PageSubject, proof: str, *, stale: str = "") -> str:
    """Return the page that confirms a wipe; "" as `proof` if memory is empty, `stale`: why a form did nothing."""
    return _page(
        "confirm.html", subject, title="Wipe all of this?", extent=describe_wipe(result), items=[], names=[],
        proof=proof, action="wipe", verb="Wipe", remains=REMAINS, stale=stale,
    )  # fmt: skip


def delete_page(
    result: results.MemoryShown, subject: PageSubject, names: Sequence[str], proof: str, *, stale: str = ""
) -> str:
    """Return the page that confirms the deletion of topics and texts."""
    items = [f"topic {topic.topic}: {topic.summary}" for agent in result.agents for topic in agent.topics]
    items += [f"{text.id}: {text.text}" for agent in result.agents for text in agent.texts]
    extent = f"user {named(result.user)}: {counted(len(items), 'name')}"
    return _page(
        "confirm.html", subject, title="Delete this?", extent=extent, items=items, names=names, proof=proof,
        action="delete", verb="Delete", remains=REMAINS, stale=stale,
    )  # fmt: skip


def wiped_page(result: results.MemoryWiped, subject: PageSubject) -> str:
    """Return the page that reports a wipe."""
    return _page("done.html", subject, title="Wiped", texts=[describe_wipe(result)])


def deleted_page(result: results.MemoryDeleted, subject: PageSubject) -> str:
    """Return the page that reports a deletion."""
    texts = [f"deleted {name}" for name in result.deleted] + [still_in_topic(name) for name in result.still_in]
    return _page("done.html", subject, title="Deleted", texts=texts)


def error_page(message: str, hint: str, store: str) -> str:
    """Return the page of an error."""
    return _page("done.html", PageSubject(store), title="This could not be done", texts=[message, hint])


def fingerprint(result: results.MemoryShown) -> str:
    """Return a digest of memory, to detect that it changed since a question was shown."""
    shown = [replace(agent, last_failure=None) for agent in result.agents]
    return hashlib.sha256(repr(shown).encode("utf-8", "surrogatepass")).hexdigest()


def _page(name: str, subject: PageSubject, **values: object) -> str:
    shared: dict[str, object] = {
        "style": Markup(_style()), "generator": "lore", "link": _link, "raw": escape,  # noqa: S704
        "cut": _cut, "counted": counted, "named": named, "agent_label": agent_label, "format_counts": format_counts,
        "describe_change": describe_change, "describe_owner": describe_owner, "kind_label": kind_label,
    }  # fmt: skip
    return _environment().get_template(name).render(shared | subject._asdict() | values)


@cache
def _style() -> str:
    return resources.files("lore_plugins.memory").joinpath("templates", "style.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("lore_plugins.memory"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_finalized,
    )  # fmt: skip


def _finalized(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _link(page: str, **query: str | None) -> Markup:
    fields = {name: value for name, value in query.items() if value is not None}
    return escape(f"{page}?{urlencode(fields, errors='surrogatepass')}")


def _cut(text: str) -> Markup:
    """Return a text with its line breaks, limited to `LONGEST` characters."""
    shown = "\n".join(map(visible, text.split("\n")))
    rest = len(shown) - LONGEST
    return escape(shown if rest <= 0 else f"{shown[:LONGEST]}… ({rest:,} characters more: export has all)")
