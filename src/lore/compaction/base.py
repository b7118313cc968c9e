"""Types that the parts of continuous compaction pass to each other.

An exchange is a real user message (`layout.is_real`) and all turns up to the next one. A message is one item of the
timeline; a tool call with its result is one message. Only `commands` and `summarizers` start processes or use the
network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from lore.compaction.entries import Entries
from lore.model.events import Event, SessionStarted
from lore.model.state import Entry, FoldedSession

Trigger = Literal["cadence", "gap", "overflow", "manual"]


class Window(NamedTuple):
    """The time span about which sources of outside context are asked, in seconds since 1970."""

    begin: float
    end: float


class Firing(NamedTuple):
    """A trigger that is due, and what its compaction does. The fields from `marker` to `tokens` are an overflow's."""

    trigger: Trigger
    pruned: tuple[Entry, ...] = ()  # what is removed from the timeline, oldest first
    window: Window | None = None  # None: no outside context is asked for
    marker: str = ""  # replaces a missing summary
    shortened: tuple[tuple[str, str], ...] = ()  # call ids, and the texts that replace the results of these calls
    final: bool = False  # the prompt is above 90 % of the window even after this
    full: bool = False  # the prompt is above 90 % now: it cannot wait for a summary
    before: int = 0  # estimated prompt that was compared with the window
    tokens: int = 0  # estimated prompt afterwards
    reason: str = ""  # why it is due


@dataclass(slots=True)
class Waiting:
    """What earlier compactions of one session left: failed summaries, and what was reported."""

    failures: int = 0  # summaries that failed in a row
    until: int = 0  # the number of requests before which no summary is asked for
    knows_untimed: bool = False  # it was reported that the session holds no times

    def note_failure(self, requests: int) -> None:
        """Wait after a summary that failed at this number of requests: for 4 requests, then 8, at most 256."""
        self.failures += 1
        self.until = requests + 2 ** min(self.failures + 1, 8)


class CompactionOutcome(NamedTuple):
    """What a compaction did, or why it did nothing."""

    trigger: Trigger
    events: tuple[Event, ...]  # empty if nothing was done
    pruned: int  # messages removed
    kept: int  # messages that remain
    context_tokens: int  # estimated tokens of outside context that was added
    refused: str = ""  # why nothing was pruned although it was due: the prompt would not have become shorter


class SessionMemory(Protocol):
    """Learns from one session, and gives it the remembered topics; a harness or a command passes it to a compaction.

    Implemented by lore's plug-in `memory`. Entries are those of the session's main chain; a time is in seconds since
    1970. Only `before_drop`, `events` and `remember_idle_session` may take long.
    """

    def before_drop(self, entries: Entries, stop: int | None = None, /) -> object:
        """Learn from the entries before `stop`, which a compaction is about to drop; never raises LoreError."""
        ...

    def events(self, state: FoldedSession, /) -> tuple[Event, ...]:
        """Return events for the session to apply before its next turn."""
        ...

    def while_idle(self, entries: Entries, moves: int, moved_at: float | None, now: float, /) -> None:
        """Start to learn in the background if the session is silent for long; `moves` counts a person's exchanges."""
        ...

    def settle(self, *, wait: bool) -> None:
        """Report failures of the background pass; with `wait`, once it has ended."""
        ...

    def remember_idle_session(self, entries: Entries, moved_at: float | None, /) -> str | None:
        """Learn now from a silent session; return a summary line, None if another process does so."""
        ...


class StoreMemory(Protocol):
    """The memory of the sessions of a store."""

    @property
    def gap_secs(self) -> int:
        """The seconds of silence after which a session is learnt from; 0: never."""
        ...

    def of_session(self, header: SessionStarted, /) -> SessionMemory | None:
        """Return the memory that a session belongs to; None if nothing of it is remembered."""
        ...


def is_idle(gap_secs: int, last: float | None, now: float) -> bool:
    """Return whether a session has been silent for `gap_secs`; never if that is 0, or no time is known."""
    return gap_secs > 0 and last is not None and now - last >= gap_secs
