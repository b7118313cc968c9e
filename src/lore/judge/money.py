"""What a turn's tokens cost by dated prices, and what paying some of them again cost instead of reading them.

Sums of money are in US dollars; what has no price is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from lore.cache.bills import MILLION, Price
from lore.cache.rules import Rules, is_transcript, served_by
from lore.judge.bills import prompt_tokens
from lore.model.events import Billed
from lore.model.turn import Turn

CURRENCY = "USD"


def exact(part: float | None) -> Decimal:
    """Return a sum as it is written; 0 where it is not known."""
    return Decimal(0) if part is None else Decimal(repr(part))


def summed(parts: Iterable[float | None]) -> float | None:
    """Add what is known; None where nothing is."""
    known = [exact(part) for part in parts if part is not None]
    return float(round(sum(known, start=Decimal(0)), 6)) if known else None


# What a request can ask for at another price, by parameter and value. A transcript does not hold parameters.
_EXTRAS = (
    ("speed", b'"fast"', "fast"), ("service_tier", b'"priority"', "fast"), ("service_tier", b'"fast"', "fast"),
    ("service_tier", b'"flex"', "flex"), ("inference_geo", b'"us"', "us"),
)  # fmt: skip


def price_of(rules: Rules, turn: Turn, *, model: str | None = None, size: int | None = None) -> Price | None:
    """Return the prices of a turn's tokens, those of another `model` where one is given; None where nobody knows them.

    `size` is how many tokens the prompt has where no bill says it.
    """
    where, usage = served_by(turn), turn.usage
    if usage is not None:
        size = None if usage.uncached_tokens is None else prompt_tokens(usage)
    params = None if is_transcript(turn) else turn.prompt.params
    return rules.price(
        where.provider, model or turn.model, where.platform, turn.at, prompt_tokens=size,
        extras=() if not params else tuple([extra for name, value, extra in _EXTRAS if params.get(name) == value]),
    )  # fmt: skip


def within_bill(usage: Billed | None, tokens: int) -> int:
    """Count what was paid again: a prompt that shrank was not billed for all that it lost."""
    if usage is None or usage.uncached_tokens is None:
        return tokens
    return min(tokens, max(0, prompt_tokens(usage) - (usage.read_tokens or 0)))


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
