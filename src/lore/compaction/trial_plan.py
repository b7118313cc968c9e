"""A policy at work on a counterfactual session, and what the session cost with it and without, turn by turn.

The counterfactual one is folded beside the recorded one with compactions of its own. What a recorded event says of
items that the policy has pruned already is left out; a recorded compaction stays, and keeps what of its items is still
there. `moment` says when a cadence compacts: at once, or (`later`) at the first pause that is longer than entries live.
Costs O(1) an event, O(items) a compaction.

The recorded side is what was billed; where a turn has no bill it is foreseen from times and lifetimes, and said to be
estimated. The other sides are those bills without what was pruned (`rebilled`). The head (tools, system prompt) is what
the first bill has beyond the timeline; a token of the timeline is as many bytes as the latest bill says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET, Raw, structs
from msgspec.structs import replace

from lore.cache.bills import ONE_HOUR, total, unbelievable
from lore.cache.prices import Price
from lore.cache.rules import DatedRules
from lore.compaction.activity import Tracker
from lore.compaction.base import Firing, Trigger
from lore.compaction.costs import (
    FREE,
    BillScale,
    Cache,
    Moment,
    Prices,
    PromptSizes,
    cost_of,
    dollars,
    known_sum,
    summary_price,
)
from lore.compaction.executor import compacted, in_estimates, shorter
from lore.compaction.extractive import Extractive
from lore.compaction.policy import FULL, PolicyInput, due, kept, pruned, silence
from lore.compaction.settings import Compaction
from lore.fold.step import Folding
from lore.model.canonical import encode
from lore.model.events import Append, Billed, CompactApplied, Event, TurnStarted
from lore.model.results import BilledResult
from lore.model.results.simulate import CompactedSide, CompactedTotals, Figures, Fired
from lore.model.state import Chain, Entry, FoldedSession, settled
from lore.model.turn import seconds, timestamp
from lore.prompt.entries import TimelineSizes, in_tokens, messages, overhead
from lore.store.registry import silent
from lore.untrusted import SourceText, context_refresh


class Counterfactual:
    """A session with the compactions of a policy.

    `added` are the tokens that these put in and that are still there, outside context included (it is counted without
    events: no source was asked). `rewritten`: no request has gone out since something was pruned or cut. `new` are the
    tokens that were added without pruning since the last request. Call `sent` with each request.
    """

    def __init__(self, empty: FoldedSession) -> None:
        self._folding = Folding(empty)
        self._sizes = TimelineSizes()
        self._gone: set[str] = set()
        self.tracker = Tracker()
        self.added = self._context = 0
        self.new = 0
        self.rewritten = False

    def take(self, event: Event) -> None:
        """Apply an event of the recording. What it says of items that are gone here changes nothing."""
        self.tracker.feed(event)
        if isinstance(event, CompactApplied):
            self.added = self._context = 0
            if self._gone:  # of what is kept nothing may be left, and then it keeps nothing
                stay = tuple([uuid for uuid in event.preserved_uuids or () if uuid not in self._gone])
                event = replace(event, preserved_uuids=stay)
        elif isinstance(event, Append):
            self._gone.discard(event.item.uuid)
        self._folding.apply(event)

    def chain(self, name: str) -> Chain:
        """Return a chain as it is here."""
        return self._folding.chain(name)

    @property
    def state(self) -> FoldedSession:
        """The session as it is here. Costs O(chains)."""
        return self._folding.state()

    def tokens(self, name: str) -> int:
        """Estimate a chain's timeline in tokens, outside context too. Costs O(what changed since it was last asked)."""
        return self._sizes.tokens_of(self.chain(name).entries) + self._context

    def compact(self, events: Iterable[Event], gone: Collection[Entry], *, summary: int, context: int) -> None:
        """Apply a compaction of the policy, which takes these entries away and puts so many tokens in."""
        self._gone.update(entry.item.uuid for entry in gone)
        for event in events:
            self.tracker.feed(event)
            self._folding.apply(event)
        if gone:
            self.added, self._context, self.new = summary + context, context, 0
        else:  # results were cut, or sources asked alone: what was put in before still stands
            self.added, self._context, self.new = self.added + context, self._context + context, self.new + context
        self.rewritten = self.rewritten or not context or bool(gone)

    def sent(self) -> None:
        """Take that a request has gone out."""
        self.rewritten, self.new = False, 0


