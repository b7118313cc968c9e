"""Compute what a policy would have done to a recorded session: when it fires, what that costs and saves.

The policy is asked when a harness would ask it (after each finished turn, when a person speaks, before each turn). A
copy of the session is folded next to the recorded one, and each compaction is applied to it before the next one is
sought. A recorded event about items that the policy has pruned changes nothing; a recorded compaction stays, and keeps
those of its items that are still there. The summary is the extractive one; outside sources are not asked, and what they
would add is not counted. Only the main chain is considered. Costs O(1) per event and O(items) per
compaction.

The recorded side is the recorded usage. A turn without usage gets a predicted one, from times and lifetimes, and is
marked as estimated. The other side is this usage without the pruned tokens (`usage_after_pruning`). The head (tools,
system prompt) is the part of the first usage beyond the timeline; the latest usage says how many bytes a token has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from msgspec import UNSET, Raw
from msgspec.structs import replace

from lore.cache.counts import ONE_HOUR, reason_to_doubt, total
from lore.cache.prices import Price, is_partial
from lore.cache.rules import DatedRules
from lore.compaction import costs as c
from lore.compaction.activity import TURN_ENDS, SessionActivity
from lore.compaction.base import Firing, Trigger
from lore.compaction.entries import TimelineSizes, head_tokens, tokens_of_size
from lore.compaction.executor import Dependencies, execute, judge_moment
from lore.compaction.extractive import Extractive
from lore.compaction.policy import AFTER_TURN, FULL, PolicyInput, pause_before_message, pruned_entries
from lore.compaction.settings import Compaction
from lore.fold.step import Folding
from lore.formats.base import Read
from lore.judge.base import sum_ints
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnStarted, Usage
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results import UsageResult
from lore.model.results.compact import CompactedSide, CompactedTotals, Figures, FiredTrigger
from lore.model.state import Chain, FoldedSession, with_streamed_text
from lore.model.times import parse_timestamp
from lore.prompt.layout import is_real
from lore.store.base import Tell

_COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


class TrialOutcome(NamedTuple):
    """What a policy would have done to a session."""

    settings: Compaction
    triggers: list[FiredTrigger]
    totals: CompactedTotals
    exchanges: int
    is_timed: bool  # the time of an exchange is known
    pause: float | None  # longest pause before a message, in seconds
    refused: Counter[Trigger]  # compactions that would not have made the prompt shorter
    format: str = "lore"  # of the recording
    model: str = ""  # as its requests name it


def order_turn_ends(reads: Iterable[Read]) -> Iterator[tuple[Read, Event]]:
    """Yield reads with their events in order, except that a turn's end comes before user messages after its answer.

    Some logs write the end of a turn only once the next one begins: the messages before it are yielded after it.
    """
    waiting: list[tuple[Read, Event]] = []
    is_answered: dict[str, bool] = {}  # by chain with an open request: whether its answer called no tools
    for read in reads:
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        placed, chain = (read, event), event.chain
        item = event.item if isinstance(event, Append) else None
        answers = isinstance(item, AssistantMessage | ToolCall)
        if waiting and chain == waiting[0][1].chain and (answers or isinstance(event, (TurnStarted, *TURN_ENDS))):
            yield from (placed, *waiting) if isinstance(event, TURN_ENDS) else (*waiting, placed)
            waiting = []
        elif waiting or (is_answered.get(chain) and item is not None and is_real(item)):
            waiting.append(placed)
        else:
            yield placed
        if isinstance(event, TurnStarted) or (isinstance(item, AssistantMessage) and chain in is_answered):
            is_answered[chain] = item is not None
        elif isinstance(item, ToolCall) or isinstance(event, TURN_ENDS):
            is_answered.pop(chain, None)
    yield from waiting


class TurnCost(NamedTuple):
    """What one turn was billed, or would have been billed with the policy."""

    tokens: int  # of its prompt
    usage: Usage | None  # recorded or predicted
    price: Price | None
    cost: Decimal | None
    is_partial: bool  # its output count is partial


@dataclass(slots=True)
class _Request:
    """A request that was sent, and how its prompt differs with the policy, in estimated tokens of its timeline."""

    turn: int
    at: float | None
    model: str | None  # the one it asked: another may be chosen before its usage is known
    tokens: int  # as recorded
    pause: float | None  # seconds since the previous turn
    params: Raw
    change: PromptChange  # by the policy


@dataclass(slots=True)
class _TrialFiring:
    """A compaction of the policy."""

    make_result: Callable[..., FiredTrigger]  # takes the cost, which is known once the next one fires
    sizes: c.PromptSizes
    costs: c.CacheCosts  # at the time
    summary: Decimal | None  # its cost
    first: int  # turns before it
    warm: bool | None = None  # whether the next request found a warm cache


class Trial:
    """Tries a policy: call `before` and `after` around applying each event to the recorded session, then `result`.

    `recorded` returns the recorded session as it is now, an empty one before the first event. `tell` receives why each
    trigger fires or is skipped.
    """

    def __init__(
        self, recorded: Callable[[], FoldedSession], settings: Compaction, rules: DatedRules, tell: Tell | None = None
    ) -> None:
        self._recorded, self._settings, self._rules, self._tell = recorded, settings, rules, tell
        # the recorded side
        self._name = MAIN  # of the main chain
        self._has_main = False  # the main chain is known
        self._sizes = TimelineSizes()
        self._turns: list[TurnCost] = []
        self._compactions = 0
        self._without_usage = 0  # turns
        self._turn = 0  # number of the latest turn
        self._last: float | None = None  # when a turn last began or ended
        self._costs, self._scale = c.CacheCosts(None), c.TokenScale()  # of the latest turn
        self._lifetime: float | None = None  # of the cache, as it was billed last
        self._open: _Request | None = None
        # the copy with the policy's compactions
        self._activity, self._folding, self._copy_sizes = SessionActivity(), Folding(recorded()), TimelineSizes()
        self._policy_turns: list[TurnCost] = []  # costs of the turns, with the policy
        self._firings: list[_TrialFiring] = []
        self._refusals = Counter[Trigger]()  # compactions that would not have made the prompt shorter
        self._pause: float | None = None  # longest pause before a message, in seconds
        self._pruned_uuids: set[str] = set()
        self._added_tokens = 0  # tokens of summaries that are still there
        self._is_rewritten = False  # something was pruned or shortened since the last request
        # questions to the policy
        self._turn_ended = False  # and the policy was not asked since
        self._gap_is_open = False  # a person spoke, and the time is not known yet
        self._last_decisions: dict[str, str] = {}  # the last decision by trigger

    def before(self, event: Event) -> None:
        """Ask the policy before an event is applied."""
        is_turn, is_message = isinstance(event, TurnStarted), isinstance(event, Append) and is_real(event.item)
        if isinstance(event, Append | TurnStarted) and (event.chain == MAIN or not self._has_main):
            self._name, self._has_main = event.chain, True
        if event.chain != self._name or not (is_turn or is_message):
            return
        at = parse_timestamp(event.at)
        self._ask_after_turn()
        if is_turn:
            self._close_turn()
        self._gap_is_open = self._gap_is_open or is_message
        if self._gap_is_open and at is not None:
            self._ask(("gap",), at, agent=event.agent_id)
        self._gap_is_open = self._gap_is_open and at is None and not is_turn
        if is_turn:
            self._ask(("overflow",), at)

    def after(self, event: Event) -> None:
        """Apply an event that was applied to the recorded session."""
        self._apply(event)
        if event.chain != self._name:
            return
        self._compactions += isinstance(event, CompactApplied)
        if isinstance(event, TurnStarted):
            self._open_turn(event)
        elif isinstance(event, TURN_ENDS):
            self._turn_ended = True
            at = parse_timestamp(event.at)
            self._last = self._last if at is None else at

    def result(self) -> TrialOutcome:
        """Return the outcome."""
        self._ask_after_turn()
        self._close_turn()
        activity = self._activity.chain(self._name)
        return TrialOutcome(
            self._settings, self._triggers(), self._totals(), activity.exchanges, activity.is_timed, self._pause,
            +self._refusals, self._recorded().format or "", self._recorded().chain(self._name).model or "",
        )  # fmt: skip

    def _apply(self, event: Event) -> None:
        self._activity.add(event)
        if isinstance(event, CompactApplied):
            self._added_tokens = 0
            if self._pruned_uuids:
                preserved = tuple([uuid for uuid in event.preserved_uuids or () if uuid not in self._pruned_uuids])
                event = replace(event, preserved_uuids=preserved)
        elif isinstance(event, Append):
            self._pruned_uuids.discard(event.item.uuid)
        self._folding.apply(event)

    # asking the policy

    def _ask_after_turn(self) -> None:
        """Ask the policy after a turn, once its results are there."""
        if self._turn_ended:
            self._turn_ended = False
            self._close_turn()  # a compaction after the turn saves nothing of it
            self._ask(AFTER_TURN, self._last)

    def _ask(self, triggers: Collection[Trigger], at: float | None, *, agent: str | None = None) -> None:
        """Ask the policy, and carry out its firing."""
        chain, settings = with_streamed_text(self._folding.chain(self._name)), self._settings
        if "gap" in triggers:
            inputs = PolicyInput(self._activity.chain(self._name), chain.entries, settings, at, agent)
            pauses = (self._pause, pause_before_message(inputs))
            self._pause = max((pause for pause in pauses if pause is not None), default=None)
        firing = judge_moment(
            self._activity,
            chain,
            settings,
            triggers,
            now=at,
            agent=agent,
            scale=self._scale,
            tokens=self._tokens(),
            tell=None if self._tell is None else self._explain,
        )
        if firing is not None:
            self._fire(firing, chain, at)

    def _explain(self, decision: str) -> None:
        """Report a decision, unless it is the same as the last one about this trigger."""
        trigger = decision.partition(" ")[0]
        if self._tell is not None and self._last_decisions.get(trigger) != decision:
            self._last_decisions[trigger] = decision
            self._tell(f"after turn {self._turn}: {decision}")

    def _tokens(self) -> int:
        """Estimate the copy's timeline with outside context. Costs O(changes since the last call)."""
        return self._copy_sizes.tokens_of(self._folding.chain(self._name).entries)

    def _fire(self, firing: Firing, chain: Chain, at: float | None) -> None:
        """Apply a compaction to the copy."""
        settings, scale = self._settings, self._scale
        before = self._tokens()
        outcome = execute(self._folding.state(), chain.id, firing, settings, Dependencies(Extractive()), at=at)
        self._refusals[firing.trigger] += bool(outcome.refused)
        if not outcome.events:
            return
        for event in outcome.events:
            self._activity.add(event)
            self._folding.apply(event)
            if isinstance(event, CompactApplied):  # earlier ones are gone; the summary as the timeline counts it
                self._added_tokens = tokens_of_size(len(event.summary) - 2)
        if outcome.pruned:
            self._pruned_uuids.update(entry.item.uuid for entry in pruned_entries(chain.entries, firing.cut))
        self._is_rewritten = True
        sizes = c.PromptSizes(scale.prompt(before), scale.prompt(self._tokens()), scale.head)
        price = c.summary_price(self._rules, settings, sizes.before - sizes.head if outcome.pruned else 0, self._last)
        shown = round(firing.before * scale.rate) or sizes.before  # an overflow's is the one compared with the window
        after = max(0, sizes.after + shown - sizes.before)
        make_result = partial(
            FiredTrigger, trigger=firing.trigger, turn=self._turn, at=at, kept=outcome.kept, pruned=outcome.pruned,
            context_tokens=0 if firing.window is None else None, before_tokens=shown, after_tokens=after,
        )  # fmt: skip
        self._firings.append(_TrialFiring(make_result, sizes, self._costs, price, len(self._policy_turns)))

    # turns

    def _open_turn(self, event: TurnStarted) -> None:
        at, chain = parse_timestamp(event.at), self._recorded().chain(self._name)
        pause = None if at is None or self._last is None else at - self._last
        if self._firings and self._is_rewritten:
            self._firings[-1].warm = self._costs.is_warm(pause)
        tokens = self._sizes.tokens_of(chain.entries)
        removed = max(0, tokens - (self._tokens() - self._added_tokens))
        self._open = _Request(
            event.turn, at, chain.model, tokens, pause, chain.params,
            PromptChange(self._scale.head, removed, self._added_tokens, self._is_rewritten),
        )  # fmt: skip
        self._is_rewritten = False
        self._turn = event.turn
        self._last = self._last if at is None else at

    def _close_turn(self) -> None:
        """Add the cost of the open turn, as recorded and with the policy."""
        request, self._open = self._open, None
        if request is not None:
            chain = self._recorded().chain(self._name)
            request.model = request.model or chain.model
            turn = self._recorded_cost(request, chain)
            self._turns.append(turn)
            self._policy_turns.append(self._policy_cost(request, turn) if self._firings else turn)

    def _recorded_cost(self, request: _Request, chain: Chain) -> TurnCost:
        """Return what a turn cost, and set the scale of tokens from its usage."""
        previous = self._turns[-1].tokens if self._turns else None
        is_measured = len(self._turns) > self._without_usage  # the usage of an earlier turn is known
        usage = chain.last.usage if chain.last is not None and chain.last.turn == request.turn else None
        tokens = None if usage is None or reason_to_doubt(usage) else total(usage)
        if usage is None or tokens is None:
            self._without_usage += 1
            self._scale = self._scale if is_measured else c.TokenScale(head_tokens(chain))
            tokens = self._scale.prompt(request.tokens)
            lifetime = self._request_costs(request, tokens, None).lifetime
            usage = predict_usage(tokens, previous, request.pause, lifetime)
        else:
            self._scale = c.TokenScale.of(tokens, request.tokens, self._scale.head if is_measured else None)
            self._lifetime = c.billed_lifetime(usage) or self._lifetime
        self._costs = self._request_costs(request, tokens, usage)
        is_partial_count = usage is not None and is_partial(self._rules, usage.client)
        return TurnCost(tokens, usage, self._costs.price, _input_cost(usage, self._costs.price), is_partial_count)

    def _policy_cost(self, request: _Request, turn: TurnCost) -> TurnCost:
        """Return what a recorded turn would have cost with the policy."""
        estimated, rate = request.change, self._scale.rate
        removed, tokens = (round(n * rate) for n in (estimated.removed, estimated.added))
        change = PromptChange(self._scale.head, removed, tokens, estimated.rewritten)
        size = max(0, turn.tokens - removed + tokens)
        price = self._request_costs(request, size, turn.usage).price
        usage = None if turn.usage is None else usage_after_pruning(turn.usage, change)
        cost = None if turn.cost is None else _input_cost(usage, price)
        return TurnCost(size, usage, price, cost, turn.is_partial)

    def _request_costs(self, request: _Request, size: int, usage: Usage | None) -> c.CacheCosts:
        """Return the costs of a request whose prompt has `size` tokens."""
        return c.cache_costs(
            self._rules, request.model, request.at, size, usage=usage, params=request.params, lifetime=self._lifetime
        )

    # the outcome

    def _triggers(self) -> list[FiredTrigger]:
        """Return the compactions, each with what the turns up to the next one saved."""
        triggers: list[FiredTrigger] = []
        ends = [*[firing.first for firing in self._firings[1:]], len(self._policy_turns)]
        for firing, end in zip(self._firings, ends, strict=False):
            cost = c.compaction_cost(firing.sizes, firing.costs, firing.warm, firing.summary)
            sides = [self._turns[firing.first : end], self._policy_turns[firing.first : end]]
            before, after = (c.add_amounts(*[turn.cost for turn in turns]) for turns in sides)
            if end > firing.first:
                saved = None if before is None or after is None else before - after
                cost = replace(cost, saved=c.dollars(saved), turns=end - firing.first)
            triggers.append(firing.make_result(cost=cost))
        return triggers

    def _totals(self) -> CompactedTotals:
        recorded, window, firings = self._turns, self._settings.window, self._firings
        figures: Figures = "estimated" if self._without_usage else "recorded"
        before, after = total_cost(recorded), total_cost(self._policy_turns)
        summaries = c.add_amounts(*[firing.summary for firing in firings])
        saved = None if before is None or after is None else before - after
        full = [sum(100 * turn.tokens > FULL * window for turn in turns) for turns in (recorded, self._policy_turns)]
        return CompactedTotals(
            turns=len(recorded), unbilled=self._without_usage, unpriced=sum(turn.cost is None for turn in recorded),
            recorded=self._compactions, fired=len(firings),
            without=_side_result(recorded, figures), summaries=c.dollars(summaries),
            compacted=_side_result(self._policy_turns, "estimated" if firings else figures),
            saved_without_summaries=c.dollars(saved),
            saved=None if saved is None or summaries is None else c.dollars(saved - summaries),
            overfull=(full[0], full[1]) if window else None,
        )  # fmt: skip


