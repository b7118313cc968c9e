"""Follow a session log that is being written: its timeline, or its events, as they come.

In: a path, and what waits between two looks. Out: an iterator of what there is to show; `None` says that
all that there was has been shown. Rules: bytes are read once; a log that was truncated or replaced is
begun anew; nothing is closed that the log may still go on with, so what is shown is what was read so far.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from msgspec import Raw

from lore.errors import LoreError
from lore.fold.timeline import index_of
from lore.formats.captures.vcr import Vcr
from lore.formats.documents import Documents
from lore.formats.folders import PackReader
from lore.formats.lines import RecordReader
from lore.formats.transcripts import TranscriptDocument
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import AssistantMessage, Item
from lore.model.results.store import Followed
from lore.model.state import Chain, settled
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.opening import Options, kind_of
from lore.recording.packed import ARCHIVE
from lore.recording.request_session import session_of
from lore.recording.tailing import Live, Say, Wait, every
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
    with closing(Live(path, options.format, wait, say)) as live:
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
    whole = kind is not None and issubclass(kind, _WHOLE)
    if kind is not None and issubclass(kind, RecordReader):
        whole = first.rstrip().endswith((b"{", b"[", b",")) or (path.endswith(".json") and not rest)
    what = next((what for start, what in _PACKED.items() if head.startswith(start)), "")
    if whole or what:
        what = what or "one document, which is written whole"
        raise LoreError(f"{corpus.show(path)} is {what}: it does not grow", hint="fold it without --follow")


_WHOLE = (Documents, TranscriptDocument, PackReader, Vcr)
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
                yield from self._at(index_of(self._chain()).calls.get(call_id))
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
        return self._at(index_of(self._chain()).uuids.get(uuid))

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
) -> Iterator[Followed | Problem | None]:
    """Yield what came after `since`, a snapshot where that cannot be said, then events as they come.

    It can be said of the last 500 events of this very log. Events are those of what was read so far:
    folded one by one after the snapshot, they give the state of folding the whole log.
    """
    with closing(Live(path, options.format, wait, say)) as live:
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


def _caught_up(folding: LogFold, now: LogCursor, ring: deque[e.Event], since: LogCursor | None) -> Iterator[Followed]:
    behind = now.number - since.number if since is not None and since.epoch == now.epoch else -1
    if 0 <= behind <= len(ring):
        missed = list(ring)[len(ring) - behind :]
        for number, event in enumerate(missed, now.number - behind + 1):
            yield _line(now._replace(number=number), event)
        return
    yield Followed(cursor=str(now), snapshot=folding.result().result)


def _line(cursor: LogCursor, event: e.Event) -> Followed:
    return Followed(cursor=str(cursor), event=Raw(e.encode(event)))
