"""Folders and archives that are one recording, as one stream of bytes (a pack, `formats.folders`).

**Request and response files**: requests are ordered by the times of their files, then by name; one that names the
response before it (`cc_prev_req`) follows the request which that response answers. A response answers the request of
the same name; else the one that a link leads to; else the latest request before it that has no response. Files that
were copied or checked out have nearly equal times: these order them, but are not taken for the times of sending.

**Tasks of Cline and sessions that are folders** (`session_folders`): their files in a fixed order. Naming one of the
files means the whole folder (`task_of`).

**Archives** (`.eval`): read in place, nothing is unpacked to disk and no name in one opens anything. Its directory, its
members and their sum are bounded; what exceeds a bound, is encrypted or has an unknown compression is a problem.
"""

from __future__ import annotations

import hashlib
import heapq
import io
import os
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lore.errors import reason_of
from lore.formats.folders import API, CLINE_TASK, KIMI_SESSION, OPENHANDS, TASK_FILES, UI, PackHeader
from lore.formats.http import prompt_links, session_in
from lore.model.canonical import printable
from lore.model.jsonslice import array, raw_members
from lore.model.limits import DIRECTORY_BYTES, INFLATION, MEMBER_BYTES, RECORD_BYTES
from lore.model.times import decode_time
from lore.recording import filesystem
from lore.recording.agents import session_folders

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

ARCHIVE = b"PK\x03\x04"
PIECE = 1024 * 1024
REQUEST, RESPONSE = ".request.json", ".response.json"
SHORTEST = 0.2  # seconds: no model answers sooner
_WHOLE = (CLINE_TASK, OPENHANDS)  # formats whose files are read as a whole, however long
_TAIL = 66_000  # bytes that hold an archive's end record: 22 bytes, and a comment of at most 65,535
_LOG = frozenset(("header.json", "_journal/start.json", "summaries.json"))
_SAMPLE = re.compile(r"samples/[^/]*\.json", re.DOTALL)
_DAMAGED = (zlib.error, EOFError, OSError, ValueError, struct.error, IndexError, OverflowError)
_MEMBER = re.compile(
    r"\.json$|^(?:context(?:_\d+)?|wire)\.jsonl$"
)  # names of files that may be one recording with others
_CACHE_CONTROL = re.compile(rb'"cache_control"\s*:\s*\{[^{}]*\}\s*,?|,?\s*"cache_control"\s*:\s*\{[^{}]*\}')


def _member(header: PackHeader, data: bytes = b"", *, fault: str = "") -> Iterator[bytes]:
    """Yield the bytes of a member of a pack."""
    yield msgspec.json.encode(msgspec.structs.replace(header, size=len(data), fault=fault)) + b"\n"
    if data:
        yield data
    yield b"\n"


def _read(read: Callable[[int], bytes | None], limit: int) -> bytes | None:
    """Read to the end without holding the bytes twice; None if there are more than `limit`."""
    found = io.BytesIO()
    while data := read(PIECE):
        found.write(data)
        if found.tell() > limit:
            return None
    return found.getvalue()


# folders


def members(folder: str) -> list[str]:
    """Return the files of a folder that are one recording together; none if it is a folder of recordings."""
    try:
        names = _regular(folder)
    except (OSError, ValueError):
        return []
    if is_task(names):
        return [name for name in TASK_FILES if name in names]
    if session := session_folders.files(folder, names):
        return session
    if any(name.endswith(REQUEST) for name in names):
        return [name for name in names if name.endswith((REQUEST, RESPONSE))]
    documents = [name for name in names if name.endswith(".json")]
    if len(documents) < 2:
        return []
    from lore.formats.captures.litellm import is_completion  # noqa: PLC0415 - few folders are looked into

    return documents if is_completion(_table(os.path.join(folder, documents[0]))) else []


def task_of(path: str) -> str:
    """Return the folder of the task that a file belongs to if its files are one recording, else the path."""
    folder, name = os.path.split(path)
    if session := session_folders.session_of(path):
        return session
    if name not in TASK_FILES or not filesystem.is_file(path):
        return path
    return (folder or os.curdir) if is_task(members(folder or os.curdir)) else path


def is_task(names: Collection[str]) -> bool:
    """Return whether these are the files of a task of Cline, Roo Code or Kilo Code that have to be joined."""
    return UI in names and API in names


