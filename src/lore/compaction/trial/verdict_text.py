"""The sentence that a person asked for: would continuous compaction have helped here, and what would it have cost?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lore.compaction.cutting import CALM
from lore.compaction.settings import Compaction
from lore.compaction.tracking import UNTIMED
from lore.model.compacted import CompactedTotals

UNCONFIGURED = (
    "Nothing is configured: without a [compaction] table in lore.toml, or --policy FILE, no session is ever compacted."
)
NO_TRIGGER = "The policy switches no trigger on: set continuous_interval, gap_secs or window."


def verdict(totals: CompactedTotals, settings: Compaction, moment: str) -> str:
    """Answer in one or two sentences; what is estimated says so."""
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        return NO_TRIGGER
    if not totals.turns:
        return "The recording holds no turn: there is nothing to compact."
    if not totals.fired:
        return f"No: no trigger would have fired in {_turns(totals.turns)}, so it would have changed nothing."
    return f"{_verdict(totals)} {_size(totals)}{_room(totals)}{' ' + _WAITED if moment == 'later' else ''}"


_WAITED = "Here it is cheapest to wait with cadences until the cache has gone cold anyway."


def _verdict(totals: CompactedTotals) -> str:
    saved, known, cost = totals.saved, totals.saved_without_summaries, totals.without.cost
    times = _times(totals)
    if known is None or cost is None:
        return f"Unknown in money: no price or no bill is known for these turns; the policy comes to {times}."
    share = f" ({abs(known) / cost:.0%} of the {money(cost)} that {_was(totals)})" if cost else ""
    besides = "" if saved is not None else f", before what {times} would have cost for the summaries (not known)"
    if known > 0:
        return f"Yes: {times} would have saved about {money(known)}{share}, estimated{besides}."
    if known < 0:
        why = "each rewrites the cache, and what follows does not pay for that"
        if totals.fired == totals.refreshed:
            why = "what sources say is paid for in every turn behind it"
        return f"Not in money: {times} would have cost about {money(-known)} more{share}, estimated{besides}: {why}."
    return f"No: {times} would have come too late to save anything{besides}."


def _times(totals: CompactedTotals) -> str:
    done, refreshed = totals.fired - totals.refreshed, totals.refreshed
    parts = [f"{done:,} compaction{'s' * (done > 1)}"] if done or not refreshed else []
    if refreshed:
        parts.append(f"asking outside sources {refreshed:,} time{'s' * (refreshed > 1)}")
    return " and ".join(parts)


def _was(totals: CompactedTotals) -> str:
    return "the main chain was billed" if totals.without.figures == "recorded" else "the main chain cost, estimated"


def _size(totals: CompactedTotals) -> str:
    before, after = totals.without, totals.compacted
    share = 1 - after.prompt_tokens / before.prompt_tokens if before.prompt_tokens else 0.0
    change = f"{min(share, 0.99):.0%} shorter" if share >= 0 else f"{-share:.0%} longer"  # never to nothing
    return (
        f"Prompts would have been {change} in all, the longest {after.largest_tokens:,} tokens instead of "
        f"{before.largest_tokens:,}."
    )


def _room(totals: CompactedTotals) -> str:
    if totals.overfull is None or not totals.overfull[0]:
        return ""
    before, after = totals.overfull
    return f" {_turns(before)} filled over 90 % of the window; with it {after:,} would."


class TrialFacts(NamedTuple):
    """What a dry run saw of a session: has it times, how many user exchanges, its longest pause before one of them in
    seconds, and how many moments were tried.
    """

    timed: bool
    exchanges: int
    pause: float | None
    plans: int


def notes(totals: CompactedTotals, settings: Compaction, seen: TrialFacts) -> Iterator[str]:
    """Yield what has to be known to read the figures."""
    near = list(_near(totals, settings, seen)) if totals.turns and not totals.fired else []
    if near:
        yield f"how near it came: {', '.join(near)}"
    if settings.gap_secs and not seen.timed:
        yield UNTIMED
    if totals.fired:
        yield "the agent is taken to have gone on as it did: whether it would have missed what was pruned, no bill says"
    if totals.fired and settings.summarizer != "extractive":
        yield f"summaries are estimated as the extractive ones; {settings.summarizer} was not asked"
    if totals.fired and settings.context_sources:
        most = settings.context_token_cap
        counted = f"a compaction is counted with the {most:,} tokens that they may add"
        yield f"context sources are not asked in a dry run: {counted}"
    if totals.unbilled:
        yield f"{_turns(totals.unbilled)} without a bill: prompts and costs are estimated, without what was answered"
    if totals.unpriced:
        yield f"{_turns(totals.unpriced)} without a price, or whose cache nobody knows, are left out of the costs"
    if seen.plans > 1 and totals.fired:
        yield "the cheapest moment is chosen in hindsight, the same for all cadences of the session"
    if totals.overfull is not None and totals.overfull[1]:
        yield "what stays fills over 90 % of the window even so: shorten tools and system prompt, or raise window"
    if totals.recorded:
        many = totals.recorded > 1
        yield f"{totals.recorded:,} compaction{'s' * many} of the recording stay{'s' * (not many)} on both sides"


def _near(totals: CompactedTotals, settings: Compaction, seen: TrialFacts) -> Iterator[str]:
    """Yield how far a session was from each trigger that is on: what to set for it to fire."""
    if settings.continuous_interval:
        many = "" if seen.exchanges == 1 else "s"
        yield f"{seen.exchanges:,} user exchange{many} (continuous_interval {settings.continuous_interval:,})"
    if settings.gap_secs and seen.timed:
        pause = "no pause" if seen.pause is None else f"longest pause {seen.pause:,.0f} s"
        yield f"{pause} (gap_secs {settings.gap_secs:,})"
    if settings.window:
        most = settings.window * CALM // 100
        yield f"longest prompt {totals.without.largest_tokens:,} tokens (overflow above {most:,})"


def _turns(count: int) -> str:
    return f"{count:,} turn{'' if count == 1 else 's'}"


def money(value: float | None) -> str:
    """Return an amount in US dollars as a person reads it."""
    if value is None:
        return "unknown"
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.2f}" if abs(value) >= 0.1 or not value else f"{sign}${abs(value):,.4f}"
