"""Read the measurements of engines' logs, and compare them with a simulation.

Logs are those of `--measured`, and logs among the recordings, which measure their own requests. The result is the
measured part of a `SimulateResult`. Each log is read once; a measurement takes some 150 bytes of memory.

The result has the sums of each log, and rows with both sides: a request and its turn if they can be paired, else all of
the same span of time, else sums of all. Of several kinds of measurements only the finest counts. A request is paired by
the id of its response, else by the size of its prompt if usage reports that, else by order if there are equal numbers
of both. Times without a zone are shifted by quarters of an hour, times without a year to the year of the turns, to
where both overlap most. Cost: O(n); pairing by size O(n²) for at most `MOST_SIZES`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import MAXYEAR
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from lore.cache import total
from lore.errors import LoreError
from lore.judge import date_of, sum_ints
from lore.model import EXTERNAL, PROCESS, Code, Extent, MeasuredLog, MeasuredResult, MeasuredRow, Measurement
from lore.recording import (
    HINT_MEASURED,
    Input,
    Options,
    Problems,
    Recording,
    UnrecognisedError,
    open_head,
    reader_class_for,
)
from lore.run import PlayedTurn

WINDOW = 1000  # requests in vLLM's hit rate: `CachingMetrics`, vLLM 0.32.0
MOST_ROWS = 12  # of a table by time
MOST_SIZES = 3000  # requests that are paired by size
_ORDER: tuple[Extent, ...] = ("request", "interval", "batch", "window")
_ENOUGH = 0.8  # share of the turns: fewer pairs of equal size may be chance
_QUARTER, _FARTHEST = 900, 14 * 3600  # seconds: time zones differ by multiples of the first, at most by the second
_SLACK = 60  # seconds by which an engine's log may begin later or end earlier than its run
_WIDTHS = (1, 10, 60, 300, 600, 1800, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)


class LogMeasures(NamedTuple):
    """The measurements of one log, in its order."""

    path: str
    format: str
    measures: Sequence[Measurement]


class PredictedTurn(NamedTuple):
    """A turn and its prediction."""

    at: float | None  # when it was sent
    name: str  # the id of its response
    prompt: int | None  # tokens
    read_tokens: int | None  # as predicted
    has_usage: bool  # whether the size of the prompt is from usage, not counted
    turn: int
    chain: str
    path: str


_Pairs: TypeAlias = list[tuple[Measurement, PredictedTurn]]


def compare_measures(logs: Sequence[LogMeasures], turns: Sequence[PredictedTurn]) -> MeasuredResult:
    """Return the measurements next to the predictions of these turns; alone, if there are no predictions."""
    summaries = [summary for log in logs for summary in _summaries(log)]
    measures = _finest_measures(logs)
    predicted_turns = [turn for turn in turns if turn.read_tokens is not None and turn.prompt]
    unpaired_result = MeasuredResult(logs=summaries, pairing=None, rows=_rows_by_time(measures, ()))
    if not predicted_turns or not measures:
        return unpaired_result
    for pairing, pair_up in (("id", _pair_by_id), ("size", _pair_by_size), ("order", _pair_by_order)):
        if pairs := pair_up(measures, predicted_turns):
            rows = [
                replace(_sum_row((request,), (turn,), turn.at), turn=turn.turn, chain=turn.chain, path=turn.path)
                for request, turn in pairs
            ]
            return replace(unpaired_result, pairing=pairing, rows=rows, **_shares(rows))
    shift = _best_shift(measures, predicted_turns)
    shifted_measures = measures if not shift else [
        measure if measure.at is None else replace(measure, at=measure.at + shift) for measure in measures
    ]  # fmt: skip
    rows = [] if shift is None else _rows_by_time(shifted_measures, predicted_turns)
    if any(row.share is not None and row.predicted_share is not None for row in rows):
        return replace(unpaired_result, pairing="time", rows=rows, shifted_seconds=shift or None, **_shares(rows))
    if None not in (
        _range(measure.at for measure in measures if measure.clock != "start"),
        _range(turn.at for turn in predicted_turns),
    ):
        return replace(unpaired_result, apart=True)
    rows = [_sum_row(measures, predicted_turns, None)]
    return replace(unpaired_result, pairing="totals", rows=rows, **_shares(rows))


def _summaries(log: LogMeasures) -> Iterator[MeasuredLog]:
    """Yield the sums of each engine and kind of measurement in a log, the finest kind first."""
    groups: dict[tuple[Extent, str, str, str], list[Measurement]] = {}
    for measure in _merge_restarts(log.measures):
        name = measure.name if measure.extent == "window" else ""
        groups.setdefault((measure.extent, measure.engine, name, measure.server), []).append(measure)
    for (extent, engine, name, server), measures in sorted(groups.items(), key=lambda group: _ORDER.index(group[0][0])):
        row = _sum_row(measures, (), None)
        times = _range(measure.at for measure in measures)
        yield MeasuredLog(
            path=log.path, format=log.format, engine=engine, name=name, extent=extent, measurements=len(measures),
            requests=row.requests, prompt_tokens=row.prompt_tokens, cached_tokens=row.cached_tokens, share=row.share,
            clock=None if times is None else measures[0].clock, first=None if times is None else times[0],
            last=None if times is None else times[1], server=server,
            recomputed=sum(measure.recomputed for measure in measures),
        )  # fmt: skip


def _merge_restarts(measures: Sequence[Measurement]) -> list[Measurement]:
    """Return measurements without process ids if processes wrote one after another: then it is one restarted server."""
    processes = [measure.server for measure in measures if measure.server.startswith(PROCESS)]
    if len(list(groupby(processes))) > len(set(processes)):
        return list(measures)
    return [replace(measure, server="") if measure.server.startswith(PROCESS) else measure for measure in measures]


def _finest_measures(logs: Sequence[LogMeasures]) -> list[Measurement]:
    """Return the measurements of the finest kind in the logs, of the engine with most of them."""
    all_measures = [measure for log in logs for measure in _merge_restarts(log.measures)]
    for extent in _ORDER:
        groups: dict[tuple[str, ...], list[Measurement]] = {}
        for measure in all_measures:
            if measure.extent == extent and measure.engine != EXTERNAL:
                names = (measure.name, measure.server) if extent == "window" else ()
                groups.setdefault((measure.engine, *names), []).append(measure)
        if groups:
            return max(groups.values(), key=len)
    return []


def _pair_by_id(measures: list[Measurement], turns: list[PredictedTurn]) -> _Pairs:
    """Pair by the response's id; an engine may append parts to it after a hyphen."""
    turns_by_id = {turn.name: turn for turn in turns if turn.name}
    pairs: _Pairs = []
    for measure in measures:
        name = measure.name if measure.extent == "request" else ""
        while name and name not in turns_by_id:
            name = name.rpartition("-")[0]
        if name:
            pairs.append((measure, turns_by_id.pop(name)))
    return pairs


