"""Words of continuous compaction, and what its parts hand to each other.

A user exchange is a real user message (`layout.is_real`) and all turns up to the next; a message is an item of the
timeline (a tool call with its result is one). Only `commands` and `summarizers` touch the outside world; the others are
pure: clock, tokens and texts are arguments.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from lore.model.events import ContextPersisted, Event, SessionStarted
from lore.model.state import FoldedSession
from lore.prompt.entries import Entries

Trigger = Literal["cadence", "gap", "overflow", "manual"]
BYTES_PER_TOKEN = 4  # estimates: UTF-8 bytes of what is sent


class TimelineCut(NamedTuple):
    """Which entries stay: those from `place` on (and `held`, places before it whose calls are still running).

    `exchange` is the place where the user exchange begins that the cut falls into (or what an
    earlier compaction left of it); None where it falls between two.
    """

    place: int
    held: tuple[int, ...] = ()
    exchange: int | None = None


class Window(NamedTuple):
    """The time that outside context is asked about: seconds since 1970, fixed before compaction begins."""

    begin: float
    end: float


class Shortened(NamedTuple):
    """A tool's result that an overflow cuts: what the most recent call of this id says from then on."""

    call_id: str
    text: str


class Firing(NamedTuple):
    """A trigger that is due, and the cut that it makes. `window` where outside context is asked for.

    The rest is of an overflow (`policy.stages`; its `cut` is at 0 where no message goes): the `marker` stands in for
    a summary that could not be had, the results that are `shortened`, whether it is too `full` to wait for a summary
    (more than 90 % were used) and even then (`final`), and the estimate of the prompt afterwards, in `tokens`.
    """

    trigger: Trigger
    cut: TimelineCut
    window: Window | None = None
    marker: str = ""
    shortened: tuple[Shortened, ...] = ()
    final: bool = False
    full: bool = False
    tokens: int = 0


class Done(NamedTuple):
    """The events of a compaction (none: nothing was to be done), how many messages go and stay, tokens of context.

    `refused` says why nothing is pruned where something was due: the prompt would not have become shorter.
    """

    trigger: Trigger
    events: tuple[Event, ...]
    pruned: int
    kept: int
    context_tokens: int
    refused: str = ""

    @property
    def rewrites(self) -> bool:
        """Whether anything that was sent goes or changes: else only what sources said was added."""
        return not all(isinstance(event, ContextPersisted) for event in self.events)


class SessionMemory(Protocol):
    """Learns from one session, and gives it the remembered topics; a harness or a command passes it to a compaction.

    Implemented by lore's plug-in `memory`. Entries are those of the session's main chain; a time is in seconds since
    1970. Only `before_drop`, `events` and `rest` may take long.
    """

    def before_drop(self, entries: Entries, stop: int | None = None, /) -> object:
        """Learn from the entries before `stop`, which a compaction is about to drop; never raises LoreError."""
        ...

    def note_summary(self, unusable: int, failure: str = "", /) -> None:
        """Note that answers for a compaction's summary could not be used."""
        ...

    def events(self, state: FoldedSession, /) -> tuple[Event, ...]:
        """Return events for the session to apply before its next turn."""
        ...

    def after_turn(self, entries: Entries, window: int, now: float, /) -> None:
        """Start to learn in the background if enough is new; `window` is in tokens, 0 if it is unknown."""
        ...

    def while_idle(self, entries: Entries, moves: int, moved_at: float | None, now: float, /) -> None:
        """Start to learn in the background if the session is silent for long; `moves` counts a person's exchanges."""
        ...

    def settle(self, *, wait: bool) -> None:
        """Report failures of the background pass; with `wait`, once it has ended."""
        ...

    def rest(self, entries: Entries, moved_at: float | None, /) -> str | None:
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
