"""What a policy would have done to a recorded session: where it fires, what that costs and saves, in a sentence.

In: the recorded events, the recorded session, a policy. Out: a `DryRun`. Rules: the policy is asked where a harness
would ask it (after each finished turn; when a person speaks; before each turn), and each firing is applied before the
next is sought; recorded compactions stay; the summary is the extractive one, whichever is configured; sources are not
asked, and counted with the most that they may say. Only the main chain is compacted, and counted. Costs one pass, a
fold for each plan (`trial_plan`), and O(what is pruned) for each firing; `trial_accounts` has the sums.

Some logs (Claude Code's) write how a turn ended, and what it was billed, once the next one begins: a message between
the two would seem to come while a request is out. `ended_first` puts the end before the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.compaction.cuts import CALM
from lore.compaction.policy import AFTER_TURN
from lore.compaction.settings import Compaction
from lore.compaction.tracker import UNTIMED
from lore.compaction.trial_accounts import Accounts
from lore.compaction.trial_plan import Moment, Plan
from lore.formats.base import Read
from lore.model.codes import Problem
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results_simulate import CompactedTotals, DryRun
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


UNCONFIGURED = (
    "Nothing is configured: without a [compaction] table in lore.toml, or --policy FILE, no session is ever compacted."
)
NO_TRIGGER = "The policy switches no trigger on: set continuous_interval, gap_secs or window."


def verdict(totals: CompactedTotals, settings: Compaction, moment: str) -> str:
    """Answer in one or two sentences; what is estimated says so."""
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        return NO_TRIGGER
    if not totals.turns:
        return "The recording holds no turn: there is nothing to compact."
    if not totals.fired:
        return f"No: no trigger would have fired in {_turns(totals.turns)}, so it would have changed nothing."
    return f"{_verdict(totals)} {_size(totals)}{_room(totals)}{' ' + _WAITED if moment == 'later' else ''}"


_WAITED = "Here it is cheapest to wait with cadences until the cache has gone cold anyway."


def _verdict(totals: CompactedTotals) -> str:
    saved, known, cost = totals.saved, totals.saved_without_summaries, totals.without.cost
    times = _times(totals)
    if known is None or cost is None:
        return f"Unknown in money: no price or no bill is known for these turns; the policy comes to {times}."
    share = f" ({abs(known) / cost:.0%} of the {money(cost)} that {_was(totals)})" if cost else ""
    besides = "" if saved is not None else f", before what {times} would have cost for the summaries (not known)"
    if known > 0:
        return f"Yes: {times} would have saved about {money(known)}{share}, estimated{besides}."
    if known < 0:
        why = "each rewrites the cache, and what follows does not pay for that"
        if totals.fired == totals.refreshed:
            why = "what sources say is paid for in every turn behind it"
        return f"Not in money: {times} would have cost about {money(-known)} more{share}, estimated{besides}: {why}."
    return f"No: {times} would have come too late to save anything{besides}."


def _times(totals: CompactedTotals) -> str:
    done, refreshed = totals.fired - totals.refreshed, totals.refreshed
    parts = [f"{done:,} compaction{'s' * (done > 1)}"] if done or not refreshed else []
    if refreshed:
        parts.append(f"asking outside sources {refreshed:,} time{'s' * (refreshed > 1)}")
    return " and ".join(parts)


def _was(totals: CompactedTotals) -> str:
    return "the main chain was billed" if totals.without.figures == "recorded" else "the main chain cost, estimated"


def _size(totals: CompactedTotals) -> str:
    before, after = totals.without, totals.compacted
    share = 1 - after.prompt_tokens / before.prompt_tokens if before.prompt_tokens else 0.0
    change = f"{min(share, 0.99):.0%} shorter" if share >= 0 else f"{-share:.0%} longer"  # never to nothing
    return (
        f"Prompts would have been {change} in all, the longest {after.largest_tokens:,} tokens instead of "
        f"{before.largest_tokens:,}."
    )


def _room(totals: CompactedTotals) -> str:
    if totals.overfull is None or not totals.overfull[0]:
        return ""
    before, after = totals.overfull
    return f" {_turns(before)} filled over 90 % of the window; with it {after:,} would."


class TrialFacts(NamedTuple):
    """What a dry run saw of a session: has it times, how many user exchanges, its longest pause before one of them in
    seconds, and how many moments were tried.
    """

    timed: bool
    exchanges: int
    pause: float | None
    plans: int


def notes(totals: CompactedTotals, settings: Compaction, seen: TrialFacts) -> Iterator[str]:
    """Yield what has to be known to read the figures."""
    near = list(_near(totals, settings, seen)) if totals.turns and not totals.fired else []
    if near:
        yield f"how near it came: {', '.join(near)}"
    if settings.gap_secs and not seen.timed:
        yield UNTIMED
    if totals.fired:
        yield "the agent is taken to have gone on as it did: whether it would have missed what was pruned, no bill says"
    if totals.fired and settings.summarizer != "extractive":
        yield f"summaries are estimated as the extractive ones; {settings.summarizer} was not asked"
    if totals.fired and settings.context_sources:
        most = settings.context_token_cap
        counted = f"a compaction is counted with the {most:,} tokens that they may add"
        yield f"context sources are not asked in a dry run: {counted}"
    if totals.unbilled:
        yield f"{_turns(totals.unbilled)} without a bill: prompts and costs are estimated, without what was answered"
    if totals.unpriced:
        yield f"{_turns(totals.unpriced)} without a price, or whose cache nobody knows, are left out of the costs"
    if seen.plans > 1 and totals.fired:
        yield "the cheapest moment is chosen in hindsight, the same for all cadences of the session"
    if totals.overfull is not None and totals.overfull[1]:
        yield "what stays fills over 90 % of the window even so: shorten tools and system prompt, or raise window"
    if totals.recorded:
        many = totals.recorded > 1
        yield f"{totals.recorded:,} compaction{'s' * many} of the recording stay{'s' * (not many)} on both sides"


def _near(totals: CompactedTotals, settings: Compaction, seen: TrialFacts) -> Iterator[str]:
    """Yield how far a session was from each trigger that is on: what to set for it to fire."""
    if settings.continuous_interval:
        many = "" if seen.exchanges == 1 else "s"
        yield f"{seen.exchanges:,} user exchange{many} (continuous_interval {settings.continuous_interval:,})"
    if settings.gap_secs and seen.timed:
        pause = "no pause" if seen.pause is None else f"longest pause {seen.pause:,.0f} s"
        yield f"{pause} (gap_secs {settings.gap_secs:,})"
    if settings.window:
        most = settings.window * CALM // 100
        yield f"longest prompt {totals.without.largest_tokens:,} tokens (overflow above {most:,})"


def _turns(count: int) -> str:
    return f"{count:,} turn{'' if count == 1 else 's'}"


def money(value: float | None) -> str:
    """Return an amount in US dollars as a person reads it."""
    if value is None:
        return "unknown"
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.2f}" if abs(value) >= 0.1 or not value else f"{sign}${abs(value):,.4f}"
