"""What a policy would have done to a recording: where it fires, what that costs and saves. Nothing is written or run.

In: a recording of events, a policy. Out: a `DryRun`. Rules: folded live, the policy asked where a harness would ask it
(after each finished turn; when a person speaks; before each turn), and each firing applied before the next is sought;
recorded compactions stay; the summary is the extractive one, whichever is configured; sources are not asked, and
counted with the most that they may say. Only the main chain is compacted, and counted. One pass, two folds (three
where the moment is chosen), and O(what is pruned) for each firing.
"""

from __future__ import annotations

from lore.cache.rules import Rules
from lore.compaction.settings import Compaction
from lore.formats.base import Read
from lore.model.compacted import CompactedTotals, DryRun
from lore.model.events import MAIN, Append, Event, TurnStarted
from lore.model.state import Chain
from lore.model.turn import seconds
from lore.prompt.speakers import is_real
from lore.recording.events import EventRecording, session_log
from lore.recording.options import Options
from lore.recording.problems import Problems
from lore.run.compacting.accounts import Accounts
from lore.run.compacting.answers import UNCONFIGURED, Seen, answer, notes
from lore.run.compacting.ordering import ENDS, ended_first
from lore.run.compacting.plans import Moment, Plan
from lore.run.gc_tuning import collected_seldom


def dry_run(path: str, options: Options, settings: Compaction | None, rules: Rules) -> DryRun:
    """Try a policy on a recording; raises LoreError for recordings of requests, which hold no events."""
    hint = "name a session log; requests are judged by `lore check` and `lore simulate`"
    recording = session_log(options.open(path, Problems()), "events: there is no session to compact", hint=hint)
    if settings is None:
        return DryRun(
            session=recording.shown, configured=False, when=None, triggers=[], totals=None, answer=UNCONFIGURED,
            notes=[], problems=[],
        )  # fmt: skip
    with collected_seldom():
        return _Trial(recording, settings, rules).run()


class _Trial:
    """One recording, and the same with the policy; with `cheapest` also with firings that wait for a cold cache."""

    def __init__(self, recording: EventRecording, settings: Compaction, rules: Rules) -> None:
        self._recording = recording
        self._settings = settings
        moments: tuple[Moment, ...] = ("now", "later") if settings.when == "cheapest" else ("now",)
        self._plans = [Plan(recording.reader.name, settings, moment) for moment in moments]
        self._accounts = Accounts(rules, self._plans, settings)
        self._main: str | None = None
        self._finished = False
        self._unasked = False
        self._compactions = 0

    def run(self) -> DryRun:
        """Read all of it."""
        for read, event in ended_first(self._recording.reads()):
            self._take(read, event)
        self._after_turn()
        self._accounts.close(self._chain())
        return self._result()

    def _take(self, read: Read, event: Event) -> None:
        kind = type(event)
        if kind is Append or kind is TurnStarted:
            self._main = event.chain if self._main is None or event.chain == MAIN else self._main
        mine = event.chain == self._main
        if mine and kind is Append:
            self._message(event)  # pyright: ignore[reportArgumentType]
        elif mine and kind is TurnStarted:
            self._before_turn(event)  # pyright: ignore[reportArgumentType]
        before = len(self._recording.boundaries)
        self._recording.apply(read, event)
        self._compactions += mine and len(self._recording.boundaries) > before
        for plan in self._plans:
            plan.world.take(event)
        if mine and kind is TurnStarted:
            self._accounts.open(event, self._chain())  # pyright: ignore[reportArgumentType]
        elif mine and kind in ENDS:
            self._finished = True
            self._accounts.answered(seconds(event.at))

    def _message(self, event: Append) -> None:
        """Ask what is asked when a person speaks: before the message is taken, so that it has the last word."""
        if not is_real(event.item):
            return
        self._after_turn()
        at = seconds(event.at)
        self._unasked = at is None
        if at is not None:
            self._gap(event, at)

    def _before_turn(self, event: TurnStarted) -> None:
        self._after_turn()
        self._accounts.close(self._chain())
        at = seconds(event.at)
        if self._unasked and at is not None:
            self._gap(event, at)
        self._unasked = False
        for plan in self._plans:
            plan.wake(self._accounts, event.chain, at)
            plan.ask(("overflow",), self._accounts, event.chain, at)

    def _gap(self, event: Append | TurnStarted, at: float) -> None:
        for plan in self._plans:
            plan.wake(self._accounts, event.chain, at)
            plan.ask(("gap",), self._accounts, event.chain, at, agent=event.agent_id)

    def _after_turn(self) -> None:
        """Ask what is asked after a turn: once all of it has come, its results too."""
        if not self._finished or self._main is None:
            return
        self._finished = False
        self._accounts.close(self._chain())  # what it was billed is known, and saved by no compaction behind it
        for plan in self._plans:
            plan.ask(("overflow", "cadence"), self._accounts, self._main, self._accounts.last)

    def _chain(self) -> Chain:
        return self._recording.state.chain(self._main or MAIN)

    def _result(self) -> DryRun:
        plan = self._accounts.cheapest()
        accounts, settings, main = self._accounts, self._settings, self._main or MAIN
        totals: CompactedTotals = accounts.totals(plan, self._compactions)
        tracked = plan.world.tracker.chain(main)
        seen = Seen(tracked.is_timed, tracked.exchanges, plan.pause, len(self._plans))
        said = answer(totals, settings, plan.moment)
        return DryRun(
            session=self._recording.shown, configured=True, when=plan.moment, triggers=accounts.fired(plan),
            totals=totals, answer=said, notes=list(notes(totals, settings, seen)),
            problems=list(self._recording.problems.kept),
        )  # fmt: skip
