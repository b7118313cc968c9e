"""Compact a log or a stored session, or watch a store: the work of `lore compact`.

Only lore's own logs and stores are written to. A log that gets new events is locked, or the stored head read, before
the session is read; everything is decided and made before the first byte is written, so that an error anywhere changes
nothing. Pruned messages of a stored session are remembered first, if `[memory]` says so, by the plug-in that is
published under the entry-point group `lore.memories`; a log has no memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from lore.cache.rules import DatedRules
from lore.commands.common import log, tell
from lore.compaction.activity import UNTIMED, SessionActivity
from lore.compaction.base import CompactionOutcome, SessionMemory, StoreMemory, Trigger, Waiting
from lore.compaction.costs import PromptSizes, compaction_cost, session_costs, summary_price
from lore.compaction.entries import tokens_of
from lore.compaction.executor import execute, judge_moment, token_scale
from lore.compaction.policy import TRIGGERS
from lore.compaction.settings import Compaction
from lore.compaction.store_watch import Hands, Watch
from lore.compaction.summarizers import dependencies_of, refuse_nested
from lore.config import Settings
from lore.errors import LoreError, lacks_plug_in
from lore.fold.step import Folding
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import Event, SessionStarted, encode
from lore.model.results.compact import CompactResult, FiredTrigger
from lore.model.times import parse_timestamp
from lore.plugins import published
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.report.compacted import UNCONFIGURED
from lore.run.appending import HINT_CONVERT, appending
from lore.run.outputs import open_output
from lore.store.base import Store, Tell
from lore.store.locks import trylock
from lore.store.registry import address_of, mask_url, open_existing, scheme_of

if TYPE_CHECKING:
    from lore.commands.compact import CompactOptions

_DEFAULTS = Settings()
_MOST_TOLD = 1_024  # messages that a watch prints once each


class MemoryMaker(Protocol):
    """What a plug-in publishes under `lore.memories`: it makes the memory of a store's sessions."""

    def __call__(
        self, store: Store, settings: Settings, compaction: Compaction | None, /, *, tell: Tell,
        clock: Callable[[], float],
    ) -> StoreMemory:  # fmt: skip
        """Return the memory; `compaction` names who is asked."""
        ...


def memory_maker(settings: Settings) -> MemoryMaker | None:
    """Return what makes the memory that `[memory]` switches on; raises LoreError if no plug-in has one."""
    if not settings.memory.is_on:
        return None
    points = published("lore.memories")
    if not points:
        raise lacks_plug_in("memory", '[memory] system = "structured" in the settings')
    return points[0].load()


