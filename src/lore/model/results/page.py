"""What a page shows of a session: its chains turn by turn, what happened at which turn, what it cost.

Values that are made of verdicts (`lore.run.pages`) and drawn (`lore.report.html`). Tokens are counts as billed unless
said otherwise, times seconds since the epoch, money US dollars; what is unknown is None, never 0.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import ColumnsResult, UsageResult
from lore.model.results.overview import Spending, SpendingCause
from lore.model.results.simulate import SimulatedTurn

PartName: TypeAlias = Literal["unrecorded", "tools", "system", "kept", "messages"]


class PromptPart(Struct, frozen=True):
    """A part of a prompt, in the order in which a provider reads it; `tokens` are estimated from its bytes.

    `unrecorded`: what the bill counts beyond what the log holds; `kept`: messages that stood in the prompt before,
    `messages`: those behind them.
    """

    name: PartName
    tokens: int


class PageSide(Struct, frozen=True):
    """One of two successive turns; `text` is what stands at the first difference, empty where there is none."""

    turn: int
    chain: str
    at: float | None
    model: str | None
    billed: UsageResult | None
    text: str = ""


class PageTurn(Struct, frozen=True):
    """A turn, and what stands out in it.

    `pause` is how long the chain had stood still; `before` the turn that it was compared with and `after` itself, of a
    cache break alone; `path` is where they part, `shared` how many characters at the beginning of both texts are equal.
    `parts` make up the prompt, where they were looked at.
    """

    played: SimulatedTurn
    pause: float | None = None
    compacted: bool = False
    model_before: str | None = None
    before: PageSide | None = None
    after: PageSide | None = None
    path: str = ""
    shared: int = 0
    columns: ColumnsResult | None = None
    parts: tuple[PromptPart, ...] = ()


class PageChain(Struct, frozen=True):
    """A chain and its turns, in order; `subagent`: it is one beside the main one."""

    name: str
    subagent: bool
    turns: list[PageTurn]


class EarlierCompaction(Struct, frozen=True):
    """What a trial of compacting at a `window` of tokens would have `saved`, in US dollars, by so many compactions."""

    window: int
    saved: float
    compactions: int


class PageSession(Struct, frozen=True):
    """A session with its subagents. `lacks` is what such logs do not hold of their prompts.

    `causes` are those whose loss is waste or expected, `unexplained` the others, those that cost most first; `earlier`
    is there where compacting sooner was tried, and would have paid; `message` says why it could not be read on.
    """

    path: str
    format: str
    project: str | None
    chains: list[PageChain]
    spending: Spending
    causes: list[SpendingCause]
    unexplained: list[SpendingCause]
    lacks: str = ""
    problems: list[Problem] = []
    earlier: EarlierCompaction | None = None
    message: str | None = None

    @property
    def turns(self) -> list[PageTurn]:
        """Every turn of every chain."""
        return [turn for chain in self.chains for turn in chain.turns]

    @property
    def began(self) -> float | None:
        """When its first turn was sent."""
        return min((turn.played.at for turn in self.turns if turn.played.at is not None), default=None)
