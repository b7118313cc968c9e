"""`lore fold`: the timeline of a session's main chain, with injected and pruned items, requests and usage.

With `--follow` a session that is being written is looked at again and again, and compared with what the previous look
showed. Cost of a look: O(session), in bytes and memory. Bytes of a log are read once; a log that was truncated or
replaced is read from its beginning. Nothing is ended that the log may still continue. A database is only read, and only
if its stamps or those of its write-ahead log changed. The session is then read again, since rows change as well as they
are added, and the database rests for `REST` times as long as that took.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from hashlib import blake2b
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
import typer
from msgspec import UNSET, Raw

from lore.cache.prices import is_partial
from lore.commands import flags
from lore.commands.common import CommonOptions, found_settings, log, out, refuse, takes, tell, unquoted, write_json
from lore.errors import LoreError
from lore.fold.turns import STATES, without_impossible_counts
from lore.formats.base import Read
from lore.formats.builder import DocumentReader
from lore.formats.captures.recorders import Documents
from lore.formats.folders import PackReader
from lore.formats.lines import LineReader
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import AssistantMessage, CompactDivider, Item
from lore.model.results import UsageResult
from lore.model.results import store as results
from lore.model.results.store import FollowedLine, InjectedResult, TurnResult
from lore.model.state import Chain, Entry, settled
from lore.recording import corpus
from lore.recording.agents import databases
from lore.recording.base import Problems, Recording, collected_seldom
from lore.recording.events import session_log
from lore.recording.opening import Options, kind_of
from lore.recording.packed import ARCHIVE
from lore.recording.request_session import session_of
from lore.recording.tailing import LogTail, Say, Wait, every
from lore.recording.zstd import MAGIC
from lore.report.plain import counted
from lore.report.timeline import Row, rows, write, write_note, write_problems, write_row
from lore.run.rules import packaged


class FoldOptions(CommonOptions, frozen=True):
    """The options of `lore fold`."""

    session: Annotated[str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`.")]
    at: Annotated[int | None, typer.Option("--at", help="The timeline as this turn's request was sent.")] = None
    pruned: Annotated[bool, typer.Option("--pruned", help="Show what compactions pruned instead.")] = False
    unpruned: Annotated[bool, typer.Option("--unpruned", help="Show everything, compactions as dividers only.")] = False
    follow: Annotated[bool, typer.Option("--follow", help="Show new items until interrupted.")] = False
    since: Annotated[
        str | None, typer.Option("--since", help="With --follow --json: only events after this cursor (EPOCH:N).")
    ] = None
    redact: flags.Redact = False
    as_json: flags.AsJson = False
    format: flags.Format = None


@takes(FoldOptions)
def run(options: FoldOptions) -> int:
    """Show a session's timeline: messages, tool calls, compactions, and the usage of each request.

    With --follow, a log that is being written is shown as it grows.
    """
    read = Options(
        format=options.format, rules=found_settings(options.config).settings.assemble, log=log(options.verbose)
    )
    view = options.at is not None or options.pruned or options.unpruned
    refuse(
        (options.pruned and options.unpruned, "--pruned and --unpruned are two different views", "choose one"),
        (options.since is not None and not (options.follow and options.as_json),
         "--since asks for events as they come", "use it with --follow --json"),
        (options.redact and options.follow, "--follow shows a log as it grows",
         "leave --redact out, or fold without --follow"),
        (options.follow and view, "--follow shows a log as it grows, from its beginning",
         "leave --at, --pruned and --unpruned out"),
    )  # fmt: skip
    if options.follow and options.as_json:
        return _follow_json(options.session, read, options.since)
    if options.follow:
        return _follow_text(options.session, read, options.color)
    with unquoted(redact=options.redact):
        folded = fold(options.session, read, at=options.at, unpruned=options.unpruned, only_pruned=options.pruned)
    result, shown = folded.result, folded.shown
    if options.redact:
        from lore.report.redacted import redacted_fold

        result, shown = redacted_fold(result, shown)
    if options.as_json:
        write_json(result)
    else:
        write(result, shown, out(options.color), title="pruned by compaction" if options.pruned else "")
    return 0


def _follow_text(session: str, options: Options, color: bool | None) -> int:
    console = out(color)
    for shown in follow_timeline(session, options, tell):
        match shown:
            case None:
                sys.stdout.flush()
            case Problem():
                write_problems([shown], console)
            case str():
                write_note(shown, console)
            case _:
                write_row(shown, console)
    return 0


def _follow_json(session: str, options: Options, since: str | None) -> int:
    for event in follow_events(session, options, tell, since=since):
        if event is None:
            sys.stdout.flush()
        elif isinstance(event, Problem):
            tell(f"{event.code} {event.file}:{event.line} {event.message}")
        else:
            write_json(event)
    return 0


NOTHING = "events: there is nothing to fold"
HINT = "fold it without --follow; `lore convert` writes requests as a session's log"


class Folded(NamedTuple):
    """The result of folding a session."""

    result: results.FoldResult
    shown: list[Item]  # the timeline, or pruned items


class TurnRows:
    """The requests of a session. As in the fold, the last two of a chain may still end."""

    def __init__(self) -> None:
        self.rows: list[results.TurnResult] = []
        self._latest: dict[str, list[int]] = {}
        self._inherited: set[int] = set()  # places of requests that another session sent, and this log, of a fork, has
        self._clients: set[str] = set()  # the programs that noted the usage of the others

    def usage(self) -> results.SessionUsage:
        """Return sums over the requests, without inherited ones."""
        own = [row for place, row in enumerate(self.rows) if place not in self._inherited]
        partial = any(is_partial(packaged(), client) for client in self._clients)
        return results.SessionUsage.sum_of(own, turns=len(own), partial_output=True if partial else UNSET)

    def take(self, event: e.TurnStarted | e.TurnCompleted | e.TurnFailed | e.TurnCanceled) -> None:
        """Add a turn's start or end; the end of any other turn is ignored."""
        places = self._latest.get(event.chain, [])
        if isinstance(event, e.TurnStarted):
            if event.call is not None and event.call.inherited_from:
                self._inherited.add(len(self.rows))
            self._latest[event.chain] = [*places[-1:], len(self.rows)]
            self.rows.append(results.TurnResult(event.chain, event.turn, "open", event.at))
            return
        place = next((place for place in reversed(places) if self.rows[place].turn == event.turn), None)
        if place is None:
            return
        row, counts = self.rows[place], {} if event.usage is None else _counts(event.usage)
        if event.usage is not None and place not in self._inherited:
            self._clients.add(event.usage.client)
        if place == places[-1]:
            ended = {**dict.fromkeys(e.SUMMED_COUNTS), **counts}
            self.rows[place] = msgspec.structs.replace(row, state=STATES[type(event)], ended_at=event.at, **ended)
        elif counts:  # late usage of the previous turn
            self.rows[place] = msgspec.structs.replace(row, **counts)


