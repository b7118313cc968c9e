"""Follow a session that is being written, a log or one of a database: its timeline, or its events, as they come.

In: a path, and what waits between two looks. Out: an iterator of what there is to show; `None` says that all that there
was has been shown. Rules: bytes of a log are read once; one that was truncated or replaced is begun anew; nothing is
closed that the log may still go on with, so what is shown is what was read so far. A database is only read, and only
where its stamps or those of its logs of changes say that it is another one than before; the session is then read anew,
since rows change as well as they are added, and what differs is shown; as long as reading took, times `REST`, nobody
looks again. Cost of a change in a database: O(session), in bytes and memory.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from msgspec import Raw

from lore.errors import LoreError
from lore.fold.timeline import index_of
from lore.formats.builder import DocumentReader
from lore.formats.captures.recorders import Documents
from lore.formats.captures.vcr import Vcr
from lore.formats.folders import PackReader
from lore.formats.lines import RecordReader
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import AssistantMessage, Item
from lore.model.results.store import FollowedLine, InjectedResult, TurnResult
from lore.model.state import Chain, settled
from lore.recording import corpus
from lore.recording.agents import databases
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options, kind_of
from lore.recording.packed import ARCHIVE
from lore.recording.request_session import session_of
from lore.recording.tailing import LogTail, Say, Wait, every
from lore.recording.zstd import MAGIC
from lore.report.plain import counted
from lore.report.timeline import Row, rows
from lore.run.folding import NOTHING, LogFold, injected, main_name

_NO_TEXT = (b'""', b"null")
REPLAYED = 500  # events that a cursor may be behind
_CURSOR = re.compile(r"(?P<epoch>[0-9a-f]{8}):(?P<number>\d{1,12})", re.ASCII)


class Note(NamedTuple):
    """Something that happened to the timeline and left no item."""

    text: str


Shown: TypeAlias = Row | Note | Problem | None


def follow_timeline(path: str, options: Options, say: Say, *, wait: Wait = every) -> Iterator[Shown]:
    """Yield the main chain's timeline as it stands, then what comes: new items, items that changed, what was injected.

    A request is shown once it has ended, with what it read and paid; a message that arrives in pieces once it is whole;
    what a recorded request was answered with the next one that holds it.
    """
    with closing(LogTail(path, options.format, wait, say)) as live:
        while (head := live.head()) is not None:
            folding = _folding(path, options, head)
            view = _TimelineView(folding)
            begun = False
            for data in live.pieces():
                if data is None:
                    if not begun:
                        yield from view.all()
                    begun = True
                    yield from folding.recording.problems.take()
                    yield None
                    continue
                for event in folding.take(folding.recording.take(data)):
                    if begun:
                        yield from view.after(event)


def _folding(path: str, options: Options, head: bytes) -> LogFold:
    _refuse_what_never_grows(path, head, options.format)
    return LogFold(session_of(options.open(path, Problems(), opened=corpus.Opened(head, iter(()))), NOTHING, hint=""))


def _refuse_what_never_grows(path: str, head: bytes, format: str | None) -> None:
    """Raise LoreError for what is packed, and for one document, which is written whole.

    Of requests a document is what goes on behind its first line inside a value, or is a single line of a `.json` file.
    """
    first, _, rest = head.strip().partition(b"\n")
    kind = kind_of(head, format)
    whole = kind is not None and (issubclass(kind, _WHOLE) or first[:1] == b"[")
    if kind is not None and issubclass(kind, RecordReader):
        whole = first.rstrip().endswith((b"{", b"[", b",")) or (path.endswith(".json") and not rest)
    what = next((what for start, what in _PACKED.items() if head.startswith(start)), "")
    if whole or what:
        what = what or "one document, which is written whole"
        raise LoreError(f"{corpus.show(path)} is {what}: it does not grow", hint="fold it without --follow")


_WHOLE = (Documents, DocumentReader, PackReader, Vcr)
_PACKED = {MAGIC: "compressed", ARCHIVE: "an archive"}


class _TimelineView:
    """What an event shows of the main chain."""

    def __init__(self, folding: LogFold) -> None:
        self._folding = folding
        self._recording = folding.recording
        self._partial: str | None = None  # the message whose text still arrives

    def all(self) -> Iterator[Row]:
        """The timeline as it stands."""
        folded = self._folding.result()
        yield from rows(folded.result, folded.shown)

    def after(self, event: e.Event) -> Iterator[Row | Note]:
        """What there is to show once an event was folded."""
        if event.chain != main_name(self._recording.state):
            return
        partial, self._partial = self._partial, None
        if partial is not None and not (isinstance(event, e.PatchText) and event.uuid == partial):
            yield from self._item(partial)
        match event:
            case e.Append(item=AssistantMessage(uuid=uuid, text=text, blocks=None)) if bytes(text) in _NO_TEXT:
                self._partial = uuid
            case e.PatchText(uuid=uuid):
                self._partial = uuid
            case e.Append(item=item):
                yield from self._item(item.uuid)
            case e.PatchToolCall(call_id=call_id):
                yield from self._at(index_of(self._chain()).call(call_id))
            case e.CompactApplied(uuid=uuid):
                yield from self._item(uuid)
            case e.Remove(uuids=uuids):
                yield Note(f"{counted(len(uuids), 'item')} taken back")
            case e.ToolResultCleared(call_ids=call_ids):
                yield Note(f"{counted(len(call_ids), 'tool result')} cleared")
            case e.PromptDelta() | e.ContextPersisted():
                yield from injected(self._chain())[-1:]
            case e.TurnCompleted() | e.TurnFailed() | e.TurnCanceled():
                turn = self._folding.turns.latest(event.chain)
                if turn is not None and turn.turn == event.turn:
                    yield turn
            case _:
                return

    def _chain(self) -> Chain:
        return self._recording.state.chain(main_name(self._recording.state))

    def _item(self, uuid: str) -> Iterator[Item]:
        return self._at(index_of(self._chain()).place(uuid))

    def _at(self, place: int | None) -> Iterator[Item]:
        chain = self._chain()
        if place is None:
            return
        if chain.stream is not None and chain.stream.place == place:
            chain = settled(chain)
        yield chain.entries[place].item


class LogCursor(NamedTuple):
    """How far a log was read: its epoch (8 hex digits of the digest of its first line), events folded."""

    epoch: str
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.number}"


def cursor_of(text: str) -> LogCursor:
    """Read EPOCH:N; raises LoreError where it is none."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        hint = "a cursor is EPOCH:N, as `lore fold --follow --json` writes it"
        raise LoreError(f"{text!r} is no cursor", hint=hint)
    return LogCursor(match["epoch"], int(match["number"]))


