"""What `lore memory` answers, for a person."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from lore.model.results_store import (
    AuditEntry,
    MemoryAudit,
    MemoryDeleted,
    MemoryDreamt,
    MemoryExtracted,
    MemoryShown,
    MemoryUsers,
    MemoryWiped,
    RememberedAgent,
    RememberedTopic,
)
from lore.report.console import line
from lore.report.plain import named
from lore.report.terminal import counted
from lore.report.timeline import short

_NAMES = {
    "facts": ("fact", "facts"), "preferences": ("preference", "preferences"), "decisions": ("decision", "decisions"),
    "tasks": ("task", "tasks"), "open_items": ("open item", "open items"), "topics": ("topic", "topics"),
}  # fmt: skip


def _sums(counts: Mapping[str, int], *, zeros: bool = False) -> str:
    parts = [f"{number:,} {_NAMES[kind][number != 1]}" for kind, number in counts.items() if number or zeros]
    return ", ".join(parts) or "nothing"


def write_users(result: MemoryUsers, out: Console) -> None:
    """Write one line a user."""
    for one in result.users:
        agents = ", ".join(map(named, one.agents))
        out.print(line((named(one.user), "bold"), f"  {_sums(one.counts)}, by {agents}"))
    out.print(line(f"{counted(len(result.users), 'user')} remembered in {result.store}"))


def write_list(result: MemoryShown, out: Console) -> None:
    """Write how much each agent remembers, its topics, and when it last failed to."""
    for one in result.agents:
        waiting = ", not all dreamt over yet" if one.undreamt else ""
        out.print(line(("agent " + named(one.agent), "bold"), f"  {_sums(one.counts)}{waiting}"))
        for topic in one.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {short(topic.summary)}{_ends(topic)}"))
        _odd(one, out)
    _whose(result, out)


def _ends(topic: RememberedTopic) -> str:
    if topic.expires_at is None:
        return ""
    return f" ({'expired' if topic.expired else 'until'} {topic.expires_at})"


def _odd(one: RememberedAgent, out: Console) -> None:
    failed = one.last_failure
    if failed is not None:
        said = f"  last failure: {failed.op} at {failed.at}{_session(failed)}: {failed.failure}"
        out.print(line((said, "yellow")))
    if one.unreadable:
        out.print(line((f"  {counted(one.unreadable, 'line')} of its log cannot be read", "yellow")))


def _whose(result: MemoryShown, out: Console) -> None:
    holding = [one for one in result.agents if any(one.counts.values())]
    if not holding:
        out.print(line(f"nothing is remembered of user {named(result.user)} in {result.store}"))
    else:
        out.print(line(f"user {named(result.user)}: {counted(len(holding), 'agent')} in {result.store}"))


def write_shown(result: MemoryShown, out: Console) -> None:
    """Write what is remembered, word for word."""
    for one in result.agents:
        out.print(line(("agent " + named(one.agent), "bold")))
        for topic in one.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {topic.summary}{_ends(topic)}"))
            for said in topic.content.splitlines():
                out.print(line(f"    {said}"))
        for text in one.texts:
            source = "" if text.session_id is None else f"  (session {text.session_id})"
            out.print(line(("  " + text.id, "green"), f"  {text.text}{source}"))
        _odd(one, out)
    _whose(result, out)


def write_deleted(result: MemoryDeleted, out: Console) -> None:
    """Write what was taken away, and where it is still to be read."""
    for name in result.deleted:
        out.print(line(("deleted ", "bold"), name))
    for name in result.still_in:
        out.print(line((f"note: topic {name} still says it, until the next dream, or until it is deleted", "yellow")))


def write_wiped(result: MemoryWiped, out: Console) -> None:
    """Write how much was taken away, by kind."""
    whose = f"user {named(result.user)}" + (f", agent {named(result.agent)}" if result.agent is not None else "")
    out.print(line(("wiped ", "bold"), f"{whose}: {_sums(result.counts, zeros=True)}"))


def write_audit(result: MemoryAudit, out: Console) -> None:
    """Write one line an entry."""
    for one in result.entries:
        changes = [f"{sign}{_sums(counts)}" for sign, counts in (("-", one.removed), ("+", one.added)) if counts]
        said = ", ".join(filter(None, (" ".join(changes), one.failure and f"failed: {one.failure}")))
        agent = "all agents" if one.agent is None else f"agent {named(one.agent)}"
        out.print(line(f"{one.at}  ", (f"{one.op:<8}", "bold"), f"{agent}{_session(one)}: {said or 'nothing'}"))
    entries = f"{len(result.entries):,} {'entry' if len(result.entries) == 1 else 'entries'}"
    out.print(line(f"user {named(result.user)}: {entries} in its audit log"))
    if result.unreadable:
        out.print(line((f"{counted(result.unreadable, 'line')} of the log cannot be read", "yellow")))


def _session(one: AuditEntry) -> str:
    if one.session_id is None:
        return ""
    return f", session {one.session_id}{' (deleted since)' if one.session_deleted else ''}"


def write_extracted(result: MemoryExtracted, out: Console) -> None:
    """Write how much was learnt, and unlearnt."""
    who = f"agent {named(result.agent)} of user {named(result.user)}"
    if result.failure is not None:
        out.print(line(("nothing was remembered ", "yellow"), f"by {who}: {result.failure}"))
        return
    if result.skipped is not None:
        out.print(line(f"nothing new from session {result.session_id} by {who}: {result.skipped}"))
        return
    lost = f"; {_sums(result.removed)} replaced or closed" if result.removed else ""
    out.print(line(("remembered ", "bold"), f"{_sums(result.added)} from session {result.session_id} by {who}{lost}"))


def write_dreamt(result: MemoryDreamt, out: Console) -> None:
    """Write the topics that were made, and those that they supersede."""
    if result.skipped is not None:
        out.print(line(f"no dream: {result.skipped}"))
        return
    for name in result.superseded:
        out.print(line(("superseded ", "bold"), name))
    for name in result.topics:
        out.print(line(("topic ", "bold"), name))
    if result.failure is not None:
        out.print(line((f"fell back to one topic: {result.failure}", "yellow")))