def _pair_by_size(measures: list[Measurement], turns: list[PredictedTurn]) -> _Pairs:
    """Pair by the sizes of prompts, keeping both orders, if most turns then have a request of the same size."""
    if measures[0].extent != "request" or max(len(measures), len(turns)) > MOST_SIZES:
        return []
    if sum(turn.has_usage for turn in turns) < _ENOUGH * len(turns):
        return []
    sizes = [measure.prompt_tokens for measure in measures], [turn.prompt for turn in turns]
    blocks = SequenceMatcher(None, *sizes, autojunk=False).get_matching_blocks()
    pairs = [(measures[block.a + step], turns[block.b + step]) for block in blocks for step in range(block.size)]
    return pairs if len(pairs) >= _ENOUGH * len(turns) else []


def _pair_by_order(measures: list[Measurement], turns: list[PredictedTurn]) -> _Pairs:
    """Pair by order, if the numbers are equal and no usage reports the sizes of prompts."""
    if measures[0].extent != "request" or len(measures) != len(turns) or any(turn.has_usage for turn in turns):
        return []
    return list(zip(measures, turns, strict=True))


def _best_shift(measures: list[Measurement], turns: list[PredictedTurn]) -> float | None:
    """Return the seconds to add to a log's times so that they overlap those of the turns; None if they never do."""
    log_range, turns_range = _range(measure.at for measure in measures), _range(turn.at for turn in turns)
    clock = measures[0].clock
    if log_range is None or turns_range is None or clock == "start":
        return None
    year_shifts = [0.0] if clock != "year" else list(_year_shifts(log_range[1], turns_range[1]))
    zone_shifts = [0] if clock == "utc" else sorted(range(-_FARTHEST, _FARTHEST + 1, _QUARTER), key=abs)
    best, longest = None, float("-inf")
    for shift in (years + zone for years in year_shifts for zone in zone_shifts):
        overlap = min(log_range[1] + shift, turns_range[1]) - max(log_range[0] + shift, turns_range[0])
        if overlap >= -_SLACK and overlap > longest + _SLACK * (best is not None):
            best, longest = shift, overlap
    return best


def _year_shifts(at: float, target: float) -> Iterator[float]:
    """Yield the seconds to add to a time without a year, to move it to the year of another one or the years next to it.

    A log that spans the end of February is off by a day before it if the year has no 29th.
    """
    date, target_date = date_of(at), date_of(target)
    if date is None or target_date is None or not 1 < target_date.year < MAXYEAR:  # a wrong clock
        return
    for year in (target_date.year, target_date.year - 1, target_date.year + 1):
        if (date.month, date.day) != (2, 29) or year % 4 == 0:
            yield date.replace(year=year).timestamp() - at


