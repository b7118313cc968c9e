"""Apply a policy to a copy of a recorded session, and compute what each turn would have cost.

The copy is folded next to the recorded session, with compactions of its own. A recorded event about items that the
policy has pruned changes nothing; a recorded compaction stays, and keeps those of its items that are still there.
`moment` says when a cadence compacts: at once ("now"), or in the first pause longer than the cache's lifetime
("later"). Costs O(1) per event and O(items) per compaction.

The recorded side is what was billed. The usage of a turn without any is predicted from times and lifetimes, and marked
as estimated. The other side is this usage without the pruned tokens (`usage_after_pruning`). The head (tools, system
prompt) is what the first usage has beyond the timeline; the latest usage says how many bytes a token has.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET, Raw
from msgspec.structs import replace

from lore.cache.counts import ONE_HOUR, reason_to_doubt, total
from lore.cache.prices import Price
from lore.cache.rules import DatedRules
from lore.compaction.activity import SessionActivity
from lore.compaction.base import Firing, Trigger
from lore.compaction.costs import (
    FREE,
    CacheCosts,
    CostLookup,
    Moment,
    PromptSizes,
    TokenScale,
    add_known,
    compaction_cost,
    dollars,
    summary_price,
)
from lore.compaction.entries import TimelineSizes, count_messages, head_tokens, tokens_of_size
from lore.compaction.executor import compaction_events, find_shorter_stage, judge_chain
from lore.compaction.extractive import Extractive
from lore.compaction.policy import FULL, PolicyInput, kept_entries, pause_before_message, pruned_entries
from lore.compaction.settings import Compaction
from lore.fold.step import Folding
from lore.judge.base import added
from lore.model.canonical import encode
from lore.model.events import Append, CompactApplied, Event, TurnStarted, Usage
from lore.model.results import UsageResult
from lore.model.results.compact import CompactedSide, CompactedTotals, Figures, FiredTrigger
from lore.model.state import Chain, FoldedSession, settled
from lore.model.times import format_timestamp, parse_timestamp
from lore.store.registry import ignore
from lore.untrusted import SourceText, context_refresh

_EXTRACTIVE = Extractive()
_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


def most_context(settings: Compaction) -> int:
    """Return the most tokens that outside sources may add: their cap, and the boundary lines of each."""
    empty = [SourceText(source.name, "") for source in settings.context_sources]
    wraps = context_refresh(empty, session_id="", key=b"any", at=0.0)
    return settings.context_token_cap + tokens_of_size(len(wraps.encode()))


class SideTotals:
    """Sums over the turns of one side; values that are unknown for a turn are left out."""

    def __init__(self, window: int) -> None:
        self.prompts = 0  # tokens of all prompts
        self.largest = 0  # tokens of the longest prompt
        self.overfull = 0  # prompts above 90 % of the window
        self.cost: Decimal | None = None
        self._window = window
        self._counts: dict[str, int | None] = dict.fromkeys(_COUNTS)
        self._has_partial_output = False
        self._cost_by_price: dict[str, Decimal] = {}

    def add(
        self, tokens: int, usage: Usage | None, cost: Decimal | None, price: Price | None, *, partial: bool
    ) -> None:  # fmt: skip
        """Add a turn: its prompt's tokens, its usage and cost, and whether its output count is partial."""
        self.prompts += tokens
        self._has_partial_output = self._has_partial_output or partial
        self.largest = max(self.largest, tokens)
        self.overfull += self._window > 0 and 100 * tokens > FULL * self._window
        for name in _COUNTS:
            self._counts[name] = added([self._counts[name], None if usage is None else getattr(usage, name)])
        if usage is not None and cost is not None and price is not None:
            self.cost = cost + (self.cost or 0)
            for kind, amount in price.parts(usage).items():
                self._cost_by_price[kind] = self._cost_by_price.get(kind, Decimal(0)) + amount

    def result(self, figures: Figures) -> CompactedSide:
        """Return the sums as a result."""
        usage = UsageResult(**self._counts, partial_output=True if self._has_partial_output else UNSET)
        return CompactedSide(
            figures=figures, prompt_tokens=self.prompts, largest_tokens=self.largest, billed=usage,
            cost=dollars(self.cost),
            by_price={kind: float(round(amount, 6)) for kind, amount in sorted(self._cost_by_price.items())},
        )  # fmt: skip


