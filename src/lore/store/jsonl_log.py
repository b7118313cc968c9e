"""One session's log in a folder: how far it is stored, its events from any number on, what of it is damaged.

The state costs O(header and last delta), whatever the session's length: the file is read backwards to the last record
that is one, and from there forwards; what `settle` asks of earlier events is read from the record that holds them on.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from lore.errors import Where
from lore.formats.lines import BOM, LONGEST, fault
from lore.model.events import Saved
from lore.model.items import NULL
from lore.store.base import EMPTY, Damage, DamagedError, Head, SessionData, StoreError, Summary, Verified
from lore.store.jsonl_folder import LOG, name_of, read_range, read_small, reading, stamp_of
from lore.store.jsonl_records import BEGIN, Fault, Part, is_record, metadata_of, read, read_record, with_lines
from lore.store.lines import NOTHING, Activity, Header, activity, note, read_header

HINT = "`lore store verify` says what is damaged; `lore store export ID --salvage` writes what is left"
_PIECE = 64 * 1024
_ALL = 1 << 62


class LogState(Summary, frozen=True, kw_only=True):
    """What is known of a session; `torn` counts the bytes of its file behind `end`, where what is whole ends."""

    end: int
    torn: int
    is_ended: bool
    metadata: bytes  # on one line
    metadata_at: int | None  # the byte of the record that has it

    @property
    def summary(self) -> Summary:
        """What a list says of it."""
        return Summary(**{name: getattr(self, name) for name in Summary.__struct_fields__})


Notes: TypeAlias = SessionData | LogState  # which have what a record says of its session beside the events


class LogView(ABC):
    """A session as `settle` looks at it, by its state and the part of its log that is asked for."""

    @property
    @abstractmethod
    def state(self) -> LogState:
        """The session's state; raises DamagedError."""

    @abstractmethod
    def part(self, after: int) -> Part:
        """Return the events that came after a number, perhaps with some before; raises DamagedError."""

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


class Log(LogView):
    """A session's log that is open and locked, as it was when it was opened."""

    def __init__(self, descriptor: int, path: str, known: tuple[tuple[int, ...], LogState] | None = None) -> None:
        """Take an open file, and the state that it had at a stamp."""
        self.descriptor = descriptor
        self.path = path
        self.stamp = stamp_of(os.fstat(descriptor))
        self.size = self.stamp[0]
        self._part: Part | None = None
        self._known = known[1] if known is not None and known[0] == self.stamp else None

    @property
    def state(self) -> LogState:
        if self._known is None:
            self._known = self._state(self._tail())
        return self._known

    def part(self, after: int) -> Part:
        if self._part is None or self._part.first > after + 1:
            record = next((record for record in self._records() if record.after <= after), None) if after else None
            self._part = self._checked(self.read(record))
            if self._known is None:
                self._known = self._state(self._part if self._part.record or not record else self._tail())
        return self._part

    def _tail(self) -> Part:
        for record in self._records():
            part = self._checked(self.read(record))
            if part.record is not None:  # else it is torn
                return part
        return self._checked(self.read())

    def read(self, record: Saved | None = None) -> Part:
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

    def _checked(self, part: Part) -> Part:
        if part.faults:
            raise self._damaged(part.faults[0])
        return part

    def _damaged(self, found: Fault) -> DamagedError:
        which = "" if found.number is None else f"event {found.number}: "
        return DamagedError(f"{which}{found.message}", hint=HINT, where=Where(self.path, None, found.byte))

    def header(self) -> Header:
        """Return the session's header; raises DamagedError where there is none, or another session's."""
        data, at = b"", 0
        while b"\n" not in data and at < min(self.size, LONGEST):
            data += read_range(self.descriptor, at, at + _PIECE)
            at += _PIECE
        try:
            header = read_header(data.partition(b"\n")[0].removeprefix(BOM))
        except StoreError as error:
            raise self._damaged(Fault(1, 0, error.message, "")) from None
        wanted = name_of(header.session_id) + LOG
        if wanted != os.path.basename(self.path):
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
            size=part.log, end=part.end, torn=self.size - part.end, is_ended=part.is_ended, metadata=metadata,
            metadata_at=at, parent_session_id=header.parent_session_id, leaf_id=leaf_id, project_id=project_id,
            created_at=created_at, updated_at=updated_at, user_id=header.user_id, agent_id=header.agent_id,
            **self._activity(part)._asdict(),
        )  # fmt: skip

    def _activity(self, part: Part) -> Activity:
        """Return how far the session was used; where an older lore wrote the last record, all events are read."""
        record, loose = part.record, part.lines[len(part.lines) - part.loose :]
        if record is not None and record.turns is not None:
            return activity(loose, Activity(record.turns, record.used_at))
        return activity(part.lines if part.first == 1 else self._checked(self.read()).lines)

    def _metadata(self, record: Saved | None) -> tuple[bytes, int | None]:
        """Return a session's metadata, and the byte of the record that has it."""
        if record is None or record.metadata_at is None:
            return (EMPTY, None) if record is None else (metadata_of(record), record.byte)
        at = record.metadata_at
        line = read_range(self.descriptor, at, at + LONGEST + 1).partition(b"\n")[0]
        found = read_record(line, at)
        if found is None:
            raise self._damaged(Fault(None, at, "the record that has the metadata is damaged", "the events"))
        return metadata_of(found), at


