"""What engines measured of their caches, for a person: each log's sums, then both sides by request or by time."""

from __future__ import annotations

from collections.abc import Iterator

from lore.model import EXTERNAL, MeasuredLog, MeasuredResult, MeasuredRow
from lore.report import (
    LISTED,
    PageBlock,
    ReadRow,
    aligned,
    counted,
    measured_strips,
    rows_not_drawn,
    table_of_cells,
    turn_of,
    when,
)  # fmt: skip

_HEADER = ("requests", "prompt tokens", "read", "measured", "predicted", "points")
_EXTENTS = {
    "request": "request", "interval": "scrape", "batch": "prefill step", "window": "reported rate",
}  # fmt: skip
_PAIRED = {
    "id": "each request beside the turn of the same response id",
    "size": "each request beside the turn of the same size, in their order",
    "order": "each request beside the turn at the same place: there are as many of both",
    "time": "what was measured and predicted of the same times",
    "totals": "sums of all: the log's times cannot be told to be those of the turns",
}
_SHOWN = 20  # rows where not all are asked for
_ZONE = 15 * 3600  # seconds: no zone is farther from UTC
_NEAR = 0.02  # of a prompt: a difference that is none


def comparison_lines(result: MeasuredResult) -> Iterator[str]:
    """Yield what each log says, and what both sides come to."""
    for log in result.logs:
        engine = "vllm of an external cache" if log.engine == EXTERNAL else log.engine
        yield f"measured by {engine}, {log.path} ({log.format}): {_sums(log)}"
    if result.apart:
        yield "not compared: the log and the recordings are of different times"
    elif result.pairing is None:
        pass
    else:
        measured, predicted = _share(result.share), _share(result.predicted_share)
        yield f"read of the prompts: measured {measured}, predicted {predicted} ({_PAIRED[result.pairing]})"
        if result.shifted_seconds is not None:
            yield f"times of the log are moved {_moved(result.shifted_seconds)}"


def measured_lines(result: MeasuredResult, *, every: bool = False) -> Iterator[str]:
    """Yield all that was measured, and its rows: of requests those that differ, or `every`."""
    yield from comparison_lines(result)
    rows = [row for row in result.rows if every or row.turn is None or not _is_near(row.share, row.predicted_share)]
    if result.rows and not rows:
        yield f"{counted(len(result.rows), 'request')}, each as predicted within 2 % of its prompt"
    cells = _cells_of(rows if every else rows[:_SHOWN], result)
    yield from (f"  {text}" for text in aligned(cells, range(len(_HEADER) + 1)))
    if len(rows) > _SHOWN and not every:
        yield f"and {counted(len(rows) - _SHOWN, 'row')} more: --all shows every one"


def measured_block(result: MeasuredResult) -> PageBlock:
    """Show what engines' logs measured, each request or span of time beside its prediction."""
    cells = _cells_of(result.rows[:LISTED], result)
    rows = [
        ReadRow(name, row.prompt_tokens or 0, row.cached_tokens, row.predicted_tokens)
        for (name, *_), row in zip(cells[1:], result.rows, strict=False)
    ]
    table = table_of_cells(cells) if cells else None
    lines = (*comparison_lines(result), *rows_not_drawn(len(result.rows)))
    return PageBlock(
        "What the engine measured", lines, measured_strips(rows, "measured"), table, folded_table=bool(rows)
    )


def _sums(log: MeasuredLog) -> str:
    """Say what a log comes to; a window's rate is of the most recent requests, whatever was before."""
    what = counted(log.measurements, _EXTENTS[log.extent])
    number = "".join(f"{part}, " for part in (log.name and f"engine {log.name}", log.server) if part)
    if log.extent == "window":
        return f"{number}{what}; the last: {_share(log.share)} of the prompts of the most recent requests read"
    requests = f", {counted(log.requests, 'request')}" if log.requests is not None and log.extent != "request" else ""
    of = f"{log.cached_tokens or 0:,} of {log.prompt_tokens or 0:,} prompt tokens read"
    return f"{number}{what}{requests}, {of}: {_share(log.share)}"


def _cells_of(rows: list[MeasuredRow], result: MeasuredResult) -> list[tuple[str, ...]]:
    """Return rows as cells below their heads, without columns that hold nothing; nothing for a sum alone."""
    if not rows or (len(rows) == 1 and result.pairing in (None, "totals")):
        return []
    first = "turn" if rows[0].turn is not None else "time" if result.logs[0].extent == "window" else "until"
    cells = [(first, *_HEADER), *(_cells(row, result) for row in rows)]
    kept = [column for column in range(len(_HEADER) + 1) if any(row[column] for row in cells[1:])]
    return [tuple([row[column] for column in kept]) for row in cells]


def _cells(row: MeasuredRow, result: MeasuredResult) -> tuple[str, ...]:
    both = None if row.share is None or row.predicted_share is None else row.share - row.predicted_share
    name = _time(row.at, result)
    if row.turn is not None:
        name = f"{name} {turn_of(row.turn, row.chain)}"
    return (
        name.strip(), _count(None if row.turn is not None else row.requests), _count(row.prompt_tokens),
        _count(row.cached_tokens), _share(row.share, ""), _share(row.predicted_share, ""),
        "" if both is None else f"{100 * both:+.1f}",
    )  # fmt: skip


def _time(at: float | None, result: MeasuredResult) -> str:
    clock = "utc" if result.pairing is not None else next((log.clock for log in result.logs if log.clock), None)
    if at is None or clock is None:
        return ""
    if clock == "start":
        return f"+{at:,.0f} s"
    return when(at, "%m-%d %H:%M:%S" if clock == "year" else "%Y-%m-%d %H:%M:%S")


def _moved(seconds: float) -> str:
    if abs(seconds) > _ZONE:
        return "to the year of the recordings, where they meet best: it names no year and no zone"
    return f"by {seconds / 3600:+g} h, where they meet those of the recordings best: it names no zone"


def _is_near(share: float | None, predicted: float | None) -> bool:
    return share is not None and predicted is not None and abs(share - predicted) <= _NEAR


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _share(share: float | None, unknown: str = "unknown") -> str:
    return unknown if share is None else f"{share:.1%}"
