"""Write engines' measurements for a terminal or a page: the sums of each log, then both sides by request or time."""

from __future__ import annotations

from collections.abc import Iterator

from lore.model import EXTERNAL, MeasuredLog, MeasuredResult, MeasuredRow
from lore.report import SHOWN_BARS, BarPart, PageBar, PageBlock, align_columns, counted, table_of, turn_of, when

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


def measured_lines(result: MeasuredResult, *, every: bool = False) -> Iterator[str]:
    """Yield the comparison and its rows: requests that differ from their prediction, or `every` one."""
    yield from comparison_lines(result)
    rows = [row for row in result.rows if every or row.turn is None or not _is_near(row.share, row.predicted_share)]
    if result.rows and not rows:
        yield f"{counted(len(result.rows), 'request')}, all predicted within 2 % of the prompt"
    cells = _table_cells(rows if every else rows[:_SHOWN], result)
    yield from (f"  {text}" for text in align_columns(cells, range(len(_HEADER) + 1)))
    if len(rows) > _SHOWN and not every:
        yield f"and {counted(len(rows) - _SHOWN, 'row')} more: --all shows every one"


def measured_block(result: MeasuredResult) -> PageBlock:
    """Return the measurements as a block of a page, each request or span of time with its prediction."""
    cells = _table_cells(result.rows, result)
    bars: list[PageBar] = []
    for (name, *_), row in zip(cells[1:], result.rows, strict=False):
        tokens = row.prompt_tokens or 0
        for side, read in (("measured", row.cached_tokens), ("predicted", row.predicted_tokens)):
            if tokens and read is not None:
                parts = (
                    BarPart("read", min(read, tokens), "read"),
                    BarPart("uncached", max(0, tokens - read), "not read"),
                )
                bars.append(PageBar(f"{name}, {side}: {read:,} of {tokens:,} tokens read", parts))
    return PageBlock(
        "Measured by the engine", tuple(comparison_lines(result)), tuple(bars[:SHOWN_BARS]), table_of(cells)
    )


def _describe_log(log: MeasuredLog) -> str:
    measurements = counted(log.measurements, _EXTENTS[log.extent])
    origin = "".join(f"{part}, " for part in (log.name and f"engine {log.name}", log.server) if part)
    if log.extent == "window":
        return f"{origin}{measurements}; the last: {_percent(log.share)} of the latest requests' prompt tokens read"
    requests = f", {counted(log.requests, 'request')}" if log.requests is not None and log.extent != "request" else ""
    tokens = f"{log.cached_tokens or 0:,} of {log.prompt_tokens or 0:,} prompt tokens read"
    why = (
        f"; {counted(log.recomputed, 'request')} computed whole, as the server kept no state to continue from: keep "
        "more of them (--ctx-checkpoints, --cache-ram), or with a sliding window all tokens (--swa-full)"
    )  # fmt: skip
    return f"{origin}{measurements}{requests}, {tokens}: {_percent(log.share)}{why if log.recomputed else ''}"


def _table_cells(rows: list[MeasuredRow], result: MeasuredResult) -> list[tuple[str, ...]]:
    """Return a header and rows as cells, without empty columns; nothing for a single sum."""
    if not rows or (len(rows) == 1 and result.pairing in (None, "totals")):
        return []
    first_column = "turn" if rows[0].turn is not None else "time" if result.logs[0].extent == "window" else "until"
    cells = [(first_column, *_HEADER), *(_row_cells(row, result) for row in rows)]
    columns = [column for column in range(len(_HEADER) + 1) if any(row[column] for row in cells[1:])]
    return [tuple([row[column] for column in columns]) for row in cells]


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
