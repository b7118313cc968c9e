"""`lore compact` for a person: a row a compaction, both sides, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console

from lore.model.codes import Problem
from lore.model.results_simulate import Compacted, CompactedSide, CompactedTotals, DryRun, Fired
from lore.report.console import line
from lore.report.sentences import money_of
from lore.report.terminal import counted
from lore.report.timeline import write_problem

_WARMTH = {True: "warm", False: "cold", None: "?"}
_HEAD = (
    f"{'turn':>6}  {'when (UTC)':<16}  {'trigger':<8} {'pruned':>6} {'kept':>5} {'prompt':>20}  {'cache':<5} "
    f"{'next: warm':>11} {'cold':>10} {'pays after':>11} {'saved':>9}"
)


def write_dry_run(result: DryRun, out: Console, *, verbose: bool = False) -> None:
    """Write where a policy would have fired, and what that would have changed."""
    _fired(result.triggers, out)
    if result.totals is not None and result.totals.fired:
        _sides(result.totals, out)
    _end(result.answer, result.notes, result.problems, out, verbose=verbose)


def write(result: Compacted, out: Console, *, verbose: bool = False) -> None:
    """Write what was compacted, and where it was written."""
    for one in result.triggers:
        said = f"{one.trigger} after turn {one.turn}: {counted(one.pruned, 'message')} pruned, {one.kept:,} kept"
        context = f", {one.context_tokens:,} tokens of outside context" if one.context_tokens else ""
        out.print(line((said, "bold"), f"{context}; {one.before_tokens:,} tokens before, {one.after_tokens:,} after"))
        out.print(line(f"  (estimated) {_price(one)}"))
    _end(result.answer, result.notes, result.problems, out, verbose=verbose)


def _price(one: Fired) -> str:
    cost = one.cost
    if cost.next_warm is None:
        return "what it costs is not known: no price is known for the model"
    pays = "" if cost.pays_after is None else f", paid for after {counted(cost.pays_after, 'turn')}"
    later = f"saves {money_of(cost.later)}{pays}"
    if cost.later is not None and cost.later < 0:  # what was put in is longer than what went
        later = f"costs {_more(-cost.later)}"
    return (
        f"the next turn costs {_more(cost.next_warm)} in a warm cache, {_more(cost.next_cold)} in a cold one; each "
        f"later one {later}"
    )


def _more(amount: float | None) -> str:
    if amount is None:
        return "an unknown amount"
    return f"{money_of(abs(amount))} {'less' if amount < 0 else 'more'}"


def _fired(fired: Sequence[Fired], out: Console) -> None:
    if fired:
        out.print(line((_HEAD, "bold")))
    for one in fired:
        cost = one.cost
        prompt = f"{one.before_tokens:,} -> {one.after_tokens:,}"
        pays = "" if cost.pays_after is None else counted(cost.pays_after, "turn")
        row = (
            f"{one.turn:>6}  {_time(one.at):<16}  {one.trigger:<8} {one.pruned:>6,} {one.kept:>5,} {prompt:>20}  "
            f"{_WARMTH[cost.warm]:<5} {_signed(cost.next_warm):>11} {_signed(cost.next_cold):>10} {pays or '-':>11} "
        )
        style = "" if not cost.saved else "green" if cost.saved > 0 else "red"
        out.print(line(row, (f"{'-' if cost.turns is None else money_of(cost.saved):>9}", style)))


def _time(at: float | None) -> str:
    try:
        return "" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _signed(amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return money_of(amount) if amount < 0 else f"+{money_of(amount)}"


def _sides(totals: CompactedTotals, out: Console) -> None:
    for name, side in (("as recorded", totals.without), ("with the policy", totals.compacted)):
        out.print(line((f"{name:<16}", "bold"), f"{_side(side)}"))


def _side(side: CompactedSide) -> str:
    bill = side.billed
    counts = (("read", bill.read_tokens), ("written", bill.write_tokens), ("uncached", bill.uncached_tokens))
    said = ", ".join(f"{count:,} {name}" for name, count in counts if count is not None)
    prices = ", ".join(f"{kind} {money_of(paid)}" for kind, paid in side.by_price.items())
    prices = f" ({prices})" if prices else ""
    return (
        f"{side.prompt_tokens:,} prompt tokens ({said or 'nothing billed'}), longest prompt {side.largest_tokens:,}; "
        f"{money_of(side.cost)}{prices}, {side.figures}"
    )


def _end(answer: str, notes: Iterable[str], problems: Sequence[Problem], out: Console, *, verbose: bool) -> None:
    out.print(line((answer, "bold")))
    for note in notes:
        out.print(line((f"note: {note}", "dim")))
    if problems and not verbose:
        out.print(line(f"{counted(len(problems), 'problem')} in the recording, shown with -v"))
    for one in problems if verbose else ():
        write_problem(one, out)
