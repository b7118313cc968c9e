"""The format of a session's log in a `jsonl:` store.

A log is the session's header, then for each save one `saved` record (`lore.model.events.Saved`) followed by the
events of the save. The record says how many bytes follow, the digest after each event, and everything that is kept
with the events. So a save is stored whole or not at all: if fewer bytes follow than the record says, the save is
incomplete, and readers leave it out. A last line without an end that is not JSON, and zeros at the end of the file (a
file system may leave them after a loss of power), are incomplete as well.

Other programs may append whole lines. They are events, and the next save's record holds their digest.

The summary of a session is read from the header and the last record, whatever the length of the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from lore.errors import Where, reason_of
from lore.formats.beginning import BOM
from lore.formats.lines import fault
from lore.model import lenient
from lore.model.events import Saved, encode
from lore.model.items import NULL, is_absent
from lore.model.limits import RECORD_BYTES
from lore.store.base import EMPTY, DamagedError, DamagedPlace, Head, SessionSummary, StoreError, Verified
from lore.store.deltas import PendingChange, extend
from lore.store.lines import (
    NOTHING,
    SEED,
    SessionHeader,
    count_activity,
    digest_lines,
    digest_notes,
    empty_session,
    read_header,
)

_GROUP = 200  # events: a log that is written whole has a record for each group, so that its end is read quickly
_BEGIN, _END = b'{"kind":"saved",', b',"end":"lore-store-3"}'
_DECODER = msgspec.json.Decoder(Saved)
_BLANK = b" \t\r"
_LAST_EVENT = 1 << 62  # a number that no event has
_PIECE = 64 * 1024  # bytes at the end of a log that are read first
_MOST_AT_ONCE = 16 * 1024 * 1024  # bytes of one read
LOG = ".jsonl"
_LONGEST, _CUT = 200, 120  # bytes of a name: file systems take 255, with dot and ending
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)}


# writing


def is_record(line: bytes) -> bool:
    """Return whether a line was written as a record; with one damaged byte it still begins or ends like one."""
    return line.startswith(_BEGIN) or line.endswith(_END)


def encode_save(change: PendingChange, byte: int) -> bytes:
    """Return a save as it is written at this byte of a log; raises StoreError if a log cannot hold it."""
    before, after = change.before, change.after
    metadata = NULL if after.metadata == EMPTY else Raw(after.metadata.replace(b"\r", b" ").replace(b"\n", b" "))
    record = Saved(
        size=after.size - before.size, byte=byte, after=before.head.number, base=before.head.digest, log=before.size,
        digests=tuple(map(bytes.hex, change.digests)), note=after.head.note, leaf_id=after.leaf_id, metadata=metadata,
        project_id=after.project_id, created_at=after.created_at, updated_at=after.updated_at, turns=after.turns or 0,
        used_at=after.used_at,
    )  # fmt: skip
    line = encode(record)[:-1] + _END
    if len(line) > RECORD_BYTES:
        message = f"a save of {len(change.lines):,} events and {len(line):,} bytes of notes"
        raise StoreError(f"{message}: a record holds {RECORD_BYTES >> 20} MiB", hint="save less at once")
    return _join((line, *change.lines), change.lines)


def _join(lines: Sequence[bytes], events: Sequence[bytes]) -> bytes:
    """Join lines to a part of a log; raises StoreError if one of the events is a record."""
    if any(map(is_record, events)):
        hint = "leave it out: `lore store import` does"
        raise StoreError("an event is a `saved` record, which the store writes itself", hint=hint)
    return b"\n".join((*lines, b""))


def encode_log(change: PendingChange) -> Iterator[bytes]:
    """Yield the bytes of a new log: the header, and groups of events with a record each."""
    before, after, lines, digests = change
    header = _join(lines[:1], lines[:1])
    yield header
    notes = {name: getattr(after, name) for name in ("project_id", "leaf_id", "metadata", "created_at", "updated_at")}
    summary, byte = extend(before, lines[:1], digests[:1]).after, len(header)
    for start in range(1, max(2, len(lines)), _GROUP):
        group = extend(summary, lines[start : start + _GROUP], digests[start : start + _GROUP], **notes)
        data = encode_save(group, byte)
        yield data
        summary, byte = group.after, byte + len(data)


# reading


class Fault(NamedTuple):
    """A damaged place of a log."""

    number: int | None  # of the damaged event; None if it is not one event
    byte: int
    message: str
    recoverable: str = "the events that are there"


@dataclass(slots=True)
class LogPart:
    """The events of a log from one byte to its end."""

    end: int  # byte of the file at which the last whole save ends
    number: int = 0  # of the last event
    digest: bytes = SEED  # after the last event
    size: int = 0  # bytes of all events of the log up to here
    first: int = 1  # number of the first event in `lines`
    lines: list[bytes] = field(default_factory=list[bytes])
    digests: list[bytes] = field(default_factory=list[bytes])  # after each of the lines
    record: Saved | None = None  # the last
    foreign: int = 0  # events that other programs appended
    loose: int = 0  # events after the last record, or all without a record
    faults: list[Fault] = field(default_factory=list[Fault])
    has_end: bool = True  # whether the last line ends with a line feed

    def add(self, lines: Sequence[bytes], digests: Sequence[bytes]) -> None:
        """Append events."""
        self.lines += lines
        self.digests += digests
        self.number += len(lines)
        self.size += sum(map(len, lines)) + len(lines)
        self.digest = digests[-1] if digests else self.digest


def read_part(data: bytes, byte: int = 0, start: Saved | None = None) -> LogPart:
    """Parse a log from one byte to its end: from the first, or from that of the record `start`. Costs O(bytes)."""
    part = LogPart(byte)
    if start is not None:
        part = LogPart(byte, start.after, _digest(start.base), start.log, start.after + 1)
    data = data.rstrip(b"\0") if data.endswith(b"\0") else data
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : stop if stop >= 0 else len(data)]
        if is_record(line):
            end = _read_save(data, at, stop, byte, part) if stop >= 0 else None
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
    if reason := fault(line):
        part.faults.append(Fault(part.number + 1, byte, f"unreadable line: {reason}", "every other event"))
    part.foreign += part.number > 0  # the first is the header
    part.loose += 1
    part.add((line,), digest_lines(part.digest, (line,)))


def _read_save(data: bytes, at: int, stop: int, offset: int, part: LogPart) -> int | None:
    """Parse a record and its events; returns the offset of their end, None if the save is incomplete."""
    byte, begin = offset + at, stop + 1
    record = _parse_record(data[at:stop], byte)
    if record is None:
        message = "a saved record is damaged, or belongs to another file"
        part.faults.append(Fault(None, byte, message, "the events after it, without their digests"))
        return begin
    end = begin + record.size
    if end > len(data):
        if b"\n" + _BEGIN not in data[stop:]:
            return None
        part.faults.append(Fault(None, byte, "bytes after this record are missing"))
        return begin
    if record.after != part.number:
        message = f"{part.number:,} events are before this record, {record.after:,} were stored"
        part.faults.append(Fault(None, byte, message))
    elif _digest(record.base) != part.digest and not part.faults:  # else it follows from damage found before
        number, which = (part.number, "the event") if part.loose == 1 else (None, f"one of {part.loose:,} events")
        message = f"{which} before this byte was changed"
        part.faults.append(Fault(number, byte, message, "its content may be wrong now"))
    part.number, part.digest, part.size = record.after, _digest(record.base), record.log
    lines, digests = data[begin:end].split(b"\n")[:-1], [*map(_digest, record.digests)]
    if digest_lines(part.digest, lines) != digests:
        part.faults += _find_changed(lines, digests, part, offset + begin)
    part.add(lines, digests)
    part.record, part.loose = record, 0
    return end


def _find_changed(lines: Sequence[bytes], digests: Sequence[bytes], part: LogPart, byte: int) -> Iterator[Fault]:
    """Yield each event of a save whose digest does not follow from the one stored before it."""
    if len(lines) != len(digests):
        yield Fault(None, byte, f"{len(digests):,} events were stored with this save, {len(lines):,} are there")
        return
    previous = part.digest
    for number, (line, digest) in enumerate(zip(lines, digests, strict=True), part.number + 1):
        if digest_lines(previous, (line,)) != [digest]:
            yield Fault(number, byte, "the event is not the stored one", "every other event")
        previous, byte = digest, byte + len(line) + 1


def _parse_record(line: bytes, byte: int) -> Saved | None:
    """Return the record that was written at this byte; None if it is damaged."""
    if not (line.startswith(_BEGIN) and line.endswith(_END)):
        return None
    line = line[: -len(_END)] + b"}"
    try:
        record = _DECODER.decode(line)
    except ValueError:  # lone surrogates in metadata
        try:
            record = lenient.convert(line, Saved)
        except (ValueError, RecursionError):
            return None
    is_whole = isinstance(record, Saved) and record.byte == byte and record.size >= 0 and record.after > 0
    return record if is_whole and digest_notes(record.leaf_id, _metadata(record)) == record.note else None


def _metadata(record: Saved) -> bytes:
    return EMPTY if is_absent(record.metadata) else bytes(record.metadata)


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


# a session's file


def log_name(session_id: str) -> str:
    """Return the name of a session's log, unique on file systems that ignore case or normalise Unicode.

    Lower-case ASCII letters, digits, `_`, `-` and `.` are kept, every other byte of the UTF-8 text becomes `%` and two
    hex digits. A long name is cut and ends with `~` and the SHA-256 of the id.
    """
    data = session_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    if name.startswith(".") or name.partition(".")[0] in _DEVICES:
        name = f"%{data[0]:02X}{name[1:]}"
    return (name if len(name) <= _LONGEST else f"{name[:_CUT]}~{sha256(data).hexdigest()}") + LOG


def read_range(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes of a file from `start` to `end`, or to its end; raises StoreError."""
    pieces: list[bytes] = []
    while start < end:
        try:
            os.lseek(descriptor, start, os.SEEK_SET)
            piece = os.read(descriptor, min(_MOST_AT_ONCE, end - start))
        except OSError as error:
            hint = "look at the disk; nothing was changed"
            raise StoreError(f"cannot read the log: {reason_of(error)}", hint=hint) from None
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class LogFile:
    """A session's open log, with the bytes that it had when it was opened."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.length = os.fstat(descriptor).st_size
        self._part: LogPart | None = None

    def part(self, after: int) -> LogPart:
        """Return the events after a number, perhaps with some before it; raises DamagedError."""
        if self._part is None or self._part.first > after + 1:
            part = self._read_all() if after <= 0 else self._read_end(after)
            if part.faults:
                first = part.faults[0]
                raise self._damaged(f"event {first.number}: " if first.number else "", first.message, first.byte)
            self._part = part
        return self._part

    def _read_all(self) -> LogPart:
        return read_part(read_range(self.descriptor, 0, self.length))

    def _read_end(self, after: int) -> LogPart:
        """Read from the last record that has at most `after` events before it, or from the beginning."""
        size = _PIECE
        while size < self.length:
            begin = self.length - size
            data = read_range(self.descriptor, begin, self.length)
            at = data.rfind(b"\n" + _BEGIN)
            while at >= 0:
                stop = data.find(b"\n", at + 1)
                record = _parse_record(data[at + 1 : stop], begin + at + 1) if stop >= 0 else None
                if record is not None and record.after <= after:
                    part = read_part(data[at + 1 :], begin + at + 1, record)
                    if part.record is not None:  # else this save is incomplete
                        return part
                at = data.rfind(b"\n" + _BEGIN, 0, at)
            size *= 4
        return self._read_all()

    @property
    def incomplete(self) -> int:
        """How many bytes of an incomplete save are at the end."""
        return self.length - self.part(_LAST_EVENT).end

    @cached_property
    def header(self) -> SessionHeader:
        """The session's header; raises DamagedError if it is missing, or another session's."""
        data, at = b"", 0
        while b"\n" not in data and at < min(self.length, RECORD_BYTES):
            data += read_range(self.descriptor, at, at + _PIECE)
            at += _PIECE
        if not data:
            message = "the log is empty: the disk lost its bytes, or another program made the file"
            raise self._damaged("", message, 0)
        try:
            header = read_header(data.partition(b"\n")[0].removeprefix(BOM))
        except StoreError as error:
            raise self._damaged("event 1: ", error.message, 0) from None
        name = log_name(header.session_id)
        if name != os.path.basename(self.path):
            message = f"the header is that of session {header.session_id!r}, whose file is {name}"
            raise self._damaged("event 1: ", message, 0)
        return header

    def _damaged(self, which: str, message: str, byte: int) -> DamagedError:
        return DamagedError(f"{which}{message}", where=Where(self.path, None, byte))

    @property
    def summary(self) -> SessionSummary:
        """Everything that is stored except the events; raises DamagedError."""
        return self._summary

    @cached_property
    def _summary(self) -> SessionSummary:
        empty, part = empty_session(self.header), self.part(_LAST_EVENT)
        record, loose = part.record, part.lines[len(part.lines) - part.loose :]
        turns, used_at = count_activity(loose, record.turns if record else 0, record.used_at if record else None)
        head = Head(part.number, part.digest.hex(), record.note if record else NOTHING.note)
        summary = replace(empty, head=head, size=part.size, turns=turns, used_at=used_at)
        if record is None:
            return summary
        return replace(
            summary, metadata=_metadata(record), project_id=record.project_id, leaf_id=record.leaf_id,
            created_at=record.created_at, updated_at=record.updated_at,
        )  # fmt: skip

    def digest(self, number: int) -> str | None:
        """Return the digest after event `number` (0: before the first); None if there is no such event."""
        head = self.summary.head
        if number in (0, head.number):
            return head.digest if number else NOTHING.digest
        part = self.part(number - 1)
        place = number - part.first
        return part.digests[place].hex() if 0 <= place < len(part.digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        """Return at most `count` events, those after event `after`."""
        if not after and count == 1:
            return (self.header.line,)
        part = self.part(after)
        start = after + 1 - part.first
        return part.lines[start : start + count]

    def verify(self) -> Verified:
        """Recompute every digest, and name each damaged place."""
        session_id, part = None, self._read_all()
        faults, notes = [*part.faults], list[str]()
        try:
            session_id = self.header.session_id
        except DamagedError as error:
            left = "the other events" if part.lines else "nothing"
            faults.insert(0, Fault(1, 0, error.message.removeprefix("event 1: "), left))
        incomplete = self.length - part.end
        if incomplete and not part.faults:
            message = (
                f"the last {incomplete:,} bytes are an incomplete save: its writer died, or the disk lost its end, "
                "and then it may have been acknowledged"
            )
            left = "every event before it, and its whole lines until the next save removes them"
            faults.append(Fault(None, part.end, message, left))
        if part.foreign:
            notes.append(f"{self.path}: {part.foreign:,} events were appended by another program, without a digest")
        damage = tuple(
            DamagedPlace(session_id, fault.number, f"{self.path}, byte {fault.byte}", *fault[2:]) for fault in faults
        )
        return Verified(1, len(part.lines), damage, tuple(notes))
