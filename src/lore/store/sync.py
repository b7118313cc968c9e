"""Bring a session into a store: what it holds already is compared, only what is new is appended.

In: the lines of a session, its header first. Out: how many were new. Rules: batches of some megabytes, each one
delta, so that what was interrupted is gone on with; what is stored is compared by its digest, and event by event
only where that does not hold; nothing is written of a session that differs. Memory: a batch, or, where the digest
does not hold, the session.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

import msgspec

from lore.model.events import MAIN, Remove, encode
from lore.store.base import EMPTY, ConflictError, Head, SessionData, SessionDelta, Store
from lore.store.deltas import is_same, save_delta
from lore.store.lines import NOTHING, SessionHeader, follow, leaf_of
from lore.store.registry import noted

Clock: TypeAlias = Callable[[], str]


def now() -> str:
    """Return the time in UTC, to the millisecond, as RFC 3339."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
            SessionData(
                session_id=header.session_id, head=NOTHING, events=first, project_id=header.project_id,
                parent_session_id=header.parent_session_id, leaf_id=leaf_of(first) or header.session_id,
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


class _Item(msgspec.Struct, frozen=True):
    type: str = ""
    uuid: str = ""


class _Response(msgspec.Struct, frozen=True):
    kind: str = ""
    item: _Item = _Item()
    uuids: tuple[str, ...] = ()


_RESPONSE = msgspec.json.Decoder(_Response)
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
