"""`lore compact` in the terminal: a row for each compaction, both sides, and the answer in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lore.compaction.activity import UNTIMED
from lore.compaction.policy import CALM
from lore.compaction.trial import TrialOutcome
from lore.model.codes import Problem
from lore.model.fact import count_of, format_money
from lore.model.results.compact import CompactedTotals, CompactionCost, CompactResult, DryRunResult
from lore.report.commands import compaction_command, compaction_setting, typed_path
from lore.report.console import Cell, Console, TableColumn, line, write_table
from lore.report.plain import when
from lore.report.sentences import format_prices, format_usage
from lore.report.status_line import percent
from lore.report.timeline import write_problems

NO_TRIGGER = "The policy enables no trigger: set continuous_interval, gap_secs or window."
_WARMTH = {True: "warm", False: "cold", None: "?"}
_COLUMNS = (
    TableColumn("after turn", right=True), TableColumn("when (UTC)"), TableColumn("trigger", drop=3),
    TableColumn("messages removed", right=True, drop=6), TableColumn("kept", right=True, drop=7),
    TableColumn("prompt tokens", right=True), TableColumn("cache", drop=4),
    TableColumn("next turn if warm", right=True, drop=2), TableColumn("if cold", right=True, drop=1),
    TableColumn("paid off after", right=True, drop=5), TableColumn("saved", right=True),
)  # fmt: skip


def describe_unconfigured(path: str) -> str:
    """Return the answer without a policy, with the command that tries one."""
    command = compaction_command(typed_path(path) or "PATH")
    without = "No policy: without a [compaction] table in lore.toml, or --policy FILE, lore compacts nothing."
    return f"{without} To try one: {command}"


def write_dry_run(result: DryRunResult, out: Console, *, verbose: bool = False) -> None:
    """Write the compactions that a policy would have made, and the costs with and without them."""
    rows: list[tuple[Cell, ...]] = []
    for event in result.triggers:
        cost = event.cost
        at = "" if event.at is None else when(event.at, unknown="unknown")
        pays = "-" if cost.pays_after is None else count_of(cost.pays_after, "turn")
        saved = "-" if cost.turns is None else format_money(cost.saved)
        style = "" if not cost.saved else "green" if cost.saved > 0 else "red"
        rows.append((
            str(event.turn), at, event.trigger, f"{event.pruned:,}", f"{event.kept:,}",
            f"{event.before_tokens:,} → {event.after_tokens:,}", _WARMTH[cost.warm], _format_signed(cost.next_warm),
            _format_signed(cost.next_cold), pays, (saved, style),
        ))  # fmt: skip
    if rows:
        write_table(_COLUMNS, rows, out)
    totals = result.totals
    if totals is not None and totals.fired:
        for name, side in (("as recorded", totals.without), ("with the policy", totals.compacted)):
            usage = format_usage(side.billed) or "nothing billed"
            prompts = f"{side.prompt_tokens:,} prompt tokens ({usage}), longest prompt {side.largest_tokens:,}"
            prices = format_prices(side.by_price, side.billed)
            cost = f"{format_money(side.cost)}{prices and f' ({prices})'}, {side.figures}"
            out.print(line((f"{name:<16}", "bold"), f"{prompts}; {cost}"))
    _write_end(result.answer, result.notes, result.problems, out, verbose=verbose)


def _format_signed(amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return format_money(amount) if amount < 0 else f"+{format_money(amount)}"


def write_compactions(result: CompactResult, out: Console, *, verbose: bool = False) -> None:
    """Write the compactions and their files."""
    for event in result.triggers:
        pruned = f"{count_of(event.pruned, 'message')} pruned, {event.kept:,} kept"
        context = f", {event.context_tokens:,} tokens of outside context" if event.context_tokens else ""
        tokens = f"{event.before_tokens:,} tokens before, {event.after_tokens:,} after"
        out.print(line((f"{event.trigger} after turn {event.turn}: {pruned}", "bold"), f"{context}; {tokens}"))
        out.print(f"  (estimated) {_describe_price(event.cost)}")
    _write_end(result.answer, result.notes, result.problems, out, verbose=verbose)


def _describe_price(cost: CompactionCost) -> str:
    """Return what a compaction costs the next turn, and saves each later one."""
    if cost.next_warm is None:
        return "cost unknown: no price is known for the model"
    pays = "" if cost.pays_after is None else f", paid for after {count_of(cost.pays_after, 'turn')}"
    later = f"saves {format_money(cost.later)}{pays}"
    if cost.later is not None and cost.later < 0:  # the summary is longer than the pruned messages
        later = f"costs {_more(-cost.later)}"
    return (
        f"the next turn costs {_more(cost.next_warm)} in a warm cache, {_more(cost.next_cold)} in a cold one; each "
        f"later one {later}"
    )


def _more(amount: float | None) -> str:
    if amount is None:
        return "an unknown amount"
    return f"{format_money(abs(amount))} {'less' if amount < 0 else 'more'}"


def _write_end(answer: str, notes: Iterable[str], problems: Sequence[Problem], out: Console, *, verbose: bool) -> None:
    if answer:
        out.print(line((answer, "bold")))
    for note in notes:
        out.print(line((f"note: {note}", "dim")))
    if problems and not verbose:
        out.hint(f"{count_of(len(problems), 'problem')} in the recording", "-v shows them")
    elif verbose:
        write_problems(problems, out)


# the answer to whether a policy would have paid off


def trial_answer(outcome: TrialOutcome) -> str:
    """Return in a few sentences whether the policy would have paid off; estimates are marked as such."""
    settings, totals = outcome.settings, outcome.totals
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        return NO_TRIGGER
    if not totals.turns:
        return "The recording has no turn: there is nothing to compact."
    if not totals.fired:
        note = f": the recording compacts itself {_times_of(totals.recorded)} before that" if totals.recorded else ""
        if outcome.refused:
            named = {"overflow": "an overflow", "gap": "a gap", "cadence": "a cadence"}
            due = " and ".join(f"{named[name]} was due {_times_of(count)}" for name, count in outcome.refused.items())
            return f"No: {due}, and nothing could be removed that makes the prompt shorter{note}."
        turns = count_of(totals.turns, "turn")
        return f"No: no trigger would have fired in {turns}, so it would have changed nothing{note}."
    original, compacted = totals.without, totals.compacted
    share = 1 - compacted.prompt_tokens / original.prompt_tokens if original.prompt_tokens else 0.0
    change = f"{percent(min(share, 0.99))} shorter" if share >= 0 else f"{percent(-share)} longer"  # never to nothing
    longest = f"the longest {compacted.largest_tokens:,} tokens instead of {original.largest_tokens:,}"
    sentences = [_describe_saving(totals), f"Prompts would have been {change} in all, {longest}."]
    if totals.overfull is not None and totals.overfull[0]:
        full, fuller = totals.overfull
        sentences.append(f"{count_of(full, 'turn')} filled over 90 % of the window; with the policy {fuller:,} would.")
    return " ".join(sentences)


def _describe_saving(totals: CompactedTotals) -> str:
    """Return whether a policy that fired would have saved money, and why not."""
    saved, cost, times = totals.saved_without_summaries, totals.without.cost, count_of(totals.fired, "compaction")
    if saved is None or cost is None:
        return f"Unknown in money: no price or no bill is known for these turns; the policy means {times}."
    phrase = "the main chain was billed" if totals.without.figures == "recorded" else "the main chain cost"
    share = f" ({percent(abs(saved) / cost)} of the {format_money(cost)} that {phrase})" if cost else ""
    caveat = f", not counting the cost of the summaries of {times} (unknown)" if totals.saved is None else ""
    if saved > 0:
        return f"Yes: {times} would have saved about {format_money(saved)}{share}, estimated{caveat}."
    if saved < 0:
        reason = "each rewrites the cache, and the following turns do not save that much"
        if totals.recorded:
            reason += ", since the recording compacts itself later"
        amount = format_money(-saved)
        return f"Not in money: {times} would have cost about {amount} more{share}, estimated{caveat}: {reason}."
    reason = "no turn follows that would be cheaper"
    if totals.recorded:
        reason += " before the recording compacts itself, or ends"
    return f"No: {times} would have saved nothing{caveat}: {reason}."


def _times_of(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _describe_summaries(outcome: TrialOutcome) -> str:
    """Return the assumption about the summaries' size and price; of a model's at the mean prices of the session."""
    settings, totals = outcome.settings, outcome.totals
    if settings.summarizer != "extractive":
        cost = "unknown" if totals.summaries is None else f"estimated at {format_money(totals.summaries)}"
        size = f"their size is that of extractive summaries, their cost is {cost}"
        return f"assumes that summaries are made by {settings.summarizer}, which was not asked: {size}"
    billed, prices, cost = totals.without.billed, totals.without.by_price, ""
    if billed.read_tokens and billed.output_tokens and prices.get("read") and prices.get("output"):
        pruning = [event for event in outcome.triggers if event.pruned]
        read = sum(event.before_tokens for event in pruning) * prices["read"] / billed.read_tokens
        written = len(pruning) * settings.summary_tokens * prices["output"] / billed.output_tokens
        cost = f", about {format_money(read + written)} in all if the cache is warm"
    return (
        "assumes that summaries cost nothing: the extractive summarizer asks no model; an agent's own /compact reads "
        f"the prompt and writes a summary{cost}"
    )


def trial_notes(outcome: TrialOutcome) -> Iterator[str]:
    """Yield notes on the figures; if no trigger fired, how close each enabled one came."""
    settings, totals, distances = outcome.settings, outcome.totals, list[str]()
    cap = settings.window * CALM // 100
    if settings.continuous_interval:
        exchanges = count_of(outcome.exchanges, "user exchange")
        distances.append(f"{exchanges} (continuous_interval {settings.continuous_interval:,})")
    if settings.gap_secs and outcome.is_timed:
        pause = "no pause" if outcome.pause is None else f"longest pause {outcome.pause:,.0f} s"
        distances.append(f"{pause} (gap_secs {settings.gap_secs:,})")
    if settings.window:
        distances.append(f"longest prompt {totals.without.largest_tokens:,} tokens (overflow above {cap:,})")
    if distances and totals.turns and not totals.fired and not outcome.refused:
        yield f"closest to a trigger: {', '.join(distances)}"
    if settings.gap_secs and not outcome.is_timed:
        yield UNTIMED
    if outcome.refused and totals.fired:
        times = _times_of(outcome.refused.total())
        yield f"{times} a trigger fired and pruned nothing: the prompt would not have become shorter"
    if settings.window and totals.turns:
        yield f"assumes a window of {settings.window:,} tokens: an overflow is a prompt of over {cap:,}, {CALM} % of it"
        longest = totals.without.largest_tokens
        if "[1m]" in outcome.model and settings.window != 1_000_000:
            yield f"the model {outcome.model} has a window of 1,000,000 tokens: --window 1000000 tries that one"
        elif longest > settings.window:
            found = f"the longest prompt has {longest:,} tokens, so the model's window is larger"
            yield f"{found}: --window tries another one"
        if any(event.trigger == "overflow" for event in outcome.triggers):
            yield compaction_setting(outcome.format, settings.window)
    if totals.fired:
        counted_by = "estimated from bytes" if totals.unbilled == totals.turns else "as they were billed"
        yield f"tokens of prompts are {counted_by}; those of removed and added text are estimated from its bytes"
        yield "assumes that the agent behaves the same after pruning"
        yield _describe_summaries(outcome)
    if totals.fired and settings.context_sources:
        cap = settings.context_token_cap
        yield f"context sources are not asked in a dry run, and the up to {cap:,} tokens that they add are not counted"
    if totals.unbilled:
        yield f"{count_of(totals.unbilled, 'turn')} without usage: prompts and costs are estimated, without output"
    if totals.unpriced:
        yield f"not in the costs: {count_of(totals.unpriced, 'turn')} without a known price or cache"
    if totals.overfull is not None and totals.overfull[1]:
        yield "the kept messages still fill over 90 % of the window: shorten tools and system prompt, or raise window"
    if totals.recorded:
        verb = "are" if totals.recorded > 1 else "is"
        yield f"{count_of(totals.recorded, 'compaction')} of the recording {verb} counted on both sides"
