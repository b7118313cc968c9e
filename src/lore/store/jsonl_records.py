"""The store's own lines between those of a session: one `saved` record before each delta (`lore.model.events.Saved`).

A record is known again by how it begins and how it ends, so that one in which a byte is damaged is not taken for an
event; and it says at which byte it stands, so that a copy of one, which may come as an event of a session, is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

import msgspec
from msgspec import Raw

from lore.formats.lines import LONGEST
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.events import Saved
from lore.model.items import is_absent
from lore.store.base import EMPTY, Checkpoint, StoreError

BEGIN = b'{"kind":"saved",'
_END = re.compile(rb',"byte":\d+ *,"check":"[0-9a-f]{8}"\}\Z')
_CHECK = len(b',"check":"01234567"}')
_DECODER = msgspec.json.Decoder(Saved)
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
    except ValueError:
        record = _slow(line)
    return record if record is not None and record.byte == byte else None


def _slow(line: bytes) -> Saved | None:
    """Read a record with lone surrogates in it."""
    try:
        found = lenient.convert(line, Saved)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Saved) else None


def record_line(record: Saved) -> bytes:
    """Write a record with its check, without the line's end; raises StoreError where no reader would take it."""
    fields = msgspec.structs.asdict(record)
    written = [
        b'"%b":%b' % (name.encode(), (bytes(value) if isinstance(value, Raw) else encode(value)))
        for name, value in fields.items()
        if _is_written(name, value)
    ]
    line = sealed(BEGIN + b",".join(written))
    if len(line) > LONGEST:
        raise StoreError(f"notes of {len(line):,} bytes: a record holds {LONGEST >> 20} MiB", hint="note less")
    return line


def _is_written(name: str, value: object) -> bool:
    if name in ("id", "at", "chain", "agent_id", "check"):
        return False
    return not is_absent(value) if isinstance(value, Raw) else value not in _EMPTY_FIELDS


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


def metadata_of(record: Saved) -> bytes:
    """Return the metadata that stands in a record itself."""
    return EMPTY if is_absent(record.metadata) else bytes(record.metadata)


_OPENING = b"lore-checkpoint-1\n"
LONGEST_CHECKPOINT = 1 << 40


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
