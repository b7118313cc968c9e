"""`lore compare` on a terminal: both sides, a line a measure, a line a cause, and what differs beyond chance."""

from __future__ import annotations

from collections.abc import Callable

from lore.judge.measures import LEAST_SESSIONS
from lore.model.fact import count_of, format_money, join_names
from lore.model.results.overview import Comparison, Measure, MeasureSide, Outcome, Spending
from lore.report.console import Console, TableColumn, line, write_table
from lore.report.overview import cost_of, rebilled_of
from lore.report.plain import day_of, place_of
from lore.report.sentences import count_of_tokens, describe_change, label_of

_CAUSES = 8  # shown without -v
_NAMED = 3  # of them in sentences
_LARGE = 100_000  # from there on a share is shown without its counts
_MEASURES = {
    "share_read": "share of prompts read from a cache",
    "breaks": "requests with a cache break",
    "reliability": "appending requests that read all that was cached",
    "prompt": "prompt tokens per request",
    "output": "output tokens per request",
    "money": "cost per request",
    "paid_again": "re-billed per request",
}
_OUTCOMES: dict[Outcome, str] = {
    "higher": "higher", "lower": "lower", "no-difference": "no difference beyond chance", "too-few": "too few to say",
    "unknown": "cost known in part",
}  # fmt: skip
_SURE = ("higher", "lower")


_KNOWN_COSTS = "requests with a known cost"
_SUMS: dict[str, Callable[[Spending], str]] = {
    "sessions": lambda side: f"{side.sessions:,}",
    "requests": lambda side: f"{side.requests:,}",
    "compactions": lambda side: f"{side.compactions:,}",
    _KNOWN_COSTS: lambda side: f"{side.requests - side.unbilled - side.unpriced:,}",
    "cost": cost_of,
    "re-billed": rebilled_of,
}


def write_comparison(result: Comparison, out: Console, *, verbose: bool = False) -> None:
    """Write both sides, what differs, and what to do about it; `verbose` adds counts and 95 % intervals."""
    for label, side in (("A", result.left), ("B", result.right)):
        days = [day_of(at) for at in (side.first, side.last) if at is not None]
        parts = " to ".join(dict.fromkeys(days)), join_names(side.clients, 2), join_names(side.models, 2)
        out.print(line((f"{label}  {place_of(side.name, None)}", "bold"), f"  {' · '.join(filter(None, parts))}"))
    out.print()
    left, right = result.left.spending, result.right.spending
    rows = [(name, value(left), value(right), "") for name, value in _SUMS.items()]
    if all(side.unbilled == side.unpriced == 0 for side in (left, right)):
        rows = [row for row in rows if row[0] != _KNOWN_COSTS]  # it would repeat the requests
    for measure in result.measures:
        if measure.left.value is measure.right.value is None:
            continue
        a, b = (_format_value(side, measure.unit, verbose=verbose) for side in (measure.left, measure.right))
        rows.append((_MEASURES[measure.name], a, b, _format_difference(measure, verbose=verbose)))
    outcomes = {entry.outcome for entry in (*result.measures, *result.causes)}
    tail = ("B compared with A",) if outcomes - {"too-few", "unknown"} else ()  # else a sentence below says so once
    heads = [TableColumn(head, wraps=bool(head)) for head in ("", "A", "B", *tail)]
    write_table(heads, [row[: len(heads)] for row in rows], out)
    output = next((measure for measure in result.measures if measure.name == "output"), None)
    counts = (0, 0) if output is None else (output.left.trials, output.right.trials)
    if any(counts) and counts != (left.requests - left.unbilled, right.requests - right.unbilled):
        what = (
            f"output tokens: of the {counts[0]:,} (A) and {counts[1]:,} (B) requests in sessions that record all output"
        )
        out.print(line((what, "dim")))
    if result.causes:
        _write_causes(result, tail, out, verbose=verbose)
    out.print()
    for note in result.notes:
        out.print(line((note, "yellow")))
    for sentence in conclusions(result):
        out.print(sentence)
    if result.failed:
        out.print(line((f"not read: {join_names(result.failed, 2)}", "yellow")))


