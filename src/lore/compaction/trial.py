"""Compute what a policy would have done to a recorded session: when it fires, what that costs and saves.

The policy is asked when a harness would ask it (after each finished turn, when a person speaks, before each turn). A
copy of the session is folded next to the recorded one, and each compaction is applied to it before the next one is
sought. A recorded event about items that the policy has pruned changes nothing; a recorded compaction stays, and keeps
those of its items that are still there. The summary is the extractive one; outside sources are not asked, and counted
with the most tokens that they may add. Only the main chain is considered. Costs O(1) per event and O(items) per
compaction.

The recorded side is the recorded usage. A turn without usage gets a predicted one, from times and lifetimes, and is
marked as estimated. The other side is this usage without the pruned tokens (`usage_after_pruning`). The head (tools,
system prompt) is the part of the first usage beyond the timeline; the latest usage says how many bytes a token has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from msgspec import UNSET, Raw
from msgspec.structs import replace

from lore.cache.counts import ONE_HOUR, reason_to_doubt, total
from lore.cache.prices import Price
from lore.cache.rules import DatedRules
from lore.compaction import costs as c
from lore.compaction.activity import TURN_ENDS, SessionActivity
from lore.compaction.base import Firing, Trigger
from lore.compaction.entries import TimelineSizes, count_messages, head_tokens, tokens_of_size
from lore.compaction.executor import compaction_events, find_shorter_stage, judge_chain
from lore.compaction.extractive import Extractive
from lore.compaction.policy import AFTER_TURN, FULL, PolicyInput, kept_entries, pause_before_message, pruned_entries
from lore.compaction.settings import Compaction
from lore.fold.step import Folding
from lore.formats.base import Read
from lore.judge.base import added
from lore.model.canonical import encode
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnStarted, Usage
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results import UsageResult
from lore.model.results.compact import CompactedSide, CompactedTotals, Figures, FiredTrigger
from lore.model.state import Chain, FoldedSession, settled
from lore.model.times import format_timestamp, parse_timestamp
from lore.prompt.layout import is_real
from lore.store.base import Tell
from lore.untrusted import SourceText, context_refresh

_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class TrialOutcome(NamedTuple):
    """What a policy would have done to a session."""

    settings: Compaction
    moment: c.Moment  # the cheaper one
    triggers: list[FiredTrigger]
    totals: CompactedTotals
    exchanges: int
    is_timed: bool  # the time of an exchange is known
    pause: float | None  # longest pause before a message, in seconds
    refused: int  # compactions that would not have made the prompt shorter


def order_turn_ends(reads: Iterable[Read]) -> Iterator[tuple[Read, Event]]:
    """Yield reads with their events in order, except that a turn's end comes before user messages after its answer.

    Some logs write the end of a turn only once the next one begins. Holds back a person's messages before that.
    """
    held: list[tuple[Read, Event]] = []
    is_answered: dict[str, bool] = {}  # by chain with an open request: whether its answer called no tools
    for read in reads:
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        placed, chain = (read, event), event.chain
        item = event.item if isinstance(event, Append) else None
        answers = isinstance(item, AssistantMessage | ToolCall)
        if held and chain == held[0][1].chain and (answers or isinstance(event, (TurnStarted, *TURN_ENDS))):
            yield from (placed, *held) if isinstance(event, TURN_ENDS) else (*held, placed)
            held = []
        elif held or (is_answered.get(chain) and item is not None and is_real(item)):
            held.append(placed)
        else:
            yield placed
        if isinstance(event, TurnStarted) or (isinstance(item, AssistantMessage) and chain in is_answered):
            is_answered[chain] = item is not None
        elif isinstance(item, ToolCall) or isinstance(event, TURN_ENDS):
            is_answered.pop(chain, None)
    yield from held


class Trial:
    """Tries a policy: call `before` and `after` around applying each event to the recorded session, then `result`.

    `recorded` returns the recorded session as it is now, an empty one before the first event. If the cheapest moment is
    asked for, a second plan waits with its cadences for a cold cache. `tell` receives each decision of the first plan.
    """

    def __init__(
        self, recorded: Callable[[], FoldedSession], settings: Compaction, rules: DatedRules, tell: Tell | None = None
    ) -> None:
        self._recorded, self._settings = recorded, settings
        self._side = _RecordedSide(rules)
        moments: tuple[c.Moment, ...] = ("now", "later") if settings.when == "cheapest" else ("now",)
        self._plans = [
            _Plan(recorded(), settings, rules, self._side, moment, tell if moment == "now" else None)
            for moment in moments
        ]
        self._main: str | None = None
        self._turn_ended = False  # and the policy was not asked since
        self._gap_is_open = False  # a person spoke, and the time is not known yet
        self._compactions = 0

    def before(self, event: Event) -> None:
        """Ask the policy before an event is applied."""
        if isinstance(event, Append | TurnStarted):
            self._main = event.chain if self._main is None or event.chain == MAIN else self._main
        is_turn, is_message = isinstance(event, TurnStarted), isinstance(event, Append) and is_real(event.item)
        if event.chain != self._main or not (is_turn or is_message):
            return
        at = parse_timestamp(event.at)
        for plan in self._plans:
            plan.name = event.chain
        self._ask_after_turn()
        if is_turn:
            self._close_turn()
        self._gap_is_open = self._gap_is_open or is_message
        for plan in self._plans if self._gap_is_open and at is not None else ():
            plan.fire_if_cold(at)
            plan.ask(("gap",), at, agent=event.agent_id)
        self._gap_is_open = self._gap_is_open and at is None and not is_turn
        for plan in self._plans if is_turn else ():
            plan.fire_if_cold(at)
            plan.ask(("overflow",), at)

    def after(self, event: Event) -> None:
        """Apply an event that was applied to the recorded session."""
        for plan in self._plans:
            plan.apply(event)
        if event.chain != self._main:
            return
        self._compactions += isinstance(event, CompactApplied)
        if isinstance(event, TurnStarted):
            request = self._side.open_turn(event, self._chain())
            for plan in self._plans:
                plan.open_turn(request)
        elif isinstance(event, TURN_ENDS):
            self._turn_ended = True
            self._side.note_time(parse_timestamp(event.at))

    def result(self) -> TrialOutcome:
        """Return the outcome of the cheapest plan; of the first one, if a cost is unknown."""
        self._ask_after_turn()
        self._close_turn()
        costs = [plan.cost for plan in self._plans]
        known = [cost for cost in costs if cost is not None]
        plan = self._plans[costs.index(min(known)) if len(known) == len(costs) else 0]
        activity = plan.activity.chain(self._main or MAIN)
        return TrialOutcome(
            self._settings, plan.moment, plan.results(), self._totals(plan), activity.exchanges, activity.is_timed,
            plan.pause, plan.refused,
        )  # fmt: skip

    def _ask_after_turn(self) -> None:
        """Ask the policy after a turn, once its results are there."""
        if self._turn_ended:
            self._turn_ended = False
            self._close_turn()  # a compaction after the turn saves nothing of it
            for plan in self._plans:
                plan.ask(AFTER_TURN, self._side.last)

    def _close_turn(self) -> None:
        if (closed := self._side.close_turn(self._chain())) is not None:
            for plan in self._plans:
                plan.close_turn(*closed)

    def _chain(self) -> Chain:
        return self._recorded().chain(self._main or MAIN)

    def _totals(self, plan: _Plan) -> CompactedTotals:
        recorded, window = self._side.turns, self._settings.window
        unbilled = self._side.without_usage
        figures = "estimated" if unbilled else "recorded"
        before, after, summaries = total_cost(recorded), total_cost(plan.turns), plan.summaries
        saved = None if before is None or after is None else before - after
        full = [sum(100 * turn.tokens > FULL * window for turn in turns) for turns in (recorded, plan.turns)]
        return CompactedTotals(
            turns=len(recorded), unbilled=unbilled, unpriced=sum(turn.cost is None for turn in recorded),
            recorded=self._compactions, fired=len(plan.firings),
            refreshed=sum(not firing.changes_history for firing in plan.firings),
            without=_side_result(recorded, figures), summaries=c.dollars(summaries),
            compacted=_side_result(plan.turns, "estimated" if plan.firings else figures),
            saved_without_summaries=c.dollars(saved),
            saved=None if saved is None or summaries is None else c.dollars(saved - summaries),
            overfull=(full[0], full[1]) if window else None,
        )  # fmt: skip


class TurnCost(NamedTuple):
    """What one turn was billed, or would have been billed with the policy."""

    tokens: int  # of its prompt
    usage: Usage | None  # recorded or predicted
    price: Price | None
    cost: Decimal | None
    is_partial: bool  # its output count is partial


def total_cost(turns: Sequence[TurnCost]) -> Decimal | None:
    """Return the cost of the turns whose cost is known; None if none is known."""
    costs = [turn.cost for turn in turns if turn.cost is not None]
    return sum(costs, start=c.FREE) if costs else None


def _side_result(turns: Sequence[TurnCost], figures: Figures) -> CompactedSide:
    """Return the sums of turns; values that are unknown for a turn are left out."""
    usages = [turn.usage for turn in turns if turn.usage is not None]
    counts = {name: added([getattr(usage, name) for usage in usages]) for name in _COUNTS}
    is_partial = any(turn.is_partial for turn in turns)
    by_price: dict[str, Decimal] = {}
    for turn in turns:
        if turn.usage is not None and turn.cost is not None and turn.price is not None:
            for kind, amount in turn.price.parts(turn.usage).items():
                by_price[kind] = by_price.get(kind, c.FREE) + amount
    return CompactedSide(
        figures=figures, prompt_tokens=sum(turn.tokens for turn in turns),
        largest_tokens=max((turn.tokens for turn in turns), default=0), cost=c.dollars(total_cost(turns)),
        billed=UsageResult(**counts, partial_output=True if is_partial else UNSET),
        by_price={kind: float(round(amount, 6)) for kind, amount in sorted(by_price.items())},
    )  # fmt: skip


class _TrialRequest(NamedTuple):
    """A request that was sent."""

    turn: int
    at: float | None
    model: str | None  # the one it asked: another may be chosen before its usage is known
    tokens: int  # estimated, of its timeline
    pause: float | None  # seconds since the previous turn
    params: Raw


class _RecordedSide:
    """The recorded main chain at the time when a policy is asked."""

    def __init__(self, rules: DatedRules) -> None:
        self.turns: list[TurnCost] = []
        self.without_usage = 0  # turns
        self.turn = 0  # number of the latest turn
        self.last: float | None = None  # when a turn last began or ended
        self.costs, self.scale = c.CacheCosts(None), c.TokenScale()
        self._lookup, self._sizes = c.CostLookup(rules), TimelineSizes()
        self._open: _TrialRequest | None = None
        self._growth = 0  # tokens that all turns added

    @property
    def growth(self) -> int:
        """The tokens that a turn adds, on average."""
        return self._growth // max(1, len(self.turns) - 1)

    def is_cold(self, at: float | None) -> bool:
        """Return whether the cache has certainly expired by then."""
        return self.costs.is_warm(None if at is None or self.last is None else at - self.last) is False

    def note_time(self, at: float | None) -> None:
        """Note when a turn began or ended."""
        self.last = at if at is not None else self.last

    def open_turn(self, event: TurnStarted, chain: Chain) -> _TrialRequest:
        """Note a request on the recorded chain."""
        at, tokens = parse_timestamp(event.at), self._sizes.tokens_of(chain.entries)
        pause = None if at is None or self.last is None else at - self.last
        self._open = _TrialRequest(event.turn, at, chain.model, tokens, pause, chain.params)
        self.turn = event.turn
        self.note_time(at)
        return self._open

    def close_turn(self, chain: Chain) -> tuple[_TrialRequest, TurnCost] | None:
        """Return the open turn with its cost; None if no turn is open."""
        request, self._open = self._open, None
        if request is None:
            return None
        request = request._replace(model=request.model or chain.model)
        previous = self.turns[-1].tokens if self.turns else None
        is_measured = len(self.turns) > self.without_usage  # the usage of an earlier turn is known
        usage = chain.last.usage if chain.last is not None and chain.last.turn == request.turn else None
        tokens = None if usage is None or reason_to_doubt(usage) else total(usage)
        if usage is None or tokens is None:
            self.without_usage += 1
            self.scale = self.scale if is_measured else c.TokenScale(head_tokens(chain))
            tokens = self.scale.prompt(request.tokens)
            lifetime = self._lookup.costs(request.model, request.at, tokens).lifetime
            usage = predict_usage(tokens, previous, request.pause, lifetime)
        else:
            self.scale = c.TokenScale.of(tokens, request.tokens, self.scale.head if is_measured else None)
            self._lookup.note_lifetime(usage)
        self._growth += max(0, tokens - (previous or tokens))
        self.costs = self.request_costs(request, tokens, usage)
        is_partial = usage is not None and self._lookup.is_partial(usage)
        self.turns.append(TurnCost(tokens, usage, self.costs.price, _input_cost(usage, self.costs.price), is_partial))
        return request, self.turns[-1]

    def request_costs(self, request: _TrialRequest, size: int, usage: Usage | None) -> c.CacheCosts:
        """Return the costs of a request whose prompt has `size` tokens."""
        return self._lookup.costs(request.model, request.at, size, usage=usage, params=request.params)


@dataclass(slots=True)
class _Fired:
    """A compaction of the policy."""

    fired: FiredTrigger
    sizes: c.PromptSizes
    costs: c.CacheCosts  # at the time
    summary: Decimal | None  # its cost
    changes_history: bool
    first: int  # turns before it
    warm: bool | None = None  # whether the next request found a warm cache


class PromptChange(NamedTuple):
    """How a prompt differs from the recorded one, in tokens."""

    head: int  # comes first in both
    removed: int  # recorded tokens after the head that are gone
    added: int  # tokens in their place
    rewritten: bool = False  # it is the first prompt since the compaction
    new: int = 0  # added tokens that are sent for the first time


class _Plan:
    """A copy of the session with the compactions of a policy.

    `moment` says when a cadence compacts: at once ("now"), or in the first pause longer than the cache's lifetime.
    """

    def __init__(
        self, empty: FoldedSession, settings: Compaction, rules: DatedRules, recorded: _RecordedSide, moment: c.Moment,
        tell: Tell | None,
    ) -> None:  # fmt: skip
        self.moment: c.Moment = moment
        self.name = MAIN  # of the chain
        self.activity = SessionActivity()
        self.turns: list[TurnCost] = []
        self.firings: list[_Fired] = []
        self.refused = 0  # compactions that would not have made the prompt shorter
        self.pause: float | None = None  # longest pause before a message, in seconds
        self._settings, self._rules, self._recorded, self._tell = settings, rules, recorded, tell
        self._told: dict[str, str] = {}  # the last decision by trigger
        self._folding, self._sizes = Folding(empty), TimelineSizes()
        self._pruned: set[str] = set()  # uuids
        self._added = 0  # tokens that compactions added and that are still there, outside context included
        self._context = 0  # those of outside context, which has no events here: no source is asked
        self._new = 0  # tokens added without pruning since the last request
        self._is_rewritten = False  # something was pruned or shortened since the last request
        self._is_waiting = False  # a cadence waits for a cold cache
        self._change = PromptChange(0, 0, 0)  # of the open request, in estimated tokens

    @property
    def summaries(self) -> Decimal | None:
        """The cost of its summaries; None if it is unknown."""
        return c.add_known(*[firing.summary for firing in self.firings])

    @property
    def cost(self) -> Decimal | None:
        """The cost of all turns and summaries; None if it is unknown."""
        return c.add_known(total_cost(self.turns), self.summaries)

    def results(self) -> list[FiredTrigger]:
        """Return its compactions, each with what the turns up to the next one saved."""
        found: list[FiredTrigger] = []
        ends = [*[firing.first for firing in self.firings[1:]], len(self.turns)]
        for firing, end in zip(self.firings, ends, strict=False):
            cost = c.compaction_cost(firing.sizes, firing.costs, firing.warm, firing.summary)
            sides = [self._recorded.turns[firing.first : end], self.turns[firing.first : end]]
            before, after = (c.add_known(*[turn.cost for turn in turns]) for turns in sides)
            if end > firing.first:
                saved = None if before is None or after is None else before - after
                cost = replace(cost, saved=c.dollars(saved), turns=end - firing.first)
            found.append(replace(firing.fired, cost=cost))
        return found

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

    def fire_if_cold(self, at: float | None) -> None:
        """Carry out a cadence that waits for a cold cache, if the cache is cold now."""
        if self._is_waiting and self._recorded.is_cold(at):
            self.ask(("manual",), at, reported_as="cadence")

    def ask(
        self, triggers: Collection[Trigger], at: float | None, *, agent: str | None = None,
        reported_as: Trigger | None = None,
    ) -> None:  # fmt: skip
        """Ask the policy, and carry out its firing."""
        chain, settings = settled(self._folding.chain(self.name)), self._settings
        if "gap" in triggers:
            inputs = PolicyInput(self.activity.chain(self.name), chain.entries, settings, at, agent)
            pauses = (self.pause, pause_before_message(inputs))
            self.pause = max((pause for pause in pauses if pause is not None), default=None)
        firing = judge_chain(
            self.activity, chain, settings, triggers, now=at, agent=agent, scale=self._recorded.scale,
            tokens=self._tokens(), tell=None if self._tell is None else self._explain,
        )  # fmt: skip
        if firing is None:
            self._is_waiting = self._is_waiting and reported_as is None
        elif firing.trigger == "cadence" and self.moment == "later" and not self._recorded.is_cold(at):
            self._is_waiting = True
        else:
            self._is_waiting = False
            self._fire(firing._replace(trigger=reported_as or firing.trigger), chain, at)

    def _explain(self, decision: str) -> None:
        """Report a decision, unless it is the same as the last one about this trigger."""
        trigger = decision.partition(" ")[0]
        if self._tell is not None and self._told.get(trigger) != decision:
            self._told[trigger] = decision
            self._tell(f"after turn {self._recorded.turn}: {decision}")

    def _tokens(self) -> int:
        """Estimate the timeline with outside context. Costs O(changes since the last call)."""
        return self._sizes.tokens_of(self._folding.chain(self.name).entries) + self._context

    def _fire(self, firing: Firing, chain: Chain, at: float | None) -> None:
        recorded, settings, scale = self._recorded, self._settings, self._recorded.scale
        firing, summary, refused, *_ = find_shorter_stage(
            chain, firing, settings, lambda _, request: (Extractive().summarize(request).text,)
        )
        self.refused += bool(refused)
        if not (firing.cut.place or firing.shortened or firing.window):
            return
        pruned, kept = pruned_entries(chain.entries, firing.cut), kept_entries(chain.entries, firing.cut)
        before = self._tokens()
        # Sources that are asked alone add one event, whatever they answer: a space stands for the answer.
        answer = " " if firing.window is not None and not pruned else None
        stamp = None if at is None else format_timestamp(at)
        for event in compaction_events(self._folding.state(), chain.id, firing, summary, answer, at=stamp):
            self.activity.add(event)
            self._folding.apply(event)
        context = most_context(settings) if settings.context_sources and firing.window is not None else 0
        self._pruned.update(entry.item.uuid for entry in pruned)
        if pruned:  # earlier additions, too; the summary as the timeline counts it
            self._added, self._context = tokens_of_size(len(encode(summary)) - 2), 0
        self._added += context
        self._context += context
        self._new = 0 if pruned else self._new + context
        changes_history = bool(pruned or firing.shortened)
        self._is_rewritten = self._is_rewritten or not context or bool(pruned)
        head = scale.head if changes_history else scale.prompt(before)
        sizes = c.PromptSizes(scale.prompt(before), scale.prompt(self._tokens()), head, recorded.growth)
        price = c.summary_price(self._rules, settings, sizes.before - sizes.head if pruned else 0, recorded.last)
        fired = FiredTrigger(
            trigger=firing.trigger, turn=recorded.turn, at=at, kept=count_messages(kept), pruned=count_messages(pruned),
            context_tokens=None if context else 0, before_tokens=sizes.before, after_tokens=sizes.after,
            cost=c.compaction_cost(sizes, recorded.costs, None, price),
        )  # fmt: skip
        self.firings.append(_Fired(fired, sizes, recorded.costs, price, changes_history, len(self.turns)))

    def open_turn(self, request: _TrialRequest) -> None:
        """Note that a request is sent."""
        if self.firings and (self._is_rewritten or self._new):
            self.firings[-1].warm = self._recorded.costs.is_warm(request.pause)
        removed = max(0, request.tokens - (self._tokens() - self._added))
        self._change = PromptChange(0, removed, self._added, self._is_rewritten, self._new)
        self._is_rewritten, self._new = False, 0

    def close_turn(self, request: _TrialRequest, turn: TurnCost) -> None:
        """Add what the recorded turn would have cost with the policy."""
        if self.firings:
            scale, change = self._recorded.scale, self._change
            removed, tokens, new = (round(n * scale.rate) for n in (change.removed, change.added, change.new))
            change = PromptChange(scale.head, removed, tokens, change.rewritten, new)
            size = max(0, turn.tokens - removed + tokens)
            price = self._recorded.request_costs(request, size, turn.usage).price
            usage = None if turn.usage is None else usage_after_pruning(turn.usage, change)
            cost = None if turn.cost is None else _input_cost(usage, price)
            turn = TurnCost(size, usage, price, cost, turn.is_partial)
        self.turns.append(turn)


def most_context(settings: Compaction) -> int:
    """Return the most tokens that outside sources may add: their cap, and the boundary lines of each."""
    empty = [SourceText(source.name, "") for source in settings.context_sources]
    wraps = context_refresh(empty, session_id="", key=b"any", at=0.0)
    return settings.context_token_cap + tokens_of_size(len(wraps.encode()))


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
    hour = size - read if lifetime == ONE_HOUR else None
    return Usage(uncached_tokens=0, read_tokens=read, write_tokens=size - read, write_1h_tokens=hour)


def _input_cost(usage: Usage | None, price: Price | None) -> Decimal | None:
    """Return the cost of a usage, without output if that count is unknown."""
    if usage is None or price is None:
        return None
    return price.of(usage if usage.output_tokens is not None else replace(usage, output_tokens=0))
