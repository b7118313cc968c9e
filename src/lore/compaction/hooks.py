"""Continuous compaction for a harness that keeps its session in a store: `lore guide compact` shows its hooks.

With a `memory` (`compaction.base.SessionMemory`; lore's plug-in `memory` has one) a compaction first learns from the
messages that it prunes, `before_turn` gives the session the remembered topics, and memory learns in the background
after long silences, which `before_turn` or `while_idle(now)` notices.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from lore.asking import SummaryError
from lore.compaction.activity import UNTIMED, SessionActivity
from lore.compaction.base import CompactionOutcome, Firing, SessionMemory, Trigger, Waiting
from lore.compaction.commands import is_nested
from lore.compaction.executor import Compactor, Dependencies, Prepared
from lore.compaction.policy import AFTER_TURN, BEFORE_TURN
from lore.compaction.settings import Compaction
from lore.errors import LoreError
from lore.model.events import MAIN
from lore.model.state import Chain, with_streamed_text
from lore.model.times import format_timestamp
from lore.session import Session
from lore.store.base import Tell
from lore.store.locks import trylock
from lore.store.registry import load_notes
from lore.store.session import StoredSession

T = TypeVar("T")
LATEST = 253_402_300_799.0  # the end of the year 9999: no later time can be written down


def run_in_thread(make: Callable[[], T], name: str) -> Future[T]:
    """Call a function in a thread of its own, which ends with the program."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:  # noqa: BLE001 - raised by `result`, or the caller would wait for ever
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


class Continuous:
    """Compacts one stored session by a policy, and remembers; without settings and memory it does nothing.

    `dependencies.tell` receives notes for the user, `explain` why each trigger fires or is skipped.
    `activity` is the session's until now, read from the store if it is not given. `waiting` is what an earlier object
    left of this session.
    """

    def __init__(
        self, stored: StoredSession, settings: Compaction | None, dependencies: Dependencies, *,
        memory: SessionMemory | None = None, explain: Tell | None = None, activity: SessionActivity | None = None,
        waiting: Waiting | None = None,
    ) -> None:  # fmt: skip
        if fault := "" if settings is None else settings.fault():
            raise LoreError(f"compaction: {fault}")
        self.stored = stored
        self.is_locked = False  # the last compaction was skipped because another one holds the lock
        self._memory, self._tell = memory, dependencies.tell
        self._turn_ended: float | None = None
        self._work: tuple[ExitStack, Future[Prepared]] | None = None  # the lock, and what a thread prepares
        is_unset = settings is None and memory is None
        self._is_off = is_unset or is_nested(os.environ)
        if self._is_off and not is_unset:
            self._tell("nothing is compacted: this runs inside a source or summariser of a compaction")
        self.activity = activity or SessionActivity(Session.events_of(stored.log()))
        stored.followers.append(self.activity)
        self._compactor = Compactor(
            settings or Compaction(), dependencies._replace(memory=memory), self.activity, waiting=waiting,
            explain=None if settings is None else explain,
        )  # fmt: skip

    def before_turn(self, now: float) -> CompactionOutcome | None:
        """Compact after a pause or if the window is full, and give the session the remembered topics.

        Returns the compaction, None without one. The topics wait for the harness' next save. `now` is in seconds
        since 1970. Raises ConflictError as `stored.save` does, if another writer saved without taking the lock: call
        `stored.reload`.
        """
        if self._is_off:
            return None
        outcome = self.settle(now)
        if self._work is None:
            outcome = self.compact_if_due(BEFORE_TURN, now) or outcome
        if self._memory is not None:
            self.while_idle(now)
            self.stored.apply(*self._memory.events(self.stored.state))
        return outcome

    def after_turn(self, now: float) -> CompactionOutcome | None:
        """Start the compaction that is due after a turn in the background; return the outcome of an earlier call."""
        if self._is_off:
            return None
        outcome = self.settle(now)
        if self._work is None and (firing := self._due(AFTER_TURN, now)) is not None:
            lock = ExitStack()
            if self._acquire_lock(lock):
                self._work = lock, run_in_thread(self._preparation(firing, now), "lore-compaction")
        self._turn_ended = now
        return outcome

    def while_idle(self, now: float) -> None:
        """Start to remember in the background after a long silence: for a timer between turns."""
        if self._is_off or self._memory is None:
            return
        last = self._turn_ended if self.activity.moved_at is None else self.activity.moved_at
        self._memory.while_idle(self.chain().entries, self.activity.moves, last, now)

    def settle(self, now: float, *, wait: bool = False) -> CompactionOutcome | None:
        """Apply what the background has prepared, if it is ready; with `wait`, once it is: at the end of a session."""
        if not 0 <= now <= LATEST:
            raise LoreError(f"{now} is not a time in seconds since 1970", hint="time.time() is one")
        if wait and self._work is not None:
            self._work[1].exception()  # waits
        if self._memory is not None:
            self._memory.settle(wait=wait)
        if self._work is None or not self._work[1].done():
            return None
        (lock, prepared), self._work = self._work, None
        with lock:
            return self._apply(prepared.result, now)

    # for a watch of a store, too

    def chain(self) -> Chain:
        """Return the main chain."""
        return with_streamed_text(self.stored.state.chain(MAIN))

    def compact_if_due(self, triggers: tuple[Trigger, ...], now: float) -> CompactionOutcome | None:
        """Compact if one of the triggers is due, and save; None if none is, or it was skipped or failed."""
        self.is_locked = False
        firing = self._due(triggers, now)
        if firing is None:
            return None
        with ExitStack() as lock:
            return self._apply(self._preparation(firing, now), now) if self._acquire_lock(lock) else None

    def _due(self, triggers: tuple[Trigger, ...], now: float) -> Firing | None:
        compactor, tracked = self._compactor, self.activity.chain(MAIN)
        if "gap" in triggers and compactor.settings.gap_secs and not tracked.is_timed:
            if not compactor.waiting.knows_untimed:
                self._tell(UNTIMED)
            compactor.waiting.knows_untimed = True
        return compactor.due(self.chain(), triggers, now)

    def _preparation(self, firing: Firing, now: float) -> Callable[[], Prepared]:
        return partial(self._compactor.prepare, self.stored.state, MAIN, firing, now)

    def _apply(self, prepare: Callable[[], Prepared], now: float) -> CompactionOutcome | None:
        """Apply and save a compaction, if the session has not changed since it was prepared."""
        try:
            outcome = self._compactor.finish(self.stored.state, MAIN, prepare)
        except SummaryError as error:
            self._tell(f"nothing was compacted, there is no summary: {error.message}")
            return None
        if not self._is_current():
            return None
        if outcome is None:
            self._tell("nothing was compacted: messages that were to be pruned have changed meanwhile")
            return None
        if outcome.refused:
            self._tell(f"no {outcome.trigger} compaction: {outcome.refused}")
        self.stored.apply(*outcome.events)
        self.stored.save(at=format_timestamp(now))
        return outcome

    def _acquire_lock(self, lock: ExitStack) -> bool:
        """Acquire the lock of this agent and user; False if it is held, or another writer has changed the session."""
        self.is_locked = not lock.enter_context(trylock(self.stored.store, *self.activity.owner))
        if self.is_locked:
            self._tell("another compaction is at work for this agent and user: skipped")
        elif self._is_current():
            return True
        lock.close()
        return False

    def _is_current(self) -> bool:
        notes = load_notes(self.stored.store, self.stored.session_id)
        if notes is not None and notes.head.digest == self.stored.head.digest:
            return True
        self._tell("the store holds more than is known here: skipped until the session is loaded again")
        return False