TURNS = (e.TurnStarted, e.TurnCompleted, e.TurnFailed, e.TurnCanceled)


def _counts(usage: e.Usage) -> dict[str, int | None]:
    """Return sums over the passes of a response; impossible counts are unknown, as in the fold."""
    believable, _ = without_impossible_counts(usage)
    sums = UsageResult.sum_of(() if believable is None else believable.passes)
    return {name: getattr(sums, name) for name in e.SUMMED_COUNTS}


class LogFold:
    """A session log while it is folded; the log itself is never changed."""

    def __init__(self, recording: Recording, *, unpruned: bool = False) -> None:
        self.recording = session_log(recording, NOTHING, hint=HINT)
        self.pruned: dict[str, Entry] = {}  # by uuid, in order
        self.turns = TurnRows()
        self._unpruned = unpruned  # a compaction only adds its divider

    def take(self, reads: Iterable[Read]) -> Iterator[e.Event]:
        """Fold events, and yield each after it is folded."""
        recording = self.recording
        for read in reads:
            event: e.Event = read.value  # pyright: ignore[reportAssignmentType]
            if isinstance(event, e.CompactApplied):
                yield self._compact(read, event)
                continue
            recording.apply(read, event)
            if isinstance(event, TURNS):
                self.turns.take(event)
            yield event

    def _compact(self, read: Read, event: e.CompactApplied) -> e.Event:
        """Fold a compaction and return the event that was folded; remember the items that it pruned."""
        if self._unpruned:
            divider = CompactDivider(
                event.uuid, event.trigger, event.pre_tokens, event.post_tokens, event.summary,
                duration_ms=event.duration_ms,
            )  # fmt: skip
            appended = e.Append(item=divider, chain=event.chain, at=event.at)
            self.recording.apply(read, appended)
            return appended
        before = settled(self.recording.state.chain(event.chain))  # with text that was streamed until here
        self.recording.apply(read, event)
        state = self.recording.state
        if event.chain == state.main().id:
            kept = {entry.item.uuid for entry in state.chain(event.chain).entries}
            self.pruned |= {entry.item.uuid: entry for entry in before.entries if entry.item.uuid not in kept}
        return event

    def result(self, *, only_pruned: bool = False) -> Folded:
        """Return the result up to here."""
        recording = self.recording
        state, main = recording.state, recording.state.main()
        entries = list(self.pruned.values() if only_pruned else main.entries)
        chains = [
            results.ChainResult(chain.id, chain.kind, chain.turns, len(chain.entries))
            for chain in state.chains.values()
        ]
        session = results.SessionResult(state.id, state.format, "reconstructed", main.model or state.model, chains)
        kept = list(recording.problems.kept)
        result = results.FoldResult(
            session=session,
            timeline=[Raw(msgspec.json.encode(entry.item)) for entry in entries],
            item_turns=[entry.turn for entry in entries],
            injected=[] if only_pruned else injected(main),
            pruned=list(self.pruned),
            turns=list(self.turns.rows),
            usage=self.turns.usage(),
            problems=kept,
        )
        return Folded(result, [entry.item for entry in entries])


