"""The turns of `lore simulate` as a table, a chart and CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import IO

from lore.model.codes import UNEXPLAINED
from lore.model.fact import format_money
from lore.model.results.measured import MeasuredResult
from lore.model.results.simulate import SimulatedTurn, SimulateResult
from lore.report.console import WIDTH, Console, line
from lore.report.plain import cell, counted, when
from lore.report.sentences.findings import describe_grounds
from lore.report.table import aligned

CHART_COLUMNS = 72
_BARS = " ▁▂▃▄▅▆▇█"
_STYLES = {"waste": "bold red", "unattributable": "yellow", "expected": "cyan"}
_WARM_TOKENS = 1000  # more tokens read beyond the prediction are reported
_NAME_LENGTH = 14
_INDENT = 6  # columns, of evidence
_HEADER = ("turn", "time (UTC)", "predicted", "billed", "difference", "cause")


def write_turns(turns: Sequence[SimulatedTurn], out: Console, *, every: bool) -> None:
    """Write a row for every turn, or for those that lost tokens, and in one recording for turns warmed elsewhere."""
    if len(turns) > 1 and not any(_is_known(turn) for turn in turns):
        out.print(f"{counted(len(turns), 'turn')} without usage: nothing can be predicted")
        return
    several, warmed = len({turn.path for turn in turns}) > 1, _warmed(turns)
    shown = [turn for turn in turns if every or turn.cause is not None or (not several and id(turn) in warmed)]
    if shown:
        out.print(line(("tokens read from the cache: predicted (~: at best) and billed", "dim")))
        head, *rows = aligned([_HEADER, *(_row(turn, warmed=id(turn) in warmed) for turn in shown)], range(5))
        out.print(line((head, "bold")))
        path = ""
        for turn, row in zip(shown, rows, strict=True):
            if several and turn.path != path:
                out.print(line((turn.path, "bold")))
            path = turn.path
            _write_turn(turn, row, out)
    if len(shown) < len(turns):
        lost = sum(turn.cause is not None for turn in turns)
        text = f"{lost or 'none'} of {counted(len(turns), 'turn')} with a cache break (--all shows every turn)"
        out.print(line((text, "dim")))


def _write_turn(turn: SimulatedTurn, row: str, out: Console) -> None:
    """Write a turn's row, and the evidence of its cause."""
    cause = turn.cause
    out.print(line((row, "" if cause is None else _STYLES[cause.kind])), indent=_INDENT)
    if cause is not None:
        weak = "weak evidence: " if cause.strength == "weak" and cause.code not in UNEXPLAINED else ""
        out.print(line(" " * _INDENT, weak, describe_grounds(cause)), indent=_INDENT)


def _row(turn: SimulatedTurn, *, warmed: bool) -> tuple[str, ...]:
    name = f"{turn.turn}" if turn.chain == "main" else f"{turn.chain}:{turn.turn}"
    predicted, cause = turn.predicted.read_tokens, turn.cause
    billed = None if turn.billed is None else turn.billed.read_tokens
    off = "" if predicted is None or billed is None else f"{billed - predicted:+,}" if billed != predicted else "="
    unsure = "" if turn.predicted.confidence != "ceiling" or predicted is None else "~"
    why = "read more than this recording explains: warmed elsewhere" if warmed else ""
    if cause is not None:
        about = "about " if cause.tokens == "estimated" else ""
        lost = f": {about}{turn.lost_tokens:,} tokens re-billed{_paid(turn)}" if turn.lost_tokens else ""
        why = f"{cause.code} {cause.name}{lost}"
    return name[-_NAME_LENGTH:], when(turn.at), unsure + count_of(predicted), count_of(billed), off, why


def _paid(turn: SimulatedTurn) -> str:
    """Return the cost beyond the price of reading the lost tokens, unless the loss was expected or has no price."""
    paid = None if turn.cost is None else turn.cost.waste or turn.cost.unexplained
    return f" ({format_money(paid)})" if paid else ""


def _is_known(turn: SimulatedTurn) -> bool:
    """Return whether the prediction, the usage or a cause says something about the read."""
    billed = None if turn.billed is None else turn.billed.read_tokens
    return turn.cause is not None or turn.predicted.read_tokens is not None or billed is not None