def _regular(folder: str) -> list[str]:
    """Return the names of a folder's files, sorted; of a remote one possible members only: it may have a million."""
    if filesystem.is_remote(folder):
        found = (
            entry.name for entry in filesystem.entries(folder) if not entry.is_dir() and _MEMBER.search(entry.name)
        )
        return sorted(name for name in found if not name.startswith("."))
    names = (entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    return sorted(name for name in names if _is_regular(os.path.join(folder, name)))


def _is_regular(path: str) -> bool:
    try:
        return filesystem.is_regular(path)
    except (OSError, ValueError):
        return False


def size_of(folder: str) -> int:
    """Return how many bytes these files have together."""
    total = 0
    for name in members(folder):
        with suppress(OSError):  # reading it reports the error
            total += filesystem.status(os.path.join(folder, name)).size or 0
    return total


def folder_stream(folder: str, names: list[str]) -> Iterator[bytes]:
    """Yield the pack of a folder; `names` are its members. A file of Kimi CLI is one member for each piece."""
    for header in ordered(folder, names):
        limit = MEMBER_BYTES if header.lore_pack in _WHOLE else RECORD_BYTES
        shown = msgspec.structs.replace(header, name=printable(os.fsencode(header.name).decode("utf-8", "replace")))
        try:
            with filesystem.opened(os.path.join(folder, header.name)) as file:
                if header.lore_pack == KIMI_SESSION:
                    yield from _member(shown, file.read(PIECE))  # an empty file is an empty member
                    while data := file.read(PIECE):
                        yield from _member(shown, data)
                    continue
                data = _read(file.read, limit)
        except OSError as error:
            yield from _member(shown, fault=reason_of(error))
            continue
        yield from _member(shown, data or b"", fault="" if data is not None else f"longer than {limit >> 20} MiB")


def ordered(folder: str, names: list[str]) -> list[PackHeader]:
    """Return the headers of a folder's members in their order.

    Completions are ordered by the time in each, then by name. Each request is followed by its response; responses
    without a request come last.
    """
    if is_task(names):
        return [PackHeader(CLINE_TASK, name, place=True) for name in names]
    if kind := session_folders.kind_of(names):
        return [PackHeader(kind, name, place=True) for name in names]
    times = {name: _modified(os.path.join(folder, name)) for name in names}
    requests = [_request(folder, name, times[name]) for name in names if name.endswith(REQUEST)]
    if not requests:
        stamps = ((_table(os.path.join(folder, name)).get("timestamp", b"null"), name) for name in names)
        timed = sorted((decode_time(stamp) or 0.0, name) for stamp, name in stamps)
        return [PackHeader("completions", name, place=True) for _, name in timed]
    requests.sort(key=lambda request: (request.at, request.name))
    responses = {name.removesuffix(RESPONSE): name for name in names if name.endswith(RESPONSE)}
    _answer(requests, responses, times)
    timely = _is_live(requests)
    headers: list[PackHeader] = []
    for request in _linked(requests):
        at = request.at if timely else None
        headers.append(PackHeader("body-pairs", request.name, at=at, awaits=bool(request.response), place=True))
        if request.response:
            headers.append(PackHeader("body-pairs", request.response, place=True))
    answering = {request.response for request in requests}
    orphans = (name for name in responses.values() if name not in answering)
    return headers + [PackHeader("body-pairs", name, orphan=True, place=True) for name in orphans]


class PairedRequest(Struct):
    """What orders a request."""

    name: str  # its file
    at: float  # when the file was written
    previous: str = ""  # id of the response that it follows
    session: str = ""
    first: bytes = b""  # digest of the first message: requests of one conversation share it
    messages: int = 0
    response: str = ""  # the file that answers it


def _table(path: str) -> dict[str, bytes]:
    """Return the members of a file's JSON object; none if it cannot be read, which reading it reports."""
    try:
        if (filesystem.status(path).size or 0) > RECORD_BYTES:
            return {}
        with filesystem.opened(path) as file:
            return raw_members(file.read(RECORD_BYTES)) or {}
    except (OSError, ValueError):
        return {}


def _modified(path: str) -> float:
    try:
        return filesystem.status(path).written or 0.0
    except OSError:
        return 0.0


def _request(folder: str, name: str, at: float) -> PairedRequest:
    body = _table(os.path.join(folder, name))
    linked = prompt_links(body)
    messages = array(body["messages"]) if body.get("messages", b"")[:1] == b"[" else []
    first = hashlib.blake2b(_CACHE_CONTROL.sub(b"", messages[0]) if messages else b"", digest_size=16).digest()
    return PairedRequest(name, at, linked.get("cc_prev_req", ""), session_in(body), first, len(messages))


def _answer(requests: list[PairedRequest], responses: dict[str, str], times: dict[str, float]) -> None:
    """Give each request its response: by name, by a link, or by time."""
    free = dict(responses)
    for request in requests:
        request.response = free.pop(request.name.removesuffix(REQUEST), "")
    alike: dict[tuple[str, bytes], list[PairedRequest]] = defaultdict(list)
    for request in requests:
        alike[request.session, request.first].append(request)
    for request in requests:
        named = free.get(request.previous)
        before = None if named is None else _before(request, alike[request.session, request.first], times[named])
        if before is not None:
            before.response = free.pop(request.previous)
    waiting, later = list[PairedRequest](), iter(requests)
    upcoming = next(later, None)
    for name in sorted(free.values(), key=lambda name: (times[name], name)):
        while upcoming is not None and upcoming.at <= times[name]:
            waiting += [] if upcoming.response else [upcoming]
            upcoming = next(later, None)
        if waiting:
            waiting.pop().response = name


def _before(follower: PairedRequest, alike: list[PairedRequest], answered: float) -> PairedRequest | None:
    """Return the request that this one follows: the longest shorter one of the same conversation."""
    shorter = [request for request in alike if not request.response and request.messages < follower.messages]
    timely = [request for request in shorter if request.at <= answered]
    return max(timely or shorter, key=lambda request: request.messages, default=None)


def _is_live(requests: list[PairedRequest]) -> bool:
    """Return whether the files' times can be the times of sending: copies are made faster."""
    if len(requests) < 2:
        return False
    return requests[-1].at - requests[0].at >= SHORTEST * len(requests)


def _linked(requests: list[PairedRequest]) -> list[PairedRequest]:
    """Return the requests in order, each after the one that it follows; a ring of links is cut."""
    answered = {
        request.response.removesuffix(RESPONSE): place for place, request in enumerate(requests) if request.response
    }
    follows = [answered.get(request.previous) if request.previous else None for request in requests]
    after: dict[int, list[int]] = {}
    ready: list[int] = []
    for place, before in enumerate(follows):
        if before is None or before == place:
            ready.append(place)
        else:
            after.setdefault(before, []).append(place)
    order: list[int] = []
    done: set[int] = set()
    heapq.heapify(ready)
    rest = iter(range(len(requests)))
    while len(order) < len(requests):
        place = heapq.heappop(ready) if ready else next(candidate for candidate in rest if candidate not in done)
        if place in done:
            continue
        done.add(place)
        order.append(place)
        for follower in after.pop(place, []):
            heapq.heappush(ready, follower)
    return [requests[place] for place in order]


# archives


def archive_stream(path: str) -> Iterator[bytes]:
    """Yield the pack of an archive: the samples of an Inspect log; else a pack that no reader recognises."""
    from zipfile import BadZipFile, ZipFile  # noqa: PLC0415 - slow to import, and few recordings are archives

    kind = "inspect-archive"
    total = filesystem.status(path).size or 0
    if (size := _directory(path, total)) > DIRECTORY_BYTES:
        yield from _member(PackHeader(kind, os.path.basename(path)), fault=f"its directory has {size:,} bytes")
        return
    try:
        with filesystem.opened(path) as file, ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if _SAMPLE.fullmatch(info.filename)]
            if not infos or not any(info.filename in _LOG for info in archive.infolist()):
                kind = "archive"
                yield from _member(PackHeader(kind, ""))
                return
            yield from _samples(archive, infos, INFLATION * total + PIECE)
    except (BadZipFile, *_DAMAGED) as error:
        kind = kind if path.endswith(".eval") else "archive"
        yield from _member(PackHeader(kind, os.path.basename(path)), fault=f"no whole archive: {_why(error)}")


