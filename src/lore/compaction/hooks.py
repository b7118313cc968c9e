"""Continuous compaction for a harness that keeps its session in a store (`lore.store.session.StoredSession`).

    settings = policy("policy.toml")   `lore.config`; or `settings.Compaction(continuous_interval=5)`
    dependencies = dependencies_of(settings, print, stored.session_id)   `lore.compaction.summarizers`
    continuous = Continuous(stored, settings, dependencies)    after each start
    continuous.before_turn(now)        when the user has spoken, before the message is applied and the turn begins
    stored.apply(message); stored.begin_turn(…); stored.save(); …the request, its answer…; stored.save()
    continuous.after_turn(now)         when the turn has ended, its calls and results applied
    continuous.settle(now, wait=True)  at the end: what is still under way is waited for, and applied

Gaps are judged by times: `stored.begin_turn(…, at=stamp())`, or those of messages (`event("append", at=stamp(), …)`).

`before_turn` compacts after a pause (gap) or where the window is full, at once: it takes as long as the slowest source
(30 s at most) and the summary; where nothing is due, O(what is new). `after_turn` begins a cadence's (or an overflow's)
work in a thread of its own; what comes of it is applied by the next call, in the caller's thread.

With a `memory` (`compaction.base.SessionMemory`; lore's plug-in `memory` has one) what a compaction prunes is learnt
from first, `before_turn` tells the session what is remembered, and memory learns in the background after turns and
after long silences, which `before_turn` sees, or `while_idle(now)`.

What was compacted is saved before the call returns, under the lock of the agent and its user, and only where the store
holds what `stored` knows. A summary that cannot be had is told, and nothing is pruned; the next trigger tries again.
Not safe between threads; for asyncio: `await asyncio.to_thread(continuous.before_turn, now)`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, TypeVar

from lore.asking import SummaryError
from lore.compaction.activity import UNTIMED, SessionActivity
from lore.compaction.base import CompactionOutcome, SessionMemory, Trigger
from lore.compaction.commands import is_nested
from lore.compaction.costs import CacheCosts
from lore.compaction.executor import Dependencies, Prepared, finish, judge_chain, prepare, should_wait
from lore.compaction.policy import AFTER_TURN, BEFORE_TURN
from lore.compaction.settings import Compaction
from lore.errors import LoreError
from lore.model.events import MAIN
from lore.model.state import Chain, settled
from lore.model.times import format_timestamp
from lore.session import Session
from lore.store.deltas import lines_of
from lore.store.locks import trylock
from lore.store.registry import load_notes
from lore.store.session import StoredSession

T = TypeVar("T")
LATEST = 253_402_300_799.0  # the end of the year 9999: no later time can be written down


class _Work(NamedTuple):
    """A compaction that a thread prepares; `lock` is let go of when it was applied or given up."""

    lock: ExitStack
    prepared: Future[Prepared]


def run_in_thread(make: Callable[[], T], name: str) -> Future[T]:
    """Do something in a thread of its own, which ends with the program."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(make())
        except BaseException as error:  # noqa: BLE001 - raised where the caller asks, who would else wait for ever
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


def _check(now: float) -> None:
    """Raise LoreError for a time that is none: milliseconds, most often."""
    if not 0 <= now <= LATEST:
        raise LoreError(f"{now} is not a time in seconds since 1970", hint="time.time() is one")


