"""What `lore simulate` and `lore compact` answer: turn by turn what a cache would do, what was billed, why they differ,
what it cost; the rows of the rules; which trigger of a compaction fires where, what that costs and saves.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from lore.model.codes import Problem
from lore.model.results import CauseResult, CommandResult, Interruption, UsageResult, VerdictResult
from lore.model.results.measured import MeasuredResult

RuleValue: TypeAlias = bool | int | float | str | None
Figures: TypeAlias = Literal["recorded", "estimated"]


class OutcomeResult(Struct, frozen=True):
    """Tokens that a request may read, how likely that is, and why it would be so."""

    read_tokens: int
    probability: float
    reason: str


class PredictedResult(Struct, frozen=True, kw_only=True):
    """Tokens that a cache would read, write, and leave to be processed uncached; None where nothing can be said.

    `reason` says what decided. `outcomes` are all that may be read: first what is predicted, which is the likeliest
    where those within 1,000 tokens of each other count as one, then the others, the likeliest first; their
    probabilities sum to 1. `probability` is how likely about that much is read, within 1,000 tokens. Reads are shown
    as no more than all that the request was billed for; `agreement` counts what was predicted before that was known.
    """

    read_tokens: int | None
    write_tokens: int | None
    uncached_tokens: int | None
    confidence: str
    reason: str = ""
    probability: float | None = None
    outcomes: list[OutcomeResult] = []


class Cost(Struct, frozen=True, kw_only=True):
    """Money: what was billed, what was predicted, and what was paid again though it should have been read.

    `predicted` is about the pass that met what stood in the cache: later passes of the same response, and tools that
    the provider ran, are taken as they were billed.
    """

    currency: str
    billed: float | None
    predicted: float | None
    waste: float | None
    unexplained: float | None = None


class SimulatedTurn(Struct, frozen=True, kw_only=True):
    """One turn, with its verdict's causes, the leading one first.

    `cache` is None where nobody knows who served it; `waste_tokens` were paid again and are explained as waste,
    `unexplained_tokens` were paid again and nothing explains them; `other_passes` sums what else the response was
    billed for (`usage.iterations`), left out where it took one pass; `foreseen`: a drop was predicted before its bill.
    """

    turn: int
    chain: str
    at: float | None
    model: str | None
    cache: str | None
    predicted: PredictedResult
    billed: UsageResult | None
    verdict: VerdictResult | None
    causes: list[CauseResult]
    cost: Cost | None
    lost_tokens: int | None
    waste_tokens: int | None
    unexplained_tokens: int | None
    foreseen: bool | None
    line: int | None
    path: str
    other_passes: UsageResult | UnsetType = UNSET

    @property
    def cause(self) -> CauseResult | None:
        """The cause that the loss is counted under; None where nothing was lost."""
        return self.causes[0] if self.causes and self.causes[0].is_break else None


class SimulatedTotals(Struct, frozen=True, kw_only=True):
    """Sums over turns; what is unknown of a turn is left out of a sum and counted in `unpriced` or `unbilled`.

    `lost_tokens` are those lost beyond what was expected, as in `lore check`; of them `waste_tokens` and
    `unexplained_tokens` were paid again. `other_passes` are tokens billed besides `billed`, for passes of the same
    responses; `partial_outputs` counts the turns whose output tokens are known to be a part of the truth.
    """

    turns: int
    unbilled: int
    unpriced: int
    predicted: UsageResult
    billed: UsageResult
    lost_tokens: int
    waste_tokens: int
    unexplained_tokens: int
    cost: Cost
    by_price: dict[str, float]
    partial_outputs: int = 0
    other_passes: UsageResult | UnsetType = UNSET


class AgreementResult(Struct, frozen=True, kw_only=True):
    """How far predictions are from bills, over turns that have both and one before them in their chain.

    `drops`: bills that read over 1,000 tokens less than the turn before left; `drops_predicted` of them were said
    before the bill was read, `false_drops` were said and did not come. `naive_…` is the error of the rule that
    what was read and written is read again. `brier_score` is the mean squared difference between how likely a drop was
    said to be and what came: 0 is perfect, and a forecast is worth something below `base_brier_score`, that of always
    saying the share of turns that fell. `prompts` of the turns are new prompts of the user (of transcripts alone).
    """

    turns: int
    exact: int
    within_2_percent: int
    mean_absolute_error_tokens: float | None
    naive_mean_absolute_error_tokens: float | None
    drops: int
    drops_predicted: int
    false_drops: int
    brier_score: float | None
    base_brier_score: float | None
    prompts: int
    prompts_within_2_percent: int


class RulesUsed(Struct, frozen=True, kw_only=True):
    """Which rules predicted: the newest day on which their tables were checked."""

    as_of: str | None


class GroupResult(Struct, frozen=True, kw_only=True):
    """What turns of one cause, model, project or day cost; `waste` was paid again without need, and nothing explains
    why what is `unexplained` was paid again. A project is the folder that the log names, else the one that it lies in.
    """

    by: str
    name: str
    turns: int
    lost_tokens: int
    waste_tokens: int
    billed: float | None
    waste: float | None
    unexplained_tokens: int = 0
    unexplained: float | None = None


class ReliabilityResult(Struct, frozen=True, kw_only=True):
    """Of the turns that go on inside the cache's lifetime (`appends`), those of which all that stood there was read.

    All but 2 % and one block of the cache counts as all. `by` is `all`, `model`, `hour` (of the day, UTC), `gateway`
    (the host that was asked) or `key` (a digest of it), as far as the recordings say.
    """

    by: str
    name: str
    appends: int
    read: int
    share: float


class Saving(Struct, frozen=True, kw_only=True):
    """What a change would have saved by the same predictions: tokens that are not paid again, and money."""

    change: str
    turns: int
    tokens: int
    currency: str
    saved: float | None
    fix: str

    @property
    def saves(self) -> bool:
        """Whether it saves anything: money, or tokens where they have no price."""
        return self.saved > 0 if self.saved else self.tokens > 0


class SimulateResult(CommandResult, frozen=True, kw_only=True):
    """`lore simulate --json`: one object a cache; `cache` is None where turns name different ones.

    `interrupted` is left out where the run came to its end; else nothing is said of changes. `measured` is what logs of
    engines say; left out where there are none.
    """

    cache: str | None
    rules: RulesUsed
    turns: list[SimulatedTurn]
    totals: SimulatedTotals
    agreement: AgreementResult
    groups: list[GroupResult]
    reliability: list[ReliabilityResult]
    what_if: list[Saving]
    notes: list[str]
    problems: list[Problem]
    interrupted: Interruption | UnsetType = UNSET
    measured: MeasuredResult | UnsetType = UNSET


class RuleResult(Struct, frozen=True, kw_only=True):
    """One dated row; `value` is None where nobody knows it. `own` says that it is the user's, `used` that
    predictions or prices follow it.
    """

    rule: str
    value: RuleValue
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
    own: bool
    used: bool


class HabitResult(Struct, frozen=True, kw_only=True):
    """How often a read fell where something was seen: `fell` of `seen`, over so many `sessions`.

    `provider` is whose caches it was counted of. `chance` is what that comes to before a session showed anything
    itself. `first` is null where it holds for any occurrence in a chain; versions are the client's, empty where any
    holds. `derived`: made from a share, not counted.
    """

    provider: str
    sign: str
    moment: str
    moves: str
    model: str
    first: bool | None
    from_version: str
    before_version: str
    fell: int
    seen: int
    chance: float
    sessions: int
    counted: str
    source: str
    evidence: str
    derived: bool
    note: str
    file: str
    own: bool


class RulesResult(CommandResult, frozen=True, kw_only=True):
    """`lore simulate --rules --json`: rows in the order of their files, the user's first, and what was counted of
    clients (`habits`).

    `as_of` is the newest day on which a table was checked; None: none says.
    """

    as_of: str | None
    rules: list[RuleResult]
    habits: list[HabitResult]


class CompactionCost(Struct, frozen=True, kw_only=True):
    """What compacting at one moment costs and saves, in US dollars; every figure is estimated, null is unknown.

    `warm` says whether the cache still held the prompt. `next_warm` and `next_cold` are what the next request costs
    more for it (below 0: less), in a warm and in a cold cache, `later` what each request after that saves,
    `pays_after` the number of requests after which it has paid for itself. `summary` is what the summary's own request
    costs (0 without a model). `saved` is how much less than as recorded the `turns` cost that followed before the next
    compaction, earlier ones' effect included; both are null where nothing has followed yet.
    """

    currency: str = "USD"
    warm: bool | None
    next_warm: float | None
    next_cold: float | None
    later: float | None
    pays_after: int | None
    summary: float | None
    saved: float | None = None
    turns: int | None = None


class FiredTrigger(Struct, frozen=True, kw_only=True):
    """One compaction: after which turn and when (seconds since 1970), how many messages stay and go, in tokens too.

    `context_tokens` is what outside sources said; null where they were not asked.
    """

    trigger: str
    turn: int
    at: float | None
    kept: int
    pruned: int
    context_tokens: int | None
    before_tokens: int
    after_tokens: int
    tokens: Figures = "estimated"
    cost: CompactionCost


class CompactedSide(Struct, frozen=True, kw_only=True):
    """A session's prompts and its bill, of the main chain, with or without compaction; null is unknown.

    `prompt_tokens` is the sum over all turns, `largest_tokens` the longest prompt; `cost` is in US dollars, without
    what summaries cost, and over the turns that have a price and a bill.
    """

    figures: Figures
    prompt_tokens: int
    largest_tokens: int
    billed: UsageResult
    cost: float | None
    by_price: dict[str, float]


class CompactedTotals(Struct, frozen=True, kw_only=True):
    """Sums over a session. `recorded` compactions stand in the recording, `fired` are those of the policy, `refreshed`
    of them only ask outside sources, for there is nothing to prune.

    `saved` is what the policy saves in US dollars, below 0 what it costs; `summaries` what its summaries cost, null
    where that is not known: then `saved` is too, and `saved_without_summaries` is what is known of it. `overfull`
    counts the turns whose prompt was above 90 % of the window, without and with.
    """

    turns: int
    unbilled: int
    unpriced: int
    recorded: int
    fired: int
    refreshed: int = 0
    without: CompactedSide
    compacted: CompactedSide
    summaries: float | None
    saved: float | None
    saved_without_summaries: float | None
    overfull: tuple[int, int] | None = None


class DryRunResult(CommandResult, frozen=True, kw_only=True):
    """`lore compact --dry-run --json`: where each trigger would have fired, and what prompt and cache would have cost.

    `session` is what was read, `when` the moments that were chosen; `totals` is null where nothing is configured;
    `answer` says in a sentence whether it would have helped.
    """

    session: str
    configured: bool
    when: str | None
    triggers: list[FiredTrigger]
    totals: CompactedTotals | None
    answer: str
    notes: list[str]
    problems: list[Problem]


class CompactResult(CommandResult, frozen=True, kw_only=True):
    """`lore compact --json`: what was compacted, and where it was written. `triggers` is empty where nothing was due.

    `written` names the log, store or file, null where nothing was written; `events` counts what was.
    """

    session: str
    configured: bool
    triggers: list[FiredTrigger]
    events: int
    written: str | None
    answer: str
    notes: list[str]
    problems: list[Problem]
