"""What is remembered: of whom, by which agents, what exactly, and who changed it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from lore.compaction.memory import audit
from lore.compaction.memory.buckets import owners, read
from lore.compaction.memory.identities import Bucket, good_agent, good_user
from lore.compaction.memory.records import KINDS, Known, Remembered, Topic, has_expired, id_of
from lore.errors import LoreError
from lore.model.remembered import (
    AuditEntry,
    MemoryAudit,
    MemoryShown,
    MemoryUsers,
    RememberedAgent,
    RememberedText,
    RememberedTopic,
    RememberedUser,
)
from lore.store.base import Store


def users(store: Store) -> MemoryUsers:
    """Return of whom something is remembered. Costs a list of the store's sessions, and all that is remembered."""
    found: list[RememberedUser] = []
    for user, agents in owners(store).items():
        counts = {agent: read(store, Bucket(user, agent)).counts() for agent in agents}
        sums = {kind: sum(one[kind] for one in counts.values()) for kind in KINDS}
        if any(sums.values()):
            holding = [agent for agent, one in counts.items() if any(one.values())]
            found.append(RememberedUser(user=user, agents=holding, counts=sums))
    return MemoryUsers(store=store.url, users=found)


def everything(store: Store, user: str | None, agent: str | None, *, now: str) -> MemoryShown:
    """Return all that is remembered of a user, or by one agent of the user's, what has expired too."""
    known = buckets_of(store, user, agent)
    named = good_user(user)
    log = audit.log_of(store, named)
    there = {one.session_id for one in store.list()} if log.entries else set[str]()
    agents = [
        _agent(bucket.agent, one, audit.last_failure(log, bucket.agent), there, now) for bucket, one in known.items()
    ]
    return MemoryShown(store=store.url, user=named, agents=agents)


def buckets_of(store: Store, user: str | None, agent: str | None) -> dict[Bucket, Known]:
    """Return what each agent that is meant remembers; an agent that is named is there, whatever it remembers."""
    named = good_user(user)
    agents = owners(store).get(named, ()) if agent is None else (good_agent(agent),)
    return {Bucket(named, one): read(store, Bucket(named, one)) for one in agents}


def listed(shown: MemoryShown) -> MemoryShown:
    """Leave out what is long: texts, and what topics say."""
    short = [
        msgspec.structs.replace(
            one, texts=[], topics=[msgspec.structs.replace(topic, content="") for topic in one.topics]
        )
        for one in shown.agents
    ]
    return msgspec.structs.replace(shown, agents=short)


def named(shown: MemoryShown, names: Sequence[str]) -> MemoryShown:
    """Return only the topics and texts of these names, and the agents that have them; raises LoreError for another."""
    check(names, [name for one in shown.agents for name in (*_topics(one), *(text.id for text in one.texts))])
    agents = [
        msgspec.structs.replace(
            one,
            topics=[topic for topic in one.topics if topic.topic in names],
            texts=[text for text in one.texts if text.id in names],
        )
        for one in shown.agents
    ]
    return msgspec.structs.replace(shown, agents=[one for one in agents if one.topics or one.texts])


def check(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise LoreError for a name that is not known."""
    there = set(known)
    for name in names:
        if name not in there:
            raise LoreError(f"nothing is remembered as {name!r}", hint="`lore memory show` prints the names")


def _topics(one: RememberedAgent) -> list[str]:
    return [topic.topic for topic in one.topics]


def _agent(agent: str, known: Known, failure: audit.Entry | None, there: set[str], now: str) -> RememberedAgent:
    return RememberedAgent(
        agent=agent,
        counts=known.counts(),
        undreamt=known.is_fresh,
        topics=[_topic(known.topics[name], now) for name in sorted(known.topics)],
        texts=[_text(known.entries[key]) for key in sorted(known.entries, key=lambda key: KINDS.index(key[0]))],
        last_failure=None if failure is None else _entry(failure, there),
        unreadable=known.odd,
    )


def _topic(one: Topic, now: str) -> RememberedTopic:
    return RememberedTopic(
        topic=one.topic, summary=one.summary, content=one.content, at=one.at, expires_at=one.expires_at,
        expired=has_expired(one, now),
    )  # fmt: skip


def _text(one: Remembered) -> RememberedText:
    name = id_of(one.section, one.text)
    return RememberedText(id=name, kind=one.section, text=one.text, at=one.at, session_id=one.session_id)


def audited(store: Store, user: str | None, agent: str | None = None) -> MemoryAudit:
    """Return who changed what is remembered of a user; each entry says whether its session was deleted since."""
    named = good_user(user)
    wanted = None if agent is None else good_agent(agent)
    log = audit.log_of(store, named)
    there = {one.session_id for one in store.list()}
    entries = [_entry(one, there) for one in log.entries if wanted in (None, one.agent)]
    return MemoryAudit(store=store.url, user=named, entries=entries, unreadable=log.odd)


def _entry(one: audit.Entry, there: set[str]) -> AuditEntry:
    return AuditEntry(
        at=one.at, op=one.op, agent=one.agent, session_id=one.session_id,
        session_deleted=None if one.session_id is None else one.session_id not in there,
        removed=dict(one.removed), added=dict(one.added), failure=one.failure,
    )  # fmt: skip
