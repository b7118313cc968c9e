"""One session's log of a `jsonl:` store: the lines of a save, reading them, and finding what is damaged.

A log is the session's header, then for each save one `saved` record (`lore.model.events.Saved`) followed by the events
of the save. The record says how many bytes follow, the digest of each event, and everything the store notes beside the
events. So a save is stored whole or not at all: if fewer bytes follow than the record says, the save is incomplete, and
readers leave it out. A last line that has no end and is not JSON, and zeros at the end of the file (a file system may
leave them after a loss of power), are incomplete as well.

Other programs may append whole lines: they are events, whose digest the next save's record holds.

The state of a session is read from the header and the last record, whatever the length of the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from lore.errors import Where
from lore.formats.beginning import BOM
from lore.formats.lines import fault
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.events import Envelope, Saved
from lore.model.items import is_absent
from lore.model.limits import RECORD_BYTES
from lore.store.base import EMPTY, DamagedError, DamagedPlace, Head, SessionState, StoreError, Verified, like
from lore.store.deltas import Addition, StoredView
from lore.store.jsonl_folder import LOG, Folder, name_of, read_range
from lore.store.lines import IDLE, NOTHING, SEED, Activity, SessionHeader, activity, follow, note, read_header

MOST = 50_000  # events of one record: it has 64 digits for each, and no reader takes a line of more than 12 MiB
_GROUP, _GROUP_BYTES = 1000, 1024 * 1024  # a log that is written whole has a record for about so many events
_BEGIN, _END = b'{"kind":"saved",', b',"end":"lore-store-3"}'
_OWN_FIELDS = frozenset(Saved.__struct_fields__) - frozenset(Envelope.__struct_fields__)
_DECODER = msgspec.json.Decoder(Saved)
_BLANK = b" \t\r"
_PIECE = 64 * 1024
_LAST = 1 << 62


# writing


def is_record(line: bytes) -> bool:
    """Return whether a line was written as a record; with one damaged byte it still begins or ends like one."""
    return line.startswith(_BEGIN) or line.endswith(_END)


def save_bytes(addition: Addition, byte: int) -> bytes:
    """Return a save as it is written at this byte of a log; raises StoreError for what a log cannot hold."""
    state, then = addition.state, addition.then()
    lines = _without_records(addition.lines)
    record = like(
        Saved, then, size=then.size - state.size, byte=byte, after=state.head.number, base=state.head.digest,
        log=state.size, digests=tuple(map(bytes.hex, addition.digests)), note=then.head.note, agent_id=None,
        metadata=Raw(then.metadata.replace(b"\r", b" ").replace(b"\n", b" ")), turns=then.turns or 0,
    )  # fmt: skip
    fields = (
        b'"%b":%b' % (name.encode(), bytes(value) if isinstance(value, Raw) else encode(value))
        for name, value in msgspec.structs.asdict(record).items()
        if name in _OWN_FIELDS and value not in (None, "", ()) and (name != "metadata" or then.metadata != EMPTY)
    )
    line = _BEGIN + b",".join(fields) + _END
    if len(line) > RECORD_BYTES:
        raise StoreError(f"notes of {len(line):,} bytes: a record holds {RECORD_BYTES >> 20} MiB", hint="note less")
    return b"\n".join((line, *lines, b""))


def _without_records(lines: Sequence[bytes]) -> Sequence[bytes]:
    if any(map(is_record, lines)):
        hint = "leave it out: `lore store import` does"
        raise StoreError("an event is a `saved` record, which the store writes itself", hint=hint)
    return lines


def log_pieces(addition: Addition) -> Iterator[bytes]:
    """Yield the bytes of a new log, in groups of events with a record each."""
    header = b"\n".join((*_without_records((addition.header or b"",)), b""))
    yield header
    state, byte, start, size = addition.state, len(header), 0, 0
    ends = range(1, len(addition.lines) + 1)
    for end in ends or (0,):
        size += sum(map(len, addition.lines[end - 1 : end]))
        if end - start >= _GROUP or size >= _GROUP_BYTES or end == len(addition.lines):
            part = addition._replace(
                state=state, lines=addition.lines[start:end], digests=addition.digests[start:end]
            )  # fmt: skip
            data = save_bytes(part, byte)
            yield data
            state, byte, start, size = part.then(), byte + len(data), end, 0


# reading


class Fault(NamedTuple):
    """A damaged place of a log."""

    number: int | None  # the damaged event, if it is one
    byte: int
    message: str
    recoverable: str = "every other event"


class LogPart:
    """The events of a log from one place to its end, as `read_part` found them."""

    def __init__(self, byte: int, start: Saved | None) -> None:
        self.byte = byte  # of the file, where the part begins
        self.end = byte  # of the file, where the last whole save ends
        self.number = start.after if start else 0  # of the last event
        self.digest = _digest(start.base) if start else SEED
        self.log = start.log if start else 0  # bytes of all events
        self.first = self.number + 1  # number of the first event in `lines`
        self.lines: list[bytes] = []
        self.digests: list[bytes] = []
        self.record: Saved | None = None  # the last
        self.foreign = 0  # events that other programs appended
        self.loose = 0  # events after the last record, or all if there is none
        self.faults: list[Fault] = []
        self.has_end = True  # whether the last line ends with a line feed

    def add(self, lines: Sequence[bytes], digests: Sequence[bytes]) -> None:
        """Append events."""
        self.lines += lines
        self.digests += digests
        self.number += len(lines)
        self.log += sum(map(len, lines)) + len(lines)
        if digests:
            self.digest = digests[-1]


def read_part(data: bytes, byte: int = 0, start: Saved | None = None) -> LogPart:
    """Read the bytes of a log from one byte to its end: the first, or that of the record `start`. Costs O(bytes)."""
    part = LogPart(byte, start)
    data = data.rstrip(b"\0") if data.endswith(b"\0") else data
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : stop if stop >= 0 else len(data)]
        if is_record(line):
            end = _read_save(data, at, stop, part) if stop >= 0 else None
            if end is None:
                break
            at = end
        else:
            line = line.removeprefix(BOM) if byte + at == 0 else line
            if stop < 0 and line.strip(_BLANK) and fault(line):
                break
            if line.strip(_BLANK):
                _read_foreign(line, byte + at, part)
            part.has_end = stop >= 0
            at = stop + 1 if stop >= 0 else len(data)
        part.end = byte + at
    return part


def _read_foreign(line: bytes, byte: int, part: LogPart) -> None:
    reason = fault(line)
    if reason:
        part.faults.append(Fault(part.number + 1, byte, f"unreadable line: {reason}"))
    part.foreign += part.number > 0  # the first is the header
    part.loose += 1
    part.add((line,), follow(part.digest, (line,)))


def _read_save(data: bytes, at: int, stop: int, part: LogPart) -> int | None:
    """Read a record and its events; returns where they end, None if the save is incomplete."""
    byte, begin = part.byte + at, stop + 1
    record = _read_record(data[at:stop], byte)
    if record is None:
        message = "a saved record is damaged, or belongs to another file"
        part.faults.append(Fault(None, byte, message, "the events after it, without their digests"))
        return begin
    end = begin + record.size
    if end > len(data):
        if b"\n" + _BEGIN not in data[stop:]:
            return None
        part.faults.append(Fault(None, byte, "bytes after this record are missing", "the events that are there"))
        return begin
    if record.after != part.number:
        message = f"{part.number:,} events are before this record, {record.after:,} were stored"
        part.faults.append(Fault(None, byte, message, "the events that are there"))
    elif _digest(record.base) != part.digest and not part.faults:  # else it follows from damage found before
        number, which = (part.number, "the event") if part.loose == 1 else (None, f"one of {part.loose:,} events")
        message = f"{which} before this byte was changed"
        part.faults.append(Fault(number, byte, message, "what it says now may be wrong"))
    part.number, part.digest, part.log = record.after, _digest(record.base), record.log
    lines, digests = data[begin:end].split(b"\n")[:-1], [*map(_digest, record.digests)]
    if follow(part.digest, lines) != digests:
        _find_changed(lines, digests, part, part.byte + begin)
    part.add(lines, digests)
    part.record, part.loose = record, 0
    return end


def _find_changed(lines: Sequence[bytes], digests: Sequence[bytes], part: LogPart, byte: int) -> None:
    """Name each event of a save that was changed: its digest does not follow from the one stored before it."""
    if len(lines) != len(digests):
        message = f"{len(digests):,} events were stored with this save, {len(lines):,} are there"
        part.faults.append(Fault(None, byte, message, "the events that are there"))
        return
    before = part.digest
    for number, (line, digest) in enumerate(zip(lines, digests, strict=True), part.number + 1):
        if follow(before, (line,)) != [digest]:
            part.faults.append(Fault(number, byte, "the event is not what was stored"))
        before, byte = digest, byte + len(line) + 1


def _read_record(line: bytes, byte: int) -> Saved | None:
    if not (line.startswith(_BEGIN) and line.endswith(_END)):
        return None
    try:
        record = _DECODER.decode(line)
    except ValueError:  # lone surrogates in metadata
        try:
            record = lenient.convert(line, Saved)
        except (ValueError, RecursionError):
            return None
    is_whole = isinstance(record, Saved) and record.byte == byte and record.size >= 0 and record.after > 0
    return record if is_whole and note(record.leaf_id, _metadata(record)) == record.note else None


def _metadata(record: Saved) -> bytes:
    return EMPTY if is_absent(record.metadata) else bytes(record.metadata)


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


# a session's log


class LogFile(StoredView):
    """A session's log that is open, as it was when it was opened."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.size = os.fstat(descriptor).st_size
        self._part: LogPart | None = None
        self._state: SessionState | None = None

    def part(self, after: int) -> LogPart:
        """Return the events after a number, perhaps with some before it; raises DamagedError."""
        if self._part is None or self._part.first > after + 1:
            part = self.read() if after <= 0 else self._read_end(after)
            if part.faults:
                first = part.faults[0]
                raise self._damaged(f"event {first.number}: " if first.number else "", first.message, first.byte)
            self._part = part
        return self._part

    def read(self) -> LogPart:
        """Return all events, damaged or not."""
        return read_part(read_range(self.descriptor, 0, self.size))

    def _read_end(self, after: int) -> LogPart:
        """Read from the last record that has at most `after` events before it, or from the beginning."""
        size = _PIECE
        while size < self.size:
            begin = self.size - size
            data = read_range(self.descriptor, begin, self.size)
            at = data.rfind(b"\n" + _BEGIN)
            while at >= 0:
                stop = data.find(b"\n", at + 1)
                record = _read_record(data[at + 1 : stop], begin + at + 1) if stop >= 0 else None
                if record is not None and record.after <= after:
                    part = read_part(data[at + 1 :], begin + at + 1, record)
                    if part.record is not None:  # else this save is incomplete
                        return part
                at = data.rfind(b"\n" + _BEGIN, 0, at)
            size *= 4
        return self.read()

    @property
    def incomplete(self) -> int:
        """How many bytes of an incomplete save are at the end."""
        return self.size - self.part(_LAST).end

    def header(self) -> SessionHeader:
        """Return the session's header; raises DamagedError if there is none, or another session's."""
        data, at = b"", 0
        while b"\n" not in data and at < min(self.size, RECORD_BYTES):
            data += read_range(self.descriptor, at, at + _PIECE)
            at += _PIECE
        if not data:
            message = "the log is empty: the disk lost what was stored, or another program made the file"
            raise self._damaged("", message, 0)
        try:
            header = read_header(data.partition(b"\n")[0].removeprefix(BOM))
        except StoreError as error:
            raise self._damaged("event 1: ", error.message, 0) from None
        wanted = name_of(header.session_id) + LOG
        if wanted != os.path.basename(self.path):
            message = f"the header is that of session {header.session_id!r}, whose file is {wanted}"
            raise self._damaged("event 1: ", message, 0)
        return header

    def _damaged(self, which: str, message: str, byte: int) -> DamagedError:
        return DamagedError(f"{which}{message}", where=Where(self.path, None, byte))

    @property
    def state(self) -> SessionState:
        if self._state is None:
            self._state = self._read_state()
        return self._state

    def _read_state(self) -> SessionState:
        header, part = self.header(), self.part(_LAST)
        record, loose = part.record, part.lines[len(part.lines) - part.loose :]
        notes: dict[str, object] = {"created_at": header.at} if record is None else {
            name: getattr(record, name) for name in ("project_id", "leaf_id", "created_at", "updated_at")
        }  # fmt: skip
        metadata = EMPTY if record is None else _metadata(record)
        used = activity(loose, IDLE if record is None else Activity(record.turns, record.used_at))
        head = Head(part.number, part.digest.hex(), NOTHING.note if record is None else record.note)
        return like(SessionState, header, head=head, size=part.log, metadata=metadata, **notes, **used._asdict())

    def digest(self, number: int) -> str | None:
        if number in (0, self.head.number):
            return self.head.digest if number else NOTHING.digest
        part = self.part(number - 1)
        place = number - part.first
        return part.digests[place].hex() if 0 <= place < len(part.digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        part = self.part(after)
        start = after + 1 - part.first
        return part.lines[start : start + count]


def verify_log(folder: Folder, name: str) -> Verified | None:
    """Recompute every digest of a log; None if it was deleted meanwhile."""
    session_id, damage, notes, path = None, list[DamagedPlace](), list[str](), folder.file(name)
    try:
        with folder.opened(name) as descriptor:
            log = LogFile(descriptor, path)
            part = log.read()
            try:
                session_id = log.header().session_id
            except DamagedError as error:
                is_misnamed = "whose file is" in error.message
                left = "the other events" if part.lines else "nothing"
                left = "all events: give the file that name" if is_misnamed else left
                damage.append(DamagedPlace(None, 1, f"{path}, byte 0", error.message.removeprefix("event 1: "), left))
    except FileNotFoundError:
        return None
    except StoreError as error:  # a symbolic link, or a disk that does not answer
        return Verified(1, 0, (unread(path, error),))
    damage += [DamagedPlace(session_id, one.number, f"{path}, byte {one.byte}", *one[2:]) for one in part.faults]
    incomplete = log.size - part.end
    if incomplete and not part.faults:
        message = (
            f"the last {incomplete:,} bytes are an incomplete save: its writer died, or the disk lost its end, "
            "and then it may have been acknowledged"
        )
        left = "every event before it, and its whole lines until the next save removes them"
        damage.append(DamagedPlace(session_id, None, f"{path}, byte {part.end}", message, left))
    if part.foreign:
        notes.append(f"{path}: {part.foreign:,} events were appended by another program, without a digest")
    return Verified(1, len(part.lines), tuple(damage), tuple(notes))


def unread(path: str, error: StoreError) -> DamagedPlace:
    """Return the damage of a file that cannot be read."""
    return DamagedPlace(None, None, path, error.message, "not known")
