"""What is remembered, as HTML: results of `lore memory` to pages without scripts.

In: the results that the commands print. Out: pages, and the policy that allows their one style and nothing else.
Rules: every text passes `visible` (no control characters, no direction marks, no credentials) and is escaped; what a
form or a link gives back is escaped alone, for it names what it names; nothing is loaded, nothing runs.

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
from lore_plugins.memory.report import extent, holder, kind_of, sums_of, what, who

MOST = 500  # texts of an agent, and entries of a log, on one page
LONGEST = 4_000  # characters of a text on a page
STAYS = "The sessions stay: learning from one again may bring it back. The audit log stays, too."


class PageAbout(NamedTuple):
    """What a page is about: the store, whose memory, and notes on what is not shown."""

    store: str
    user: str | None = None
    agent: str | None = None
    notes: Sequence[str] = ()


class MemoryFilter(NamedTuple):
    """What of a user's memory is wanted: texts and topics that hold a text, or what was learnt from a session."""

    text: str = ""
    session: str | None = None


class AgentPage(NamedTuple):
    """What a page shows of an agent's memory; `left` counts the texts that it leaves out."""

    agent: results.RememberedAgent
    topics: list[results.RememberedTopic]
    texts: list[results.RememberedText]
    left: int


def policy() -> str:
    """Return the content policy of every page."""
    style = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; img-src data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


def users_page(result: results.MemoryUsers) -> str:
    """Return the list of users."""
    return _page("users.html", PageAbout(result.store), users=result.users)


def user_page(
    result: results.MemoryShown,
    about: PageAbout,
    narrowed: MemoryFilter,
    source: SessionSummary | None,
    entries: Sequence[results.AuditEntry],
) -> str:
    """Return what is remembered of a user; of a session its `source` (None: deleted since) and its `entries`."""
    found = [_part(agent, narrowed) for agent in result.agents]
    is_narrow = bool(narrowed.text) or narrowed.session is not None
    parts = [part for part in found if part.topics or part.texts or (any(part.agent.counts.values()) and not is_narrow)]
    return _page(
        "user.html", about, agents=parts, wanted=narrowed.text, session=narrowed.session, source=_source(source),
        chosen=is_narrow, entries=list(entries),
    )  # fmt: skip


def _part(agent: results.RememberedAgent, narrowed: MemoryFilter) -> AgentPage:
    wanted = narrowed.text.casefold()
    topics = [
        topic for topic in agent.topics
        if narrowed.session is None and wanted in f"{topic.topic}\n{topic.summary}\n{topic.content}".casefold()
    ]  # fmt: skip
    texts = [
        text for text in agent.texts
        if narrowed.session in (None, text.session_id) and wanted in f"{text.id}\n{text.text}".casefold()
    ]  # fmt: skip
    return AgentPage(agent, topics, texts[:MOST], max(0, len(texts) - MOST))


def _source(source: SessionSummary | None) -> str:
    """Say what the store knows of the session that something was learnt from."""
    if source is None:
        return "it was deleted from the store since."
    parts = [
        "no project" if source.project_id is None else f"project {source.project_id}",
        counted(source.head.number, "event"),
        f"stored {source.created_at or 'at a time that is not recorded'}",
    ]
    return f"{', '.join(parts)}."


def audit_page(result: results.MemoryAudit, about: PageAbout) -> str:
    """Return the audit log of a user, the latest entry first."""
    entries = result.entries[::-1]
    return _page(
        "audit.html", about, entries=entries[:MOST], left=max(0, len(entries) - MOST), unreadable=result.unreadable
    )


def wipe_page(result: results.MemoryWiped, about: PageAbout, proof: str, *, stale: str = "") -> str:
    """Return the question whether to wipe; an empty `proof`: there is nothing. `stale` says why nothing was done."""
    return _page(
        "confirm.html", about, title="Wipe all of this?", extent=extent(result), items=[], names=[], proof=proof,
        action="wipe", verb="Wipe", stays=STAYS, stale=stale,
    )  # fmt: skip


def delete_page(
    result: results.MemoryShown, about: PageAbout, names: Sequence[str], proof: str, *, stale: str = ""
) -> str:
    """Return the question whether to delete what is named."""
    items = [f"topic {topic.topic}: {topic.summary}" for agent in result.agents for topic in agent.topics]
    items += [f"{text.id}: {text.text}" for agent in result.agents for text in agent.texts]
    return _page(
        "confirm.html", about, title="Delete this?", extent=f"user {named(result.user)}: {counted(len(items), 'name')}",
        items=items, names=names, proof=proof, action="delete", verb="Delete", stays=STAYS, stale=stale,
    )  # fmt: skip


def wiped_page(result: results.MemoryWiped, about: PageAbout) -> str:
    """Return what was wiped."""
    return _page("done.html", about, title="Wiped", texts=[extent(result)])


def deleted_page(result: results.MemoryDeleted, about: PageAbout) -> str:
    """Return what was deleted, and where it is still to be read."""
    texts = [f"deleted {name}" for name in result.deleted]
    texts += [f"topic {name} still says it, until the next dream, or until it is deleted" for name in result.still_in]
    return _page("done.html", about, title="Deleted", texts=texts)


def error_page(message: str, hint: str, store: str) -> str:
    """Return why something could not be done."""
    return _page(
        "done.html", PageAbout(store), title="This could not be done", texts=[message, *([hint] if hint else [])]
    )


def fingerprint(result: results.MemoryShown) -> str:
    """Return a digest of what is remembered, by which a question is known to be about what is still there."""
    shown = [replace(agent, last_failure=None) for agent in result.agents]
    return hashlib.sha256(repr(shown).encode("utf-8", "surrogatepass")).hexdigest()


def _page(name: str, about: PageAbout, **values: object) -> str:
    shared: dict[str, object] = {
        "style": Markup(_style()), "generator": "lore", "link": _link, "raw": escape,  # noqa: S704
        "cut": _cut, "counted": counted, "named": named, "holder": holder, "sums_of": sums_of, "what": what, "who": who,
        "kind_of": kind_of,
    }  # fmt: skip
    return _environment().get_template(name).render(shared | about._asdict() | values)


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
    given = {name: value for name, value in query.items() if value is not None}
    return escape(f"{page}?{urlencode(given, errors='surrogatepass')}")


def _cut(text: str) -> Markup:
    """Return a text, its lines as they are, as much of it as a page shows."""
    shown = "\n".join(map(visible, text.split("\n")))
    rest = len(shown) - LONGEST
    return escape(shown if rest <= 0 else f"{shown[:LONGEST]}… ({rest:,} characters more: export has all)")
