"""What `lore memory` answers, for a person."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from lore.compaction.memory.identities import SHARED
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
from lore.report.plain import counted, named
from lore.report.terminal import line
from lore.report.timeline import short

_NAMES = {
    "facts": ("fact", "facts"), "preferences": ("preference", "preferences"), "decisions": ("decision", "decisions"),
    "tasks": ("task", "tasks"), "open_items": ("open item", "open items"), "topics": ("topic", "topics"),
}  # fmt: skip


def _holder(agent: str) -> str:
    return "shared by agents" if agent == SHARED else f"agent {named(agent)}"


def _sums(counts: Mapping[str, int], *, zeros: bool = False) -> str:
    parts = [f"{number:,} {_NAMES[kind][number != 1]}" for kind, number in counts.items() if number or zeros]
    return ", ".join(parts) or "nothing"


def write_users(result: MemoryUsers, out: Console) -> None:
    """Write one line a user."""
    for user in result.users:
        agents = ", ".join("agents that share it" if agent == SHARED else named(agent) for agent in user.agents)
        out.print(line((named(user.user), "bold"), f"  {_sums(user.counts)}, by {agents}"))
    out.print(line(f"{counted(len(result.users), 'user')} remembered in {result.store}"))


def write_list(result: MemoryShown, out: Console) -> None:
    """Write how much each agent remembers, its topics, and when it last failed to."""
    for agent in result.agents:
        waiting = ", not all dreamt over yet" if agent.undreamt else ""
        out.print(line((_holder(agent.agent), "bold"), f"  {_sums(agent.counts)}{waiting}"))
        for topic in agent.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {short(topic.summary)}{_ends(topic)}"))
        _odd(agent, out)
    _whose(result, out)


def _ends(topic: RememberedTopic) -> str:
    return "" if topic.expires_at is None else f" ({'expired' if topic.expired else 'until'} {topic.expires_at})"


def _odd(agent: RememberedAgent, out: Console) -> None:
    failed = agent.last_failure
    if failed is not None:
        text = f"  last failure: {failed.op} at {failed.at}{_session(failed)}: {failed.failure}"
        out.print(line((text, "yellow")))
    if agent.unreadable:
        out.print(line((f"  {counted(agent.unreadable, 'line')} of its log cannot be read", "yellow")))


def _whose(result: MemoryShown, out: Console) -> None:
    holding = sum(any(agent.counts.values()) for agent in result.agents)
    if not holding:
        out.print(line(f"nothing is remembered of user {named(result.user)} in {result.store}"))
    else:
        shared = any(agent.agent == SHARED and any(agent.counts.values()) for agent in result.agents)
        alone = [counted(holding - shared, "agent")] if holding > shared else []
        holders = " and ".join([*alone, *(["what agents share"] if shared else [])])
        out.print(line(f"user {named(result.user)}: {holders} in {result.store}"))


def write_shown(result: MemoryShown, out: Console) -> None:
    """Write what is remembered, word for word."""
    for agent in result.agents:
        out.print(line((_holder(agent.agent), "bold")))
        for topic in agent.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {topic.summary}{_ends(topic)}"))
            for content in topic.content.splitlines():
                out.print(line(f"    {content}"))
        for text in agent.texts:
            source = "" if text.session_id is None else f"  (session {text.session_id})"
            out.print(line(("  " + text.id, "green"), f"  {text.text}{source}"))
            if text.conflicts_with:
                out.print(line((f"    in conflict with {', '.join(text.conflicts_with)}", "yellow")))
        _odd(agent, out)
    _whose(result, out)


def write_deleted(result: MemoryDeleted, out: Console) -> None:
    """Write what was taken away, and where it is still to be read."""
    for name in result.deleted:
        out.print(line(("deleted ", "bold"), name))
    for name in result.still_in:
        out.print(line((f"note: topic {name} still says it, until the next dream, or until it is deleted", "yellow")))


def write_wiped(result: MemoryWiped, out: Console) -> None:
    """Write how much was taken away, and from how many sessions; by kind."""
    out.print(line(("wiped ", "bold"), _extent(result)))


def wipe_question(result: MemoryWiped) -> str:
    """Return what a person is asked before it is taken away."""
    return f"wipe {_extent(result)}, in {result.store}? It cannot be restored. [y/N] "


def _extent(result: MemoryWiped) -> str:
    whose = f"user {named(result.user)}" + (f", {_holder(result.agent)}" if result.agent is not None else "")
    entries = f"{result.entries:,} {'entry' if result.entries == 1 else 'entries'}"
    return f"{whose}: {entries} of {counted(result.sessions, 'session')} ({_sums(result.counts, zeros=True)})"


def write_audit(result: MemoryAudit, out: Console) -> None:
    """Write one line an entry."""
    for entry in result.entries:
        changes = " ".join(f"{sign}{_sums(sums)}" for sign, sums in (("-", entry.removed), ("+", entry.added)) if sums)
        again = f"{counted(entry.unusable, 'unusable answer')}" if entry.unusable else ""
        gone = f"dropped {', '.join(entry.dropped)}" if entry.dropped else ""
        text = (
            ", ".join(filter(None, (changes, gone, again, entry.failure and f"failed: {entry.failure}"))) or "nothing"
        )
        agent = "all agents" if entry.agent is None else _holder(entry.agent)
        agent += "" if entry.by is None else f", by {named(entry.by)}"
        out.print(line(f"{entry.at}  ", (f"{entry.op:<8}", "bold"), f"{agent}{_session(entry)}: {text}"))
    entries = f"{len(result.entries):,} {'entry' if len(result.entries) == 1 else 'entries'}"
    out.print(line(f"user {named(result.user)}: {entries} in its audit log"))
    if result.unreadable:
        out.print(line((f"{counted(result.unreadable, 'line')} of the log cannot be read", "yellow")))


def _session(entry: AuditEntry) -> str:
    if entry.session_id is None:
        return ""
    return f", session {entry.session_id}{' (deleted since)' if entry.session_deleted else ''}"


def write_extracted(result: MemoryExtracted, out: Console) -> None:
    """Write how much was learnt, and unlearnt."""
    who = f"agent {named(result.agent)} of user {named(result.user)}" + (", for all that share it" * result.shared)
    if result.failure is not None:
        out.print(line(("nothing was remembered ", "yellow"), f"by {who}: {result.failure}"))
    elif result.skipped is not None:
        out.print(line(f"nothing new from session {result.session_id} by {who}: {result.skipped}"))
    else:
        lost = f"; {_sums(result.removed)} replaced or closed" if result.removed else ""
        text = f"{_sums(result.added)} from session {result.session_id} by {who}{lost}"
        out.print(line(("remembered ", "bold"), text))


def write_dreamt(result: MemoryDreamt, out: Console) -> None:
    """Write the topics that were made, and those that they supersede."""
    if result.skipped is not None:
        out.print(line(f"no dream: {result.skipped}"))
        return
    for verb, names in (("superseded ", result.superseded), ("topic ", result.topics)):
        for name in names:
            out.print(line((verb, "bold"), name))
    if result.failure is not None:
        out.print(line((f"fell back to one topic: {result.failure}", "yellow")))
