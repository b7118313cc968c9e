"""The lines of a log in a folder: a session's own, and the store's `saved` records between them, one before each delta.

In: bytes, from the first of a log or from a record on. Out: the events with the digest behind each, and what is wrong
with them. Pure. Rules:
- a record (`lore.model.events.Saved`) is known again by how it begins and how it ends, so that one in which a byte is
  damaged is not taken for an event; and it says at which byte it stands, so that a copy of one, which may come as an
  event of a session, is none;
- the events behind a record are what it promised: as many bytes, and the digests that it names;
- a record that promises more bytes than there are belongs to a delta that was never acknowledged: it is torn, and
  all before it is whole. So is a last line without its end that is no JSON, and zeros at the end, which a file system
  leaves where it lost power;
- other whole lines came from other programs, the header from `create`: events without a digest of their own; the
  next record names the digest of all before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import Raw

from lore.formats.beginning import BOM
from lore.formats.bounds import LONGEST
from lore.formats.lines import fault
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.events import Saved
from lore.model.items import is_absent
from lore.store.base import Checkpoint, DamagedPlace, StoreError
from lore.store.lines import SEED, follow

BEGIN = b'{"kind":"saved",'
_END = re.compile(rb',"byte":\d+ *,"check":"[0-9a-f]{8}"\}\Z')
_CHECK = len(b',"check":"01234567"}')
_DECODER = msgspec.json.Decoder(Saved)
_NOT_WRITTEN = ("id", "at", "chain", "agent_id", "check")
_EMPTY_FIELDS = (None, "", ())


def is_record(line: bytes) -> bool:
    """Tell whether a line was written as a record, be it damaged or not."""
    return line.startswith(BEGIN) or (line.endswith(b'"}') and _END.search(line, max(0, len(line) - 64)) is not None)


def sealed(text: bytes) -> bytes:
    """End an object, which is not closed yet, with its check."""
    return text + b',"check":"%08x"}' % crc32(text)


def is_sealed(line: bytes) -> bool:
    """Tell whether an object is as it was sealed."""
    return len(line) > _CHECK and sealed(line[:-_CHECK]) == line


def read_record(line: bytes, byte: int) -> Saved | None:
    """Read the record that stands at a byte of its file; None where this is none, or is damaged."""
    if not line.startswith(BEGIN) or not is_sealed(line):
        return None
    try:
        record = _DECODER.decode(line)
    except ValueError:  # it may have lone surrogates in it
        try:
            record = lenient.convert(line, Saved)
        except (ValueError, RecursionError):
            return None
    return record if isinstance(record, Saved) and record.byte == byte else None


def record_line(record: Saved) -> bytes:
    """Write a record with its check, without the line's end; raises StoreError where no reader would take it."""
    written = [
        b'"%b":%b' % (name.encode(), (bytes(value) if isinstance(value, Raw) else encode(value)))
        for name, value in msgspec.structs.asdict(record).items()
        if name not in _NOT_WRITTEN and not (is_absent(value) if isinstance(value, Raw) else value in _EMPTY_FIELDS)
    ]
    line = sealed(BEGIN + b",".join(written))
    if len(line) > LONGEST:
        raise StoreError(f"notes of {len(line):,} bytes: a record holds {LONGEST >> 20} MiB", hint="note less")
    return line


def on_one_line(metadata: bytes) -> bytes:
    """Write a JSON object on one line: a line's end cannot stand inside its strings."""
    return metadata.replace(b"\r", b" ").replace(b"\n", b" ")


def with_lines(record: Saved, lines: Sequence[bytes]) -> bytes:
    """Return a record and the events behind it, as they are written at its byte.

    Should an event itself be a record that stands where it says, all move on by a space, where it does not.
    """
    line = record_line(record)
    while True:
        at, is_taken = record.byte + len(line) + 1, False
        for event in lines:
            is_taken = is_taken or read_record(event, at) is not None
            at += len(event) + 1
        if not is_taken:
            return b"\n".join((line, *lines, b""))
        line = sealed(line[:-_CHECK] + b" ")


