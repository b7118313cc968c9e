"""How far a session is stored, from the end of its log: its last record, and what stands behind it.

Costs O(header and last delta), whatever the session's length. The file is read backwards to the last record that is
one, and from there forwards; what `settle` asks of earlier events is read from the record that holds them on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Raw, Struct

from lore.errors import Where
from lore.formats.lines import BOM, LONGEST
from lore.model.events import Saved
from lore.model.items import NULL
from lore.store.base import EMPTY, DamagedError, Head, StoreError, Summary
from lore.store.jsonl_files import read_range
from lore.store.jsonl_folder import LOG, name_of
from lore.store.jsonl_records import BEGIN, Fault, Part, Start, metadata_of, read, read_record, with_lines
from lore.store.lines import NOTHING, Header, note, read_header

HINT = "`lore store verify` says what is damaged; `lore store export ID --salvage` writes what is left"
_PIECE = 64 * 1024


class Notes(Struct, frozen=True, kw_only=True):
    """What a record says of its session beside the events; `metadata` is on one line."""

    leaf_id: str | None = None
    metadata: bytes = EMPTY
    project_id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


class LogState(Notes, frozen=True, kw_only=True):
    """What is known of a session; `log` is its size without records, `end` where what is whole ends in the file."""

    session_id: str
    head: Head
    log: int
    end: int
    size: int
    is_ended: bool
    parent_session_id: str | None
    metadata_at: int | None = None

    @property
    def is_torn(self) -> bool:
        """Whether bytes stand behind what is whole."""
        return self.end < self.size

    @property
    def summary(self) -> Summary:
        """What a list says of it."""
        return Summary(
            session_id=self.session_id, head=self.head, size=self.log, project_id=self.project_id,
            parent_session_id=self.parent_session_id, leaf_id=self.leaf_id, created_at=self.created_at,
            updated_at=self.updated_at,
        )  # fmt: skip


class Look:
    """One session's log that is open and locked: its state, and its events from any number on."""

    def __init__(self, descriptor: int, path: str, known: LogState | None = None) -> None:
        self._descriptor = descriptor
        self._path = path
        self.size = os.fstat(descriptor).st_size
        self._part: Part | None = None
        self._known = known

    @property
    def state(self) -> LogState:
        """The session's state; raises DamagedError."""
        if self._known is None:
            self._known = self._state(self._tail())
        return self._known

    @property
    def head(self) -> Head:
        return self.state.head

    @property
    def leaf_id(self) -> str | None:
        return self.state.leaf_id

    @property
    def metadata(self) -> bytes:
        return self.state.metadata

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

    def part(self, after: int) -> Part:
        """Return the events that came after a number, perhaps with some before; raises DamagedError."""
        if self._part is None or self._part.first > after + 1:
            record = next((record for record in self._records() if record.after <= after), None) if after else None
            self._part = self._checked(self._read(record))
            if self._known is None:
                self._known = self._state(self._part if self._part.record or not record else self._tail())
        return self._part

    def whole(self) -> Part:
        """Read all of it, damaged or not."""
        return self._read(None)

    def _tail(self) -> Part:
        for record in self._records():
            part = self._checked(self._read(record))
            if part.record is not None:  # else it is torn
                return part
        return self._checked(self._read(None))

    def _read(self, record: Saved | None) -> Part:
        if record is None:
            return read(read_range(self._descriptor, 0, self.size))
        start = Start(record.byte, record.after, bytes.fromhex(record.base), record.log)
        return read(read_range(self._descriptor, record.byte, self.size), start)

    def _records(self) -> Iterator[Saved]:
        """Yield the records of the file, the last first."""
        data, start, piece, limit = b"", self.size, _PIECE, self.size
        while start > 0:
            begin = max(0, start - piece)
            data = read_range(self._descriptor, begin, start) + data
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

    def _checked(self, part: Part) -> Part:
        for fault in part.faults:
            raise self._damaged(fault)
        return part

    def _damaged(self, fault: Fault) -> DamagedError:
        which = "" if fault.number is None else f"event {fault.number}: "
        where = Where(self._path, None, fault.byte)
        return DamagedError(f"{which}{fault.message}", hint=HINT, where=where)

    def header(self) -> Header:
        """Return the session's header; raises DamagedError where there is none, or another session's."""
        data, at = b"", 0
        while b"\n" not in data and at < min(self.size, LONGEST):
            data += read_range(self._descriptor, at, at + _PIECE)
            at += _PIECE
        try:
            header = read_header(data.partition(b"\n")[0].removeprefix(BOM))
        except StoreError as error:
            raise self._damaged(Fault(1, 0, error.message, "")) from None
        wanted = name_of(header.session_id) + LOG
        if wanted != os.path.basename(self._path):
            message = f"the header is that of session {header.session_id!r}, whose file is {wanted}"
            raise self._damaged(Fault(1, 0, message, ""))
        return header

    def _state(self, part: Part) -> LogState:
        header, record = self.header(), part.record
        metadata, at = self._metadata(record)
        leaf_id, project_id, created_at, updated_at = None, header.project_id, header.at, None
        if record is not None:
            leaf_id, project_id = record.leaf_id, record.project_id
            created_at, updated_at = record.created_at, record.updated_at
        return LogState(
            session_id=header.session_id, head=Head(part.number, part.digest.hex(), note(leaf_id, metadata)),
            log=part.log, end=part.end, size=self.size, is_ended=part.is_ended, metadata=metadata, metadata_at=at,
            parent_session_id=header.parent_session_id, leaf_id=leaf_id, project_id=project_id, created_at=created_at,
            updated_at=updated_at,
        )  # fmt: skip

    def _metadata(self, record: Saved | None) -> tuple[bytes, int | None]:
        """Return a session's metadata, and the byte of the record that has it."""
        if record is None or record.metadata_at is None:
            return (EMPTY, None) if record is None else (metadata_of(record), record.byte)
        at = record.metadata_at
        line = read_range(self._descriptor, at, at + LONGEST + 1).partition(b"\n")[0]
        found = read_record(line, at)
        if found is None:
            raise self._damaged(Fault(None, at, "the record that has the metadata is damaged", "the events"))
        return metadata_of(found), at


