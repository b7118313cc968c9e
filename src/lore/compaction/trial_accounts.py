"""What a session cost as it was recorded, and what it would have cost under each plan, turn by turn.

The recorded side is what was billed; where a turn has no bill it is foreseen from times and lifetimes, and said to be
estimated. The other sides are those bills without what was pruned (`rebilled`). The head (tools, system prompt) is what
the first bill has beyond the timeline; a token of the timeline is as many bytes as the latest bill says.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from lore.cache.bills import ONE_HOUR, total, unbelievable
from lore.cache.prices import Price
from lore.cache.rules import Rules
from lore.compaction.activity import TimelineSizes, overhead
from lore.compaction.costs import BillScale, Cache, Prices, dollars, known_sum
from lore.compaction.cuts import FULL
from lore.compaction.settings import Compaction
from lore.compaction.trial_plan import Ledger, Plan, RecordedState
from lore.model.events import Billed, TurnStarted
from lore.model.results.simulate import CompactedTotals
from lore.model.state import Chain
from lore.model.turn import seconds


class PromptChange(NamedTuple):
    """How a prompt differs from the recorded one, in tokens: `head` comes first in both, then `removed` of the
    recorded one or `added` in their place, `new` of them sent for the first time. `rewritten`: it is the first since
    the compaction.
    """

    head: int
    removed: int
    added: int
    rewritten: bool = False
    new: int = 0


def rebilled(bill: Billed, change: PromptChange) -> Billed | None:
    """Return what the turn would have been billed; None where the bill does not say how long its prompt was."""
    whole = total(bill)
    if whole is None:
        return None
    if change.removed == change.added == 0 and not change.rewritten:
        return bill
    head = min(change.head, whole)
    removed = min(change.removed, whole - head)
    size, read = whole - removed + change.added, bill.read_tokens or 0
    past = read - head - removed  # how far behind what was pruned the cache was read
    if change.rewritten or past < 0 or past == removed == 0:
        read = min(read, head)
    else:
        read += change.added - change.new - removed
    if bill.write_tokens is None:
        return replace(bill, read_tokens=read, uncached_tokens=size - read)
    uncached = min(bill.uncached_tokens or 0, size - read)
    write = size - read - uncached
    if not bill.write_tokens and bill.uncached_tokens:  # nothing was cached: no breakpoints, or it is too short
        uncached, write = uncached + write, 0
    hour = bill.write_1h_tokens
    if hour:
        hour = write * hour // bill.write_tokens if bill.write_tokens else write
    short = None if bill.write_5m_tokens is None else write - (hour or 0)
    return replace(
        bill, read_tokens=read, uncached_tokens=uncached, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=short,
    )  # fmt: skip


def foreseen(size: int, stood: int | None, pause: float | None, lives: float | None) -> Billed | None:
    """Return what a turn without a bill was probably billed; `stood` is None for a chain's first. None: not known."""
    read = 0
    if stood is not None:
        if pause is None or lives is None:
            return None
        read = min(stood, size) if pause <= lives else 0
    hour = size - read if lives is not None and lives == ONE_HOUR else None
    return Billed(uncached_tokens=0, read_tokens=read, write_tokens=size - read, write_1h_tokens=hour)


class _PlanAtTurn(NamedTuple):
    """A plan's session when a request went out: its timeline, what was put in, whether it is the first since."""

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
    plans: tuple[_PlanAtTurn, ...]
    params: Raw


