"""Sums of money, and what tokens cost that were paid again though they should have been read: prices are handed in."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from lore.cache.bills import MILLION, Price
from lore.model.events import Billed

CURRENCY = "USD"


def exact(part: float | None) -> Decimal:
    """Return a sum as it is written; 0 where it is not known."""
    return Decimal(0) if part is None else Decimal(repr(part))


def summed(parts: Iterable[float | None]) -> float | None:
    """Add what is known; None where nothing is."""
    known = [exact(part) for part in parts if part is not None]
    return float(round(sum(known, start=Decimal(0)), 6)) if known else None


def paid_again(price: Price, usage: Billed | None, tokens: int | None) -> float | None:
    """Return what tokens cost beyond their price when read, in the price's currency; None where a price is not known.

    Those that were written count first (for an hour, then for five minutes), the rest as uncached.
    """
    if tokens is None or usage is None or price.uncached is None:
        return None
    if not tokens:
        return 0.0
    if price.read is None:
        return None
    hour = min(tokens, usage.write_1h_tokens or 0)
    short = min(tokens - hour, max(0, (usage.write_tokens or 0) - (usage.write_1h_tokens or 0)))
    read, parts = price.read, (
        (hour, price.write_1h), (short, price.write_5m if price.write_5m is not None else price.write),
        (tokens - hour - short, price.uncached),
    )  # fmt: skip
    paid = sum(
        (count * ((each if each is not None else price.uncached) - read) for count, each in parts), start=0 * read
    )
    return float(paid / MILLION)
