"""Sessions kept as logs, in a folder or among objects: how far one is stored, what a delta writes, and the calls of a
store that are the same in both.

A log is the header's line, then the events of each delta behind a record (`jsonl_records`), which says all that is
noted of the session: nothing of it is kept beside the log.

Of a log in a file the state costs O(header and last delta), whatever the session's length: the file is read backwards
to the last record that is one, and from there forwards; what `settle` asks of earlier events is read from the record
that holds them on.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Raw
from msgspec.structs import replace

from lore.errors import Where
from lore.formats.beginning import BOM
from lore.formats.bounds import LONGEST
from lore.formats.lines import fault
from lore.model.events import Saved
from lore.model.items import NULL, is_absent
from lore.store.base import (
    EMPTY,
    DamagedError,
    DamagedPlace,
    DeltaRow,
    Head,
    SessionData,
    SessionState,
    SessionSummary,
    StoreError,
    Verified,
    like,
)
from lore.store.deltas import AddingStore, Addition, StoredView
from lore.store.jsonl_folder import LOG, TORN, Folder, name_of, read_range, read_small, stamp_of
from lore.store.jsonl_records import BEGIN, Fault, LogPart, is_record, on_one_line, read, read_record, with_lines
from lore.store.lines import NOTHING, Activity, SessionHeader, activity, note, put_together, read_header, rows_of

_T = TypeVar("_T")


class LogState(SessionState, frozen=True, kw_only=True):
    """What is known of a session; `torn` counts the bytes of its file behind `end`, where what is whole ends."""

    end: int
    torn: int = 0
    is_ended: bool = True
    metadata_at: int | None = None  # the byte of the record that has it

    @property
    def summary(self) -> SessionSummary:
        """What a list says of it."""
        return like(SessionSummary, self)


class LogView(StoredView):
    """A session whose log is read from the place on that is asked for."""

    place: str  # how its file or object is named to a person

    @property
    @abstractmethod
    def state(self) -> LogState:
        """The session's state; raises DamagedError."""

    @abstractmethod
    def part(self, after: int) -> LogPart:
        """Return the events that came after a number, perhaps with some before; raises DamagedError."""

    def digest(self, number: int) -> str | None:
        if number == 0:
            return NOTHING.digest
        if number == self.head.number:
            return self.head.digest
        part = self.part(number - 1)
        place = number - part.first
        return part.digests[place].hex() if 0 <= place < len(part.digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        part = self.part(after)
        start = after + 1 - part.first
        return part.lines[start : start + count]

    def damaged(self, found: Fault) -> DamagedError:
        """Return the error for a place that is damaged."""
        which = "" if found.number is None else f"event {found.number}: "
        return DamagedError(f"{which}{found.message}", where=Where(self.place, None, found.byte))


# what is written

MOST = 50_000  # events behind one record: it names 64 digits for each, and no reader takes a line over 12 MiB
REPEATED = 1024  # bytes of metadata that each record says again; longer ones stand where they changed
_GROUP, _GROUP_BYTES = 1000, 1024 * 1024  # events, and about their bytes, behind one record of a whole session


def record(addition: Addition, start: int = 0, end: int | None = None) -> tuple[bytes, LogState]:
    """Return events of an addition behind one record, in one piece, and the state that it leads to."""
    addition = addition._replace(
        notes=replace(addition.notes, metadata=on_one_line(addition.notes.metadata)),
        lines=addition.lines[start:end], digests=addition.digests[start:end],
    )  # fmt: skip
    state, then = addition.state, addition.then()
    if not isinstance(state, LogState):  # of a new session: its header's
        state = like(LogState, state, end=state.size)
    at = state.metadata_at if then.metadata == state.metadata and len(then.metadata) > REPEATED else None
    written = like(
        Saved, then, size=then.size - state.size, after=state.head.number, base=state.head.digest, log=state.size,
        digests=tuple(map(bytes.hex, addition.digests)), metadata_at=at, agent_id=None,
        metadata=NULL if at is not None or then.metadata == EMPTY else Raw(then.metadata),
        byte=state.end + (not state.is_ended),
    )  # fmt: skip
    data = (b"" if state.is_ended else b"\n") + with_lines(written, addition.lines)
    return data, like(LogState, then, end=state.end + len(data), metadata_at=written.byte if at is None else at)


def pieces(addition: Addition) -> Iterator[tuple[bytes, LogState]]:
    """Yield what is written, the header apart, in groups behind a record each, and the state behind each."""
    lines, state, start, held = addition.lines, addition.state, 0, 0
    for end in range(1, len(lines) + 1):
        held += len(lines[end - 1])
        if end - start >= _GROUP or held >= _GROUP_BYTES or end == len(lines):
            data, state = record(addition._replace(state=state), start, end)
            yield data, state
            start, held = end, 0
    if not lines:
        yield record(addition)


# the calls of a store


class LogStore(AddingStore):
    """A store of logs. Where one is, how it is locked and written, is what is abstract here."""

    @abstractmethod
    def _read(self, session_id: str, ask: Callable[[LogView], _T]) -> _T:
        """Return what a function says of a session's log; raises UnknownSessionError, DamagedError."""

    @abstractmethod
    def _summaries(self) -> Iterable[SessionSummary]:
        """Yield what is known of each session; one that is damaged is told, and left out."""

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)

        def ask(log: LogView) -> SessionData:
            part = log.part(after) if not after or after < log.head.number else None
            events = () if part is None else tuple(part.lines[max(0, after + 1 - part.first) :])
            return log.state.data(events, after + 1)

        return self._read(session_id, ask)

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        """List the sessions; one that is damaged is told, and left out."""
        found = sorted(self._summaries(), key=lambda summary: summary.session_id)
        return [summary for summary in found if project_id is None or summary.project_id == project_id]

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        data = self.load(session_id)
        return put_together(session_id, data.project_id, rows_of(data.events))