def injected(chain: Chain) -> list[results.InjectedResult]:
    """Return the texts between a chain's items, in order."""
    unsaved = {_name(event) for event in chain.unsaved}
    found: list[results.InjectedResult] = []
    for insert in sorted((*chain.deltas.values(), *chain.persisted, *chain.outside), key=lambda insert: insert.order):
        kind = "delta" if insert.is_delta else "outside" if insert.outside else "context"
        saved = (kind, insert.number) not in unsaved
        found.append(results.InjectedResult(kind, insert.number, insert.age + 1, insert.place, saved, insert.content))
    return found


def _name(event: e.Event) -> tuple[str, int]:
    """Return kind and number of the insert that an unsaved event made."""
    match event:
        case e.PromptDelta(seq=seq):
            return "delta", seq
        case e.ContextPersisted(turn=turn, outside=outside):
            return "outside" if outside else "context", turn
        case _:
            return "", 0


def fold(
    path: str, options: Options, *, at: int | None = None, unpruned: bool = False, only_pruned: bool = False
) -> Folded:
    """Fold a session log, or the session of recorded requests, up to the request of turn `at`.

    Raises LoreError for other files, and if there is no such turn.
    """
    recording = session_of(options.open(path, Problems(), subagents=True), NOTHING, hint=HINT)
    folding = LogFold(recording, unpruned=unpruned)
    reached = False
    with collected_seldom():
        for event in folding.take(recording.reads()):
            if isinstance(event, e.TurnStarted) and event.turn == at and event.chain == recording.state.main().id:
                reached = True
                break
        if at is not None and not reached:
            raise LoreError(f"{recording.shown} has no turn {at}", hint=f"it has {recording.state.main().turns} turns")
        return folding.result(only_pruned=only_pruned)


# --follow

