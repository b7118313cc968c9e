"""`lore simulate --csv`: a line a turn. Unknown is empty; text that a spreadsheet would run is quoted."""

from __future__ import annotations

import csv
from typing import IO

from lore.model.mask import mask
from lore.model.results_simulate import Simulated, SimulatedTurn
from lore.report.plain import visible

COLUMNS = (
    "path", "line", "chain", "turn", "at", "model", "cache", "predicted_read", "predicted_write", "predicted_uncached",
    "confidence", "billed_read", "billed_write", "billed_uncached", "billed_output", "difference", "cause", "strength",
    "evidence", "lost_tokens", "waste_tokens", "cost_billed", "cost_predicted", "cost_waste",
)  # fmt: skip
_RUN = ("=", "+", "-", "@", "\t", "\r")


def write_csv(result: Simulated, out: IO[str], *, header: bool = True) -> None:
    """Write the turns of a result."""
    rows = csv.writer(out, lineterminator="\n")
    if header:
        rows.writerow(COLUMNS)
    for one in result.turns:
        rows.writerow([_cell(value) for value in _row(one)])


def _row(one: SimulatedTurn) -> tuple[object, ...]:
    said, bill, why, cost = one.predicted, one.billed, one.cause, one.cost
    known = bill is not None and bill.read_tokens is not None and said.read_tokens is not None
    return (
        one.path, one.line, one.chain, one.turn, one.at, one.model, one.cache, said.read_tokens, said.write_tokens,
        said.uncached_tokens, said.confidence, *((None,) * 4 if bill is None else (
            bill.read_tokens, bill.write_tokens, bill.uncached_tokens, bill.output_tokens)),
        (bill.read_tokens or 0) - (said.read_tokens or 0) if known and bill is not None else None,
        None if why is None else why.code, None if why is None else why.strength,
        None if why is None else why.message, one.lost_tokens, one.waste_tokens,
        *((None,) * 3 if cost is None else (cost.billed, cost.predicted, cost.waste)),
    )  # fmt: skip


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = mask(visible(value))
    return f"'{text}" if text.startswith(_RUN) else text
