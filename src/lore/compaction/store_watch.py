"""Watch a store: compact its sessions when it is due, and remember them once they are idle, until stopped.

Each look lists the heads, and reads only what is new of a session. A session is compacted between turns, never while a
request is out; one that another writer changes or compacts meanwhile is left for the next look. A signal (`Stopping`)
ends the wait for a model or a command at once, elsewhere the watch once a save is done. With a memory
(`base.StoreMemory`) it learns from what is pruned, and from a session whenever nobody has spoken in it for `gap_secs`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from lore.asking import Waiting
from lore.cache.rules import DatedRules
from lore.compaction.activity import UNTIMED, SessionActivity
from lore.compaction.base import Firing, SessionMemory, StoreMemory, is_idle
from lore.compaction.costs import session_costs
from lore.compaction.executor import execute, judge_chain, should_wait
from lore.compaction.policy import AFTER_TURN, AUTOMATIC
from lore.compaction.settings import Compaction
from lore.compaction.summarizers import dependencies_of
from lore.errors import LoreError
from lore.model.events import MAIN, Event, SessionStarted, encode
from lore.model.state import Chain, DividerPlace, settled
from lore.model.times import format_timestamp
from lore.prompt.base import Rules as Assembly
from lore.prompt.layout import is_real
from lore.session import Session
from lore.store.base import ConflictError, Head, SessionData, SessionDelta, Store, StoreError, Tell, UnknownSessionError
from lore.store.deltas import save_delta
from lore.store.lines import digest_lines
from lore.store.locks import trylock
from lore.store.registry import mask_url
from lore.store.reserved import drop_reserved


class WatchStoppedError(BaseException):
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
            raise WatchStoppedError

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Wait interruptibly: a signal ends the wait, also one that came before."""
        self._waits = True
        try:
            if self.asked.is_set():
                raise WatchStoppedError
            yield
        finally:
            self._waits = False


MOST = 64  # sessions whose state is held
LATEST = 1_000  # entries that no request has sent yet, looked at


class Hands(NamedTuple):
    """What a watch works with: `say` is told of firings, `tell` of what a person should know besides.

    `wait` waits until the next look, False ends it. `is_ended` is asked between two sessions: a look over many of them,
    with a model to ask, takes long. `waiting` surrounds each wait for a model or a command, and may raise
    `WatchStoppedError` there.
    """

    wait: Callable[[], bool]
    say: Tell
    tell: Tell
    clock: Callable[[], float] = time.time
    is_ended: Callable[[], bool] = lambda: False
    waiting: Waiting = nullcontext


class _Log:
    """A session as far as it was read."""

    def __init__(self, data: SessionData, divider: DividerPlace) -> None:
        self.session = Session.read(data.log, rules=Assembly(divider=divider))
        events = Session.events_of(data.log)
        self.tracker = SessionActivity(events)
        header = next((event for event in events if isinstance(event, SessionStarted)), None)
        if header is None:  # no store takes such a one: somebody else wrote it
            raise StoreError("the log has no header", hint="`lore store verify` says what is wrong")
        self.header = header
        self.head = data.head

    def is_continued_by(self, data: SessionData) -> bool:
        """Tell whether these events come behind what was read: another session may bear the name by now."""
        digests = digest_lines(bytes.fromhex(self.head.digest), data.events)
        return data.head.digest == (digests[-1].hex() if digests else self.head.digest)

    def take(self, events: Sequence[Event], head: Head) -> None:
        """Take events that are stored behind what was read."""
        for event in events:
            self.session.apply(event)
            self.tracker.add(event)
        self.head = head


@dataclass(slots=True)
class _WatchedSession:
    """What is known of a session, held or not: its head as it was looked at, how far it had moved when it was read
    (`moves`, None where it is not learnt from for its silence) and when it was learnt from (`learnt_moves`).
    """

    head: Head | None = None
    waits: bool = False
    is_untimed: bool = False  # that was said
    moves: int | None = None
    last: float | None = None
    learnt_moves: int = 0