EXTRACTIVE = Extractive()


def most_context(settings: Compaction) -> int:
    """Return the most tokens that the sources may add: their cap, and the wrap of each."""
    empty = [SourceText(source.name, "") for source in settings.context_sources]
    wraps = context_refresh(empty, session_id="", key=b"any", at=0.0)
    return settings.context_token_cap + in_tokens(len(wraps.encode()))


class RecordedState(NamedTuple):
    """What is known of the recorded session when a policy is asked: the latest turn and its cache, by how many tokens
    a turn grows, how bills differ from estimates, when the session was last heard of.
    """

    turn: int = 0
    cache: Cache = Cache(None)
    grown: int = 0
    scale: BillScale = BillScale()
    last: float | None = None

    def is_cold(self, at: float | None) -> bool:
        """Tell whether the cache has surely forgotten the session by then."""
        return self.cache.is_warm(None if at is None or self.last is None else at - self.last) is False


@dataclass(slots=True)
class TrialFiring:
    """A firing, and what came of it so far: `saved` over `turns`, None once a turn's cost was not known."""

    fired: Fired  # its cost is of when it fired
    sizes: PromptSizes
    cache: Cache
    summary: Decimal | None
    rewrites: bool = True
    warm: bool | None = None
    saved: Decimal | None = FREE
    turns: int = 0

    def follow(self, recorded: Decimal | None, compacted: Decimal | None) -> None:
        """Take what a turn behind it cost as it was recorded, and what it would have cost."""
        self.turns += 1
        if self.saved is None or recorded is None or compacted is None:
            self.saved = None
        else:
            self.saved += recorded - compacted

    def result(self) -> Fired:
        """Return it as results hold it."""
        cost = cost_of(self.sizes, self.cache, self.warm, self.summary)
        if self.turns:
            cost = structs.replace(cost, saved=dollars(self.saved), turns=self.turns)
        return structs.replace(self.fired, cost=cost)


class TrialPlan:
    """A counterfactual session with a policy. `pause` is the longest that ended when somebody spoke, in seconds;
    `refused` counts firings that prune nothing, since the prompt would not have become shorter.
    """

    def __init__(self, empty: FoldedSession, settings: Compaction, rules: DatedRules, moment: Moment) -> None:
        self.session = Counterfactual(empty)
        self.moment: Moment = moment
        self.ledger = TrialLedger()
        self.firings: list[TrialFiring] = []
        self.overfull = self.refused = 0
        self.pause: float | None = None
        self._settings = settings
        self._rules = rules
        self._waits = False

    def wake(self, known: RecordedState, chain: str, at: float | None) -> None:
        """Fire what has waited for a cold cache, if it is cold by now."""
        if self._waits and known.is_cold(at):
            self.ask(("manual",), known, chain, at, called="cadence")

    def ask(
        self, triggers: Collection[Trigger], known: RecordedState, name: str, at: float | None, *,
        agent: str | None = None, called: Trigger | None = None,
    ) -> None:  # fmt: skip
        """Ask the policy about a chain, and apply what is due; `called` is the trigger's name in the results."""
        session, scale = self.session, known.scale
        chain, tracked = settled(session.chain(name)), session.tracker.chain(name)
        if "gap" in triggers:
            pause = silence(PolicyInput(tracked, chain.entries, self._settings, at, agent))
            self.pause = max((length for length in (self.pause, pause) if length is not None), default=None)
        firing = due(
            tracked, chain.entries, in_estimates(self._settings, scale), now=at, agent=agent,
            overhead=max(scale.estimated(scale.head), overhead(chain)), tokens=session.tokens(name), ask=triggers,
        )  # fmt: skip
        if firing is None:
            self._waits = self._waits and called is None
        elif firing.trigger == "cadence" and self.moment == "later" and not known.is_cold(at):
            self._waits = True
        else:
            self._waits = False
            self._fire(firing._replace(trigger=called or firing.trigger), known, chain, at)

    def _fire(self, firing: Firing, known: RecordedState, chain: Chain, at: float | None) -> None:
        session, settings, scale = self.session, self._settings, known.scale
        firing, summary, refused, *_ = shorter(
            chain, firing, settings, lambda _, request: (EXTRACTIVE.summarize(request).text,), tell=silent
        )
        self.refused += bool(refused)
        if not (firing.cut.place or firing.shortened or firing.window):
            return
        gone, stay = pruned(chain.entries, firing.cut), kept(chain.entries, firing.cut)
        before = session.tokens(chain.id)
        # Sources that are asked alone leave one event, whatever they say: a space stands for it.
        unsaid = " " if firing.window is not None and not gone else None
        stamp = None if at is None else timestamp(at)
        events = compacted(session.state, chain.id, firing, summary, unsaid, at=stamp)
        context = most_context(settings) if settings.context_sources and firing.window is not None else 0
        spelled = in_tokens(len(encode(summary)) - 2)  # as the timeline counts it
        session.compact(events, gone, summary=spelled, context=context)
        rewrites = bool(gone or firing.shortened)
        head = scale.head if rewrites else scale.prompt(before)
        sizes = PromptSizes(scale.prompt(before), scale.prompt(session.tokens(chain.id)), head, known.grown)
        paid = summary_price(self._rules, settings, sizes.before - sizes.head if gone else 0, known.last)
        fired = Fired(
            trigger=firing.trigger, turn=known.turn, at=at, kept=messages(stay), pruned=messages(gone),
            context_tokens=None if context else 0, before_tokens=sizes.before, after_tokens=sizes.after,
            cost=cost_of(sizes, known.cache, None, paid),
        )  # fmt: skip
        self.firings.append(TrialFiring(fired, sizes, known.cache, paid, rewrites))


