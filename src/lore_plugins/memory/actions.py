"""`lore memory`: of whom something is remembered, by which agents, who changed it; deleting it, extracting by hand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import convert
from msgspec.structs import asdict, replace

from lore.asking import asking
from lore.compaction import NESTED, Compaction, is_nested, summarizer_of
from lore.config import MemorySettings
from lore.errors import LoreError
from lore.fold import Folding
from lore.model import FoldedSession as State
from lore.model import SessionStarted
from lore.session import Session
from lore.store import Clock, Store, Tell, is_reserved, silent
from lore.store import now as now_utc
from lore_plugins.memory import audit, buckets, identities, results
from lore_plugins.memory.agent import LEARNT, WINDOW, AgentMemory


def users(store: Store) -> results.MemoryUsers:
    """Return of whom something is remembered. Costs a list of the store's sessions, and all that is remembered."""
    found: list[results.RememberedUser] = []
    for user, agents in buckets.owners(store).items():
        counts = {agent: buckets.read(store, identities.MemoryBucket(user, agent)).counts() for agent in agents}
        holding = [agent for agent, kinds in counts.items() if any(kinds.values())]
        sums = {kind: sum(kinds[kind] for kinds in counts.values()) for kind in buckets.KINDS}
        if holding:
            found.append(results.RememberedUser(user=user, agents=holding, counts=sums))
    return results.MemoryUsers(store=store.url, users=found)


def everything(
    store: Store, user: str | None, agent: str | None, *, now: str, tell: Tell = silent
) -> results.MemoryShown:
    """Return all that is remembered of a user, or by one agent of the user's, what has expired too."""
    known = buckets_of(store, user, agent)
    named = identities.good_user(user)
    log = audit.audit_log(store, named)
    there = {summary.session_id for summary in store.list()} if log.entries else set[str]()
    agents = [
        _agent(owner.agent, memory, audit.last_failure(log, owner.agent), there, now) for owner, memory in known.items()
    ]
    _tell_of_shared(store, named, agent, "is not shown", tell)
    return results.MemoryShown(store=store.url, user=named, agents=agents)


def _tell_of_shared(store: Store, user: str, agent: str | None, what: str, tell: Tell) -> None:
    """Say where agents remember together what one that is named is told, too."""
    if agent not in (None, identities.SHARED) and any(
        buckets.read(store, identities.MemoryBucket(user, identities.SHARED)).counts().values()
    ):
        tell(f"what agents remember of user {user} together {what}: --agent '{identities.SHARED}' names it")


def buckets_of(store: Store, user: str | None, agent: str | None) -> dict[identities.MemoryBucket, buckets.KnownMemory]:
    """Return what each agent that is meant remembers; an agent that is named is there, whatever it remembers."""
    named = identities.good_user(user)
    scope = identities.good_scope(agent)
    agents = buckets.owners(store).get(named, ()) if scope is None else (scope,)
    return {
        identities.MemoryBucket(named, name): buckets.read(store, identities.MemoryBucket(named, name))
        for name in agents
    }


def listed(shown: results.MemoryShown) -> results.MemoryShown:
    """Leave out what is long: texts, and what topics say."""
    brief = [[replace(topic, content="") for topic in agent.topics] for agent in shown.agents]
    agents = [replace(agent, texts=[], topics=topics) for agent, topics in zip(shown.agents, brief, strict=True)]
    return replace(shown, agents=agents)


def named(shown: results.MemoryShown, names: Sequence[str]) -> results.MemoryShown:
    """Return only the topics and texts of these names, and the agents that have them; raises LoreError for another."""
    known, agents = list[str](), list[results.RememberedAgent]()
    for agent in shown.agents:
        known += [*(topic.topic for topic in agent.topics), *(text.id for text in agent.texts)]
        topics = [topic for topic in agent.topics if topic.topic in names]
        texts = [text for text in agent.texts if text.id in names]
        if topics or texts:
            agents.append(replace(agent, topics=topics, texts=texts))
    check(names, known)
    return replace(shown, agents=agents)