class Watch:
    """Looks at one store again and again, with this process' environment; not safe between threads.

    `divider` is the setting by which its sessions are folded.
    """

    def __init__(
        self, store: Store, settings: Compaction | None, rules: DatedRules, hands: Hands,
        memory: StoreMemory | None = None, *, divider: DividerPlace = "before",
    ) -> None:  # fmt: skip
        self._store, self._settings, self._rules, self._hands = store, settings, rules, hands
        self._divider: DividerPlace = divider
        self._memory = memory
        self._gap_secs = 0 if memory is None else memory.gap_secs
        self._seen: defaultdict[str, _WatchedSession] = defaultdict(_WatchedSession)
        self._memories: dict[str, SessionMemory | None] = {}
        self._held: OrderedDict[str, _Log] = OrderedDict()

    def run(self) -> int:
        """Look until the wait says that it is enough; returns how many compactions were made."""
        made = 0
        try:
            made += self.look()
            while self._hands.wait():
                try:
                    made += self.look()
                except StoreError as error:  # gone for a moment: a watch runs for days, and the store may come back
                    self._hands.tell(f"{mask_url(self._store.url)}: {error.message}; the next look tries again")
        except WatchStoppedError:
            self._hands.tell(
                "stopped while a model or a command was asked: nothing of that was stored, the next watch asks"
            )
        return made

    def look(self) -> int:
        """Look once: compact sessions that have changed and are due, learn from idle ones."""
        made, listed = 0, drop_reserved(self._store.list())
        for gone in self._seen.keys() - {summary.session_id for summary in listed}:
            self._held.pop(gone, None)
            self._forget(gone)
        for summary in listed:
            if self._hands.is_ended():
                return made
            seen = self._seen[summary.session_id]
            if seen.head == summary.head and not seen.waits:
                continue
            made += self._tried(self._changed, summary.session_id)
            self._seen[summary.session_id].head = summary.head
        now = self._hands.clock()
        moved = {name: seen.last for name, seen in self._seen.items() if (seen.moves or 0) > seen.learnt_moves}
        for name in [name for name, last in moved.items() if is_idle(self._gap_secs, last, now)]:
            if self._hands.is_ended():
                break
            self._tried(self._rest, name)
        return made

    def _tried(self, do: Callable[[str], bool], session_id: str) -> bool:
        """Do something with a session; an error is told, as of a source that is not there: others may need none."""
        try:
            return do(session_id)
        except UnknownSessionError:  # deleted since it was listed
            pass
        except LoreError as error:
            self._hands.tell(f"{session_id}: {error.message}")
        return False

    def _forget(self, session_id: str) -> None:
        self._seen.pop(session_id, None)
        self._memories.pop(session_id, None)

    def _rest(self, session_id: str) -> bool:
        """Learn from an idle session, and consolidate; says what came of it where anything was new."""
        log = self._read(session_id)
        memory, tracker = self._memory_of(log.header), log.tracker
        if memory is None:
            return False
        line = memory.rest(settled(log.session.state.chain(MAIN)).entries, tracker.moved_at)
        if line is None:
            tell = "another pass is at work for this agent and user, skipped until the next look"
            self._hands.tell(f"{session_id}: {tell}")
            return False
        self._seen[session_id].learnt_moves = tracker.moves
        if line:
            self._hands.say(f"{session_id}: idle: {line}")
        return bool(line)

    def _memory_of(self, header: SessionStarted) -> SessionMemory | None:
        """Return the memory that a session belongs to; None if nothing of it is remembered."""
        if self._memory is not None and header.session_id not in self._memories:
            self._memories[header.session_id] = self._memory.of_session(header)
        return self._memories.get(header.session_id)

    def _changed(self, session_id: str) -> bool:
        """Compact a session that has changed, if that is due."""
        log = self._read(session_id)
        if self._gap_secs and self._memory_of(log.header) is not None:
            seen = self._seen[session_id]
            seen.moves, seen.last = log.tracker.moves, log.tracker.moved_at
        if self._settings is None:
            return False
        chain = log.session.state.main()
        if chain.id != MAIN or (chain.turn is not None and (chain.last is None or chain.last.turn != chain.turn.turn)):
            return False
        now = self._hands.clock()
        firing = self._due(self._settings, log, chain, now)
        return firing is not None and self._compact(self._settings, log, chain, firing, now)

    def _read(self, session_id: str) -> _Log:
        log = self._held.pop(session_id, None)
        added = None if log is None else self._store.load(session_id, after=log.head.number)
        if log is not None and added is not None and log.is_continued_by(added):
            log.take(Session.events_of(added.log), added.head)
        else:
            if log is not None:  # it was deleted, and another one begun
                self._forget(session_id)
            log = _Log(self._store.load(session_id), self._divider)
        self._held[session_id] = log
        while len(self._held) > MOST:
            self._held.popitem(last=False)
        return log

    def _due(self, settings: Compaction, log: _Log, chain: Chain, now: float) -> Firing | None:
        """Return what is due; a cadence that had better wait for a cold cache is looked at again without a change."""
        session_id, tracker = log.header.session_id, log.tracker
        seen = self._seen[session_id]
        unsent = chain.entries.since(min(chain.sent, len(chain.entries)))
        spoke = any(is_real(entry.item) for entry in islice(unsent, LATEST))  # only then a pause has ended
        if spoke and settings.gap_secs and not seen.is_untimed and not tracker.chain(MAIN).is_timed:
            seen.is_untimed = True
            self._hands.tell(f"{session_id}: {UNTIMED}")
        firing = judge_chain(tracker, chain, settings, AUTOMATIC if spoke else AFTER_TURN, now=now)
        cache = None if firing is None else session_costs(log.session.state, chain, self._rules, now)
        seen.waits = firing is not None and should_wait(firing, tracker, chain, settings, cache, now)
        return None if seen.waits else firing

    def _compact(self, settings: Compaction, log: _Log, chain: Chain, firing: Firing, now: float) -> bool:
        session_id, state, hands = log.header.session_id, log.session.state, self._hands
        user, agent = log.tracker.user or "", log.tracker.agent or ""
        with trylock(self._store.url, agent, user) as free:
            if not free:
                hands.tell(f"{session_id}: another compaction is at work, skipped")
                self._seen[session_id].waits = True  # whoever is at work may end without having done it
                return False
            dependencies = dependencies_of(settings, hands.tell, session_id, agent, user)
            dependencies = dependencies._replace(memory=self._memory_of(log.header), waiting=hands.waiting)
            done = execute(state, chain.id, firing, settings, dependencies, at=now)
            if done.refused:
                hands.tell(f"{session_id}: no {done.trigger} compaction: {done.refused}")
            if not done.events:
                return False
            lines = tuple(map(encode, done.events))
            delta = SessionDelta(base=log.head, new_events=lines, updated_at=format_timestamp(now))
            try:
                head = save_delta(self._store, session_id, delta)
            except ConflictError:
                hands.tell(f"{session_id}: written to meanwhile, skipped until the next look")
                return False
        log.take(done.events, head)
        context = f", {done.context_tokens:,} tokens of outside context" if done.context_tokens else ""
        hands.say(f"{session_id}: {done.trigger}: {done.pruned:,} messages pruned, {done.kept:,} kept{context}")
        return True
