"""Folders that are one recording, as one stream of bytes (a pack, `formats.folders`).

**Sessions that are folders**: tasks of Cline, sessions of Kimi CLI (what the screen showed, then what the model saw,
first the files that were put aside) and OpenHands (the state, then the events). Naming one of the files means the whole
folder (`session_folder_of`).

**Other folders**: request and response files (`pairs`), and completions of LiteLLM, ordered by their times.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from lore.errors import reason_of
from lore.formats import folders
from lore.formats.folders import CLINE_TASK, EVENTS, KIMI_SESSION, OPENHANDS, STATE, PackHeader
from lore.model.canonical import printable
from lore.model.deferred import pattern
from lore.model.limits import MEMBER_BYTES, RECORD_BYTES
from lore.model.times import decode_time
from lore.recording import filesystem
from lore.recording.pairs import PAIRS, REQUEST, RESPONSE, order_pairs, read_object

PIECE = 1024 * 1024  # bytes that are read at a time
COMPLETIONS = "completions"  # kind of a pack
_SUBAGENTS = "subagents"  # folder of the subagents' folders, in that of a session
_WITH_SUBAGENTS = (KIMI_SESSION, OPENHANDS)
_SESSIONS = (CLINE_TASK, *_WITH_SUBAGENTS)  # kinds that are one session, whose files may be longer than a record
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

        if is_completion(read_object(os.path.join(folder, documents[0]))):
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


def subagent_folders(folder: str) -> list[str]:
    """Return the folders of a session's subagents, sorted."""
    below = os.path.join(folder, _SUBAGENTS)
    paths = (os.path.join(below, name) for name in filesystem.names(below))
    return [path for path in paths if find_pack(path)[0] in _WITH_SUBAGENTS]


def session_of_subagent(folder: str) -> str:
    """Return the session that a subagent's folder belongs to; empty for any other folder."""
    above, name = os.path.split(os.path.dirname(folder))
    return above if name == _SUBAGENTS and find_pack(above)[0] in _WITH_SUBAGENTS else ""


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


def order_members(folder: str, kind: str, names: tuple[str, ...]) -> list[PackHeader]:
    """Return the headers of a folder's members in reading order."""
    if kind == PAIRS:
        return order_pairs(folder, names)
    tables = {name: read_object(os.path.join(folder, name)) for name in names if kind == COMPLETIONS}
    times = {name: decode_time(table.get("timestamp", b"null")) or 0.0 for name, table in tables.items()}
    return [PackHeader(kind, name, is_file=True) for name in sorted(names, key=lambda name: times.get(name, 0.0))]
