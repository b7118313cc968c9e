"""One recording, and the same with a policy: where the policy fires, what that costs and saves.

In: the recorded events, the recorded session, a policy. Out: a `DryRun`. Rules: the policy is asked where a harness
would ask it (after each finished turn; when a person speaks; before each turn), and each firing is applied before the
next is sought; recorded compactions stay; the summary is the extractive one, whichever is configured; sources are not
asked, and counted with the most that they may say. Only the main chain is compacted, and counted. Costs one pass, a
fold for each plan, and O(what is pruned) for each firing.

Some logs (Claude Code's) write how a turn ended, and what it was billed, once the next one begins: a message between
the two would seem to come while a request is out. `ended_first` puts the end before the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.compaction.policy import AFTER_TURN
from lore.compaction.settings import Compaction
from lore.compaction.trial.accounts import Accounts
from lore.compaction.trial.plan import Moment, Plan
from lore.compaction.trial.verdict_text import TrialFacts, notes, verdict
from lore.formats.base import Read
from lore.model.codes import Problem
from lore.model.compacted import DryRun
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.model.state import Chain, Session
from lore.model.turn import seconds
from lore.prompt.layout import is_real

ENDS = (TurnCompleted, TurnFailed, TurnCanceled)


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
        event = placed.event
        if held and event.chain == held[0].event.chain and _ends_request(event):
            yield from (placed, *held) if isinstance(event, ENDS) else (*held, placed)
            held = []
        elif held or (is_answered.get(event.chain) and isinstance(event, Append) and is_real(event.item)):
            held.append(placed)
        else:
            yield placed
        _follow(is_answered, event)
    yield from held


def _ends_request(event: Event) -> bool:
    """Tell whether the request that is out has ended, or cannot end any more."""
    if isinstance(event, Append):
        return isinstance(event.item, AssistantMessage | ToolCall)
    return isinstance(event, TurnStarted | TurnCompleted | TurnFailed | TurnCanceled)


def _follow(is_answered: dict[str, bool], event: Event) -> None:
    match event:
        case TurnStarted():
            is_answered[event.chain] = False
        case Append(item=AssistantMessage()) if event.chain in is_answered:
            is_answered[event.chain] = True
        case Append(item=ToolCall()) | TurnCompleted() | TurnFailed() | TurnCanceled():
            is_answered.pop(event.chain, None)
        case _:
            pass


class Trial:
    """Call `before` and `after` with each event, around its being applied to the recorded session; then `result`.

    `recorded` returns the recorded session as it is by now. Where the moment is to be the cheapest, a second plan
    waits with its cadences for a cold cache.
    """

    def __init__(self, format: str, recorded: Callable[[], Session], settings: Compaction, rules: Rules) -> None:
        moments: tuple[Moment, ...] = ("now", "later") if settings.when == "cheapest" else ("now",)
        self._recorded = recorded
        self._settings = settings
        self._plans = [Plan(format, settings, rules, moment) for moment in moments]
        self._accounts = Accounts(rules, self._plans, settings)
        self._main: str | None = None
        self._is_finished = False
        self._waits_for_time = False
        self._compactions = 0

    def before(self, event: Event) -> None:
        """Ask what is due before this event."""
        if isinstance(event, Append | TurnStarted):
            self._main = event.chain if self._main is None or event.chain == MAIN else self._main
        if event.chain != self._main:
            return
        if isinstance(event, Append):
            self._before_message(event)
        elif isinstance(event, TurnStarted):
            self._before_turn(event)

    def after(self, event: Event) -> None:
        """Take an event that the recorded session has taken."""
        for plan in self._plans:
            plan.session.take(event)
        if event.chain != self._main:
            return
        self._compactions += isinstance(event, CompactApplied)
        if isinstance(event, TurnStarted):
            self._accounts.open(event, self._chain())
        elif isinstance(event, ENDS):
            self._is_finished = True
            self._accounts.answered(seconds(event.at))

    def _before_message(self, event: Append) -> None:
        """Ask when a person speaks: before the message is taken, so that it has the last word."""
        if not is_real(event.item):
            return
        self._after_turn()
        at = seconds(event.at)
        self._waits_for_time = at is None
        if at is not None:
            self._ask_gap(event, at)

    def _before_turn(self, event: TurnStarted) -> None:
        self._after_turn()
        self._accounts.close(self._chain())
        at = seconds(event.at)
        if self._waits_for_time and at is not None:
            self._ask_gap(event, at)
        self._waits_for_time = False
        for plan in self._plans:
            plan.wake(self._accounts.known, event.chain, at)
            plan.ask(("overflow",), self._accounts.known, event.chain, at)

    def _ask_gap(self, event: Append | TurnStarted, at: float) -> None:
        for plan in self._plans:
            plan.wake(self._accounts.known, event.chain, at)
            plan.ask(("gap",), self._accounts.known, event.chain, at, agent=event.agent_id)

    def _after_turn(self) -> None:
        """Ask after a turn, once all of it has come, its results too."""
        if not self._is_finished or self._main is None:
            return
        self._is_finished = False
        self._accounts.close(self._chain())  # its bill is known, and no compaction behind it saves any of it
        known = self._accounts.known
        for plan in self._plans:
            plan.ask(AFTER_TURN, known, self._main, known.last)

    def _chain(self) -> Chain:
        return self._recorded().chain(self._main or MAIN)

    def result(self, shown: str, problems: Iterable[Problem]) -> DryRun:
        """Return what the cheapest plan comes to, when every event was taken."""
        self._after_turn()
        self._accounts.close(self._chain())
        plan = self._accounts.cheapest()
        totals = self._accounts.totals(plan, self._compactions)
        tracked = plan.session.tracker.chain(self._main or MAIN)
        seen = TrialFacts(tracked.is_timed, tracked.exchanges, plan.pause, len(self._plans))
        return DryRun(
            session=shown, configured=True, when=plan.moment, triggers=[firing.result() for firing in plan.firings],
            totals=totals, answer=verdict(totals, self._settings, plan.moment),
            notes=list(notes(totals, self._settings, seen)), problems=list(problems),
        )  # fmt: skip