def _write_causes(result: Comparison, tail: tuple[str, ...], out: Console, *, verbose: bool) -> None:
    """Write how often each cause occurred on each side and at which cost; `tail`: the head of the last column."""
    heads = [TableColumn("A"), TableColumn("B"), TableColumn("cause", wraps=True), *map(TableColumn, tail)]
    listed_causes = result.causes if verbose or out.is_page else result.causes[:_CAUSES]
    rows: list[tuple[str, ...]] = []
    for cause in listed_causes:
        left, right = (
            f"{side.events:,.0f} of {side.trials:,}" + (f", {format_money(dollars)}" if side.events else "")
            for side, dollars in ((cause.left, cause.left_dollars), (cause.right, cause.right_dollars))
        )
        rows.append((left, right, cause.says + label_of(cause), _OUTCOMES[cause.outcome])[: len(heads)])
    out.print()
    title = "causes: requests that they affect, and what these re-billed"
    out.print(line((title, "bold")))
    write_table(heads, rows, out)
    if len(listed_causes) < len(result.causes):
        out.hint(count_of(len(result.causes) - len(listed_causes), "more cause"), "-v shows all")


def conclusions(result: Comparison) -> list[str]:
    """Return how the cost changed and what to do about new causes; if nothing differs, what a conclusion would need."""
    change, left, right = result.change, result.left.spending, result.right.spending
    cost = [] if change is None else describe_change("B cost", change, left, right, sides=("A", "B"))
    more = [cause for cause in result.causes if cause.outcome == "higher" and not cause.fix.startswith("nothing")]
    actions = [f"more often in B: {cause.says}; to do: {cause.fix}" for cause in more[:_NAMED]]
    if any(entry.outcome in _SURE for entry in (*result.measures, *result.causes)):
        return [*cost, *actions]
    reason = "no difference is sure to be more than chance"
    if min(left.sessions, right.sessions) < LEAST_SESSIONS:
        sizes = f"{count_of(left.sessions, 'session')} of A and {right.sessions:,} of B"
        reason = f"{sizes} are too few to say what is more than chance"
    return [*cost, f"{reason}: compare more sessions of each side"]


def _format_value(side: MeasureSide, unit: str, *, verbose: bool) -> str:
    if side.value is None:
        return "-"
    if unit == "share":
        counts = f" ({side.events:,.0f} of {side.trials:,})" if verbose and side.trials < _LARGE else ""
        return f"{100 * side.value:.1f} %{counts}"
    if side.at_least:
        return f"at least {format_money(side.value)}"
    return count_of_tokens(side.value) if unit == "tokens" else format_money(side.value)


def _format_difference(measure: Measure, *, verbose: bool) -> str:
    """Return how the right side differs, if it does beyond chance; `verbose` adds the interval of the difference."""
    words, interval = _OUTCOMES[measure.outcome], measure.interval
    if measure.left.value is None or measure.right.value is None:
        return "-"
    is_shown = measure.outcome in _SURE or (verbose and measure.outcome == "no-difference")
    if measure.difference is None or not is_shown:
        return words
    words += f": {_format_signed(measure.difference, measure.unit)}"
    if interval is None or not verbose:
        return words
    low, high = (_format_signed(value, measure.unit).removesuffix(" points") for value in (interval.low, interval.high))
    return f"{words} ({low} to {high}{'' if interval.over == 'sessions' else '; few sessions'})"


def _format_signed(value: float, unit: str) -> str:
    sign, size = "-" if value < 0 else "+", abs(value)
    if unit == "share":
        return f"{sign}{100 * size:.1f} points"
    return f"{sign}{count_of_tokens(size) if unit == 'tokens' else format_money(size)}"
