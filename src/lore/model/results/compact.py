"""Results of `lore compact`: when a policy compacts, what it keeps, its cost and savings.

Money is in US dollars, estimated; null is unknown.
"""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.results import CommandResult, UsageResult
from lore.model.results.simulate import Figures


class CompactionCost(Struct, frozen=True, kw_only=True):
    """What one compaction costs and saves."""

    currency: str = "USD"
    warm: bool | None  # the cache still held the prompt
    next_warm: float | None  # how much more the next request costs if the cache is warm; below 0: less
    next_cold: float | None  # the same if the cache is cold
    later: float | None  # saving of each request after that
    pays_after: int | None  # requests after which the compaction has paid for itself
    summary: float | None  # the request for the summary; 0 without a model
    saved: float | None = None  # how much less the following `turns` cost; includes the effect of earlier compactions
    turns: int | None = None  # turns up to the next compaction; null if none followed yet


class FiredTrigger(Struct, frozen=True, kw_only=True):
    """One compaction."""

    trigger: str
    turn: int  # the turn before it
    at: float | None  # seconds since 1970
    kept: int  # messages
    pruned: int
    context_tokens: int | None  # added by external sources; null if none were asked
    before_tokens: int
    after_tokens: int
    tokens: Figures = "estimated"
    cost: CompactionCost


class CompactedSide(Struct, frozen=True, kw_only=True):
    """The prompts and usage of the main chain, with or without compaction."""

    figures: Figures
    prompt_tokens: int  # sum over all turns
    largest_tokens: int  # the longest prompt
    billed: UsageResult
    cost: float | None  # without summaries, of the turns with usage and a price
    by_price: dict[str, float]


class CompactedTotals(Struct, frozen=True, kw_only=True):
    """Sums over a session."""

    turns: int
    unbilled: int
    unpriced: int
    recorded: int  # compactions in the recording
    fired: int  # compactions of the policy
    refreshed: int = 0  # how many of those only ask external sources, since there is nothing to prune
    without: CompactedSide
    compacted: CompactedSide
    summaries: float | None  # what the summaries of the policy cost
    saved: float | None  # below 0: what the policy costs; null if `summaries` is
    saved_without_summaries: float | None
    overfull: tuple[int, int] | None = None  # turns with a prompt above 90 % of the window, without and with the policy


class DryRunResult(CommandResult, frozen=True, kw_only=True):
    """`lore compact --dry-run --json`."""

    session: str
    configured: bool
    when: str | None  # the moments that were chosen
    triggers: list[FiredTrigger]
    totals: CompactedTotals | None  # null without a policy
    answer: str  # whether compacting would have helped, in a sentence
    notes: list[str]
    problems: list[Problem]


class CompactResult(CommandResult, frozen=True, kw_only=True):
    """`lore compact --json`."""

    session: str
    configured: bool
    triggers: list[FiredTrigger]  # empty if none was due
    events: int  # events written
    written: str | None  # the log, store or file; null if nothing was written
    answer: str
    notes: list[str]
    problems: list[Problem]