# what is written

MOST = 50_000  # events behind one record: it names 64 digits for each, and no reader takes a line over 12 MiB
REPEATED = 1024  # bytes of metadata that each record says again; longer ones stand where they changed
_GROUP, _GROUP_BYTES = 1000, 1024 * 1024  # events, and about their bytes, behind one record of a whole session


def extended(
    state: LogState, notes: LogState, lines: Sequence[bytes], digests: Sequence[bytes]
) -> tuple[bytes, LogState]:
    """Return what is written behind a session for a delta, in one piece, and the state that it leads to.

    `notes` is the state with the notes that it has behind the delta.
    """
    is_said = notes.metadata == state.metadata and len(notes.metadata) > REPEATED
    at = state.metadata_at if is_said else None
    byte, head = state.end + (not state.is_ended), state.head
    used = activity(lines, Activity(state.turns or 0, state.used_at))
    record = _record(byte, head.number, head.digest, state.size, lines, digests, notes, at, used)
    data = (b"" if state.is_ended else b"\n") + with_lines(record, lines)
    digest = digests[-1].hex() if digests else head.digest
    end = state.end + len(data)
    return data, replace(
        notes, head=Head(head.number + len(lines), digest, note(notes.leaf_id, notes.metadata)),
        size=state.size + record.size, end=end, torn=0, is_ended=True, metadata_at=byte if at is None else at,
        turns=used.turns, used_at=used.used_at,
    )  # fmt: skip


def whole_bytes(events: Sequence[bytes], digests: Sequence[bytes], notes: Notes) -> Iterator[bytes]:
    """Yield a whole log in pieces: the header, and the events in groups, each behind a record."""
    yield events[0] + b"\n"
    byte = log = len(events[0]) + 1
    at: int | None = None
    used = activity(events[:1])
    for start, end in groups(events):
        lines = events[start:end]
        used = activity(lines, used)
        base = digests[start - 1].hex()
        data = with_lines(_record(byte, start, base, log, lines, digests[start:end], notes, at, used), lines)
        yield data
        at = byte if at is None and len(notes.metadata) > REPEATED else at
        byte += len(data)
        log += sum(map(len, lines)) + len(lines)


def groups(events: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of events, the first one apart, behind one record each: at least one range."""
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
    at: int | None, used: Activity,
) -> Saved:  # fmt: skip
    metadata = NULL if at is not None or notes.metadata == EMPTY else Raw(notes.metadata)
    return Saved(
        size=sum(map(len, lines)) + len(lines), after=after, base=base, log=log,
        digests=tuple(map(bytes.hex, digests)), leaf_id=notes.leaf_id, metadata=metadata, metadata_at=at,
        project_id=notes.project_id, created_at=notes.created_at, updated_at=notes.updated_at,
        turns=used.turns, used_at=used.used_at, byte=byte,
    )  # fmt: skip


# what is damaged


def verify_log(path: str, aside: str, patience: float) -> Verified | None:
    """Recompute every digest of a log; `aside` has what was cut off of it. None where it was deleted meanwhile."""
    session_id, damage, notes = None, list[Damage](), list[str]()
    try:
        with reading(path, patience) as descriptor:
            log = Log(descriptor, path)
            part = log.read()
            try:
                session_id = log.header().session_id
            except DamagedError as error:
                is_misnamed = "whose file is" in error.message
                saved = "all events: give the file that name" if is_misnamed else "the other events"
                damage.append(Damage(None, 1, f"{path}, byte 0", error.message, saved))
            torn = read_range(descriptor, part.end, _ALL)
    except FileNotFoundError:
        return None
    except StoreError as error:  # a symbolic link, a disk that does not answer, a lock that is held
        return Verified(1, 0, (unread(path, error),))
    for found in part.faults:
        damage.append(Damage(session_id, found.number, f"{path}, byte {found.byte}", found.message, found.recoverable))
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


def unread(path: str, error: StoreError) -> Damage:
    """Return the damage of a file that cannot be read."""
    return Damage(None, None, path, error.message, "not known")


def _recoverable(data: bytes) -> str:
    """Say which lines of what was cut off are whole."""
    lines = [line for line in data.split(b"\n") if line and not is_record(line) and not fault(line)]
    return f"{len(lines):,} whole event{'' if len(lines) == 1 else 's'} can be recovered from them"