def check(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise LoreError for a name that is not known."""
    there = set(known)
    unknown = next((name for name in names if name not in there), None)
    if unknown is not None:
        raise LoreError(f"nothing is remembered as {unknown!r}", hint="`lore memory show` prints the names")


def _agent(
    agent: str, known: buckets.KnownMemory, failure: audit.AuditRecord | None, there: set[str], now: str
) -> results.RememberedAgent:
    topics = [
        convert({**asdict(topic), "expired": buckets.has_expired(topic, now)}, results.RememberedTopic)
        for _, topic in sorted(known.topics.items())
    ]
    entries = sorted(known.entries.values(), key=lambda entry: buckets.KINDS.index(entry.section))
    texts = [
        results.RememberedText(
            id=buckets.id_of(entry.section, entry.text), kind=entry.section, text=entry.text, at=entry.at,
            session_id=entry.session_id,
        )
        for entry in entries
    ]  # fmt: skip
    return results.RememberedAgent(
        agent=agent, counts=known.counts(), undreamt=known.is_fresh, topics=topics, texts=texts,
        last_failure=None if failure is None else _entry(failure, there), unreadable=known.odd,
    )  # fmt: skip


def audited(store: Store, user: str | None, agent: str | None = None) -> results.MemoryAudit:
    """Return who changed what is remembered of a user; each entry says whether its session was deleted since."""
    named = identities.good_user(user)
    wanted = identities.good_scope(agent)
    log = audit.audit_log(store, named)
    there = {summary.session_id for summary in store.list()}
    entries = [_entry(entry, there) for entry in log.entries if wanted in (None, entry.agent, entry.by)]
    return results.MemoryAudit(store=store.url, user=named, entries=entries, unreadable=log.odd)


def _entry(entry: audit.AuditRecord, there: set[str]) -> results.AuditEntry:
    deleted = None if entry.session_id is None else entry.session_id not in there
    return convert({**asdict(entry), "session_deleted": deleted}, results.AuditEntry)


def deleted(
    store: Store, names: Sequence[str], user: str | None, agent: str | None, *, now: str, tell: Tell
) -> results.MemoryDeleted:  # fmt: skip
    """Take away topics and texts by their names, of every agent that is meant; nothing where one is unknown.

    Nothing of it stays in the store's log. Each agent's memory is one transaction. The next dream leaves it out.
    """
    known = buckets_of(store, user, agent)
    keys = [key for memory in known.values() for key in memory.entries]
    check(
        names, [*(name for memory in known.values() for name in memory.topics), *(buckets.id_of(*key) for key in keys)]
    )
    counts, still = dict.fromkeys(buckets.KINDS, 0), dict[str, None]()

    def make(held: buckets.KnownMemory) -> tuple[buckets.Record, ...]:
        texts = [
            buckets.Forgotten(section=key[0], text=key[1], at=now)
            for key in held.entries
            if buckets.id_of(*key) in names
        ]
        topics = [buckets.Superseded(topic=name, at=now) for name in held.topics if name in names]
        return (*texts, *topics, *((buckets.Extracted(at=now),) if texts else ()))

    for owner, memory in known.items():
        gone = [key for key in memory.entries if buckets.id_of(*key) in names]
        topics = [name for name in memory.topics if name in names]
        if not gone and not topics:
            continue
        after = buckets.change(store, owner, make, at=now, purge=True)
        removed = {kind: sum(section == kind for section, _ in gone) for kind in buckets.SECTIONS} | {
            "topics": len(topics)
        }
        counts = {kind: number + removed[kind] for kind, number in counts.items()}
        for name, topic in sorted(after.topics.items()):
            if any(text in topic.content for _, text in gone):
                still[name] = None
        audit.note_audit(
            store, owner.user, audit.AuditRecord(at=now, op="delete", agent=owner.agent, removed=removed), tell
        )
    return results.MemoryDeleted(
        store=store.url,
        user=identities.good_user(user),
        deleted=list(dict.fromkeys(names)),
        counts=counts,
        still_in=list(still),
    )


def wiped(store: Store, user: str | None, agent: str | None, *, now: str, tell: Tell) -> results.MemoryWiped:
    """Take away all that is remembered of a user, or by one agent; a second time there is nothing left to take."""
    named = identities.good_user(user)
    scope = identities.good_scope(agent)
    found = buckets.wipe(store, named, scope)
    if any(found.counts.values()):
        audit.note_audit(store, named, audit.AuditRecord(at=now, op="wipe", agent=scope, removed=found.counts), tell)
    _tell_of_shared(store, named, scope, "stays", tell)
    return _wiped(store, named, scope, found)


def wiping(store: Store, user: str | None, agent: str | None) -> results.MemoryWiped:
    """Return what `wiped` would take away by now; changes nothing."""
    named = identities.good_user(user)
    scope = identities.good_scope(agent)
    return _wiped(store, named, scope, buckets.to_wipe(store, named, scope))


def _wiped(store: Store, user: str, agent: str | None, found: buckets.Wiped) -> results.MemoryWiped:
    return results.MemoryWiped(
        store=store.url, user=user, agent=agent, entries=sum(found.counts.values()), sessions=len(found.sessions),
        counts=found.counts, agents=found.agents,
    )  # fmt: skip


NO_MODEL = (
    "without a model only plain English sentences are noticed; [compaction] in lore.toml names one that reads any "
    'language: summarizer = "openai" with endpoint and model, or "command"; then `lore memory extract --again`'
)


def extracted(
    store: Store, session_id: str, user: str | None, agent: str | None, memory: MemorySettings,
    compaction: Compaction | None, *,    tell: Tell, clock: Clock = now_utc, again: bool = False,
) -> results.MemoryExtracted:  # fmt: skip
    """Learn from what is new in a stored session, `again` from all of it; raises LoreError where it is another's."""
    if is_reserved(session_id):
        raise LoreError(f"{session_id!r} keeps memory itself", hint="name a session of a user")
    events = Session.events_of(store.load(session_id).log)
    header = next(event for event in events if isinstance(event, SessionStarted))  # no store takes one without
    if user is not None and header.user_id not in (None, user):
        raise LoreError(f"session {session_id!r} is of user {header.user_id!r}", hint="leave --user out")
    owner = identities.bucket(user or header.user_id, agent or header.agent_id)
    kept = _memory(store, owner, memory, compaction, session_id, tell, clock, header.parent_session_id is not None)
    folding = Folding(State())
    for event in events:
        folding.apply(event)
    done = kept.learn(folding.state().main().entries, again=again)
    if kept.ask is None and not (done.added or done.removed or done.skipped or done.failure):
        tell(NO_MODEL)
    if done.skipped == LEARNT:
        tell("--again learns from all of the session, also what was closed or deleted since")
    return results.MemoryExtracted(
        store=store.url, user=owner.user, agent=owner.agent, shared=owner.agent in memory.share, session_id=session_id,
        removed=dict(done.removed), added=dict(done.added), skipped=done.skipped or None, failure=done.failure or None,
    )  # fmt: skip


def consolidated(
    store: Store, user: str | None, agent: str | None, memory: MemorySettings, compaction: Compaction | None, *,
    tell: Tell, clock: Clock = now_utc,
) -> results.MemoryDreamt:  # fmt: skip
    """Make topics of what is known; raises LoreError where the agent is not opted in."""
    owner = identities.bucket(user, agent)
    done = _memory(store, owner, memory, compaction, None, tell, clock).consolidate()
    return results.MemoryDreamt(
        store=store.url, user=owner.user, agent=owner.agent, shared=owner.agent in memory.share,
        topics=list(done.topics), superseded=list(done.superseded), skipped=done.skipped or None,
        failure=done.failure or None,
    )  # fmt: skip


def _memory(
    store: Store, owner: identities.MemoryBucket, memory: MemorySettings, compaction: Compaction | None,
    session_id: str | None, tell: Tell, clock: Clock, is_forked: bool = False,
) -> AgentMemory:  # fmt: skip
    """Return an agent's memory with the configured model; LoreError without opt-in, or inside a summariser."""
    reason = identities.refusal(memory, owner.agent, is_forked=is_forked)
    if reason:
        hint = '[memory] system = "structured" in lore.toml switches it on, agents = ["NAME"] names others than main'
        raise LoreError(f"nothing is remembered: {reason}", hint="" if is_forked else hint)
    if is_nested(os.environ):
        raise LoreError(f"a source or summariser of a compaction remembers nothing itself ({NESTED} is set)")
    ask = None if compaction is None else asking(summarizer_of(compaction, os.environ, tell=tell))
    window = WINDOW if compaction is None else compaction.summarizer_window
    return AgentMemory(
        store, identities.written_by(memory, owner), clock=clock, session_id=session_id, ask=ask, window=window,
        tell=tell, agent=owner.agent,
    )  # fmt: skip
