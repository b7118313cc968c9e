"""Work that is counted: how many functions a call calls. The same on every machine, whatever else runs there."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


def calls(run: Callable[[], object]) -> int:
    """Count the functions that are called, Python's and those of extensions; what one of C does inside is one call.

    Garbage is not collected meanwhile: when that happens depends on what ran before, and who listens to it is called.
    """
    count, before, collected = 0, sys.getprofile(), gc.isenabled()

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(before)
        if collected:
            gc.enable()
    return count
