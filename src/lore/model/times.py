"""Times as recorders write them, to and from seconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import cast

from lore.model.canonical import decode


def parse_timestamp(time: str | float | None) -> float | None:
    """Read an RFC 3339 time as seconds since the epoch; None where it is none."""
    return _parsed(time) if isinstance(time, str) else time


def format_timestamp(seconds: float) -> str:
    """Write a time, in seconds since the epoch, as logs do: RFC 3339, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_MOST_TIMES = 1_024  # times remembered as they were parsed


@lru_cache(_MOST_TIMES)
def _parsed(time: str) -> float | None:
    try:
        return _instant(time)
    except (ValueError, OverflowError):
        return None


def _instant(time: str) -> float:
    """Read RFC 3339; raises ValueError where it is none, OverflowError for a time that no calendar holds in UTC."""
    parsed = datetime.fromisoformat(time)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC).timestamp()


# Larger than the first, a number counts milliseconds, then microseconds, then nanoseconds.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
_LONGEST_TIME = 64  # bytes of a time


def decode_time(raw: bytes) -> float | None:
    """Read a recorder's time as seconds since the epoch; None where it is none.

    It is RFC 3339 text, a Date header's, a number since the epoch in any unit, or `[seconds, nanoseconds]`.
    """
    if not 0 < len(raw) <= _LONGEST_TIME or raw == b"null":
        return None
    try:
        value = decode(raw)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, str):
            found = parse_http_date(value)
            return _instant(value) if found is None else found
    except (ValueError, OverflowError, RecursionError):
        return None
    if isinstance(value, list) and len(cast("list[object]", value)) == 2:
        whole, part = cast("list[object]", value)
        if isinstance(whole, int) and isinstance(part, int) and 0 <= part < 10**9:
            return _scaled(whole + part / 1e9)
    return _scaled(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _scaled(value: float) -> float | None:
    return next((value / unit for limit, unit in _UNITS if 0 < value < limit), None)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HTTP = re.compile(r"\w{3}, (\d{2}) (\w{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$", re.ASCII)


def parse_http_date(text: str) -> float | None:
    """Read the time of a Date header; None where it is another form."""
    match = _HTTP.match(text.strip())
    if match is None or match[2] not in _MONTHS:
        return None
    day, year, *clock = (int(match[place]) for place in (1, 3, 4, 5, 6))
    try:
        return datetime(year, _MONTHS.index(match[2]) + 1, day, *clock, tzinfo=UTC).timestamp()
    except ValueError:
        return None
