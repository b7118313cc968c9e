"""The operations of `lore memory`: read, delete and wipe memory, read the audit log, extract, dream."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import convert
from msgspec.structs import asdict, replace

from lore.compaction import NESTED, Compaction, is_nested
from lore.config import MemorySettings
from lore.errors import LoreError
from lore.fold import Folding
from lore.model import FoldedSession as State
from lore.model import SessionStarted
from lore.session import Session
from lore.store import Store, Tell, ignore, is_reserved
from lore.store import now as now_utc
from lore_plugins.memory import audit, buckets, identities, results
from lore_plugins.memory.agent import NOTHING_NEW, AgentMemory, configured_model


def list_users(store: Store) -> results.MemoryUsers:
    """Return the users with memory. Costs a list of the store's sessions, and reading all memory."""
    users: list[results.RememberedUser] = []
    for user, agents in buckets.agents_by_user(store).items():
        counts = {agent: buckets.read_bucket(store, identities.MemoryBucket(user, agent)).counts() for agent in agents}
        holders = [agent for agent, kinds in counts.items() if any(kinds.values())]
        sums = {kind: sum(kinds[kind] for kinds in counts.values()) for kind in buckets.KINDS}
        if holders:
            users.append(results.RememberedUser(user=user, agents=holders, counts=sums))
    return results.MemoryUsers(store=store.url, users=users)


def read_memory(
    store: Store, user: str | None, agent: str | None, *, now: str, tell: Tell = ignore
) -> results.MemoryShown:
    """Return all memory of a user, or one agent's part of it, expired topics included."""
    memories = _read_buckets(store, user, agent)
    valid_user = identities.valid_user(user)
    log = audit.read_audit_log(store, valid_user)
    session_ids = {summary.session_id for summary in store.list()} if log.entries else set[str]()
    agents = [
        _remembered_agent(owner.agent, memory, audit.last_failure(log, owner.agent), session_ids, now)
        for owner, memory in memories.items()
    ]
    _report_shared(store, valid_user, agent, "is not shown", tell)
    return results.MemoryShown(store=store.url, user=valid_user, agents=agents)


def _report_shared(store: Store, user: str, agent: str | None, fate: str, tell: Tell) -> None:
    """If one agent was named and the shared memory is not empty, report that it is not included."""
    if agent not in (None, identities.SHARED) and any(
        buckets.read_bucket(store, identities.MemoryBucket(user, identities.SHARED)).counts().values()
    ):
        tell(f"the memory of user {user} that agents share {fate}; select it with --agent '{identities.SHARED}'")


def _read_buckets(
    store: Store, user: str | None, agent: str | None
) -> dict[identities.MemoryBucket, buckets.KnownMemory]:
    """Return the user's buckets, or the one of the agent, which may be empty."""
    valid_user = identities.valid_user(user)
    scope = identities.valid_agent_filter(agent)
    agents = buckets.agents_by_user(store).get(valid_user, ()) if scope is None else (scope,)
    owners = [identities.MemoryBucket(valid_user, name) for name in agents]
    return {owner: buckets.read_bucket(store, owner) for owner in owners}


def select_names(memory: results.MemoryShown, names: Sequence[str]) -> results.MemoryShown:
    """Return only the topics and texts with these names; raise LoreError for an unknown name."""
    known_names, agents = set[str](), list[results.RememberedAgent]()
    for agent in memory.agents:
        known_names |= {*(topic.topic for topic in agent.topics), *(text.id for text in agent.texts)}
        topics = [topic for topic in agent.topics if topic.topic in names]
        texts = [text for text in agent.texts if text.id in names]
        if topics or texts:
            agents.append(replace(agent, topics=topics, texts=texts))
    _require_known(names, known_names)
    return replace(memory, agents=agents)


