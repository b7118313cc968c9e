"""Times as recorders write them: RFC 3339 text, or a number since the epoch in any unit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from lore.model.canonical import decode

# Larger than the first, a number counts milliseconds, then microseconds, then nanoseconds.
_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))


def seconds(raw: bytes) -> float | None:
    """Read a time as seconds since the epoch; None where it is none. `[seconds, nanoseconds]` is one, too."""
    try:
        value = decode(raw)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, RecursionError):
        return None
    if isinstance(value, list) and len(cast("list[object]", value)) == 2:
        whole, part = cast("list[object]", value)
        if isinstance(whole, int) and isinstance(part, int) and 0 <= part < 10**9:
            return _scaled(whole + part / 1e9)
    return _scaled(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _scaled(value: float) -> float | None:
    return next((value / unit for limit, unit in _UNITS if 0 < value < limit), None)
