"""`lore compact`: compact a session, try a policy on a recording, or watch a store.

Only lore's own logs and stores are written to. The log is locked, or the stored head noted, before it is read;
everything is decided and made before the first byte is written, so that an error anywhere leaves all as it was. What
goes from a stored session is learnt from first, if `[memory]` says so, by the plug-in that is published under the
entry-point group `lore.memories`; a log has no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, nullcontext
from functools import lru_cache
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from lore.asking import Waiting
from lore.cache.rules import DatedRules
from lore.compaction.activity import UNTIMED, SessionActivity
from lore.compaction.base import CompactionOutcome, SessionMemory, StoreMemory, Trigger
from lore.compaction.costs import PromptSizes, compaction_cost, session_costs, summary_price
from lore.compaction.entries import tokens_of
from lore.compaction.executor import execute, judge_chain, should_wait, token_scale
from lore.compaction.settings import TRIED, WINDOWS, Compaction
from lore.compaction.store_watch import Hands, Watch
from lore.compaction.summarizers import dependencies_of, refuse_nested
from lore.compaction.trial import Trial, order_turn_ends
from lore.config import Settings
from lore.errors import LoreError, lacks_plug_in
from lore.fold.step import Folding
from lore.formats.lore_log import LoreLog
from lore.model.events import Event, SessionStarted, encode
from lore.model.results.compact import CompactResult, DryRunResult, FiredTrigger
from lore.model.results.page import EarlierCompaction
from lore.model.times import parse_timestamp
from lore.plugins import published
from lore.recording import corpus
from lore.recording.base import Problems, collected_seldom
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.report.sentences.trial import UNCONFIGURED, notes, verdict
from lore.run.outputs import open_output
from lore.run.stored.appending import HINT_CONVERT, appending
from lore.store.base import Store, Tell
from lore.store.locks import trylock
from lore.store.registry import address_of, open_existing, scheme_of
from lore.store.registry import mask_url as shown_url


class CompactRequest(NamedTuple):
    """What to do: which trigger, which file to write the log to (None: append to it), by which clock, who is told.

    `settings` say what is remembered of what goes.
    """

    trigger: Trigger
    output: str | None
    clock: Callable[[], float]
    tell: Tell
    settings: Settings = Settings()
    force: bool = False


class MemoryMaker(Protocol):
    """What a plug-in publishes under `lore.memories`: it makes the memory of a store's sessions."""

    def __call__(
        self, store: Store, settings: Settings, compaction: Compaction | None, /, *, tell: Tell,
        clock: Callable[[], float], waiting: Waiting,
    ) -> StoreMemory:  # fmt: skip
        """Return the memory; `compaction` names who is asked, `waiting` surrounds each wait for an answer."""
        ...


def memory_maker(settings: Settings) -> MemoryMaker | None:
    """Return what makes the memory that `[memory]` switches on; raises LoreError if no plug-in has one."""
    if not settings.memory.is_on:
        return None
    points = published("lore.memories")
    if not points:
        raise lacks_plug_in("memory", '[memory] system = "structured" in the settings')
    return points[0].load()


