"""`lore simulate --csv`: a line a turn. Unknown is empty; text that a spreadsheet would run is quoted."""

from __future__ import annotations

import csv
from typing import IO

from lore.model.mask import mask
from lore.model.results_measured import MeasuredResult
from lore.model.results_simulate import Simulated, SimulatedTurn
from lore.report.plain import visible

COLUMNS = (
    "path", "line", "chain", "turn", "at", "model", "cache", "predicted_read", "predicted_write", "predicted_uncached",
    "confidence", "billed_read", "billed_write", "billed_uncached", "billed_output", "difference", "cause", "strength",
    "evidence", "lost_tokens", "waste_tokens", "cost_billed", "cost_predicted", "cost_waste",
    "unexplained_tokens", "cost_unexplained", "partial_output", "probability", "measured_read",
)  # fmt: skip
_RUN = ("=", "+", "-", "@", "\t", "\r")


def write_csv(result: Simulated, out: IO[str], *, header: bool = True) -> None:
    """Write the turns of a result."""
    rows = csv.writer(out, lineterminator="\n")
    if header:
        rows.writerow(COLUMNS)
    found = result.measured.rows if isinstance(result.measured, MeasuredResult) else ()
    measured = {(row.path, row.chain, row.turn): row.cached_tokens for row in found if row.turn is not None}
    for turn in result.turns:
        read = measured.get((turn.path, turn.chain, turn.turn))
        rows.writerow([cell(value) for value in (*_row(turn), read)])


def _row(turn: SimulatedTurn) -> tuple[object, ...]:
    predicted, billed, cause, cost = turn.predicted, turn.billed, turn.cause, turn.cost
    read = None if billed is None else billed.read_tokens
    return (
        turn.path, turn.line, turn.chain, turn.turn, turn.at, turn.model, turn.cache, predicted.read_tokens,
        predicted.write_tokens, predicted.uncached_tokens, predicted.confidence, *((None,) * 4 if billed is None else (
            read, billed.write_tokens, billed.uncached_tokens, billed.output_tokens)),
        None if read is None or predicted.read_tokens is None else read - predicted.read_tokens,
        *((None,) * 3 if cause is None else (cause.code, cause.strength, cause.message)),
        turn.lost_tokens, turn.waste_tokens,
        *((None,) * 3 if cost is None else (cost.billed, cost.predicted, cost.waste)),
        turn.unexplained_tokens, None if cost is None else cost.unexplained,
        None if billed is None else billed.partial_output is True, predicted.probability,
    )  # fmt: skip


def cell(value: object) -> object:
    """Return a value as a spreadsheet may have it: visible, without credentials, never run."""
    if not isinstance(value, str):
        return value
    text = mask(visible(value))
    return f"'{text}" if text.startswith(_RUN) else text