class TrialRequest(NamedTuple):
    """A request that was sent."""

    turn: int
    at: float | None
    model: str | None  # the one it asked: another may be chosen before its usage is known
    tokens: int  # estimated, of its timeline
    pause: float | None  # seconds since the previous turn
    params: Raw


class TrialTurn(NamedTuple):
    """A turn of the recording."""

    request: TrialRequest
    tokens: int  # of its prompt
    usage: Usage | None  # recorded or predicted
    price: Price | None
    cost: Decimal | None
    partial: bool  # its output count is partial


class RecordedSide:
    """What is known of the recorded main chain when a policy is asked."""

    def __init__(self, rules: DatedRules, window: int) -> None:
        self.totals = SideTotals(window)
        self.turn = 0  # number of the latest turn
        self.turns = self.without_usage = self.without_cost = 0
        self.costs, self.scale = CacheCosts(None), TokenScale()
        self.last: float | None = None  # when a turn last began or ended
        self._lookup, self._sizes = CostLookup(rules), TimelineSizes()
        self._open: TrialRequest | None = None
        self._previous: int | None = None  # tokens of the previous prompt
        self._total_growth = 0

    @property
    def growth(self) -> int:
        """The tokens that a turn adds, on average."""
        return self._total_growth // max(1, self.turns - 1)

    def is_cold(self, at: float | None) -> bool:
        """Return whether the cache has certainly expired by then."""
        return self.costs.is_warm(None if at is None or self.last is None else at - self.last) is False

    def note_time(self, at: float | None) -> None:
        """Note when a turn began or ended."""
        self.last = at if at is not None else self.last

    def open_turn(self, event: TurnStarted, chain: Chain) -> TrialRequest:
        """Note a request on the recorded chain."""
        at, tokens = parse_timestamp(event.at), self._sizes.tokens_of(chain.entries)
        pause = None if at is None or self.last is None else at - self.last
        self._open = request = TrialRequest(event.turn, at, chain.model, tokens, pause, chain.params)
        self.turn = event.turn
        self.note_time(at)
        return request

    def close_turn(self, chain: Chain) -> TrialTurn | None:
        """Return the open turn with its usage; None if no turn is open."""
        request, self._open = self._open, None
        if request is None:
            return None
        request = request._replace(model=request.model or chain.model)
        self.turns += 1
        last, known = chain.last, self.turns - 1 - self.without_usage  # earlier turns whose usage is known
        usage = last.usage if last is not None and last.turn == request.turn else None
        tokens = None if usage is None or reason_to_doubt(usage) else total(usage)
        if usage is None or tokens is None:
            self.without_usage += 1
            self.scale = self.scale if known else TokenScale(head_tokens(chain))
            tokens = self.scale.prompt(request.tokens)
            lifetime = self._lookup.costs(request.model, request.at, tokens).lifetime
            usage = predict_usage(tokens, self._previous, request.pause, lifetime)
        else:
            self.scale = TokenScale.of(tokens, request.tokens, self.scale.head if known else None)
            self._lookup.note_lifetime(usage)
        self._total_growth += max(0, tokens - (self._previous or tokens))
        self._previous = tokens
        self.costs = self.request_costs(request, tokens, usage)
        cost = _input_cost(usage, self.costs.price)
        self.without_cost += cost is None
        partial = usage is not None and self._lookup.is_partial(usage)
        self.totals.add(tokens, usage, cost, self.costs.price, partial=partial)
        return TrialTurn(request, tokens, usage, self.costs.price, cost, partial)

    def request_costs(self, request: TrialRequest, size: int, usage: Usage | None) -> CacheCosts:
        """Return the costs of a request whose prompt has `size` tokens."""
        return self._lookup.costs(request.model, request.at, size, usage=usage, params=request.params)