class Compacting:
    """A session that is compacted: its state, what was tracked of it, and what is done to it."""

    def __init__(
        self, path: str, options: Options, settings: Compaction, rules: DatedRules, request: CompactRequest
    ) -> None:
        self._path, self._settings, self._rules, self._request = path, settings, rules, request
        self._address = address_of(path)
        self._problems = Problems()
        opened = options.open(path, self._problems)
        recording = session_log(opened, "events: there is no session to compact", hint=HINT_CONVERT)
        self._tracker, self._header = SessionActivity(), None
        for read in recording.reads():
            event: Event = read.value  # pyright: ignore[reportAssignmentType]
            recording.apply(read, event)
            if self._header is None and isinstance(event, SessionStarted):
                self._header: SessionStarted | None = event
            self._tracker.add(event)
        self._session = recording.state
        self._chain = self._session.main()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold the lock of the session's agent and user; raises LoreError where another compaction does."""
        place = f"jsonl:{self._path}" if self._address is None else self._address.url
        with trylock(place, self._tracker.agent or "", self._tracker.user or "") as free:
            if not free:
                shown = corpus.show(self._path)
                message = f"another compaction is at work on {shown}, or on another session of this user there"
                raise LoreError(message, hint="nothing was done: run the command again later")
            yield

    @contextmanager
    def learning(self) -> Generator[SessionMemory | None]:
        """Hold the memory that a stored session belongs to; None if nothing of it is remembered."""
        request, address = self._request, self._address
        make = None if address is None else memory_maker(request.settings)
        if address is None or make is None or self._header is None:
            yield None
            return
        with closing(open_existing(address.url, request.tell)) as store:
            memory = make(
                store, request.settings, self._settings, tell=request.tell, clock=request.clock, waiting=nullcontext
            )
            yield memory.of_session(self._header)

    def made(self, memory: SessionMemory | None = None) -> CompactionOutcome | str:
        """Return what is to be written, or why nothing is; `SummaryError` leaves as it is."""
        session, chain, tracker, settings = self._session, self._chain, self._tracker, self._settings
        trigger, tell, now = self._request.trigger, self._request.tell, self._request.clock()
        dependencies = dependencies_of(settings, tell, session.id, tracker.agent or "", tracker.user or "")
        firing = judge_chain(tracker, chain, settings, (trigger,), now=now)
        few = f"Nothing was compacted: there are no messages besides the last {settings.keep_recent} that stay"
        if firing is None:
            if trigger == "gap" and settings.gap_secs and not tracker.chain(chain.id).is_timed:
                return f"Nothing was compacted: {UNTIMED}."
            return f"{few}." if trigger == "manual" else f"Nothing was compacted: no {trigger} is due."
        if should_wait(firing, tracker, chain, settings, session_costs(session, chain, self._rules, now), now):
            why = "the cache is warm, and waiting until it is cold costs less"
            return f'Nothing was compacted: {why} (when = "cheapest").'
        done = execute(session, chain.id, firing, settings, dependencies._replace(memory=memory), at=now)
        if done.events:
            return done
        why = f"Nothing was compacted: {done.refused}" if done.refused else few
        return f"{why}, and no source had anything to say." if firing.window is not None else f"{why}."

    def result(self, made: CompactionOutcome | str, place: str) -> CompactResult:
        """Return what was done: the events are written to `place`, or nothing is."""
        if isinstance(made, str):
            return _result(self._path, made, problems=self._problems)
        verb = "appended to" if place == self._path else "written behind the log, in"
        written = _shown(place)
        events = "1 event was" if len(made.events) == 1 else f"{len(made.events):,} events were"
        answer = f"{events} {verb} {written}."
        return replace(
            _result(self._path, answer, problems=self._problems), triggers=[self._fired(made)], events=len(made.events),
            written=written, notes=[f"nothing was pruned: {made.refused}"] if made.refused else [],
        )  # fmt: skip

    def _fired(self, made: CompactionOutcome) -> FiredTrigger:
        """Describe what was made, with its cost as far as the prices of the chain's model are known."""
        session, chain, now = self._session, self._chain, self._request.clock()
        folding, scale = Folding(session), token_scale(self._tracker, chain)
        for event in made.events:
            folding.apply(event)
        before, after = (scale.prompt(tokens_of(held.entries)) for held in (chain, folding.chain(chain.id)))
        sizes = PromptSizes(before, after + made.context_tokens, scale.head if made.changes_history else before)
        cache = session_costs(session, chain, self._rules, now, before)
        read = max(0, before - scale.head) if made.pruned else 0
        end = None if chain.last is None else parse_timestamp(chain.last.at)
        cost = compaction_cost(
            sizes, cache, cache.is_warm(None if end is None else now - end),
            summary_price(self._rules, self._settings, read, now),
        )  # fmt: skip
        return FiredTrigger(
            trigger=made.trigger, turn=0 if chain.turn is None else chain.turn.turn, at=now, kept=made.kept,
            pruned=made.pruned, context_tokens=made.context_tokens, before_tokens=before, after_tokens=sizes.after,
            cost=cost,
        )  # fmt: skip


def compact(
    path: str, options: Options, settings: Compaction | None, rules: DatedRules, request: CompactRequest
) -> CompactResult:
    """Compact a session where the trigger is due; raises SummaryError without a summary, LoreError for all else."""
    if corpus.parse_name(path).turn is not None and address_of(path) is None:
        raise LoreError(f"{path} is one turn: a session is compacted as a whole", hint="leave #TURN out")
    if options.format not in (None, "lore"):
        raise LoreError(f"lore logs are compacted, not {options.format!r}", hint=HINT_CONVERT)
    refuse_nested()  # before the log's lock is waited for: who runs this may hold it
    if settings is None:
        return _result(path, UNCONFIGURED, configured=False)
    if request.output is not None:
        return _to_file(path, options, settings, rules, request, request.output)
    with appending(path, patience=0) as appender:  # who compacts it holds it for long: skipped, never queued
        compacting = Compacting(path, options, settings, rules, request)
        with compacting.alone(), compacting.learning() as memory:
            made = compacting.made(memory)
            if isinstance(made, CompactionOutcome) and appender.append(made.events):
                request.tell("note: the last line of the log was torn; it stays as it is, with a line end")
    return compacting.result(made, path)


