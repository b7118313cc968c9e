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

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET, Raw
from msgspec.structs import replace

from lore.cache.bills import ONE_HOUR, total, unbelievable
from lore.cache.prices import Price
from lore.cache.rules import DatedRules
from lore.compaction.activity import SessionActivity
from lore.compaction.base import Firing, Trigger
from lore.compaction.costs import (
    FREE,
    Cache,
    Moment,
    Prices,
    PromptSizes,
    TokenScale,
    cost_of,
    dollars,
    known_sum,
    summary_price,
)
from lore.compaction.executor import compaction_events, find_shorter_stage, judge_chain
from lore.compaction.extractive import Extractive
from lore.compaction.policy import FULL, PolicyInput, kept_entries, pause_before_message, pruned_entries
from lore.compaction.settings import Compaction
from lore.fold.step import Folding
from lore.judge.base import added
from lore.model.canonical import encode
from lore.model.events import SUMMED_COUNTS, Append, CompactApplied, Event, TurnStarted, Usage
from lore.model.results import UsageResult
from lore.model.results.compact import CompactedSide, CompactedTotals, FiredTrigger
from lore.model.results.simulate import Figures
from lore.model.state import Chain, FoldedSession, settled
from lore.model.times import format_timestamp, parse_timestamp
from lore.prompt.entries import TimelineSizes, in_tokens, messages, overhead
from lore.store.registry import silent
from lore.untrusted import SourceText, context_refresh

EXTRACTIVE = Extractive()


def most_context(settings: Compaction) -> int:
    """Return the most tokens that the sources may add: their cap, and the wrap of each."""
    empty = [SourceText(source.name, "") for source in settings.context_sources]
    wraps = context_refresh(empty, session_id="", key=b"any", at=0.0)
    return settings.context_token_cap + in_tokens(len(wraps.encode()))


class TrialLedger:
    """Sums over turns: prompts in tokens, bills, money by kind of price, and how many fill over 90 % of the window.
    What is unknown of a turn is left out.
    """

    def __init__(self, window: int) -> None:
        self.prompts = self.largest = self.overfull = 0
        self.cost: Decimal | None = None
        self._window = window
        self._counts: dict[str, int | None] = dict.fromkeys(SUMMED_COUNTS)
        self._partial = False
        self._parts: dict[str, Decimal] = {}

    def add(
        self, tokens: int, bill: Usage | None, cost: Decimal | None, price: Price | None, *, partial: bool
    ) -> None:  # fmt: skip
        """Take the length of a turn's prompt, its bill, what that costs, and whether its output is partial."""
        self.prompts += tokens
        self._partial = self._partial or partial
        self.largest = max(self.largest, tokens)
        self.overfull += self._window > 0 and 100 * tokens > FULL * self._window
        for name in SUMMED_COUNTS:
            self._counts[name] = added([self._counts[name], None if bill is None else getattr(bill, name)])
        if bill is not None and cost is not None and price is not None:
            self.cost = cost + (self.cost or 0)
            for kind, paid in price.parts(bill).items():
                self._parts[kind] = self._parts.get(kind, Decimal(0)) + paid

    def side(self, figures: Figures) -> CompactedSide:
        """Return the sums."""
        billed = UsageResult(**self._counts, partial_output=True if self._partial else UNSET)
        return CompactedSide(
            figures=figures, prompt_tokens=self.prompts, largest_tokens=self.largest, billed=billed,
            cost=dollars(self.cost),
            by_price={kind: float(round(paid, 6)) for kind, paid in sorted(self._parts.items())},
        )  # fmt: skip


class TrialRequest(NamedTuple):
    """A request that has gone out; `model` is whom it asked: another one may be chosen before it is billed. `tokens`
    are those of its timeline, estimated.
    """

    number: int
    at: float | None
    model: str | None
    tokens: int
    pause: float | None
    params: Raw


class BilledTurn(NamedTuple):
    """A turn of the recording: its request, the length of its prompt in tokens, its bill (or what is foreseen)."""

    request: TrialRequest
    tokens: int
    bill: Usage | None
    price: Price | None
    cost: Decimal | None
    partial: bool


