"""What `lore memory` answers, for a person; the sentences that its page shares."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from lore.report import counted, line, named, short
from lore_plugins.memory import results
from lore_plugins.memory.identities import SHARED

_NAMES = {
    "facts": ("fact", "facts"), "preferences": ("preference", "preferences"), "decisions": ("decision", "decisions"),
    "tasks": ("task", "tasks"), "open_items": ("open item", "open items"), "topics": ("topic", "topics"),
}  # fmt: skip


def holder(agent: str) -> str:
    """Return whose memory it is: an agent's, or that of all who share one."""
    return "shared by agents" if agent == SHARED else f"agent {named(agent)}"


def sums_of(counts: Mapping[str, int], *, zeros: bool = False) -> str:
    """Return how much it is, by kind."""
    parts = [f"{number:,} {_NAMES[kind][number != 1]}" for kind, number in counts.items() if number or zeros]
    return ", ".join(parts) or "nothing"


def kind_of(kind: str) -> str:
    """Return what a text of a kind is called."""
    return _NAMES[kind][0]


def write_users(result: results.MemoryUsers, out: Console) -> None:
    """Write one line a user."""
    for user in result.users:
        agents = ", ".join("agents that share it" if agent == SHARED else named(agent) for agent in user.agents)
        out.print(line((named(user.user), "bold"), f"  {sums_of(user.counts)}, by {agents}"))
    out.print(line(f"{counted(len(result.users), 'user')} remembered in {result.store}"))


def write_list(result: results.MemoryShown, out: Console) -> None:
    """Write how much each agent remembers, its topics, and when it last failed to."""
    for agent in result.agents:
        waiting = ", not all dreamt over yet" if agent.undreamt else ""
        out.print(line((holder(agent.agent), "bold"), f"  {sums_of(agent.counts)}{waiting}"))
        for topic in agent.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {short(topic.summary)}{_ends(topic)}"))
        _odd(agent, out)
    _whose(result, out)


def _ends(topic: results.RememberedTopic) -> str:
    return "" if topic.expires_at is None else f" ({'expired' if topic.expired else 'until'} {topic.expires_at})"


def _odd(agent: results.RememberedAgent, out: Console) -> None:
    failed = agent.last_failure
    if failed is not None:
        text = f"  last failure: {failed.op} at {failed.at}{_session(failed)}: {failed.failure}"
        out.print(line((text, "yellow")))
    if agent.unreadable:
        out.print(line((f"  {counted(agent.unreadable, 'line')} of its log cannot be read", "yellow")))


def _whose(result: results.MemoryShown, out: Console) -> None:
    holding = sum(any(agent.counts.values()) for agent in result.agents)
    if not holding:
        out.print(line(f"nothing is remembered of user {named(result.user)} in {result.store}"))
    else:
        shared = any(agent.agent == SHARED and any(agent.counts.values()) for agent in result.agents)
        alone = [counted(holding - shared, "agent")] if holding > shared else []
        holders = " and ".join([*alone, *(["what agents share"] if shared else [])])
        out.print(line(f"user {named(result.user)}: {holders} in {result.store}"))


def write_shown(result: results.MemoryShown, out: Console) -> None:
    """Write what is remembered, word for word."""
    for agent in result.agents:
        out.print(line((holder(agent.agent), "bold")))
        for topic in agent.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {topic.summary}{_ends(topic)}"))
            for content in topic.content.splitlines():
                out.print(line(f"    {content}"))
        for text in agent.texts:
            source = "" if text.session_id is None else f"  (session {text.session_id})"
            out.print(line(("  " + text.id, "green"), f"  {text.text}{source}"))
        _odd(agent, out)
    _whose(result, out)


def write_deleted(result: results.MemoryDeleted, out: Console) -> None:
    """Write what was taken away, and where it is still to be read."""
    for name in result.deleted:
        out.print(line(("deleted ", "bold"), name))
    for name in result.still_in:
        out.print(line((f"note: topic {name} still says it, until the next dream, or until it is deleted", "yellow")))


def write_wiped(result: results.MemoryWiped, out: Console) -> None:
    """Write how much was taken away, and from how many sessions; by kind."""
    out.print(line(("wiped ", "bold"), extent(result)))


def wipe_question(result: results.MemoryWiped) -> str:
    """Return what a person is asked before it is taken away."""
    return f"wipe {extent(result)}, in {result.store}? It cannot be restored. [y/N] "


def extent(result: results.MemoryWiped) -> str:
    """Return whose memory a wipe takes away, and how much of it."""
    whose = f"user {named(result.user)}" + (f", {holder(result.agent)}" if result.agent is not None else "")
    entries, sessions = counted(result.entries, "entry", "entries"), counted(result.sessions, "session")
    return f"{whose}: {entries} of {sessions} ({sums_of(result.counts, zeros=True)})"


def write_audit(result: results.MemoryAudit, out: Console) -> None:
    """Write one line an entry."""
    for entry in result.entries:
        out.print(line(f"{entry.at}  ", (f"{entry.op:<8}", "bold"), f"{who(entry)}{_session(entry)}: {what(entry)}"))
    out.print(line(f"user {named(result.user)}: {counted(len(result.entries), 'entry', 'entries')} in its audit log"))
    if result.unreadable:
        out.print(line((f"{counted(result.unreadable, 'line')} of the log cannot be read", "yellow")))


def who(entry: results.AuditEntry) -> str:
    """Return whose memory was changed, and by whom."""
    agent = "all agents" if entry.agent is None else holder(entry.agent)
    return agent if entry.by is None else f"{agent}, by {named(entry.by)}"


def what(entry: results.AuditEntry) -> str:
    """Return what was done to it, in numbers and names of topics."""
    changes = " ".join(f"{sign}{sums_of(sums)}" for sign, sums in (("-", entry.removed), ("+", entry.added)) if sums)
    again = counted(entry.unusable, "unusable answer") if entry.unusable else ""
    gone = f"dropped {', '.join(entry.dropped)}" if entry.dropped else ""
    failed = f"failed: {entry.failure}" if entry.failure else ""
    return ", ".join(filter(None, (changes, gone, again, failed))) or "nothing"


def _session(entry: results.AuditEntry) -> str:
    if entry.session_id is None:
        return ""
    return f", session {entry.session_id}{' (deleted since)' if entry.session_deleted else ''}"


def write_extracted(result: results.MemoryExtracted, out: Console) -> None:
    """Write how much was learnt, and unlearnt."""
    who = f"agent {named(result.agent)} of user {named(result.user)}" + (", for all that share it" * result.shared)
    if result.failure is not None:
        out.print(line(("nothing was remembered ", "yellow"), f"by {who}: {result.failure}"))
    elif result.skipped is not None:
        out.print(line(f"nothing new from session {result.session_id} by {who}: {result.skipped}"))
    else:
        lost = f"; {sums_of(result.removed)} replaced or closed" if result.removed else ""
        text = f"{sums_of(result.added)} from session {result.session_id} by {who}{lost}"
        out.print(line(("remembered ", "bold"), text))


def write_dreamt(result: results.MemoryDreamt, out: Console) -> None:
    """Write the topics that were made, and those that they supersede."""
    if result.skipped is not None:
        out.print(line(f"no dream: {result.skipped}"))
        return
    for verb, names in (("superseded ", result.superseded), ("topic ", result.topics)):
        for name in names:
            out.print(line((verb, "bold"), name))
    if result.failure is not None:
        out.print(line((f"fell back to one topic: {result.failure}", "yellow")))