@dataclass(slots=True)
class TrialFiring:
    """A compaction of the policy, and what it has saved so far."""

    fired: FiredTrigger  # with its cost at the time
    sizes: PromptSizes
    costs: CacheCosts
    summary: Decimal | None
    changes_history: bool = True
    warm: bool | None = None  # whether the next request found a warm cache
    saved: Decimal | None = FREE  # None once a turn's cost was unknown
    turns: int = 0  # over which it was saved

    def add_turn(self, recorded: Decimal | None, compacted: Decimal | None) -> None:
        """Add the cost of a turn after it, as recorded and with the policy."""
        self.turns += 1
        if self.saved is None or recorded is None or compacted is None:
            self.saved = None
        else:
            self.saved += recorded - compacted

    def result(self) -> FiredTrigger:
        """Return it as a result."""
        cost = compaction_cost(self.sizes, self.costs, self.warm, self.summary)
        if self.turns:
            cost = replace(cost, saved=dollars(self.saved), turns=self.turns)
        return replace(self.fired, cost=cost)


class PromptChange(NamedTuple):
    """How a prompt differs from the recorded one, in tokens."""

    head: int  # comes first in both
    removed: int  # recorded tokens after the head that are gone
    added: int  # tokens in their place
    rewritten: bool = False  # it is the first prompt since the compaction
    new: int = 0  # added tokens that are sent for the first time


