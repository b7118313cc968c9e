"""Sessions and events from outside, for `lore store import` and `lore store append`.

`sync` brings a session into a store. Events that the store has already are compared, by their digest or else one by
one, and only new events are appended, in batches of some megabytes that are one delta each: an import that was
interrupted continues. Nothing is written of a session that differs. Memory: a batch, or the session if its digest
differs.

`SessionAppender` stores one event for each line, durable when its number is returned. A line may carry the number
that it expects, which is not stored: the event is stored under this number, or acknowledged again if it is there. A
line without a number goes to the end, whoever else writes. Nothing of a refused line is stored; the lines before it
are.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

import msgspec

from lore.errors import LoreError, Where
from lore.formats.base import Read
from lore.formats.lines import Line, fault, problem, read_lines, split_joined
from lore.formats.lore_log import LoreLog, event_of, kind_of
from lore.model import lenient
from lore.model.canonical import decode
from lore.model.canonical import encode as encode_json
from lore.model.codes import Code, Problem
from lore.model.events import KINDS, MAIN, Append, OpaqueEvent, Remove, SessionStarted, encode
from lore.model.jsonslice import member_ranges, without_member
from lore.model.results.store import StoreAppended
from lore.model.times import format_timestamp
from lore.store.base import EMPTY, ConflictError, DamagedError, Head, SessionData, SessionDelta, Store
from lore.store.deltas import is_same_event, save_delta
from lore.store.lines import NOTHING, SessionHeader, digest_lines, is_id, may_contain, read_header, refusal
from lore.store.registry import load_notes

Clock: TypeAlias = Callable[[], str]
BATCH_BYTES, BATCH_EVENTS = 4 * 1024 * 1024, 10_000  # of one delta
ATTEMPTS = 1_000  # times that a line is appended again after another writer's
HINT_REPAIR = "nothing of this line was stored, the lines before are: repair it, and send it again with what follows"
_ANSWER_ITEMS = frozenset(("assistant_message", "tool_call"))
_STARTED = b'{"kind":"turn_started"'
# A transcript that stops within a turn is stored with the turn closed. When it continues, the turn is closed again.
_CLOSINGS = tuple(b'{"kind":"turn_%s"' % ending for ending in (b"completed", b"failed", b"canceled"))


def now() -> str:
    """Return the time in UTC, to the millisecond, as RFC 3339."""
    return format_timestamp(time.time())


# lines of other logs


def read_storable_lines(data: Iterable[bytes], tell: Callable[[Read], None]) -> Iterator[bytes]:
    """Yield the records of a log that can be stored, in order and with their bytes, without line ends.

    `tell` receives a problem for each line that readers of logs refuse. Several records on one line become several
    lines. `saved` records of a store are left out.
    """
    for line in read_lines(data):
        yield from _split(line, tell)


def _split(line: Line, tell: Callable[[Read], None]) -> Iterator[bytes]:
    reason = refusal(line.data)
    records = split_joined(line.data) if reason and line.data else [line.data]
    if reason and (not line.data or records is None or any(map(fault, records))):
        code = Code.LINE_TOO_LONG if not line.data else Code.TORN_LAST_LINE if line.is_torn else Code.UNREADABLE_LINE
        tell(problem(code, f"unreadable line: {reason}", line))
        return
    if reason and records is not None:
        tell(problem(Code.JOINED_LINES, f"{len(records)} records on one line", line))
    yield from (record for record in records or () if b'"saved"' not in record or kind_of(record) != "saved")


def put_header_first(lines: Iterator[bytes], shown: str) -> Iterator[bytes]:
    """Yield the lines of the log `shown`, the header first, or one that names no session.

    Opaque records before the header follow it. Raises LoreError if no line is an event.
    """
    before: list[bytes] = []
    header = None
    for line in lines:
        event = event_of(line)
        if isinstance(event, SessionStarted):
            header = line
            break
        before.append(line)
        if event is not None and not isinstance(event, OpaqueEvent):
            header = encode(SessionStarted(session_id=""))
            break
    if header is None:
        raise LoreError(f"{shown} holds no session: there is nothing to store", where=Where(shown))
    yield header
    yield from before
    yield from lines


def session_id_of(header: bytes) -> str:
    """Return the id of the session that a header names; empty if it names none."""
    event = event_of(header)
    return event.session_id if isinstance(event, SessionStarted) else ""


def rename_session(header: bytes, session_id: str) -> bytes:
    """Return a header with another session id; its other bytes stay."""
    found = [member for member in member_ranges(header) if lenient.snake(member.key) == "session_id"]
    for member in reversed(found):
        header = header[: member.value] + encode_json(session_id) + header[member.end :]
    return header


# whole sessions


class SyncSource(NamedTuple):
    """A session that is to be stored."""

    header: SessionHeader
    lines: Iterator[bytes]  # after the header, to be read once
    reread: Callable[[], Iterator[bytes]] | None  # yields all lines again, the header first; None for standard input
    # It was converted: each chain is compared by itself, since a transcript's subagents follow one another, and what
    # continues a turn that the transcript left open is appended after the closing.
    is_chained: bool = False
    notes: SessionData | None = None  # leaf and metadata from the store that it comes from
    # It was made of recorded requests. The last responses are known from their recording alone; later requests spell
    # them in their own way: the old form stays in the log, is removed, and the new form is appended.
    is_of_requests: bool = False


class Synced(NamedTuple):
    """What `sync` did."""

    state: str  # `created`, `extended` or `unchanged`
    new: int  # events appended
    head: Head


def sync(store: Store, source: SyncSource, clock: Clock, progress: Callable[[], None]) -> Synced:
    """Store a session, or its new events; `progress` is called after each batch.

    Raises StoreError; ConflictError if the stored events differ, or another writer comes between.
    """
    header, notes = source.header, source.notes
    known = load_notes(store, header.session_id)
    if known is None:  # most sessions are one batch, and stored by one write
        stored, batches = 0, _batches(chain((header.line,), source.lines))
        first, at = next(batches), clock()
        data = SessionData(
            session_id=header.session_id, head=NOTHING, events=first, project_id=header.project_id,
            parent_session_id=header.parent_session_id, leaf_id=find_leaf(first) or header.session_id,
            created_at=header.at or at, updated_at=at,
        )  # fmt: skip
        head = store.save(data)
        progress()
    else:
        stored, head = known.head.number, known.head
        batches = _batches(_find_new(source, head, lambda: store.load(header.session_id).events))
    for batch in batches:
        delta = SessionDelta(base=head, new_events=batch, leaf_id=find_leaf(batch), updated_at=clock())
        head = save_delta(store, header.session_id, delta)
        progress()
    new = head.number - stored
    if new and notes is not None and (notes.leaf_id is not None or notes.metadata != EMPTY):
        delta = SessionDelta(base=head, updated_at=clock(), leaf_id=notes.leaf_id, metadata=notes.metadata)
        head = save_delta(store, header.session_id, delta)
    return Synced("created" if known is None else "extended" if new else "unchanged", new, head)


def find_leaf(lines: Iterable[bytes]) -> str | None:
    """Return the uuid of the main chain's last item that these lines append and do not remove, if a store can keep it.

    Read from the end: costs the lines after it.
    """
    removed = set[str]()
    for line in reversed(tuple(lines)):
        event = event_of(line) if may_contain(line, (b'"append"', b'"remove"')) else None
        if isinstance(event, Remove):
            removed.update(event.uuids)
        elif isinstance(event, Append) and event.chain == MAIN and event.item.uuid not in removed:
            return event.item.uuid if is_id(event.item.uuid) else None
    return None


def _batches(lines: Iterator[bytes]) -> Iterator[tuple[bytes, ...]]:
    batch, size = list[bytes](), 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= BATCH_BYTES or len(batch) >= BATCH_EVENTS:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


def _find_new(source: SyncSource, head: Head, load: Callable[[], tuple[bytes, ...]]) -> Iterator[bytes]:
    """Return the lines that are not stored yet; raises ConflictError if the stored events differ."""
    lines = chain((source.header.line,), source.lines)
    read: list[bytes] = []  # all that cannot be read again
    digest, number = bytes.fromhex(NOTHING.digest), 0
    for line in islice(lines, head.number):
        digest, number = digest_lines(digest, (line,))[0], number + 1
        if source.reread is None:
            read.append(line)
    if number == head.number and digest.hex() == head.digest:
        return lines
    comparison = _Comparison(load(), source)
    new: list[bytes] = []
    for line in chain(read, lines) if source.reread is None else source.reread():
        new += comparison.compare(line)
    comparison.finish()
    return iter(new)


class _Comparison:
    """Compare a session with its stored events, one by one."""

    def __init__(self, stored: Iterable[bytes], source: SyncSource) -> None:
        self._source = source
        self._waiting = defaultdict[str, deque[tuple[int, bytes]]](deque)  # stored events by chain, with their numbers
        for number, event in enumerate(stored, 1):
            self._waiting[self._chain_of(event)].append((number, event))
        self._respelled: dict[str, int] = {}  # chains whose last responses were removed: the first event of these

    def compare(self, line: bytes) -> Iterator[bytes]:
        """Yield the events to append for the next line; raises ConflictError if another event is in its place."""
        chain = self._chain_of(line)
        events = self._waiting[chain]
        while events and not is_same_event(events[0][1], line):
            number, event = events[0]
            if not self._source.is_of_requests and self._source.is_chained and event.startswith(_CLOSINGS):
                events.popleft()
                continue
            uuids = _take_responses(events) if self._source.is_of_requests else ()
            if not uuids:
                raise self._conflict(number)
            if not events:
                self._respelled[chain] = number
                yield encode(Remove(uuids=uuids, chain=chain, observed=True))
        if events:
            events.popleft()
            return
        if line.startswith(_STARTED):
            self._respelled.pop(chain, None)
        yield line

    def finish(self) -> None:
        """Raise ConflictError if last responses differ and no later request spells them."""
        if self._respelled:
            raise self._conflict(min(self._respelled.values()))

    def _conflict(self, number: int) -> ConflictError:
        what = f"event {number} of the session is stored with other content"
        if self._source.is_of_requests:
            what = f"the recording was rewritten: event {number} of the session that its requests make differs"
        hint = "`lore store export` shows the stored session; --id stores this under another id"
        return ConflictError(what, hint=hint)

    def _chain_of(self, line: bytes) -> str:
        """Return the chain of an event, if chains are compared by themselves."""
        try:
            return _CHAINED.decode(line).chain if self._source.is_chained else MAIN
        except (ValueError, RecursionError):
            return MAIN


class _Chained(msgspec.Struct):
    chain: str = MAIN


class _ResponseItem(msgspec.Struct, frozen=True):
    type: str = ""
    uuid: str = ""


class _ResponseEvent(msgspec.Struct, frozen=True):
    kind: str = ""
    item: _ResponseItem = _ResponseItem()
    uuids: tuple[str, ...] = ()


_CHAINED = msgspec.json.Decoder(_Chained)
_RESPONSE = msgspec.json.Decoder(_ResponseEvent)


def _take_responses(events: deque[tuple[int, bytes]]) -> tuple[str, ...]:
    """Drop the items of the last responses, and the event that removed them, from stored events; return their uuids.

    Drops nothing if another event follows.
    """
    uuids: list[str] = []
    for place, (_, event) in enumerate(events):
        found = _RESPONSE.decode(event)
        if found.kind == "remove" and found.uuids == tuple(uuids):
            for _ in range(place + 1):
                events.popleft()
            return found.uuids
        if found.kind != "append" or found.item.type not in _ANSWER_ITEMS:
            return ()
        uuids.append(found.item.uuid)
    events.clear()
    return tuple(uuids)


# lines of standard input


class AppendedEvent(NamedTuple):
    """One event of `lore store append`."""

    data: bytes  # as it is stored
    kind: str
    number: int | None  # that it expects


@dataclass(slots=True)
class SessionAppender:
    """Append lines to one session."""

    _store: Store
    _session_id: str
    _clock: Clock
    _refuse: Callable[[SessionHeader], None]  # raises LoreError for a header that may not be stored
    _head: Head | None = None
    _is_dated: bool = False  # the session has a time of its creation
    _has_leaf: bool = False
    _known: tuple[int, tuple[bytes, ...]] = (0, ())  # a number, and the events that are stored from it on

    def append(self, line: Line, say: Callable[[str], None]) -> StoreAppended:
        """Store one event; raises LoreError with its place."""
        try:
            event = parse_line(line.data)
            number = self._store_event(event)
        except LoreError as error:
            if not isinstance(error, DamagedError):  # whose place is in the store
                error.where = Where("<stdin>", line.number, line.byte)
            error.hint = error.hint or HINT_REPAIR
            raise
        for read in LoreLog().read_line(Line(1, 0, event.data)):
            # BAD_HEADER: an event that is read alone does not begin a log
            if isinstance(read.value, Problem) and read.value.code != Code.BAD_HEADER:
                say(f"note: line {line.number}: {read.value.message}")
        return StoreAppended(self._session_id, number)

    def _store_event(self, event: AppendedEvent) -> int:
        self._head = self._head or self._load_head()
        if event.kind == "session_started" and event.number in (None, 1):
            return self._begin(event)
        if self._head is None:
            hint = "begin with its session_started, or look at `lore store list`"
            raise LoreError(f"the store has no session {self._session_id!r}", hint=hint)
        for _ in range(ATTEMPTS):
            if event.number is not None and event.number <= self._head.number:
                return self._acknowledge(event, event.number, self._head)
            if event.number is not None and event.number > self._head.number + 1:
                following = self._head.number + 1
                message = f"the line expects to be event {event.number}, the store holds {self._head}"
                message = f"{message}: the next is event {following}"
                raise ConflictError(message, hint=f"send the events from number {following} on", stored=self._head)
            try:
                return self._save(self._head, event).number
            except ConflictError:
                self._head = self._load_head() or self._head
        raise ConflictError("gave up after repeated write conflicts", hint="send the line again", stored=self._head)

    def _save(self, base: Head, event: AppendedEvent) -> Head:
        """Store an event after `base`, with times, and the leaf or else the session's id."""
        at, leaf = self._clock(), find_leaf((event.data,))
        delta = SessionDelta(
            base=base, new_events=(event.data,), leaf_id=leaf or (None if self._has_leaf else self._session_id),
            created_at=None if self._is_dated else at, updated_at=at,
        )  # fmt: skip
        self._head = save_delta(self._store, self._session_id, delta)
        self._is_dated = self._has_leaf = True
        return self._head

    def _load_head(self) -> Head | None:
        known = load_notes(self._store, self._session_id)
        self._is_dated = known is not None and known.created_at is not None
        self._has_leaf = known is not None and known.leaf_id is not None
        return None if known is None else known.head

    def _begin(self, event: AppendedEvent) -> int:
        """Create the session, or acknowledge that it has this header."""
        header = read_header(event.data)
        self._refuse(header)
        if header.session_id != self._session_id:
            raise LoreError(
                f"session_started names session {header.session_id!r}, not {self._session_id!r}",
                hint=f"nothing of it was stored: `lore store append {header.session_id}`, or repair the line",
            )
        if self._head is None:
            self._head, self._is_dated = self._store.create(event.data), header.at is not None
        else:
            self._acknowledge(event, 1, self._head)
        return 1

    def _acknowledge(self, event: AppendedEvent, number: int, head: Head) -> int:
        """Acknowledge an event that is stored; raises ConflictError if another one has its number."""
        first, events = self._known
        if not first <= number < first + len(events):
            first, events = self._known = number, self._store.load(self._session_id, after=number - 1).events
        if not is_same_event(_without_number(events[number - first]), _without_number(event.data)):
            message = (
                f"the line expects to be event {number}, and another event is stored there; the store holds {head}"
            )
            hint = "another writer was here: `lore store export` shows the stored session"
            raise ConflictError(message, hint=hint, stored=head)
        return number


def parse_line(line: bytes) -> AppendedEvent:
    """Parse one line, and take out the number that it expects; its other bytes stay. Raises LoreError.

    The number is in `id`. For `knowledge`, whose `id` names its entry, it is in `number`.
    """
    reason = refusal(line)
    if reason:
        raise LoreError(f"the line is not an event: {reason}", hint=HINT_REPAIR)
    kind = kind_of(line)
    if kind == "saved":
        raise LoreError("a `saved` record is a store's own note, and not an event", hint="leave it out")
    key = "number" if kind == "knowledge" else "id"
    values = [decode(line[span.value : span.end]) for span in member_ranges(line) if span.key == key]
    if not values or (kind not in KINDS and isinstance(values[-1], str)):  # a record of others has ids of its own
        return AppendedEvent(line, kind, None)
    number = values[-1]
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        hint = "an event's number is an integer from 1 on; without one the event goes to the end"
        raise LoreError(f"the line's `{key}` is not a number of an event", hint=hint)
    return AppendedEvent(without_member(line, key), kind, number)


def _without_number(line: bytes) -> bytes:
    """Return an event without the number that it may carry; a log that was imported keeps them."""
    try:
        return parse_line(line).data
    except LoreError:
        return line
