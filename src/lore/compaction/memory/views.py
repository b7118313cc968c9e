"""What is remembered: of whom, by which agents, what exactly, and who changed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from lore.compaction.memory import audit
from lore.compaction.memory.buckets import change, owners, read, wipe
from lore.compaction.memory.identities import Bucket, good_agent, good_user
from lore.compaction.memory.records import (
    KINDS,
    Extracted,
    Forgotten,
    Known,
    Record,
    Remembered,
    Superseded,
    Topic,
    has_expired,
    id_of,
)
from lore.errors import LoreError
from lore.model.remembered import (
    AuditEntry,
    MemoryAudit,
    MemoryDeleted,
    MemoryShown,
    MemoryUsers,
    MemoryWiped,
    RememberedAgent,
    RememberedText,
    RememberedTopic,
    RememberedUser,
)
from lore.store.base import Store, Tell


def users(store: Store) -> MemoryUsers:
    """Return of whom something is remembered. Costs a list of the store's sessions, and all that is remembered."""
    found: list[RememberedUser] = []
    for user, agents in owners(store).items():
        counts = {agent: read(store, Bucket(user, agent)).counts() for agent in agents}
        sums = {kind: sum(kinds[kind] for kinds in counts.values()) for kind in KINDS}
        if any(sums.values()):
            holding = [agent for agent, kinds in counts.items() if any(kinds.values())]
            found.append(RememberedUser(user=user, agents=holding, counts=sums))
    return MemoryUsers(store=store.url, users=found)


def everything(store: Store, user: str | None, agent: str | None, *, now: str) -> MemoryShown:
    """Return all that is remembered of a user, or by one agent of the user's, what has expired too."""
    known = buckets_of(store, user, agent)
    named = good_user(user)
    log = audit.log_of(store, named)
    there = {summary.session_id for summary in store.list()} if log.entries else set[str]()
    agents = [
        _agent(bucket.agent, memory, audit.last_failure(log, bucket.agent), there, now)
        for bucket, memory in known.items()
    ]
    return MemoryShown(store=store.url, user=named, agents=agents)


def buckets_of(store: Store, user: str | None, agent: str | None) -> dict[Bucket, Known]:
    """Return what each agent that is meant remembers; an agent that is named is there, whatever it remembers."""
    named = good_user(user)
    agents = owners(store).get(named, ()) if agent is None else (good_agent(agent),)
    return {Bucket(named, name): read(store, Bucket(named, name)) for name in agents}


def listed(shown: MemoryShown) -> MemoryShown:
    """Leave out what is long: texts, and what topics say."""
    short = [
        msgspec.structs.replace(
            agent, texts=[], topics=[msgspec.structs.replace(topic, content="") for topic in agent.topics]
        )
        for agent in shown.agents
    ]
    return msgspec.structs.replace(shown, agents=short)


def named(shown: MemoryShown, names: Sequence[str]) -> MemoryShown:
    """Return only the topics and texts of these names, and the agents that have them; raises LoreError for another."""
    check(names, [name for agent in shown.agents for name in (*_topics(agent), *(text.id for text in agent.texts))])
    agents = [
        msgspec.structs.replace(
            agent,
            topics=[topic for topic in agent.topics if topic.topic in names],
            texts=[text for text in agent.texts if text.id in names],
        )
        for agent in shown.agents
    ]
    return msgspec.structs.replace(shown, agents=[agent for agent in agents if agent.topics or agent.texts])