# in a file

_PIECE = 64 * 1024
_ALL = 1 << 62


class LogFile(LogView):
    """A session's log that is open and locked, as it was when it was opened."""

    def __init__(self, descriptor: int, path: str, known: tuple[tuple[int, ...], LogState] | None = None) -> None:
        """Take an open file, and the state that it had at a stamp."""
        self.descriptor = descriptor
        self.place = path
        self.stamp = stamp_of(os.fstat(descriptor))
        self.size = self.stamp[0]
        self._part: LogPart | None = None
        self._known = known[1] if known is not None and known[0] == self.stamp else None

    @property
    def state(self) -> LogState:
        if self._known is None:
            self._known = self._state(self._tail())
        return self._known

    def part(self, after: int) -> LogPart:
        if self._part is None or self._part.first > after + 1:
            record = next((record for record in self._records() if record.after <= after), None) if after else None
            self._part = self._checked(self.read(record))
            if self._known is None:
                self._known = self._state(self._part if self._part.record or not record else self._tail())
        return self._part

    def _tail(self) -> LogPart:
        for record in self._records():
            part = self._checked(self.read(record))
            if part.record is not None:  # else it is torn
                return part
        return self._checked(self.read())

    def read(self, record: Saved | None = None) -> LogPart:
        """Read all of it, or from a record on, damaged or not."""
        return read(read_range(self.descriptor, record.byte if record else 0, self.size), record)

    def _records(self) -> Iterator[Saved]:
        """Yield the records of the file, the last first."""
        data, start, piece, limit = b"", self.size, _PIECE, self.size
        while start > 0:
            begin = max(0, start - piece)
            data = read_range(self.descriptor, begin, start) + data
            start, piece = begin, piece * 2
            at = data.rfind(b"\n" + BEGIN, 0, limit - start)
            while at >= 0:
                limit = start + at
                stop = data.find(b"\n", at + 1)
                record = read_record(data[at + 1 : stop], limit + 1) if stop >= 0 else None
                if record is not None:
                    yield record
                at = data.rfind(b"\n" + BEGIN, 0, limit - start)
            limit = min(limit, start + len(BEGIN))

    def _checked(self, part: LogPart) -> LogPart:
        if part.faults:
            raise self.damaged(part.faults[0])
        return part

    def header(self) -> SessionHeader:
        """Return the session's header; raises DamagedError where there is none, or another session's."""
        data, at = b"", 0
        while b"\n" not in data and at < min(self.size, LONGEST):
            data += read_range(self.descriptor, at, at + _PIECE)
            at += _PIECE
        try:
            header = read_header(data.partition(b"\n")[0].removeprefix(BOM))
        except StoreError as error:
            raise self.damaged(Fault(1, 0, error.message, "")) from None
        wanted = name_of(header.session_id) + LOG
        if wanted != os.path.basename(self.place):
            message = f"the header is that of session {header.session_id!r}, whose file is {wanted}"
            raise self.damaged(Fault(1, 0, message, ""))
        return header

    def _state(self, part: LogPart) -> LogState:
        header, record = self.header(), part.record
        metadata, at = (EMPTY, None) if record is None else self._metadata(record)
        leaf_id = None if record is None else record.leaf_id
        times = (header.at, None) if record is None else (record.created_at, record.updated_at)
        return like(
            LogState, header, head=Head(part.number, part.digest.hex(), note(leaf_id, metadata)), size=part.log,
            end=part.end, torn=self.size - part.end, is_ended=part.is_ended, metadata=metadata, metadata_at=at,
            project_id=header.project_id if record is None else record.project_id, leaf_id=leaf_id,
            created_at=times[0], updated_at=times[1], **self._activity(part)._asdict(),
        )  # fmt: skip

    def _activity(self, part: LogPart) -> Activity:
        """Return how far the session was used; where an older lore wrote the last record, all events are read."""
        record, loose = part.record, part.lines[len(part.lines) - part.loose :]
        if record is not None and record.turns is not None:
            return activity(loose, Activity(record.turns, record.used_at))
        return activity(part.lines if part.first == 1 else self._checked(self.read()).lines)

    def _metadata(self, record: Saved) -> tuple[bytes, int]:
        """Return a session's metadata, and the byte of the record that has it: this one, or the one that it names."""
        at = record.byte if record.metadata_at is None else record.metadata_at
        if at != record.byte:
            line = read_range(self.descriptor, at, at + LONGEST + 1).partition(b"\n")[0]
            found = read_record(line, at)
            if found is None:
                raise self.damaged(Fault(None, at, "the record that has the metadata is damaged", "the events"))
            record = found
        return (EMPTY if is_absent(record.metadata) else bytes(record.metadata)), at