_OPENING = b"lore-checkpoint-1\n"
LONGEST_CHECKPOINT = 1 << 40  # bytes of a checkpoint: more was not written by lore


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint with its check."""
    data = msgspec.msgpack.encode(checkpoint)
    return _OPENING + b"%08x\n" % crc32(data) + data


def read_checkpoint(data: bytes | None) -> Checkpoint | None:
    """Read a checkpoint; None where it is missing, damaged, or of another version."""
    if data is None or not data.startswith(_OPENING):
        return None
    check, _, rest = data[len(_OPENING) :].partition(b"\n")
    if check != b"%08x" % crc32(rest):
        return None
    try:
        return msgspec.msgpack.decode(rest, type=Checkpoint)
    except (ValueError, RecursionError):
        return None


_BLANK = b" \t\r"


class Fault(NamedTuple):
    """What is damaged: the event's number where it is one event's, the byte, what is wrong, what can be recovered."""

    number: int | None
    byte: int
    message: str
    recoverable: str

    def damage(self, session_id: str | None, place: str) -> DamagedPlace:
        """Return it as the damage of a store."""
        return DamagedPlace(session_id, self.number, place, self.message, self.recoverable)


class LogPart:
    """What was read of a log; `lines` and `digests` are those of the events numbered from `first` on."""

    def __init__(self, start: Saved | None) -> None:
        """Begin before a record, or at the first byte."""
        self.end = self.offset = 0  # behind the last whole byte, and the first that was read
        self.number, self.digest, self.log = 0, SEED, 0
        if start is not None:
            self.end = self.offset = start.byte
            self.number, self.digest, self.log = start.after, bytes.fromhex(start.base), start.log
        self.first = self.number + 1
        self.lines: list[bytes] = []
        self.digests: list[bytes] = []
        self.faults: list[Fault] = []
        self.record: Saved | None = None  # the last
        self.plain = 0  # events without a digest of their own, the header apart
        self.loose = 0  # of these, those since the last record
        self.is_named = False  # whether damage among them was named
        self.is_ended = True  # whether the last line has its end

    def add(self, lines: Sequence[bytes], digests: Sequence[bytes]) -> None:
        """Take events as read."""
        self.lines += lines
        self.digests += digests
        self.number += len(lines)
        self.log += sum(map(len, lines)) + len(lines)
        if digests:
            self.digest = digests[-1]

    @property
    def whole(self) -> list[bytes]:
        """The events that no damage was found in; behind a damaged record, those that are whole JSON."""
        damaged = {found.number for found in self.faults}
        numbered = enumerate(self.lines, self.first)
        return [line for number, line in numbered if number not in damaged and line and not fault(line)]


def read(data: bytes, start: Saved | None = None) -> LogPart:
    """Read the bytes of a log, from a record of it on where one is given. Costs O(bytes)."""
    part = LogPart(start)
    data = data.rstrip(b"\0") if data.endswith(b"\0") else data
    at = 0
    while at < len(data):
        found = data.find(b"\n", at)
        stop = len(data) if found < 0 else found
        line, byte = data[at:stop], part.offset + at
        if is_record(line):
            at = -1 if found < 0 else _record(data, at, stop, part)
            if at < 0:
                break
        else:
            line = line[len(BOM) :] if byte == 0 and line.startswith(BOM) else line
            if found < 0 and line.strip(_BLANK) and fault(line):
                break
            if line.strip(_BLANK):
                _plain(line, byte, part)
            part.is_ended = found >= 0
            at = stop + part.is_ended
        part.end = part.offset + at
    return part


def _plain(line: bytes, byte: int, part: LogPart) -> None:
    """Read a line that stands by itself."""
    reason = fault(line)
    if reason:
        part.faults.append(Fault(part.number + 1, byte, f"unreadable line: {reason}", "nothing of this line"))
        part.is_named = True
    part.plain += part.number > 0
    part.loose += 1
    part.add((line,), follow(part.digest, (line,)))


def _record(data: bytes, at: int, stop: int, part: LogPart) -> int:
    """Read a record and the events behind it; returns where they end, or -1 where they are torn."""
    byte = part.offset + at
    record = read_record(data[at:stop], byte)
    begin = stop + 1
    if record is None:
        part.faults.append(
            Fault(None, byte, "a saved record is damaged", "the events behind it, without their digests")
        )
        return begin
    end = begin + record.size
    if end > len(data):
        if _is_followed(record, data[stop:]):
            part.faults.append(Fault(None, byte, "bytes behind this record are missing", "the events that are there"))
        return -1
    _join(record, byte, part)
    stretch = data[begin:end]
    lines = stretch.split(b"\n")
    is_ended = not lines.pop()
    digests = follow(part.digest, lines)
    if is_ended and tuple(map(bytes.hex, digests)) == record.digests:
        part.add(lines, digests)
    else:
        _damaged(record, lines if is_ended else stretch.split(b"\n"), part.offset + begin, part)
    part.record, part.loose, part.is_named = record, 0, False
    return end


def _is_followed(record: Saved, data: bytes) -> bool:
    """Tell whether among the bytes behind a record is a later one that goes on from it: so it was whole once."""
    last = record.digests[-1] if record.digests else record.base
    at = data.find(b"\n" + BEGIN)
    while at >= 0:
        stop = data.find(b"\n", at + 1)
        line = data[at + 1 : stop if stop >= 0 else len(data)]
        if is_sealed(line) and b'"base":"%b"' % last.encode() in line:
            return True
        at = data.find(b"\n" + BEGIN, at + 1)
    return False


def _join(record: Saved, byte: int, part: LogPart) -> None:
    """Compare what came before a record with what the record says of it; go on from what it says."""
    base = _digest(record.base)
    if record.after == part.number and base == part.digest:
        return
    if record.after != part.number:
        message = f"{part.number:,} events stand before this record, {record.after:,} were stored"
        part.faults.append(Fault(None, byte, message, "the events that are there"))
    elif not part.is_named:  # else this follows from damage that was named
        number = part.number if part.loose == 1 else None
        which = "the event" if part.loose == 1 else f"one of the {part.loose:,} events"
        part.faults.append(
            Fault(number, byte, f"{which} before this byte was changed", "what it says now may be wrong")
        )
    part.number, part.digest, part.log = record.after, base, record.log


def _damaged(record: Saved, lines: Sequence[bytes], byte: int, part: LogPart) -> None:
    """Name the events behind a record that are not what was stored, and take the others.

    A digest holds all before it, and that of the event before is stored: so each line is judged by itself. Where a
    line's end was lost or came to be, the lines behind are found one place earlier or later.
    """
    offsets = [byte]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    at, before, known = 0, part.digest, len(part.faults)
    for digest in map(_digest, record.digests):
        near = (place for place in (at, at + 1, at - 1) if 0 <= place < len(lines))
        place = next((place for place in near if follow(before, (lines[place],)) == [digest]), None)
        if place is not None:
            part.add((lines[place],), (digest,))
        else:
            is_there, saved = at < len(lines), "every other event"
            if is_there and lines[at] and not fault(lines[at]):
                saved = f"the line is whole JSON, what it says may be wrong; {saved}"
            message = "the event is not what was stored" if is_there else "the event is missing"
            part.faults.append(Fault(part.number + 1, offsets[min(at, len(lines))], message, saved))
            part.add((b"",), (digest,))
        at, before = (at if place is None else place) + 1, digest
    if len(part.faults) == known:
        part.faults.append(Fault(None, byte, "bytes between the events that nobody stored", "every event"))


def _digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
