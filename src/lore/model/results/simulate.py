"""Results of `lore simulate`: predictions and usage turn by turn, and the rules in force."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from lore.model.codes import CauseKind, Problem
from lore.model.results import CauseResult, CommandResult, Interruption, Surcharge, UsageResult, VerdictResult
from lore.model.results.measured import MeasuredResult

RuleValue: TypeAlias = bool | int | float | str | None
Figures: TypeAlias = Literal["recorded", "estimated"]


class PredictedResult(Struct, frozen=True, kw_only=True):
    """What a cache is predicted to do with a request, for at most the number of tokens in its usage."""

    read_tokens: int | None  # input that is read from the cache; null: cannot be predicted
    write_tokens: int | None  # input that is written to the cache; null: cannot be predicted
    uncached_tokens: int | None  # input that is neither read nor written; null: cannot be predicted
    confidence: str  # exact, rule (by the cache's dated rules) or ceiling (no more than this is read)
    reason: str = ""  # what decided the prediction


class Cost(Struct, frozen=True, kw_only=True):
    """What a turn, or a sum of turns, costs."""

    currency: str  # of all amounts here
    billed: float | None  # by the usage and lore's prices; null if unknown
    predicted: float | None  # of the pass that read earlier cache entries; other passes and tools as billed
    waste: float | None  # re-billed as waste, beyond the price of reading
    unexplained: float | None = None  # re-billed without a certain cause, beyond the price of reading
    at_least: Literal[True] | UnsetType = UNSET  # true if a usage, count or price is unknown: `billed` is the rest
    recorded: float | UnsetType = UNSET  # the cost that the log states; left out if it states none
    surcharges: list[Surcharge] | UnsetType = UNSET  # parts due to other prices than the list price, by reason, if any


class SimulatedTurn(Struct, frozen=True, kw_only=True):
    """One turn: the prediction, the usage, and why they differ."""

    turn: int  # number in its chain, from 1
    chain: str  # the conversation
    at: float | None  # when it was sent, in seconds since the epoch; null: unknown
    model: str | None  # that the request names; null: unknown
    cache: str | None  # null if it is unknown who served the turn
    predicted: PredictedResult  # by the cache's rules, without this turn's usage
    billed: UsageResult | None  # the usage; null: not recorded
    verdict: VerdictResult | None  # of the provider; null if it gave none
    causes: list[CauseResult]  # the leading one first
    cost: Cost | None  # null if no count or price is known
    lost_tokens: int | None  # tokens that were cached and not read again; null: unknown
    waste_tokens: int | None  # re-billed as waste
    unexplained_tokens: int | None  # re-billed without a certain cause
    foreseen: bool | None  # the drop was predicted
    line: int | None  # of the recording, from 1; null if it has no lines
    path: str  # of the recording, or of its file that holds the turn
    other_passes: UsageResult | UnsetType = UNSET  # sum over the other passes, if there are any

    @property
    def cause(self) -> CauseResult | None:
        """The cause to which the loss is attributed; None if nothing was lost."""
        return self.causes[0] if self.causes and self.causes[0].is_break else None


class SimulatedTotals(Struct, frozen=True, kw_only=True):
    """Sums over turns. Unknown values are left out."""

    turns: int  # all turns, with and without usage
    unbilled: int  # turns without usage
    unpriced: int  # turns without a price
    problems: int  # places in the recordings that could not be read or did not fit
    predicted: UsageResult  # output tokens are not predicted
    billed: UsageResult  # usage of the turns that have one
    lost_tokens: int  # more than expected, as in `lore check`
    waste_tokens: int  # re-billed as waste
    unexplained_tokens: int  # re-billed without a certain cause
    cost: Cost  # of the turns with a known cost
    by_price: dict[str, float]  # dollars by the kind of price, such as `read`
    partial_outputs: int = 0  # turns with only a part of the output tokens recorded
    other_passes: UsageResult | UnsetType = UNSET  # of the same responses, not in `billed`


class AgreementResult(Struct, frozen=True, kw_only=True):
    """How close predictions are to the usage."""

    turns: int  # turns with a prediction, usage and a previous turn in their chain
    exact: int  # turns whose read was predicted exactly
    within_2_percent: int  # turns whose predicted read is off by at most 2 % of the real one
    mean_absolute_error_tokens: float | None  # of the predicted reads; null if nothing was compared
    naive_mean_absolute_error_tokens: float | None  # of the rule that everything read or written before is read again
    drops: int  # turns that read over 1,000 tokens less than the previous turn left in the cache
    drops_predicted: int  # how many of these drops were predicted
    false_drops: int  # drops that were predicted and did not happen
    prompts: int  # turns with a new prompt of the user, in transcripts
    prompts_within_2_percent: int  # how many of these were predicted to within 2 % of the real read


class RulesUsed(Struct, frozen=True, kw_only=True):
    """The rules that predictions follow."""

    as_of: str | None  # the latest day on which they were checked


class GroupResult(Struct, frozen=True, kw_only=True):
    """The cost of the turns in one group."""

    by: str  # cause, model, project or day
    name: str  # a project is the folder that the log names, else the folder of the log
    turns: int  # in the group
    lost_tokens: int  # tokens that were cached and not read again, for any cause
    waste_tokens: int  # re-billed as waste
    billed: float | None  # what the turns cost, in US dollars; null if no price is known
    waste: float | None  # what `waste_tokens` cost beyond the price of reading
    unexplained_tokens: int = 0  # re-billed without a certain cause
    unexplained: float | None = None  # what `unexplained_tokens` cost beyond the price of reading
    kind: CauseKind | None = None  # of a group by cause: a code with two kinds has two groups
    rebilled: float | None = None  # what `lost_tokens` cost beyond the price of reading; null: nothing, or unknown


class ReliabilityResult(Struct, frozen=True, kw_only=True):
    """How often a cache read everything of a prefix that only the provider could lose."""

    by: str  # all, model, hour (of the day, UTC), gateway (the host) or key (its digest)
    name: str  # the model, hour, gateway or key; empty for all
    appends: int  # turns that continue the previous one within the lifetime of the cache
    read: int  # how many of them read all of it, except for at most 2 % and one block
    share: float  # `read` of `appends`, 0 to 1


class Saving(Struct, frozen=True, kw_only=True):
    """What a change would have saved by the same predictions."""

    change: str  # as `--what-if` takes it
    turns: int  # turns that would have another usage
    tokens: int  # no longer re-billed
    currency: str  # of `saved`
    saved: float | None  # null if no price is known
    fix: str  # how to make the change; empty if it is not the fix of a cause
    changes_nothing: bool | UnsetType = UNSET  # true if it was recorded so, or can have no effect: a note says why

    @property
    def saves(self) -> bool:
        """Whether it saves money, or tokens if these have no price."""
        return self.saved > 0 if self.saved else self.tokens > 0


class SimulateResult(CommandResult, frozen=True, kw_only=True):
    """`lore simulate --json`: one object for each cache."""

    cache: str | None  # null if turns have different caches
    rules: RulesUsed  # the rules that predictions follow
    turns: list[SimulatedTurn]  # in the order recorded
    totals: SimulatedTotals  # over all turns
    agreement: AgreementResult  # how close the predictions are to the usage
    groups: list[GroupResult]  # by cause, model, project and day
    reliability: list[ReliabilityResult]  # for all turns, then by model, hour, gateway and key
    what_if: list[Saving]  # changes that were asked for, or that fix a cause
    notes: list[str]  # what limits the figures, in sentences
    problems: list[Problem]  # places in the recordings that could not be read or did not fit
    interrupted: Interruption | UnsetType = UNSET  # left out if the run was completed
    measured: MeasuredResult | UnsetType = UNSET  # left out without logs of engines


class RuleResult(Struct, frozen=True, kw_only=True):
    """One dated row of the rules."""

    rule: str  # such as `minimum_tokens` or `price_read`
    value: RuleValue  # null if unknown
    unit: str  # of the value, such as `tokens`
    provider: str  # the maker of the model; `*` for all
    model: str  # a shell pattern over normalised names
    platform: str  # holds only on this cloud or gateway; empty: on all
    valid_from: str  # the first day on which it holds
    above_tokens: int | None  # holds only for longer prompts; null: for all
    source: str  # link to the publication, or `measured`
    evidence: str  # P: the vendor's own page, M: measured, S: second-hand, ?: inferred
    note: str  # what the source leaves open; empty if nothing
    file: str  # that holds the row
    own: bool  # the row is the user's
    used: bool  # predictions or prices use it


class RulesResult(CommandResult, frozen=True, kw_only=True):
    """`lore simulate --rules --json`."""

    as_of: str | None  # the latest day on which a table was checked
    rules: list[RuleResult]  # in the order of their files, the user's first
