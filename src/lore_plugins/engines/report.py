"""Write engines' measurements: the sums of each log, then both sides by request or time."""

from __future__ import annotations

from collections.abc import Iterator

from lore.model import EXTERNAL, MeasuredLog, MeasuredResult, MeasuredRow
from lore.report import Console, TableColumn, count_of, turn_of, when, write_table

_HEADER = ("requests", "prompt tokens", "read", "measured", "predicted", "points")
_EXTENTS = {
    "request": "request", "interval": "scrape", "batch": "prefill step", "window": "reported rate",
}  # fmt: skip
_PAIRED = {
    "id": "requests paired with turns by response id",
    "size": "requests paired with turns by prompt size, in order",
    "order": "requests paired with turns by order: there are equally many",
    "time": "compared over the same spans of time",
    "totals": "sums of all: the log's times do not fit those of the turns",
}
_SHOWN = 20  # rows unless all are requested
_ZONE = 15 * 3600  # seconds: no zone is farther from UTC
_NEAR = 0.02  # of a prompt: a smaller difference is ignored


def comparison_lines(result: MeasuredResult) -> Iterator[str]:
    """Yield the sums of each log, and the shares of both sides."""
    for log in result.logs:
        engine = "vllm, external cache" if log.engine == EXTERNAL else log.engine
        yield f"measured by {engine}, {log.path} ({log.format}): {_describe_log(log)}"
    if result.apart:
        yield "not compared: the log and the recordings are from different times"
    elif result.pairing is not None:
        measured, predicted = _percent(result.share), _percent(result.predicted_share)
        yield f"read of the prompts: measured {measured}, predicted {predicted} ({_PAIRED[result.pairing]})"
        if result.shifted_seconds is not None:
            yield f"times of the log are shifted {_describe_shift(result.shifted_seconds)}"


def write_measured(result: MeasuredResult, out: Console, *, every: bool = False) -> None:
    """Write the comparison and its rows: requests that differ from their prediction, or `every` one."""
    for text in comparison_lines(result):
        out.print(text)
    rows = [row for row in result.rows if every or row.turn is None or not _is_near(row.share, row.predicted_share)]
    if result.rows and not rows:
        out.print(f"{count_of(len(result.rows), 'request')}, all predicted within 2 % of the prompt")
    _write_rows(rows if every else rows[:_SHOWN], result, out)
    if len(rows) > _SHOWN and not every:
        out.print(f"and {count_of(len(rows) - _SHOWN, 'row')} more: --all shows every one")


def _describe_log(log: MeasuredLog) -> str:
    measurements = count_of(log.measurements, _EXTENTS[log.extent])
    origin = "".join(f"{part}, " for part in (log.name and f"engine {log.name}", log.server) if part)
    if log.extent == "window":
        return f"{origin}{measurements}; the last: {_percent(log.share)} of the latest requests' prompt tokens read"
    requests = f", {count_of(log.requests, 'request')}" if log.requests is not None and log.extent != "request" else ""
    tokens = f"{log.cached_tokens or 0:,} of {log.prompt_tokens or 0:,} prompt tokens read"
    why = (
        f"; {count_of(log.recomputed, 'request')} computed whole, as the server kept no state to continue from: keep "
        "more of them (--ctx-checkpoints, --cache-ram), or with a sliding window all tokens (--swa-full)"
    )  # fmt: skip
    return f"{origin}{measurements}{requests}, {tokens}: {_percent(log.share)}{why if log.recomputed else ''}"


def _write_rows(rows: list[MeasuredRow], result: MeasuredResult, out: Console) -> None:
    """Write a table of rows, without empty columns; nothing for a single sum."""
    if not rows or (len(rows) == 1 and result.pairing in (None, "totals")):
        return
    first_column = "turn" if rows[0].turn is not None else "time" if result.logs[0].extent == "window" else "until"
    cells = [_row_cells(row, result) for row in rows]
    columns = {
        place: TableColumn(head, right=True) for place, head in enumerate((first_column, *_HEADER))
        if any(row[place] for row in cells)
    }  # fmt: skip
    write_table([*columns.values()], [[row[place] for place in columns] for row in cells], out)


def _row_cells(row: MeasuredRow, result: MeasuredResult) -> tuple[str, ...]:
    difference = None if row.share is None or row.predicted_share is None else row.share - row.predicted_share
    name = _format_time(row.at, result)
    if row.turn is not None:
        name = f"{name} {turn_of(row.turn, row.chain)}"
    return (
        name.strip(), _format_count(None if row.turn is not None else row.requests), _format_count(row.prompt_tokens),
        _format_count(row.cached_tokens), _percent(row.share, ""), _percent(row.predicted_share, ""),
        "" if difference is None else f"{100 * difference:+.1f}",
    )  # fmt: skip


def _format_time(at: float | None, result: MeasuredResult) -> str:
    clock = "utc" if result.pairing is not None else next((log.clock for log in result.logs if log.clock), None)
    if at is None or clock is None:
        return ""
    if clock == "start":
        return f"+{at:,.0f} s"
    return when(at, "%m-%d %H:%M:%S" if clock == "year" else "%Y-%m-%d %H:%M:%S")


def _describe_shift(seconds: float) -> str:
    if abs(seconds) > _ZONE:
        return "to the year of the recordings: the log names neither year nor zone"
    return f"by {seconds / 3600:+g} h, where they fit those of the recordings best: the log names no zone"


def _is_near(share: float | None, predicted_share: float | None) -> bool:
    return share is not None and predicted_share is not None and abs(share - predicted_share) <= _NEAR


def _format_count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _percent(share: float | None, unknown: str = "unknown") -> str:
    return unknown if share is None else f"{share:.1%}"
