"""Folders and archives that are one recording, as one stream of bytes (a pack, `formats.folders`).

**Sessions that are folders**: tasks of Cline, sessions of Kimi CLI (what the screen showed, then what the model saw,
first the files that were put aside) and OpenHands (the state, then the events). Naming one of the files means the whole
folder (`session_folder_of`).

**Folders of completions** of LiteLLM, ordered by their times.

**Folders of request and response files.** Requests are ordered by the times of their files, then by name; one that
names the response before it (`cc_prev_req`) follows the request which that response answers. A response answers the
request of the same name; else the one that a link leads to; else the latest request before it that has no response.
Files that were copied or checked out have nearly equal times: these order them, but are not taken for the times of
sending.

**Archives of samples** (`.eval`) are read in place, nothing is unpacked to disk and no name in one opens anything. The
archive's directory, its members and their sum are bounded; what exceeds a bound, is encrypted or has an unknown
compression is a problem.
"""

from __future__ import annotations

import io
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lore.errors import reason_of
from lore.formats import folders
from lore.formats.folders import CLINE_TASK, EVENTS, KIMI_SESSION, OPENHANDS, OPENING, STATE, PackHeader
from lore.formats.http import prompt_links, session_in
from lore.model.canonical import printable
from lore.model.deferred import pattern
from lore.model.jsonslice import array, members_at
from lore.model.limits import DIRECTORY_BYTES, INFLATION, MEMBER_BYTES, RECORD_BYTES
from lore.model.times import decode_time
from lore.recording import filesystem

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

PIECE = 1024 * 1024  # bytes that are read at a time
COMPLETIONS, PAIRS = "completions", "body-pairs"  # kinds of packs
REQUEST, RESPONSE = ".request.json", ".response.json"
BODIES_OPENING = OPENING + PAIRS.encode() + b'"'
WITH_SUBAGENTS = (KIMI_SESSION, OPENHANDS)  # the folders of a session's subagents are in its folder `subagents`
_SESSIONS = (CLINE_TASK, *WITH_SUBAGENTS)  # kinds that are one session, whose files may be longer than a record
_SESSION_FILES = frozenset((*folders.TASK_FILES, folders.WIRE, folders.CONTEXT, STATE, EVENTS))
_ROTATED = pattern(r"context_(\d{1,9})\.jsonl")
_EVENT = pattern(r"event-(\d{5,9})(?:-[0-9a-fA-F-]{8,})?\.json")
_MEMBER = pattern(r"\.json$|^(?:context(?:_\d+)?|wire)\.jsonl$")  # names of files that may be one recording


# folders


def find_pack(folder: str) -> tuple[str, tuple[str, ...]]:
    """Return the kind of the pack that a folder's files make, and their names; both empty if they make none."""
    is_remote = filesystem.is_remote(folder)  # looking at each file would be a request
    names = [
        name for name in filter(_MEMBER.search, filesystem.names(folder))
        if is_remote or os.path.isfile(os.path.join(folder, name))
    ]  # fmt: skip
    if folders.UI in names and folders.API in names:
        return CLINE_TASK, tuple(name for name in folders.TASK_FILES if name in names)
    if STATE in names and (events := _sort_by_number(filesystem.names(os.path.join(folder, EVENTS)), _EVENT)):
        return OPENHANDS, (STATE, *(os.path.join(EVENTS, name) for name in events))
    if folders.WIRE in names and folders.CONTEXT in names:
        return KIMI_SESSION, (folders.WIRE, *_sort_by_number(names, _ROTATED), folders.CONTEXT)
    if any(name.endswith(REQUEST) for name in names):
        return PAIRS, tuple(name for name in names if name.endswith((REQUEST, RESPONSE)))
    documents = tuple(name for name in names if name.endswith(".json"))
    if len(documents) > 1:
        from lore.formats.captures.litellm import is_completion  # noqa: PLC0415 - few folders are looked into

        if is_completion(_read_object(os.path.join(folder, documents[0]))):
            return COMPLETIONS, documents
    return "", ()


def _sort_by_number(names: Iterable[str], name_pattern: re.Pattern[str]) -> list[str]:
    """Return the names that match a pattern, sorted by the number in its group."""
    pairs = ((int(match[1]), match[0]) for match in map(name_pattern.fullmatch, names) if match is not None)
    return [name for _, name in sorted(pairs)]


def session_folder_of(path: str) -> str:
    """Return the folder of the session that a file, or a folder of events, is part of; any other path unchanged."""
    folder, name = os.path.split(path)
    part = name
    if _EVENT.fullmatch(name) is not None and os.path.basename(os.path.abspath(folder)) == EVENTS:
        folder = os.path.dirname(folder) if os.path.basename(folder) == EVENTS else os.path.join(folder, os.pardir)
        part = os.path.join(EVENTS, name)
    elif name not in _SESSION_FILES and _ROTATED.fullmatch(name) is None:
        return path
    kind, names = find_pack(folder or os.curdir)
    is_part = part in names or (name == EVENTS and kind == OPENHANDS)
    return (folder or os.curdir) if is_part and kind in _SESSIONS else path


