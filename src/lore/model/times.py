"""Times as recorders write them, to and from seconds since the epoch. Other values give None."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import cast

from lore.model.canonical import decode

_CACHED_TIMES = 1_024
_TIME_BYTES = 64  # longer text is not a time
# Upper bounds of numbers that count seconds, milliseconds, microseconds and nanoseconds; units in a second.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


def format_timestamp(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as logs write it: RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_timestamp(time: str | float | None) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None for other text.

    A time without a zone is in UTC. Numbers and None are returned as they are.
    """
    return _parse_text(time) if isinstance(time, str) else time


@lru_cache(_CACHED_TIMES)
def _parse_text(time: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(time)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):  # OverflowError: beyond year 9999 in UTC
        return None


def decode_time(raw: bytes) -> float | None:
    """Return a recorder's time, JSON, in seconds since the epoch.

    Reads RFC 3339 text, an HTTP date, a number in any unit since the epoch, and `[seconds, nanoseconds]`. None for
    anything else, also for 0, numbers below it, and more than 64 bytes.
    """
    if not 0 < len(raw) <= _TIME_BYTES or raw == b"null":
        return None
    try:
        value = decode(raw)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, str):
        seconds = parse_http_date(value)
        return _parse_text(value) if seconds is None else seconds
    if isinstance(value, list) and len(cast("list[object]", value)) == 2:
        whole, part = cast("list[object]", value)
        if isinstance(whole, int) and isinstance(part, int) and 0 <= part < 10**9:
            value = whole + part / 1e9
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return next((value / unit for limit, unit in _UNITS if 0 < value < limit), None)


def parse_http_date(text: str) -> float | None:
    """Return the time of an HTTP date (it ends in ` GMT`) in seconds since the epoch; None for other text."""
    if not text.strip().endswith(" GMT"):
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few recorders write such dates

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
