"""What a session cost as it was recorded, and what it would have cost under each plan, turn by turn.

Rules: the recorded side is what was billed; where a turn has no bill it is foreseen from times and lifetimes, and said
to be estimated. The other sides are those bills without what was pruned (`bills`). The head (tools, system prompt) is
what the first bill has beyond the timeline; a token of the timeline is as many bytes as the latest bill says.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.bills import total, unbelievable
from lore.cache.prices import Price
from lore.cache.rules import Rules
from lore.compaction.activity import Sizes, overhead
from lore.compaction.costs import FREE, Cache, Scale
from lore.compaction.overflow import FULL
from lore.compaction.settings import Compaction
from lore.model.compacted import CompactedTotals, Fired
from lore.model.events import Billed, TurnStarted
from lore.model.state import Chain
from lore.model.turn import seconds
from lore.run.compacting.bills import Change, foreseen, rebilled
from lore.run.compacting.ledger import Asked, Ledger, Prices, dollars, summary_price
from lore.run.compacting.plans import Plan


class _Seen(NamedTuple):
    """A plan's world when a request went out: its timeline, what was put in, whether it is the first since."""

    tokens: int
    added: int
    rewritten: bool
    new: int


class _Open(NamedTuple):
    """A request that has gone out; `model` is whom it asked: another one may be chosen before it is billed."""

    number: int
    at: float | None
    model: str | None
    tokens: int
    pause: float | None
    plans: tuple[_Seen, ...]


