"""Memory of one agent about one user, or of agents that share it: extract, consolidate, pass topics to a session.

    memory = AgentMemory(store, bucket("ann"), clock=now, session_id="s1")             # or `memory_of_session`
    memory.learn(entries)                  from the new entries of the session
    memory.before_drop(entries, stop)      from the new entries that a compaction is about to drop; never raises
    memory.consolidate()                   make topics of the known texts; skipped while another pass runs
    stored.apply(*memory.events(session.state))                            before the turn begins

An extraction replaces the known texts and marks how far the session was learned from, in one transaction. A failure
changes nothing and is reported and audited. Without a model (`ask`) the results are deterministic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TypeVar

from msgspec import Struct, convert

from lore.asking import Ask, make_ask
from lore.compaction import Compaction, Entries, is_idle, run_in_thread, summarizer_of
from lore.config import MemorySettings, Sessions, Settings
from lore.errors import LoreError
from lore.model import CompactDivider, Event, FoldedSession, SessionStarted, decode_time, encode, format_timestamp
from lore.store import Store, StoreError, Tell, ignore, is_reserved, trylock
from lore_plugins.memory.audit import AuditRecord, append_audit, last_wipe, nonzero, read_audit_log
from lore_plugins.memory.buckets import SECTIONS, KnownMemory, SessionMark, Texts, change_bucket, read_bucket
from lore_plugins.memory.extraction import (
    NO_ENTRIES,
    Extraction,
    Mark,
    NewEntries,
    extract_by_model,
    extract_by_rule,
    mark_of,
    select_new_entries,
    transcript,
)
from lore_plugins.memory.identities import SHARED, MemoryBucket, bucket, bucket_to_write, memory_refusal
from lore_plugins.memory.results import MemoryDreamt, MemoryExtracted
from lore_plugins.memory.topics import consolidate, knowledge_events, merge_topics

R = TypeVar("R", bound=Struct)
NO_COUNTS: Mapping[str, int] = {}
GAP_SECS = Sessions().gap_secs
WINDOW = 60_000  # tokens that a model reads at once
TRIES = 4  # extractions at most: another writer may change the bucket during each
NO_NEWS = "nothing was extracted since the last dream"
BUSY = "another pass is under way"
NOTHING_NEW = "nothing was said since the session was last learned from"
NO_PERSON = "no person said anything in it"
COMPACTED = "no person says anything in what compactions left of it"


class AgentMemory:
    """The memory that one agent has of one user, in a store. Thread-safe if the store is.

    If `bucket` is shared, `agent` names this agent: its sessions still get the topics of its former own memory, which
    is not learned again. `ask` is a model (`lore.asking`), `window` the tokens it reads at once. It is a
    `SessionMemory` of `lore.compaction`: after `gap_secs` of silence it learns in the background (0: never).
    """

    def __init__(
        self, store: Store, bucket: MemoryBucket, *, clock: Callable[[], str], session_id: str | None = None,
        ask: Ask | None = None, window: int = WINDOW, tell: Tell = ignore, agent: str | None = None,
        gap_secs: int = GAP_SECS,
    ) -> None:  # fmt: skip
        self.store, self.bucket, self.ask = store, bucket, ask
        self._agent = agent if bucket.agent == SHARED else None
        self._unshared: AgentMemory | None = None
        if self._agent is not None:
            own_bucket = MemoryBucket(bucket.user, self._agent)
            self._unshared = AgentMemory(store, own_bucket, clock=clock, ask=ask, window=window, tell=tell)
        self._clock, self._session_id, self._window, self._tell = clock, session_id, window, tell
        self._owner = f"agent {self._agent or bucket.agent} of user {bucket.user}"
        self._mark: Mark | None = None  # the last mark made here, for when a wipe removed the stored one
        self._gap_secs = gap_secs
        self._learning: Future[None] | None = None
        self._idle_moves = 0  # moves of the session when it was last learned from because it was idle

    def learn(self, entries: Entries, stop: int | None = None, *, again: bool = False) -> MemoryExtracted:
        """Learn from the new entries of a session's timeline before `stop`; raises StoreError.

        With `again` from all of it. Costs O(the new text), and with a model a question for each window of it; repeated
        if another writer changes the bucket.
        """
        at, name, mark = self._clock(), self._session_id, mark_of(entries, stop)
        session_mark = None if name is None or not mark else SessionMark(session_id=name, mark=mark, at=at)
        old_memory, new, extraction, tries = KnownMemory(), NO_ENTRIES, Extraction({}), 0

        def change(memory: KnownMemory) -> KnownMemory:
            nonlocal old_memory, new, extraction, tries
            if not tries or (memory.texts, memory.marks) != (old_memory.texts, old_memory.marks):
                tries += 1
                if tries > TRIES:
                    raise StoreError("gave up after repeated write conflicts", hint="extract again")
                new = select_new_entries(entries, None if again else self._stored_mark(memory), stop)
                old_memory, extraction = memory, self._extract(memory.texts, new)
            if new is NO_ENTRIES or extraction.failure:
                return memory
            new_memory = memory.with_texts(extraction.texts, at=at, session_id=name)
            return new_memory if session_mark is None else new_memory.with_mark(session_mark)

        if change(memory := read_bucket(self.store, self.bucket)) != memory:
            change_bucket(self.store, self.bucket, change, at=at)
        if extraction.failure:
            self._tell(f"{self._owner} remembered nothing: {extraction.failure}; the known texts stay as they were")
            self._audit("extract", at, failure=extraction.failure, unusable=extraction.unusable)
            return self._result(MemoryExtracted, failure=extraction.failure)
        if extraction.unusable:
            self._tell(f"{self._owner}: {extraction.unusable} unusable answers of a model, each requested again")
        skipped = None
        if new is not NO_ENTRIES:
            self._mark = mark
        elif select_new_entries(entries, None, stop) is not NO_ENTRIES:
            skipped = NOTHING_NEW
        elif any(isinstance(entry.item, CompactDivider) for entry in entries):
            skipped = COMPACTED
        else:
            skipped = NO_PERSON
        removed = _count_missing(old_memory.texts, extraction.texts)
        added = _count_missing(extraction.texts, old_memory.texts)
        result = self._result(MemoryExtracted, removed=removed, added=added, skipped=skipped)
        if result.removed or result.added or extraction.unusable:
            self._audit("extract", at, result.removed, result.added, unusable=extraction.unusable)
        return result

    def _result(self, kind: type[R], **fields: object) -> R:
        """Return a result about this memory; fields that are not given are empty."""
        values: dict[str, object] = {
            "store": self.store.url, "user": self.bucket.user, "agent": self._agent or self.bucket.agent,
            "shared": self.bucket.agent == SHARED, "session_id": self._session_id or "", "removed": {}, "added": {},
            "topics": (), "superseded": (), "skipped": None, "failure": None,
        }  # fmt: skip
        return convert(values | fields, kind)

    def _extract(self, known_texts: Texts, new: NewEntries) -> Extraction:
        if new is NO_ENTRIES:
            return Extraction(known_texts)
        messages = transcript(*new)
        if self.ask is None:
            return Extraction(extract_by_rule(messages, known_texts))
        return extract_by_model(self.ask, messages, known_texts, window=self._window)

    def _stored_mark(self, memory: KnownMemory) -> Mark | None:
        record = None if self._session_id is None else memory.marks.get(self._session_id)
        if record is None and self._unshared is not None and self._session_id is not None:  # from before it was shared
            record = read_bucket(self.store, self._unshared.bucket).marks.get(self._session_id)
        return self._mark if record is None else record.mark

    def before_drop(self, entries: Entries, stop: int | None = None) -> MemoryExtracted:
        """Learn from the entries before `stop`, which a compaction is about to drop; reports failures, never raises."""
        return self._report_failure(MemoryExtracted, lambda: self.learn(entries, stop))

    def _report_failure(self, kind: type[R], act: Callable[[], R]) -> R:
        """Return what an extraction or a dream returns; a failure is reported and audited, and is its result."""
        try:
            return act()
        except LoreError as error:
            op, verb = ("extract", "remembered nothing") if kind is MemoryExtracted else ("dream", "did not dream")
            self._tell(f"{self._owner} {verb}: {error.message}")
            self._audit(op, self._clock(), failure=error.message)
            return self._result(kind, failure=error.message)

    def consolidate(self) -> MemoryDreamt:
        """Make topics of the known texts, unless there are no news or another pass runs; raises StoreError."""
        if self._unshared is not None:
            self._unshared.consolidate()
        with self._lock("dream") as is_held:
            if not is_held:
                return self._result(MemoryDreamt, skipped=BUSY)
            at, old_memory = self._clock(), read_bucket(self.store, self.bucket)
            if not old_memory.is_fresh:
                return self._result(MemoryDreamt, skipped=NO_NEWS)
            dream, latest_memory = consolidate(old_memory, self.ask, at=at), old_memory

            def change(memory: KnownMemory) -> KnownMemory:
                nonlocal latest_memory
                if memory.texts != old_memory.texts:
                    raise StoreError("something else was extracted meanwhile", hint="dream again")
                latest_memory = memory
                return memory.with_topics(dream.topics, dream.supersedes, is_whole=not dream.failure)

            change_bucket(self.store, self.bucket, change, at=at)
            removed = tuple(name for name in latest_memory.topics if name in dream.supersedes)
            if dream.unusable and not dream.failure:
                self._tell(f"{self._owner}: a model's first answer could not be used, the second could")
            if dream.failure:
                self._tell(f"{self._owner} dreamt without a model: {dream.failure}")
            counts = {"topics": len(removed)}, {"topics": len(dream.topics)}
            self._audit("dream", at, *counts, dream.failure, dream.unusable)
            return self._result(
                MemoryDreamt, topics=sorted(dream.topics), superseded=removed, failure=dream.failure or None
            )

    def _lock(self, action: str) -> AbstractContextManager[bool]:
        is_in_memory = self.store.url == "memory:"  # each store in memory has its own locks
        place = f"memory:{id(self.store)}" if is_in_memory else self.store
        return trylock(place, f"{action}/{self.bucket.agent}", self.bucket.user)

    def learn_when_idle(
        self, entries: Entries, last: float | None = None
    ) -> tuple[MemoryExtracted | None, MemoryDreamt]:
        """Learn from the rest of a session that has been silent since `last`, then consolidate; never raises.

        One such pass runs at a time for an agent and user; a second one does nothing. A session without a mark, silent
        since before memory was wiped or old marks were dropped, is skipped: it was learned from before.
        """

        def learn() -> MemoryExtracted:
            if last is not None and self._stored_mark(read_bucket(self.store, self.bucket)) is None:
                owners = [self.bucket, *([] if self._unshared is None else [self._unshared.bucket])]
                wiped_at = last_wipe(read_audit_log(self.store, self.bucket.user), *[owner.agent for owner in owners])
                limits = [*[read_bucket(self.store, owner).horizon for owner in owners], wiped_at]
                limit_times = [decode_time(encode(time)) for time in limits if time is not None]
                if any(time is not None and last <= time for time in limit_times):
                    return self._result(MemoryExtracted, skipped=NOTHING_NEW)
            return self.learn(entries)

        try:
            with self._lock("rest") as is_held:
                if not is_held:
                    return None, self._result(MemoryDreamt, skipped=BUSY)
                extracted = self._report_failure(MemoryExtracted, learn)
                return extracted, self._report_failure(MemoryDreamt, self.consolidate)
        except LoreError as error:  # the lock cannot be taken
            self._tell(f"{self._owner} remembered nothing: {error.message}")
            failure = error.message
            return self._result(MemoryExtracted, failure=failure), self._result(MemoryDreamt, failure=failure)

    def remember_idle_session(self, entries: Entries, moved_at: float | None = None) -> str | None:
        """Learn from a silent session and consolidate; return a summary line, None if another process does so."""
        extracted, dreamt = self.learn_when_idle(entries, moved_at)
        if extracted is None:
            return None
        added, removed = (sum(counts.values()) for counts in (extracted.added, extracted.removed))
        topics = len(dreamt.topics)
        if added or removed or topics:
            return f"{added:,} remembered, {removed:,} removed, {topics:,} topic{'s' * (topics != 1)} dreamt"
        if extracted.skipped or extracted.failure or dreamt.failure:  # failures were reported
            return ""
        return "nothing new to remember"

    def while_idle(self, entries: Entries, moves: int, moved_at: float | None, now: float) -> None:
        """Learn and consolidate in the background, once for each long silence."""
        is_learning = self._learning is not None and not self._learning.done()
        if moves <= self._idle_moves or not is_idle(self._gap_secs, moved_at, now) or is_learning:
            return
        self._idle_moves = moves

        def learn_idle_session() -> None:
            if self.learn_when_idle(entries, moved_at)[0] is None:
                self._idle_moves = 0  # another session of this user holds the lock: try again at the next call

        self._learning = run_in_thread(learn_idle_session, "lore-memory")

    def settle(self, *, wait: bool = False) -> None:
        """Report an error of the background pass; with `wait`, once it has ended."""
        if self._learning is not None and (wait or self._learning.done()):
            learning, self._learning = self._learning, None
            if (error := learning.exception()) is not None:
                self._tell(f"memory learned nothing: {error!r}")

    def events(self, state: FoldedSession) -> tuple[Event, ...]:
        """Return the events that bring a session's topics up to date; none, and a report, if memory is unreadable."""
        at = self._clock()
        try:
            topics = read_bucket(self.store, self.bucket).visible_topics(at)
            if self._unshared is not None:
                topics = merge_topics(topics, read_bucket(self.store, self._unshared.bucket).visible_topics(at))
        except LoreError as error:
            self._tell(f"the memory of {self._owner} is unreadable: {error.message}")
            return ()
        return knowledge_events(topics, state, at=at)

    def _audit(
        self, op: str, at: str, removed: Mapping[str, int] = NO_COUNTS, added: Mapping[str, int] = NO_COUNTS,
        failure: str = "", unusable: int = 0,
    ) -> None:  # fmt: skip
        record = AuditRecord(
            at=at, op=op, agent=self.bucket.agent, session_id=self._session_id, removed=removed, added=added,
            failure=failure or None, unusable=unusable, by=self._agent,
        )  # fmt: skip
        append_audit(self.store, self.bucket.user, record, self._tell)