def epoch_of(head: bytes) -> str:
    """Return what tells a log from the one that it replaced: a digest of its first line."""
    return blake2b(head.lstrip().partition(b"\n")[0].rstrip(), digest_size=4).hexdigest()


def follow_events(
    path: str, options: Options, say: Say, *, since: LogCursor | None = None, wait: Wait = every
) -> Iterator[FollowedLine | Problem | None]:
    """Yield what came after `since`, a snapshot where that cannot be said, then events as they come.

    It can be said of the last 500 events of this very log. Events are those of what was read so far:
    folded one by one after the snapshot, they give the state of folding the whole log.
    """
    with closing(LogTail(path, options.format, wait, say)) as live:
        while (head := live.head()) is not None:
            folding = _folding(path, options, head)
            epoch, number, begun = epoch_of(head), 0, False
            ring: deque[e.Event] = deque(maxlen=REPLAYED)
            for data in live.pieces():
                if data is None:
                    if not begun:
                        yield from _caught_up(folding, LogCursor(epoch, number), ring, since)
                        since = None
                    begun = True
                    yield from folding.recording.problems.take()
                    yield None
                    continue
                for event in folding.take(folding.recording.take(data)):
                    number += 1
                    if begun:
                        yield _line(LogCursor(epoch, number), event)
                    else:
                        ring.append(event)
            since = None


def _caught_up(
    folding: LogFold, now: LogCursor, ring: deque[e.Event], since: LogCursor | None
) -> Iterator[FollowedLine]:
    behind = now.number - since.number if since is not None and since.epoch == now.epoch else -1
    if 0 <= behind <= len(ring):
        missed = list(ring)[len(ring) - behind :]
        for number, event in enumerate(missed, now.number - behind + 1):
            yield _line(now._replace(number=number), event)
        return
    yield FollowedLine(cursor=str(now), snapshot=folding.result().result)


def _line(cursor: LogCursor, event: e.Event) -> FollowedLine:
    return FollowedLine(cursor=str(cursor), event=Raw(e.encode(event)))


