"""Several files as one stream: folders of request and response files, `.eval` archives.

In: a folder, or an archive. Out: the bytes of a pack (`formats.packs`), one file after another; at most one is
held. Rules: an archive is read as it stands, nothing is unpacked to disk and the names in it open nothing;
its directory, its members, and all of them against its own size are bounded, and what is beyond, encrypted or
compressed in an unknown way becomes a member with a fault. Its own module, as `corpus` says which files there
are, and this what they are to each other.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

import msgspec

from lore.errors import LoreError
from lore.formats.lines import LONGEST
from lore.formats.packs import LARGEST, Header
from lore.model.canonical import printable
from lore.recording.paired import Filed, completions, pairs

ARCHIVE = b"PK\x03\x04"
PIECE = 1024 * 1024
LARGEST_DIRECTORY = 4 * 1024 * 1024  # bytes: some 50,000 samples; the directory is held while the archive is read
RATIO = 200  # text of repeated prompts shrinks to a hundredth, what was made to burst to a thousandth
_TAIL = 66_000  # where an archive's end record lies: 22 bytes, and a comment of at most 65,535
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error, IndexError, OverflowError)


def holds_pack(folder: str) -> bool:
    """Tell whether a folder has files that are one recording together."""
    return bool(members(folder))


def members(folder: str) -> list[str]:
    """Return the names in a folder that are one recording together."""
    try:
        names = [one.name for one in os.scandir(folder) if not one.name.startswith(".") and _is_regular(one.path)]
    except (OSError, ValueError):
        return []
    return pairs(names) or completions(folder, names)


def size_of(folder: str) -> int:
    """Return how many bytes these files have together."""
    total = 0
    for name in members(folder):
        try:
            total += os.stat(os.path.join(folder, name)).st_size
        except OSError:  # reading it will say what is wrong
            continue
    return total


def folder_stream(folder: str) -> Iterator[bytes]:
    """Yield the pack of a folder that holds one; raises LoreError where it holds none any more."""
    names = members(folder)
    if not names:
        raise LoreError(f"{folder} holds no pairs of request and response any more")
    ordered = Filed.of_pairs(folder, names) if pairs(names) else Filed.of_completions(folder, names)
    for header in ordered:
        yield from _file(folder, header)


def _file(folder: str, header: Header) -> Iterator[bytes]:
    path = os.path.join(folder, header.name)
    shown = msgspec.structs.replace(header, name=printable(os.fsencode(header.name).decode("utf-8", "replace")))
    if header.fault:
        yield from _written(shown)
        return
    try:
        with open(path, "rb", buffering=0) as file:
            data = _read(file.read, LONGEST)
    except OSError as error:
        yield from _written(_refused(shown, (error.strerror or str(error)).lower()))
        return
    if data is None:
        yield from _written(_refused(shown, f"longer than {LONGEST >> 20} MiB"))
        return
    yield from _written(shown, data)


def _read(read: Callable[[int], bytes | None], limit: int) -> bytes | None:
    """Read to the end, without holding it twice; None where there are more bytes than that."""
    found = io.BytesIO()
    while data := read(PIECE):
        found.write(data)
        if found.tell() > limit:
            return None
    return found.getvalue()


def _written(header: Header, data: bytes = b"") -> Iterator[bytes]:
    """Write a member, its bytes as one piece."""
    yield msgspec.json.encode(msgspec.structs.replace(header, size=len(data))) + b"\n"
    if data:
        yield data
    yield b"\n"


def _refused(header: Header, fault: str) -> Header:
    return msgspec.structs.replace(header, fault=fault)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


# archives


def archive_stream(path: str) -> Iterator[bytes]:
    """Yield the pack of an archive: its samples, if it is an Inspect log; else one that no reader knows."""
    kind = "inspect-archive"
    size = os.stat(path).st_size
    if (said := _directory(path, size)) > LARGEST_DIRECTORY:
        yield from _written(Header(kind, os.path.basename(path), fault=f"its directory has {said:,} bytes"))
        return
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [one for one in archive.infolist() if _is_sample(one.filename)]
            log = bool(infos) and any(one.filename in _LOG for one in archive.infolist())
            if not log:
                kind = "archive"
                yield from _written(Header(kind, ""))
                return
            yield from _samples(archive, infos, RATIO * size + PIECE)
    except _DAMAGED as error:
        kind = kind if path.endswith(".eval") else "archive"
        yield from _written(Header(kind, os.path.basename(path), fault=f"no whole archive: {_why(error)}"))


_LOG = frozenset(("header.json", "_journal/start.json", "summaries.json"))


def _is_sample(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return folder == "samples" and file.endswith(".json")


def _samples(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], room: int) -> Iterator[bytes]:
    """Yield the samples in the order of the archive, as long as they do not burst it."""
    for info in infos:
        header = Header("inspect-archive", printable(info.filename))
        limit = min(LARGEST, RATIO * info.compress_size + PIECE)
        if info.file_size > limit:
            burst = info.file_size <= LARGEST
            fault = f"unpacks to more than {RATIO} times its size" if burst else f"longer than {LARGEST >> 20} MiB"
            yield from _written(_refused(header, fault))
            continue
        if info.file_size > room:
            yield from _written(_refused(header, f"the archive unpacks to more than {RATIO} times its size"))
            return
        data: bytes | None = None
        try:
            with archive.open(info) as file:
                data = _read(file.read, limit)
        except (*_DAMAGED, NotImplementedError, RuntimeError) as error:  # unknown compression; encrypted
            yield from _written(_refused(header, f"cannot be unpacked: {_why(error)}"))
            continue
        if data is None:
            yield from _written(_refused(header, "longer than the archive says"))
            continue
        room -= len(data)
        yield from _written(header, data)


def _why(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return printable(text).partition("\n")[0].rstrip(".").lower() or type(error).__name__


def _directory(path: str, size: int) -> int:
    """Return how long an archive says its directory is, before it is read; 0 where it has none."""
    with open(path, "rb") as file:
        file.seek(max(0, size - _TAIL))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    said = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    wide = tail.rfind(b"PK\x06\x06", 0, max(at, 0))
    return max(
        said if said != 0xFFFFFFFF else 0, int.from_bytes(tail[wide + 40 : wide + 48], "little") if wide >= 0 else 0
    )
