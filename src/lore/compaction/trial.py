"""What a policy would have done to a recorded session: where it fires, what that costs and saves, in a sentence.

The policy is asked where a harness would ask it (after each finished turn; when a person speaks; before each turn), and
each firing is applied before the next is sought. Recorded compactions stay; the summary is the extractive one; sources
are not asked, and counted with the most that they may say. Only the main chain is compacted, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.compaction.activity import UNTIMED, Tracked
from lore.compaction.costs import Moment
from lore.compaction.policy import AFTER_TURN, CALM
from lore.compaction.settings import Compaction
from lore.compaction.trial_plan import Accounts, TrialPlan, most_context
from lore.formats.base import Read
from lore.model.codes import Problem
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.model.results.simulate import CompactedTotals, DryRun
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
        event, chain = placed.event, placed.event.chain
        item = event.item if isinstance(event, Append) else None
        answers = isinstance(item, AssistantMessage | ToolCall)
        if held and chain == held[0].event.chain and (answers or isinstance(event, (TurnStarted, *ENDS))):
            yield from (placed, *held) if isinstance(event, ENDS) else (*held, placed)
            held = []
        elif held or (is_answered.get(chain) and item is not None and is_real(item)):
            held.append(placed)
        else:
            yield placed
        if isinstance(event, TurnStarted) or (isinstance(item, AssistantMessage) and chain in is_answered):
            is_answered[chain] = item is not None
        elif isinstance(item, ToolCall) or isinstance(event, ENDS):
            is_answered.pop(chain, None)
    yield from held


class Trial:
    """Call `before` and `after` with each event, around its being applied to the recorded session; then `result`.

    `recorded` returns the recorded session as it is by now; before the first event that is an empty one. Where the
    moment is to be the cheapest, a second plan waits with its cadences for a cold cache.
    """

    def __init__(self, recorded: Callable[[], Session], settings: Compaction, rules: Rules) -> None:
        moments: tuple[Moment, ...] = ("now", "later") if settings.when == "cheapest" else ("now",)
        self._recorded, self._settings = recorded, settings
        self._plans = [TrialPlan(recorded(), settings, rules, moment) for moment in moments]
        self._accounts = Accounts(rules, self._plans, settings)
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
            at = seconds(event.at)
            self._waits_for_time = at is None
            if at is not None:
                self._ask_gap(event, at)
        elif isinstance(event, TurnStarted):
            self._after_turn()
            self._accounts.close(self._chain())
            at = seconds(event.at)
            if self._waits_for_time and at is not None:
                self._ask_gap(event, at)
            self._waits_for_time = False
            for plan in self._plans:
                plan.wake(self._accounts.known, event.chain, at)
                plan.ask(("overflow",), self._accounts.known, event.chain, at)

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
        seen = plan.session.tracker.chain(self._main or MAIN)
        return DryRun(
            session=shown, configured=True, when=plan.moment, triggers=[firing.result() for firing in plan.firings],
            totals=totals, answer=verdict(totals, self._settings, plan.moment),
            notes=list(notes(totals, self._settings, plan, seen, len(self._plans))), problems=list(problems),
        )  # fmt: skip


UNCONFIGURED = (
    "Nothing is configured: without a [compaction] table in lore.toml, or --policy FILE, no session is ever compacted."
)
NO_TRIGGER = "The policy switches no trigger on: set continuous_interval, gap_secs or window."


def verdict(totals: CompactedTotals, settings: Compaction, moment: str) -> str:
    """Answer in a few sentences; what is estimated says so."""
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        return NO_TRIGGER
    if not totals.turns:
        return "The recording holds no turn: there is nothing to compact."
    if not totals.fired:
        return f"No: no trigger would have fired in {_turns(totals.turns)}, so it would have changed nothing."
    before, after = totals.without, totals.compacted
    share = 1 - after.prompt_tokens / before.prompt_tokens if before.prompt_tokens else 0.0
    change = f"{min(share, 0.99):.0%} shorter" if share >= 0 else f"{-share:.0%} longer"  # never to nothing
    longest = f"the longest {after.largest_tokens:,} tokens instead of {before.largest_tokens:,}"
    sentences = [_verdict(totals), f"Prompts would have been {change} in all, {longest}."]
    if totals.overfull is not None and totals.overfull[0]:
        full, fuller = totals.overfull
        sentences.append(f"{_turns(full)} filled over 90 % of the window; with it {fuller:,} would.")
    if moment == "later":
        sentences.append("Here it is cheapest to wait with cadences until the cache has gone cold anyway.")
    return " ".join(sentences)


def _verdict(totals: CompactedTotals) -> str:
    known, cost, refreshed = totals.saved_without_summaries, totals.without.cost, totals.refreshed
    done = totals.fired - refreshed
    parts = [f"{done:,} compaction{'s' * (done > 1)}"] if done or not refreshed else []
    if refreshed:
        parts.append(f"asking outside sources {refreshed:,} time{'s' * (refreshed > 1)}")
    times = " and ".join(parts)
    if known is None or cost is None:
        return f"Unknown in money: no price or no bill is known for these turns; the policy comes to {times}."
    was = "the main chain was billed" if totals.without.figures == "recorded" else "the main chain cost, estimated"
    share = f" ({abs(known) / cost:.0%} of the {money(cost)} that {was})" if cost else ""
    besides = f", before what {times} would have cost for the summaries (not known)" if totals.saved is None else ""
    if known > 0:
        return f"Yes: {times} would have saved about {money(known)}{share}, estimated{besides}."
    if known < 0:
        why = "each rewrites the cache, and what follows does not pay for that"
        if not done:
            why = "what sources say is paid for in every turn behind it"
        return f"Not in money: {times} would have cost about {money(-known)} more{share}, estimated{besides}: {why}."
    return f"No: {times} would have come too late to save anything{besides}."


def notes(totals: CompactedTotals, settings: Compaction, plan: TrialPlan, seen: Tracked, plans: int) -> Iterator[str]:
    """Yield what has to be known to read the figures; where nothing fired, how far each trigger that is on was."""
    near: list[str] = []
    if settings.continuous_interval:
        many = "" if seen.exchanges == 1 else "s"
        near.append(f"{seen.exchanges:,} user exchange{many} (continuous_interval {settings.continuous_interval:,})")
    if settings.gap_secs and seen.is_timed:
        pause = "no pause" if plan.pause is None else f"longest pause {plan.pause:,.0f} s"
        near.append(f"{pause} (gap_secs {settings.gap_secs:,})")
    if settings.window:
        most = settings.window * CALM // 100
        near.append(f"longest prompt {totals.without.largest_tokens:,} tokens (overflow above {most:,})")
    if near and totals.turns and not totals.fired:
        yield f"how near it came: {', '.join(near)}"
    if settings.gap_secs and not seen.is_timed:
        yield UNTIMED
    if plan.refused:
        times = "once" if plan.refused == 1 else f"{plan.refused:,} times"
        yield f"{times} a trigger was due and pruned nothing: the prompt would not have become shorter"
    if totals.fired:
        yield "the agent is taken to have gone on as it did: whether it would have missed what was pruned, no bill says"
    if totals.fired and settings.summarizer != "extractive":
        yield f"summaries are estimated as the extractive ones; {settings.summarizer} was not asked"
    if totals.fired and settings.context_sources:
        counted = f"a compaction is counted with the {most_context(settings):,} tokens that they may add"
        yield f"context sources are not asked in a dry run: {counted}"
    if totals.unbilled:
        yield f"{_turns(totals.unbilled)} without a bill: prompts and costs are estimated, without what was answered"
    if totals.unpriced:
        yield f"{_turns(totals.unpriced)} without a price, or whose cache nobody knows, are left out of the costs"
    if plans > 1 and totals.fired:
        yield "the cheapest moment is chosen in hindsight, the same for all cadences of the session"
    if totals.overfull is not None and totals.overfull[1]:
        yield "what stays fills over 90 % of the window even so: shorten tools and system prompt, or raise window"
    if totals.recorded:
        many = totals.recorded > 1
        yield f"{totals.recorded:,} compaction{'s' * many} of the recording stay{'s' * (not many)} on both sides"


def _turns(count: int) -> str:
    return f"{count:,} turn{'' if count == 1 else 's'}"


def money(value: float | None) -> str:
    """Return an amount in US dollars as a person reads it."""
    if value is None:
        return "unknown"
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.2f}" if abs(value) >= 0.1 or not value else f"{sign}${abs(value):,.4f}"
