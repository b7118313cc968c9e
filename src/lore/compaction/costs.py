"""What compacting now costs and saves, in US dollars, exact; what is not known is None.

The model: a prompt that stands in the cache is read, what is new is written; compacting keeps the head (tools, system
prompt) and writes the rest anew; what is older than its lifetime is gone either way. The next turns are taken to be
like the ones before. Output costs the same both ways and is left out.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import Literal, NamedTuple

from msgspec import Raw

from lore.cache.bills import FIVE_MINUTES, ONE_HOUR
from lore.cache.prices import Price, bill_price, is_partial
from lore.cache.rules import DatedRules
from lore.cache.served import served
from lore.compaction.settings import Compaction
from lore.model.events import Usage
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import table
from lore.model.providers import provider_of
from lore.model.results.compact import CompactionCost
from lore.model.state import Chain, FoldedSession

Moment = Literal["now", "later"]
FREE = Decimal(0)
LEAST, MOST = 0.25, 4.0  # how far bills may be from estimates, to be believed


class PromptSizes(NamedTuple):
    """A prompt in tokens: `before` and `after` a compaction, the `head` that both begin with (all of it where nothing
    was pruned), and by how many tokens it grows from one request to the next.
    """

    before: int
    after: int
    head: int = 0
    grown: int = 0


class Cache(NamedTuple):
    """Where a session is cached: what its tokens cost, and how long an entry lives (seconds; None: not known)."""

    price: Price | None
    lives: float | None = None

    def is_warm(self, pause: float | None) -> bool | None:
        """Tell whether what stood there is still read after a pause; None where that cannot be known."""
        return None if pause is None or self.lives is None else pause <= self.lives

    def cost(self, read: int, write: int) -> Decimal | None:
        """Return what it costs to read and to write so many tokens; where nothing is paid for writing, as uncached."""
        price = self.price
        if price is None:
            return None
        if not price.writes_are_charged:
            return price.of(Usage(write, read, None, 0))
        hour = write if self.lives is not None and self.lives >= ONE_HOUR else None
        return price.of(Usage(0, read, write, 0, None, hour))


class TokenScale(NamedTuple):
    """How a session's bills differ from estimates: its prompts have `head` tokens before the timeline, and `rate`
    tokens for each estimated one of it. Estimates stay estimates: a window is measured in them.
    """

    head: int = 0
    rate: float = 1.0

    @classmethod
    def of(cls, whole: int, estimate: int, head: int | None = None) -> TokenScale:
        """Return the scale of a prompt that was billed as `whole`; `head` where it is known from earlier ones."""
        head = max(0, whole - estimate) if head is None else min(head, whole)
        return cls(head, min(MOST, max(LEAST, (whole - head) / estimate)) if estimate else 1.0)

    def prompt(self, estimate: int) -> int:
        """Return the tokens of a prompt whose timeline is estimated so long."""
        return self.head + round(estimate * self.rate)

    def estimated(self, tokens: int) -> int:
        """Return tokens as an estimate would count them."""
        return round(tokens / self.rate)


class Weighed(NamedTuple):
    """What the next requests cost `without` compacting and `compacted`; `saved` may be negative. None is unknown."""

    without: Decimal | None
    compacted: Decimal | None
    saved: Decimal | None


class Choice(NamedTuple):
    """What the next requests cost, compacted `now`, or `later`, in a cold cache; None is unknown."""

    now: Decimal | None
    later: Decimal | None

    @property
    def moment(self) -> Moment:
        """The better moment: now, where either is not known."""
        return "now" if self.now is None or self.later is None or self.now <= self.later else "later"


def stretch(size: int, stands: int, grown: int, turns: int, cache: Cache) -> Decimal | None:
    """Return what `turns` requests cost of `size` tokens, `stands` of them cached, each `grown` tokens longer."""
    if turns <= 0:
        return FREE
    rest = turns - 1
    read = stands + rest * (size + grown) + grown * rest * (rest - 1) // 2
    return cache.cost(read, size - stands + grown * turns)


def weigh(sizes: PromptSizes, cache: Cache, turns: int, *, warm: bool, summary: Decimal | None = FREE) -> Weighed:
    """Weigh compacting now, with a summary of this price, against not compacting, over the next requests."""
    without = stretch(sizes.before, sizes.before if warm else 0, sizes.grown, turns, cache)
    compacted = stretch(
        sizes.after, min(sizes.head, sizes.before, sizes.after) if warm else 0, sizes.grown, turns, cache
    )
    if without is None or compacted is None or summary is None:
        return Weighed(without, compacted, None)
    return Weighed(without, compacted, without - compacted - summary)


def pays_after(sizes: PromptSizes, cache: Cache, *, warm: bool, summary: Decimal | None = FREE) -> int | None:
    """Return after how many requests compacting now has cost no more than going on; None: never, or not known."""
    first, second = (weigh(sizes, cache, turns, warm=warm, summary=summary).saved for turns in (1, 2))
    if first is None or second is None:
        return None
    if first >= 0:
        return 1
    each = second - first
    return None if each <= 0 else 1 + int((-first / each).to_integral_value(ROUND_CEILING))


def cheapest(sizes: PromptSizes, cache: Cache, turns: int, until: int, *, warm: bool) -> Choice:
    """Choose between compacting now and when the cache has gone cold anyway, `until` requests from here."""
    until, grown = min(until, turns), sizes.grown
    cold, now = turns - until, weigh(sizes, cache, until, warm=warm)
    return Choice(
        known_sum(now.compacted, stretch(sizes.after + grown * until, 0, grown, cold, cache)),
        known_sum(now.without, stretch(sizes.after, 0, grown, cold, cache)),
    )


def summary_cost(price: Price | None, read: int, answered: int) -> Decimal | None:
    """Return what a model is paid for a summary, by the tokens that it reads and writes; None without a price."""
    return None if price is None else price.of(Usage(read, 0, 0, answered))


def known_sum(*parts: Decimal | None) -> Decimal | None:
    """Add amounts; None where one is not known."""
    known = [part for part in parts if part is not None]
    return sum(known, start=FREE) if len(known) == len(parts) else None


def summary_price(rules: DatedRules, settings: Compaction, read: int, at: float | None) -> Decimal | None:
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

    def __init__(self, rules: DatedRules) -> None:
        self._rules = rules
        self._lives: float | None = None

    def cache(
        self, model: str | None, at: float | None, size: int, dialect: str = "", *, bill: Usage | None = None,
        params: Raw = NULL,
    ) -> Cache:  # fmt: skip
        """Return the prices of a prompt of this size, and the lifetime: as billed before, else as the rules say.

        A `bill`, else the session's `params`, say what it is served at.
        """
        where = served("", model, dialect)
        asked = {} if is_absent(params) else table(bytes(params))
        price = bill_price(self._rules, where, model, at, bill, size=size, asked=asked)
        lives = self._lives
        if lives is None:
            listed = self._rules.number("lifetime", where.provider, model, where.platform, at)
            lives = None if listed is None else float(listed)
        return Cache(price, lives)

    def is_partial(self, bill: Usage) -> bool:
        """Tell whether a bill is known to hold only a part of the output tokens."""
        return is_partial(self._rules, bill.client)

    def learn(self, bill: Usage) -> None:
        """Take from a bill how long what was written lives."""
        if bill.write_1h_tokens:
            self._lives = ONE_HOUR
        elif bill.write_5m_tokens:
            self._lives = FIVE_MINUTES


def cost_of(sizes: PromptSizes, cache: Cache, warm: bool | None, summary: Decimal | None) -> CompactionCost:
    """Return what a compaction costs and saves, as far as the next turns can be foreseen."""
    hot, cold, two = (weigh(sizes, cache, n, warm=w).saved for n, w in ((1, True), (1, False), (2, True)))
    after = None if warm is None else pays_after(sizes, cache, warm=warm, summary=summary)
    return CompactionCost(
        warm=warm, next_warm=None if hot is None else dollars(-hot), next_cold=None if cold is None else dollars(-cold),
        later=None if hot is None or two is None else dollars(two - hot), pays_after=after, summary=dollars(summary),
    )  # fmt: skip


def dollars(amount: Decimal | None) -> float | None:
    """Return an amount as results hold it."""
    return None if amount is None else float(round(amount, 6))


def cache_of(session: FoldedSession, chain: Chain, rules: DatedRules, now: float, size: int = 0) -> Cache:
    """Return the prices and the lifetime of a chain's cache, as billed last, else as the rules say."""
    prices, bill = Prices(rules), None if chain.last is None else chain.last.usage
    if bill is not None:
        prices.learn(bill)
    model = chain.model or session.model
    return prices.cache(model, now, size, session.dialect or "", bill=bill, params=chain.params)
