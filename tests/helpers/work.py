"""Work that is counted: how many functions a call calls. The same on every machine, whatever else runs there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(run: Callable[[], object]) -> int:
    """Count the functions that are called, Python's and those of extensions; what one of C does inside is one call."""
    count, before = 0, sys.getprofile()

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