def _samples(archive: ZipFile, infos: list[ZipInfo], room: int) -> Iterator[bytes]:
    """Yield the samples in the order of the archive, up to `room` bytes together."""
    from zipfile import BadZipFile  # noqa: PLC0415 - as above

    for info in infos:
        header = PackHeader("inspect-archive", printable(info.filename))
        limit = min(MEMBER_BYTES, INFLATION * info.compress_size + PIECE)
        if info.file_size > limit:
            burst = info.file_size <= MEMBER_BYTES
            fault = (
                f"unpacks to more than {INFLATION} times its size" if burst else f"longer than {MEMBER_BYTES >> 20} MiB"
            )
            yield from _member(header, fault=fault)
            continue
        if info.file_size > room:
            yield from _member(header, fault=f"the archive unpacks to more than {INFLATION} times its size")
            return
        data: bytes | None = None
        try:
            with archive.open(info) as file:
                data = _read(file.read, limit)
        except (BadZipFile, *_DAMAGED, NotImplementedError, RuntimeError) as error:  # unknown compression; encrypted
            yield from _member(header, fault=f"cannot be unpacked: {_why(error)}")
            continue
        if data is None:
            yield from _member(header, fault="longer than the archive says")
            continue
        room -= len(data)
        yield from _member(header, data)


def _why(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return printable(text).partition("\n")[0].rstrip(".").lower() or type(error).__name__


def _directory(path: str, size: int) -> int:
    """Return the stated size of an archive's directory, before it is read; 0 if it has none."""
    with filesystem.opened(path) as file:
        file.seek(max(0, size - _TAIL))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    size = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    wide = tail.rfind(b"PK\x06\x06", 0, max(at, 0))
    wide_size = int.from_bytes(tail[wide + 40 : wide + 48], "little") if wide >= 0 else 0
    return max(0 if size == 0xFFFFFFFF else size, wide_size)
