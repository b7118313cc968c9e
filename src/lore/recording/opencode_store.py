"""OpenCode's sessions where the client keeps them, each as the document that `opencode export` would write.

In: `opencode.db` (Kilo CLI: `kilo.db`), a session of it as `DATABASE#SESSION`; or the file of a session in the older
storage folder (`storage/session/PROJECT/SESSION.json`, beside it `message/SESSION/` and `part/MESSAGE/`). Out: bytes of
a document, message by message. Rules: messages are ordered by time, then by id, parts by id; columns are read by their
names; a row or file that is no JSON object is a message or a part of a type that no reader knows, and becomes a
problem; nothing is written, and no database opened but a copy. Errors: a LoreError with the name.

Source: public readers of the database (`session`, `message`, `part`), the storage folder of versions before 1.2.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec
from msgspec import Raw

from lore.errors import LoreError
from lore.formats.foreign import SQLITE
from lore.formats.opencode_records import Session
from lore.formats.values import LATEST_MS
from lore.recording import databases

_TABLES = {"session": frozenset(("id",)), "message": frozenset(("id", "session_id", "data")),
           "part": frozenset(("id", "message_id", "data"))}  # fmt: skip
_OPTIONAL = {"directory": "directory", "parentID": "parent_id"}  # what a session may have, and its column
_UNREADABLE = "unreadable"
_LARGEST = 16 * 1024 * 1024  # bytes of a file of the storage folder
_RAW: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])


# the database


def session_in(name: str) -> tuple[str, str] | None:
    """Return database and session of `DATABASE#SESSION`; None for any other name."""
    path, sign, session = name.rpartition("#")
    if not sign or not session or os.path.lexists(name) or not is_sqlite(path):
        return None
    return path, session


def is_sqlite(path: str) -> bool:
    """Tell whether a file begins as a database does."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except (OSError, ValueError):
        return False


class StoredSession(NamedTuple):
    """A session of a database: who started it, when it was last written (seconds), how long it is (bytes, about)."""

    id: str
    parent: str | None
    written: float | None
    size: int


def sessions_of(path: str) -> list[StoredSession] | None:
    """Return a database's sessions, oldest first; None where it is none of OpenCode's, or unreadable."""
    try:
        return _listed(path, databases.stamps(path))
    except databases.ERRORS:
        return None


@lru_cache(maxsize=4)
def _listed(path: str, _: databases.Stamps) -> list[StoredSession] | None:
    with closing(databases.connect(path)) as connection:
        return None if _lacks(connection) else _sessions(connection)


def _sessions(connection: sqlite3.Connection) -> list[StoredSession]:
    has = databases.columns_of(connection, "session")
    parent, created = ((name if name in has else "null") for name in ("parent_id", "time_created"))
    updated = f"coalesce(time_updated, {created})" if "time_updated" in has else created
    # words of this file alone
    query = f"select id, {parent}, {updated} from session where exists (select 1 from message where session_id = session.id) order by {created}, id"  # noqa: E501, S608
    sizes: dict[object, int] = {}
    for table in ("message", "part"):
        if "session_id" in databases.columns_of(connection, table):
            lengths = f"select session_id, sum(length(data)) from {table} group by session_id"  # noqa: S608
            for session, length in connection.execute(lengths):
                sizes[session] = sizes.get(session, 0) + int(length or 0)
    return [
        StoredSession(str(name), str(above) if above else None, _seconds(at), sizes.get(name, 0))
        for name, above, at in connection.execute(query)
    ]


def _seconds(at: object) -> float | None:
    return at / 1000 if isinstance(at, int | float) and 0 < at < LATEST_MS else None


def database_stream(path: str, session: str) -> Iterator[bytes]:
    """Yield a session of a database; raises LoreError where it cannot be read, or has none of this id."""
    try:
        with closing(databases.connect(path)) as connection:
            lacks = _lacks(connection)
            if lacks:
                raise LoreError(f"{path} is no database of OpenCode that lore knows: {lacks}")
            yield from _document(connection, session, path)
    except databases.ERRORS as error:
        raise LoreError(f"cannot read {path}: {databases.reason_of(error)}") from None


def _lacks(connection: sqlite3.Connection) -> str:
    """Say what a database lacks of what is read; empty where it has all."""
    for table, needed in _TABLES.items():
        missing = needed - databases.columns_of(connection, table)
        if missing:
            return f"its table {table} has no {', '.join(sorted(missing))}"
    return ""


