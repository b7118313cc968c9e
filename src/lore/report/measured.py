"""Measurements of engines' caches, read and shown by a plug-in."""

from __future__ import annotations

from functools import cache
from typing import Any

from lore.errors import LoreError
from lore.plugins import entry_points

_GROUP = "lore.measured"


@cache
def engine_measures() -> Any:
    """Return the object that a plug-in publishes under `lore.measured` for logs of engines; None without a plug-in.

    Its methods:
    - `read(paths, files, options, problems)`: the logs at these paths; `files` are simulated. Raises LoreError for a
      file that measures nothing. The logs have `cache` (the cache of all of them, else None) and `play()`, which begins
      the comparison with one simulation: its `follow(recording, played)` yields the played turns of a recording
      unchanged, its `result()` returns the `MeasuredResult`, or UNSET without logs.
    - `lines(result, every=...)`: lines for a terminal; of requests every one, else those that differ.
    - `block(result)`: the same as a `PageBlock`.
    """
    for point in entry_points(_GROUP):
        try:
            return point.load()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            message = f"the plug-in {point.name!r} ({_GROUP}) cannot be loaded: {error}"
            raise LoreError(message, hint=f"repair or remove {point.value}") from None
    return None
