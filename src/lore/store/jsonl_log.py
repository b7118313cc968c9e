"""The format of a session's log in a `jsonl:` store.

A save is a `saved` record (`lore.model.events.Saved`) followed by its events. The record says how many bytes follow,
the digest before and after them, and everything that is kept with the events. So a save is stored whole or not at all:
if fewer bytes follow than the record says, the save is incomplete, and readers leave it out. A last line without an end
that is not JSON, and zeros at the end of the file (a file system may leave them after a loss of power), are incomplete
as well. A log that is written whole ends with a record, which nothing follows.

Other programs may append whole lines. They are events, and the next save's record holds their digest.

The summary of a session is read from the header and the last record, whatever the length of the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from io import BufferedReader

from filelock import Timeout
from msgspec import Raw
from msgspec.structs import replace

from lore.errors import Where, reason_of
from lore.formats.beginning import BOM
from lore.formats.lines import fault
from lore.model import lenient
from lore.model.events import Saved, encode
from lore.model.items import NULL, is_absent
from lore.model.limits import RECORD_BYTES
from lore.store.base import (
    EMPTY,
    NOTHING_RECOVERABLE,
    DamagedError,
    DamagedPlace,
    Head,
    SessionSummary,
    StoreError,
    Verified,
)
from lore.store.deltas import PendingChange
from lore.store.lines import NOTHING, SEED, count_activity, digest_lines, digest_notes, read_header

_BEGIN, _END = b'{"kind":"saved",', b',"end":"lore-store-4"}'
_END_MARK = _END[-9:]  # of a record that lost other bytes, too
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLANK = b" \t\r"
_LAST_EVENT = 1 << 62  # a number that no event has
_TAIL = 64 * 1024  # bytes at the end of a log that are read first
LOG = ".jsonl"
_LONGEST, _CUT = 200, 120  # bytes of a name: file systems take 255, with dot and ending
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)}


def is_record(line: bytes) -> bool:
    """Return whether a line was written as a record; with one damaged byte it still begins or ends like one."""
    return line.startswith(_BEGIN) or line.endswith(_END_MARK)


def encode_save(change: PendingChange, *, is_new: bool) -> bytes:
    """Return a save as it is written at the end of a log, or a whole log; raises StoreError if a log cannot hold it."""
    before, after = change.after if is_new else change.before, change.after
    metadata = NULL if after.metadata == EMPTY else Raw(after.metadata.replace(b"\r", b" ").replace(b"\n", b" "))
    record = Saved(
        size=after.size - before.size, after=before.head.number, base=before.head.digest, log=before.size,
        digest=after.head.digest, note=after.head.note, leaf_id=after.leaf_id, metadata=metadata,
        project_id=after.project_id, created_at=after.created_at, updated_at=after.updated_at, turns=after.turns or 0,
        used_at=after.used_at,
    )  # fmt: skip
    line = encode(record)[:-1] + _END
    if len(line) > RECORD_BYTES:
        message = f"{len(line):,} bytes of notes: a record holds {RECORD_BYTES >> 20} MiB"
        raise StoreError(message, hint="keep less in the metadata")
    if any(map(is_record, change.lines)):
        hint = "leave it out: `lore store import` does"
        raise StoreError("an event is a `saved` record, which the store writes itself", hint=hint)
    return b"\n".join((*change.lines, line, b"") if is_new else (line, *change.lines, b""))


@dataclass(slots=True)
class LogPart:
    """The events of a log from one byte to its end, or to the first damaged place."""

    end: int  # byte of the file at which the last whole save ends
    number: int = 0  # of the last event
    digest: bytes = SEED  # after the last event
    size: int = 0  # bytes of all events of the log up to here
    first: int = 1  # number of the first event in `lines`
    lines: list[bytes] = field(default_factory=list[bytes])
    digests: list[bytes] = field(default_factory=list[bytes])  # after each of the lines
    record: Saved | None = None  # the last
    loose: int = 0  # events after the last record, or all without a record
    fault: tuple[int, str] | None = None  # byte and message of the first damaged place
    has_end: bool = True  # whether the last line ends with a line feed

    def add(self, lines: Sequence[bytes]) -> None:
        """Append events."""
        self.digests += digest_lines(self.digest, lines)
        self.lines += lines
        self.number += len(lines)
        self.size += sum(map(len, lines)) + len(lines)
        self.digest = self.digests[-1] if lines else self.digest


def read_part(data: bytes, byte: int = 0, start: Saved | None = None) -> LogPart:
    """Parse a log from one byte to its end: from the first, or from that of the record `start`. Costs O(bytes)."""
    part, at, data = LogPart(byte), 0, data.rstrip(b"\0")
    if start is not None:
        part = LogPart(byte, start.after, bytes.fromhex(start.base), start.log, start.after + 1)
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : stop if stop >= 0 else len(data)]
        if stop < 0 and line.strip(_BLANK) and (is_record(line) or fault(line)):
            break  # a torn last line
        end = stop + 1 if stop >= 0 else len(data)
        if is_record(line):
            record = _parse_record(line)
            end += 0 if record is None else record.size
            if end > len(data) and b"\n" + _BEGIN not in data[stop:]:
                break  # an incomplete save
            if record is None:
                message = "a saved record cannot be read"
            elif (record.after, record.base) != (part.number, part.digest.hex()):
                message = "the events before this byte do not match the saved record here"
            else:
                part.add(data[stop + 1 : end].split(b"\n")[:-1])
                part.record, part.loose = record, 0
                is_intact = part.digest.hex() == record.digest
                message = "" if is_intact else "the events of this save do not match its record"
        else:
            line = line.removeprefix(BOM) if byte + at == 0 else line
            is_blank = not line.strip(_BLANK)
            reason = "" if is_blank else fault(line)
            message = reason and f"a line cannot be read: {reason}"
            if not is_blank and not reason:
                part.add((line,))
                part.loose += 1
        if message:
            part.fault = byte + at, message
            break
        part.has_end, part.end, at = stop >= 0, byte + end, end
    return part


def _parse_record(line: bytes) -> Saved | None:
    """Return a record; None if it is damaged."""
    if not (line.startswith(_BEGIN) and line.endswith(_END)):
        return None
    try:
        record = lenient.decode(Saved, line[: -len(_END)] + b"}")
    except (ValueError, RecursionError):
        return None
    is_whole = record.size >= 0 and record.after > 0 and _DIGEST.fullmatch(record.base)
    return record if is_whole and digest_notes(record.leaf_id, _metadata(record)) == record.note else None


def _metadata(record: Saved) -> bytes:
    return EMPTY if is_absent(record.metadata) else bytes(record.metadata)


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


@contextmanager
def report_errors(act: str, path: str, hint: str = "") -> Generator[None]:
    """Raise StoreError in place of an OSError of the block: `cannot {act} {path}`."""
    try:
        yield
    except Timeout:
        raise
    except OSError as error:
        raise StoreError(f"cannot {act} {path}: {reason_of(error)}", hint=hint, where=Where(path)) from None


class LogFile:
    """A session's open log, with the bytes that it had when it was opened; as `deltas.Stored`."""

    def __init__(self, file: BufferedReader, path: str, length: int) -> None:
        self.file = file
        self.path = path
        self.length = length
        self._part: LogPart | None = None

    def read(self, begin: int) -> bytes:
        """Return the bytes from `begin` to the end; raises StoreError."""
        with report_errors("read", self.path):
            self.file.seek(begin)
            return self.file.read(self.length - begin)

    def part(self, after: int) -> LogPart:
        """Return the events after a number, perhaps with some before it; raises DamagedError."""
        if self._part is None or self._part.first > after + 1:
            part = self._read_tail(after) or read_part(self.read(0))
            if part.fault is not None:
                raise self._damaged(part.fault[1], part.fault[0])
            self._part = part
        return self._part

    def _read_tail(self, after: int) -> LogPart | None:
        """Return the events after the first record in the last bytes; None if more have to be read."""
        begin = self.length - _TAIL
        data = self.read(begin) if begin > 0 else b""
        at = data.find(b"\n" + _BEGIN) + 1
        stop = data.find(b"\n", at)
        record = _parse_record(data[at:stop]) if at and stop >= 0 else None
        if record is None or record.after > after:
            return None
        part = read_part(data[at:], begin + at, record)
        return None if part.record is None else part  # else this save is incomplete

    @property
    def incomplete(self) -> int:
        """How many bytes of an incomplete save are at the end."""
        return self.length - self.part(_LAST_EVENT).end

    @cached_property
    def header(self) -> SessionSummary:
        """The session as its header begins it; raises DamagedError if it is missing, or another session's."""
        with report_errors("read", self.path):
            self.file.seek(0)
            line = self.file.readline(RECORD_BYTES + 1)
        if not line:
            raise self._damaged("the log is empty: the disk lost its bytes, or another program made the file")
        try:
            header = read_header(line.removesuffix(b"\n").removeprefix(BOM))
        except StoreError as error:
            raise self._damaged(error.message) from None
        name = log_name(header.session_id)
        if name != os.path.basename(self.path):
            message = f"the header is that of session {header.session_id!r}, whose file is {name}"
            raise self._damaged(message)
        return header

    def _damaged(self, message: str, byte: int = 0) -> DamagedError:
        return DamagedError(message, where=Where(self.path, None, byte))

    @property
    def summary(self) -> SessionSummary:
        """Everything that is stored except the events; raises DamagedError."""
        empty, part = self.header, self.part(_LAST_EVENT)
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
        part = self.part(after)
        start = max(0, after + 1 - part.first)
        return part.lines[start : start + count]

    def intact_events(self) -> tuple[bytes, ...]:
        """Return the events before the first damaged place; raises DamagedError if the header is damaged."""
        return tuple(read_part(self.read(0)).lines) if self.header else ()

    def verify(self) -> Verified:
        """Recompute every digest; names the first damaged place."""
        session_id, part = None, read_part(self.read(0))
        first_fault, incomplete = part.fault, self.length - part.end
        if first_fault is None and incomplete:
            message = (
                f"the last {incomplete:,} bytes are an incomplete save: its writer died, or the disk lost its end, "
                "and then it may have been acknowledged"
            )
            first_fault = part.end, message
        try:
            session_id = self.header.session_id
        except DamagedError as error:
            first_fault = 0, error.message
        if first_fault is None:
            return Verified(1, len(part.lines))
        byte, message = first_fault
        intact = "every event before it" if byte else NOTHING_RECOVERABLE
        if "do not match" in message:
            intact += "; at least one of them was changed"
        damage = DamagedPlace(session_id, None, f"{self.path}, byte {byte}", message, intact)
        return Verified(1, len(part.lines), (damage,))