class TrialPlan:
    """A copy of the session with the compactions of a policy."""

    def __init__(
        self, empty: FoldedSession, settings: Compaction, rules: DatedRules, recorded: RecordedSide, moment: Moment
    ) -> None:  # fmt: skip
        self.moment: Moment = moment
        self.activity, self.totals = SessionActivity(), SideTotals(settings.window)
        self.firings: list[TrialFiring] = []
        self.refused = 0  # compactions that would not have made the prompt shorter
        self.pause: float | None = None  # longest pause before a message, in seconds
        self._settings, self._rules, self._recorded = settings, rules, recorded
        self._folding, self._sizes = Folding(empty), TimelineSizes()
        self._pruned: set[str] = set()  # uuids
        self._added = 0  # tokens that compactions added and that are still there, outside context included
        self._context = 0  # those of outside context, which has no events here: no source is asked
        self._new = 0  # tokens added without pruning since the last request
        self._is_rewritten = False  # something was pruned or shortened since the last request
        self._is_waiting = False  # a cadence waits for a cold cache
        self._change = PromptChange(0, 0, 0)  # of the open request, in estimated tokens

    def apply(self, event: Event) -> None:
        """Apply an event of the recording."""
        self.activity.add(event)
        if isinstance(event, CompactApplied):
            self._added = self._context = 0
            if self._pruned:
                kept = tuple([uuid for uuid in event.preserved_uuids or () if uuid not in self._pruned])
                event = replace(event, preserved_uuids=kept)
        elif isinstance(event, Append):
            self._pruned.discard(event.item.uuid)
        self._folding.apply(event)

    def _tokens(self, chain: str) -> int:
        """Estimate a chain's timeline with outside context. Costs O(changes since the last call)."""
        return self._sizes.tokens_of(self._folding.chain(chain).entries) + self._context

    def fire_if_cold(self, chain: str, at: float | None) -> None:
        """Carry out a cadence that waits for a cold cache, if the cache is cold now."""
        if self._is_waiting and self._recorded.is_cold(at):
            self.ask(("manual",), chain, at, reported_as="cadence")

    def ask(
        self, triggers: Collection[Trigger], name: str, at: float | None, *, agent: str | None = None,
        reported_as: Trigger | None = None,
    ) -> None:  # fmt: skip
        """Ask the policy about a chain, and carry out what is due."""
        chain, settings = settled(self._folding.chain(name)), self._settings
        if "gap" in triggers:
            inputs = PolicyInput(self.activity.chain(name), chain.entries, settings, at, agent)
            pauses = (self.pause, pause_before_message(inputs))
            self.pause = max((pause for pause in pauses if pause is not None), default=None)
        firing = judge_chain(
            self.activity, chain, settings, triggers, now=at, agent=agent, scale=self._recorded.scale,
            tokens=self._tokens(name),
        )  # fmt: skip
        if firing is None:
            self._is_waiting = self._is_waiting and reported_as is None
        elif firing.trigger == "cadence" and self.moment == "later" and not self._recorded.is_cold(at):
            self._is_waiting = True
        else:
            self._is_waiting = False
            self._fire(firing._replace(trigger=reported_as or firing.trigger), chain, at)

    def _fire(self, firing: Firing, chain: Chain, at: float | None) -> None:
        recorded, settings, scale = self._recorded, self._settings, self._recorded.scale
        firing, summary, refused, *_ = find_shorter_stage(
            chain, firing, settings, lambda _, request: (_EXTRACTIVE.summarize(request).text,), tell=ignore
        )
        self.refused += bool(refused)
        if not (firing.cut.place or firing.shortened or firing.window):
            return
        pruned, kept = pruned_entries(chain.entries, firing.cut), kept_entries(chain.entries, firing.cut)
        before = self._tokens(chain.id)
        # Sources that are asked alone add one event, whatever they answer: a space stands for the answer.
        answer = " " if firing.window is not None and not pruned else None
        stamp = None if at is None else format_timestamp(at)
        for event in compaction_events(self._folding.state(), chain.id, firing, summary, answer, at=stamp):
            self.activity.add(event)
            self._folding.apply(event)
        context = most_context(settings) if settings.context_sources and firing.window is not None else 0
        self._pruned.update(entry.item.uuid for entry in pruned)
        if pruned:
            added_tokens = tokens_of_size(len(encode(summary)) - 2)  # as the timeline counts it
            self._added, self._context, self._new = added_tokens + context, context, 0
        else:  # results were shortened, or only sources asked: what was added before is still there
            self._added, self._context, self._new = self._added + context, self._context + context, self._new + context
        self._is_rewritten = self._is_rewritten or not context or bool(pruned)
        changes_history = bool(pruned or firing.shortened)
        head = scale.head if changes_history else scale.prompt(before)
        sizes = PromptSizes(scale.prompt(before), scale.prompt(self._tokens(chain.id)), head, recorded.growth)
        price = summary_price(self._rules, settings, sizes.before - sizes.head if pruned else 0, recorded.last)
        fired = FiredTrigger(
            trigger=firing.trigger, turn=recorded.turn, at=at, kept=count_messages(kept), pruned=count_messages(pruned),
            context_tokens=None if context else 0, before_tokens=sizes.before, after_tokens=sizes.after,
            cost=compaction_cost(sizes, recorded.costs, None, price),
        )  # fmt: skip
        self.firings.append(TrialFiring(fired, sizes, recorded.costs, price, changes_history))

    def open_turn(self, request: TrialRequest, chain: str) -> None:
        """Note that a request is sent."""
        if self.firings and (self._is_rewritten or self._new):
            self.firings[-1].warm = self._recorded.costs.is_warm(request.pause)
        removed = max(0, request.tokens - (self._tokens(chain) - self._added))
        self._change = PromptChange(0, removed, self._added, self._is_rewritten, self._new)
        self._is_rewritten, self._new = False, 0

    def close_turn(self, turn: TrialTurn) -> None:
        """Add what the recorded turn would have cost with the policy."""
        size, usage, price, cost = turn.tokens, turn.usage, turn.price, turn.cost
        if self.firings:
            scale, change = self._recorded.scale, self._change
            removed, added_tokens, new = (round(n * scale.rate) for n in (change.removed, change.added, change.new))
            size = max(0, size - removed + added_tokens)
            change = PromptChange(scale.head, removed, added_tokens, change.rewritten, new)
            price = self._recorded.request_costs(turn.request, size, turn.usage).price
            usage = None if turn.usage is None else usage_after_pruning(turn.usage, change)
            cost = None if turn.cost is None else _input_cost(usage, price)
            self.firings[-1].add_turn(turn.cost, cost)
        self.totals.add(size, usage, cost, price, partial=turn.partial)

    @property
    def summaries(self) -> Decimal | None:
        """The cost of its summaries; None if it is unknown."""
        return add_known(*[firing.summary for firing in self.firings])

    @property
    def cost(self) -> Decimal | None:
        """The cost of all turns and summaries; None if it is unknown."""
        return add_known(self.totals.cost, self.summaries)