_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class TrialLedger:
    """Sums over turns: prompts in tokens, bills, money by kind of price. What is unknown of a turn is left out."""

    def __init__(self) -> None:
        self.prompts = self.largest = 0
        self.cost: Decimal | None = None
        self._counts: dict[str, int | None] = dict.fromkeys(_COUNTS)
        self._partial = False
        self._parts: dict[str, Decimal] = {}

    def add(
        self, tokens: int, bill: Billed | None, cost: Decimal | None, price: Price | None, *, partial: bool
    ) -> None:  # fmt: skip
        """Take the length of a turn's prompt, its bill, what that costs, and whether its output is partial."""
        self.prompts += tokens
        self._partial = self._partial or partial
        self.largest = max(self.largest, tokens)
        for name in _COUNTS:
            count = None if bill is None else getattr(bill, name)
            if count is not None:
                self._counts[name] = (self._counts[name] or 0) + count
        if bill is not None and cost is not None and price is not None:
            self.cost = cost + (self.cost or 0)
            for kind, paid in price.parts(bill).items():
                self._parts[kind] = self._parts.get(kind, Decimal(0)) + paid

    def side(self, figures: Figures) -> CompactedSide:
        """Return the sums."""
        billed = BilledResult(**self._counts, partial_output=True if self._partial else UNSET)
        return CompactedSide(
            figures=figures, prompt_tokens=self.prompts, largest_tokens=self.largest, billed=billed,
            cost=dollars(self.cost),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._parts.items())},
        )  # fmt: skip


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


class _OpenRequest(NamedTuple):
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

    def __init__(self, rules: DatedRules, plans: list[TrialPlan], settings: Compaction) -> None:
        self._prices, self._plans, self._settings = Prices(rules), plans, settings
        self._recorded, self._sizes = TrialLedger(), TimelineSizes()
        self._open: _OpenRequest | None = None
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
        self._open = _OpenRequest(event.turn, at, chain.model, tokens, pause, tuple(seen), chain.params)
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

    def _add(self, opened: _OpenRequest, whole: int, bill: Billed | None, model: str | None) -> None:
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

    def cheapest(self) -> TrialPlan:
        """Return the plan that costs least, with its summaries; the first where any cost is not known."""
        costs = [known_sum(plan.ledger.cost, _summaries(plan)) for plan in self._plans]
        known = [cost for cost in costs if cost is not None]
        return self._plans[costs.index(min(known))] if len(known) == len(costs) else self._plans[0]

    def totals(self, plan: TrialPlan, compactions: int) -> CompactedTotals:
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


def _summaries(plan: TrialPlan) -> Decimal | None:
    return known_sum(*[firing.summary for firing in plan.firings])


def _cost(bill: Billed | None, price: Price | None) -> Decimal | None:
    """Return what a bill cost; where its output is not known, its input."""
    if bill is None or price is None:
        return None
    return price.of(bill if bill.output_tokens is not None else replace(bill, output_tokens=0))