class RecordedSide:
    """What is known of the recorded main chain when a policy is asked: the latest `turn` and its cache, how bills
    differ from estimates (`scale`), when the session was last heard of.
    """

    def __init__(self, rules: DatedRules, window: int) -> None:
        self.ledger = TrialLedger(window)
        self.turn = self.turns = self.unbilled = self.unpriced = 0
        self.cache, self.scale = Cache(None), TokenScale()
        self.last: float | None = None
        self._prices, self._sizes = Prices(rules), TimelineSizes()
        self._open: TrialRequest | None = None
        self._previous: int | None = None  # tokens of the previous prompt
        self._grown = 0

    @property
    def grown(self) -> int:
        """By how many tokens a turn grows."""
        return self._grown // max(1, self.turns - 1)

    def is_cold(self, at: float | None) -> bool:
        """Tell whether the cache has surely forgotten the session by then."""
        return self.cache.is_warm(None if at is None or self.last is None else at - self.last) is False

    def answered(self, at: float | None) -> None:
        """Take the time at which a turn began, or ended."""
        self.last = at if at is not None else self.last

    def open(self, event: TurnStarted, chain: Chain) -> TrialRequest:
        """Take a request that goes out; `chain` is the recorded one."""
        at, tokens = parse_timestamp(event.at), self._sizes.tokens_of(chain.entries)
        pause = None if at is None or self.last is None else at - self.last
        self._open = opened = TrialRequest(event.turn, at, chain.model, tokens, pause, chain.params)
        self.turn = event.turn
        self.answered(at)
        return opened

    def close(self, chain: Chain) -> BilledTurn | None:
        """Take the end of the request that is out: what was billed for it; None where none is."""
        opened, self._open = self._open, None
        if opened is None:
            return None
        opened = opened._replace(model=opened.model or chain.model)
        self.turns += 1
        last, known = chain.last, self.turns - 1 - self.unbilled  # turns before it that were billed
        bill = last.usage if last is not None and last.turn == opened.number else None
        whole = None if bill is None or unbelievable(bill) else total(bill)
        if bill is None or whole is None:
            self.unbilled += 1
            self.scale = self.scale if known else TokenScale(overhead(chain))
            whole = self.scale.prompt(opened.tokens)
            lives = self._prices.cache(opened.model, opened.at, whole).lives
            bill = foreseen(whole, self._previous, opened.pause, lives)
        else:
            self.scale = TokenScale.of(whole, opened.tokens, self.scale.head if known else None)
            self._prices.learn(bill)
        self._grown += max(0, whole - (self._previous or whole))
        self._previous = whole
        self.cache = self.cache_of(opened, whole, bill)
        cost = _cost(bill, self.cache.price)
        self.unpriced += cost is None
        partial = bill is not None and self._prices.is_partial(bill)
        self.ledger.add(whole, bill, cost, self.cache.price, partial=partial)
        return BilledTurn(opened, whole, bill, self.cache.price, cost, partial)

    def cache_of(self, request: TrialRequest, size: int, bill: Usage | None) -> Cache:
        """Return the cache of a request whose prompt has so many tokens."""
        return self._prices.cache(request.model, request.at, size, bill=bill, params=request.params)


@dataclass(slots=True)
class TrialFiring:
    """A firing, and what came of it so far: `saved` over `turns`, None once a turn's cost was not known."""

    fired: FiredTrigger  # its cost is of when it fired
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

    def result(self) -> FiredTrigger:
        """Return it as results hold it."""
        cost = cost_of(self.sizes, self.cache, self.warm, self.summary)
        if self.turns:
            cost = replace(cost, saved=dollars(self.saved), turns=self.turns)
        return replace(self.fired, cost=cost)


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