class Continuous:
    """Compacts one stored session by a policy, and remembers; without settings and memory it does nothing.

    `cache` (prices and lifetime) is what `when = "cheapest"` decides by; without it a cadence never waits.
    `dependencies.tell` receives what was skipped, and why.
    """

    def __init__(
        self, stored: StoredSession, settings: Compaction | None, dependencies: Dependencies, *, agent: str = "",
        cache: CacheCosts | None = None, memory: SessionMemory | None = None, environ: Mapping[str, str] = os.environ,
    ) -> None:  # fmt: skip
        fault = "" if settings is None else settings.fault()
        if fault:
            raise LoreError(f"compaction: {fault}")
        if settings is not None and dependencies.ask is not None and not dependencies.key:
            raise LoreError("outside context needs a key for its boundary lines", hint="Dependencies(key=secret bytes)")
        self._stored, self._settings = stored, settings
        self._dependencies = dependencies._replace(memory=memory)
        self._agent, self._cache = agent, cache
        self._work: _Work | None = None
        self._waits = self._told = False
        self._memory = memory
        unset = settings is None and memory is None
        self._off = unset or is_nested(environ)
        self._forget()
        if self._off and not unset:
            dependencies.tell("nothing is compacted: this runs inside a source or summariser of a compaction")

    def _forget(self) -> None:
        self._loads = self._stored.loads
        self._tracker, self._fed = SessionActivity(), 0

    def before_turn(self, now: float) -> CompactionOutcome | None:
        """Compact after a pause or when the window is full, and tell the session what is remembered.

        Returns what was compacted, None for nothing. What the session is told waits for the harness' next save.
        `now` in seconds since 1970. Raises ConflictError as `stored.save` does, where another writer saved without
        taking the lock: call `stored.reload`.
        """
        if self._off:
            return None
        _check(now)
        done = self.settle(now)
        if self._start(BEFORE_TURN, now) and self._work is not None:
            self._work.prepared.exception()  # waits
            done = self.settle(now) or done
        if self._memory is not None:
            self.while_idle(now)
            self._stored.apply(*self._memory.events(self._stored.session.state))
        return done

    def while_idle(self, now: float) -> None:
        """Start to remember in the background after a long silence: for a timer between turns."""
        if self._off or self._memory is None:
            return
        self._catch_up()
        self._memory.while_idle(self._chain().entries, self._tracker.moves, self._tracker.moved_at, now)

    def _chain(self) -> Chain:
        return settled(self._stored.session.state.chain(MAIN))

    def _start(self, ask: tuple[Trigger, ...], now: float) -> bool:
        """Begin what is due in the background; False where nothing is, or something is under way."""
        settings, dependencies = self._settings, self._dependencies
        if self._work is not None or settings is None:
            return False
        self._catch_up()
        state, chain, tracked = self._stored.session.state, self._chain(), self._tracker.chain(MAIN)
        named = self._agent and tracked.last_spoken(self._agent)[0]
        agent = self._agent if named else None  # a harness of one agent need not name it in its events
        judge = partial(judge_chain, self._tracker, chain, settings, now=now, agent=agent)
        firing = judge(ask)
        if ask == BEFORE_TURN:
            if settings.gap_secs and not self._told and not tracked.is_timed:
                self._told = True
                dependencies.tell(UNTIMED)
            cold = self._cache is not None and self._cache.is_warm(self._tracker.pause(now)) is False
            if firing is None and self._waits and cold and (waited := judge(("manual",))) is not None:
                firing = waited._replace(trigger="cadence")
            self._waits = self._waits and firing is None
        elif firing is not None and should_wait(firing, self._tracker, chain, settings, self._cache, now):
            self._waits, firing = True, None
        lock = ExitStack()
        if firing is None or not self._alone(lock):
            return False
        prepared = run_in_thread(partial(prepare, state, MAIN, firing, settings, dependencies), "lore-compaction")
        self._work = _Work(lock, prepared)
        return True

    def after_turn(self, now: float) -> CompactionOutcome | None:
        """Start what is due after a turn in the background; returns what an earlier call's work did, or None."""
        if self._off:
            return None
        _check(now)
        done = self.settle(now)
        self._start(AFTER_TURN, now)
        if self._memory is not None:
            self._catch_up()
            window = 0 if self._settings is None else self._settings.window
            self._memory.after_turn(self._chain().entries, window, now)
        return done

    def settle(self, now: float, *, wait: bool = False) -> CompactionOutcome | None:
        """Apply what the background has made, if it has; with `wait`, when it has: at the end of a session."""
        work, tell = self._work, self._dependencies.tell
        if wait and work is not None:
            work.prepared.exception()  # waits
        if self._memory is not None:
            self._memory.settle(wait=wait)
        if work is None or not work.prepared.done():
            return None
        self._work = None
        with work.lock:
            try:
                prepared = work.prepared.result()
            except SummaryError as error:
                tell(f"nothing was compacted, no summary could be had: {error.message}")
                return None
            if not self._is_current():
                return None
            done = finish(self._stored.session.state, MAIN, prepared, at=now)
            if done is None:
                tell("the session has changed meanwhile: what was to be pruned is not there any more")
                return None
            if done.refused:
                tell(f"no {done.trigger} compaction: {done.refused}")
            self._stored.apply(*done.events)
            self._stored.save(at=format_timestamp(now))
            return done

    def _alone(self, lock: ExitStack) -> bool:
        """Take the lock of this agent and user; False if it is held, or another writer has changed the session."""
        agent = self._agent or self._tracker.agent or ""
        if not lock.enter_context(trylock(self._stored.store.url, agent, self._tracker.user or "")):
            self._dependencies.tell("another compaction is at work for this agent and user: skipped")
            return False
        if not self._is_current():
            lock.close()
            return False
        return True

    def _is_current(self) -> bool:
        stored = load_notes(self._stored.store, self._stored.session_id)
        if stored is not None and stored.head.digest == self._stored.head.digest:
            return True
        self._dependencies.tell("the store holds more than is known here: skipped until the session is loaded again")
        return False

    def _catch_up(self) -> None:
        """Feed events saved or applied since the last call. Costs O(their bytes)."""
        stored = self._stored
        if stored.loads != self._loads:  # it was loaded again
            self._forget()
        head = stored.head.number
        saved = stored.store.load(stored.session_id, after=self._fed).events if head > self._fed else ()
        lines = (*saved[: max(0, head - self._fed)], *lines_of(stored.delta())[max(0, self._fed - head) :])
        for event in Session.events_of(b"".join(line + b"\n" for line in lines)):
            self._tracker.add(event)
        self._fed += len(lines)
