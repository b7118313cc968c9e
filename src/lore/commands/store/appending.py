"""Append events to a stored session, one a line: the work of `lore store append`.

An event is durable when its number is returned. A line may carry the number that it expects, which is not stored: the
event is stored under this number, or acknowledged again if it is there. A line without a number is appended, whoever
else writes. Nothing of a refused line is stored; the lines before it are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import NamedTuple, get_args

from lore.commands.store.importing import create_session, find_leaf
from lore.errors import LoreError, Where, did_you_mean
from lore.formats.lines import Line
from lore.formats.lore_log import LoreLog, event_of, kind_of
from lore.model.canonical import decode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import KINDS
from lore.model.items import Item
from lore.model.jsonslice import member_ranges, raw_members, without_member
from lore.model.results.store import StoreAppended
from lore.store.base import ConflictError, DamagedError, Head, SessionDelta, Store, now
from lore.store.deltas import is_same_event
from lore.store.lines import read_header, refusal
from lore.store.registry import load_notes
from lore.store.reserved import refuse_header, refuse_reserved

_ITEM_TYPES = [str(kind.__struct_config__.tag) for kind in get_args(Item)]
ATTEMPTS = 1_000  # times that a line is appended again after another writer's
HINT_REPAIR = "nothing of this line was stored, the lines before are: repair it, and send it again with what follows"


class AppendedEvent(NamedTuple):
    """One event of `lore store append`."""

    data: bytes  # as it is stored
    kind: str
    number: int | None  # the number that the line expects


class SessionAppender:
    """Appends lines to one session, one delta each."""

    def __init__(self, store: Store, session_id: str, tell: Callable[[str], None]) -> None:
        refuse_reserved(session_id)
        self._store, self._session_id = store, session_id
        self._tell = tell  # receives notes about events that readers keep as opaque
        self._head: Head | None = None
        self._loaded_events: tuple[int, tuple[bytes, ...]] = (0, ())  # a number, and the stored events from it on

    def append(self, line: Line) -> StoreAppended:
        """Store one event and return its number as soon as it is durable.

        Raises LoreError with the line's place if it is refused; ConflictError if it expects another number than it can
        have.
        """
        try:
            event = parse_line(line.data)
            refuse_misspelt(event)
            number = self._store_event(event)
        except LoreError as error:
            if not isinstance(error, DamagedError):  # whose place is in the store
                error.where = Where("<stdin>", line.number, line.byte)
            error.hint = error.hint or HINT_REPAIR
            raise
        for read in LoreLog().read_line(Line(1, 0, event.data)):
            # BAD_HEADER: an event that is read alone does not begin a log
            if isinstance(read.value, Problem) and read.value.code != Code.BAD_HEADER:
                self._tell(f"note: line {line.number}: {read.value.message}")
        return StoreAppended(self._session_id, number)

    def _store_event(self, event: AppendedEvent) -> int:
        """Store an event, or acknowledge it if it is stored; returns its number."""
        self._head = self._head or self._load_head()
        if event.kind == "session_started" and event.number in (None, 1):
            return self._begin(event)
        if self._head is None:
            hint = "begin with its session_started, or look at `lore store list`"
            raise LoreError(f"the store has no session {self._session_id!r}", hint=hint)
        for _ in range(ATTEMPTS):
            following = self._head.number + 1
            if event.number is not None and event.number < following:
                return self._acknowledge(event, event.number, self._head)
            if event.number is not None and event.number > following:
                held = f"the store holds {self._head}: the next is event {following}"
                message = f"the line expects to be event {event.number}, {held}"
                raise ConflictError(message, hint=f"send the events from number {following} on", stored=self._head)
            events = (event.data,)
            delta = SessionDelta(base=self._head, new_events=events, leaf_id=find_leaf(events), updated_at=now())
            try:
                self._head = self._store.save_delta(self._session_id, delta)
                return following
            except ConflictError:
                self._head = self._load_head() or self._head
        raise ConflictError("gave up after repeated write conflicts", hint="send the line again", stored=self._head)

    def _load_head(self) -> Head | None:
        notes = load_notes(self._store, self._session_id)
        return None if notes is None else notes.head

    def _begin(self, event: AppendedEvent) -> int:
        """Create the session, or acknowledge that it has this header."""
        header = read_header(event.data)
        refuse_header(header)
        if header.session_id != self._session_id:
            message = f"session_started names session {header.session_id!r}, not {self._session_id!r}"
            hint = f"nothing of it was stored: `lore store append {header.session_id}`, or repair the line"
            raise LoreError(message, hint=hint)
        if self._head is None:
            self._head = create_session(self._store, header, (event.data,))
        else:
            self._acknowledge(event, 1, self._head)
        return 1

    def _acknowledge(self, event: AppendedEvent, number: int, head: Head) -> int:
        """Return the number of an event that is stored; raises ConflictError if another one has it."""
        first, events = self._loaded_events
        if not first <= number < first + len(events):
            first, events = self._loaded_events = number, self._store.load(self._session_id, after=number - 1).events
        stored = events[number - first]
        with suppress(LoreError):  # the events of an imported log may have numbers
            stored = parse_line(stored).data
        if not is_same_event(stored, event.data):
            expected = f"the line expects to be event {number}, and another event is stored there"
            message = f"{expected}; the store holds {head}"
            hint = "another writer was here: `lore store export` shows the stored session"
            raise ConflictError(message, hint=hint, stored=head)
        return number


def parse_line(line: bytes) -> AppendedEvent:
    """Parse one line, and remove the number that it expects; its other bytes stay. Raises LoreError.

    The number is in `id`; in a `knowledge` event, whose `id` names its entry, in `number`.
    """
    reason = refusal(line)
    if reason:
        raise LoreError(f"the line is not an event: {reason}", hint=HINT_REPAIR)
    kind = kind_of(line)
    if kind == "saved":
        raise LoreError("a `saved` record is a store's own note, and not an event", hint="leave it out")
    key = "number" if kind == "knowledge" else "id"
    values = [decode(line[span.value : span.end]) for span in member_ranges(line) if span.key == key]
    # Records of other programs have ids of their own.
    if not values or (kind not in KINDS and isinstance(values[-1], str)):
        return AppendedEvent(line, kind, None)
    number = values[-1]
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        hint = "an event's number is an integer from 1 on; without one the event is appended"
        raise LoreError(f"the line's `{key}` is not a number of an event", hint=hint)
    return AppendedEvent(without_member(line, key), kind, number)


def refuse_misspelt(event: AppendedEvent) -> None:
    """Raise LoreError for an event of lore that no reader would understand, or a kind that is nearly one of lore's.

    Records of other programs, whose kinds are not like lore's, are kept as opaque events.
    """
    if event.kind not in KINDS:
        hint = did_you_mean(event.kind, get_close_matches(event.kind[:80], KINDS, 1, 0.8))
        if hint.startswith("did you mean"):
            raise LoreError(f"there is no event {event.kind!r}", hint=hint)
    elif event_of(event.data) is None:
        item = raw_members((raw_members(event.data) or {}).get("item", b"")) or {}
        kind, hint = text_of(item.get("type", b'""')), ""
        if event.kind == "append" and kind not in _ITEM_TYPES:
            hint = f"the item's type: {did_you_mean(kind, _ITEM_TYPES)}"
        raise LoreError(f"the event {event.kind} has missing or wrong fields", hint=hint)