class SessionCompaction:
    """One compaction of a session: made with it (which reads the session), `locked`, `make`, `result`, in this order.

    Raises LoreError when it is made if the session cannot be read, or is in another format.
    """

    def __init__(self, path: str, options: Options, policy: Compaction, rules: DatedRules) -> None:
        self._path, self._policy, self._rules = path, policy, rules
        self._address = address_of(path)
        self._problems, self._log = Problems(), options.log
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
    def locked(self, settings: Settings) -> Generator[SessionMemory | None]:
        """Hold the lock of the session's agent and user in its store, or of the log; do not wait for it.

        Yields the memory that a stored session belongs to; None for a log, or if nothing of it is remembered. Raises
        LoreError if another compaction holds the lock.
        """
        with ExitStack() as stack:
            store = None
            if self._address is not None:
                store = stack.enter_context(closing(open_existing(self._address.url, tell)))
            agent, user = self._tracker.agent or "", self._tracker.user or ""
            if not stack.enter_context(trylock(store or f"jsonl:{self._path}", agent, user)):
                shown = corpus.show(self._path)
                message = f"another compaction is at work on {shown}, or on another session of this user there"
                raise LoreError(message, hint="nothing was done: run the command again later")
            make = None if store is None else memory_maker(settings)
            memory = None
            if store is not None and make is not None and self._header is not None:
                made = make(store, settings, self._policy, tell=tell, clock=time.time)
                memory = made.of_session(self._header)
            yield memory

    def make(self, trigger: Trigger, memory: SessionMemory | None) -> CompactionOutcome | str:
        """Return the outcome with the events to write, or the reason for writing nothing; raises SummaryError."""
        session, chain, tracker, policy, now = self._session, self._chain, self._tracker, self._policy, time.time()
        dependencies = dependencies_of(policy, tell, session.id, tracker.agent or "", tracker.user or "")
        cache = session_costs(session, chain, self._rules, now)
        waiting = Waiting()
        firing = judge_moment(tracker, chain, policy, (trigger,), now=now, waiting=waiting, cache=cache, tell=self._log)
        if waiting.for_cold_cache:
            reason = "the cache is warm, and waiting until it is cold costs less"
            return f'Nothing was compacted: {reason} (when = "cheapest").'
        few = f"Nothing was compacted: there are no messages except the last {policy.keep_recent}, which stay"
        if firing is None:
            if trigger == "gap" and policy.gap_secs and not tracker.chain(chain.id).is_timed:
                return f"Nothing was compacted: {UNTIMED}."
            return f"{few}." if trigger == "manual" else f"Nothing was compacted: no {trigger} is due."
        outcome = execute(session, chain.id, firing, policy, dependencies._replace(memory=memory), at=now)
        if outcome.events:
            return outcome
        reason = f"Nothing was compacted: {outcome.refused}" if outcome.refused else few
        return f"{reason}, and no source had anything to say." if firing.window is not None else f"{reason}."

    def result(self, outcome: CompactionOutcome | str, place: str) -> CompactResult:
        """Return the answer: the events were written to `place`, or nothing was."""
        problems = list(self._problems.kept)
        if isinstance(outcome, str):
            return _result(self._path, outcome, problems=problems)
        verb = "appended to" if place == self._path else "written after the log, in"
        count, written = len(outcome.events), _shown(place)
        events = "1 event was" if count == 1 else f"{count:,} events were"
        return _result(
            self._path, f"{events} {verb} {written}.", triggers=[self._describe(outcome)], events=count,
            written=written, notes=[f"nothing was pruned: {outcome.refused}"] if outcome.refused else [],
            problems=problems,
        )  # fmt: skip

    def _describe(self, outcome: CompactionOutcome) -> FiredTrigger:
        """Return the figures of a compaction, with its cost if the prices of the chain's model are known."""
        session, chain, now = self._session, self._chain, time.time()
        folding, scale = Folding(session), token_scale(self._tracker, chain)
        for event in outcome.events:
            folding.apply(event)
        before, after = (scale.prompt(tokens_of(held.entries)) for held in (chain, folding.chain(chain.id)))
        sizes = PromptSizes(before, after + outcome.context_tokens, scale.head if outcome.changes_history else before)
        cache = session_costs(session, chain, self._rules, now, before)
        read = max(0, before - scale.head) if outcome.pruned else 0
        end = None if chain.last is None else parse_timestamp(chain.last.at)
        is_warm = cache.is_warm(None if end is None else now - end)
        cost = compaction_cost(sizes, cache, is_warm, summary_price(self._rules, self._policy, read, now))
        return FiredTrigger(
            trigger=outcome.trigger, turn=0 if chain.turn is None else chain.turn.turn, at=now, kept=outcome.kept,
            pruned=outcome.pruned, context_tokens=outcome.context_tokens, before_tokens=before,
            after_tokens=sizes.after, cost=cost,
        )  # fmt: skip


