"""Watch a store: compact its sessions when it is due, and remember them once they are idle, until stopped.

In: a store, a policy, a clock, a wait. Out: a line for each firing. Rules: each look lists the heads, and reads only
what is new of a session; a session is compacted between turns, never while a request is out; what is made is saved by
delta, and a session that another writer changes or compacts meanwhile is left for the next look; without a summary
nothing is pruned: that is told, and tried again when the session has changed. A signal (`Stopping`) ends the wait for a
model or a command at once, elsewhere the watch once a save is done.

Where `[memory]` says so it learns from what is pruned, and from a session each time that nobody has spoken in it for
`[sessions] gap_secs` since a person did. What was learnt from is marked in the store, so that a watch that begins anew
does not pay for it again. Sessions that keep memory themselves are passed over.

Memory: the folded states of the sessions seen last (`MOST`); others are read again when they change.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.compaction.base import Firing, Summarizer, SummaryAnswer, SummaryRequest, Window
from lore.compaction.costs import cache_of
from lore.compaction.executor import Dependencies, execute, judged, timestamp, waits
from lore.compaction.extractive import Extractive
from lore.compaction.locks import trylock
from lore.compaction.memory.agent_memory import WINDOW, AgentMemory, is_idle, remembering_of
from lore.compaction.memory.extraction import Ask
from lore.compaction.memory.identities import is_reserved
from lore.compaction.policy import AFTER_TURN, AUTOMATIC
from lore.compaction.settings import Compaction, MemorySettings, Sessions
from lore.compaction.tracker import UNTIMED, Rhythm, Silence, Tracker
from lore.errors import LoreError
from lore.model.events import MAIN, Event, SessionStarted, encode
from lore.model.state import Chain, settled
from lore.prompt.layout import is_real
from lore.session import Session
from lore.store.applying import save_delta
from lore.store.base import ConflictError, Head, SessionData, SessionDelta, Store, StoreError, Tell, UnknownSessionError
from lore.store.lines import follow
from lore.store.registry import shown

Waiting = Callable[[], AbstractContextManager[None]]


class StoppedError(BaseException):
    """What was waited for is not wanted any more."""


class Stopping:
    """Hears a signal; `asked` tells from then on that it came."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._waits = False

    def hear(self, *_: object) -> None:
        """Take a signal: for `signal.signal`."""
        self.asked.set()
        if self._waits:
            self._waits = False  # a second one does not disturb what cleans up
            raise StoppedError

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Wait interruptibly: a signal ends the wait, also one that came before."""
        self._waits = True
        try:
            if self.asked.is_set():
                raise StoppedError
            yield
        finally:
            self._waits = False


class _InterruptibleSummarizer:
    """A summariser that is waited for."""

    def __init__(self, inner: Summarizer, waiting: Waiting) -> None:
        self.name = inner.name
        self._inner, self._waiting = inner, waiting

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        with self._waiting():
            return self._inner.summarize(request)


def interruptible(summarizer: Summarizer, waiting: Waiting) -> Summarizer:
    """Return a summariser that a signal interrupts; the extractive one never waits."""
    return summarizer if isinstance(summarizer, Extractive) else _InterruptibleSummarizer(summarizer, waiting)


def interruptible_dependencies(dependencies: Dependencies, waiting: Waiting) -> Dependencies:
    """Return means whose summariser and sources a signal interrupts."""
    ask = dependencies.ask

    def asked(window: Window) -> str:
        assert ask is not None
        with waiting():
            return ask(window)

    summarizer = interruptible(dependencies.summarizer, waiting)
    return dependencies._replace(summarizer=summarizer, ask=None if ask is None else asked)


MOST = 64  # sessions whose state is held
LATEST = 1_000  # entries that no request has sent yet, looked at

Wait = Callable[[], bool]  # waits until the next look; False ends it


class Hands(NamedTuple):
    """What a watch works with: `say` is told of firings, `tell` of what a person should know besides.

    `is_ended` is asked between two sessions: a look over many of them, with a model to ask, takes long. `waiting`
    surrounds each wait for a model or a command, and may raise `StoppedError` there.
    """

    wait: Wait
    say: Tell
    tell: Tell
    clock: Callable[[], float] = time.time
    is_ended: Callable[[], bool] = lambda: False
    waiting: Waiting = nullcontext


class _Watched:
    """A session as far as it was read."""

    def __init__(self, data: SessionData) -> None:
        self.session = Session.read(data.log)
        self.tracker, self.rhythm, self.silence = Tracker(), Rhythm(), Silence()
        events = Session.events_of(data.log)
        header = next((event for event in events if isinstance(event, SessionStarted)), None)
        if header is None:  # no store takes such a one: somebody else wrote it
            raise StoreError("the log has no header", hint="`lore store verify` says what is wrong")
        self.header = header
        self._feed(events)
        self.head = data.head

    def is_continued_by(self, data: SessionData) -> bool:
        """Tell whether these events come behind what was read: another session may bear the name by now."""
        digests = follow(bytes.fromhex(self.head.digest), data.events)
        return data.head.digest == (digests[-1].hex() if digests else self.head.digest)

    def take(self, events: Sequence[Event], head: Head) -> None:
        """Take events that are stored behind what was read."""
        for event in events:
            self.session.apply(event)
        self._feed(events)
        self.head = head

    def _feed(self, events: Iterable[Event]) -> None:
        for event in events:
            self.tracker.feed(event)
            self.rhythm.feed(event)
            self.silence.feed(event)


class Watch:
    """Looks at one store again and again; not safe between threads."""

    def __init__(
        self, store: Store, settings: Compaction | None, rules: Rules, hands: Hands, idle: IdleMemory,
        dependencies_of: Callable[[Compaction, Tell, str, str, str], Dependencies],
    ) -> None:  # fmt: skip
        self._store = store
        self._settings = settings
        self._rules = rules
        self._hands = hands
        self._idle = idle
        self._dependencies_of = dependencies_of
        self._waiting: set[str] = set()
        self._untimed: set[str] = set()  # those of which it was said
        self._heads: dict[str, Head] = {}
        self._held: OrderedDict[str, _Watched] = OrderedDict()

    def run(self) -> int:
        """Look until the wait says that it is enough; returns how many compactions were made."""
        made = 0
        try:
            made += self.look()
            while self._hands.wait():
                try:
                    made += self.look()
                except StoreError as error:  # gone for a moment: a watch runs for days, and the store may come back
                    self._hands.tell(f"{shown(self._store.url)}: {error.message}; the next look tries again")
        except StoppedError:
            self._hands.tell(
                "stopped while a model or a command was asked: nothing of that was stored, the next watch asks"
            )
        return made

    def look(self) -> int:
        """Look once: compact sessions that have changed and are due, learn from idle ones."""
        made, listed = 0, [summary for summary in self._store.list() if not is_reserved(summary.session_id)]
        for gone in self._heads.keys() - {summary.session_id for summary in listed}:
            del self._heads[gone]
            self._held.pop(gone, None)
            self._idle.forget(gone)
        for summary in listed:
            if self._hands.is_ended():
                return made
            if self._heads.get(summary.session_id) == summary.head and summary.session_id not in self._waiting:
                continue
            try:
                made += self._changed(summary.session_id)
            except LoreError as error:  # also a source that is not there just now: others may need none of it
                self._hands.tell(f"{summary.session_id}: {error.message}")
            self._heads[summary.session_id] = summary.head
        for name in self._idle.due(self._hands.clock()):
            if self._hands.is_ended():
                break
            try:
                self._rest(name)
            except LoreError as error:
                self._hands.tell(f"{name}: {error.message}")
        return made

    def _rest(self, session_id: str) -> None:
        """Learn from an idle session, and consolidate."""
        try:
            watched = self._read(session_id)
        except UnknownSessionError:
            return
        chain = settled(watched.session.state.chain(MAIN))
        line = self._idle.rest(watched.header, watched.silence, chain)
        if line:
            self._hands.say(f"{session_id}: {line}")

    def _changed(self, session_id: str) -> bool:
        """Compact a session that has changed, if that is due."""
        try:
            watched = self._read(session_id)
        except UnknownSessionError:  # deleted since it was listed
            return False
        self._idle.note(watched.header, watched.silence)
        if self._settings is None:
            return False
        chain = watched.session.state.main()
        if chain.id != MAIN or (chain.turn is not None and (chain.last is None or chain.last.turn != chain.turn.turn)):
            return False
        now = self._hands.clock()
        firing = self._due(self._settings, watched, chain, now)
        return firing is not None and self._compact(self._settings, watched, chain, firing, now)

    def _read(self, session_id: str) -> _Watched:
        watched = self._held.pop(session_id, None)
        added = None if watched is None else self._store.load(session_id, after=watched.head.number)
        if watched is not None and added is not None and watched.is_continued_by(added):
            watched.take(Session.events_of(added.log), added.head)
        else:
            if watched is not None:  # it was deleted, and another one begun
                self._idle.forget(session_id)
            watched = _Watched(self._store.load(session_id))
        self._held[session_id] = watched
        while len(self._held) > MOST:
            self._held.popitem(last=False)
        return watched

    def _due(self, settings: Compaction, watched: _Watched, chain: Chain, now: float) -> Firing | None:
        """Return what is due; a cadence that had better wait for a cold cache is looked at again without a change."""
        session_id = watched.header.session_id
        ask = AUTOMATIC if _is_asked(chain) else AFTER_TURN
        is_untimed = ask == AUTOMATIC and settings.gap_secs and not watched.tracker.chain(MAIN).is_timed
        if is_untimed and session_id not in self._untimed:
            self._untimed.add(session_id)
            self._hands.tell(f"{session_id}: {UNTIMED}")
        firing = judged(watched.tracker, chain, settings, ask, now=now)
        cache = None if firing is None else cache_of(watched.session.state, chain, self._rules, now)
        if firing is not None and waits(firing, watched.tracker, chain, settings, cache, watched.rhythm, now):
            self._waiting.add(session_id)
            return None
        self._waiting.discard(session_id)
        return firing

    def _compact(
        self, settings: Compaction, watched: _Watched, chain: Chain, firing: Firing, now: float
    ) -> bool:  # fmt: skip
        session_id, state = watched.header.session_id, watched.session.state
        user, agent = watched.tracker.user or "", watched.tracker.agent or ""
        with trylock(self._store.url, agent, user) as free:
            if not free:
                self._hands.tell(f"{session_id}: another compaction is at work, skipped")
                self._waiting.add(session_id)  # whoever is at work may end without having done it
                return False
            dependencies = self._dependencies_of(settings, self._hands.tell, session_id, agent, user)
            dependencies = interruptible_dependencies(dependencies, self._hands.waiting)
            memory = self._idle.memory_of(watched.header)
            dependencies = dependencies if memory is None else dependencies._replace(learn=memory.before_drop)
            done = execute(state, chain.id, firing, settings, dependencies, at=now)
            if not done.events:
                return False
            delta = SessionDelta(
                base=watched.head, new_events=tuple(map(encode, done.events)), updated_at=timestamp(now)
            )  # fmt: skip
            try:
                head = save_delta(self._store, session_id, delta)
            except ConflictError:
                self._hands.tell(f"{session_id}: written to meanwhile, skipped until the next look")
                return False
        watched.take(done.events, head)
        context = f", {done.context_tokens:,} tokens of outside context" if done.context_tokens else ""
        self._hands.say(f"{session_id}: {done.trigger}: {done.pruned:,} messages pruned, {done.kept:,} kept{context}")
        return True


def _is_asked(chain: Chain) -> bool:
    """Tell whether a person has spoken and was not answered yet: only then a pause has ended."""
    return any(
        is_real(entry.item) for entry in islice(chain.entries.since(min(chain.sent, len(chain.entries))), LATEST)
    )


class IdleSettings(NamedTuple):
    """What is configured of memory: who remembers, and after how much silence."""

    memory: MemorySettings = MemorySettings()
    sessions: Sessions = Sessions()

    @property
    def is_on(self) -> bool:
        """Whether idle sessions are learnt from at all."""
        return self.memory.system == "structured" and self.sessions.gap_secs > 0


class _Quiet(NamedTuple):
    """How far a session had moved, and when, as it was read last."""

    moves: int
    last: float | None


class IdleMemory:
    """Knows which sessions of a store are to be learnt from; not safe between threads."""

    def __init__(
        self, store: Store, wanted: IdleSettings, *, tell: Tell, clock: Callable[[], float], ask: Ask | None = None,
        window: int = WINDOW,
    ) -> None:  # fmt: skip
        self._store, self._wanted, self._tell, self._clock = store, wanted, tell, clock
        self.ask, self.window = ask, window
        self._whose: dict[str, AgentMemory | None] = {}
        self._quiet: dict[str, _Quiet] = {}
        self._passed: dict[str, int] = {}  # how far each had moved at its latest pass

    def memory_of(self, header: SessionStarted) -> AgentMemory | None:
        """Return the memory that a session belongs to; None where nothing of it is remembered."""
        if header.session_id not in self._whose:
            self._whose[header.session_id] = remembering_of(
                self._store, header, self._wanted.memory, clock=lambda: timestamp(self._clock()), ask=self.ask,
                window=self.window, tell=self._tell,
            )  # fmt: skip
        return self._whose[header.session_id]

    def note(self, header: SessionStarted, silence: Silence) -> None:
        """Note how far a session has moved."""
        if self._wanted.is_on and self.memory_of(header) is not None:
            self._quiet[header.session_id] = _Quiet(silence.moves, silence.last)

    def forget(self, session_id: str) -> None:
        """Forget a session that is gone."""
        for known in (self._whose, self._quiet, self._passed):
            known.pop(session_id, None)

    def due(self, now: float) -> list[str]:
        """Return the sessions that are idle and have news. Costs O(candidates)."""
        gap = self._wanted.sessions.gap_secs
        new = [(name, quiet.last) for name, quiet in self._quiet.items() if quiet.moves > self._passed.get(name, 0)]
        return [name for name, last in new if is_idle(gap, last, now)]

    def rest(self, header: SessionStarted, silence: Silence, chain: Chain) -> str:
        """Learn from a session and dream; returns what came of it in a line, empty where nothing was new in it."""
        memory, name = self.memory_of(header), header.session_id
        if memory is None:
            return ""
        done = memory.rest(chain.entries, silence.last)
        if done.extracted is None:
            self._tell(f"{name}: another pass is at work for this agent and user, skipped until the next look")
            return ""
        self._passed[name] = silence.moves
        added, removed = (sum(counts.values()) for counts in (done.extracted.added, done.extracted.removed))
        if not (added or removed or done.consolidated.topics):
            is_quiet = (
                done.extracted.skipped or done.extracted.failure or done.consolidated.failure
            )  # a failure is told
            return "" if is_quiet else "idle: looked through, nothing new to remember"
        topics = len(done.consolidated.topics)
        return f"idle: {added:,} remembered, {removed:,} taken away, {topics:,} topic{'s' * (topics != 1)} dreamt"
