"""Lines of an engine's log: text as a server prints it, whatever collected it put before each line.

In: bytes, cut anywhere. Out: what a format makes of each line: measurements, requests, problems. Most lines say
nothing of the cache and are nothing: so a line that no pattern knows is no problem. Colours are taken out; a time that
the collector wrote first (`docker logs -t`, `kubectl logs --timestamps`, the CRI's own files) is in UTC and holds
before the engine's own, which has no zone. The name of a container or pod that it wrote tells servers apart. Lines that
measure another engine's cache are counted, and said at the end: a file is read as a log of one engine.

Sources of the collectors' forms: Docker's (`docker compose logs`: `NAME  | `) and Kubernetes' (`kubectl logs --prefix`:
`[pod/NAME/CONTAINER] `) references of `logs`, CRI's log format, 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Generic, NamedTuple, TypeVar

from msgspec import Struct

from lore.formats import Line, Read, TextReader, problem, too_much
from lore.model import Code, LogClock, parse_timestamp

LARGEST_COUNT = 10**15  # tokens: a counter above it is damaged
MOST_REQUESTS = 4096  # requests open at a time: a log that never closes any costs no more
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_RFC3339 = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_COLLECTED = re.compile(rb"[\w.-]*[ |]*(" + _RFC3339 + rb")[ \t]")


_NAMED = re.compile(rb"(\w[\w.-]{0,127}) {1,64}\| ?|\[pod/([\w./-]{1,253})\] ")
_BEGINNING = 512  # bytes of a line in which an engine says what it measures
# Lines that measure a cache, by the format that reads them.
_ENGINES = re.compile(
    rb"(?P<vllm_log>(?:Avg prompt throughput|LMCache hit tokens): )|(?P<sglang_log>\] (?:Prefill batch|Finish: obj=))"
    rb"|(?P<llama_log>\bslot +\w+: +id +\d+ \| task )|(?P<engine_metrics>^(?:vllm|sglang|llamacpp|lmcache):[a-z_]+[{ ])"
)

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class LogTime(NamedTuple):
    """A line's time in seconds, and where it counts from."""

    at: float | None = None
    clock: LogClock = "utc"


class EngineLog(TextReader, Generic[S]):
    """A reader of an engine's log; a format says in `_line` what one holds, in `_own_time` when it was written.

    `_kept` is what it remembers from line to line, of the type `remembers`; `_server` whose line it is, as its
    collector names it: empty where it does not.
    """

    name: ClassVar[str]
    remembers: ClassVar[type[Struct]]

    def __init__(self) -> None:
        super().__init__()
        self._kept: S = self.remembers()  # pyright: ignore[reportAttributeAccessIssue]
        self._server = ""
        self._passed: dict[str, int] = {}
        self._first: Line = Line(1, 0, b"")  # that was passed over

    def _read(self, lines: Iterable[Line], *, torn: bool = False) -> list[Read]:
        return [read for line in lines for read in self._reads(line)]

    def _reads(self, line: Line) -> list[Read]:
        if not line.data:
            return [problem(Code.LINE_TOO_LONG, f"line passed over: {too_much(self._lines.most)}", line)]
        text = plain(line.data).rstrip(b"\r")
        self._server, text = named(text)
        if found := self._line(text, line):
            return found
        other = _ENGINES.search(text[:_BEGINNING])
        name = "" if other is None or other.lastgroup is None else other.lastgroup.replace("_", "-")
        if name and name != self.name:
            self._first = self._first if self._passed else Line(line.number, line.byte, b"")
            self._passed[name] = self._passed.get(name, 0) + 1
        return []

    def _rest(self) -> list[Read]:
        counts = ", ".join(f"{count:,} of {name}" for name, count in sorted(self._passed.items()))
        passed = f"lines of other engines are passed over ({counts}): this file is read as {self.name}"
        return [problem(Code.ENGINES_MIXED, passed, self._first)] if counts else []

    def _time(self, text: bytes) -> LogTime:
        """Return when a line was written: by who collected it, else by the engine."""
        match = _COLLECTED.match(text)
        at = None if match is None else parse_timestamp(match[1].decode())
        return self._own_time(text) if at is None else LogTime(at)

    def _own_time(self, text: bytes) -> LogTime:
        raise NotImplementedError

    def _line(self, text: bytes, line: Line) -> list[Read]:
        """Return what a line says; `text` is its bytes without colours."""
        raise NotImplementedError


def named(text: bytes) -> tuple[str, bytes]:
    """Return the name that a collector wrote before a line, empty where there is none, and the line without it."""
    match = _NAMED.match(text)
    return ("", text) if match is None else ((match[1] or match[2]).decode("utf-8", "replace"), text[match.end() :])


def plain(text: bytes) -> bytes:
    """Return text without its colours."""
    return _COLOUR.sub(b"", text) if b"\x1b" in text else text


def moment(digits: Sequence[bytes | str], fraction: bytes = b"") -> float | None:
    """Return year, month, day, hour, minute and second as seconds since 1970, taken for UTC; None where there is none.

    `fraction` are the digits behind the second's point.
    """
    try:
        year, month, day, hour, minute, second = map(int, digits)
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return whole + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)


def count_in(digits: bytes | None) -> int | None:
    """Read a count of tokens; None where it is none that can be."""
    if digits is None or len(digits) > 16:
        return None
    found = int(digits)
    return found if found <= LARGEST_COUNT else None


def remember(known: dict[str, T], name: str, value: T) -> None:
    """Keep a value under a name, the oldest let go where there are too many."""
    known[name] = value
    if len(known) > MOST_REQUESTS:
        known.pop(next(iter(known)))
