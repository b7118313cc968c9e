"""Follow a session that is being written, a log or one of a database: its timeline, or its events.

A path and a function that waits between two looks give an iterator of what to show; `None` means that everything that
exists has been shown. Bytes of a log are read once; a log that was truncated or replaced is read from its beginning.
Nothing is ended that the log may still continue, so the view is that of the bytes read so far.

A database is only read, and only if its stamps or those of its write-ahead log changed. The session is then read again,
since rows change as well as they are added, and the difference is shown. After a look the database rests for `REST`
times as long as reading took. Cost of a change in a database: O(session), in bytes and memory.
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

REPLAYED = 500  # events that a cursor may lag
REST = 10
_NO_TEXT = (b'""', b"null")
_CURSOR = re.compile(r"(?P<epoch>[0-9a-f]{8}):(?P<number>\d{1,12})", re.ASCII)
_WHOLE = (Documents, DocumentReader, PackReader, Vcr)
_PACKED = {MAGIC: "compressed", ARCHIVE: "an archive"}


class Note(NamedTuple):
    """Something that happened to the timeline and left no item."""

    text: str


Shown: TypeAlias = Row | Note | Problem | None


class LogCursor(NamedTuple):
    """How far a session was read."""

    epoch: str  # of a log: 8 hex digits of the digest of its first line; of a database: of its last event
    number: int  # events folded

    def __str__(self) -> str:
        return f"{self.epoch}:{self.number}"


def cursor_of(text: str) -> LogCursor:
    """Parse EPOCH:N; raises LoreError if it is malformed."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        hint = "a cursor is EPOCH:N, as `lore fold --follow --json` writes it"
        raise LoreError(f"{text!r} is not a cursor", hint=hint)
    return LogCursor(match["epoch"], int(match["number"]))


def epoch_of(head: bytes) -> str:
    """Return the digest of a log's first line, which differs from that of a log that replaced it."""
    return _digest(head.lstrip().partition(b"\n")[0].rstrip())


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=4).hexdigest()


# logs


def follow_timeline(path: str, options: Options, say: Say, *, wait: Wait = every) -> Iterator[Shown]:
    """Yield the main chain's timeline, then new items, items that changed, and injected texts.

    A request is shown once it has ended, with its usage; a message that arrives in pieces once it is complete; the
    answer of a recorded request with the next request, which holds it.
    """
    view, is_begun = None, False
    for folding, _, event in _folded_events(path, options, say, wait):
        if view is None or view.folding is not folding:
            view, is_begun = _TimelineView(folding), False
        if event is not None:
            if is_begun:
                yield from view.after(event)
            continue
        if not is_begun:
            yield from view.all()
        is_begun = True
        yield from folding.recording.problems.take()
        yield None


def follow_events(
    path: str, options: Options, say: Say, *, since: LogCursor | None = None, wait: Wait = every
) -> Iterator[FollowedLine | Problem | None]:  # fmt: skip
    """Yield the events after `since`, or a snapshot if the log or the cursor is another one, then new events.

    The last 500 events of the log can be repeated. Folded one by one after the snapshot, the events give the state of
    folding the whole log.
    """
    known: LogFold | None = None
    number, is_begun, latest = 0, False, deque[e.Event](maxlen=REPLAYED)
    for folding, head, event in _folded_events(path, options, say, wait):
        if folding is not known:
            since = since if known is None else None
            known, number, is_begun = folding, 0, False
            latest.clear()
        if event is None:
            if not is_begun:
                yield from _caught_up(folding, LogCursor(epoch_of(head), number), latest, since)
            is_begun = True
            yield from folding.recording.problems.take()
            yield None
            continue
        number += 1
        if is_begun:
            yield _line(LogCursor(epoch_of(head), number), event)
        else:
            latest.append(event)


def _folded_events(
    path: str, options: Options, say: Say, wait: Wait
) -> Iterator[tuple[LogFold, bytes, e.Event | None]]:  # fmt: skip
    """Yield the fold of a log, its beginning, and each event once it is folded; None when all bytes are read.

    A log that replaces it has a fold of its own.
    """
    with closing(LogTail(path, options.format, wait, say)) as live:
        while (head := live.head()) is not None:
            _refuse_what_never_grows(path, head, options.format)
            opened = options.open(path, Problems(), opened=corpus.Opened(head, iter(())))
            folding = LogFold(session_of(opened, NOTHING, hint=""))
            for data in live.pieces():
                if data is None:
                    yield folding, head, None
                    continue
                for event in folding.take(folding.recording.take(data)):
                    yield folding, head, event


