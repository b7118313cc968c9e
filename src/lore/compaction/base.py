"""Words of continuous compaction, and what its parts hand to each other.

A user exchange is a real user message (`layout.is_real`) and all turns up to the next; a message is an item of the
timeline (a tool call with its result is one). Only `commands` and `summarizers` touch the outside world; the others are
pure: clock, tokens and texts are arguments.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from lore.model.events import ContextPersisted, Event

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