def compact(request: CompactOptions, policy: Compaction | None, rules: DatedRules, settings: Settings) -> CompactResult:
    """Compact a session if the trigger is due; raises SummaryError without a summary, LoreError for all else."""
    path, trigger = request.session, request.trigger
    if trigger not in TRIGGERS:
        raise LoreError(f"unknown trigger {trigger!r}", hint="triggers: " + ", ".join(TRIGGERS))
    if corpus.parse_name(path).turn is not None and address_of(path) is None:
        raise LoreError(f"{path} is one turn: a session is compacted as a whole", hint="leave #TURN out")
    if request.format not in (None, "lore"):
        raise LoreError(f"lore logs are compacted, not {request.format!r}", hint=HINT_CONVERT)
    refuse_nested()  # before the log's lock is waited for: the program that runs this may hold it
    if policy is None:
        return _result(path, UNCONFIGURED, configured=False)
    options = Options(format=request.format, rules=settings.assemble, log=log(request.verbose))
    if request.output is not None:
        return _compact_to_file(request, trigger, options, policy, rules, request.output)
    with appending(path, patience=0) as append:  # another compaction holds the lock for long: do not wait
        compaction = SessionCompaction(path, options, policy, rules)
        with compaction.locked(settings) as memory:
            outcome = compaction.make(trigger, memory)
            if isinstance(outcome, CompactionOutcome):
                append(outcome.events)
    return compaction.result(outcome, path)


def _compact_to_file(
    request: CompactOptions, trigger: Trigger, options: Options, policy: Compaction, rules: DatedRules, output: str
) -> CompactResult:
    """Write the log with the new events to another file; it is not locked, and stays as it is."""
    path = request.session
    if output == corpus.STDIN or scheme_of(output) is not None:
        raise LoreError(f"--output names a file, and {_shown(output)} is none", hint="name another one")
    data = b"".join(corpus.pieces(path))
    if not LoreLog.recognises(data[: corpus.HEAD]):
        raise LoreError(f"{corpus.show(path)} is not a lore log", hint=HINT_CONVERT)
    compaction = SessionCompaction(path, options, policy, rules)
    with compaction.locked(_DEFAULTS):  # nothing is remembered
        outcome = compaction.make(trigger, None)
        if isinstance(outcome, CompactionOutcome):
            inputs = () if address_of(path) is not None else (path,)
            with open_output(output, force=request.force, inputs=inputs) as file:
                file.write(data if data.endswith(b"\n") or not data else data + b"\n")
                file.writelines(encode(event) + b"\n" for event in outcome.events)
    return compaction.result(outcome, output)


def _result(
    path: str, answer: str, *, configured: bool = True, triggers: list[FiredTrigger] | None = None, events: int = 0,
    written: str | None = None, notes: list[str] | None = None, problems: list[Problem] | None = None,
) -> CompactResult:  # fmt: skip
    return CompactResult(
        session=_shown(path), configured=configured, triggers=triggers or [], events=events, written=written,
        answer=answer, notes=notes or [], problems=problems or [],
    )  # fmt: skip


def _shown(path: str) -> str:
    return corpus.show(mask_url(path))


def watch(url: str, policy: Compaction | None, rules: DatedRules, hands: Hands, settings: Settings = _DEFAULTS) -> int:
    """Watch a store, folding and remembering its sessions by the settings.

    Raises LoreError if the store, or what the policy names, is missing, or no trigger is on.
    """
    refuse_nested()
    remembers = settings.memory.is_on and settings.sessions.gap_secs > 0
    if policy is not None:
        if not (policy.continuous_interval or policy.gap_secs or policy.window or remembers):
            hint = "set continuous_interval, gap_secs or window"
            raise LoreError("the policy switches no trigger on", hint=hint)
        dependencies_of(policy, hands.tell, "")  # raises LoreError for missing ones before anything is read
    elif not remembers:
        raise LoreError("nothing is configured: no session would ever be compacted", hint="give --policy FILE")
    make = memory_maker(settings)
    with closing(open_existing(url, lru_cache(_MOST_TOLD)(hands.tell))) as store:  # each message once
        hands.tell(f"watching {mask_url(url)}")
        memory = None
        if make is not None:
            memory = make(store, settings, policy, tell=hands.tell, clock=hands.clock)
        return Watch(store, policy, rules, hands, memory, divider=settings.assemble.divider).run()