def _require_known(names: Iterable[str], known_names: set[str]) -> None:
    unknown = next((name for name in names if name not in known_names), None)
    if unknown is not None:
        raise LoreError(f"nothing is remembered as {unknown!r}", hint="`lore memory show` prints the names")


def _remembered_agent(
    agent: str, memory: buckets.KnownMemory, failure: audit.AuditRecord | None, session_ids: set[str], now: str
) -> results.RememberedAgent:
    topics = [
        convert({**asdict(topic), "expired": buckets.has_expired(topic, now)}, results.RememberedTopic)
        for _, topic in sorted(memory.topics.items())
    ]
    entries = sorted(memory.entries.values(), key=lambda entry: buckets.KINDS.index(entry.section))
    texts = [
        results.RememberedText(
            id=buckets.entry_id(entry.section, entry.text), kind=entry.section, text=entry.text, at=entry.at,
            session_id=entry.session_id,
        )
        for entry in entries
    ]  # fmt: skip
    return results.RememberedAgent(
        agent=agent, counts=memory.counts(), undreamt=memory.is_fresh, topics=topics, texts=texts,
        last_failure=None if failure is None else _audit_entry(failure, session_ids),
        unreadable=memory.unreadable,
    )  # fmt: skip


def read_audit(store: Store, user: str | None, agent: str | None = None) -> results.MemoryAudit:
    """Return a user's audit log, with whether the session of each entry was deleted since."""
    valid_user = identities.valid_user(user)
    scope = identities.valid_agent_filter(agent)
    log = audit.read_audit_log(store, valid_user)
    session_ids = {summary.session_id for summary in store.list()}
    entries = [_audit_entry(entry, session_ids) for entry in log.entries if scope in (None, entry.agent, entry.by)]
    return results.MemoryAudit(store=store.url, user=valid_user, entries=entries, unreadable=log.unreadable)


def _audit_entry(entry: audit.AuditRecord, session_ids: set[str]) -> results.AuditEntry:
    deleted = None if entry.session_id is None else entry.session_id not in session_ids
    return convert({**asdict(entry), "session_deleted": deleted}, results.AuditEntry)


def delete_names(
    store: Store, names: Sequence[str], user: str | None, agent: str | None, *, now: str, tell: Tell
) -> results.MemoryDeleted:  # fmt: skip
    """Delete topics and texts by name, from the memory of one agent or of all; raise LoreError for an unknown name.

    They are removed from the store's log too. Each agent's memory is one transaction.
    """
    memories = _read_buckets(store, user, agent)
    known_names = {name for memory in memories.values() for name in memory.topics}
    known_names |= {buckets.entry_id(*key) for memory in memories.values() for key in memory.entries}
    _require_known(names, known_names)
    counts, still_in = dict.fromkeys(buckets.KINDS, 0), dict[str, None]()

    def select_keys(memory: buckets.KnownMemory) -> tuple[list[tuple[str, str]], list[str]]:
        texts = [key for key in memory.entries if buckets.entry_id(*key) in names]
        return texts, [name for name in memory.topics if name in names]

    for owner, memory in memories.items():
        texts, topics = select_keys(memory)
        if not texts and not topics:
            continue
        changed_memory = buckets.change_bucket(
            store, owner, lambda memory: memory.without_entries(*select_keys(memory)), at=now, purge=True
        )
        removed = {kind: sum(section == kind for section, _ in texts) for kind in buckets.SECTIONS}
        removed["topics"] = len(topics)
        counts = {kind: number + removed[kind] for kind, number in counts.items()}
        for name, topic in sorted(changed_memory.topics.items()):
            if any(text in topic.content for _, text in texts):
                still_in[name] = None
        record = audit.AuditRecord(at=now, op="delete", agent=owner.agent, removed=removed)
        audit.append_audit(store, owner.user, record, tell)
    return results.MemoryDeleted(
        store=store.url, user=identities.valid_user(user), deleted=list(dict.fromkeys(names)), counts=counts,
        still_in=list(still_in),
    )  # fmt: skip


