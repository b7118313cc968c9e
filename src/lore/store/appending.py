"""Append lines to a stored session as they come.

In: one line an event. Out: the number of each, once it is durable. Rules: a line is stored to the byte, but for the
number that it expects; one that expects a number is stored under it or acknowledged again, never twice; one that
expects none goes to the end, whoever else writes. The first line that is refused ends it: what was acknowledged before
stays, and nothing of that line is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lore.errors import LoreError, Where
from lore.formats.lines import Line, fault, is_crowded, too_long, too_many
from lore.formats.lore_log import LoreLog, kind_of
from lore.model.canonical import decode
from lore.model.codes import Code, Problem
from lore.model.events import KINDS
from lore.model.jsonslice import spans, without_member
from lore.model.results.store import StoreAppended
from lore.store.base import ConflictError, DamagedError, Head, SessionDelta, Store
from lore.store.deltas import is_same, save_delta
from lore.store.lines import SessionHeader, leaf_of, read_header
from lore.store.registry import noted
from lore.store.sync import Clock

_BEGUN = (Code.BAD_HEADER,)  # an event that is read alone does not begin a log
ATTEMPTS = 1_000  # of one line to come behind what other writers append
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
    reason = too_long() if not line else fault(line) or (too_many() if is_crowded(line) else "")
    if reason:
        raise LoreError(f"the line is no event: {reason}", hint=HINT_MEND)
    kind = kind_of(line)
    if kind == "saved":
        raise LoreError("a `saved` record is a store's own note, and no event", hint="leave it out")
    key = "number" if kind == "knowledge" else "id"
    values = [decode(line[span.value : span.end]) for span in spans(line) if span.key == key]
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