REST = 10
_NO_TEXT = (b'""', b"null")
_CURSOR = re.compile(r"[0-9a-f]{8}:(?P<number>\d{1,12})", re.ASCII)
_WHOLE = (Documents, DocumentReader, PackReader)
_PACKED = {MAGIC: "compressed", ARCHIVE: "an archive"}


Shown: TypeAlias = Row | str | Problem | None  # a text: what happened to the timeline and left no item


def number_of(cursor: str) -> int:
    """Return how many events were folded before a cursor; raises LoreError if it is malformed."""
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        hint = "a cursor is EPOCH:N, as `lore fold --follow --json` writes it"
        raise LoreError(f"{cursor!r} is not a cursor", hint=hint)
    return int(match["number"])


def cursor_after(events: tuple[bytes, ...], number: int) -> str:
    """Return the cursor after this number of events, at most all: a digest of the first and last of them, and it."""
    ends = events[0] + events[number - 1] if number else b""
    return f"{blake2b(ends, digest_size=4).hexdigest()}:{number}"


class _Look(NamedTuple):
    """A session as it was found."""

    folding: LogFold
    events: tuple[bytes, ...]  # as lore's log writes them
    partial: str = ""  # the message whose text still arrives

    def new_problems(self, known: list[Problem]) -> list[Problem]:
        """Return the problems that were not `known`, the first ones, and make all of them known."""
        kept = list(self.folding.recording.problems.kept)
        new = kept[len(known) :] if kept[: len(known)] == known else kept
        known[:] = kept
        return new


def follow_timeline(
    path: str, options: Options, say: Say, *, wait: Wait = every, clock: Callable[[], float] = time.monotonic
) -> Iterator[Shown]:  # fmt: skip
    """Yield the main chain's timeline, then rows that are new or that changed.

    A request is shown once it has ended, with its usage; a message that arrives in pieces once it is complete; the
    answer of a recorded request with the next request, which holds it.
    """
    known: dict[_Key, Row] = {}
    problems, is_begun = list[Problem](), False
    for look in _looks(path, options, say, wait, clock):
        folded = look.folding.result()
        found = {_key(row): row for row in rows(folded.result, folded.shown)}
        partial = "item", look.partial
        if partial in known:
            found[partial] = known[partial]
        else:
            found.pop(partial, None)
        pruned = {("item", uuid) for uuid in folded.result.pruned}
        if removed := [key for key in known.keys() - found.keys() - pruned if key[0] == "item"]:
            yield f"{counted(len(removed), 'item')} removed"
        for key, row in found.items():
            if known.get(key) != row and not (is_begun and isinstance(row, TurnResult) and row.state == "open"):
                yield row
        yield from look.new_problems(problems)
        known, is_begun = found, True
        yield None


_Key: TypeAlias = tuple[str | int, ...]


def _key(row: Row) -> _Key:
    """Return a key that a row keeps from one look to the next."""
    match row:
        case TurnResult():
            return "turn", row.turn
        case InjectedResult():
            return row.kind, row.number, row.insert_at
        case _:
            return "item", row.uuid


def follow_events(
    path: str, options: Options, say: Say, *, since: str | None = None, wait: Wait = every,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FollowedLine | Problem | None]:  # fmt: skip
    """Yield the events after `since`, or a snapshot if the cursor is of another session, then new events.

    If earlier events are other ones now, a snapshot is yielded again. Folded one by one after the snapshot, the events
    give the state of folding the whole session.
    """
    known: tuple[bytes, ...] = ()
    problems, number = list[Problem](), 0 if since is None else number_of(since)
    for look in _looks(path, options, say, wait, clock):
        events = look.events
        at = len(known) if events[: len(known)] == known else 0
        if since is not None:
            is_same = number <= len(events) and cursor_after(events, number) == since
            at, since = number if is_same else 0, None
        if not at:
            yield FollowedLine(cursor=cursor_after(events, len(events)), snapshot=look.folding.result().result)
        else:
            for following in range(at + 1, len(events) + 1):
                yield FollowedLine(cursor=cursor_after(events, following), event=Raw(events[following - 1]))
        yield from look.new_problems(problems)
        known = events
        yield None