class Accounts:
    """The sums of one recording's main chain, and of each plan."""

    def __init__(self, rules: Rules, plans: list[Plan], settings: Compaction) -> None:
        self._prices, self._plans, self._settings = Prices(rules), plans, settings
        self._recorded, self._sizes = Ledger(), TimelineSizes()
        self._open: _Open | None = None
        self._cache, self._scale = Cache(None), BillScale()
        self._previous: int | None = None  # tokens of the previous prompt
        self._last: float | None = None
        self._grown = self._overfull = self._turn = self._turns = self._billed = self._unbilled = self._unpriced = 0

    @property
    def known(self) -> RecordedState:
        """What plans are asked with."""
        return RecordedState(self._turn, self._cache, self._grown // max(1, self._turns - 1), self._scale, self._last)

    def answered(self, at: float | None) -> None:
        """Take the time at which a turn ended."""
        self._last = at if at is not None else self._last

    def open(self, event: TurnStarted, chain: Chain) -> None:
        """Take a request that goes out; `chain` is the recorded one."""
        at = seconds(event.at)
        pause = None if at is None or self._last is None else at - self._last
        seen: list[_PlanAtTurn] = []
        for plan in self._plans:
            session = plan.session
            if plan.firings and (session.rewritten or session.new):
                plan.firings[-1].warm = self._cache.is_warm(pause)
            seen.append(_PlanAtTurn(session.tokens(event.chain), session.added, session.rewritten, session.new))
            session.sent()
        tokens = self._sizes.tokens_of(chain.entries)
        self._open = _Open(event.turn, at, chain.model, tokens, pause, tuple(seen), chain.params)
        self._turn = event.turn
        self.answered(at)

    def close(self, chain: Chain) -> None:
        """Take the end of the request that is out: what was billed for it, and what would have been."""
        opened, self._open = self._open, None
        if opened is None:
            return
        model = opened.model or chain.model
        self._turns += 1
        last = chain.last
        bill = last.usage if last is not None and last.turn == opened.number else None
        whole = None if bill is None or unbelievable(bill) else total(bill)
        if bill is None or whole is None:
            self._unbilled += 1
            self._scale = self._scale if self._billed else BillScale(overhead(chain))
            whole = self._scale.prompt(opened.tokens)
            bill = foreseen(whole, self._previous, opened.pause, self._prices.cache(model, opened.at, whole).lives)
        else:
            self._scale = BillScale.of(whole, opened.tokens, self._scale.head if self._billed else None)
            self._billed += 1
            self._prices.learn(bill)
        self._add(opened, whole, bill, model)
        self._grown += max(0, whole - (self._previous or whole))
        self._previous = whole

    def _add(self, opened: _Open, whole: int, bill: Billed | None, model: str | None) -> None:
        self._cache = self._prices.cache(model, opened.at, whole, bill=bill, params=opened.params)
        price, cost = self._cache.price, _cost(bill, self._cache.price)
        self._overfull += self._is_overfull(whole)
        self._unpriced += cost is None
        partial = bill is not None and self._prices.is_partial(bill)
        self._recorded.add(whole, bill, cost, price, partial=partial)
        for plan, seen in zip(self._plans, opened.plans, strict=True):
            size, plan_bill, plan_price, plan_cost = whole, bill, price, cost
            if plan.firings:
                removed = max(0, opened.tokens - (seen.tokens - seen.added))
                removed, added, new = (round(count * self._scale.rate) for count in (removed, seen.added, seen.new))
                size = max(0, whole - removed + added)
                change = PromptChange(self._scale.head, removed, added, seen.rewritten, new)
                plan_bill = None if bill is None else rebilled(bill, change)
                plan_price = self._prices.cache(model, opened.at, size, bill=bill, params=opened.params).price
                plan_cost = None if cost is None else _cost(plan_bill, plan_price)
                plan.firings[-1].follow(cost, plan_cost)
            plan.overfull += self._is_overfull(size)
            plan.ledger.add(size, plan_bill, plan_cost, plan_price, partial=partial)

    def _is_overfull(self, tokens: int) -> bool:
        return self._settings.window > 0 and 100 * tokens > FULL * self._settings.window

    def cheapest(self) -> Plan:
        """Return the plan that costs least, with its summaries; the first where any cost is not known."""
        costs = [known_sum(plan.ledger.cost, _summaries(plan)) for plan in self._plans]
        known = [cost for cost in costs if cost is not None]
        return self._plans[costs.index(min(known))] if len(known) == len(costs) else self._plans[0]

    def totals(self, plan: Plan, compactions: int) -> CompactedTotals:
        """Return the sums, recorded and under a plan; `compactions` are those of the recording."""
        before, after, summaries = self._recorded.cost, plan.ledger.cost, _summaries(plan)
        saved = None if before is None or after is None else before - after
        figures = "estimated" if self._unbilled else "recorded"
        return CompactedTotals(
            turns=self._turns, unbilled=self._unbilled, unpriced=self._unpriced, recorded=compactions,
            fired=len(plan.firings), refreshed=sum(not firing.rewrites for firing in plan.firings),
            without=self._recorded.side(figures), summaries=dollars(summaries), saved_without_summaries=dollars(saved),
            compacted=plan.ledger.side("estimated" if plan.firings else figures),
            saved=None if saved is None or summaries is None else dollars(saved - summaries),
            overfull=(self._overfull, plan.overfull) if self._settings.window else None,
        )  # fmt: skip


def _summaries(plan: Plan) -> Decimal | None:
    return known_sum(*[firing.summary for firing in plan.firings])


def _cost(bill: Billed | None, price: Price | None) -> Decimal | None:
    """Return what a bill cost; where its output is not known, its input."""
    if bill is None or price is None:
        return None
    return price.of(bill if bill.output_tokens is not None else replace(bill, output_tokens=0))
