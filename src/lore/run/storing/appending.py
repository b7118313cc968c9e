"""Append events to a session as they come: what `lore store append` does.

In: bytes as they arrive, one event a line. Out: the number of each, once it is durable. Rules: a line is stored to
the byte, but for the number that it expects; one that expects a number is stored under it or acknowledged again,
never twice; one that expects none goes to the end, whoever else writes. The first line that is refused ends it:
what was acknowledged before stays, and nothing of that line is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lore.compaction.memory.identities import refuse_header, refuse_reserved
from lore.errors import LoreError, Where
from lore.formats.lines import Line, Lines, fault, is_crowded, too_long, too_many
from lore.formats.lore_log import LoreLog
from lore.model.canonical import decode
from lore.model.codes import Code, Problem
from lore.model.events import KINDS
from lore.model.jsonslice import spans, without_member
from lore.model.results_store import StoreAppended
from lore.recording.log_lines import kind_of
from lore.store.applying import is_same, save_delta
from lore.store.base import ConflictError, DamagedError, Head, SessionDelta, Store
from lore.store.lines import read_header
from lore.store.registry import noted
from lore.store.sync import Clock, now

SHOWN = "<stdin>"
ATTEMPTS = 1_000  # of one line to come behind what other writers append
HINT_MEND = "nothing of this line was stored, the lines before are: mend it, and send it again with what follows"
HINT_NUMBER = "an event's number is an integer from 1 on; without one the event goes to the end"
HINT_BEGIN = "begin with its session_started, or look at `lore store list`"
_HEADER = "session_started"
_BEGUN = (Code.BAD_HEADER,)  # an event that is read alone does not begin a log


class AppendedEvent(NamedTuple):
    """One event: its bytes as they are stored, its kind, the number that it expects."""

    data: bytes
    kind: str
    number: int | None


def append_lines(
    store: Store, session_id: str, data: Iterable[bytes], say: Callable[[str], None], *, clock: Clock = now
) -> Iterator[StoreAppended]:  # fmt: skip
    """Append the events of these bytes, one delta each; yield each one's number as soon as it is durable.

    `say` hears of events that readers of logs keep without understanding them. Raises LoreError for the first line
    that is refused; ConflictError where it expects another number than it can have.
    """
    refuse_reserved(session_id)
    writer = _Writer(store, session_id, clock)
    lines = Lines()
    for piece in data:
        for line in lines.feed(piece):
            yield writer.take(line, say)
    for line in lines.finish():
        yield writer.take(line, say)


class _Writer:
    def __init__(self, store: Store, session_id: str, clock: Clock) -> None:
        self._store = store
        self._session_id = session_id
        self._clock = clock
        self._head: Head | None = None
        self._known: tuple[int, tuple[bytes, ...]] = (0, ())  # a number, and the events that are stored from it on

    def take(self, line: Line, say: Callable[[str], None]) -> StoreAppended:
        """Store one event; raises LoreError with its place."""
        try:
            event = parsed(line.data)
            number = self._stored(event)
        except LoreError as error:
            if not isinstance(error, DamagedError):  # whose place is in the store
                error.where = Where(SHOWN, line.number, line.byte)
            error.hint = error.hint or HINT_MEND
            raise
        for read in LoreLog().feed(event.data + b"\n"):
            if isinstance(read.value, Problem) and read.value.code not in _BEGUN:
                say(f"note: line {line.number}: {read.value.message}")
        return StoreAppended(self._session_id, number)

    def _stored(self, event: AppendedEvent) -> int:
        self._head = self._head or self._load()
        if event.kind == _HEADER and event.number in (None, 1):
            return self._begun(event)
        if self._head is None:
            raise LoreError(f"the store has no session {self._session_id!r}", hint=HINT_BEGIN)
        for _ in range(ATTEMPTS):
            if event.number is not None and event.number <= self._head.number:
                return self._again(event, event.number, self._head)
            if event.number is not None and event.number > self._head.number + 1:
                following = self._head.number + 1
                held = f"the store holds {self._head}: the next is event {following}"
                message = f"the line expects to be event {event.number}, {held}"
                raise ConflictError(message, hint=f"send the events from number {following} on", stored=self._head)
            try:
                return self._append(event, self._head)
            except ConflictError:
                self._head = self._load() or self._head
        raise ConflictError("gave up after repeated write conflicts", hint="send the line again", stored=self._head)

    def _load(self) -> Head | None:
        known = noted(self._store, self._session_id)
        return None if known is None else known.head

    def _append(self, event: AppendedEvent, head: Head) -> int:
        delta = SessionDelta(base=head, new_events=(event.data,), updated_at=self._clock())
        self._head = save_delta(self._store, self._session_id, delta)
        return self._head.number

    def _begun(self, event: AppendedEvent) -> int:
        """Begin the session, or see that it was begun so."""
        header = read_header(event.data)
        refuse_header(header)
        if header.session_id != self._session_id:
            raise LoreError(
                f"session_started names session {header.session_id!r}, not {self._session_id!r}",
                hint=f"nothing of it was stored: `lore store append {header.session_id}`, or mend the line",
            )
        if self._head is None:
            self._head = self._store.create(event.data)
        else:
            self._again(event, 1, self._head)
        return 1

    def _again(self, event: AppendedEvent, number: int, head: Head) -> int:
        """Acknowledge an event that is stored; raises ConflictError where another one has its number."""
        first, events = self._known
        if not first <= number < first + len(events):
            first, events = self._known = number, self._store.load(self._session_id, after=number - 1).events
        if not is_same(plain(events[number - first]), plain(event.data)):
            raise ConflictError(
                f"the line expects to be event {number}, and another event is stored there; the store holds {head}",
                hint="another writer was here: `lore store export` shows what is stored", stored=head,
            )  # fmt: skip
        return number


def parsed(line: bytes) -> AppendedEvent:
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
        raise LoreError(f"the line's `{key}` is no number of an event", hint=HINT_NUMBER)
    return AppendedEvent(without_member(line, key), kind, number)


def plain(line: bytes) -> bytes:
    """Return an event without the number that it may carry; a log that was imported keeps them."""
    try:
        return parsed(line).data
    except LoreError:
        return line
