"""Engines' logs beside a simulation: read what they measured, and put it beside what was predicted.

In: logs that are named as measuring a run (`--measured`), and those among the recordings themselves, which measure what
they hold. Out: the measured part of a `Simulated`. A log is read once a play; its measurements are kept, some 150 bytes
each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from lore.cache.bills import total
from lore.errors import LoreError
from lore.formats.registry import ENGINE_LOGS
from lore.judge.measured import Foreseen, LogMeasures, compared
from lore.model.codes import Code
from lore.model.results.measured import MeasuredResult
from lore.recording import corpus
from lore.recording.base import HINT_MEASURED, Problems, Recording, UnrecognisedError
from lore.recording.opening import Options, kind_of

if TYPE_CHECKING:
    from lore.recording.inputs import Input
    from lore.run.simulate import PlayedTurn

_CACHES = {"vllm-log": "vllm", "sglang-log": "sglang", "llama-log": "llama.cpp"}
_OF_BODIES = (Code.REQUEST_NOT_JUDGED, Code.CONTENT_NOT_RECORDED)
_LOOKED_AT = 16  # inputs opened to see whether all are logs of one engine


def read_logs(paths: Sequence[str], options: Options, problems: Problems) -> list[LogMeasures]:
    """Read the logs that measured a run; raises LoreError for a file that is no engine's log, or measures nothing.

    Their `problems` are told, but for those of requests' bodies: another recording has these.
    """
    found: list[LogMeasures] = []
    for path in paths:
        own = Problems()
        recording = options.open(path, own)
        if recording.reader.name not in ENGINE_LOGS:
            raise LoreError(f"{recording.shown} is no log of an engine", hint=HINT_MEASURED)
        for _ in recording.reads():
            pass
        if not recording.measures:
            raise LoreError(recording.measures_nothing, hint=HINT_MEASURED)
        found.append(LogMeasures(recording.shown, recording.reader.name, recording.measures))
        for problem in own.kept:
            if problem.code not in _OF_BODIES:
                problems.add(problem, problem.file)
    return found


def engine_of(files: Sequence[Input], logs: Sequence[LogMeasures]) -> str | None:
    """Name the cache that all of these logs are of, or all inputs where they are logs; None: they are of several."""
    names = {measure.engine for log in logs for measure in log.measures if measure.engine in _CACHES.values()}
    if not logs and len(files) <= _LOOKED_AT:
        names = set[str]()
        for file in files:
            names.add(_engine_in(file))
            if "" in names:
                return None
    return names.pop() if len(names) == 1 else None


def _engine_in(file: Input) -> str:
    """Name the engine whose log an input is; empty where it is anything else, or cannot be read."""
    if file.stream or file.error is not None or not os.path.isfile(file.path):
        return ""
    try:
        kind = kind_of(corpus.open_head(file.path).head, None)
    except LoreError:
        return ""
    return "" if kind is None else _CACHES.get(kind.name, "")


class Measuring:
    """Collect turns and measurements as recordings are played; `logs` are those that measured all of them."""

    def __init__(self, logs: Sequence[LogMeasures]) -> None:
        self._logs = list(logs)
        self._all = bool(logs)
        self._turns: list[Foreseen] = []

    def follow(self, recording: Recording, played: Iterable[PlayedTurn]) -> Iterator[PlayedTurn]:
        """Pass a recording's turns on; a log without any request is none that cannot be recognised."""
        own = recording.reader.name in ENGINE_LOGS
        try:
            for seen in played:
                if (own or self._all) and not seen.verdict.turn.failed:
                    self._turns.append(_foreseen(seen))
                yield seen
        except UnrecognisedError:
            if not (own and recording.measures):
                raise
        if own and recording.measures:
            self._logs.append(LogMeasures(recording.shown, recording.reader.name, recording.measures))

    def result(self) -> MeasuredResult | UnsetType:
        """Return what was measured; unset where no log is there."""
        return compared(self._logs, self._turns) if self._logs else UNSET


def _foreseen(seen: PlayedTurn) -> Foreseen:
    turn, result, predicted = seen.verdict.turn, seen.result, seen.result.predicted
    size = None if turn.usage is None else total(turn.usage.met)
    counts = (predicted.read_tokens, predicted.write_tokens, predicted.uncached_tokens)
    counted = None if predicted.read_tokens is None else sum(count or 0 for count in counts)
    name = (turn.response_id or "").partition(" ")[0]
    return Foreseen(
        turn.at, name, counted if size is None else size, predicted.read_tokens, size is not None, turn.number,
        turn.chain, result.path,
    )  # fmt: skip
