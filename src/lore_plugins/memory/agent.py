"""Memory of one agent about one user, or of those that share it: extract, consolidate, and tell a session.

    memory = AgentMemory(store, bucket("ann"), clock=now, session_id="s1")        or `remembering_of` its header
    memory.learn(entries)                  what is new in the session
    memory.before_drop(entries, place)     what is new before a place: a compaction is about to drop it; fails no turn
    memory.consolidate()                   topics of what is known; skipped where another pass is under way
    kept.apply(*memory.events(session.state))                              before the turn begins

What is extracted replaces what was known, and up to where the session was learnt from is marked in the same
transaction; a failure changes nothing, is told and audited. Without a model (`ask`) all of it is deterministic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from lore.asking import Ask, Waiting, asking
from lore.compaction import Compaction, is_idle, run_in_thread, summarizer_of
from lore.config import MemorySettings, Sessions, Settings
from lore.errors import LoreError
from lore.model import (
    CompactDivider,
    Event,
    FoldedSession,
    SessionStarted,
    decode_time,
    encode,
    format_timestamp,
)
from lore.prompt import Entries
from lore.store import Store, StoreError, Tell, is_reserved, silent, trylock
from lore_plugins.memory.audit import AuditRecord, audit_log, last_wipe, nonzero, note_audit
from lore_plugins.memory.buckets import (
    SECTIONS,
    KnownMemory,
    Learnt,
    Record,
    Structure,
    change,
    consolidated,
    read,
    replaced,
)
from lore_plugins.memory.extraction import (
    NOTHING,
    Extraction,
    Given,
    Mark,
    extract,
    is_enough,
    mark_of,
    noticed,
    to_learn,
    transcript_of,
)
from lore_plugins.memory.identities import SHARED, MemoryBucket, bucket, refusal, written_by
from lore_plugins.memory.topics import consolidate, told_together, topics_events

NO_COUNTS: Mapping[str, int] = {}
GAP_SECS = Sessions().gap_secs
WINDOW = 60_000  # tokens that a model reads at once
ASKED = 3  # times that the same words are asked about because another writer came between
QUIET = "nothing was extracted since the last dream"
BUSY = "another pass is under way"
LEARNT = "nothing was said in it since it was learnt from"
UNSPOKEN = "no person said anything in it"
LEFT = "in what compactions left of it no person says anything"


class ExtractionResult(NamedTuple):
    """What an extraction changed, by kind; `failure`: why it failed, `skipped`: why there was nothing to learn from."""

    removed: Mapping[str, int] = {}
    added: Mapping[str, int] = {}
    failure: str = ""
    skipped: str = ""


class ConsolidationResult(NamedTuple):
    """What a dream wrote and superseded, by name; `skipped` says why there was none, `failure` why it fell back."""

    topics: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    skipped: str = ""
    failure: str = ""


class Rested(NamedTuple):
    """What an idle pass did; `extracted` is None where another pass was under way."""

    extracted: ExtractionResult | None
    consolidated: ConsolidationResult


class AgentMemory:
    """The memory that one agent has of one user, in a store. Safe between threads where the store is.

    Where `bucket` is one that agents share, `agent` is which of them this is; what it remembered alone before goes on
    being told to it, and is not learnt anew. `ask` is a model (`lore.asking` makes one of a summariser), `window`
    what it reads at once, in tokens; `locks` is the folder of locks, None for that of this user. It is a
    `SessionMemory` of `lore.compaction`: after `gap_secs` of silence it learns in the background (0: never).
    """

    def __init__(
        self, store: Store, bucket: MemoryBucket, *, clock: Callable[[], str], session_id: str | None = None,
        ask: Ask | None = None, window: int = WINDOW, tell: Tell = silent, locks: Path | None = None,
        agent: str | None = None, gap_secs: int = GAP_SECS,
    ) -> None:  # fmt: skip
        self.store, self.bucket, self.ask = store, bucket, ask
        self._agent = agent if bucket.agent == SHARED else None
        self._own: AgentMemory | None = None
        if self._agent is not None:
            own = MemoryBucket(bucket.user, self._agent)
            self._own = AgentMemory(store, own, clock=clock, ask=ask, window=window, tell=tell, locks=locks)
        self._clock, self._session_id, self._window, self._tell, self._locks = clock, session_id, window, tell, locks
        self._who = f"agent {self._agent or bucket.agent} of user {bucket.user}"
        self._mark: Mark | None = None  # as it was made last, for where a wipe took it: what was wiped stays so
        self._gap_secs = gap_secs
        self._learning: Future[None] | None = None
        self._tried: Mark | None = None  # up to where the latest background pass went, whether or not it failed
        self._rested_moves = 0  # of the session when it was learnt from for its silence
        self._turn_ended: float | None = None

    def learn(self, entries: Entries, stop: int | None = None, *, again: bool = False) -> ExtractionResult:
        """Learn from what is new in a session's timeline, up to a place where it is given; raises StoreError.

        With `again` from all of it. What is new is told by the mark that this leaves. Costs O(the text of what is
        new), and with a model a question for each window of it; anew where another writer changes what is known.
        """
        at, name, mark = self._clock(), self._session_id, mark_of(entries, stop)
        learnt = [] if name is None or not mark else [Learnt(session_id=name, mark=mark, at=at)]
        tries = 0

        def found_in(known: KnownMemory) -> tuple[KnownMemory, Given, Extraction]:
            given = to_learn(entries, None if again else self._mark_in(known), stop)
            return known, given, self._extracted(known.structure, given)

        before, given, found = found_in(read(self.store, self.bucket))

        def make(known: KnownMemory) -> tuple[Record, ...]:
            nonlocal before, given, found, tries
            if (known.structure, known.learnt) != (before.structure, before.learnt):
                tries += 1
                if tries > ASKED:
                    raise StoreError("gave up after repeated write conflicts", hint="extract again")
                before, given, found = found_in(known)
            if given is NOTHING or found.failure:
                return ()
            return (*replaced(known, found.structure, at=at, session_id=name), *learnt)

        if given is not NOTHING and not found.failure and (learnt or found.structure != before.structure):
            change(self.store, self.bucket, make, at=at)
        if found.failure:
            self._tell(f"nothing was remembered by {self._who}: {found.failure}; what was known stays")
            self._note("extract", at, failure=found.failure, unusable=found.unusable)
            return ExtractionResult(failure=found.failure)
        if found.unusable:
            self._tell(f"{self._who}: {found.unusable} of a model's answers could not be used, asked again")
        skipped = ""
        if given is not NOTHING:
            self._mark = mark
        elif to_learn(entries, None, stop) is not NOTHING:
            skipped = LEARNT
        else:
            skipped = LEFT if any(isinstance(entry.item, CompactDivider) for entry in entries) else UNSPOKEN
        old, new = before.structure, found.structure
        done = ExtractionResult(_more(old, new), _more(new, old), skipped=skipped)
        if done.removed or done.added or found.unusable:
            self._note("extract", at, done.removed, done.added, unusable=found.unusable)
        return done

    def _extracted(self, known: Structure, given: Given) -> Extraction:
        if given is NOTHING:
            return Extraction(known)
        messages = transcript_of(*given)
        if self.ask is None:
            return Extraction(noticed(messages, known))
        return extract(self.ask, messages, known, window=self._window)

    def _mark_in(self, known: KnownMemory) -> Mark | None:
        found = None if self._session_id is None else known.learnt.get(self._session_id)
        if found is None and self._own is not None and self._session_id is not None:  # learnt from before it was shared
            found = read(self.store, self._own.bucket).learnt.get(self._session_id)
        return self._mark if found is None else found.mark

    def mark(self) -> Mark | None:
        """Return up to where the session was learnt from; None where it was not, or that cannot be read."""
        try:
            return self._mark_in(read(self.store, self.bucket))
        except LoreError:  # whoever learns next is told
            return self._mark

    def before_drop(self, entries: Entries, stop: int | None = None) -> ExtractionResult:
        """Learn from what a compaction is about to drop; never raises: a failure is told, and audited."""
        return self._safely(lambda: self.learn(entries, stop))

    def note_summary(self, unusable: int, failure: str = "") -> None:
        """Note in the audit log that answers for a compaction's summary could not be used; never raises."""
        self._note("summary", self._clock(), failure=failure, unusable=unusable)

    def _safely(self, learn: Callable[[], ExtractionResult]) -> ExtractionResult:
        try:
            return learn()
        except LoreError as error:
            self._tell(f"nothing was remembered by {self._who}: {error.message}")
            self._note("extract", self._clock(), failure=error.message)
            return ExtractionResult(failure=error.message)

    def consolidate(self) -> ConsolidationResult:
        """Make topics of what is known, unless nothing is new or another pass is under way; raises StoreError."""
        if self._own is not None:  # what it learnt alone and has not dreamt over yet
            self._own.consolidate()
        with self._alone("dream") as is_held:
            if not is_held:
                return ConsolidationResult(skipped=BUSY)
            at, before = self._clock(), read(self.store, self.bucket)
            if not before.is_fresh:
                return ConsolidationResult(skipped=QUIET)
            made, written = consolidate(before, self.ask, at=at), before

            def make(known: KnownMemory) -> tuple[Record, ...]:
                nonlocal written
                if known.structure != before.structure:
                    raise StoreError("something else was extracted meanwhile", hint="dream again")
                written = known
                return consolidated(known, made.topics, made.supersedes, at=at, is_whole=not made.failure)

            change(self.store, self.bucket, make, at=at)
            gone = tuple(name for name in written.topics if name in made.supersedes)
            if made.unusable and not made.failure:
                self._tell(f"{self._who}: a model's first answer could not be used, the second was")
            if made.failure:
                self._tell(f"{self._who} dreamt without a model: {made.failure}")
            self._note(
                "dream", at, {"topics": len(gone)}, {"topics": len(made.topics)}, made.failure, made.unusable, gone
            )
            return ConsolidationResult(tuple(sorted(made.topics)), gone, failure=made.failure)

    def _alone(self, what: str) -> AbstractContextManager[bool]:
        url = self.store.url
        place = f"memory:{id(self.store)}" if url == "memory:" else url  # a store in memory is not the next one's
        return trylock(place, f"{what}/{self.bucket.agent}", self.bucket.user, folder=self._locks)

    def consolidate_safely(self) -> ConsolidationResult:
        """Dream as a trigger does, without anybody who waits for it: never raises."""
        try:
            return self.consolidate()
        except LoreError as error:
            self._tell(f"{self._who} did not dream: {error.message}")
            self._note("dream", self._clock(), failure=error.message)
            return ConsolidationResult(failure=error.message)

    def rest_now(self, entries: Entries, last: float | None = None) -> Rested:
        """Learn from the rest of a session that is silent since `last`, then consolidate; never raises.

        One such pass at a time for an agent and its user: who comes second does nothing. A session without a mark that
        was silent before memory was wiped, or before marks were let go of, is left alone.
        """

        def learn() -> ExtractionResult:
            known = read(self.store, self.bucket)
            if last is not None and self._mark_in(known) is None:
                buckets = [self.bucket, *([] if self._own is None else [self._own.bucket])]
                wiped = last_wipe(audit_log(self.store, self.bucket.user), *[bucket.agent for bucket in buckets])
                horizons = [known.horizon, *[read(self.store, bucket).horizon for bucket in buckets[1:]]]
                past = [decode_time(encode(time)) for time in (*horizons, wiped) if time is not None]
                if any(time is not None and last <= time for time in past):
                    return ExtractionResult(skipped=LEARNT)
            return self.learn(entries)

        try:
            with self._alone("rest") as is_held:
                if not is_held:
                    return Rested(None, ConsolidationResult(skipped=BUSY))
                return Rested(self._safely(learn), self.consolidate_safely())
        except LoreError as error:  # of the lock
            self._tell(f"nothing was remembered by {self._who}: {error.message}")
            return Rested(ExtractionResult(failure=error.message), ConsolidationResult(failure=error.message))

    def rest(self, entries: Entries, moved_at: float | None = None) -> str | None:
        """Learn from a silent session and consolidate; return a summary line, None if another process does so."""
        extracted, consolidated = self.rest_now(entries, moved_at)
        if extracted is None:
            return None
        added, removed = (sum(counts.values()) for counts in (extracted.added, extracted.removed))
        topics = len(consolidated.topics)
        if added or removed or topics:
            return f"{added:,} remembered, {removed:,} taken away, {topics:,} topic{'s' * (topics != 1)} dreamt"
        if extracted.skipped or extracted.failure or consolidated.failure:  # a failure was told
            return ""
        return "looked through, nothing new to remember"

    def after_turn(self, entries: Entries, window: int, now: float) -> None:
        """Learn in the background if enough is new. A failed pass is tried again when as much is new again."""
        self._turn_ended = now
        if self._tried is None:
            self._tried = self.mark() or ()
        if not self._is_learning() and is_enough(entries, self._tried, window):
            self._learn_in_background(entries, lambda: self.before_drop(entries))

    def while_idle(self, entries: Entries, moves: int, moved_at: float | None, now: float) -> None:
        """Learn and consolidate in the background, once for each long silence."""
        last = self._turn_ended if moved_at is None else moved_at
        if moves <= self._rested_moves or not is_idle(self._gap_secs, last, now) or self._is_learning():
            return
        self._rested_moves = moves

        def rest() -> None:
            if self.rest_now(entries, moved_at).extracted is None:
                self._rested_moves = 0  # another session of this user holds the lock: try again at the next call

        self._learn_in_background(entries, rest)

    def _is_learning(self) -> bool:
        return self._learning is not None and not self._learning.done()

    def _learn_in_background(self, entries: Entries, learn: Callable[[], object]) -> None:
        self._tried = mark_of(entries)
        self._learning = run_in_thread(lambda: (learn(), None)[1], "lore-memory")

    def settle(self, *, wait: bool = False) -> None:
        """Report an error of the background; with `wait`, once it has ended."""
        if self._learning is not None and (wait or self._learning.done()):
            learning, self._learning = self._learning, None
            if (error := learning.exception()) is not None:
                self._tell(f"memory learnt nothing: {error!r}")

    def events(self, state: FoldedSession) -> tuple[Event, ...]:
        """Return what the session is to be told before its next turn begins; nothing, and told, where memory fails."""
        at = self._clock()
        try:
            topics = read(self.store, self.bucket).visible(at)
            if self._own is not None:
                topics = told_together(topics, read(self.store, self._own.bucket).visible(at))
        except LoreError as error:
            self._tell(f"what {self._who} remembers cannot be read: {error.message}")
            return ()
        return topics_events(topics, state, at=at)

    def _note(
        self, op: str, at: str, removed: Mapping[str, int] = NO_COUNTS, added: Mapping[str, int] = NO_COUNTS,
        failure: str = "", unusable: int = 0, dropped: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        record = AuditRecord(
            at=at, op=op, agent=self.bucket.agent, session_id=self._session_id, removed=removed, added=added,
            failure=failure or None, unusable=unusable, dropped=dropped, by=self._agent,
        )  # fmt: skip
        note_audit(self.store, self.bucket.user, record, self._tell)


def remembering_of(
    store: Store, header: SessionStarted, memory: MemorySettings, *, clock: Callable[[], str], agent: str | None = None,
    ask: Ask | None = None, window: int = WINDOW, tell: Tell = silent, locks: Path | None = None,
    gap_secs: int = GAP_SECS,
) -> AgentMemory | None:  # fmt: skip
    """Return the memory that a session belongs to, for hooks; None where its agent is not opted in.

    None too for a subagent's session, one in which memory is kept, and one whose user or agent is no name, which is
    told. `agent` is who it is where the header does not say.
    """
    if not memory.is_on or is_reserved(header.session_id):
        return None
    try:
        owner = bucket(header.user_id, agent or header.agent_id)
    except LoreError as error:
        tell(f"session {header.session_id} is not remembered: {error.message}")
        return None
    if refusal(memory, owner.agent, is_forked=header.parent_session_id is not None):
        return None
    return AgentMemory(
        store, written_by(memory, owner), clock=clock, session_id=header.session_id, ask=ask, window=window, tell=tell,
        locks=locks, agent=owner.agent, gap_secs=gap_secs,
    )  # fmt: skip


def _more(left: Structure, other: Structure) -> dict[str, int]:
    """Count by section what one knows and the other does not."""
    return nonzero({section: len(set(left.of(section)) - set(other.of(section))) for section in SECTIONS})


class StoreMemories:
    """The memories of a store's sessions: a `StoreMemory` of `lore.compaction`."""

    def __init__(
        self, store: Store, settings: Settings, compaction: Compaction | None, *, tell: Tell,
        clock: Callable[[], float], waiting: Waiting,
    ) -> None:  # fmt: skip
        self._store, self._settings, self._tell, self._clock = store, settings, tell, clock
        self.gap_secs = settings.sessions.gap_secs
        self._ask, self._window = None, WINDOW
        if compaction is not None:
            self._ask: Ask | None = asking(summarizer_of(compaction, os.environ, tell=tell), waiting)
            self._window = compaction.summarizer_window

    def of_session(self, header: SessionStarted) -> AgentMemory | None:
        """Return the memory that a session belongs to; None if nothing of it is remembered."""
        return remembering_of(
            self._store, header, self._settings.memory, clock=lambda: format_timestamp(self._clock()), ask=self._ask,
            window=self._window, tell=self._tell, gap_secs=self.gap_secs,
        )  # fmt: skip