def memory_of_session(
    store: Store, header: SessionStarted, memory: MemorySettings, *, clock: Callable[[], str], agent: str | None = None,
    ask: Ask | None = None, window: int = WINDOW, tell: Tell = ignore, gap_secs: int = GAP_SECS,
) -> AgentMemory | None:  # fmt: skip
    """Return the memory of a session, for hooks; None if its agent is not opted in.

    None too for a subagent's session, a session that holds memory, and an invalid user or agent, which is reported.
    `agent` is used if the header names none.
    """
    if not memory.is_on or is_reserved(header.session_id):
        return None
    try:
        owner = bucket(header.user_id, agent or header.agent_id)
    except LoreError as error:
        tell(f"session {header.session_id} is not remembered: {error.message}")
        return None
    if memory_refusal(memory, owner.agent, is_forked=header.parent_session_id is not None):
        return None
    return AgentMemory(
        store, bucket_to_write(memory, owner), clock=clock, session_id=header.session_id, ask=ask, window=window,
        tell=tell, agent=owner.agent, gap_secs=gap_secs,
    )  # fmt: skip


def configured_model(compaction: Compaction | None, tell: Tell) -> tuple[Ask | None, int]:
    """Return the summariser of the settings as a model (None: there is none), and the tokens that it reads at once."""
    if compaction is None:
        return None, WINDOW
    return make_ask(summarizer_of(compaction, os.environ, tell=tell)), compaction.summarizer_window


def _count_missing(texts: Texts, other: Texts) -> dict[str, int]:
    """Return by section the number of texts that `other` lacks."""
    return nonzero({section: len(set(texts[section]) - set(other[section])) for section in SECTIONS})


class StoreMemories:
    """The memories of a store's sessions: a `StoreMemory` of `lore.compaction`."""

    def __init__(
        self, store: Store, settings: Settings, compaction: Compaction | None, *, tell: Tell,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._store, self._settings, self._tell, self._clock = store, settings, tell, clock
        self.gap_secs = settings.sessions.gap_secs
        self._model = configured_model(compaction, tell)

    def of_session(self, header: SessionStarted) -> AgentMemory | None:
        """Return the memory of a session; None if it is not remembered."""
        ask, window = self._model
        return memory_of_session(
            self._store, header, self._settings.memory, clock=lambda: format_timestamp(self._clock()), ask=ask,
            window=window, tell=self._tell, gap_secs=self.gap_secs,
        )  # fmt: skip
