"""Lines of an engine's log: text as a server prints it, whatever collected it put before each line.

In: bytes, cut anywhere. Out: what a format makes of each line: measurements, requests, problems. Most lines say
nothing of the cache and are nothing: so a line that no pattern knows is no problem. Colours are taken out; a time that
the collector wrote first (`docker logs -t`, `kubectl logs --timestamps`, the CRI's own files) is in UTC and holds
before the engine's own, which has no zone.

Sources of the collectors' forms: Docker's and Kubernetes' references of `logs`, CRI's log format, 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from lore.formats.base import Read
from lore.formats.lines import Line, TextReader, problem, too_much
from lore.model.codes import Code
from lore.model.measured import LogClock
from lore.model.turn import seconds

LARGEST_COUNT = 10**15  # tokens: a counter above it is damaged
MOST_REQUESTS = 4096  # that are open at a time: a log that never closes any costs no more
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_RFC3339 = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_COLLECTED = re.compile(rb"[\w.-]*[ |]*(" + _RFC3339 + rb")[ \t]")


T = TypeVar("T")


class LogTime(NamedTuple):
    """A line's time in seconds, and where it counts from."""

    at: float | None = None
    clock: LogClock = "utc"


class EngineLog(TextReader):
    """A reader of an engine's log; a format says in `_line` what one holds, in `_own_time` when it was written."""

    def _read(self, lines: Iterable[Line], *, torn: bool = False) -> list[Read]:
        return [read for line in lines for read in self._reads(line)]

    def _reads(self, line: Line) -> list[Read]:
        if not line.data:
            return [problem(Code.LINE_TOO_LONG, f"line passed over: {too_much(self._lines.most)}", line)]
        return self._line(plain(line.data).rstrip(b"\r"), line)

    def _time(self, text: bytes) -> LogTime:
        """Return when a line was written: by who collected it, else by the engine."""
        match = _COLLECTED.match(text)
        at = None if match is None else seconds(match[1].decode())
        return self._own_time(text) if at is None else LogTime(at)

    def _own_time(self, text: bytes) -> LogTime:
        raise NotImplementedError

    def _line(self, text: bytes, line: Line) -> list[Read]:
        """Return what a line says; `text` is its bytes without colours."""
        raise NotImplementedError


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
