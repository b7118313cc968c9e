"""Write the results of `lore memory` to a terminal; the page uses some of the sentences."""

from __future__ import annotations

from collections.abc import Mapping

from lore.report import Console, count_of, line, quote
from lore_plugins.memory import results
from lore_plugins.memory.identities import SHARED

_NAMES = {
    "facts": ("fact", "facts"), "preferences": ("preference", "preferences"), "decisions": ("decision", "decisions"),
    "tasks": ("task", "tasks"), "open_items": ("open item", "open items"), "topics": ("topic", "topics"),
}  # fmt: skip


def agent_label(agent: str) -> str:
    """Return the label of an agent's memory, or of the shared one."""
    return "shared by agents" if agent == SHARED else f"agent {quote(agent)}"


def format_counts(counts: Mapping[str, int], *, zeros: bool = False) -> str:
    """Return counts by kind, as in "1 fact, 4 topics"."""
    parts = [f"{number:,} {_NAMES[kind][number != 1]}" for kind, number in counts.items() if number or zeros]
    return ", ".join(parts) or "nothing"


def kind_label(kind: str) -> str:
    """Return the singular name of a kind."""
    return _NAMES[kind][0]


def write_users(result: results.MemoryUsers, out: Console) -> None:
    """Write one line a user."""
    for user in result.users:
        agents = ", ".join("agents that share it" if agent == SHARED else quote(agent) for agent in user.agents)
        out.print(line((quote(user.user), "bold"), f"  {format_counts(user.counts)}, by {agents}"))
    out.print(line(f"{count_of(len(result.users), 'user')} remembered in {result.store}"))


def write_memory(result: results.MemoryShown, out: Console) -> None:
    """Write the counts of each agent, its topics and texts, and its last failure."""
    for agent in result.agents:
        waiting = ", with texts that no dream has covered yet" if agent.undreamt else ""
        out.print(line((agent_label(agent.agent), "bold"), f"  {format_counts(agent.counts)}{waiting}"))
        for topic in agent.topics:
            out.print(line(("  " + topic.topic, "cyan"), f"  {topic.summary}{_expiry(topic)}"))
            for content in topic.content.splitlines():
                out.print(line(f"    {content}"))
        for text in agent.texts:
            source = "" if text.session_id is None else f"  (session {text.session_id})"
            out.print(line(("  " + text.id, "green"), f"  {text.text}{source}"))
        _write_failures(agent, out)
    holders = [agent.agent for agent in result.agents if any(agent.counts.values())]
    if not holders:
        out.print(line(f"nothing is remembered of user {quote(result.user)} in {result.store}"))
        return
    is_shared = SHARED in holders
    agents = [count_of(len(holders) - is_shared, "agent")] if len(holders) > is_shared else []
    owners = " and ".join([*agents, *(["shared memory"] if is_shared else [])])
    out.print(line(f"user {quote(result.user)}: {owners} in {result.store}"))


def _expiry(topic: results.RememberedTopic) -> str:
    return "" if topic.expires_at is None else f" ({'expired' if topic.expired else 'until'} {topic.expires_at})"


def _write_failures(agent: results.RememberedAgent, out: Console) -> None:
    failure = agent.last_failure
    if failure is not None:
        text = f"  last failure: {failure.op} at {failure.at}{_source(failure)}: {failure.failure}"
        out.print(line((text, "yellow")))
    if agent.unreadable:
        out.print(line((f"  {count_of(agent.unreadable, 'line')} of its log cannot be read", "yellow")))


def write_deleted(result: results.MemoryDeleted, out: Console) -> None:
    """Write the deleted names, and the topics that still contain a deleted text."""
    for name in result.deleted:
        out.print(line(("deleted ", "bold"), name))
    for name in result.still_in:
        text = f"note: topic {name} still contains it, until the next dream or until the topic is deleted"
        out.print(line((text, "yellow")))


def write_wiped(result: results.MemoryWiped, out: Console) -> None:
    """Write the counts of a wipe."""
    out.print(line(("wiped ", "bold"), describe_wipe(result)))


def wipe_question(result: results.MemoryWiped) -> str:
    """Return the question that confirms a wipe."""
    return f"wipe {describe_wipe(result)}, in {result.store}? It cannot be restored. [y/N] "


def describe_wipe(result: results.MemoryWiped) -> str:
    """Return whose memory a wipe deletes, and how many entries of how many sessions."""
    owner = f"user {quote(result.user)}" + (f", {agent_label(result.agent)}" if result.agent is not None else "")
    entries, sessions = count_of(result.entries, "entry", "entries"), count_of(result.sessions, "session")
    return f"{owner}: {entries} of {sessions} ({format_counts(result.counts, zeros=True)})"


def write_audit(result: results.MemoryAudit, out: Console) -> None:
    """Write one line per entry."""
    for entry in result.entries:
        text = f"{describe_owner(entry)}{_source(entry)}: {describe_change(entry)}"
        out.print(line(f"{entry.at}  ", (f"{entry.op:<8}", "bold"), text))
    out.print(line(f"user {quote(result.user)}: {count_of(len(result.entries), 'entry', 'entries')} in its audit log"))
    if result.unreadable:
        out.print(line((f"{count_of(result.unreadable, 'line')} of the log cannot be read", "yellow")))


def describe_owner(entry: results.AuditEntry) -> str:
    """Return the agent whose memory was changed, and the one that changed it."""
    agent = "all agents" if entry.agent is None else agent_label(entry.agent)
    return agent if entry.by is None else f"{agent}, by {quote(entry.by)}"


def describe_change(entry: results.AuditEntry) -> str:
    """Return the change as counts, and a failure."""
    signed = (("-", entry.removed), ("+", entry.added))
    changes = " ".join(f"{sign}{format_counts(counts)}" for sign, counts in signed if counts)
    unusable = count_of(entry.unusable, "unusable answer") if entry.unusable else ""
    failure = f"failed: {entry.failure}" if entry.failure else ""
    return ", ".join(filter(None, (changes, unusable, failure))) or "nothing"


def _source(entry: results.AuditEntry) -> str:
    if entry.session_id is None:
        return ""
    return f", session {entry.session_id}{' (deleted since)' if entry.session_deleted else ''}"


def write_extracted(result: results.MemoryExtracted, out: Console) -> None:
    """Write the counts of an extraction, or why there was none."""
    owner = f"agent {quote(result.agent)} of user {quote(result.user)}" + (", in the shared memory" * result.shared)
    if result.failure is not None:
        out.print(line(("nothing was remembered ", "yellow"), f"by {owner}: {result.failure}"))
    elif result.skipped is not None:
        out.print(line(f"nothing new from session {result.session_id} by {owner}: {result.skipped}"))
    else:
        removed = f"; {format_counts(result.removed)} replaced or closed" if result.removed else ""
        text = f"{format_counts(result.added)} from session {result.session_id} by {owner}{removed}"
        out.print(line(("remembered ", "bold"), text))


def write_dreamt(result: results.MemoryDreamt, out: Console) -> None:
    """Write the topics that a dream removed and wrote."""
    if result.skipped is not None:
        out.print(line(f"no dream: {result.skipped}"))
        return
    for verb, names in (("superseded ", result.superseded), ("topic ", result.topics)):
        for name in names:
            out.print(line((verb, "bold"), name))
    if result.failure is not None:
        out.print(line((f"fell back to one topic: {result.failure}", "yellow")))
