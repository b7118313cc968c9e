"""Sums over the turns of a session: prompts in tokens, bills, money by kind of price.

Rules: money is exact until it is shown; what is unknown of a turn is left out of its sum, and counted by who adds.
"""

from __future__ import annotations

from decimal import Decimal

from lore.cache.prices import Price
from lore.compaction.prices import dollars
from lore.model.compacted import CompactedSide, Figures
from lore.model.events import Billed
from lore.model.results import BilledResult

_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class Ledger:
    """The sums of one side."""

    def __init__(self) -> None:
        self.prompts = self.largest = 0
        self.cost: Decimal | None = None
        self._counts: dict[str, int | None] = dict.fromkeys(_COUNTS)
        self._parts: dict[str, Decimal] = {}

    def size(self, tokens: int) -> None:
        """Take the length of a turn's prompt."""
        self.prompts += tokens
        self.largest = max(self.largest, tokens)

    def bill(self, bill: Billed, cost: Decimal | None, price: Price | None) -> None:
        """Take a turn's bill, and what it costs."""
        for name in _COUNTS:
            count = getattr(bill, name)
            if count is not None:
                self._counts[name] = (self._counts[name] or 0) + count
        if cost is not None and price is not None:
            self.cost = cost + (self.cost or 0)
            for kind, paid in price.parts(bill).items():
                self._parts[kind] = self._parts.get(kind, Decimal(0)) + paid

    def side(self, figures: Figures) -> CompactedSide:
        """Return the sums."""
        return CompactedSide(
            figures=figures, prompt_tokens=self.prompts, largest_tokens=self.largest,
            billed=BilledResult(*(self._counts[name] for name in _COUNTS)), cost=dollars(self.cost),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._parts.items())},
        )  # fmt: skip
