"""`lore compact`: compact a session, try a policy on a recording, or watch a store.

Compacting appends the events of one compaction to a lore log or a stored session, or writes another log. Rules: only
lore's own logs and stores are written to; the log is locked, or the stored head noted, before it is read; everything is
decided and made before the first byte is written, so that a summary which cannot be had, or an error anywhere, leaves
all as it was; one compaction at a time by agent and user, and whoever finds another at it is told and does nothing.
What goes from a stored session is learnt from first, where `[memory]` says so: memory lies in the same store. A log has
none. Trying (`dry_run`) writes and runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.compaction.base import Done, Trigger
from lore.compaction.costs import cache_of, fired_of
from lore.compaction.executor import Learn, execute, judged, scale_of, timestamp, waits
from lore.compaction.locks import trylock
from lore.compaction.memory.agent_memory import remembering_of
from lore.compaction.memory.extraction import asking
from lore.compaction.memory.extraction import asking as model_of
from lore.compaction.settings import Compaction, MemorySettings
from lore.compaction.store_watch import Hands, IdleMemory, IdleSettings, Watch, interruptible
from lore.compaction.summarizers import dependencies_of, refuse_nested, summarizer_of
from lore.compaction.tracker import UNTIMED, Rhythm, Tracker
from lore.compaction.trial import UNCONFIGURED, Trial, ended_first
from lore.errors import LoreError
from lore.formats.lore_log import LoreLog
from lore.model.events import Event, SessionStarted, encode
from lore.model.results_simulate import Compacted, DryRun
from lore.model.state import Chain, Session
from lore.recording import corpus
from lore.recording.base import Problems, collected_seldom
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.run.writing import HINT_CONVERT, appending, written
from lore.store.base import Store, Tell
from lore.store.registry import address_of, open_there, scheme_of, shown
from lore.store.registry import shown as shown_url

Clock = Callable[[], float]


class Output(NamedTuple):
    """A file to write the log to, instead of appending to it."""

    path: str
    force: bool = False


class CompactRequest(NamedTuple):
    """What to do: which trigger, where to write, by which clock, who is told, whose memory."""

    trigger: Trigger
    output: Output | None
    clock: Clock
    tell: Tell
    memory: MemorySettings = MemorySettings()


class Held(NamedTuple):
    """A session that was read: its state, what was tracked of it."""

    session: Session
    chain: Chain
    tracker: Tracker
    rhythm: Rhythm
    problems: Problems
    header: SessionStarted | None


def compact(
    path: str, options: Options, settings: Compaction | None, rules: Rules, request: CompactRequest
) -> Compacted:
    """Compact a session where the trigger is due.

    Raises SummaryError where no summary can be had, LoreError for anything else; nothing was written then.
    """
    if corpus.parse_name(path).turn is not None and address_of(path) is None:
        raise LoreError(f"{path} is one turn: a session is compacted as a whole", hint="leave #TURN out")
    if options.format not in (None, "lore"):
        raise LoreError(f"lore logs are compacted, not {options.format!r}", hint=HINT_CONVERT)
    refuse_nested()  # before the log's lock is waited for: who runs this may hold it
    if settings is None:
        return _nothing(path, UNCONFIGURED, configured=False)
    if request.output is not None:
        return _to_file(path, options, settings, rules, request, request.output)
    with appending(path, patience=0) as appender:  # who compacts it holds it for long: skipped, never queued
        held = _read(path, options)
        with _alone(path, held), _learning(path, held, settings, request) as learn:
            made = _made(held, settings, rules, request, learn)
            if not isinstance(made, Done):
                return _nothing(path, made, problems=held.problems)
            if appender.append(made.events):
                request.tell("note: the last line of the log was torn; it stays as it is, with a line end")
    return _result(path, path, held, made, settings, rules, request.clock())


def _to_file(
    path: str, options: Options, settings: Compaction, rules: Rules, request: CompactRequest, output: Output
) -> Compacted:  # fmt: skip
    """Write the log with the events behind its own; what was read stays as it is."""
    if output.path == corpus.STDIN or scheme_of(output.path) is not None:
        raise LoreError(f"--output names a file, and {_shown(output.path)} is none", hint="name another one")
    data = b"".join(corpus.pieces(path))
    if not LoreLog.recognises(data[: corpus.HEAD]):
        raise LoreError(f"{corpus.show(path)} is no lore log", hint=HINT_CONVERT)
    held = _read(path, options)
    with _alone(path, held):
        made = _made(held, settings, rules, request)
        if not isinstance(made, Done):
            return _nothing(path, made, problems=held.problems)
        inputs = () if address_of(path) is not None else (path,)
        with written(output.path, force=output.force, inputs=inputs) as file:
            file.write(data if data.endswith(b"\n") or not data else data + b"\n")
            file.writelines(encode(event) + b"\n" for event in made.events)
    return _result(path, output.path, held, made, settings, rules, request.clock())


def _read(path: str, options: Options) -> Held:
    problems = Problems()
    recording = session_log(options.open(path, problems), "events: there is no session to compact", hint=HINT_CONVERT)
    tracker, rhythm, header = Tracker(), Rhythm(), None
    for read in recording.reads():
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        recording.apply(read, event)
        header = event if header is None and isinstance(event, SessionStarted) else header
        tracker.feed(event)
        rhythm.feed(event)
    session = recording.state
    return Held(session, session.main(), tracker, rhythm, problems, header)


@contextmanager
def _alone(path: str, held: Held) -> Generator[None]:
    """Hold the lock of the session's agent and user; raises LoreError where another compaction does."""
    address = address_of(path)
    place = f"jsonl:{path}" if address is None else address.url
    with trylock(place, held.tracker.agent or "", held.tracker.user or "") as free:
        if not free:
            message = f"another compaction is at work on {corpus.show(path)}, or on another session of this user there"
            raise LoreError(message, hint="nothing was done: run the command again later")
        yield


