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

    currency: str = "USD"  # of all amounts here
    warm: bool | None  # the cache still held the prompt; null: unknown
    next_warm: float | None  # how much more the next request costs if the cache is warm; below 0: less
    next_cold: float | None  # the same if the cache is cold
    later: float | None  # saving of each request after that
    pays_after: int | None  # requests after which the compaction has paid for itself
    summary: float | None  # the request for the summary; 0 without a model
    saved: float | None = None  # how much less the following `turns` cost; includes the effect of earlier compactions
    turns: int | None = None  # turns up to the next compaction; null if none followed yet


class FiredTrigger(Struct, frozen=True, kw_only=True):
    """One compaction."""

    trigger: str  # its name, such as `gap`
    turn: int  # the turn before it
    at: float | None  # seconds since 1970
    kept: int  # messages that stay
    pruned: int  # messages that were removed
    context_tokens: int | None  # added by external sources; null in a dry run that would have asked some
    before_tokens: int  # of the prompt before the compaction
    after_tokens: int  # of the prompt after it
    tokens: Figures = "estimated"  # how the counts of tokens are known
    cost: CompactionCost  # of this compaction


class CompactedSide(Struct, frozen=True, kw_only=True):
    """The prompts and usage of the main chain, with or without compaction."""

    figures: Figures  # recorded, or estimated if a turn has no usage or the policy compacts
    prompt_tokens: int  # sum over all turns
    largest_tokens: int  # the longest prompt
    billed: UsageResult  # usage summed over all turns
    cost: float | None  # without summaries, of the turns with usage and a price
    by_price: dict[str, float]  # dollars by the kind of price, such as `read`


class CompactedTotals(Struct, frozen=True, kw_only=True):
    """Sums over a session."""

    turns: int  # requests of the main chain
    unbilled: int  # turns without usage
    unpriced: int  # turns without a known price
    recorded: int  # compactions in the recording
    fired: int  # compactions of the policy
    without: CompactedSide  # as recorded
    compacted: CompactedSide  # with the policy
    summaries: float | None  # what the summaries of the policy cost
    saved: float | None  # below 0: what the policy costs; null if `summaries` is
    saved_without_summaries: float | None  # the same if summaries cost nothing
    overfull: tuple[int, int] | None = None  # turns with a prompt above 90 % of the window, without and with the policy


class DryRunResult(CommandResult, frozen=True, kw_only=True):
    """`lore compact --dry-run --json`."""

    session: str  # name of the recording
    configured: bool  # the settings have a policy
    triggers: list[FiredTrigger]  # compactions of the policy, in order; empty if none was due
    totals: CompactedTotals | None  # null without a policy
    answer: str  # whether compacting would have helped, in a sentence
    notes: list[str]  # what limits the figures, in sentences
    problems: list[Problem]  # places in the recording that could not be read or did not fit


class CompactResult(CommandResult, frozen=True, kw_only=True):
    """`lore compact --json`."""

    session: str  # name of the recording
    configured: bool  # the settings have a policy
    triggers: list[FiredTrigger]  # empty if none was due
    events: int  # events written
    written: str | None  # the log, store or file; null if nothing was written
    answer: str  # what was done, in a sentence
    notes: list[str]  # remarks, in sentences
    problems: list[Problem]  # places in the recording that could not be read or did not fit
