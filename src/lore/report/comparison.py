"""`lore compare` for a person: both sides, a line a measure, a line a cause, and what to make of it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from lore.model.fact import format_money, join_names
from lore.model.results.overview import ComparedCause, ComparedSide, Comparison, Measure, MeasureSide, Outcome
from lore.report.commands import is_command
from lore.report.console import Console, columns_of, hang, line, whole
from lore.report.overview import tokens_of
from lore.report.plain import day_of
from lore.report.table import Cell, TableColumn, write_table

_CAUSES = 8  # shown
_NAMED = 3  # of them in sentences
_POINTS = " points"
_LARGE = 100_000  # of more nobody reads both counts
_MEASURES = {
    "share_read": "read from a cache",
    "breaks": "cache breaks",
    "reliability": "read all that stood",
    "prompt": "tokens a prompt",
    "output": "tokens an answer",
    "money": "cost of a request",
    "paid_again": "of it re-billed",
}
_OUTCOMES: dict[Outcome, str] = {
    "higher": "higher", "lower": "lower", "no-difference": "no difference beyond chance", "too-few": "too few to say",
    "unknown": "-",
}  # fmt: skip


def write_comparison(result: Comparison, out: Console) -> None:
    """Write both sides, then what differs, what does not, and what the counts are too small for."""
    for label, side in (("A", result.left), ("B", result.right)):
        out.print(line((f"{label}  {side.name}", "bold"), f"  {about_side(side)}"))
    out.print()
    rows = [*_counts(result), *map(_measure, result.measures)]
    write_table([TableColumn(head) for head in ("", "A", "B", "B against A")], rows, out)
    causes = list(map(_cause, result.causes[:_CAUSES]))
    if causes:
        out.print()
        out.print(line(("cache breaks by cause, of the billed requests", "bold")))
    write_table([TableColumn(head) for head in ("A", "B", "")], causes, out, head=False)
    if len(result.causes) > _CAUSES:
        out.print(line((f"{len(result.causes) - _CAUSES} more causes: --json has them all", "dim")))
    out.print()
    for note in result.notes:
        out.print(line((note, "yellow")))
    for sentence in conclusions(result):
        _conclusion(sentence, out)
    if result.failed:
        out.print(line((f"not read: {join_names(result.failed, 2)}", "yellow")))


def _conclusion(sentence: str, out: Console) -> None:
    """Write what differs; where a terminal has no room for its advice behind it, that stands below."""
    what, arrow, advice = sentence.partition(" → ")
    room = columns_of(out)
    if room is None or cell_len(sentence) <= room:
        out.print(line(sentence))
        return
    out.print(line(what))
    if is_command(advice):  # it is copied from one line
        whole(out, line(f"   {arrow}{advice}"))
    elif advice:
        hang(out, line(f"   {arrow}{advice}"), 6)


def about_side(side: ComparedSide) -> str:
    """Say when the requests of a side were sent, by which clients, to which models."""
    days = [day_of(at) for at in (side.first, side.last) if at is not None]
    parts = [" to ".join(dict.fromkeys(days)), join_names(side.clients, 2), join_names(side.models, 2)]
    return " · ".join(filter(None, parts))


def _counts(result: Comparison) -> Iterator[tuple[Cell, ...]]:
    for name in ("sessions", "requests", "compactions"):
        left, right = getattr(result.left.spending, name), getattr(result.right.spending, name)
        yield name, f"{left:,}", f"{right:,}", ""
    yield "cost", format_money(result.left.spending.dollars), format_money(result.right.spending.dollars), ""


def _measure(measure: Measure) -> tuple[Cell, ...]:
    *cells, difference = measure_in_words(measure)
    return *cells, (difference, _style(measure.outcome))


def _style(outcome: Outcome) -> str:
    return "bold" if outcome in ("higher", "lower") else "dim"


def measure_in_words(measure: Measure) -> tuple[str, str, str, str]:
    """Return what is measured, both values, and what to make of the difference."""
    left, right = (_value(side, measure.unit) for side in (measure.left, measure.right))
    return _MEASURES[measure.name], left, right, f"{_OUTCOMES[measure.outcome]}{_difference(measure)}"


def _value(side: MeasureSide, unit: str) -> str:
    if side.value is None:
        return "-"
    if unit == "share":
        return f"{side.value:.1%}" + (f" ({side.events:,.0f} of {side.trials:,})" if side.trials < _LARGE else "")
    return tokens_of(round(side.value)) if unit == "tokens" else format_money(side.value)


def _difference(measure: Measure) -> str:
    """Return by how much the right side differs, and where that lies; empty where nothing can be said."""
    if measure.difference is None or measure.outcome in ("too-few", "unknown"):
        return ""
    by, interval = _signed(measure.difference, measure.unit), measure.interval
    if interval is None:
        return f": {by}"
    over = "" if interval.over == "sessions" else "; few sessions"
    low, high = (_signed(value, measure.unit).removesuffix(_POINTS) for value in (interval.low, interval.high))
    return f": {by} ({low} to {high}{over})"


def _signed(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value * 100:+.1f}{_POINTS}"
    if unit == "tokens":
        return f"{'-' if value < 0 else '+'}{tokens_of(round(abs(value)))}"
    return f"{'-' if value < 0 else '+'}{format_money(abs(value))}"


def cause_in_cells(cause: ComparedCause) -> tuple[str, str, str, str]:
    """Return what happened, how often on each side and what it cost, and what to make of the difference."""
    left, right = (
        f"{side.events:.0f} of {side.trials:,}, {format_money(dollars)}" if side.events else f"0 of {side.trials:,}"
        for side, dollars in ((cause.left, cause.left_dollars), (cause.right, cause.right_dollars))
    )
    return cause.says, left, right, _OUTCOMES[cause.outcome]


def _cause(cause: ComparedCause) -> tuple[Cell, ...]:
    says, left, right, outcome = cause_in_cells(cause)
    return f"  {left}", right, (f"{says}: {outcome}", _style(cause.outcome))


def conclusions(result: Comparison) -> list[str]:
    """Return what differs beyond chance, in sentences; else that nothing does, and what would be needed."""
    sure = [measure for measure in result.measures if measure.outcome in ("higher", "lower")]
    said = [
        f"{_MEASURES[measure.name]}: {measure.outcome} in B ({_signed(measure.difference or 0.0, measure.unit)})"
        for measure in sure
    ]
    causes = [cause for cause in result.causes if cause.outcome in ("higher", "lower")]
    said += [
        f"{cause.says}: {'more' if cause.outcome == 'higher' else 'less'} often in B → {cause.fix}"
        for cause in causes[:_NAMED]
    ]
    if said:
        return said
    few = [_MEASURES[measure.name] for measure in result.measures if measure.outcome == "too-few"]
    more = f"; too few to say: {', '.join(few)}" if few else ""
    return [f"nothing differs beyond chance{more} → compare more sessions of each side"]
