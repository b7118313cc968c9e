"""Format a given time with English names, whatever the locale and the time zone of the process are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from lore.errors import LoreError

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_NUMBERS: dict[str, tuple[Callable[[datetime], int], int]] = {
    "Y": (lambda now: now.year, 4),
    "y": (lambda now: now.year % 100, 2),
    "m": (lambda now: now.month, 2),
    "d": (lambda now: now.day, 2),
    "H": (lambda now: now.hour, 2),
    "I": (lambda now: (now.hour + 11) % 12 + 1, 2),
    "M": (lambda now: now.minute, 2),
    "S": (lambda now: now.second, 2),
    "f": (lambda now: now.microsecond, 6),
    "j": (lambda now: now.timetuple().tm_yday, 3),
    "u": (lambda now: now.isoweekday(), 1),
    "w": (lambda now: now.isoweekday() % 7, 1),
    "s": (lambda now: int(now.timestamp()), 1),
}
_TEXTS: dict[str, Callable[[datetime], str]] = {
    "A": lambda now: _DAYS[now.weekday()],
    "a": lambda now: _DAYS[now.weekday()][:3],
    "B": lambda now: _MONTHS[now.month - 1],
    "b": lambda now: _MONTHS[now.month - 1][:3],
    "h": lambda now: _MONTHS[now.month - 1][:3],
    "p": lambda now: "AM" if now.hour < 12 else "PM",
    "Z": lambda now: "UTC",
    "z": lambda now: "+0000",
    "n": lambda now: "\n",
    "t": lambda now: "\t",
    "%": lambda now: "%",
}
_LONG = {
    "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "x": "%m/%d/%y", "X": "%H:%M:%S",
    "c": "%a %b %e %H:%M:%S %Y",
}  # fmt: skip
_DIRECTIVE = re.compile(r"%(-?)(.)", re.DOTALL)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(text: str | None) -> datetime:
    """Read a date or an RFC 3339 time, as UTC; 1970-01-01 where there is none. Raises LoreError."""
    if text is None:
        return EPOCH
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise LoreError(f"{text[:40]!r} is no time", hint="write it like 2026-08-01T12:00:00Z") from None


def strftime(now: datetime, format: str) -> str:
    """Format a time; raises ValueError for a directive that is not known."""
    return _DIRECTIVE.sub(lambda found: _directive(now, found[1], found[2]), format)


def _directive(now: datetime, bare: str, name: str) -> str:
    if name == "e":
        return str(now.day) if bare else f"{now.day:2}"
    if name in _NUMBERS:
        number, width = _NUMBERS[name]
        return str(number(now)).zfill(0 if bare else width)
    if name in _TEXTS:
        return _TEXTS[name](now)
    if name in _LONG:
        return strftime(now, _LONG[name])
    raise ValueError(f"strftime_now does not know %{name}")