def _looks(path: str, options: Options, say: Say, wait: Wait, clock: Callable[[], float]) -> Iterator[_Look]:
    """Yield the session each time that it changed."""
    if corpus.is_database(path):
        return _database_looks(path, options, say, wait, clock)
    return _log_looks(path, options, say, wait)


def _log_looks(path: str, options: Options, say: Say, wait: Wait) -> Iterator[_Look]:
    with closing(LogTail(path, options.format, wait, say)) as live:
        while (head := live.head()) is not None:
            _refuse_what_never_grows(path, head, options.format)
            opened = options.open(path, Problems(), opened=corpus.Opened(head, iter(())))
            folding = LogFold(session_of(opened, NOTHING, hint=""))
            events, partial, is_new = list[bytes](), "", True
            for data in live.pieces():
                if data is not None:
                    is_new = True
                    for event in folding.take(folding.recording.take(data)):
                        events.append(e.encode(event))  # as they come: folding continues between them
                        partial = _partial(event)
                elif is_new:
                    is_new = False
                    yield _Look(folding, tuple(events), partial)


def _partial(event: e.Event) -> str:
    """Return the message whose text may continue in the next event; empty if none."""
    match event:
        case e.Append(item=AssistantMessage(uuid=uuid, text=text, blocks=None)) if bytes(text) in _NO_TEXT:
            return uuid
        case e.PatchText(uuid=uuid):
            return uuid
        case _:
            return ""


def _refuse_what_never_grows(path: str, head: bytes, format: str | None) -> None:
    """Raise LoreError for a packed file, and for a single document, which is written at once.

    A recorded request is a document if its first line ends inside a value, or if it is the only line of a `.json` file.
    """
    first, _, rest = head.strip().partition(b"\n")
    kind = kind_of(head, format)
    if kind is None or issubclass(kind, _WHOLE):
        whole = kind is not None
    elif kind.yields == "exchanges" and issubclass(kind, LineReader):
        whole = first.rstrip().endswith((b"{", b"[", b",")) or (path.endswith(".json") and not rest)
    else:
        whole = first[:1] == b"["
    reason = next((reason for start, reason in _PACKED.items() if head.startswith(start)), "")
    if whole or reason:
        reason = reason or "one document, which is written at once"
        raise LoreError(f"{corpus.show(path)} is {reason}: it does not grow", hint="fold it without --follow")


def _database_looks(path: str, options: Options, say: Say, wait: Wait, clock: Callable[[], float]) -> Iterator[_Look]:
    database, session = path.rpartition("#")[::2] if corpus.is_in_database(path) else (path, "")
    before: databases.Stamps | None = None
    rests_until, is_missing = 0.0, False
    while True:
        stamps = before if clock() < rests_until else _stamps(database)
        if stamps is None and before is None:
            raise LoreError(f"cannot read {corpus.show(database)}: it does not exist, or is too large to copy")
        if stamps is None and not is_missing:
            say(f"{corpus.show(database)} is gone; waiting for it")
        is_missing, stamps = stamps is None, stamps or before
        if stamps != before:
            began = clock()
            look = _look(f"{database}#{session}" if session else path, options, is_first=before is None)
            before, rests_until = stamps, clock() + REST * (clock() - began)
            if look is not None:
                yield look
        if not wait():
            return


def _stamps(database: str) -> databases.Stamps | None:
    """Return stamps that change when the database is written to; None if it does not exist."""
    try:
        return databases.stamps(database) if os.path.isfile(database) else None
    except databases.ERRORS:
        return None


def _look(path: str, options: Options, *, is_first: bool) -> _Look | None:
    """Fold the session; None if it cannot be read any more, which the next look may be able to."""
    try:
        folding = LogFold(options.open(path, Problems()))
        with collected_seldom():
            return _Look(folding, tuple([e.encode(event) for event in folding.take(folding.recording.reads())]))
    except LoreError:
        if is_first:
            raise
        return None
