"""Remember the sessions of a watched store: what a compaction drops, and the rest once a session is idle.

In: headers, entries and silences of sessions as they were read. Out: what was learnt and dreamt, said in a line. Rules:
only sessions of agents that are opted in, and never a subagent's or one that keeps memory; a session is learnt from
once for each time that nobody speaks for `[sessions] gap_secs`, and only where a person spoke since the time before;
what was learnt from is marked in the store, so that a watch that begins anew does not pay for it again; one pass at a
time for an agent and its user, over all processes: who comes second tries again with the next look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lore.compaction.executor import timestamp
from lore.compaction.memory.asking import Ask
from lore.compaction.memory.listening import Silence
from lore.compaction.memory.remembering import WINDOW, Remembering, is_idle, remembering_of
from lore.compaction.settings import MemorySettings, Sessions
from lore.model.events import SessionStarted
from lore.model.state import Chain
from lore.store.base import Store, Tell


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
        self._whose: dict[str, Remembering | None] = {}
        self._quiet: dict[str, _Quiet] = {}
        self._passed: dict[str, int] = {}  # how far each had moved at its latest pass

    def memory_of(self, header: SessionStarted) -> Remembering | None:
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
