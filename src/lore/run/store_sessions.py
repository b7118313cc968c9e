"""What `lore store` does with stored sessions, import apart: list, show, verify, export, delete, move, bind, append.

Of appending: bytes come as they arrive, one event a line; out goes the number of each, once it is durable. A line is
stored to the byte, but for the number that it expects; one that expects a number is stored under it or acknowledged
again, never twice; one that expects none goes to the end, whoever else writes. The first line that is refused ends it:
what was acknowledged before stays, and nothing of that line is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from msgspec import Raw
from msgspec.structs import astuple

from lore.compaction.memory.identities import of_users, refuse_header, refuse_reserved
from lore.errors import LoreError, Where
from lore.formats.lines import Line, Lines, fault, is_crowded, too_long, too_many
from lore.formats.lore_log import LoreLog, kind_of
from lore.model.canonical import decode
from lore.model.codes import Code, Problem
from lore.model.events import KINDS
from lore.model.jsonslice import spans, without_member
from lore.model.results_store import (
    SessionRow,
    StoreAppended,
    StoredCheckpoint,
    StoredDamage,
    StoredHead,
    StoreList,
    StoreResolved,
    StoreShown,
    StoreVerified,
    StoreWritten,
)
from lore.store.base import (
    ConflictError,
    DamagedError,
    Head,
    SalvagingStore,
    SessionDelta,
    Store,
    Summary,
    Tell,
    UnknownSessionError,
)  # fmt: skip
from lore.store.deltas import is_same, save_delta, with_forks
from lore.store.lines import read_header
from lore.store.registry import BEYOND, noted
from lore.store.sync import Clock, now


def listed(store: Store, project_id: str | None = None, *, memory: bool = False) -> StoreList:
    """List the sessions of a store, or of one project; with `memory` those in which lore keeps memory, too."""
    found = store.list(project_id)
    return StoreList(
        store=store.url, sessions=[_session(summary) for summary in (found if memory else of_users(found))]
    )


def shown(store: Store, session_id: str) -> StoreShown:
    """Say what is known of a session without reading its events; raises UnknownSessionError."""
    summaries = {summary.session_id: summary for summary in store.list()}
    if session_id not in summaries:
        store.load(session_id)  # damaged, so that it is in no list: this says so
        raise UnknownSessionError(session_id)
    checkpoint = store.checkpoint(session_id)
    family = with_forks(session_id, {name: summary.parent_session_id for name, summary in summaries.items()})
    return StoreShown(
        store=store.url, session=_session(summaries[session_id]),
        metadata=Raw(store.load(session_id, after=BEYOND).metadata),
        prompt_deltas=len(store.prompt_deltas(session_id)), forks=sorted(set(family) - {session_id}),
        checkpoint=None if checkpoint is None else
        StoredCheckpoint(checkpoint.number, checkpoint.format, len(checkpoint.data)),
    )  # fmt: skip


def _session(summary: Summary) -> SessionRow:
    return SessionRow(
        session_id=summary.session_id, events=summary.head.number, bytes=summary.size, project_id=summary.project_id,
        parent_session_id=summary.parent_session_id, leaf_id=summary.leaf_id, created_at=summary.created_at,
        updated_at=summary.updated_at, head=StoredHead(*summary.head),
    )  # fmt: skip


def verified(store: Store, session_ids: Sequence[str]) -> StoreVerified:
    """Recompute every digest of these sessions, by default of all; raises UnknownSessionError."""
    results = [store.verify(name) for name in dict.fromkeys(session_ids)] if session_ids else [store.verify()]
    return StoreVerified(
        store=store.url, sessions=sum(result.sessions for result in results),
        events=sum(result.events for result in results),
        damage=[StoredDamage(*astuple(damage)) for result in results for damage in result.damage],
        notes=list(dict.fromkeys(note for result in results for note in result.notes)),
    )  # fmt: skip


def resolved(store: Store, client_key: str) -> StoreResolved:
    """Return the session that a client means; raises LoreError where it means none."""
    session_id = store.resolve(client_key)
    if session_id is None:
        raise LoreError(f"the store knows no client {client_key!r}", hint="`lore store bind CLIENT_KEY SESSION_ID`")
    return StoreResolved(store=store.url, client_key=client_key, session_id=session_id)


def deleted(store: Store, session_ids: Sequence[str], *, dry_run: bool = False) -> StoreWritten:
    """Delete sessions and those forked from them, all that are named or none; with `dry_run` only say which.

    Raises UnknownSessionError before anything is deleted.
    """
    parents = {summary.session_id: summary.parent_session_id for summary in store.list()}
    for session_id in session_ids:
        if session_id not in parents and not _is_damaged(store, session_id):
            raise UnknownSessionError(session_id)
    gone: dict[str, None] = {}
    for session_id in session_ids:
        if session_id not in gone:  # it may have gone with another, whose fork it was
            gone.update(dict.fromkeys(with_forks(session_id, parents) if dry_run else store.delete(session_id)))
    return StoreWritten(store=store.url, op="delete", session_ids=list(gone), dry_run=dry_run)


def _is_damaged(store: Store, session_id: str) -> bool:
    """Tell whether a session is there that can be in no list; such a one can be deleted all the same."""
    try:
        return noted(store, session_id) is not None
    except DamagedError:
        return True


def exported(store: Store, session_id: str) -> Iterator[bytes]:
    """Return the lines of a session's log, each with its end; raises UnknownSessionError, DamagedError at once."""
    events = store.load(session_id).events
    return (event + b"\n" for event in events)


def salvaged(store: Store, session_id: str, tell: Tell) -> Iterator[bytes]:
    """Return the lines of a damaged session that are surely as they were written; `tell` hears how many are not there.

    Raises UnknownSessionError, and LoreError for a store of another package that cannot do that.
    """
    if not callable(getattr(store, "salvage", None)):
        raise LoreError(f"{store.url} cannot give out a part of a session", hint="leave --salvage out")
    found = cast("SalvagingStore", store).salvage(session_id)
    out = "nothing is" if not found.lost else "1 event is" if found.lost == 1 else f"{found.lost:,} events are"
    tell(f"note: {out} left out{': damaged or missing' if found.lost else ''}")
    return (event + b"\n" for event in found.events)


# appending

_BEGUN = (Code.BAD_HEADER,)  # an event that is read alone does not begin a log
ATTEMPTS = 1_000  # of one line to come behind what other writers append
HINT_MEND = "nothing of this line was stored, the lines before are: mend it, and send it again with what follows"


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
    appender, lines = _Appender(store, session_id, clock), Lines()
    for piece in data:
        for line in lines.feed(piece):
            yield appender.append(line, say)
    for line in lines.finish():
        yield appender.append(line, say)


@dataclass(slots=True)
class _Appender:
    _store: Store
    _session_id: str
    _clock: Clock
    _head: Head | None = None
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
            delta = SessionDelta(base=self._head, new_events=(event.data,), updated_at=self._clock())
            try:
                self._head = save_delta(self._store, self._session_id, delta)
                return self._head.number
            except ConflictError:
                self._head = self._load() or self._head
        raise ConflictError("gave up after repeated write conflicts", hint="send the line again", stored=self._head)

    def _load(self) -> Head | None:
        known = noted(self._store, self._session_id)
        return None if known is None else known.head

    def _begin(self, event: AppendedEvent) -> int:
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
