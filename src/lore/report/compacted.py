"""`lore compact` in the terminal: a row for each compaction, both sides, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lore.model.codes import Problem
from lore.model.fact import format_money
from lore.model.results.compact import CompactedSide, CompactionCost, CompactResult, DryRunResult, FiredTrigger
from lore.report.console import Console, line
from lore.report.plain import counted, when
from lore.report.sentences.findings import format_prices, format_usage
from lore.report.table import Cell, TableColumn, write_table
from lore.report.timeline import write_problems

_WARMTH = {True: "warm", False: "cold", None: "?"}
_COLUMNS = (
    TableColumn("turn", right=True), TableColumn("when (UTC)"), TableColumn("trigger", drop=3),
    TableColumn("pruned", right=True, drop=6),
    TableColumn("kept", right=True, drop=7), TableColumn("prompt", right=True), TableColumn("cache", drop=4),
    TableColumn("next: warm", right=True, drop=2), TableColumn("cold", right=True, drop=1),
    TableColumn("pays after", right=True, drop=5), TableColumn("saved", right=True),
)  # fmt: skip


def write_dry_run(result: DryRunResult, out: Console, *, verbose: bool = False) -> None:
    """Write the compactions that a policy would have made, and the costs with and without them."""
    rows = [_row(fired) for fired in result.triggers]
    if rows:
        write_table(_COLUMNS, rows, out)
    totals = result.totals
    if totals is not None and totals.fired:
        for name, side in (("as recorded", totals.without), ("with the policy", totals.compacted)):
            out.print(line((f"{name:<16}", "bold"), side_in_words(side)))
    _end(result.answer, result.notes, result.problems, out, verbose=verbose)


def _row(fired: FiredTrigger) -> tuple[Cell, ...]:
    cost = fired.cost
    pays = "-" if cost.pays_after is None else counted(cost.pays_after, "turn")
    style = "" if not cost.saved else "green" if cost.saved > 0 else "red"
    at = "" if fired.at is None else when(fired.at, unknown="unknown")
    return (
        str(fired.turn), at, fired.trigger, f"{fired.pruned:,}", f"{fired.kept:,}",
        f"{fired.before_tokens:,} -> {fired.after_tokens:,}", _WARMTH[cost.warm], signed(cost.next_warm),
        signed(cost.next_cold), pays, ("-" if cost.turns is None else format_money(cost.saved), style),
    )  # fmt: skip


def write(result: CompactResult, out: Console, *, verbose: bool = False) -> None:
    """Write the compactions and their files."""
    for fired in result.triggers:
        head = (
            f"{fired.trigger} after turn {fired.turn}: {counted(fired.pruned, 'message')} pruned, {fired.kept:,} kept"
        )
        context = f", {fired.context_tokens:,} tokens of outside context" if fired.context_tokens else ""
        tokens = f"{fired.before_tokens:,} tokens before, {fired.after_tokens:,} after"
        out.print(line((head, "bold"), f"{context}; {tokens}"))
        out.print(line(f"  (estimated) {_price(fired.cost)}"))
    _end(result.answer, result.notes, result.problems, out, verbose=verbose)


def _price(cost: CompactionCost) -> str:
    if cost.next_warm is None:
        return "cost unknown: no price is known for the model"
    pays = "" if cost.pays_after is None else f", paid for after {counted(cost.pays_after, 'turn')}"
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


def signed(amount: float | None) -> str:
    """Return an amount with its sign."""
    if amount is None:
        return "unknown"
    return format_money(amount) if amount < 0 else f"+{format_money(amount)}"


def side_in_words(side: CompactedSide) -> str:
    """Return the sums over prompts with or without compaction: tokens, the longest, the cost."""
    prices = format_prices(side.by_price, side.billed)
    prices = f" ({prices})" if prices else ""
    return (
        f"{side.prompt_tokens:,} prompt tokens ({format_usage(side.billed) or 'nothing billed'}), longest prompt "
        f"{side.largest_tokens:,}; {format_money(side.cost)}{prices}, {side.figures}"
    )


def _end(answer: str, notes: Iterable[str], problems: Sequence[Problem], out: Console, *, verbose: bool) -> None:
    out.print(line((answer, "bold")))
    for note in notes:
        out.print(line((f"note: {note}", "dim")))
    if problems and not verbose:
        out.print(line(f"{counted(len(problems), 'problem')} in the recording, shown with -v"))
    if verbose:
        write_problems(problems, out)
