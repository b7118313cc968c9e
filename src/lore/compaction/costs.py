"""Compute what compacting costs and saves, in US dollars; an amount is exact, and None if it is unknown.

The model: the cached part of a prompt is read, the rest is written. Compacting keeps the head (tools, system prompt)
and writes the rest again; after the lifetime of the cache everything is written in either case. Output and what the
next requests add cost the same in both cases, and are left out.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from msgspec import Raw

from lore.cache.counts import FIVE_MINUTES, ONE_HOUR
from lore.cache.rules import DatedRules, Price, bill_price
from lore.cache.served import served
from lore.compaction.settings import Compaction
from lore.model.events import Usage
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import raw_members
from lore.model.providers import provider_of
from lore.model.results.compact import CompactionCost

FREE = Decimal(0)
LEAST_RATE, MOST_RATE = 0.25, 4.0  # billed tokens for each estimated one that are plausible


class PromptSizes(NamedTuple):
    """The tokens of a prompt around a compaction."""

    before: int
    after: int
    head: int = 0  # what both begin with; all of it if nothing was pruned


class CacheCosts(NamedTuple):
    """What the tokens of a session's cache cost, and how long an entry lives."""

    price: Price | None
    lifetime: float | None = None  # seconds; None: unknown

    def is_warm(self, pause: float | None) -> bool | None:
        """Return whether the cache is still read after a pause in seconds; None if that is unknown."""
        return None if pause is None or self.lifetime is None else pause <= self.lifetime

    def cost(self, read: int, write: int) -> Decimal | None:
        """Return the cost of reading and writing these tokens; writes that are not charged cost as uncached input."""
        price = self.price
        if price is None:
            return None
        if not price.has_write_price:
            return price.of(Usage(write, read, None, 0))
        hour = write if self.lifetime is not None and self.lifetime >= ONE_HOUR else None
        return price.of(Usage(0, read, write, 0, None, hour))


class TokenScale(NamedTuple):
    """How billed tokens relate to estimated ones. Windows are compared with estimates."""

    head: int = 0  # billed tokens of a prompt before its timeline
    rate: float = 1.0  # billed tokens for each estimated token of the timeline

    @classmethod
    def of(cls, billed: int, estimate: int, head: int | None = None) -> TokenScale:
        """Return the scale of a prompt of `billed` tokens; `head` if it is known from earlier prompts."""
        head = max(0, billed - estimate) if head is None else min(head, billed)
        return cls(head, min(MOST_RATE, max(LEAST_RATE, (billed - head) / estimate)) if estimate else 1.0)

    def prompt(self, estimate: int) -> int:
        """Return the tokens of a prompt whose timeline is estimated at `estimate`."""
        return self.head + round(estimate * self.rate)

    def estimated(self, tokens: int) -> int:
        """Return billed tokens in the unit of estimates."""
        return round(tokens / self.rate)


def next_saving(sizes: PromptSizes, costs: CacheCosts, *, warm: bool) -> Decimal | None:
    """Return how much less the next request costs if the session is compacted now."""
    read, kept = (sizes.before, min(sizes)) if warm else (0, 0)
    return difference(costs.cost(read, sizes.before - read), costs.cost(kept, sizes.after - kept))


def difference(amount: Decimal | None, other: Decimal | None) -> Decimal | None:
    """Return how much an amount is larger than another; None if one is unknown."""
    return None if amount is None or other is None else amount - other


def requests_until_paid(first: Decimal | None, later: Decimal | None) -> int | None:
    """Return after how many requests a compaction has cost no more than not compacting; None: never, or unknown.

    `first` is what the next request saves without the price of the summary, `later` what each one after it saves.
    """
    if first is None or later is None:
        return None
    if first >= 0:
        return 1
    return None if later <= 0 else 1 + int((-first / later).to_integral_value(ROUND_CEILING))


def summary_price(rules: DatedRules, settings: Compaction, read: int, at: float | None) -> Decimal | None:
    """Return the price of the configured summariser for reading `read` tokens; None if it is unknown."""
    if settings.summarizer == "extractive" or not read:
        return FREE
    if settings.summarizer == "command":
        return None
    host = settings.endpoint.partition("://")[2] or settings.endpoint
    provider = provider_of(host, settings.model, "openai-chat")
    price = rules.price(provider, settings.model, "", at, prompt_tokens=read)
    return None if price is None else price.of(Usage(read, 0, 0, settings.summary_tokens))


def add_amounts(*amounts: Decimal | None) -> Decimal | None:
    """Return the sum of amounts; None if one is unknown."""
    known_amounts = [amount for amount in amounts if amount is not None]
    return sum(known_amounts, start=FREE) if len(known_amounts) == len(amounts) else None


def dollars(amount: Decimal | None) -> float | None:
    """Return an amount in the form of results, rounded to millionths."""
    return None if amount is None else float(round(amount, 6))


def cache_costs(
    rules: DatedRules, model: str | None, at: float | None, size: int, dialect: str = "", *, usage: Usage | None = None,
    params: Raw = NULL, lifetime: float | None = None,
) -> CacheCosts:  # fmt: skip
    """Return the costs of a prompt of `size` tokens by dated rules; `lifetime` was billed, else the rules' one holds.

    A `usage`, otherwise the session's `params`, name the service tier.
    """
    where = served("", model, dialect)
    request_params = {} if is_absent(params) else raw_members(bytes(params))
    price = bill_price(rules, where, model, at, usage, size=size, params=request_params)
    if lifetime is None:
        listed = rules.number("lifetime", where.provider, model, where.platform, at)
        lifetime = None if listed is None else float(listed)
    return CacheCosts(price, lifetime)


def billed_lifetime(usage: Usage | None) -> float | None:
    """Return the lifetime for which a usage was charged; None if it names none."""
    if usage is None or not (usage.write_1h_tokens or usage.write_5m_tokens):
        return None
    return ONE_HOUR if usage.write_1h_tokens else FIVE_MINUTES


def compaction_cost(
    sizes: PromptSizes, costs: CacheCosts, summary: Decimal | None, *, warm: bool | None
) -> CompactionCost:
    """Return what a compaction costs and saves in the next requests."""
    hot, cold = (next_saving(sizes, costs, warm=is_warm) for is_warm in (True, False))
    later = difference(costs.cost(sizes.before, 0), costs.cost(sizes.after, 0))  # a request reads a shorter prompt
    after_summary = difference(hot if warm else cold, summary)
    return CompactionCost(
        warm=warm, next_warm=None if hot is None else dollars(-hot), next_cold=None if cold is None else dollars(-cold),
        later=dollars(later), pays_after=None if warm is None else requests_until_paid(after_summary, later),
        summary=dollars(summary),
    )  # fmt: skip
