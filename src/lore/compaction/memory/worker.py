"""Learn from one session in the background, one pass at a time.

    worker.feed(event) …                     every event of the session
    worker.after_turn(entries, now)          learns, where enough is new
    worker.rest(entries, now)                learns the rest and consolidates, once for each long silence

Rules: a pass never fails a turn and never touches the session; its result is in the store, and a session is told with
its next turn. A pass that failed is told, and tried again when as much is new again, or at the next long silence, with
the same entries. The mark of what was learnt from is in the store, so that a restarted worker learns only what came
since. Called from one thread; `Remembering.tell` and the store are used in the thread of the pass.
"""

from __future__ import annotations

import threading

from lore.compaction.memory.listening import Mark, Silence, is_enough, mark_of
from lore.compaction.memory.remembering import Remembering, is_idle
from lore.model.events import Event
from lore.model.state import Entry, Session
from lore.model.vector import Vector


class MemoryWorker:
    """Learns from one session and dreams; `window` is that of the session's model (0: unknown), `gap_secs` 0 is off."""

    def __init__(self, memory: Remembering, *, window: int = 0, gap_secs: int = 0) -> None:
        self.memory = memory
        self._window, self._gap = window, gap_secs
        self._thread: threading.Thread | None = None
        self._tried: Mark | None = None  # up to where the latest pass went, whether or not it failed
        self._rested = 0
        self._heard: float | None = None
        self.forget()

    def forget(self) -> None:
        """Start over: the session was loaded again, and all of its events come again."""
        self._silence = Silence()

    def feed(self, event: Event) -> None:
        """Take the session's next event."""
        self._silence.feed(event)

    def events(self, state: Session) -> tuple[Event, ...]:
        """Return what the session is to be told before its next turn begins."""
        return self.memory.events(state)

    def after_turn(self, entries: Vector[Entry], now: float) -> bool:
        """Start to learn if enough is new; tells whether it did. Costs O(what is new)."""
        self._heard = now
        if self._tried is None:
            self._tried = self.memory.mark() or ()
        if self.settle() and is_enough(entries, self._tried, self._window):
            return self._begin(entries, then_consolidate=False)
        return False

    def rest(self, entries: Vector[Entry], now: float) -> bool:
        """Start to learn the rest and consolidate if the user has been silent long enough; tells whether it did."""
        last = self._heard if self._silence.last is None else self._silence.last
        if self._silence.moves <= self._rested or not is_idle(self._gap, last, now) or not self.settle():
            return False
        self._rested = self._silence.moves
        return self._begin(entries, then_consolidate=True)

    def settle(self, *, wait: bool = False) -> bool:
        """Tell whether no pass is under way; with `wait`, when none is."""
        if self._thread is not None and wait:
            self._thread.join()
        return self._thread is None or not self._thread.is_alive()

    def _begin(self, entries: Vector[Entry], *, then_consolidate: bool) -> bool:
        self._tried = mark_of(entries)
        self._thread = threading.Thread(
            target=self._pass, args=(entries, self._silence.last, then_consolidate), name="lore-memory", daemon=True
        )
        self._thread.start()
        return True

    def _pass(self, entries: Vector[Entry], last: float | None, then_consolidate: bool) -> None:
        if then_consolidate:
            if self.memory.rest(entries, last).extracted is None:
                self._rested = 0  # another session of this user was at it: with the next look
        else:
            self.memory.before_drop(entries)
