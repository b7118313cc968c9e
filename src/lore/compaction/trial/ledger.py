"""Sums over the turns of a session: prompts in tokens, bills, money by kind of price; and the prices that hold.

Rules: money is exact until it is shown; what is unknown of a turn is left out of its sum, and counted by who adds.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from lore.cache.lifetime import FIVE_MINUTES, ONE_HOUR
from lore.cache.prices import MILLION, Price
from lore.cache.rules import Rules
from lore.cache.served import served
from lore.compaction.costs import FREE, Cache, PromptSizes, pays_after, summary_cost, weigh
from lore.compaction.settings import Compaction
from lore.model.compacted import CompactedSide, CompactionCost, Figures
from lore.model.events import Billed
from lore.model.providers import provider_of
from lore.model.results import BilledResult

_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class ModelCall(NamedTuple):
    """Whose model a turn asked for, in which dialect, and when."""

    model: str | None
    dialect: str
    at: float | None


def summary_price(rules: Rules, settings: Compaction, read: int, at: float | None) -> Decimal | None:
    """Return what the configured summariser is paid for a summary of so many tokens; None where nobody knows."""
    if settings.summarizer == "extractive" or not read:
        return FREE
    if settings.summarizer == "command":
        return None
    host = settings.endpoint.partition("://")[2] or settings.endpoint
    provider = provider_of(host, settings.model, "openai-chat")
    price = rules.price(provider, settings.model, "", at, prompt_tokens=read)
    return summary_cost(price, read, settings.summary_tokens)


class Prices:
    """Look up what a turn's tokens cost and how long its cache lives, by dated rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lives: float | None = None

    def cache(self, call: ModelCall, size: int) -> Cache:
        """Return the prices of a prompt of this size, and the lifetime: as billed before, else as the rules say."""
        where = served("", call.model, call.dialect)
        price = self._rules.price(where.provider, call.model, where.platform, call.at, prompt_tokens=size)
        lives = self._lives
        if lives is None:
            listed = self._rules.number("lifetime", where.provider, call.model, where.platform, call.at)
            lives = None if listed is None else float(listed)
        return Cache(price, lives)

    def learn(self, bill: Billed) -> None:
        """Take from a bill how long what was written lives."""
        if bill.write_1h_tokens:
            self._lives = ONE_HOUR
        elif bill.write_5m_tokens:
            self._lives = FIVE_MINUTES


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
            for kind, paid in _by_price(price, bill):
                self._parts[kind] = self._parts.get(kind, Decimal(0)) + paid

    def side(self, figures: Figures) -> CompactedSide:
        """Return the sums."""
        return CompactedSide(
            figures=figures, prompt_tokens=self.prompts, largest_tokens=self.largest,
            billed=BilledResult(*(self._counts[name] for name in _COUNTS)), cost=dollars(self.cost),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._parts.items())},
        )  # fmt: skip


def cost_of(sizes: PromptSizes, cache: Cache, warm: bool | None, summary: Decimal | None) -> CompactionCost:
    """Return what a compaction costs and saves, as far as the next turns can be foreseen."""
    hot, cold, two = (weigh(sizes, cache, n, warm=w).saved for n, w in ((1, True), (1, False), (2, True)))
    after = None if warm is None else pays_after(sizes, cache, warm=warm, summary=summary)
    return CompactionCost(
        warm=warm, next_warm=dollars(_less(hot)), next_cold=dollars(_less(cold)),
        later=None if hot is None or two is None else dollars(two - hot), pays_after=after, summary=dollars(summary),
    )  # fmt: skip


def _less(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else -amount


def dollars(amount: Decimal | None) -> float | None:
    """Return an amount as results hold it."""
    return None if amount is None else float(round(amount, 6))


def _by_price(price: Price, bill: Billed) -> list[tuple[str, Decimal]]:
    hour, short = bill.write_1h_tokens or 0, bill.write_5m_tokens or 0
    rest = max(0, (bill.write_tokens or 0) - hour - short)
    default = price.write if price.write is not None else price.write_5m
    found = (
        ("uncached", bill.uncached_tokens, price.uncached), ("read", bill.read_tokens, price.read),
        ("write_1h", hour, price.write_1h), ("write_5m", short, price.write_5m), ("write", rest, default),
        ("output", bill.output_tokens, price.output),
    )  # fmt: skip
    return [(kind, count * each / MILLION) for kind, count, each in found if count and each is not None]
