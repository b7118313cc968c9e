"""Times as recorders write them: RFC 3339 text, a Date header's, or a number since the epoch in any unit."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import cast

from lore.model.canonical import decode

# Larger than the first, a number counts milliseconds, then microseconds, then nanoseconds.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
_LONGEST = 64  # bytes of a time


def seconds(raw: bytes) -> float | None:
    """Read a time as seconds since the epoch; None where it is none. `[seconds, nanoseconds]` is one, too."""
    try:
        value = decode(raw) if 0 < len(raw) <= _LONGEST else None
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, str):
            found = http_seconds(value)
            parsed = datetime.fromisoformat(value) if found is None else None
            return parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp() if parsed else found
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


def http_seconds(text: str) -> float | None:
    """Read the time of a Date header; None where it is another form."""
    match = _HTTP.match(text.strip())
    if match is None or match[2] not in _MONTHS:
        return None
    day, year, *clock = (int(match[place]) for place in (1, 3, 4, 5, 6))
    try:
        return datetime(year, _MONTHS.index(match[2]) + 1, day, *clock, tzinfo=UTC).timestamp()
    except ValueError:
        return None
