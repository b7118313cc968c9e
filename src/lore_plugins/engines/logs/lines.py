"""The base of readers of engines' logs: lines as a server prints them, after any prefix of a log collector.

Most lines say nothing about the cache, so a line that matches no pattern is not a problem. Colours are removed. A time
written first by the collector (`docker logs -t`, `kubectl logs --timestamps`, the CRI's own files) is in UTC and
preferred to the engine's own, which has no zone. The name of a container or pod distinguishes servers. A file is read
as a log of one engine; lines of other engines are counted, and reported at the end.

Sources for the collectors' prefixes: the references of `docker compose logs` (`NAME  | `) and `kubectl logs --prefix`
(`[pod/NAME/CONTAINER] `), and CRI's log format, 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from lore.formats import Line, LineCutter, Read, TextReader, placed, problem, too_much
from lore.model import Code, Exchange, LogClock, Measurement, Problem, parse_timestamp

LARGEST_COUNT = 10**15  # tokens: a larger counter is damaged
MOST_REQUESTS = 4096  # open requests, for logs that never close any
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_RFC3339 = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_COLLECTOR_TIME = re.compile(rb"[\w.-]*[ |]*(" + _RFC3339 + rb")[ \t]")
_COLLECTOR_NAME = re.compile(rb"(\w[\w.-]{0,127}) {1,64}\| ?|\[pod/([\w./-]{1,253})\] ")
_BEGINNING = 512  # bytes of a line that are searched for other engines' measurements
# Lines that measure a cache, by the format that reads them.
_ENGINES = re.compile(
    rb"(?P<vllm_log>(?:Avg prompt throughput|LMCache hit tokens): )|(?P<sglang_log>\] (?:Prefill batch|Finish: obj=))"
    rb"|(?P<llama_log>\bslot +\w+: +id +\d+ \| task )|(?P<engine_metrics>^(?:vllm|sglang|llamacpp|lmcache):[a-z_]+[{ ])"
)

T = TypeVar("T")


LogValue: TypeAlias = Measurement | Exchange | Problem | Read


class LogTime(NamedTuple):
    """The time of a line in seconds, and the clock that it is of."""

    at: float | None = None
    clock: LogClock = "utc"


class EngineLog(TextReader):
    """A reader of an engine's log; a format implements `_line` and `_engine_time`."""

    name: ClassVar[str]
    engine: ClassVar[str] = ""

    def __init__(self) -> None:
        self._server = ""  # whose line is read, as the collector names it
        self._skipped: dict[str, int] = {}  # lines of other engines, by format
        self._first: Line = Line(1, 0, b"")  # the first skipped line
        self._last: Line = Line(1, 0, b"")  # the latest line

    def read_line(self, line: Line) -> list[Read]:
        self._last = line
        if not line.data:
            reason = too_much(LineCutter.limit * self.line_limit_factor)
            return [problem(Code.LINE_TOO_LONG, f"line skipped: {reason}", line)]
        text = without_colours(line.data).rstrip(b"\r")
        self._server, text = split_name(text)
        if reads := self._placed(self._line(text, line)):
            return reads
        match = _ENGINES.search(text[:_BEGINNING])
        name = "" if match is None or match.lastgroup is None else match.lastgroup.replace("_", "-")
        if name and name != self.name:
            self._first = self._first if self._skipped else Line(line.number, line.byte, b"")
            self._skipped[name] = self._skipped.get(name, 0) + 1
        return []

    def _placed(self, values: Iterable[LogValue]) -> list[Read]:
        """Return values as reads of the latest line, measurements with the collector's name of their server."""
        return [
            placed(
                replace(value, server=self._server or value.server) if isinstance(value, Measurement) else value,
                self._last,
            )
            for value in values
        ]

    def _flush(self) -> list[Read]:
        counts = ", ".join(f"{count:,} of {name}" for name, count in sorted(self._skipped.items()))
        text = f"lines of other engines are skipped ({counts}): this file is read as {self.name}"
        return [problem(Code.ENGINES_MIXED, text, self._first)] if counts else []

    def _time(self, text: bytes) -> LogTime:
        """Return the time of a line: the collector's, else the engine's."""
        match = _COLLECTOR_TIME.match(text)
        at = None if match is None else parse_timestamp(match[1].decode())
        return self._engine_time(text) if at is None else LogTime(at)

    def _request(self, time: LogTime, name: str, prompt: int | None, cached: int | None) -> Iterator[Measurement]:
        """Yield the measurement of a request; nothing if its counts are incomplete or contradict each other."""
        if prompt is not None and cached is not None and 0 <= cached <= prompt:
            yield Measurement("request", self.engine, time.at, time.clock, name, 1, prompt, cached)

    def _engine_time(self, text: bytes) -> LogTime:
        raise NotImplementedError

    def _line(self, text: bytes, line: Line) -> Iterable[LogValue]:
        """Return what a line says; `text` is its bytes without colours and name."""
        raise NotImplementedError


def split_name(text: bytes) -> tuple[str, bytes]:
    """Return the name that a collector wrote before a line ("" if none), and the rest of the line."""
    match = _COLLECTOR_NAME.match(text)
    return ("", text) if match is None else ((match[1] or match[2]).decode("utf-8", "replace"), text[match.end() :])


def without_colours(text: bytes) -> bytes:
    """Return text without escape sequences for colours."""
    return _COLOUR.sub(b"", text) if b"\x1b" in text else text


def utc_seconds(digits: Sequence[bytes | str], fraction: bytes = b"") -> float | None:
    """Return year, month, day, hour, minute and second as seconds since 1970, as if in UTC; None if invalid.

    `fraction` holds the digits after the decimal point of the second.
    """
    try:
        year, month, day, hour, minute, second = map(int, digits)
        whole_seconds = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return whole_seconds + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)


def local_time(match: re.Match[bytes]) -> LogTime:
    """Return the time that a match has as year, month, day, hour, minute, second and fraction."""
    return LogTime(utc_seconds(match.groups()[:6], match[7] or b""), "local")


def count_in(digits: bytes | None) -> int | None:
    """Return a count of tokens, None if it is too large."""
    if digits is None or len(digits) > 16:
        return None
    count = int(digits)
    return count if count <= LARGEST_COUNT else None


def remember(table: dict[str, T], name: str, value: T) -> None:
    """Store a value under a name, and drop the oldest if there are too many."""
    table[name] = value
    if len(table) > MOST_REQUESTS:
        table.pop(next(iter(table)))
