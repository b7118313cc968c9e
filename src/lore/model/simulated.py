"""The result of `lore simulate`: turn by turn what a cache would do, what was billed, why they differ, what it cost."""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import BilledResult, CauseResult, VerdictResult


class PredictedResult(Struct, frozen=True, kw_only=True):
    """Tokens that a cache would read, write, and leave to be processed uncached; None where nothing can be said.

    `reason` says what decided.
    """

    read_tokens: int | None
    write_tokens: int | None
    uncached_tokens: int | None
    confidence: str
    reason: str = ""


class CostResult(Struct, frozen=True, kw_only=True):
    """Money: what was billed, what was predicted, and what was paid again though it should have been read."""

    currency: str
    billed: float | None
    predicted: float | None
    waste: float | None
    unexplained: float | None = None


class SimulatedTurn(Struct, frozen=True, kw_only=True):
    """One turn, with its verdict's causes, the leading one first.

    `cache` is None where nobody knows who served it; `waste_tokens` were paid again and are explained as waste,
    `unexplained_tokens` were paid again and nothing explains them; `foreseen`: the drop was predicted before its bill.
    """

    turn: int
    chain: str
    at: float | None
    model: str | None
    cache: str | None
    predicted: PredictedResult
    billed: BilledResult | None
    verdict: VerdictResult | None
    causes: list[CauseResult]
    cost: CostResult | None
    lost_tokens: int | None
    waste_tokens: int | None
    unexplained_tokens: int | None
    foreseen: bool | None
    line: int | None
    path: str

    @property
    def cause(self) -> CauseResult | None:
        """The cause that the loss is counted under; None where nothing was lost."""
        return self.causes[0] if self.causes and self.causes[0].is_break else None


class SimulatedTotals(Struct, frozen=True, kw_only=True):
    """Sums over turns; what is unknown of a turn is left out of a sum and counted in `unpriced` or `unbilled`."""

    turns: int
    unbilled: int
    unpriced: int
    predicted: BilledResult
    billed: BilledResult
    lost_tokens: int
    waste_tokens: int
    unexplained_tokens: int
    cost: CostResult
    by_price: dict[str, float]


class AgreementResult(Struct, frozen=True, kw_only=True):
    """How far predictions are from bills, over turns that have both and one before them in their chain.

    `drops`: bills that read over 1,000 tokens less than the turn before left; `drops_predicted` of them were said
    before the bill was read, `false_drops` were said and did not come. `naive_…` is the error of the rule that
    what was read and written is read again.
    """

    turns: int
    exact: int
    within_2_percent: int
    mean_absolute_error_tokens: float | None
    naive_mean_absolute_error_tokens: float | None
    drops: int
    drops_predicted: int
    false_drops: int


class RulesUsed(Struct, frozen=True, kw_only=True):
    """Which rules predicted: the newest day on which their tables were checked."""

    as_of: str | None


class GroupResult(Struct, frozen=True, kw_only=True):
    """What turns of one cause, model, project or day cost."""

    by: str
    name: str
    turns: int
    lost_tokens: int
    waste_tokens: int
    billed: float | None
    waste: float | None


class Saving(Struct, frozen=True, kw_only=True):
    """What a change would have saved by the same predictions: tokens that are not paid again, and money."""

    change: str
    turns: int
    tokens: int
    currency: str
    saved: float | None
    fix: str


class Simulated(Struct, frozen=True, kw_only=True):
    """`lore simulate --json`: one object a cache; `cache` is None where turns name different ones."""

    schema: int = 2
    cache: str | None
    rules: RulesUsed
    turns: list[SimulatedTurn]
    totals: SimulatedTotals
    agreement: AgreementResult
    groups: list[GroupResult]
    what_if: list[Saving]
    notes: list[str]
    problems: list[Problem]
