"""Times as recorders write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lore.model.canonical import decode


def seconds(raw: bytes) -> float | None:
    """Read a time: seconds or milliseconds since the epoch, or RFC 3339 text; None where it is neither."""
    try:
        value = decode(raw)
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
            return value / 1000 if value > 1e11 else float(value)
    except (ValueError, OverflowError):
        return None
    return None


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
