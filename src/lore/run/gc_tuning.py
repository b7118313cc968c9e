"""Let the garbage collector rest while a recording is judged.

What judging makes lives as long as its session and holds no cycles: looking for some again and again costs
a fifth of the time (measured on 10,000 turns) and finds none. Restored afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

SELDOM = (200_000, 50, 1_000)


@contextmanager
def collected_seldom() -> Generator[None]:
    """Raise the collector's thresholds for a while; not meant for several threads at once."""
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