def _warmed(turns: Sequence[SimulatedTurn]) -> set[int]:
    """Return the `id` of each turn that read more than was predicted and than the previous turn left.

    A cache may keep the response with the prompt, so the previous turn counts with its output.
    """
    found, cached = set[int](), dict[tuple[str, str], int]()
    for turn in turns:
        billed, name = turn.billed, (turn.path, turn.chain)
        most = max(turn.predicted.read_tokens or 0, cached.get(name, 0))
        if billed is not None and billed.read_tokens is not None:
            if turn.predicted.read_tokens is not None and billed.read_tokens > most + _WARM_TOKENS:
                found.add(id(turn))
            rest = (billed.uncached_tokens, billed.write_tokens, billed.output_tokens)
            cached[name] = billed.read_tokens + sum(count or 0 for count in rest)
    return found


def count_of(value: int | None) -> str:
    """Return a count as text, or `unknown`."""
    return "unknown" if value is None else f"{value:,}"


def write_chart(turns: Sequence[SimulatedTurn], out: Console) -> None:
    """Draw predicted and billed reads, turn by turn, on one scale."""
    predicted = [turn.predicted.read_tokens or 0 for turn in turns]
    draw([("predicted", predicted, "cyan"), ("billed", billed_reads(turns), "green")], out)


def billed_reads(turns: Sequence[SimulatedTurn]) -> list[int]:
    """Return the tokens that each turn read, by its usage; 0 if unknown."""
    return [(turn.billed and turn.billed.read_tokens) or 0 for turn in turns]


def draw(rows: Sequence[tuple[str, list[int], str]], out: Console) -> None:
    """Draw one line for each row (name, tokens by turn, colour), on one scale.

    A column is one turn, or the smallest value of several turns if there are too many.
    """
    most = max((value for _, values, _ in rows for value in values), default=0)
    count = min((len(values) for _, values, _ in rows), default=0)
    size = max((len(name) for name, *_ in rows), default=0)
    if count < 3 or not most:
        return
    width = min(CHART_COLUMNS, count, (out.room or WIDTH) - size - 3)
    out.print(line((f"tokens read, turn by turn (full height {most:,})", "bold")))
    for name, values, colour in rows:
        groups = [values[count * at // width : max(count * (at + 1) // width, 1)] for at in range(width)]
        bars = "".join(_BARS[-(-min(group) * (len(_BARS) - 1) // most)] for group in groups)
        out.print(line(f"  {name:<{size}} ", (bars, colour)))


# The columns of CSV, each with the path of its member in a turn; empty: made by `_csv_row`.
COLUMNS = {
    "path": "path", "line": "line", "chain": "chain", "turn": "turn", "at": "at", "model": "model", "cache": "cache",
    "predicted_read": "predicted.read_tokens", "predicted_write": "predicted.write_tokens",
    "predicted_uncached": "predicted.uncached_tokens", "confidence": "predicted.confidence",
    "billed_read": "billed.read_tokens", "billed_write": "billed.write_tokens",
    "billed_uncached": "billed.uncached_tokens", "billed_output": "billed.output_tokens", "difference": "",
    "cause": "cause.code", "strength": "cause.strength", "evidence": "cause.message", "lost_tokens": "lost_tokens",
    "waste_tokens": "waste_tokens", "cost_billed": "cost.billed", "cost_predicted": "cost.predicted",
    "cost_waste": "cost.waste", "unexplained_tokens": "unexplained_tokens", "cost_unexplained": "cost.unexplained",
    "partial_output": "", "measured_read": "",
}  # fmt: skip


def write_csv(result: SimulateResult, out: IO[str], *, header: bool = True) -> None:
    """Write one line for each turn. Unknown is empty; text that a spreadsheet would run as a formula is quoted."""
    rows = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    if header:
        rows.writeheader()
    found = result.measured.rows if isinstance(result.measured, MeasuredResult) else ()
    measured = {(row.path, row.chain, row.turn): row.cached_tokens for row in found if row.turn is not None}
    for turn in result.turns:
        row = _csv_row(turn) | {"measured_read": measured.get((turn.path, turn.chain, turn.turn))}
        rows.writerow({column: cell(value) for column, value in row.items()})


def _csv_row(turn: SimulatedTurn) -> dict[str, object]:
    row: dict[str, object] = {}
    for column, path in COLUMNS.items():
        value: object = turn
        for name in path.split("."):
            value = getattr(value, name) if name and value is not None else None
        row[column] = value
    billed, predicted = turn.billed, turn.predicted.read_tokens
    if billed is not None:
        row["partial_output"] = billed.partial_output is True
        known = billed.read_tokens is not None and predicted is not None
        row["difference"] = (billed.read_tokens or 0) - (predicted or 0) if known else None
    return row
