"""The time of a save, as stores keep it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], str]


def now() -> str:
    """Return the time in UTC, to the millisecond, as RFC 3339."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
