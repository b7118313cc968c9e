"""Read the measurements of engines' logs, and compare them with a simulation.

Logs are those of `--measured`, and logs among the recordings, which measure their own requests. The result is the
measured part of a `SimulateResult`. Each log is read once; a measurement takes some 150 bytes of memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, UnsetType

from lore.cache import total
from lore.errors import LoreError
from lore.model import Code, MeasuredResult
from lore.recording import HINT_MEASURED, Input, Options, Problems, Recording, UnrecognisedError, kind_of, open_head
from lore.run import PlayedTurn
from lore_plugins.engines.comparing import LogMeasures, PredictedTurn, compare_measures

_LOGS = {"engine-metrics": "", "vllm-log": "vllm", "sglang-log": "sglang", "llama-log": "llama.cpp"}  # and their caches
_OF_BODIES = (Code.REQUEST_NOT_JUDGED, Code.CONTENT_NOT_RECORDED)
_MOST_OPENED = 16  # inputs opened to find whether all are logs of one engine


class MeasuredLogs:
    """The logs that measured a run, and their cache."""

    def __init__(
        self, paths: Sequence[str], files: Sequence[Input], options: Options, problems: Problems
    ) -> None:  # fmt: skip
        """Read logs. Raise LoreError for a file that is not an engine's log, or has no measurements.

        Problems are added to `problems`, except those about request bodies: another recording has these.
        """
        self._logs = [_read(path, options, problems) for path in paths]
        self.cache = _cache_of(self._logs) if self._logs else _cache_in(files)

    def play(self) -> EngineMeasuring:
        """Start to compare a simulation of the recordings."""
        return EngineMeasuring(self._logs)


def _read(path: str, options: Options, problems: Problems) -> LogMeasures:
    own = Problems()
    recording = options.open(path, own)
    if recording.reader.name not in _LOGS:
        raise LoreError(f"{recording.shown} is not a log of an engine", hint=HINT_MEASURED)
    for _ in recording.reads():
        pass
    if not recording.measures:
        raise LoreError(recording.measures_nothing, hint=HINT_MEASURED)
    for problem in own.kept:
        if problem.code not in _OF_BODIES:
            problems.add(problem, problem.file)
    return LogMeasures(recording.shown, recording.reader.name, recording.measures)


def _cache_of(logs: Sequence[LogMeasures]) -> str | None:
    """Return the cache of all these logs, None if they are of several engines."""
    names = {measure.engine for log in logs for measure in log.measures} & {*filter(None, _LOGS.values())}
    return names.pop() if len(names) == 1 else None


def _cache_in(files: Sequence[Input]) -> str | None:
    """Return the cache of the one engine that wrote all inputs, else None."""
    if len(files) > _MOST_OPENED:
        return None
    names = set[str]()
    for file in files:
        names.add(_engine_in(file))
        if "" in names:
            return None
    return names.pop() if len(names) == 1 else None


def _engine_in(file: Input) -> str:
    """Return the cache of the engine whose log an input is; "" if it is anything else or unreadable."""
    if file.stream or file.error is not None or not os.path.isfile(file.path):
        return ""
    try:
        kind = kind_of(open_head(file.path).head, None)
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
        own = recording.reader.name in _LOGS
        try:
            for seen in played:
                if (own or self._all) and not seen.verdict.turn.failed:
                    self._turns.append(_predicted(seen))
                yield seen
        except UnrecognisedError:
            if not (own and recording.measures):
                raise
        if own and recording.measures:
            self._logs.append(LogMeasures(recording.shown, recording.reader.name, recording.measures))

    def result(self) -> MeasuredResult | UnsetType:
        """Return the measurements and their comparison; unset without a log."""
        return compare_measures(self._logs, self._turns) if self._logs else UNSET


def _predicted(seen: PlayedTurn) -> PredictedTurn:
    turn, result, predicted = seen.verdict.turn, seen.result, seen.result.predicted
    size = None if turn.usage is None else total(turn.usage.first_pass)
    counts = (predicted.read_tokens, predicted.write_tokens, predicted.uncached_tokens)
    counted = None if predicted.read_tokens is None else sum(count or 0 for count in counts)
    name = (turn.response_id or "").partition(" ")[0]
    return PredictedTurn(
        turn.at, name, counted if size is None else size, predicted.read_tokens, size is not None, turn.number,
        turn.chain, result.path,
    )  # fmt: skip
