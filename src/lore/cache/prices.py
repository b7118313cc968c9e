"""What tokens cost: the prices that hold for one request, in US dollars a million tokens.

Rules: sums are exact (`Decimal`); a count or a price that is not known makes the cost unknown, unless nothing
is counted at that price. What is written without a lifetime is paid at `write`, where a provider has no such
price at `write_5m`, its default.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from lore.model.events import Billed

MILLION = Decimal(1_000_000)
KINDS = ("uncached", "read", "write", "write_5m", "write_1h", "output", "storage_hour")


class Price(NamedTuple):
    """US dollars a million tokens, by kind; None where there is no such price or it is not known.

    `storage_hour` is for keeping a million tokens for an hour.
    """

    uncached: Decimal | None = None
    read: Decimal | None = None
    write: Decimal | None = None
    write_5m: Decimal | None = None
    write_1h: Decimal | None = None
    output: Decimal | None = None
    storage_hour: Decimal | None = None

    def cost(
        self,
        *,
        uncached: int | None,
        read: int | None,
        write: int | None = None,
        write_5m: int | None = None,
        write_1h: int | None = None,
        output: int | None,
    ) -> Decimal | None:
        """Return what these tokens cost in US dollars.

        `write` is all that was written, `write_5m` and `write_1h` are parts of it. Where nothing is said about
        writes they are free or none, if the provider charges none, and unknown otherwise.
        """
        parts = self._written(write, write_5m, write_1h)
        if parts is None:
            return None
        return _sum(((uncached, self.uncached), (read, self.read), *parts, (output, self.output)))

    def of(self, usage: Billed) -> Decimal | None:
        """Return what a billed request cost."""
        return self.cost(
            uncached=usage.uncached_tokens, read=usage.read_tokens, write=usage.write_tokens,
            write_5m=usage.write_5m_tokens, write_1h=usage.write_1h_tokens, output=usage.output_tokens,
        )  # fmt: skip

    def parts(self, usage: Billed) -> dict[str, Decimal]:
        """Return what a bill cost by kind of price; kinds whose count or price is not known are left out."""
        hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
        rest = max(0, (usage.write_tokens or 0) - hour - short)
        counts = {"uncached": usage.uncached_tokens, "read": usage.read_tokens, "write_1h": hour, "write_5m": short,
                  "write": rest, "output": usage.output_tokens}  # fmt: skip
        prices = self._replace(write=self.write if self.write is not None else self.write_5m)._asdict()
        known = {kind: count for kind, count in counts.items() if count and prices[kind] is not None}
        return {kind: count * prices[kind] / MILLION for kind, count in known.items()}

    def times(self, factors: dict[str, Decimal]) -> Price:
        """Return these prices, each kind multiplied by its factor."""
        return Price(*(
            None if price is None else price * factors.get(kind, Decimal(1))
            for kind, price in zip(KINDS, self, strict=True)
        ))  # fmt: skip

    @property
    def writes_are_charged(self) -> bool:
        """Whether there is a price of writing."""
        return any(price is not None for price in (self.write, self.write_5m, self.write_1h))

    def _written(self, write: int | None, five: int | None, hour: int | None) -> tuple[_Part, ...] | None:
        if write is None and (five is None or hour is None):
            if five is not None or hour is not None or self.writes_are_charged:
                return None
            return ()
        known = (five or 0) + (hour or 0)
        rest = 0 if write is None else write - known
        default = self.write if self.write is not None else self.write_5m
        return (five or 0, self.write_5m), (hour or 0, self.write_1h), (rest, default)


_Part = tuple[int | None, Decimal | None]


def _sum(parts: Iterable[_Part]) -> Decimal | None:
    total = Decimal(0)
    for count, price in parts:
        if count is None or count < 0:
            return None
        if count and price is None:
            return None
        total += count * (price or Decimal(0))
    return total / MILLION