def _to_file(
    path: str, options: Options, settings: Compaction, rules: DatedRules, request: CompactRequest, output: str
) -> CompactResult:  # fmt: skip
    """Write the log with the events behind its own; what was read stays as it is."""
    if output == corpus.STDIN or scheme_of(output) is not None:
        raise LoreError(f"--output names a file, and {_shown(output)} is none", hint="name another one")
    data = b"".join(corpus.pieces(path))
    if not LoreLog.recognises(data[: corpus.HEAD]):
        raise LoreError(f"{corpus.show(path)} is not a lore log", hint=HINT_CONVERT)
    compacting = Compacting(path, options, settings, rules, request)
    with compacting.alone():
        made = compacting.made()
        if isinstance(made, CompactionOutcome):
            inputs = () if address_of(path) is not None else (path,)
            with open_output(output, force=request.force, inputs=inputs) as file:
                file.write(data if data.endswith(b"\n") or not data else data + b"\n")
                file.writelines(encode(event) + b"\n" for event in made.events)
    return compacting.result(made, output)


def _result(path: str, answer: str, *, configured: bool = True, problems: Problems | None = None) -> CompactResult:
    return CompactResult(
        session=_shown(path), configured=configured, triggers=[], events=0, written=None, answer=answer, notes=[],
        problems=[] if problems is None else list(problems.kept),
    )  # fmt: skip


def _shown(path: str) -> str:
    return corpus.show(shown_url(path))


def dry_run(path: str, options: Options, settings: Compaction | None, rules: DatedRules) -> DryRunResult:
    """Try a policy on a recording; raises LoreError for recordings of requests, which hold no events."""
    hint = "name a session log; requests are judged by `lore check` and `lore simulate`"
    recording = session_of(options.open(path, Problems()), "events: there is no session to compact", hint=hint)
    if settings is None:
        return DryRunResult(
            session=recording.shown, configured=False, when=None, triggers=[], totals=None, answer=UNCONFIGURED,
            notes=[], problems=[],
        )  # fmt: skip
    with collected_seldom():
        trial = Trial(lambda: recording.state, settings, rules)
        for read, event in order_turn_ends(recording.reads()):
            trial.before(event)
            recording.apply(read, event)
            trial.after(event)
        outcome = trial.result()
    return DryRunResult(
        session=recording.shown, configured=True, when=outcome.moment, triggers=outcome.triggers, totals=outcome.totals,
        answer=verdict(outcome), notes=list(notes(outcome)), problems=list(recording.problems.kept),
    )  # fmt: skip


_MOST_TOLD = 1_024  # messages that a watch prints once each
WORTH = 0.1  # of a session's cost


def earlier(
    path: str, dollars: float | None, largest: int | None, options: Options, rules: DatedRules
) -> EarlierCompaction | None:  # fmt: skip
    """Return what compacting a session sooner would have saved, where that is a tenth of its cost in `dollars`.

    The larger window that is worth it is taken, of those below the `largest` prompt, in tokens; None for recordings of
    requests. Cost: a reading a window.
    """
    for window in WINDOWS:
        if not dollars or (largest or 0) < window:
            continue
        try:
            totals = dry_run(path, options, replace(TRIED, window=window), rules).totals
        except LoreError:
            return None
        if totals is not None and totals.saved is not None and totals.saved >= dollars * WORTH:
            return EarlierCompaction(window, totals.saved, totals.fired)
    return None


_DEFAULTS = Settings()


def watch(
    url: str, policy: Compaction | None, rules: DatedRules, hands: Hands, settings: Settings = _DEFAULTS
) -> int:  # fmt: skip
    """Watch a store, folding and remembering its sessions by the settings.

    Raises LoreError where it, or what the policy names, cannot be had, or no trigger is on.
    """
    refuse_nested()
    remembers = settings.memory.is_on and settings.sessions.gap_secs > 0
    if policy is not None:
        if not (policy.continuous_interval or policy.gap_secs or policy.window or remembers):
            hint = "set continuous_interval, gap_secs or window"
            raise LoreError("the policy switches no trigger on", hint=hint)
        dependencies_of(policy, hands.tell, "")  # what cannot be had is said before anything is read
    elif not remembers:
        raise LoreError("nothing is configured: no session would ever be compacted", hint="give --policy FILE")
    make = memory_maker(settings)
    with closing(open_existing(url, lru_cache(_MOST_TOLD)(hands.tell))) as store:  # a damaged session is told once
        hands.tell(f"watching {shown_url(url)}")
        memory = None
        if make is not None:
            memory = make(store, settings, policy, tell=hands.tell, clock=hands.clock, waiting=hands.waiting)
        return Watch(store, policy, rules, hands, memory, divider=settings.assemble.divider).run()
