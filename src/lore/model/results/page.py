"""The contents of a session's HTML page; made by `lore.commands.pages`, drawn by `lore.report.html`.

Tokens are counts of the usage unless the field says otherwise, times are seconds since the epoch, money is in US
dollars. None: unknown.
"""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import ColumnsResult
from lore.model.results.overview import Spending, SpendingCause
from lore.model.results.simulate import SimulatedTurn


class PageTurn(Struct, frozen=True):
    """A turn, and what its timeline marks."""

    simulated: SimulatedTurn  # the prediction, the usage and the causes of the turn
    pause: float | None = None  # seconds since the chain's previous request, if that is long
    compacted: bool = False  # the history was compacted before it
    model_before: str | None = None  # the previous model, if it differs
    compared: SimulatedTurn | None = None  # of an examined cache break: the earlier turn that it was compared with
    text_before: str = ""  # the text of that turn around the first difference, if there is one
    text_after: str = ""  # the text of this turn around it
    path: str = ""  # of the first difference
    # what bytes, usage and the provider show of an examined cache break; None for other turns
    columns: ColumnsResult | None = None


class PageSession(Struct, frozen=True):
    """A session with its subagents."""

    path: str  # of its log
    format: str  # name of the log's format; empty if it could not be read
    project: str | None  # the folder that the log names
    chains: dict[str, list[PageTurn]]  # name as recorded -> turns in the order recorded; the main chain first
    spending: Spending  # the sums of all chains
    causes: list[SpendingCause]  # of waste and of expected losses, the costliest first
    unexplained: list[SpendingCause]  # cache breaks without a certain cause
    lacks: str = ""  # parts of prompts that logs of this format do not record
    problems: list[Problem] = []  # places in the recording that could not be read or did not fit
    message: str | None = None  # why it could not be read to its end
    title: str | None = None  # the name that its agent gave it, else its first prompt
    began: float | None = None  # when the first turn was sent
    codes: tuple[str, ...] = ()  # of all causes, the costliest first
    leading: str = ""  # the costliest cause, in a few words without names

    @property
    def turns(self) -> list[PageTurn]:
        """The turns of all chains."""
        return [turn for turns in self.chains.values() for turn in turns]
