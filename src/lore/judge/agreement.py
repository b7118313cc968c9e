"""How far predictions agree with bills, beside the rule that needs no model: `read(n-1) + write(n-1)`.

In: one row a transition (two turns of a chain that were both billed). Out: the figures of `lore simulate`. Rules:
a copy of a turn (a fork repeats its responses) counts once; a prediction that says nothing is compared as the
naive rule would be, so that silence never pays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lore.cache.levels import DROP

SHARE = 0.02


class Row(NamedTuple):
    """One transition, in tokens read: as billed, as predicted (None: nothing was said), as the naive rule says."""

    billed: int
    predicted: int | None
    naive: int

    @property
    def fell(self) -> bool:
        """Whether the bill shows a drop."""
        return self.billed < self.naive - DROP

    @property
    def foreseen(self) -> bool:
        """Whether a drop was predicted."""
        return self.predicted is not None and self.predicted < self.naive - DROP


class Agreement(NamedTuple):
    """Counts of transitions and sums of absolute differences, in tokens; sums of two are the two together."""

    turns: int = 0
    exact: int = 0
    within: int = 0
    error: int = 0
    naive_exact: int = 0
    naive_within: int = 0
    naive_error: int = 0
    drops: int = 0
    foreseen: int = 0
    false_drops: int = 0

    def plus(self, other: Agreement) -> Agreement:
        """Return the figures of both."""
        return Agreement(*map(sum, zip(self, other, strict=True)))

    @property
    def mean_error(self) -> float | None:
        """The mean absolute error; None where there was no transition."""
        return self.error / self.turns if self.turns else None

    @property
    def naive_mean_error(self) -> float | None:
        """That of the naive rule."""
        return self.naive_error / self.turns if self.turns else None


def agreement(rows: Iterable[Row]) -> Agreement:
    """Compare rows with their bills."""
    found = Agreement()
    for row in rows:
        off = abs((row.naive if row.predicted is None else row.predicted) - row.billed)
        bare = abs(row.naive - row.billed)
        found = found.plus(
            Agreement(
                1, off == 0, off <= SHARE * row.billed, off, bare == 0, bare <= SHARE * row.billed, bare,
                row.fell, row.fell and row.foreseen, row.foreseen and not row.fell,
            )
        )  # fmt: skip
    return found
