"""Results of `lore simulate`: predictions and usage turn by turn, and the rules in force."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from lore.model.codes import Problem
from lore.model.results import CauseResult, CommandResult, Interruption, UsageResult, VerdictResult
from lore.model.results.measured import MeasuredResult

RuleValue: TypeAlias = bool | int | float | str | None
Figures: TypeAlias = Literal["recorded", "estimated"]


class PredictedResult(Struct, frozen=True, kw_only=True):
    """What a cache is predicted to do with a request, for at most the number of tokens in its usage."""

    read_tokens: int | None
    write_tokens: int | None
    uncached_tokens: int | None
    confidence: str
    reason: str = ""  # what decided the prediction


class Cost(Struct, frozen=True, kw_only=True):
    """What a turn, or a sum of turns, costs."""

    currency: str
    billed: float | None
    predicted: float | None  # of the pass that read earlier cache entries; other passes and tools as billed
    waste: float | None  # re-billed as waste, beyond the price of reading
    unexplained: float | None = None  # re-billed without a certain cause, beyond the price of reading
    at_least: Literal[True] | UnsetType = UNSET  # true if a count or price is unknown: `billed` is the rest
    recorded: float | UnsetType = UNSET  # the cost that the log states; left out if it states none


class SimulatedTurn(Struct, frozen=True, kw_only=True):
    """One turn: the prediction, the usage, and why they differ."""

    turn: int
    chain: str
    at: float | None
    model: str | None
    cache: str | None  # null if it is unknown who served the turn
    predicted: PredictedResult
    billed: UsageResult | None
    verdict: VerdictResult | None
    causes: list[CauseResult]  # the leading one first
    cost: Cost | None
    lost_tokens: int | None
    waste_tokens: int | None  # re-billed as waste
    unexplained_tokens: int | None  # re-billed without a certain cause
    foreseen: bool | None  # the drop was predicted
    line: int | None
    path: str
    other_passes: UsageResult | UnsetType = UNSET  # sum over the other passes, if there are any

    @property
    def cause(self) -> CauseResult | None:
        """The cause to which the loss is attributed; None if nothing was lost."""
        return self.causes[0] if self.causes and self.causes[0].is_break else None


class SimulatedTotals(Struct, frozen=True, kw_only=True):
    """Sums over turns. Unknown values are left out."""

    turns: int
    unbilled: int  # turns without usage
    unpriced: int  # turns without a price
    predicted: UsageResult
    billed: UsageResult
    lost_tokens: int  # more than expected, as in `lore check`
    waste_tokens: int
    unexplained_tokens: int
    cost: Cost
    by_price: dict[str, float]
    partial_outputs: int = 0  # turns with only a part of the output tokens recorded
    other_passes: UsageResult | UnsetType = UNSET  # of the same responses, not in `billed`


class AgreementResult(Struct, frozen=True, kw_only=True):
    """How close predictions are to the usage, over turns that have both and a previous turn in their chain."""

    turns: int
    exact: int
    within_2_percent: int
    mean_absolute_error_tokens: float | None
    naive_mean_absolute_error_tokens: float | None  # of the rule that everything read or written before is read again
    drops: int  # turns that read over 1,000 tokens less than the previous turn left in the cache
    drops_predicted: int
    false_drops: int  # predicted, and did not happen
    prompts: int  # turns with a new prompt of the user, in transcripts
    prompts_within_2_percent: int


class RulesUsed(Struct, frozen=True, kw_only=True):
    """The rules that predictions follow."""

    as_of: str | None  # the latest day on which they were checked


class GroupResult(Struct, frozen=True, kw_only=True):
    """The cost of the turns in one group."""

    by: str  # cause, model, project or day
    name: str  # a project is the folder that the log names, else the folder of the log
    turns: int
    lost_tokens: int
    waste_tokens: int
    billed: float | None
    waste: float | None
    unexplained_tokens: int = 0
    unexplained: float | None = None


class ReliabilityResult(Struct, frozen=True, kw_only=True):
    """How often a cache read everything of a prefix that only the provider could lose."""

    by: str  # all, model, hour (of the day, UTC), gateway (the host) or key (its digest)
    name: str
    appends: int  # turns that continue the previous one within the lifetime of the cache
    read: int  # how many of them read all of it, but 2 % and one block
    share: float


class Saving(Struct, frozen=True, kw_only=True):
    """What a change would have saved by the same predictions."""

    change: str
    turns: int
    tokens: int  # no longer re-billed
    currency: str
    saved: float | None
    fix: str

    @property
    def saves(self) -> bool:
        """Whether it saves money, or tokens if these have no price."""
        return self.saved > 0 if self.saved else self.tokens > 0


class SimulateResult(CommandResult, frozen=True, kw_only=True):
    """`lore simulate --json`: one object for each cache."""

    cache: str | None  # null if turns have different caches
    rules: RulesUsed
    turns: list[SimulatedTurn]
    totals: SimulatedTotals
    agreement: AgreementResult
    groups: list[GroupResult]
    reliability: list[ReliabilityResult]
    what_if: list[Saving]
    notes: list[str]
    problems: list[Problem]
    interrupted: Interruption | UnsetType = UNSET  # left out if the run was completed
    measured: MeasuredResult | UnsetType = UNSET  # left out without logs of engines


class RuleResult(Struct, frozen=True, kw_only=True):
    """One dated row of the rules."""

    rule: str
    value: RuleValue  # null if unknown
    unit: str
    provider: str
    model: str
    platform: str
    valid_from: str
    above_tokens: int | None
    source: str
    evidence: str
    note: str
    file: str
    own: bool  # the row is the user's
    used: bool  # predictions or prices use it


class RulesResult(CommandResult, frozen=True, kw_only=True):
    """`lore simulate --rules --json`."""

    as_of: str | None  # the latest day on which a table was checked
    rules: list[RuleResult]  # in the order of their files, the user's first
