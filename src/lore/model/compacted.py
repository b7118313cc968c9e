"""Results of `lore compact`: which trigger fires where, what it prunes and keeps, what that costs and saves."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import BilledResult

Figures = Literal["recorded", "estimated"]


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


class Fired(Struct, frozen=True, kw_only=True):
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
    billed: BilledResult
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


class DryRun(Struct, frozen=True, kw_only=True):
    """`lore compact --dry-run --json`: where each trigger would have fired, and what prompt and cache would have cost.

    `session` is what was read, `when` the moments that were chosen; `totals` is null where nothing is configured;
    `answer` says in a sentence whether it would have helped.
    """

    schema: int = 2
    session: str
    configured: bool
    when: str | None
    triggers: list[Fired]
    totals: CompactedTotals | None
    answer: str
    notes: list[str]
    problems: list[Problem]


class Compacted(Struct, frozen=True, kw_only=True):
    """`lore compact --json`: what was compacted, and where it was written. `triggers` is empty where nothing was due.

    `written` names the log, store or file, null where nothing was written; `events` counts what was.
    """

    schema: int = 2
    session: str
    configured: bool
    triggers: list[Fired]
    events: int
    written: str | None
    answer: str
    notes: list[str]
    problems: list[Problem]
