"""Archives of samples (`.eval`) as one stream of bytes (a pack, `formats.folders`).

They are read in place, nothing is unpacked to disk and no name in one opens anything. The archive's directory, its
members and their sum are bounded; what exceeds a bound, is encrypted or has an unknown compression is a problem.
Import this module when an archive is read: `zipfile` is slow to import.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from zipfile import BadZipFile, ZipFile, ZipInfo

from lore.formats.folders import PackHeader
from lore.model.canonical import printable
from lore.model.deferred import pattern
from lore.model.limits import DIRECTORY_BYTES, INFLATION, MEMBER_BYTES
from lore.recording import filesystem
from lore.recording.packed import PIECE, member_bytes, read_bounded

_INSPECT, _OTHER = "inspect-archive", "archive"  # kinds of packs; no reader knows the other one
_LOG = frozenset(("header.json", "_journal/start.json", "summaries.json"))  # an Inspect log has one of these members
_SAMPLE = pattern(r"samples/[^/]*\.json", re.DOTALL)
_TAIL = 66_000  # bytes that hold an archive's end record: 22 bytes, and a comment of at most 65,535
# what reading a damaged archive raises
_DAMAGE = (BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error, IndexError, OverflowError)


def archive_stream(path: str) -> Iterator[bytes]:
    """Yield an archive as a pack: an Inspect log's samples; for other archives a pack that no reader recognises.

    Damage ends the pack, or a member of it, with a `fault`.
    """
    kind = _INSPECT
    total = filesystem.status(path).size or 0
    if (size := _directory_size(path, total)) > DIRECTORY_BYTES:
        yield from member_bytes(PackHeader(kind, os.path.basename(path)), fault=f"its directory has {size:,} bytes")
        return
    try:
        with filesystem.open_file(path) as file, ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if _SAMPLE.fullmatch(info.filename)]
            if not infos or not any(info.filename in _LOG for info in archive.infolist()):
                kind = _OTHER
                yield from member_bytes(PackHeader(kind, ""))
                return
            yield from _samples(archive, infos, INFLATION * total + PIECE)
    except _DAMAGE as error:
        kind = kind if path.endswith(".eval") else _OTHER
        fault = f"no whole archive: {_describe_error(error)}"
        yield from member_bytes(PackHeader(kind, os.path.basename(path)), fault=fault)


def _samples(archive: ZipFile, infos: list[ZipInfo], room: int) -> Iterator[bytes]:
    """Yield the samples as members, in the order of the archive; one that exceeds a bound has a fault and no bytes."""
    for info in infos:
        header, data, fault = PackHeader(_INSPECT, printable(info.filename)), None, ""
        limit = min(MEMBER_BYTES, INFLATION * info.compress_size + PIECE, room)
        if info.file_size > MEMBER_BYTES:
            fault = f"longer than {MEMBER_BYTES >> 20} MiB"
        elif info.file_size > limit:
            fault = f"unpacks to more than {INFLATION} times its size"
        else:
            try:  # NotImplementedError: an unknown compression; RuntimeError: encrypted
                with archive.open(info) as file:
                    data = read_bounded(file.read, limit)
                fault = "longer than the archive says" if data is None else ""
            except (*_DAMAGE, NotImplementedError, RuntimeError) as error:
                fault = f"cannot be unpacked: {_describe_error(error)}"
        room -= len(data or b"")
        yield from member_bytes(header, data or b"", fault=fault)


def _describe_error(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return printable(text).partition("\n")[0].rstrip(".").lower() or type(error).__name__


def _directory_size(path: str, size: int) -> int:
    """Return the size of a ZIP archive's directory in bytes, as its end record states it; 0 without an end record."""
    with filesystem.open_file(path) as file:
        file.seek(max(0, size - _TAIL))
        tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    size = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    end64 = tail.rfind(b"PK\x06\x06", 0, max(end, 0))
    size64 = int.from_bytes(tail[end64 + 40 : end64 + 48], "little") if end64 >= 0 else 0
    return max(0 if size == 0xFFFFFFFF else size, size64)
