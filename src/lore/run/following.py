"""Follow a session that is being written, a log or one of a database: its timeline, or its events.

A path and a function that waits between two looks give an iterator of what to show; `None` means that everything that
exists has been shown. The session is compared with what the previous look showed, and the difference is shown. Cost of
a look: O(session), in bytes and memory.

Bytes of a log are read once; a log that was truncated or replaced is read from its beginning. Nothing is ended that the
log may still continue, so the view is that of the bytes read so far.

A database is only read, and only if its stamps or those of its write-ahead log changed. The session is then read again,
since rows change as well as they are added. After a look the database rests for `REST` times as long as reading took.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from msgspec import Raw

from lore.errors import LoreError
from lore.formats.builder import DocumentReader
from lore.formats.captures.recorders import Documents
from lore.formats.folders import PackReader
from lore.formats.lines import LineReader
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import AssistantMessage
from lore.model.results.store import FollowedLine, InjectedResult, TurnResult
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
from lore.run.folding import NOTHING, LogFold

REST = 10
_NO_TEXT = (b'""', b"null")
_CURSOR = re.compile(r"(?P<epoch>[0-9a-f]{8}):(?P<number>\d{1,12})", re.ASCII)
_WHOLE = (Documents, DocumentReader, PackReader)
_PACKED = {MAGIC: "compressed", ARCHIVE: "an archive"}


class Note(NamedTuple):
    """Something that happened to the timeline and left no item."""

    text: str


Shown: TypeAlias = Row | Note | Problem | None


class LogCursor(NamedTuple):
    """How far a session was read."""

    epoch: str  # 8 hex digits of the digest of the first and the last event that were folded
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


def cursor_after(events: tuple[bytes, ...], number: int) -> LogCursor | None:
    """Return the cursor after this number of events; None if there are fewer."""
    if number > len(events):
        return None
    ends = events[0] + events[number - 1] if number else b""
    return LogCursor(blake2b(ends, digest_size=4).hexdigest(), number)


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


# what is shown


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
            yield Note(f"{counted(len(removed), 'item')} removed")
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
    path: str, options: Options, say: Say, *, since: LogCursor | None = None, wait: Wait = every,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FollowedLine | Problem | None]:  # fmt: skip
    """Yield the events after `since`, or a snapshot if the cursor is of another session, then new events.

    If earlier events are other ones now, a snapshot is yielded again. Folded one by one after the snapshot, the events
    give the state of folding the whole session.
    """
    known: tuple[bytes, ...] = ()
    problems = list[Problem]()
    for look in _looks(path, options, say, wait, clock):
        events = look.events
        at = len(known) if events[: len(known)] == known else 0
        if since is not None:
            at, since = (since.number if cursor_after(events, since.number) == since else 0), None
        if not at:
            yield FollowedLine(cursor=str(cursor_after(events, len(events))), snapshot=look.folding.result().result)
        else:
            for number in range(at + 1, len(events) + 1):
                yield FollowedLine(cursor=str(cursor_after(events, number)), event=Raw(events[number - 1]))
        yield from look.new_problems(problems)
        known = events
        yield None


# looking


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