# what is damaged


def verify_log(folder: Folder, path: str) -> Verified | None:
    """Recompute every digest of a log, and look at what was cut off it. None where it was deleted meanwhile."""
    session_id, damage, notes = None, list[DamagedPlace](), list[str]()
    aside = folder.beside(path, TORN)
    try:
        with folder.reading(path) as descriptor:
            log = LogFile(descriptor, path)
            part = log.read()
            try:
                session_id = log.header().session_id
            except DamagedError as error:
                is_misnamed = "whose file is" in error.message
                saved = "all events: give the file that name" if is_misnamed else "the other events"
                damage.append(DamagedPlace(None, 1, f"{path}, byte 0", error.message, saved))
            torn = read_range(descriptor, part.end, _ALL)
    except FileNotFoundError:
        return None
    except StoreError as error:  # a symbolic link, a disk that does not answer, a lock that is held
        return Verified(1, 0, (unread(path, error),))
    damage += [found.damage(session_id, f"{path}, byte {found.byte}") for found in part.faults]
    if part.plain:
        notes.append(f"{path}: {part.plain:,} events were appended by another program, without a digest")
    if torn and not part.faults:
        notes.append(
            f"{path}: the last {len(torn):,} bytes are no whole delta: it was never acknowledged, "
            f"or the disk lost its end; {_recoverable(torn)}"
        )
    try:
        if cut := read_small(aside, _ALL):
            notes.append(f"{aside}: {len(cut):,} bytes of deltas that were not whole; {_recoverable(cut)}")
    except StoreError as error:
        damage.append(unread(aside, error))
    return Verified(1, len(part.lines), tuple(damage), tuple(notes))


def unread(path: str, error: StoreError) -> DamagedPlace:
    """Return the damage of a file that cannot be read."""
    return DamagedPlace(None, None, path, error.message, "not known")


def _recoverable(data: bytes) -> str:
    """Say which lines of what was cut off are whole."""
    lines = [line for line in data.split(b"\n") if line and not is_record(line) and not fault(line)]
    return f"{len(lines):,} whole event{'' if len(lines) == 1 else 's'} can be recovered from them"
