"""What bills say and what they cost: whether one can be believed, the positions that it tells, its price in US dollars.

Rules: what is not billed is unknown; a request has at least one token; lifetimes add up to what was written.
Read + write is the position of the last breakpoint; where writes are not billed at all, everything that was sent
stands in the cache. Sums of money are exact (`Decimal`); a count or a price that is not known makes the cost unknown,
unless nothing is counted at that price. What is written without a lifetime is paid at `write`, where a provider has
no such price at `write_5m`, its default.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from lore.model.events import Billed

MOST_TOKENS = 20_000_000  # no prompt is longer
MILLION = Decimal(1_000_000)
KINDS = ("uncached", "read", "write", "write_5m", "write_1h", "output")


def unbelievable(usage: Billed) -> str:
    """Say why a bill cannot be; empty where it can."""
    counts = usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.write_5m_tokens, usage.write_1h_tokens
    known = [count for count in counts if count is not None]
    if known and not 0 <= min(known) <= max(known) <= MOST_TOKENS:
        return "a count below zero" if min(known) < 0 else f"a count over {MOST_TOKENS:,}"
    if known and not any(known):
        return "a prompt of no tokens"
    parts = (usage.write_5m_tokens or 0) + (usage.write_1h_tokens or 0)
    if usage.write_tokens is not None and parts and parts != usage.write_tokens:
        return f"{parts:,} tokens written by lifetime, {usage.write_tokens:,} in all"
    return ""


def position(usage: Billed) -> int | None:
    """Return the position of the request's last breakpoint; None where the bill does not say."""
    if usage.read_tokens is None:
        return None
    return usage.read_tokens + (usage.uncached_tokens or 0 if usage.write_tokens is None else usage.write_tokens)


def total(usage: Billed) -> int | None:
    """Return the tokens of the whole prompt; None where the bill does not say."""
    if usage.read_tokens is None or usage.uncached_tokens is None:
        return None
    return usage.read_tokens + (usage.write_tokens or 0) + usage.uncached_tokens


class Price(NamedTuple):
    """US dollars a million tokens, by kind; None where there is no such price or it is not known."""

    uncached: Decimal | None = None
    read: Decimal | None = None
    write: Decimal | None = None
    write_5m: Decimal | None = None
    write_1h: Decimal | None = None
    output: Decimal | None = None

    def of(self, usage: Billed) -> Decimal | None:
        """Return what a request costs in US dollars.

        `write_tokens` is all that was written, those of a lifetime are parts of it. Where nothing is said about
        writes they are free or none, if the provider charges none, and unknown otherwise.
        """
        write, short, hour = usage.write_tokens, usage.write_5m_tokens, usage.write_1h_tokens
        if write is None and (short is None or hour is None):
            if short is not None or hour is not None or self.writes_are_charged:
                return None
            write = 0
        short, hour = short or 0, hour or 0
        counts = (
            (usage.uncached_tokens, self.uncached), (usage.read_tokens, self.read), (short, self.write_5m),
            (hour, self.write_1h), (0 if write is None else write - short - hour, self._write),
            (usage.output_tokens, self.output),
        )  # fmt: skip
        paid = Decimal(0)
        for count, price in counts:
            if count is None or count < 0 or (count and price is None):
                return None
            paid += count * (price or 0)
        return paid / MILLION

    def parts(self, usage: Billed) -> dict[str, Decimal]:
        """Return what a bill cost by kind of price; kinds whose count or price is not known are left out."""
        hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
        counts = {
            "uncached": usage.uncached_tokens, "read": usage.read_tokens, "write_1h": hour, "write_5m": short,
            "write": max(0, (usage.write_tokens or 0) - hour - short), "output": usage.output_tokens,
        }  # fmt: skip
        prices = self._replace(write=self._write)._asdict()
        known = {kind: count for kind, count in counts.items() if count and prices[kind] is not None}
        return {kind: count * prices[kind] / MILLION for kind, count in known.items()}

    @property
    def writes_are_charged(self) -> bool:
        """Whether there is a price of writing."""
        return any(price is not None for price in (self.write, self.write_5m, self.write_1h))

    @property
    def _write(self) -> Decimal | None:
        """The price of what is written without a lifetime."""
        return self.write if self.write is not None else self.write_5m
