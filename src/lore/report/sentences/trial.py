"""What a compaction policy would have changed in a recorded session, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from lore.compaction.activity import UNTIMED
from lore.compaction.policy import CALM
from lore.compaction.settings import Compaction
from lore.compaction.trial import TrialOutcome, most_context
from lore.model.fact import format_money
from lore.model.results.compact import CompactedTotals
from lore.report.plain import counted

UNCONFIGURED = (
    "Nothing is configured: without a [compaction] table in lore.toml, or --policy FILE, no session is ever compacted."
)
NO_TRIGGER = "The policy enables no trigger: set continuous_interval, gap_secs or window."


def verdict(outcome: TrialOutcome) -> str:
    """Return in a few sentences whether the policy would have paid off; estimates are marked as such."""
    settings, totals = outcome.settings, outcome.totals
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        return NO_TRIGGER
    if not totals.turns:
        return "The recording has no turn: there is nothing to compact."
    if not totals.fired:
        return f"No: no trigger would have fired in {counted(totals.turns, 'turn')}, so it would have changed nothing."
    before, after = totals.without, totals.compacted
    share = 1 - after.prompt_tokens / before.prompt_tokens if before.prompt_tokens else 0.0
    change = f"{min(share, 0.99):.0%} shorter" if share >= 0 else f"{-share:.0%} longer"  # never to nothing
    longest = f"the longest {after.largest_tokens:,} tokens instead of {before.largest_tokens:,}"
    sentences = [_verdict(totals), f"Prompts would have been {change} in all, {longest}."]
    if totals.overfull is not None and totals.overfull[0]:
        full, fuller = totals.overfull
        sentences.append(f"{counted(full, 'turn')} filled over 90 % of the window; with the policy {fuller:,} would.")
    return " ".join(sentences)


def _verdict(totals: CompactedTotals) -> str:
    known, cost, refreshed = totals.saved_without_summaries, totals.without.cost, totals.refreshed
    done = totals.fired - refreshed
    parts = [counted(done, "compaction")] if done or not refreshed else []
    if refreshed:
        parts.append(f"asking outside sources {counted(refreshed, 'time')}")
    times = " and ".join(parts)
    if known is None or cost is None:
        return f"Unknown in money: no price or no bill is known for these turns; the policy means {times}."
    was = "the main chain was billed" if totals.without.figures == "recorded" else "the main chain cost, estimated"
    share = f" ({abs(known) / cost:.0%} of the {format_money(cost)} that {was})" if cost else ""
    besides = f", not counting the cost of the summaries of {times} (unknown)" if totals.saved is None else ""
    if known > 0:
        return f"Yes: {times} would have saved about {format_money(known)}{share}, estimated{besides}."
    if known < 0:
        why = "each rewrites the cache, and the following turns do not save that much"
        if not done:
            why = "every following turn pays for the text of the sources"
        more = format_money(-known)
        return f"Not in money: {times} would have cost about {more} more{share}, estimated{besides}: {why}."
    return f"No: {times} would have come too late to save anything{besides}."


def _summary_note(settings: Compaction, totals: CompactedTotals) -> str:
    """Return the assumption about the summaries' size and price."""
    if settings.summarizer == "extractive":
        return "assumes that summaries cost nothing: the extractive summarizer asks no model"
    cost = "unknown" if totals.summaries is None else f"estimated at {format_money(totals.summaries)}"
    size = "their size is that of extractive summaries"
    return (
        f"assumes that summaries are made by {settings.summarizer}, which was not asked: {size}, their cost is {cost}"
    )


def notes(outcome: TrialOutcome) -> Iterator[str]:
    """Yield notes on the figures; if no trigger fired, how close each enabled one came."""
    settings, totals = outcome.settings, outcome.totals
    near: list[str] = []
    if settings.continuous_interval:
        exchanges = counted(outcome.exchanges, "user exchange")
        near.append(f"{exchanges} (continuous_interval {settings.continuous_interval:,})")
    if settings.gap_secs and outcome.is_timed:
        pause = "no pause" if outcome.pause is None else f"longest pause {outcome.pause:,.0f} s"
        near.append(f"{pause} (gap_secs {settings.gap_secs:,})")
    if settings.window:
        most = settings.window * CALM // 100
        near.append(f"longest prompt {totals.without.largest_tokens:,} tokens (overflow above {most:,})")
    if near and totals.turns and not totals.fired:
        yield f"how near it came: {', '.join(near)}"
    if settings.gap_secs and not outcome.is_timed:
        yield UNTIMED
    if outcome.refused:
        times = "once" if outcome.refused == 1 else f"{outcome.refused:,} times"
        yield f"{times} a trigger fired and pruned nothing: the prompt would not have become shorter"
    if totals.fired:
        yield "assumes that the agent behaves the same after pruning"
        yield _summary_note(settings, totals)
    if totals.fired and settings.context_sources:
        share = f"each compaction is counted with the {most_context(settings):,} tokens that they may add"
        yield f"context sources are not asked in a dry run: {share}"
    if totals.unbilled:
        unbilled = counted(totals.unbilled, "turn")
        yield f"{unbilled} without usage: prompts and costs are estimated, without output"
    if totals.unpriced:
        unpriced = counted(totals.unpriced, "turn")
        yield f"{unpriced} without a known price or cache are not in the costs"
    if totals.overfull is not None and totals.overfull[1]:
        yield "the kept messages still fill over 90 % of the window: shorten tools and system prompt, or raise window"
    if totals.recorded:
        verb = "are" if totals.recorded > 1 else "is"
        yield f"{counted(totals.recorded, 'compaction')} of the recording {verb} counted on both sides"