class TrialPlan:
    """A session with the compactions of a policy. `pause` is the longest that ended when somebody spoke, in seconds;
    `refused` counts firings that prune nothing, since the prompt would not have become shorter.

    `_added` are the tokens that compactions put in and that are still there, outside context included (`_context`: it
    is counted without events, no source was asked). `_rewritten`: no request has gone out since something was pruned or
    cut. `_new` are the tokens that were added without pruning since the last request.
    """

    def __init__(
        self, empty: FoldedSession, settings: Compaction, rules: DatedRules, recorded: RecordedSide, moment: Moment
    ) -> None:  # fmt: skip
        self.moment: Moment = moment
        self.tracker, self.ledger = SessionActivity(), TrialLedger(settings.window)
        self.firings: list[TrialFiring] = []
        self.refused = 0
        self.pause: float | None = None
        self._settings, self._rules, self._recorded = settings, rules, recorded
        self._folding, self._sizes = Folding(empty), TimelineSizes()
        self._gone: set[str] = set()
        self._added = self._context = self._new = 0
        self._rewritten = self._waits = False
        self._change = PromptChange(0, 0, 0)  # of the request that is out, in estimates

    def take(self, event: Event) -> None:
        """Apply an event of the recording. What it says of items that are gone here changes nothing."""
        self.tracker.add(event)
        if isinstance(event, CompactApplied):
            self._added = self._context = 0
            if self._gone:  # of what is kept nothing may be left, and then it keeps nothing
                stay = tuple([uuid for uuid in event.preserved_uuids or () if uuid not in self._gone])
                event = replace(event, preserved_uuids=stay)
        elif isinstance(event, Append):
            self._gone.discard(event.item.uuid)
        self._folding.apply(event)

    def _tokens(self, name: str) -> int:
        """Estimate a chain's timeline in tokens, outside context too. Costs O(what changed since it was last asked)."""
        return self._sizes.tokens_of(self._folding.chain(name).entries) + self._context

    def wake(self, chain: str, at: float | None) -> None:
        """Fire what has waited for a cold cache, if it is cold by now."""
        if self._waits and self._recorded.is_cold(at):
            self.ask(("manual",), chain, at, called="cadence")

    def ask(
        self, triggers: Collection[Trigger], name: str, at: float | None, *, agent: str | None = None,
        called: Trigger | None = None,
    ) -> None:  # fmt: skip
        """Ask the policy about a chain, and apply what is due; `called` is the trigger's name in the results."""
        chain, settings = settled(self._folding.chain(name)), self._settings
        if "gap" in triggers:
            pause = pause_before_message(PolicyInput(self.tracker.chain(name), chain.entries, settings, at, agent))
            self.pause = max((length for length in (self.pause, pause) if length is not None), default=None)
        firing = judge_chain(
            self.tracker, chain, settings, triggers, now=at, agent=agent, scale=self._recorded.scale,
            tokens=self._tokens(name),
        )  # fmt: skip
        if firing is None:
            self._waits = self._waits and called is None
        elif firing.trigger == "cadence" and self.moment == "later" and not self._recorded.is_cold(at):
            self._waits = True
        else:
            self._waits = False
            self._fire(firing._replace(trigger=called or firing.trigger), chain, at)

    def _fire(self, firing: Firing, chain: Chain, at: float | None) -> None:
        recorded, settings, scale = self._recorded, self._settings, self._recorded.scale
        firing, summary, refused, *_ = find_shorter_stage(
            chain, firing, settings, lambda _, request: (EXTRACTIVE.summarize(request).text,), tell=silent
        )
        self.refused += bool(refused)
        if not (firing.cut.place or firing.shortened or firing.window):
            return
        gone, stay = pruned_entries(chain.entries, firing.cut), kept_entries(chain.entries, firing.cut)
        before = self._tokens(chain.id)
        # Sources that are asked alone leave one event, whatever they say: a space stands for it.
        unsaid = " " if firing.window is not None and not gone else None
        stamp = None if at is None else format_timestamp(at)
        for event in compaction_events(self._folding.state(), chain.id, firing, summary, unsaid, at=stamp):
            self.tracker.add(event)
            self._folding.apply(event)
        context = most_context(settings) if settings.context_sources and firing.window is not None else 0
        self._gone.update(entry.item.uuid for entry in gone)
        if gone:
            spelled = in_tokens(len(encode(summary)) - 2)  # as the timeline counts it
            self._added, self._context, self._new = spelled + context, context, 0
        else:  # results were cut, or sources asked alone: what was put in before still stands
            self._added, self._context, self._new = self._added + context, self._context + context, self._new + context
        self._rewritten = self._rewritten or not context or bool(gone)
        rewrites = bool(gone or firing.shortened)
        head = scale.head if rewrites else scale.prompt(before)
        sizes = PromptSizes(scale.prompt(before), scale.prompt(self._tokens(chain.id)), head, recorded.grown)
        paid = summary_price(self._rules, settings, sizes.before - sizes.head if gone else 0, recorded.last)
        fired = FiredTrigger(
            trigger=firing.trigger, turn=recorded.turn, at=at, kept=messages(stay), pruned=messages(gone),
            context_tokens=None if context else 0, before_tokens=sizes.before, after_tokens=sizes.after,
            cost=cost_of(sizes, recorded.cache, None, paid),
        )  # fmt: skip
        self.firings.append(TrialFiring(fired, sizes, recorded.cache, paid, rewrites))

    def open(self, request: TrialRequest, chain: str) -> None:
        """Take a request that goes out."""
        if self.firings and (self._rewritten or self._new):
            self.firings[-1].warm = self._recorded.cache.is_warm(request.pause)
        removed = max(0, request.tokens - (self._tokens(chain) - self._added))
        self._change = PromptChange(0, removed, self._added, self._rewritten, self._new)
        self._rewritten, self._new = False, 0

    def close(self, turn: BilledTurn) -> None:
        """Take what the recorded request was billed, and add what this one would have been."""
        size, bill, price, cost = turn.tokens, turn.bill, turn.price, turn.cost
        if self.firings:
            scale, seen = self._recorded.scale, self._change
            removed, added, new = (round(count * scale.rate) for count in (seen.removed, seen.added, seen.new))
            size = max(0, size - removed + added)
            change = PromptChange(scale.head, removed, added, seen.rewritten, new)
            price = self._recorded.cache_of(turn.request, size, turn.bill).price
            bill = None if turn.bill is None else rebilled(turn.bill, change)
            cost = None if turn.cost is None else _cost(bill, price)
            self.firings[-1].follow(turn.cost, cost)
        self.ledger.add(size, bill, cost, price, partial=turn.partial)

    @property
    def summaries(self) -> Decimal | None:
        """What its summaries cost; None where that is not known."""
        return known_sum(*[firing.summary for firing in self.firings])

    @property
    def cost(self) -> Decimal | None:
        """What it costs with its summaries; None where that is not known."""
        return known_sum(self.ledger.cost, self.summaries)


