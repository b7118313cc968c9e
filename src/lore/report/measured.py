"""Measurements of engines' caches: shown by the plug-in that read the engines' logs.

A plug-in publishes one object under the entry-point group `lore.measured`: it reads logs of engines for `lore simulate`
(`lore.run.simulation.EngineMeasures`), and shows their measurements (`MeasuredView`). Without one nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol

from lore.errors import LoreError
from lore.model.results.measured import MeasuredResult
from lore.plugins import entry_points
from lore.report.html.blocks import PageBlock

_GROUP = "lore.measured"


class MeasuredView(Protocol):
    """Shows measurements of engines, compared with predictions."""

    def lines(self, result: MeasuredResult, *, every: bool) -> Iterator[str]:
        """Yield lines for a terminal: each log's sums, then rows; of requests `every` one, else those that differ."""
        ...

    def block(self, result: MeasuredResult) -> PageBlock:
        """Return the same as a part of a page."""
        ...


@cache
def engine_measures() -> MeasuredView | None:
    """Return the object that a plug-in publishes for logs of engines; None without such a plug-in."""
    for point in entry_points(_GROUP):
        try:
            return point.load()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            message = f"the plug-in {point.name!r} ({_GROUP}) cannot be loaded: {error}"
            raise LoreError(message, hint=f"repair or remove {point.value}") from None
    return None
