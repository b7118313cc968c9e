"""What comes in behind what is stored: whole sessions, lines as they come, events that were held meanwhile.

`sync` brings a session into a store: what it holds already is compared, only what is new is appended. Batches of some
megabytes, each one delta, so that what was interrupted is gone on with; what is stored is compared by its digest, and
event by event only where that does not hold; nothing is written of a session that differs. Memory: a batch, or, where
the digest does not hold, the session.

`SessionAppender` stores one line an event, each durable when its number is returned: to the byte, but for the number
that it expects; one that expects a number is stored under it or acknowledged again, never twice; one that expects none
goes to the end, whoever else writes. The first line that is refused ends it: what was acknowledged before stays, and
nothing of that line is stored.

`rebased` gives events that were held while another writer stored its own as they fit behind those: no item of another
writer is replaced: an item whose uuid another one has gets a uuid of its own, and what is held about it follows; a
turn that began gets the next number, and what lore derived for it is left out: it is derived anew; a compaction keeps
the items that it did not know. Cost: O(what is held and new), and an index of the session.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from lore.errors import LoreError, Where
from lore.fold.timeline import index_of
from lore.formats.lines import Line
from lore.formats.lore_log import LoreLog, kind_of
from lore.model.canonical import decode
from lore.model.codes import Code, Problem
from lore.model.events import (
    KINDS,
    MAIN,
    Append,
    CacheReset,
    CompactApplied,
    ContextPersisted,
    Event,
    PatchText,
    PromptDelta,
    Remove,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    encode,
)
from lore.model.jsonslice import members, without_member
from lore.model.results.store import StoreAppended
from lore.model.state import FoldedSession
from lore.model.times import format_timestamp
from lore.store.base import EMPTY, ConflictError, DamagedError, Head, SessionData, SessionDelta, Store, like
from lore.store.deltas import is_same, save_delta
from lore.store.lines import NOTHING, SessionHeader, follow, leaf_of, read_header, refusal
from lore.store.registry import noted

Clock: TypeAlias = Callable[[], str]


def now() -> str:
    """Return the time in UTC, to the millisecond, as RFC 3339."""
    return format_timestamp(time.time())


# How a turn ends. Where a transcript stops, the turn under way is closed; it may go on, and is closed again.
_STARTED = b'{"kind":"turn_started"'
_CLOSINGS = tuple(b'{"kind":"turn_%s"' % ending for ending in (b"completed", b"failed", b"canceled"))
BATCH_BYTES, BATCH_EVENTS = 4 * 1024 * 1024, 10_000  # of one delta


class SyncSource(NamedTuple):
    """A session that is to be stored: its header, and the lines behind it, to be iterated once.

    `again` gives all lines anew, the header first; None: they can be read once only, and are held while they are
    compared. `chained`: it was converted, so that its chains stand behind one another (a transcript's subagents), and
    the turn under way was closed where it ended: each chain is compared apart, and what went on is appended behind
    the closing. `requests`: it was made of recorded requests, and the responses that it ended with are spelled by the
    requests that came since: those stay in the log, are taken back and stand anew. `beside` is what another store notes
    beside its events.
    """

    header: SessionHeader
    lines: Iterator[bytes]
    again: Callable[[], Iterator[bytes]] | None
    chained: bool = False
    beside: SessionData | None = None
    requests: bool = False


class Synced(NamedTuple):
    """What came of it: `created`, `extended` or `unchanged`; the events that are new, and those that are stored."""

    state: str
    new: int
    head: Head


def sync(store: Store, source: SyncSource, clock: Clock, progress: Callable[[], None]) -> Synced:
    """Store a session, or what is new of it; `progress` hears of each batch. Raises StoreError.

    ConflictError where what is stored differs, or another writer comes between.
    """
    header, beside = source.header, source.beside
    known = noted(store, header.session_id)
    if known is None:  # most have no other batch than the first, and are stored by one write
        stored, batches = 0, _batches(chain((header.line,), source.lines))
        first, now = next(batches), clock()
        head = store.save(
            like(
                SessionData, header, head=NOTHING, events=first, leaf_id=leaf_of(first) or header.session_id,
                created_at=header.at or now, updated_at=now,
            )
        )  # fmt: skip
        progress()
    else:
        stored, head = known.head.number, known.head
        batches = _batches(_new_of(source, head, lambda: store.load(header.session_id).events))
    for batch in batches:
        delta = SessionDelta(base=head, new_events=batch, leaf_id=leaf_of(batch), updated_at=clock())
        head = save_delta(store, header.session_id, delta)
        progress()
    new = head.number - stored
    if new and beside is not None and (beside.leaf_id is not None or beside.metadata != EMPTY):
        notes = SessionDelta(base=head, updated_at=clock(), leaf_id=beside.leaf_id, metadata=beside.metadata)
        head = save_delta(store, header.session_id, notes)
    return Synced("created" if known is None else "extended" if new else "unchanged", new, head)


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


# what is stored already


def _new_of(source: SyncSource, head: Head, stored: Callable[[], tuple[bytes, ...]]) -> Iterator[bytes]:
    """Return the lines that are not stored yet; raises ConflictError where what is stored differs."""
    every = chain((source.header.line,), source.lines)
    held: list[bytes] = []
    digest, number = bytes.fromhex(NOTHING.digest), 0
    for line in islice(every, head.number):
        digest, number = follow(digest, (line,))[0], number + 1
        if source.again is None:
            held.append(line)
    if number == head.number and digest.hex() == head.digest:
        return every
    fresh = chain(held, every) if source.again is None else source.again()
    compared = _Comparison(stored(), source)
    new = [line for fresh_line in fresh for line in compared.take(fresh_line)]
    compared.finish()
    return iter(new)


class _Comparison:
    """Compare a session with what is stored of it, event by event."""

    def __init__(self, stored: Iterable[bytes], source: SyncSource) -> None:
        self._source = source
        self._waiting = defaultdict[str, deque[tuple[int, bytes]]](deque)
        for number, event in enumerate(stored, 1):
            self._waiting[self._chain(event)].append((number, event))
        self._reworded: dict[str, int] = {}  # chains whose last responses go, and the first event of these

    def take(self, line: bytes) -> Iterator[bytes]:
        """Yield what is to be appended for the next event; raises ConflictError where another one is stored."""
        chain = self._chain(line)
        events = self._waiting[chain]
        while events and not is_same(events[0][1], line):
            number, event = events[0]
            if not self._source.requests and self._source.chained and event.startswith(_CLOSINGS):
                events.popleft()
                continue
            uuids = self._take_responses(events) if self._source.requests else ()
            if not uuids:
                raise self._conflict(number)
            if not events:
                self._reworded[chain] = number
                yield encode(Remove(uuids=uuids, chain=chain, observed=True))
        if events:
            events.popleft()
            return
        if line.startswith(_STARTED):
            self._reworded.pop(chain, None)
        yield line

    def finish(self) -> None:
        """Raise ConflictError where last responses are others, and no request came since that spells them."""
        if self._reworded:
            raise self._conflict(min(self._reworded.values()))

    @staticmethod
    def _take_responses(events: deque[tuple[int, bytes]]) -> tuple[str, ...]:
        """Take what the last responses said, and what took them back; return the ids, none where else follows."""
        said: list[str] = []
        for place, (_, event) in enumerate(events):
            found = _RESPONSE.decode(event)
            if found.kind == "remove" and found.uuids == tuple(said):
                for _ in range(place + 1):
                    events.popleft()
                return found.uuids
            if found.kind != "append" or found.item.type not in _SAID:
                return ()
            said.append(found.item.uuid)
        events.clear()
        return tuple(said)

    def _conflict(self, number: int) -> ConflictError:
        hint = "`lore store export` shows what is stored; --id stores this under another id"
        what = "event {0} of the session is stored with other content"
        if self._source.requests:
            what = "the recording was rewritten: event {0} of the session that its requests make is stored otherwise"
        return ConflictError(what.format(number), hint=hint)

    def _chain(self, event: bytes) -> str:
        """Return the chain that an event belongs to, where chains are compared apart."""
        return _place(event, chained=self._source.chained)


class _ResponseItem(msgspec.Struct, frozen=True):
    type: str = ""
    uuid: str = ""


class _ResponseEvent(msgspec.Struct, frozen=True):
    kind: str = ""
    item: _ResponseItem = _ResponseItem()
    uuids: tuple[str, ...] = ()


_RESPONSE = msgspec.json.Decoder(_ResponseEvent)
_SAID = frozenset(("assistant_message", "tool_call"))


class _Chained(msgspec.Struct):
    chain: str = MAIN


_CHAINED = msgspec.json.Decoder(_Chained)


def _place(line: bytes, *, chained: bool) -> str:
    """Return the chain that an event belongs to, where chains are compared apart."""
    try:
        return _CHAINED.decode(line).chain if chained else MAIN
    except (ValueError, RecursionError):
        return MAIN


# lines as they come


_BEGUN = (Code.BAD_HEADER,)  # an event that is read alone does not begin a log
ATTEMPTS = 1_000  # times that a line is appended again after another writer's
HINT_MEND = "nothing of this line was stored, the lines before are: mend it, and send it again with what follows"


class AppendedEvent(NamedTuple):
    """One event: its bytes as they are stored, its kind, the number that it expects."""

    data: bytes
    kind: str
    number: int | None


@dataclass(slots=True)
class SessionAppender:
    """Append lines to one session; a header that `refuse` raises for is not stored."""

    _store: Store
    _session_id: str
    _clock: Clock
    _refuse: Callable[[SessionHeader], None]
    _head: Head | None = None
    _dated: bool = False  # the session has a time of its creation
    _led: bool = False  # and a last item
    _known: tuple[int, tuple[bytes, ...]] = (0, ())  # a number, and the events that are stored from it on

    def append(self, line: Line, say: Callable[[str], None]) -> StoreAppended:
        """Store one event; raises LoreError with its place."""
        try:
            event = parse_line(line.data)
            number = self._store_event(event)
        except LoreError as error:
            if not isinstance(error, DamagedError):  # whose place is in the store
                error.where = Where("<stdin>", line.number, line.byte)
            error.hint = error.hint or HINT_MEND
            raise
        for read in LoreLog().feed(event.data + b"\n"):
            if isinstance(read.value, Problem) and read.value.code not in _BEGUN:
                say(f"note: line {line.number}: {read.value.message}")
        return StoreAppended(self._session_id, number)

    def _store_event(self, event: AppendedEvent) -> int:
        self._head = self._head or self._load()
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
                held = f"the store holds {self._head}: the next is event {following}"
                message = f"the line expects to be event {event.number}, {held}"
                raise ConflictError(message, hint=f"send the events from number {following} on", stored=self._head)
            try:
                return self._save(self._head, event).number
            except ConflictError:
                self._head = self._load() or self._head
        raise ConflictError("gave up after repeated write conflicts", hint="send the line again", stored=self._head)

    def _save(self, base: Head, event: AppendedEvent) -> Head:
        """Store an event behind `base`; note beside it what every session has: times, the last item (else its id)."""
        at, leaf = self._clock(), leaf_of((event.data,))
        delta = SessionDelta(
            base=base, new_events=(event.data,), leaf_id=leaf or (None if self._led else self._session_id),
            created_at=None if self._dated else at, updated_at=at,
        )  # fmt: skip
        self._head = save_delta(self._store, self._session_id, delta)
        self._dated = self._led = True
        return self._head

    def _load(self) -> Head | None:
        known = noted(self._store, self._session_id)
        self._dated = known is not None and known.created_at is not None
        self._led = known is not None and known.leaf_id is not None
        return None if known is None else known.head

    def _begin(self, event: AppendedEvent) -> int:
        """Begin the session, or see that it was begun so."""
        header = read_header(event.data)
        self._refuse(header)
        if header.session_id != self._session_id:
            raise LoreError(
                f"session_started names session {header.session_id!r}, not {self._session_id!r}",
                hint=f"nothing of it was stored: `lore store append {header.session_id}`, or mend the line",
            )
        if self._head is None:
            self._head, self._dated = self._store.create(event.data), header.at is not None
        else:
            self._acknowledge(event, 1, self._head)
        return 1

    def _acknowledge(self, event: AppendedEvent, number: int, head: Head) -> int:
        """Acknowledge an event that is stored; raises ConflictError where another one has its number."""
        first, events = self._known
        if not first <= number < first + len(events):
            first, events = self._known = number, self._store.load(self._session_id, after=number - 1).events
        if not is_same(_unnumbered(events[number - first]), _unnumbered(event.data)):
            raise ConflictError(
                f"the line expects to be event {number}, and another event is stored there; the store holds {head}",
                hint="another writer was here: `lore store export` shows what is stored", stored=head,
            )  # fmt: skip
        return number


def parse_line(line: bytes) -> AppendedEvent:
    """Read one line: what of it is stored, and the number that it expects; raises LoreError.

    The number is in `id`; of `knowledge`, whose id is its entry's name, in `number`. Only its bytes are taken out.
    """
    reason = refusal(line)
    if reason:
        raise LoreError(f"the line is no event: {reason}", hint=HINT_MEND)
    kind = kind_of(line)
    if kind == "saved":
        raise LoreError("a `saved` record is a store's own note, and no event", hint="leave it out")
    key = "number" if kind == "knowledge" else "id"
    values = [decode(line[span.value : span.end]) for span in members(line) if span.key == key]
    if not values or (kind not in KINDS and isinstance(values[-1], str)):  # a record of others has names of its own
        return AppendedEvent(line, kind, None)
    number = values[-1]
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        hint = "an event's number is an integer from 1 on; without one the event goes to the end"
        raise LoreError(f"the line's `{key}` is no number of an event", hint=hint)
    return AppendedEvent(without_member(line, key), kind, number)


def _unnumbered(line: bytes) -> bytes:
    """Return an event without the number that it may carry; a log that was imported keeps them."""
    try:
        return parse_line(line).data
    except LoreError:
        return line


# behind another writer


def rebased(held: Sequence[Event], stored: FoldedSession, new: Iterable[Event]) -> list[Event]:
    """Return held events as they fit behind the `new` ones of another writer, which `stored` has."""
    others = [(event.chain, event.item.uuid) for event in new if isinstance(event, Append)]
    uuids = _uuids(held, stored, {(event.chain, event.item.uuid) for event in held if isinstance(event, Append)})
    turns = _turns(held, stored)

    def moved(event: Event) -> Event | None:
        chain = event.chain
        match event:
            case Append(item=item):
                return replace(event, item=replace(item, uuid=uuids.get((chain, item.uuid), item.uuid)))
            case PatchText(uuid=uuid):
                return replace(event, uuid=uuids.get((chain, uuid), uuid))
            case Remove(uuids=gone):
                return replace(event, uuids=tuple(uuids.get((chain, uuid), uuid) for uuid in gone))
            case CompactApplied(preserved_uuids=kept):
                mine = tuple(uuids.get((chain, uuid), uuid) for uuid in kept or ())
                return replace(event, preserved_uuids=(*mine, *(uuid for name, uuid in others if name == chain)))
            case TurnStarted(turn=turn) | TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCanceled(turn=turn):
                return replace(event, turn=turns.get((chain, turn), turn))
            case PromptDelta(turn=turn) | ContextPersisted(turn=turn) | CacheReset(turn=turn):
                return None if turn is not None and (chain, turn) in turns else event
            case _:
                return event

    return [event for event in map(moved, held) if event is not None]


def _uuids(held: Sequence[Event], stored: FoldedSession, taken: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return new uuids of held items, by chain and uuid, where another item has theirs."""
    found: dict[tuple[str, str], str] = {}
    for event in held:
        if not isinstance(event, Append):
            continue
        chain, uuid = event.chain, event.item.uuid
        state = stored.chain(chain)
        index = index_of(state)
        known, place = index.numbers, index.place(uuid)
        if place is None or state.entries[place].item == event.item:
            continue
        number = 2
        while f"{uuid}-{number}" in known or (chain, f"{uuid}-{number}") in taken:
            number += 1
        found[chain, uuid] = f"{uuid}-{number}"
    return found


def _turns(held: Sequence[Event], stored: FoldedSession) -> dict[tuple[str, int], int]:
    """Return new numbers of the turns that began, by chain and number, where another turn has theirs."""
    found: dict[tuple[str, int], int] = {}
    latest: dict[str, int] = {}
    for event in held:
        if isinstance(event, TurnStarted):
            opened = stored.chain(event.chain).turn
            before = latest.get(event.chain, 0 if opened is None else opened.turn)
            latest[event.chain] = max(event.turn, before + 1)
            if latest[event.chain] != event.turn:
                found[event.chain, event.turn] = latest[event.chain]
    return found
