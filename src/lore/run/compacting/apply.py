"""Compact a session: append the events of one compaction to a lore log or a stored session, or write another log.

In: a name, a policy, a trigger. Out: a `Compacted`. Rules: only lore's own logs and stores are written to; the log is
locked, or the stored head noted, before it is read; everything is decided and made before the first byte is written, so
that a summary which cannot be had, or an error anywhere, leaves all as it was; one compaction at a time by agent and
user, and whoever finds another at it is told and does nothing. What goes from a stored session is learnt from first,
where `[memory]` says so: memory lies in the same store. A log has none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import NamedTuple

from lore.cache.rules import Rules
from lore.compaction.base import Trigger
from lore.compaction.costs import Rhythm
from lore.compaction.executor import Done, Learn, Tell, execute, judged, scale_of, timestamp, waits
from lore.compaction.locks import trylock
from lore.compaction.memory.asking import asking as model_of
from lore.compaction.memory.remembering import remembering_of
from lore.compaction.prices import cache_of, fired_of
from lore.compaction.settings import Compaction, MemorySettings
from lore.compaction.summarizers import summarizer_of
from lore.compaction.tracking import UNTIMED, Tracker
from lore.compaction.trial.verdict_text import UNCONFIGURED
from lore.errors import LoreError
from lore.formats.lore_log import LoreLog
from lore.model.compacted import Compacted
from lore.model.events import Event, SessionStarted, encode
from lore.model.state import Chain, Session
from lore.recording import corpus
from lore.recording.events import session_log
from lore.recording.options import Options
from lore.recording.problems import Problems
from lore.run.appending import HINT_CONVERT, appending
from lore.run.compacting.dependencies import dependencies_of, refuse_nested
from lore.run.writing import written
from lore.store.registry import address_of, open_there, scheme_of
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