@contextmanager
def _learning(path: str, held: Held, settings: Compaction, request: CompactRequest) -> Generator[Learn | None]:
    """Hold the memory that a stored session belongs to; None where nothing of it is remembered."""
    address = address_of(path)
    if address is None or held.header is None or request.memory.system != "structured":
        yield None
        return
    ask = model_of(summarizer_of(settings, os.environ, tell=request.tell))
    with closing(open_there(address.url, request.tell)) as store:
        memory = remembering_of(
            store, held.header, request.memory, clock=lambda: timestamp(request.clock()), ask=ask,
            window=settings.summarizer_window, tell=request.tell,
        )  # fmt: skip
        yield None if memory is None else memory.before_drop


def _made(
    held: Held, settings: Compaction, rules: Rules, request: CompactRequest, learn: Learn | None = None
) -> Done | str:  # fmt: skip
    """Return what is to be written, or why nothing is; `SummaryError` leaves as it is."""
    session, chain, tracker = held.session, held.chain, held.tracker
    who = {"agent": tracker.agent or "", "user": tracker.user or ""}
    dependencies = dependencies_of(settings, request.tell, session.id, **who)._replace(learn=learn)
    now = request.clock()
    firing = judged(tracker, chain, settings, (request.trigger,), now=now)
    if firing is None:
        return _not_due(request.trigger, held, settings)
    cache = cache_of(session, chain, rules, now)
    if waits(firing, tracker, chain, settings, cache, held.rhythm, now):
        return 'Nothing was compacted: the cache is warm, and waiting until it is cold costs less (when = "cheapest").'
    done = execute(session, chain.id, firing, settings, dependencies, at=now)
    return done if done.events else f"{_FEW.format(settings.keep_recent)}, and no source had anything to say."


_FEW = "Nothing was compacted: there are no messages besides the last {} that stay"


def _not_due(trigger: Trigger, held: Held, settings: Compaction) -> str:
    if trigger == "gap" and settings.gap_secs and not held.tracker.chain(held.chain.id).is_timed:
        return f"Nothing was compacted: {UNTIMED}."
    if trigger == "manual":
        return f"{_FEW.format(settings.keep_recent)}."
    return f"Nothing was compacted: no {trigger} is due."


# answers


def _result(
    path: str, place: str, held: Held, made: Done, settings: Compaction, rules: Rules, now: float
) -> Compacted:  # fmt: skip
    fired = fired_of(held.session, held.chain, scale_of(held.tracker, held.chain), made, settings, rules, now)
    shown = _shown(place)
    verb = "appended to" if place == path else "written behind the log, in"
    answer = f"{len(made.events):,} events were {verb} {shown}."
    return Compacted(
        session=_shown(path), configured=True, triggers=[fired], events=len(made.events), written=shown, answer=answer,
        notes=[], problems=list(held.problems.kept),
    )  # fmt: skip


def _nothing(path: str, why: str, *, configured: bool = True, problems: Problems | None = None) -> Compacted:
    return Compacted(
        session=_shown(path), configured=configured, triggers=[], events=0, written=None, answer=why, notes=[],
        problems=[] if problems is None else list(problems.kept),
    )  # fmt: skip


def _shown(path: str) -> str:
    return corpus.show(shown_url(path))


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
        trial = Trial(recording.reader.name, lambda: recording.state, settings, rules)
        for read, event in ended_first(recording.reads()):
            trial.before(event)
            recording.apply(read, event)
            trial.after(event)
        return trial.result(recording.shown, recording.problems.kept)


_NOTHING = IdleSettings()


def watch(
    url: str, settings: Compaction | None, rules: Rules, hands: Hands, remembered: IdleSettings = _NOTHING
) -> int:  # fmt: skip
    """Watch a store; raises LoreError where it, or what the policy names, cannot be had."""
    refuse_nested()
    _refuse_nothing(settings, remembered)
    if settings is not None:
        dependencies_of(settings, hands.tell, "")  # what cannot be had is said before anything is read
    store = open_there(url, lru_cache(1_024)(hands.tell))  # a damaged session is told with every look otherwise
    try:
        hands.tell(f"watching {shown(url)}")
        return watch_of(store, settings, rules, hands, remembered).run()
    finally:
        store.close()


def watch_of(
    store: Store, settings: Compaction | None, rules: Rules, hands: Hands, remembered: IdleSettings = _NOTHING
) -> Watch:  # fmt: skip
    """Return a watch of an open store, with this process' environment."""
    idle = IdleMemory(store, remembered, tell=hands.tell, clock=hands.clock)
    if settings is not None:
        idle.window = settings.summarizer_window
        if remembered.memory.system == "structured":
            summarizer = summarizer_of(settings, os.environ, tell=hands.tell)
            idle.ask = asking(interruptible(summarizer, hands.waiting))
    return Watch(store, settings, rules, hands, idle, dependencies_of)


def _refuse_nothing(settings: Compaction | None, remembered: IdleSettings) -> None:
    """Raise LoreError where no trigger is switched on: such a watch would wait for ever."""
    if remembered.is_on:
        return
    if settings is None:
        raise LoreError("nothing is configured: no session would ever be compacted", hint="give --policy FILE")
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        hint = "set continuous_interval, gap_secs or window"
        raise LoreError("the policy switches no trigger on", hint=hint)
