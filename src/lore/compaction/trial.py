"""What a policy would have done to a recorded session: where it fires, what that costs and saves.

The policy is asked where a harness would ask it (after each finished turn; when a person speaks; before each turn), and
each firing is applied before the next is sought. Recorded compactions stay; the summary is the extractive one; sources
are not asked, and counted with the most that they may say. Only the main chain is compacted, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lore.cache.rules import DatedRules
from lore.compaction.activity import TURN_ENDS
from lore.compaction.costs import Moment
from lore.compaction.policy import AFTER_TURN
from lore.compaction.settings import Compaction
from lore.compaction.trial_plan import RecordedSide, TrialPlan, totals_of
from lore.formats.base import Read
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results.compact import CompactedTotals, FiredTrigger
from lore.model.state import Chain, FoldedSession
from lore.model.times import parse_timestamp
from lore.prompt.layout import is_real


class PlacedEvent(NamedTuple):
    """An event, and where it was read."""

    read: Read
    event: Event


def ended_first(reads: Iterable[Read]) -> Iterator[PlacedEvent]:
    """Yield events in the order in which they happened. Holds at most what one person says before an answer."""
    held: list[PlacedEvent] = []
    is_answered: dict[str, bool] = {}  # by chain, while a request is out: whether it was answered without tools
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
    """What a policy came to: the moment that was chosen, the firings, the sums; how many exchanges the session had,
    whether the times of any are known, the longest pause that ended when somebody spoke (seconds), and how many
    firings pruned nothing.
    """

    settings: Compaction
    moment: Moment
    triggers: list[FiredTrigger]
    totals: CompactedTotals
    exchanges: int
    is_timed: bool
    pause: float | None
    refused: int


class Trial:
    """Call `before` and `after` with each event, around its being applied to the recorded session; then `result`.

    `recorded` returns the recorded session as it is by now; before the first event that is an empty one. Where the
    moment is to be the cheapest, a second plan waits with its cadences for a cold cache.
    """

    def __init__(self, recorded: Callable[[], FoldedSession], settings: Compaction, rules: DatedRules) -> None:
        moments: tuple[Moment, ...] = ("now", "later") if settings.when == "cheapest" else ("now",)
        self._recorded, self._settings = recorded, settings
        self._side = RecordedSide(rules, settings.window)
        self._plans = [TrialPlan(recorded(), settings, rules, self._side, moment) for moment in moments]
        self._main: str | None = None
        self._is_finished = self._waits_for_time = False
        self._compactions = 0

    def before(self, event: Event) -> None:
        """Ask what is due before this event: where a person speaks before it is taken, so that it has the last word."""
        if isinstance(event, Append | TurnStarted):
            self._main = event.chain if self._main is None or event.chain == MAIN else self._main
        if event.chain != self._main:
            return
        if isinstance(event, Append) and is_real(event.item):
            self._after_turn()
            at = parse_timestamp(event.at)
            self._waits_for_time = at is None
            if at is not None:
                self._ask_gap(event, at)
        elif isinstance(event, TurnStarted):
            self._after_turn()
            self._close()
            at = parse_timestamp(event.at)
            if self._waits_for_time and at is not None:
                self._ask_gap(event, at)
            self._waits_for_time = False
            for plan in self._plans:
                plan.wake(event.chain, at)
                plan.ask(("overflow",), event.chain, at)

    def after(self, event: Event) -> None:
        """Take an event that the recorded session has taken."""
        for plan in self._plans:
            plan.take(event)
        if event.chain != self._main:
            return
        self._compactions += isinstance(event, CompactApplied)
        if isinstance(event, TurnStarted):
            request = self._side.open(event, self._chain())
            for plan in self._plans:
                plan.open(request, event.chain)
        elif isinstance(event, TURN_ENDS):
            self._is_finished = True
            self._side.answered(parse_timestamp(event.at))

    def _ask_gap(self, event: Append | TurnStarted, at: float) -> None:
        for plan in self._plans:
            plan.wake(event.chain, at)
            plan.ask(("gap",), event.chain, at, agent=event.agent_id)

    def _after_turn(self) -> None:
        """Ask after a turn, once all of it has come, its results too."""
        if not self._is_finished or self._main is None:
            return
        self._is_finished = False
        self._close()  # its bill is known, and no compaction behind it saves any of it
        for plan in self._plans:
            plan.ask(AFTER_TURN, self._main, self._side.last)

    def _close(self) -> None:
        if (turn := self._side.close(self._chain())) is not None:
            for plan in self._plans:
                plan.close(turn)

    def _chain(self) -> Chain:
        return self._recorded().chain(self._main or MAIN)

    def result(self) -> TrialOutcome:
        """Return what the cheapest plan comes to, when every event was taken."""
        self._after_turn()
        self._close()
        costs = [plan.cost for plan in self._plans]  # where any is not known, the first plan
        known = [cost for cost in costs if cost is not None]
        plan = self._plans[costs.index(min(known)) if len(known) == len(costs) else 0]
        seen = plan.tracker.chain(self._main or MAIN)
        return TrialOutcome(
            self._settings, plan.moment, [firing.result() for firing in plan.firings],
            totals_of(self._side, plan, self._compactions, self._settings), seen.exchanges, seen.is_timed, plan.pause,
            plan.refused,
        )  # fmt: skip