def _refuse_what_never_grows(path: str, head: bytes, format: str | None) -> None:
    """Raise LoreError for a packed file, and for a single document, which is written at once.

    A recorded request is a document if its first line ends inside a value, or if it is the only line of a `.json` file.
    """
    first, _, rest = head.strip().partition(b"\n")
    kind = kind_of(head, format)
    whole = kind is not None and (issubclass(kind, _WHOLE) or first[:1] == b"[")
    if kind is not None and issubclass(kind, RecordReader):
        whole = first.rstrip().endswith((b"{", b"[", b",")) or (path.endswith(".json") and not rest)
    reason = next((reason for start, reason in _PACKED.items() if head.startswith(start)), "")
    if whole or reason:
        reason = reason or "one document, which is written at once"
        raise LoreError(f"{corpus.show(path)} is {reason}: it does not grow", hint="fold it without --follow")


def _caught_up(
    folding: LogFold, now: LogCursor, latest: deque[e.Event], since: LogCursor | None
) -> Iterator[FollowedLine]:  # fmt: skip
    missing = now.number - since.number if since is not None and since.epoch == now.epoch else -1
    if not 0 <= missing <= len(latest):
        yield FollowedLine(cursor=str(now), snapshot=folding.result().result)
        return
    for number, event in enumerate(list(latest)[len(latest) - missing :], now.number - missing + 1):
        yield _line(now._replace(number=number), event)


def _line(cursor: LogCursor, event: e.Event) -> FollowedLine:
    return FollowedLine(cursor=str(cursor), event=Raw(e.encode(event)))


class _TimelineView:
    """The rows that events add to the main chain of a log."""

    def __init__(self, folding: LogFold) -> None:
        self.folding = folding
        self._recording = folding.recording
        self._partial: str | None = None  # the message whose text still arrives

    def all(self) -> Iterator[Row]:
        """Yield the whole timeline."""
        folded = self.folding.result()
        yield from rows(folded.result, folded.shown)

    def after(self, event: e.Event) -> Iterator[Row | Note]:
        """Yield the rows to show after an event was folded."""
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
                yield Note(f"{counted(len(uuids), 'item')} removed")
            case e.ToolResultCleared(call_ids=call_ids):
                yield Note(f"{counted(len(call_ids), 'tool result')} cleared")
            case e.PromptDelta() | e.ContextPersisted():
                yield from injected(self._chain())[-1:]
            case e.TurnCompleted() | e.TurnFailed() | e.TurnCanceled():
                turn = self.folding.turns.latest(event.chain)
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


# databases

_Key: TypeAlias = tuple[str | int, ...]


def follow_database_timeline(
    path: str, options: Options, say: Say, *, wait: Wait = every, clock: Callable[[], float] = time.monotonic
) -> Iterator[Shown]:  # fmt: skip
    """Yield the main chain's timeline, then rows that are new or that changed."""
    known: dict[_Key, Row] = {}
    problems, is_begun = 0, False
    for folding, _ in _looks(path, options, say, wait, clock):
        folded = folding.result()
        found = {_key(row): row for row in rows(folded.result, folded.shown)}
        if removed := known.keys() - found.keys():
            yield Note(f"{counted(len(removed), 'row')} removed")
        for key, row in found.items():
            if known.get(key) != row and not (is_begun and isinstance(row, TurnResult) and row.state == "open"):
                yield row
        yield from folded.result.problems[problems:]
        known, problems, is_begun = found, len(folded.result.problems), True
        yield None


def _key(row: Row) -> _Key:
    """Return a key that a row keeps from one look to the next."""
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
    """Yield a snapshot or the events after `since`, then new events; a snapshot again if earlier ones changed."""
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
    """Return the cursor after this number of events; None if there are fewer."""
    if not 0 < number <= len(events):
        return LogCursor("0" * 8, 0) if number == len(events) else None
    return LogCursor(_digest(events[number - 1]), number)


def _looks(
    path: str, options: Options, say: Say, wait: Wait, clock: Callable[[], float]
) -> Iterator[tuple[LogFold, list[bytes]]]:  # fmt: skip
    """Yield the folded session with its events each time that the database was written to."""
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


def _look(path: str, options: Options, *, is_first: bool) -> tuple[LogFold, list[bytes]] | None:
    """Fold the session; None if it cannot be read any more, which the next look may be able to."""
    try:
        folding = LogFold(options.open(path, Problems()))
        with collected_seldom():
            # Events are encoded as they come: folding continues between them.
            return folding, [e.encode(event) for event in folding.take(folding.recording.reads())]
    except LoreError:
        if is_first:
            raise
        return None