def status_of(folder: str) -> filesystem.Status:
    """Return the summed size of the files of a folder's pack, and when the latest was written; None if unknown."""
    size, written = 0, None
    for name in find_pack(folder)[1]:
        with suppress(OSError):  # reported when the file is read
            about = filesystem.status(os.path.join(folder, name))
            size, written = size + (about.size or 0), max(written or 0.0, about.written or 0.0)
    return filesystem.Status(size, written or None)


def folder_stream(folder: str) -> Iterator[bytes] | None:
    """Return the pack of a folder whose files are one recording together; None for any other folder."""
    kind, names = find_pack(folder)
    return pack_stream(folder, order_members(folder, kind, names)) if names else None


def pack_stream(folder: str, headers: Iterable[PackHeader]) -> Iterator[bytes]:
    """Yield a pack of these files in a folder; one that is too long or cannot be read has a `fault`, and no bytes."""
    for header in headers:
        limit = MEMBER_BYTES if header.lore_pack in _SESSIONS else RECORD_BYTES
        member = msgspec.structs.replace(header, name=printable(os.fsencode(header.name).decode("utf-8", "replace")))
        try:
            with filesystem.open_file(os.path.join(folder, header.name)) as file:
                data = read_bounded(file.read, limit)
            fault = "" if data is not None else f"longer than {limit >> 20} MiB"
        except OSError as error:
            data, fault = None, reason_of(error)
        yield from member_bytes(member, data or b"", fault=fault)


def member_bytes(header: PackHeader, data: bytes = b"", *, fault: str = "") -> Iterator[bytes]:
    """Yield a member of a pack: its header with size and fault on a line, then the data."""
    yield msgspec.json.encode(msgspec.structs.replace(header, size=len(data), fault=fault)) + b"\n"
    if data:
        yield data
    yield b"\n"


def read_bounded(read: Callable[[int], bytes | None], limit: int) -> bytes | None:
    """Return all that `read` returns, without holding it twice; None if it is more than `limit` bytes."""
    buffer = io.BytesIO()
    while data := read(PIECE):
        buffer.write(data)
        if buffer.tell() > limit:
            return None
    return buffer.getvalue()


def _read_object(path: str) -> dict[str, bytes]:
    """Return the members of a file's JSON object; none if it is unreadable, which is reported when it is read again."""
    try:
        if (filesystem.status(path).size or 0) > RECORD_BYTES:
            return {}
        with filesystem.open_file(path) as file:
            return members_at(file.read(RECORD_BYTES))
    except (OSError, ValueError):
        return {}


def order_members(folder: str, kind: str, names: tuple[str, ...]) -> list[PackHeader]:
    """Return the headers of a folder's members in reading order."""
    if kind == PAIRS:
        return _order_pairs(folder, names)
    tables = {name: _read_object(os.path.join(folder, name)) for name in names if kind == COMPLETIONS}
    times = {name: decode_time(table.get("timestamp", b"null")) or 0.0 for name, table in tables.items()}
    return [PackHeader(kind, name, is_file=True) for name in sorted(names, key=lambda name: times.get(name, 0.0))]


# request and response files


_SHORTEST = 0.2  # seconds: no model answers sooner
_CACHE_CONTROL = pattern(rb'"cache_control"\s*:\s*\{[^{}]*\}\s*,?|,?\s*"cache_control"\s*:\s*\{[^{}]*\}')


class PairedRequest(Struct):
    """A request's file, with the values that order it and find its response."""

    name: str  # of the file
    at: float  # when the file was written
    previous: str = ""  # id of the response that it follows: the name of that file without its ending
    conversation: tuple[str, int] = ("", 0)  # its session, and a hash of the first message
    messages: int = 0  # their number
    response: str = ""  # the file that answers it, set by `_match_responses`; empty: unknown


