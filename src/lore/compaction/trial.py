"""Compute what a policy would have done to a recorded session: when it fires, what that costs and saves.

The policy is asked when a harness would ask it (after each finished turn, when a person speaks, before each turn), and
each compaction is applied before the next one is sought. Recorded compactions stay. The summary is the extractive one;
outside sources are not asked, and counted with the most tokens that they may add. Only the main chain is considered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lore.cache.rules import DatedRules
from lore.compaction.activity import TURN_ENDS
from lore.compaction.costs import Moment
from lore.compaction.policy import AFTER_TURN
from lore.compaction.settings import Compaction
from lore.compaction.trial_plan import RecordedSide, TrialPlan, trial_totals
from lore.formats.base import Read
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results.compact import CompactedTotals, FiredTrigger
from lore.model.state import Chain, FoldedSession
from lore.model.times import parse_timestamp
from lore.prompt.layout import is_real


class PlacedEvent(NamedTuple):
    """An event, with the place where it was read."""

    read: Read
    event: Event


def order_turn_ends(reads: Iterable[Read]) -> Iterator[PlacedEvent]:
    """Yield events in their order, except that a turn's end comes before user messages that follow its answer.

    Some logs write the end of a turn only once the next one begins. Holds back what a person says before that.
    """
    held: list[PlacedEvent] = []
    is_answered: dict[str, bool] = {}  # by chain with an open request: whether its answer called no tools
    for read in reads:
        placed = PlacedEvent(read, read.value)  # pyright: ignore[reportArgumentType]
        event, chain = placed.event, placed.event.chain
        item = event.item if isinstance(event, Append) else None
        answers = isinstance(item, AssistantMessage | ToolCall)
        if held and chain == held[0].event.chain and (answers or isinstance(event, (TurnStarted, *TURN_ENDS))):
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


class TrialOutcome(NamedTuple):
    """What a policy would have done to a session."""

    settings: Compaction
    moment: Moment  # the cheaper one
    triggers: list[FiredTrigger]
    totals: CompactedTotals
    exchanges: int
    is_timed: bool  # the time of an exchange is known
    pause: float | None  # longest pause before a message, in seconds
    refused: int  # compactions that would not have made the prompt shorter


class Trial:
    """Tries a policy: call `before` and `after` around applying each event to the recorded session, then `result`.

    `recorded` returns the recorded session as it is now, an empty one before the first event. If the cheapest moment is
    asked for, a second plan waits with its cadences for a cold cache.
    """

    def __init__(self, recorded: Callable[[], FoldedSession], settings: Compaction, rules: DatedRules) -> None:
        moments: tuple[Moment, ...] = ("now", "later") if settings.when == "cheapest" else ("now",)
        self._recorded, self._settings = recorded, settings
        self._side = RecordedSide(rules, settings.window)
        self._plans = [TrialPlan(recorded(), settings, rules, self._side, moment) for moment in moments]
        self._main: str | None = None
        self._turn_ended = False  # and the policy was not asked since
        self._gap_is_open = False  # a person spoke at an unknown time: ask when the turn begins
        self._compactions = 0

    def before(self, event: Event) -> None:
        """Ask the policy before an event is applied."""
        if isinstance(event, Append | TurnStarted):
            self._main = event.chain if self._main is None or event.chain == MAIN else self._main
        if event.chain != self._main:
            return
        if isinstance(event, Append) and is_real(event.item):
            self._ask_after_turn()
            at = parse_timestamp(event.at)
            self._gap_is_open = at is None
            if at is not None:
                self._ask_gap(event, at)
        elif isinstance(event, TurnStarted):
            self._ask_after_turn()
            self._close_turn()
            at = parse_timestamp(event.at)
            if self._gap_is_open and at is not None:
                self._ask_gap(event, at)
            self._gap_is_open = False
            for plan in self._plans:
                plan.fire_if_cold(event.chain, at)
                plan.ask(("overflow",), event.chain, at)

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
                plan.open_turn(request, event.chain)
        elif isinstance(event, TURN_ENDS):
            self._turn_ended = True
            self._side.note_time(parse_timestamp(event.at))

    def _ask_gap(self, event: Append | TurnStarted, at: float) -> None:
        for plan in self._plans:
            plan.fire_if_cold(event.chain, at)
            plan.ask(("gap",), event.chain, at, agent=event.agent_id)

    def _ask_after_turn(self) -> None:
        """Ask the policy after a turn, once its results are there."""
        if not self._turn_ended or self._main is None:
            return
        self._turn_ended = False
        self._close_turn()  # a compaction after the turn saves nothing of it
        for plan in self._plans:
            plan.ask(AFTER_TURN, self._main, self._side.last)

    def _close_turn(self) -> None:
        if (turn := self._side.close_turn(self._chain())) is not None:
            for plan in self._plans:
                plan.close_turn(turn)

    def _chain(self) -> Chain:
        return self._recorded().chain(self._main or MAIN)

    def result(self) -> TrialOutcome:
        """Return the outcome of the cheapest plan; of the first one, if a cost is unknown."""
        self._ask_after_turn()
        self._close_turn()
        costs = [plan.cost for plan in self._plans]
        known = [cost for cost in costs if cost is not None]
        plan = self._plans[costs.index(min(known)) if len(known) == len(costs) else 0]
        activity = plan.activity.chain(self._main or MAIN)
        return TrialOutcome(
            self._settings, plan.moment, [firing.result() for firing in plan.firings],
            trial_totals(self._side, plan, self._compactions, self._settings), activity.exchanges, activity.is_timed,
            plan.pause, plan.refused,
        )  # fmt: skip