def trial_totals(recorded: RecordedSide, plan: TrialPlan, compactions: int, settings: Compaction) -> CompactedTotals:
    """Return the sums of both sides; `compactions` is the number of recorded ones."""
    before, after, summaries = recorded.totals.cost, plan.totals.cost, plan.summaries
    saved = None if before is None or after is None else before - after
    figures = "estimated" if recorded.without_usage else "recorded"
    return CompactedTotals(
        turns=recorded.turns, unbilled=recorded.without_usage, unpriced=recorded.without_cost, recorded=compactions,
        fired=len(plan.firings), refreshed=sum(not firing.changes_history for firing in plan.firings),
        without=recorded.totals.result(figures), summaries=dollars(summaries), saved_without_summaries=dollars(saved),
        compacted=plan.totals.result("estimated" if plan.firings else figures),
        saved=None if saved is None or summaries is None else dollars(saved - summaries),
        overfull=(recorded.totals.overfull, plan.totals.overfull) if settings.window else None,
    )  # fmt: skip


def usage_after_pruning(usage: Usage, change: PromptChange) -> Usage | None:
    """Return the usage of a turn whose prompt is changed; None if `usage` does not say how long its prompt was."""
    tokens = total(usage)
    if tokens is None:
        return None
    if change.removed == change.added == 0 and not change.rewritten:
        return usage
    head = min(change.head, tokens)
    removed = min(change.removed, tokens - head)
    size, read = tokens - removed + change.added, usage.read_tokens or 0
    read_after_removed = read - head - removed
    if change.rewritten or read_after_removed < 0 or read_after_removed == removed == 0:
        read = min(read, head)
    else:
        read += change.added - change.new - removed
    if usage.write_tokens is None:
        return replace(usage, read_tokens=read, uncached_tokens=size - read)
    uncached = min(usage.uncached_tokens or 0, size - read)
    write = size - read - uncached
    if not usage.write_tokens and usage.uncached_tokens:  # nothing was cached: no breakpoints, or too short a prompt
        uncached, write = uncached + write, 0
    hour = usage.write_1h_tokens
    if hour:
        hour = write * hour // usage.write_tokens if usage.write_tokens else write
    short = None if usage.write_5m_tokens is None else write - (hour or 0)
    return replace(
        usage, read_tokens=read, uncached_tokens=uncached, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=short,
    )  # fmt: skip


def predict_usage(size: int, previous: int | None, pause: float | None, lifetime: float | None) -> Usage | None:
    """Return the probable usage of a prompt of `size` tokens; None if it cannot be predicted.

    `previous` is the length of the previous prompt, None for a chain's first one.
    """
    read = 0
    if previous is not None:
        if pause is None or lifetime is None:
            return None
        read = min(previous, size) if pause <= lifetime else 0
    hour = size - read if lifetime is not None and lifetime == ONE_HOUR else None
    return Usage(uncached_tokens=0, read_tokens=read, write_tokens=size - read, write_1h_tokens=hour)


def _input_cost(usage: Usage | None, price: Price | None) -> Decimal | None:
    """Return the cost of a usage, without output if that count is unknown."""
    if usage is None or price is None:
        return None
    return price.of(usage if usage.output_tokens is not None else replace(usage, output_tokens=0))