def _order_pairs(folder: str, names: Iterable[str]) -> list[PackHeader]:
    """Return the headers of a folder's files in reading order: each request, its response; at last other responses."""
    times, requests = dict.fromkeys(names, 0.0), list[PairedRequest]()
    for name in names:
        with suppress(OSError):  # the file is gone, which is reported when it is read
            times[name] = filesystem.status(os.path.join(folder, name)).written or 0.0
        if name.endswith(REQUEST):
            body = _read_object(os.path.join(folder, name))
            messages = array(body["messages"]) if body.get("messages", b"")[:1] == b"[" else []
            conversation = session_in(body), hash(_CACHE_CONTROL.sub(b"", messages[0]) if messages else b"")
            previous = prompt_links(body).get("cc_prev_req", "")
            requests.append(PairedRequest(name, times[name], previous, conversation, len(messages)))
    requests.sort(key=lambda request: (request.at, request.name))
    responses = {name.removesuffix(RESPONSE): name for name in names if name.endswith(RESPONSE)}
    _match_responses(requests, responses, times)
    answered = {request.response.removesuffix(RESPONSE): request for request in requests if request.response}
    ordered_requests: dict[str, PairedRequest] = {}  # by file: each follows the one that it links to
    for request in requests:
        chain, at = dict[str, PairedRequest](), request
        while at is not None and at.name not in ordered_requests and at.name not in chain:  # a ring of links is cut
            chain[at.name] = at
            at = answered.get(at.previous)
        ordered_requests.update(reversed(chain.items()))
    # copies are made faster than requests are sent
    were_sent_then = len(requests) > 1 and requests[-1].at - requests[0].at >= _SHORTEST * len(requests)
    headers: list[PackHeader] = []
    for request in ordered_requests.values():
        sent_at = request.at if were_sent_then else None
        headers.append(PackHeader(PAIRS, request.name, at=sent_at, has_response=bool(request.response), is_file=True))
        if name := request.response:
            headers.append(PackHeader(PAIRS, name, is_file=True))
    orphans = (name for stem, name in responses.items() if stem not in answered)
    return headers + [PackHeader(PAIRS, name, lacks_request=True, is_file=True) for name in orphans]


def _match_responses(requests: list[PairedRequest], responses: dict[str, str], times: dict[str, float]) -> None:
    """Set the `response` of requests, sorted by time: by name, link or time. `responses` has file names by stem."""
    free = dict(responses)
    conversations: dict[tuple[str, int], list[PairedRequest]] = defaultdict(list)
    for request in requests:
        request.response = free.pop(request.name.removesuffix(REQUEST), "")
        conversations[request.conversation].append(request)
    for request in requests:
        response = free.get(request.previous)
        if response is None:
            continue
        # the response is to the longest shorter request of the same conversation
        shorter = [
            other for other in conversations[request.conversation]
            if not other.response and other.messages < request.messages
        ]  # fmt: skip
        timely = [other for other in shorter if other.at <= times[response]]
        before = max(timely or shorter, key=lambda other: other.messages, default=None)
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


# archives


_INSPECT, _OTHER = "inspect-archive", "archive"  # kinds of packs; no reader knows the other one
_LOG = frozenset(("header.json", "_journal/start.json", "summaries.json"))  # an Inspect log has one of these members
_SAMPLE = pattern(r"samples/[^/]*\.json", re.DOTALL)
_TAIL = 66_000  # bytes that hold an archive's end record: 22 bytes, and a comment of at most 65,535


def archive_stream(path: str) -> Iterator[bytes]:
    """Yield an archive as a pack: an Inspect log's samples; for other archives a pack that no reader recognises.

    Damage ends the pack, or a member of it, with a `fault`.
    """
    import struct  # noqa: PLC0415 - as below
    import zlib  # noqa: PLC0415
    from zipfile import BadZipFile, ZipFile  # noqa: PLC0415 - slow to import, and few recordings are archives

    damage = (BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error, IndexError, OverflowError)
    name, total = os.path.basename(path), filesystem.status(path).size or 0
    if (size := _directory_size(path, total)) > DIRECTORY_BYTES:
        yield from member_bytes(PackHeader(_INSPECT, name), fault=f"its directory has {size:,} bytes")
        return
    room, is_inspect = INFLATION * total + PIECE, True
    try:
        with filesystem.open_file(path) as file, ZipFile(file) as archive:
            infos = archive.infolist()
            samples = [info for info in infos if _SAMPLE.fullmatch(info.filename)]
            is_inspect = bool(samples) and any(info.filename in _LOG for info in infos)
            if not is_inspect:
                yield from member_bytes(PackHeader(_OTHER, ""))
            for info in samples if is_inspect else ():
                try:  # NotImplementedError: an unknown compression; RuntimeError: encrypted
                    data, fault = _unpack(archive, info, room)
                except (*damage, NotImplementedError, RuntimeError) as error:
                    data, fault = None, f"cannot be unpacked: {_describe_error(error)}"
                room -= len(data or b"")
                yield from member_bytes(PackHeader(_INSPECT, printable(info.filename)), data or b"", fault=fault)
    except damage as error:
        kind = _INSPECT if is_inspect and path.endswith(".eval") else _OTHER
        yield from member_bytes(PackHeader(kind, name), fault=f"no whole archive: {_describe_error(error)}")


def _unpack(archive: ZipFile, info: ZipInfo, room: int) -> tuple[bytes | None, str]:
    """Return the content of a member, or None and the reason why it is refused."""
    limit = min(MEMBER_BYTES, INFLATION * info.compress_size + PIECE, room)
    if info.file_size > MEMBER_BYTES:
        return None, f"longer than {MEMBER_BYTES >> 20} MiB"
    if info.file_size > limit:
        return None, f"unpacks to more than {INFLATION} times its size"
    with archive.open(info) as file:
        data = read_bounded(file.read, limit)
    return data, "longer than the archive says" if data is None else ""


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