def wipe_memory(store: Store, user: str | None, agent: str | None, *, now: str, tell: Tell) -> results.MemoryWiped:
    """Delete all memory of a user, or one agent's part of it; a second wipe finds nothing."""
    valid_user = identities.valid_user(user)
    scope = identities.valid_agent_filter(agent)
    result = buckets.wipe(store, valid_user, scope)
    if any(result.counts.values()):
        record = audit.AuditRecord(at=now, op="wipe", agent=scope, removed=result.counts)
        audit.append_audit(store, valid_user, record, tell)
    _report_shared(store, valid_user, scope, "remains", tell)
    return result


def preview_wipe(store: Store, user: str | None, agent: str | None) -> results.MemoryWiped:
    """Return what `wipe_memory` would delete now."""
    return buckets.preview_wipe(store, identities.valid_user(user), identities.valid_agent_filter(agent))


NO_MODEL = (
    "without a model only plain English sentences are recognised; for other languages set a model in [compaction] of "
    'lore.toml (summarizer = "openai" with endpoint and model, or "command") and run `lore memory extract --again`'
)


def extract_session(
    store: Store, session_id: str, user: str | None, agent: str | None, memory: MemorySettings,
    compaction: Compaction | None, *, tell: Tell, again: bool = False,
) -> results.MemoryExtracted:  # fmt: skip
    """Learn from the new part of a stored session, or all of it (`again`); raise LoreError for another user's."""
    if is_reserved(session_id):
        raise LoreError(f"session {session_id!r} holds memory", hint="name a session of a user")
    events = Session.events_of(store.load(session_id).log)
    header = next(event for event in events if isinstance(event, SessionStarted))  # every stored session has one
    if user is not None and header.user_id not in (None, user):
        raise LoreError(f"session {session_id!r} belongs to user {header.user_id!r}", hint="leave --user out")
    owner = identities.bucket(user or header.user_id, agent or header.agent_id)
    is_forked = header.parent_session_id is not None
    agent_memory = _agent_memory(store, owner, memory, compaction, session_id, tell, is_forked=is_forked)
    folding = Folding(State())
    for event in events:
        folding.apply(event)
    result = agent_memory.learn(folding.state().main().entries, again=again)
    if agent_memory.ask is None and not (result.added or result.removed or result.skipped or result.failure):
        tell(NO_MODEL)
    if result.skipped == NOTHING_NEW:
        tell("--again learns from the whole session, including items closed or deleted since")
    return result


def dream(
    store: Store, user: str | None, agent: str | None, memory: MemorySettings, compaction: Compaction | None, *,
    tell: Tell,
) -> results.MemoryDreamt:  # fmt: skip
    """Make topics of the known texts; raise LoreError if the agent is not opted in."""
    return _agent_memory(store, identities.bucket(user, agent), memory, compaction, None, tell).consolidate()


def _agent_memory(
    store: Store, owner: identities.MemoryBucket, memory: MemorySettings, compaction: Compaction | None,
    session_id: str | None, tell: Tell, *, is_forked: bool = False,
) -> AgentMemory:  # fmt: skip
    """Return an agent's memory with the configured model; LoreError without opt-in, or inside a summariser."""
    reason = identities.memory_refusal(memory, owner.agent, is_forked=is_forked)
    if reason:
        hint = 'switch it on in lore.toml: [memory] system = "structured", and agents = ["NAME"] for agents except main'
        raise LoreError(f"nothing is remembered: {reason}", hint="" if is_forked else hint)
    if is_nested(os.environ):
        raise LoreError(f"a source or summariser of a compaction cannot use memory ({NESTED} is set)")
    ask, window = configured_model(compaction, tell)
    return AgentMemory(
        store, identities.bucket_to_write(memory, owner), clock=now_utc, session_id=session_id, ask=ask, window=window,
        tell=tell, agent=owner.agent,
    )  # fmt: skip
