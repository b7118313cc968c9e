"""Words of continuous compaction, and what its parts hand to each other.

A user exchange is a real user message (`layout.is_real`) and all turns up to the next; a message is an item of the
timeline (a tool call with its result is one). Only `commands` and `summarizers` touch the outside world; the others are
pure: clock, tokens and texts are arguments.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from lore.errors import LoreError
from lore.model.events import ContextPersisted, Event
from lore.model.state import Entry

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


class SummaryRequest(NamedTuple):
    """What a summariser is asked: the entries that go, oldest first, and `opening`: those among them that begin the
    exchange whose end stays. `previous` is the summary that is replaced; `tokens` how long the answer may be. `prompt`
    is what a model is told to do with the entries where it is no summary that is wanted (`memory.extraction`);
    `fault` says why the last answer to this request could not be used, empty for the first.
    """

    entries: tuple[Entry, ...]
    opening: tuple[Entry, ...] = ()
    previous: str = ""
    tokens: int = 1_024
    prompt: str = ""
    fault: str = ""


class SummaryAnswer(NamedTuple):
    """A summary; `cut_off` where the summariser stopped for its length."""

    text: str
    cut_off: bool = False


class SummaryError(LoreError):
    """No summary: nothing is pruned, and the next trigger tries again."""


class GivenUpError(SummaryError):
    """No summary, and an immediate retry would not help: a wrong key, no server, a time-out."""


class UnusableAnswerError(SummaryError):
    """An answer that cannot be read: asked for again once, with what is wrong with it in the prompt."""


class Summarizer(Protocol):
    """Sums up what a compaction takes away."""

    name: str

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary; raises SummaryError. Deterministic only where its class says so."""
        ...


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