REST = 10
_Key: TypeAlias = tuple[str | int, ...]


def follow_database_timeline(
    path: str, options: Options, say: Say, *, wait: Wait = every, clock: Callable[[], float] = time.monotonic
) -> Iterator[Shown]:  # fmt: skip
    """Yield the main chain's timeline as it stands, then rows that are new or that changed."""
    known: dict[_Key, Row] = {}
    problems = 0
    begun = False
    for folding, _ in _looks(path, options, say, wait, clock):
        folded = folding.result()
        found = {_key(row): row for row in rows(folded.result, folded.shown)}
        gone = known.keys() - found.keys()
        if gone:
            yield Note(f"{counted(len(gone), 'row')} taken back")
        for key, row in found.items():
            if known.get(key) != row and not (begun and isinstance(row, TurnResult) and row.state == "open"):
                yield row
        yield from folded.result.problems[problems:]
        known, problems, begun = found, len(folded.result.problems), True
        yield None


def _key(row: Row) -> _Key:
    """Return what a row is known by from one look to the next."""
    match row:
        case TurnResult():
            return "turn", row.turn
        case InjectedResult():
            return row.kind, row.number, row.insert_at
        case _:
            return "item", row.uuid


def follow_database_events(
    path: str, options: Options, say: Say, *, since: LogCursor | None = None, wait: Wait = every,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FollowedLine | Problem | None]:  # fmt: skip
    """Yield a snapshot, or what came after `since`, then events that are new; a snapshot where earlier ones changed.

    A cursor's epoch is a digest of the event that it counts last: where that is another one now, a snapshot follows.
    """
    known: list[bytes] = []
    problems = 0
    for folding, events in _looks(path, options, say, wait, clock):
        at = len(known)
        if since is not None:
            at, since = (since.number if _cursor(events, since.number) == since else 0), None
        elif known != events[:at]:
            at = 0
        if not at:
            yield FollowedLine(cursor=str(_cursor(events, len(events))), snapshot=folding.result().result)
        else:
            for number in range(at + 1, len(events) + 1):
                yield FollowedLine(cursor=str(_cursor(events, number)), event=Raw(events[number - 1]))
        found = folding.result().result.problems
        yield from found[problems:]
        known, problems = events, len(found)
        yield None


def _cursor(events: list[bytes], number: int) -> LogCursor | None:
    """Return the cursor behind so many events; None where there are fewer."""
    if not 0 < number <= len(events):
        return LogCursor("0" * 8, 0) if number == len(events) else None
    return LogCursor(blake2b(events[number - 1], digest_size=4).hexdigest(), number)


def _looks(
    path: str, options: Options, say: Say, wait: Wait, clock: Callable[[], float]
) -> Iterator[tuple[LogFold, list[bytes]]]:
    """Yield the session folded, with its events, each time that the database was written to."""
    database, session = path.rpartition("#")[::2] if corpus.is_in_database(path) else (path, "")
    before: databases.Stamps | None = None
    rests, gone = 0.0, False
    while True:
        stamps = before if clock() < rests else _stamps(database)
        if stamps is None and before is None:
            raise LoreError(f"cannot read {corpus.show(database)}: it is gone, or too large to copy")
        if stamps is None and not gone:
            say(f"{corpus.show(database)} is gone; waiting for it")
        gone, stamps = stamps is None, stamps or before
        if stamps != before:
            began = clock()
            look = _look(f"{database}#{session}" if session else path, options, first=before is None)
            before, rests = stamps, clock() + REST * (clock() - began)
            if look is not None:
                yield look
        if not wait():
            return


def _stamps(database: str) -> databases.Stamps | None:
    """Return what a database is known by as long as nobody writes to it; None where it is not there."""
    try:
        return databases.stamps(database) if os.path.isfile(database) else None
    except databases.ERRORS:
        return None


def _look(path: str, options: Options, *, first: bool) -> tuple[LogFold, list[bytes]] | None:
    """Fold the session as it stands; None where it cannot be read any more, which the next look may mend."""
    try:
        opened = options.open(path, Problems())
        folding = LogFold(opened)
        events: list[bytes] = []
        with collected_seldom():
            for event in folding.take(folding.recording.reads()):
                events.append(e.encode(event))  # noqa: PERF401 - the fold goes on as events are taken
    except LoreError:
        if first:
            raise
        return None
    return folding, events
