"""Try a policy on a recorded session: when it would have compacted it, and what that costs and saves.

The policy is asked when a harness would ask it: after each finished turn, when a person speaks, before each turn. A
copy of the session is folded next to the recorded one, and each compaction is applied to it before the next one is
sought. A recorded event about items that the policy has pruned changes nothing; a recorded compaction stays, and keeps
those of its items that are still there. The summary is the extractive one; outside sources are not asked, and what they
would add is not counted. Only the main chain is considered. Costs O(1) per event and O(items) per compaction. `turns`
has the costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.rules import DatedRules
from lore.compaction import costs as c
from lore.compaction.activity import TURN_ENDS, SessionActivity
from lore.compaction.base import Trigger
from lore.compaction.entries import TimelineSizes, tokens_of_size
from lore.compaction.executor import Compactor, Dependencies
from lore.compaction.extractive import Extractive
from lore.compaction.policy import AFTER_TURN, FULL
from lore.compaction.settings import Compaction
from lore.compaction.turns import TrialRequest, TurnCosts, total_cost
from lore.fold.step import Folding
from lore.formats.base import Read
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results.compact import CompactedTotals, FiredTrigger
from lore.model.state import FoldedSession, with_streamed_text
from lore.model.times import parse_timestamp
from lore.prompt.layout import is_real
from lore.store.base import Tell


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
        self._name, self._has_main = MAIN, False  # of the main chain, and whether it is known
        self._sizes, self._costs = TimelineSizes(), TurnCosts(rules)
        self._compactions = 0
        self._turn = 0  # number of the latest turn
        self._last: float | None = None  # when a turn last began or ended
        self._open: TrialRequest | None = None
        # the copy with the policy's compactions
        self._activity, self._folding = SessionActivity(), Folding(recorded())
        explain = None if tell is None else self._explain
        self._compactor = Compactor(settings, Dependencies(Extractive()), self._activity, explain=explain)
        self._firings: list[_TrialFiring] = []
        self._refusals = Counter[Trigger]()
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
            self._ask(("gap",), at)
        self._gap_is_open = self._gap_is_open and at is None and not is_turn
        if is_turn:
            self._ask(("overflow",), at)

    def after(self, event: Event) -> None:
        """Apply an event that was applied to the recorded session."""
        self._activity.add(event)
        if isinstance(event, CompactApplied):
            self._added_tokens = 0
            preserved = tuple([uuid for uuid in event.preserved_uuids or () if uuid not in self._pruned_uuids])
            self._folding.apply(replace(event, preserved_uuids=preserved) if self._pruned_uuids else event)
        else:
            if isinstance(event, Append):
                self._pruned_uuids.discard(event.item.uuid)
            self._folding.apply(event)
        if event.chain != self._name:
            return
        at = parse_timestamp(event.at)
        if isinstance(event, CompactApplied):
            self._compactions += 1
        elif isinstance(event, TurnStarted):
            self._open_turn(event, at)
        elif isinstance(event, TURN_ENDS):
            self._turn_ended = True
        if isinstance(event, (TurnStarted, *TURN_ENDS)) and at is not None:
            self._last = at

    def result(self) -> TrialOutcome:
        """Return the outcome."""
        self._ask_after_turn()
        self._close_turn()
        recorded, activity = self._recorded(), self._activity.chain(self._name)
        return TrialOutcome(
            self._settings, self._triggers(), self._totals(), activity.exchanges, activity.is_timed, self._pause,
            +self._refusals, recorded.format or "", recorded.chain(self._name).model or "",
        )  # fmt: skip

    # asking the policy

    def _ask_after_turn(self) -> None:
        """Ask the policy after a turn, once its results are there."""
        if self._turn_ended:
            self._turn_ended = False
            self._close_turn()  # a compaction after the turn saves nothing of it
            self._ask(AFTER_TURN, self._last)

    def _ask(self, triggers: Collection[Trigger], at: float | None) -> None:
        """Ask the policy, and apply its compaction to the copy."""
        if "gap" in triggers:
            pause = self._activity.chain(self._name).pause_before_message(at)
            self._pause = pause if self._pause is None else max(self._pause, pause or 0)
        chain = with_streamed_text(self._folding.chain(self._name))
        scale, before = self._costs.scale, self._copy_tokens()
        firing = self._compactor.due(chain, triggers, at, scale=scale)
        if firing is None:
            return
        outcome = self._compactor.compact(self._folding.state(), chain.id, firing, at)
        self._refusals[firing.trigger] += bool(outcome.refused)
        if not outcome.events:
            return
        for event in outcome.events:
            self._activity.add(event)
            self._folding.apply(event)
            if isinstance(event, CompactApplied):  # earlier ones are gone; the summary as the timeline counts it
                self._added_tokens = tokens_of_size(len(event.summary) - 2)
        if outcome.pruned:
            self._pruned_uuids.update(entry.item.uuid for entry in firing.pruned)
        self._is_rewritten = True
        sizes = c.PromptSizes(scale.prompt(before), scale.prompt(self._copy_tokens()), scale.head)
        summary_input = sizes.before - sizes.head if outcome.pruned else 0
        price = c.summary_price(self._rules, self._settings, summary_input, self._last)
        shown = round(firing.before * scale.rate) or sizes.before  # an overflow's is the one compared with the window
        make_result = partial(
            FiredTrigger, trigger=firing.trigger, turn=self._turn, at=at, kept=outcome.kept, pruned=outcome.pruned,
            context_tokens=0 if firing.window is None else None, before_tokens=shown,
            after_tokens=max(0, sizes.after + shown - sizes.before),
        )  # fmt: skip
        self._firings.append(_TrialFiring(make_result, sizes, self._costs.latest, price, len(self._costs.recorded)))

    def _explain(self, decision: str) -> None:
        """Report a decision, unless it is the same as the last one about this trigger."""
        trigger = decision.partition(" ")[0]
        if self._tell is not None and self._last_decisions.get(trigger) != decision:
            self._last_decisions[trigger] = decision
            self._tell(f"after turn {self._turn}: {decision}")

    def _copy_tokens(self) -> int:
        """Estimate the copy's timeline with outside context. Costs O(changes since the last call)."""
        return self._compactor.sizes.tokens_of(self._folding.chain(self._name).entries)

    # turns

    def _open_turn(self, event: TurnStarted, at: float | None) -> None:
        chain, pause = self._recorded().chain(self._name), None if at is None or self._last is None else at - self._last
        if self._firings and self._is_rewritten:
            self._firings[-1].warm = self._costs.latest.is_warm(pause)
        tokens = self._sizes.tokens_of(chain.entries)
        removed = max(0, tokens - (self._copy_tokens() - self._added_tokens))
        self._open = TrialRequest(
            event.turn, at, chain.model, chain.params, pause, tokens, removed, self._added_tokens, self._is_rewritten
        )
        self._is_rewritten, self._turn = False, event.turn

    def _close_turn(self) -> None:
        request, self._open = self._open, None
        if request is not None:
            self._costs.add(request, self._recorded().chain(self._name))

    # the outcome

    def _triggers(self) -> list[FiredTrigger]:
        """Return the compactions, each with what the turns up to the next one saved."""
        triggers: list[FiredTrigger] = []
        costs = self._costs
        ends = [*[firing.first for firing in self._firings[1:]], len(costs.recorded)]
        for firing, end in zip(self._firings, ends, strict=False):
            cost = c.compaction_cost(firing.sizes, firing.costs, firing.summary, warm=firing.warm)
            if end > firing.first:
                before, after = (
                    c.add_amounts(*[turn.cost for turn in turns[firing.first : end]])
                    for turns in (costs.recorded, costs.compacted)
                )
                cost = replace(cost, saved=c.dollars(c.difference(before, after)), turns=end - firing.first)
            triggers.append(firing.make_result(cost=cost))
        return triggers

    def _totals(self) -> CompactedTotals:
        costs, firings, limit = self._costs, self._firings, FULL * self._settings.window
        saved = c.difference(total_cost(costs.recorded), total_cost(costs.compacted))
        summaries = c.add_amounts(*[firing.summary for firing in firings])
        full, fuller = (sum(100 * turn.tokens > limit for turn in turns) for turns in (costs.recorded, costs.compacted))
        return CompactedTotals(
            turns=len(costs.recorded), unbilled=costs.unbilled,
            unpriced=sum(turn.cost is None for turn in costs.recorded), recorded=self._compactions,
            fired=len(firings), without=costs.sum_side(costs.recorded),
            compacted=costs.sum_side(costs.compacted, is_estimated=bool(firings)),
            summaries=c.dollars(summaries), saved_without_summaries=c.dollars(saved),
            saved=c.dollars(c.difference(saved, summaries)),
            overfull=(full, fuller) if limit else None,
        )  # fmt: skip