MOST = 50_000  # events behind one record: it names 64 digits for each, and no reader takes a line over 12 MiB
REPEATED = 1024  # bytes of metadata that each record says again; longer ones stand where they changed
_GROUP, _GROUP_BYTES = 1000, 1024 * 1024  # events, and about their bytes, behind one record of a whole session


def delta_bytes(state: LogState, lines: Sequence[bytes], digests: Sequence[bytes], notes: Notes) -> bytes:
    """Return what is written behind a session for a delta, in one piece."""
    at = metadata_at(state, notes)
    byte = state.end + (not state.is_ended)
    record = _record(byte, state.head.number, state.head.digest, state.log, lines, digests, notes, at)
    return (b"" if state.is_ended else b"\n") + with_lines(record, lines)


def metadata_at(state: LogState, notes: Notes) -> int | None:
    """Return the byte of the record that has the metadata already, where it need not be said again."""
    is_same = notes.metadata == state.metadata and len(notes.metadata) > REPEATED
    return state.metadata_at if is_same else None


def whole_bytes(events: Sequence[bytes], digests: Sequence[bytes], notes: Notes) -> Iterator[bytes]:
    """Yield a whole log in pieces: the header, and the events in groups, each behind a record."""
    yield events[0] + b"\n"
    byte = log = len(events[0]) + 1
    at: int | None = None
    for start, end in _groups(events):
        lines = events[start:end]
        base = digests[start - 1].hex()
        data = with_lines(_record(byte, start, base, log, lines, digests[start:end], notes, at), lines)
        yield data
        at = byte if at is None and len(notes.metadata) > REPEATED else at
        byte += len(data)
        log += sum(map(len, lines)) + len(lines)


def _groups(events: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of events behind one record each, at least one."""
    start, held = 1, 0
    for place in range(1, len(events)):
        held += len(events[place])
        if place + 1 - start >= _GROUP or held >= _GROUP_BYTES:
            yield start, place + 1
            start, held = place + 1, 0
    if start < len(events) or start == 1:
        yield start, len(events)


def _record(
    byte: int, after: int, base: str, log: int, lines: Sequence[bytes], digests: Sequence[bytes], notes: Notes,
    at: int | None,
) -> Saved:  # fmt: skip
    metadata = NULL if at is not None or notes.metadata == EMPTY else Raw(notes.metadata)
    return Saved(
        size=sum(map(len, lines)) + len(lines), after=after, base=base, log=log,
        digests=tuple(map(bytes.hex, digests)), leaf_id=notes.leaf_id, metadata=metadata, metadata_at=at,
        project_id=notes.project_id, created_at=notes.created_at, updated_at=notes.updated_at, byte=byte,
    )  # fmt: skip