class Accounts:
    """The sums of one recording's main chain; `Known` to the plans."""

    def __init__(self, rules: Rules, plans: list[Plan], settings: Compaction) -> None:
        self._rules = rules
        self._prices = Prices(rules)
        self._plans = plans
        self._settings = settings
        self._recorded = Ledger()
        self._sizes = Sizes()
        self._open: _Open | None = None
        self._cache = Cache(None)
        self._stood: int | None = None
        self._grown = self._overfull = 0
        self.turn = self.turns = 0
        self.scale = Scale()
        self.billed = self.unbilled = self.unpriced = 0
        self.last: float | None = None

    # what plans ask

    def is_cold(self, at: float | None) -> bool:
        """Tell whether the cache has surely forgotten the session by then."""
        return self._cache.is_warm(None if at is None or self.last is None else at - self.last) is False

    def cache(self) -> tuple[Cache, int]:
        """Return the cache of the latest turn, and by how many tokens a turn grows."""
        return self._cache, self._grown // max(1, self.turns - 1)

    def summary(self, asked: int) -> Decimal | None:
        """Return what the configured summariser is paid; None where nobody knows."""
        return summary_price(self._rules, self._settings, asked, self.last)

    # turn by turn

    def answered(self, at: float | None) -> None:
        """Take the time at which a turn ended."""
        self.last = at if at is not None else self.last

    def open(self, event: TurnStarted, chain: Chain) -> None:
        """Take a request that goes out; `chain` is the recorded one."""
        at = seconds(event.at)
        pause = None if at is None or self.last is None else at - self.last
        seen: list[_Seen] = []
        for plan in self._plans:
            world = plan.world
            if plan.fires and (world.fresh or world.new):
                plan.fires[-1].warm = self._cache.is_warm(pause)
            seen.append(_Seen(world.tokens(event.chain), world.added, world.fresh, world.new))
            world.sent()
        self._open = _Open(event.turn, at, chain.model, self._sizes.tokens_of(chain.entries), pause, tuple(seen))
        self.turn = event.turn
        self.last = at if at is not None else self.last

    def close(self, chain: Chain) -> None:
        """Take the end of the request that is out: what was billed for it, and what would have been."""
        opened, self._open = self._open, None
        if opened is None:
            return
        asked = Asked(opened.model or chain.model, "", opened.at)
        last = chain.last if chain.last is not None and chain.last.turn == opened.number else None
        self.turns += 1
        bill = None if last is None or last.usage is None or unbelievable(last.usage) else last.usage
        whole = None if bill is None else total(bill)
        if bill is None or whole is None:
            self.unbilled += 1
            self.scale = self.scale if self.billed else Scale(overhead(chain))
            whole = self.scale.prompt(opened.tokens)
            bill = foreseen(whole, self._stood, opened.pause, self._prices.cache(asked, whole).lives)
        else:
            self.scale = Scale.of(whole, opened.tokens, self.scale.head if self.billed else None)
            self.billed += 1
            self._prices.learn(bill)
        self._add(opened, whole, bill, asked)
        self._grown += max(0, whole - (self._stood or whole))
        self._stood = whole

    def _add(self, opened: _Open, whole: int, bill: Billed | None, asked: Asked) -> None:
        self._cache = self._prices.cache(asked, whole)
        self._recorded.size(whole)
        self._overfull += self._is_overfull(whole)
        cost = _cost(bill, self._cache.price)
        self.unpriced += cost is None
        if bill is not None:
            self._recorded.bill(bill, cost, self._cache.price)
        for plan, seen in zip(self._plans, opened.plans, strict=True):
            size, other, price, paid = whole, bill, self._cache.price, cost
            if plan.fires:
                removed = max(0, opened.tokens - (seen.tokens - seen.added))
                removed, added, new = (round(one * self.scale.rate) for one in (removed, seen.added, seen.new))
                change = Change(self.scale.head, removed, added, seen.rewritten, new)
                size = max(0, whole - change.removed + change.added)
                other = None if bill is None else rebilled(bill, change)
                price = self._prices.cache(asked, size).price
                paid = None if cost is None else _cost(other, price)
                plan.fires[-1].follow(cost, paid)
            plan.ledger.size(size)
            plan.overfull += self._is_overfull(size)
            if other is not None:
                plan.ledger.bill(other, paid, price)

    def _is_overfull(self, tokens: int) -> bool:
        return self._settings.window > 0 and 100 * tokens > FULL * self._settings.window

    # results

    def cheapest(self) -> Plan:
        """Return the plan that costs least, with its summaries; the first where any cost is not known."""
        costs = [_sum(plan.ledger.cost, self._summaries(plan)) for plan in self._plans]
        known = [cost for cost in costs if cost is not None]
        return self._plans[costs.index(min(known))] if len(known) == len(costs) else self._plans[0]

    def fired(self, plan: Plan) -> list[Fired]:
        """Return a plan's firings."""
        return [one.result() for one in plan.fires]

    def totals(self, plan: Plan, compactions: int) -> CompactedTotals:
        """Return the sums, recorded and under a plan."""
        before, after, summaries = self._recorded.cost, plan.ledger.cost, self._summaries(plan)
        saved = None if before is None or after is None else before - after
        figures = "estimated" if self.unbilled else "recorded"
        return CompactedTotals(
            turns=self.turns, unbilled=self.unbilled, unpriced=self.unpriced, recorded=compactions,
            fired=len(plan.fires), refreshed=sum(not one.rewrites for one in plan.fires),
            without=self._recorded.side(figures),
            compacted=plan.ledger.side("estimated" if plan.fires else figures), summaries=dollars(summaries),
            saved=None if saved is None or summaries is None else dollars(saved - summaries),
            saved_without_summaries=dollars(saved),
            overfull=(self._overfull, plan.overfull) if self._settings.window else None,
        )  # fmt: skip

    def _summaries(self, plan: Plan) -> Decimal | None:
        return _sum(*[one.summary for one in plan.fires])


def _cost(bill: Billed | None, price: Price | None) -> Decimal | None:
    """Return what a bill cost; where its output is not known, its input."""
    if bill is None or price is None:
        return None
    return price.of(bill if bill.output_tokens is not None else replace(bill, output_tokens=0))


def _sum(*parts: Decimal | None) -> Decimal | None:
    known = [one for one in parts if one is not None]
    return sum(known, start=FREE) if len(known) == len(parts) else None
