"""What compactions cost in money: the prices and the cache of a session, by dated rules and by its bills."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from lore.cache.lifetime import FIVE_MINUTES, ONE_HOUR
from lore.cache.rules import Rules
from lore.cache.served import served
from lore.compaction.activity import tokens_of
from lore.compaction.costs import FREE, BillScale, Cache, PromptSizes, pays_after, summary_cost, weigh
from lore.compaction.executor import Done
from lore.compaction.settings import Compaction
from lore.fold.step import Folding
from lore.model.compacted import CompactionCost, Fired
from lore.model.events import Billed
from lore.model.providers import provider_of
from lore.model.state import Chain, Session
from lore.model.turn import seconds


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


def cache_of(session: Session, chain: Chain, rules: Rules, now: float, size: int = 0) -> Cache:
    """Return the prices and the lifetime of a chain's cache, as billed last, else as the rules say."""
    prices = Prices(rules)
    if chain.last is not None and chain.last.usage is not None:
        prices.learn(chain.last.usage)
    return prices.cache(ModelCall(chain.model or session.model, session.dialect or "", now), size)


def fired_of(
    session: Session, chain: Chain, scale: BillScale, made: Done, settings: Compaction, rules: Rules, now: float
) -> Fired:  # fmt: skip
    """Describe what was made, with its cost as far as the prices of the chain's model are known."""
    folding = Folding(session)
    for event in made.events:
        folding.apply(event)
    after = folding.chain(chain.id)
    sizes = PromptSizes(scale.prompt(tokens_of(chain.entries)), scale.prompt(tokens_of(after.entries)), scale.head)
    sizes = sizes._replace(after=sizes.after + made.context_tokens)
    cache = cache_of(session, chain, rules, now, sizes.before)
    end = None if chain.last is None else seconds(chain.last.at)
    summary = summary_price(rules, settings, max(0, sizes.before - sizes.head) if made.pruned else 0, now)
    if not made.rewrites:
        sizes = sizes._replace(head=sizes.before)
    return Fired(
        trigger=made.trigger, turn=0 if chain.turn is None else chain.turn.turn, at=now, kept=made.kept,
        pruned=made.pruned, context_tokens=made.context_tokens, before_tokens=sizes.before, after_tokens=sizes.after,
        cost=cost_of(sizes, cache, cache.is_warm(None if end is None else now - end), summary),
    )  # fmt: skip
