"""Store a session, or its new events.

The events of a stored session are compared with it one by one, and only new ones are appended, in batches of some
megabytes that are one delta each: an interrupted import continues. Nothing is written to a session that differs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import msgspec

from lore.formats.lore_log import event_of, kind_of
from lore.model import lenient
from lore.model.canonical import encode as encode_json
from lore.model.events import MAIN, Append, Remove, encode
from lore.model.jsonslice import member_ranges
from lore.store.base import EMPTY, ConflictError, Head, SessionData, SessionDelta, Store, now
from lore.store.deltas import is_same_event
from lore.store.lines import NOTHING, SessionHeader, is_id
from lore.store.registry import load_notes
from lore.store.reserved import refuse_header

BATCH_BYTES, BATCH_EVENTS = 4 * 1024 * 1024, 10_000  # of one delta
_ANSWER_ITEMS = ("assistant_message", "tool_call")
_STARTED = b'{"kind":"turn_started"'
# A transcript that stops within a turn is stored with the turn closed. When it continues, the turn is closed again.
_CLOSINGS = tuple(b'{"kind":"turn_%s"' % ending for ending in (b"completed", b"failed", b"canceled"))


def rename_session(header: bytes, session_id: str) -> bytes:
    """Return a header with another session id; its other bytes stay."""
    found = [member for member in member_ranges(header) if lenient.snake(member.key) == "session_id"]
    for member in reversed(found):
        header = header[: member.value] + encode_json(session_id) + header[member.end :]
    return header


def find_leaf(lines: Iterable[bytes]) -> str | None:
    """Return the uuid of the main chain's last item that these lines append and do not remove, if a store can keep it.

    Read from the end: costs the lines after it.
    """
    removed = set[str]()
    for line in reversed(tuple(lines)):
        event = event_of(line) if kind_of(line) in ("append", "remove") else None
        if isinstance(event, Remove):
            removed.update(event.uuids)
        elif isinstance(event, Append) and event.chain == MAIN and event.item.uuid not in removed:
            return event.item.uuid if is_id(event.item.uuid) else None
    return None


class SyncSource(NamedTuple):
    """A session that is to be stored."""

    header: SessionHeader
    lines: Iterator[bytes]  # after the header, to be read once
    # It was converted: each chain is compared by itself, since a transcript's subagents follow one another, and what
    # continues a turn that the transcript left open is appended after the closing.
    is_chained: bool
    # It was made of recorded requests. The last responses are known from their recording alone; later requests spell
    # them in their own way: the old form stays in the log, is removed, and the new form is appended.
    is_of_requests: bool
    notes: SessionData | None  # leaf and metadata in the store that it comes from


class Synced(NamedTuple):
    """What `sync` did."""

    state: str  # `created`, `extended` or `unchanged`
    new: int  # events appended
    head: Head


def sync(store: Store, source: SyncSource, progress: Callable[[], None]) -> Synced:
    """Store a session, or its new events; `progress` is called after each batch.

    Raises StoreError; ConflictError if the stored events differ, or another writer comes between.
    """
    refuse_header(source.header)
    header, notes, lines = source.header, source.notes, chain((source.header.line,), source.lines)
    known = load_notes(store, header.session_id)
    if known is None:  # most sessions are one batch, and stored by one write
        stored, batches = 0, _batches(lines)
        head = create_session(store, header, next(batches))
        progress()
    else:
        stored, head = known.head.number, known.head
        comparison = _Comparison(store.load(header.session_id).events, source)
        batches = _batches(comparison.find_new(lines))
    for batch in batches:
        delta = SessionDelta(base=head, new_events=batch, leaf_id=find_leaf(batch), updated_at=now())
        head = store.save_delta(header.session_id, delta)
        progress()
    new = head.number - stored
    if new and notes is not None and (notes.leaf_id is not None or notes.metadata != EMPTY):
        delta = SessionDelta(base=head, updated_at=now(), leaf_id=notes.leaf_id, metadata=notes.metadata)
        head = store.save_delta(header.session_id, delta)
    return Synced("created" if known is None else "extended" if new else "unchanged", new, head)


def create_session(store: Store, header: SessionHeader, events: tuple[bytes, ...]) -> Head:
    """Store a new session, which begins with these events."""
    at = now()
    data = SessionData(
        session_id=header.session_id, head=NOTHING, events=events, project_id=header.project_id,
        parent_session_id=header.parent_session_id, leaf_id=find_leaf(events) or header.session_id,
        created_at=header.at or at, updated_at=at,
    )  # fmt: skip
    return store.save(data)


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    batch, size = list[bytes](), 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= BATCH_BYTES or len(batch) >= BATCH_EVENTS:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


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


class _Comparison:
    """Compares a session with its stored events."""

    def __init__(self, stored: Iterable[bytes], source: SyncSource) -> None:
        self._source = source
        self._waiting = defaultdict[str, deque[tuple[int, bytes]]](deque)  # stored events by chain, with their numbers
        for number, event in enumerate(stored, 1):
            self._waiting[self._chain_of(event)].append((number, event))
        self._respelled: dict[str, int] = {}  # chains whose last responses were removed: the first event of these

    def find_new(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the events to append; raises ConflictError if a stored event differs.

        It is also a conflict if the last responses differ and no later request spells them.
        """
        new = [event for line in lines for event in self._compare(line)]
        if self._respelled:
            raise self._conflict(min(self._respelled.values()))
        return new

    def _compare(self, line: bytes) -> Iterator[bytes]:
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

    def _conflict(self, number: int) -> ConflictError:
        message = f"event {number} of the session is stored with other content"
        if self._source.is_of_requests:
            message = f"the recording was rewritten: event {number} of the session that its requests make differs"
        hint = "`lore store export` shows the stored session; --id stores this under another id"
        return ConflictError(message, hint=hint)

    def _chain_of(self, line: bytes) -> str:
        """Return the chain of an event, if chains are compared by themselves."""
        try:
            return _CHAINED.decode(line).chain if self._source.is_chained else MAIN
        except (ValueError, RecursionError):
            return MAIN


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