def _document(connection: sqlite3.Connection, session: str, path: str) -> Iterator[bytes]:
    cursor = connection.execute("select * from session where id = ?", (session,))
    row = cursor.fetchone()
    if row is None:
        raise LoreError(f"{path} has no session {session!r}", hint="name the database alone: all its sessions are read")
    info = dict(zip([column[0] for column in cursor.description], row, strict=True))
    yield b'{"info":' + _info(info) + b',"messages":['
    order = "time_created, id" if "time_created" in databases.columns_of(connection, "message") else "id"
    query = f"select id, data from message where session_id = ? order by {order}"  # noqa: S608 - words of this file
    before = b""
    for name, data in connection.execute(query, (session,)):
        parts = connection.execute("select id, data from part where message_id = ? order by id", (name,))
        inner = b",".join([_named(str(part), text, "type") for part, text in parts])
        yield before + b'{"info":' + _named(str(name), data, "role") + b',"parts":[' + inner + b"]}"
        before = b",\n"
    yield b"]}\n"


def _info(row: dict[str, object]) -> bytes:
    """Write a session as an export has it, of the columns that there are."""
    own: dict[str, object] = {
        "id": row.get("id"), "slug": row.get("slug") or "", "projectID": row.get("project_id"),
        "version": row.get("version") or "",
    }  # fmt: skip
    own |= {name: row[column] for name, column in _OPTIONAL.items() if row.get(column)}
    own["time"] = {"created": row.get("time_created")}
    revert = row.get("revert")
    if isinstance(revert, str):
        own["revert"] = _object(revert.encode()) and json.loads(revert)
    return json.dumps(own).encode()


def _named(name: str, data: object, kind: str) -> bytes:
    """Write a row's object with its id; of what is none, an object of an unreadable kind."""
    text = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""
    found = _object(text)
    if found is None:
        return json.dumps({"id": name, kind: _UNREADABLE}).encode()
    members = [b'"id":' + json.dumps(name).encode()]
    members += [json.dumps(key).encode() + b":" + bytes(value) for key, value in found.items() if key != "id"]
    return b"{" + b",".join(members) + b"}"


def _object(text: bytes) -> dict[str, Raw] | None:
    try:
        return _RAW.decode(text)
    except (ValueError, RecursionError):
        try:
            value = json.loads(text)  # lone surrogates, as JavaScript writes them
        except (ValueError, RecursionError):
            return None
        members = cast(dict[str, object], value) if isinstance(value, dict) else None
        return None if members is None else {key: Raw(json.dumps(own).encode()) for key, own in members.items()}


# the storage folder


def is_session_file(path: str) -> bool:
    """Tell whether a file is that of a session in a storage folder."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.basename(folder) != "session" or not path.endswith(".json"):
        return False
    return os.path.isdir(_messages(path))


def session_of(path: str) -> Session | None:
    """Return what a session's file says of it; None where it is damaged."""
    try:
        return msgspec.json.decode(_read(path), type=Session)
    except (ValueError, RecursionError):
        return None


def _messages(path: str) -> str:
    storage = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    return os.path.join(storage, "message", os.path.basename(path).removesuffix(".json"))


def storage_stream(path: str) -> Iterator[bytes]:
    """Yield a session of a storage folder."""
    folder = _messages(path)
    storage = os.path.dirname(os.path.dirname(folder))
    infos = _files(folder, "role")
    infos.sort(key=_when)
    yield b'{"info":' + _head(path) + b',"messages":['
    before = b""
    for name, data in infos:
        parts = b",".join([part for _, part in _files(os.path.join(storage, "part", name), "type")])
        yield before + b'{"info":' + data + b',"parts":[' + parts + b"]}"
        before = b",\n"
    yield b"]}\n"


def _head(path: str) -> bytes:
    """Return a session's own file, in the order of members that an export has."""
    found = _object(_read(path)) or {}
    first = {key: found.pop(key) for key in ("id", "slug", "projectID", "directory", "version") if key in found}
    first.setdefault("slug", Raw(b'""'))
    members = [json.dumps(key).encode() + b":" + bytes(value) for key, value in {**first, **found}.items()]
    return b"{" + b",".join(members) + b"}"


def _when(entry: tuple[str, bytes]) -> tuple[float, str]:
    try:
        created = json.loads(entry[1])["time"]["created"]
        return float(created), entry[0]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0.0, entry[0]


def _files(folder: str, kind: str) -> list[tuple[str, bytes]]:
    """Return the objects of a folder by the names of their files, in that order; none where there is no folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    except (OSError, ValueError):
        return []
    return [
        (name.removesuffix(".json"), _named(name.removesuffix(".json"), _read(os.path.join(folder, name)), kind))
        for name in names
    ]


def _read(path: str) -> bytes:
    """Return the bytes of a file; none of one that is too long or cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError):
        return b""
    return data if len(data) <= _LARGEST else b""