def _rows_by_time(measures: list[Measurement], turns: Sequence[PredictedTurn]) -> list[MeasuredRow]:
    """Return a row for each span of time; of a log without times one for each request; at most `MOST_ROWS`."""
    series = sorted((measure for measure in measures if measure.at is not None), key=lambda measure: measure.at or 0.0)
    if not series and not turns and measures and measures[0].extent == "request":
        step = -(-len(measures) // MOST_ROWS)
        return [_sum_row(measures[at : at + step], (), None) for at in range(0, len(measures), step)]
    if not series:
        return []
    if series[0].extent == "window":
        return _rate_rows(series, turns)
    ends = _span_ends(series)
    rows: list[MeasuredRow] = []
    start = float("-inf")
    for end in ends:
        span_measures = [measure for measure in series if start < (measure.at or 0.0) <= end]
        span_turns = [turn for turn in turns if turn.at is not None and start < turn.at <= end]
        if span_measures or span_turns:
            rows.append(_sum_row(span_measures, span_turns, end))
        start = end
    return rows


def _span_ends(measures: list[Measurement]) -> list[float]:
    """Return where spans of time end: at scrapes, else at round times."""
    first, last = measures[0].at or 0.0, measures[-1].at or 0.0
    if measures[0].extent == "interval":
        scrapes = [measure.at or 0.0 for measure in measures]
        step = -(-len(scrapes) // MOST_ROWS)
        return sorted({*scrapes[step - 1 :: step], last})
    width = next((width for width in _WIDTHS if (last - first) / width < MOST_ROWS - 1), _WIDTHS[-1])
    start = first // width * width
    count = min(int((last - start) // width) + 1, MOST_ROWS * 4)
    ends = [start + width * number for number in range(1, count + 1)]
    return [*ends[:-1], max(ends[-1], last)]


def _rate_rows(rates: list[Measurement], turns: Sequence[PredictedTurn]) -> list[MeasuredRow]:
    """Return rows with some of the measured rates, and the predictions of the `WINDOW` turns before each."""
    step = -(-len(rates) // MOST_ROWS)
    chosen_rates = rates[::-1][::step][::-1]
    later_turns = deque(sorted((turn for turn in turns if turn.at is not None), key=lambda turn: turn.at or 0.0))
    recent_turns, rows = deque[PredictedTurn](maxlen=WINDOW), list[MeasuredRow]()
    for measure in chosen_rates:
        while later_turns and (later_turns[0].at or 0.0) <= (measure.at or 0.0):
            recent_turns.append(later_turns.popleft())
        rows.append(_sum_row((measure,), recent_turns, measure.at))
    return rows


def _sum_row(measures: Sequence[Measurement], turns: Iterable[PredictedTurn], at: float | None) -> MeasuredRow:
    """Sum both sides; of rates the last one is taken."""
    prompt, cached, requests = (
        sum_ints(getattr(measure, name) for measure in measures)
        for name in ("prompt_tokens", "cached_tokens", "requests")
    )
    share = cached / prompt if prompt and cached is not None else None
    if share is None and measures:
        share = measures[-1].share
    predicted_turns = list(turns)
    sizes = sum(turn.prompt or 0 for turn in predicted_turns)
    reads = sum(turn.read_tokens or 0 for turn in predicted_turns)
    return MeasuredRow(
        at=at, requests=requests, prompt_tokens=prompt, cached_tokens=cached, share=share,
        turns=len(predicted_turns) or None, predicted_prompt_tokens=sizes or None,
        predicted_tokens=reads if predicted_turns else None, predicted_share=min(1.0, reads / sizes) if sizes else None,
    )  # fmt: skip


def _shares(rows: list[MeasuredRow]) -> dict[str, float | None]:
    """Return the share of both sides over all rows that have both; of rates the last one."""
    pairs = [row for row in rows if row.share is not None and row.predicted_share is not None]
    if not pairs:
        return {}
    prompt, cached = sum_ints(row.prompt_tokens for row in pairs), sum_ints(row.cached_tokens for row in pairs)
    if not prompt or cached is None:
        return {"share": pairs[-1].share, "predicted_share": pairs[-1].predicted_share}
    sizes, reads = (
        sum_ints(row.predicted_prompt_tokens for row in pairs),
        sum_ints(row.predicted_tokens for row in pairs),
    )
    predicted_share = min(1.0, reads / sizes) if sizes and reads is not None else None
    return {"share": cached / prompt, "predicted_share": predicted_share}


def _range(times: Iterable[float | None]) -> tuple[float, float] | None:
    known_times = [at for at in times if at is not None]
    return (min(known_times), max(known_times)) if known_times else None


_LOGS = {"engine-metrics": "", "vllm-log": "vllm", "sglang-log": "sglang", "llama-log": "llama.cpp"}  # and their caches
_OF_BODIES = (Code.REQUEST_NOT_JUDGED, Code.CONTENT_NOT_RECORDED)
_MOST_OPENED = 16  # inputs opened to find whether all are logs of one engine


class MeasuredLogs:
    """The logs that measured a run, and their cache."""

    def __init__(self, paths: Sequence[str], files: Sequence[Input], options: Options, problems: Problems) -> None:
        """Read logs. Raise LoreError for a file that is not an engine's log, or has no measurements.

        Problems are added to `problems`, except those about request bodies: another recording has these.
        """
        self._logs = [_read_log(path, options, problems) for path in paths]
        self.cache = _cache_of_logs(self._logs) if self._logs else _cache_of_inputs(files)

    def play(self) -> EngineMeasuring:
        """Start to compare a simulation of the recordings."""
        return EngineMeasuring(self._logs)


def _read_log(path: str, options: Options, problems: Problems) -> LogMeasures:
    log_problems = Problems()
    recording = options.open(path, log_problems)
    if recording.reader.name not in _LOGS:
        raise LoreError(f"{recording.shown} is not a log of an engine", hint=HINT_MEASURED)
    for _ in recording.reads():
        pass
    if not recording.measures:
        raise LoreError(recording.measures_nothing, hint=HINT_MEASURED)
    for problem in log_problems.kept:
        if problem.code not in _OF_BODIES:
            problems.add(problem, problem.file)
    return LogMeasures(recording.shown, recording.reader.name, recording.measures)


def _cache_of_logs(logs: Sequence[LogMeasures]) -> str | None:
    """Return the cache of all these logs, None if they are of several engines."""
    names = {measure.engine for log in logs for measure in log.measures} & {*filter(None, _LOGS.values())}
    return names.pop() if len(names) == 1 else None


def _cache_of_inputs(files: Sequence[Input]) -> str | None:
    """Return the cache of the one engine that wrote all inputs, else None."""
    if len(files) > _MOST_OPENED:
        return None
    names = set[str]()
    for file in files:
        names.add(_engine_of_input(file))
        if "" in names:
            return None
    return names.pop() if len(names) == 1 else None


def _engine_of_input(file: Input) -> str:
    """Return the cache of the engine whose log an input is; "" if it is anything else or unreadable."""
    if file.stream or file.error is not None or not os.path.isfile(file.path):
        return ""
    try:
        kind = reader_class_for(open_head(file.path).head, None)
    except LoreError:
        return ""
    return "" if kind is None else _LOGS.get(kind.name, "")


class EngineMeasuring:
    """Collects turns and measurements while recordings are simulated; `logs` measured all of them."""

    def __init__(self, logs: Sequence[LogMeasures]) -> None:
        self._logs = list(logs)
        self._all = bool(logs)
        self._turns: list[PredictedTurn] = []

    def follow(self, recording: Recording, played: Iterable[PlayedTurn]) -> Iterator[PlayedTurn]:
        """Yield a recording's turns; accept a log without requests if it has measurements."""
        is_engine_log = recording.reader.name in _LOGS
        try:
            for played_turn in played:
                if (is_engine_log or self._all) and not played_turn.verdict.turn.failed:
                    self._turns.append(_predicted_turn(played_turn))
                yield played_turn
        except UnrecognisedError:
            if not (is_engine_log and recording.measures):
                raise
        if is_engine_log and recording.measures:
            self._logs.append(LogMeasures(recording.shown, recording.reader.name, recording.measures))

    def result(self) -> MeasuredResult | UnsetType:
        """Return the measurements and their comparison; unset without a log."""
        return compare_measures(self._logs, self._turns) if self._logs else UNSET


def _predicted_turn(played_turn: PlayedTurn) -> PredictedTurn:
    turn, result, predicted = played_turn.verdict.turn, played_turn.result, played_turn.result.predicted
    size = None if turn.usage is None else total(turn.usage.first_pass)
    counts = (predicted.read_tokens, predicted.write_tokens, predicted.uncached_tokens)
    counted_size = None if predicted.read_tokens is None else sum(count or 0 for count in counts)
    name = (turn.response_id or "").partition(" ")[0]
    return PredictedTurn(
        turn.at, name, counted_size if size is None else size, predicted.read_tokens, size is not None, turn.number,
        turn.chain, result.path,
    )  # fmt: skip