def total_cost(turns: Sequence[TurnCost]) -> Decimal | None:
    """Return the cost of the turns whose cost is known; None if none is known."""
    costs = [turn.cost for turn in turns if turn.cost is not None]
    return sum(costs, start=c.FREE) if costs else None


def _side_result(turns: Sequence[TurnCost], figures: Figures) -> CompactedSide:
    """Return the sums of turns; values that are unknown for a turn are left out."""
    usages = [turn.usage for turn in turns if turn.usage is not None]
    counts = {name: sum_ints([getattr(usage, name) for usage in usages]) for name in _COUNTS}
    is_partial = any(turn.is_partial for turn in turns)
    by_price: defaultdict[str, Decimal] = defaultdict(Decimal)
    for turn in turns:
        if turn.usage is not None and turn.cost is not None and turn.price is not None:
            for kind, amount in turn.price.parts(turn.usage).items():
                by_price[kind] += amount
    return CompactedSide(
        figures=figures, prompt_tokens=sum(turn.tokens for turn in turns),
        largest_tokens=max((turn.tokens for turn in turns), default=0), cost=c.dollars(total_cost(turns)),
        billed=UsageResult(**counts, partial_output=True if is_partial else UNSET),
        by_price={kind: float(round(amount, 6)) for kind, amount in sorted(by_price.items())},
    )  # fmt: skip


# usage


class PromptChange(NamedTuple):
    """How a prompt differs from the recorded one, in tokens."""

    head: int  # comes first in both
    removed: int  # recorded tokens after the head that are gone
    added: int  # tokens in their place
    rewritten: bool = False  # it is the first prompt since the compaction


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
        read += change.added - removed
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