def totals_of(recorded: RecordedSide, plan: TrialPlan, compactions: int, settings: Compaction) -> CompactedTotals:
    """Return the sums, recorded and under a plan; `compactions` are those of the recording."""
    before, after, summaries = recorded.ledger.cost, plan.ledger.cost, plan.summaries
    saved = None if before is None or after is None else before - after
    figures = "estimated" if recorded.unbilled else "recorded"
    return CompactedTotals(
        turns=recorded.turns, unbilled=recorded.unbilled, unpriced=recorded.unpriced, recorded=compactions,
        fired=len(plan.firings), refreshed=sum(not firing.rewrites for firing in plan.firings),
        without=recorded.ledger.side(figures), summaries=dollars(summaries), saved_without_summaries=dollars(saved),
        compacted=plan.ledger.side("estimated" if plan.firings else figures),
        saved=None if saved is None or summaries is None else dollars(saved - summaries),
        overfull=(recorded.ledger.overfull, plan.ledger.overfull) if settings.window else None,
    )  # fmt: skip


def rebilled(bill: Usage, change: PromptChange) -> Usage | None:
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


def foreseen(size: int, stood: int | None, pause: float | None, lives: float | None) -> Usage | None:
    """Return what a turn without a bill was probably billed; `stood` is None for a chain's first. None: not known."""
    read = 0
    if stood is not None:
        if pause is None or lives is None:
            return None
        read = min(stood, size) if pause <= lives else 0
    hour = size - read if lives is not None and lives == ONE_HOUR else None
    return Usage(uncached_tokens=0, read_tokens=read, write_tokens=size - read, write_1h_tokens=hour)


def _cost(bill: Usage | None, price: Price | None) -> Decimal | None:
    """Return what a bill cost; where its output is not known, its input."""
    if bill is None or price is None:
        return None
    return price.of(bill if bill.output_tokens is not None else replace(bill, output_tokens=0))
