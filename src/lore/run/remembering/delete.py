"""Take away what is remembered: what is named, or all of it."""

from __future__ import annotations

from collections.abc import Sequence

from lore.compaction.memory import audit
from lore.compaction.memory.buckets import change, wipe
from lore.compaction.memory.identities import good_agent, good_user
from lore.compaction.memory.records import KINDS, Extracted, Forgotten, Known, Record, Superseded, id_of
from lore.errors import LoreError
from lore.model.remembered import MemoryDeleted, MemoryWiped
from lore.run.remembering.looking import buckets_of, check
from lore.store.base import Store, Tell


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