def check(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise LoreError for a name that is not known."""
    there = set(known)
    for name in names:
        if name not in there:
            raise LoreError(f"nothing is remembered as {name!r}", hint="`lore memory show` prints the names")


def _topics(agent: RememberedAgent) -> list[str]:
    return [topic.topic for topic in agent.topics]


def _agent(agent: str, known: Known, failure: audit.AuditRecord | None, there: set[str], now: str) -> RememberedAgent:
    return RememberedAgent(
        agent=agent,
        counts=known.counts(),
        undreamt=known.is_fresh,
        topics=[_topic(known.topics[name], now) for name in sorted(known.topics)],
        texts=[_text(known.entries[key]) for key in sorted(known.entries, key=lambda key: KINDS.index(key[0]))],
        last_failure=None if failure is None else _entry(failure, there),
        unreadable=known.odd,
    )


def _topic(topic: Topic, now: str) -> RememberedTopic:
    return RememberedTopic(
        topic=topic.topic, summary=topic.summary, content=topic.content, at=topic.at, expires_at=topic.expires_at,
        expired=has_expired(topic, now),
    )  # fmt: skip


def _text(text: Remembered) -> RememberedText:
    name = id_of(text.section, text.text)
    return RememberedText(id=name, kind=text.section, text=text.text, at=text.at, session_id=text.session_id)


def audited(store: Store, user: str | None, agent: str | None = None) -> MemoryAudit:
    """Return who changed what is remembered of a user; each entry says whether its session was deleted since."""
    named = good_user(user)
    wanted = None if agent is None else good_agent(agent)
    log = audit.log_of(store, named)
    there = {summary.session_id for summary in store.list()}
    entries = [_entry(entry, there) for entry in log.entries if wanted in (None, entry.agent)]
    return MemoryAudit(store=store.url, user=named, entries=entries, unreadable=log.odd)


def _entry(entry: audit.AuditRecord, there: set[str]) -> AuditEntry:
    return AuditEntry(
        at=entry.at, op=entry.op, agent=entry.agent, session_id=entry.session_id,
        session_deleted=None if entry.session_id is None else entry.session_id not in there,
        removed=dict(entry.removed), added=dict(entry.added), failure=entry.failure,
    )  # fmt: skip


def deleted(
    store: Store, names: Sequence[str], user: str | None, agent: str | None, *, now: str, tell: Tell
) -> MemoryDeleted:  # fmt: skip
    """Take away topics and texts by their names, of every agent that is meant; nothing where one is unknown.

    Nothing of it stays in the store's log. Each agent's memory is one transaction.
    """
    known = buckets_of(store, user, agent)
    check(names, [name for memory in known.values() for name in _names(memory)])
    counts, still = dict.fromkeys(KINDS, 0), dict[str, None]()
    for bucket, memory in known.items():
        if not set(names) & set(_names(memory)):
            continue
        gone = [key for key in memory.entries if id_of(*key) in names]
        topics = [name for name in memory.topics if name in names]
        after = change(store, bucket, lambda held: _without(held, names, now), at=now, purge=True)
        removed = _sums(gone, topics)
        for kind, number in removed.items():
            counts[kind] += number
        still.update(dict.fromkeys(_still(after, [text for _, text in gone])))
        _note(
            store,
            bucket.user,
            audit.AuditRecord(at=now, op="delete", agent=bucket.agent, removed=audit.some(removed)),
            tell,
        )
    return MemoryDeleted(
        store=store.url, user=good_user(user), deleted=list(dict.fromkeys(names)), counts=counts, still_in=list(still)
    )


def _names(known: Known) -> list[str]:
    return [*known.topics, *(id_of(*key) for key in known.entries)]


def _without(known: Known, names: Sequence[str], now: str) -> tuple[Record, ...]:
    texts = [Forgotten(section=key[0], text=key[1], at=now) for key in known.entries if id_of(*key) in names]
    topics = [Superseded(topic=name, at=now) for name in known.topics if name in names]
    return (*texts, *topics, *((Extracted(at=now),) if texts else ()))  # so that the next dream leaves it out


def _sums(texts: Sequence[tuple[str, str]], topics: Sequence[str]) -> dict[str, int]:
    sums = dict.fromkeys(KINDS, 0)
    for section, _ in texts:
        sums[section] += 1
    return {**sums, "topics": len(topics)}


def _still(known: Known, texts: Sequence[str]) -> list[str]:
    return [name for name, topic in sorted(known.topics.items()) if any(text in topic.content for text in texts)]


def wiped(store: Store, user: str | None, agent: str | None, *, now: str, tell: Tell) -> MemoryWiped:
    """Take away all that is remembered of a user, or by one agent; a second time there is nothing left to take."""
    named = good_user(user)
    scope = None if agent is None else good_agent(agent)
    found = wipe(store, named, scope)
    if any(found.counts.values()):
        _note(store, named, audit.AuditRecord(at=now, op="wipe", agent=scope, removed=audit.some(found.counts)), tell)
    return MemoryWiped(store=store.url, user=named, agent=scope, counts=found.counts, agents=found.agents)


def _note(store: Store, user: str, entry: audit.AuditRecord, tell: Tell) -> None:
    """Audit what is done already; where that fails it is told, for it is done."""
    try:
        audit.note(store, user, entry)
    except LoreError as error:
        tell(f"the audit log of user {user} has no entry of this {entry.op}: {error.message}")
