"""OpenCode's sessions where the client keeps them, each as the document that `opencode export` would write.

They are in `opencode.db` (Kilo CLI: `kilo.db`), named `DATABASE#SESSION`, or in the older storage folder
(`storage/session/PROJECT/SESSION.json`, with `message/SESSION/` and `part/MESSAGE/` in `storage`). The document comes
message by message, ordered by time, then by id; parts are ordered by id. A row or file that is not a JSON object
becomes a message or part of a type that no reader knows, and so a problem. Only a copy of a database is opened.

Sources: public readers of the database (`session`, `message`, `part`) and of the storage folder of versions before 1.2,
October 2026.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from lore.errors import LoreError
from lore.formats.agents.opencode import OpenCode
from lore.formats.beginning import SQLITE, array_at
from lore.formats.values import LATEST_MS, count_in
from lore.model import jsonslice
from lore.model.canonical import decode, encode
from lore.model.mask import cut_masked
from lore.recording import corpus, filesystem
from lore.recording.agents import databases
from lore.recording.agents.beside import text_at_path

_TABLES = {"session": frozenset(("id",)), "message": frozenset(("id", "session_id", "data")),
           "part": frozenset(("id", "message_id", "data"))}  # fmt: skip
_COLUMNS = {"id": "id", "slug": "slug", "projectID": "project_id", "version": "version", "directory": "directory",
            "parentID": "parent_id", "title": "title"}  # fmt: skip
_UNREADABLE = "unreadable"
_EXPORT = 256 * 1024  # bytes in which the messages of an export begin, as for recognising it
_TITLE = 60  # characters of a title that are read
_SHOWN = 20  # sessions of a database that an error lists


# the database


def session_in(name: str) -> tuple[str, str] | None:
    """Return database and session of `DATABASE#SESSION`; None for any other name."""
    path, sign, session = name.rpartition("#")
    if not sign or not session or os.path.lexists(name) or not is_sqlite(path):
        return None
    return path, session


def is_sqlite(path: str) -> bool:
    """Return whether a file begins as a database does."""
    try:
        if not os.path.isfile(path):  # a pipe might never end
            return False
        with open(path, "rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except (OSError, ValueError):
        return False


class KeptSession(NamedTuple):
    """A session of OpenCode; of one in files only the first three members are known."""

    id: str
    parent: str | None  # id of the session that started it
    name: str  # `DATABASE#SESSION`, or the path of its file
    written: float | None = None  # when it was last written, in seconds
    size: int = 0  # bytes, about
    start: float = 0.0  # when it was started, in seconds; 0 if unknown
    title: str = ""
    directory: str = ""  # the folder in which it was started


def sessions_of(path: str) -> dict[str, KeptSession]:
    """Return the sessions of a database by id, oldest first; none if it is not OpenCode's, or cannot be read."""
    try:
        return _list_sessions(path, databases.stamps(path))
    except databases.ERRORS:
        return {}


def directory_of(name: str) -> str | None:
    """Return the folder in which a session of a database (`DATABASE#SESSION`) was started."""
    path, session = session_in(name) or ("", "")
    stored = sessions_of(path).get(session)
    return None if stored is None else stored.directory or None


def fault_of(path: str) -> str:
    """Return why no session of OpenCode's database can be read; empty for a database of another program."""
    try:
        with closing(databases.connect(path)) as connection:
            if not databases.columns_of(connection, "session"):
                return ""
            return _missing(connection) or next(
                ("" for _ in _sessions(connection, path)), "it holds no session with messages"
            )
    except databases.ERRORS as error:
        return databases.reason_of(error)


@lru_cache(maxsize=4)
def _list_sessions(path: str, _: databases.Stamps) -> dict[str, KeptSession]:
    with closing(databases.connect(path)) as connection:
        rows = [] if _missing(connection) else sorted(_sessions(connection, path), key=lambda row: (row.start, row.id))
    return {session.id: session for session in rows}


def _sessions(connection: sqlite3.Connection, path: str) -> Iterator[KeptSession]:
    has = databases.columns_of(connection, "session")
    names = ("parent_id", "time_created", "title", "directory")
    parent, created, title, directory = (name if name in has else "null" for name in names)
    updated = f"coalesce(time_updated, {created})" if "time_updated" in has else created
    query = f"""select id, {parent}, {created}, {updated}, substr({title}, 1, {_TITLE}), {directory} from session
                where exists (select 1 from message where session_id = session.id)"""  # noqa: S608 - words of this file
    sizes = _sizes(connection)
    for name, above, created_at, at, session_title, folder in connection.execute(query):
        yield KeptSession(
            str(name), str(above) if above else None, f"{path}#{name}", _seconds(at), sizes.get(name, 0),
            _seconds(created_at) or 0, str(session_title or ""), str(folder or ""),
        )  # fmt: skip


def _sizes(connection: sqlite3.Connection) -> Counter[object]:
    """Return the sizes of sessions, of tables that say of each row which session it belongs to."""
    sizes: Counter[object] = Counter()
    for table in ("message", "part"):
        if "session_id" in databases.columns_of(connection, table):
            lengths = f"select session_id, sum(length(data)) from {table} group by session_id"  # noqa: S608
            with suppress(sqlite3.Error):  # a row that is too long is reported when its session is read
                sizes.update({session: int(length or 0) for session, length in connection.execute(lengths)})
    return sizes


def _seconds(at: object) -> float | None:
    return at / 1000 if isinstance(at, int | float) and 0 < at < LATEST_MS else None


def only_session(path: str, sessions: Mapping[str, KeptSession]) -> str:
    """Return the session of a database that has one; raises LoreError for several, with the newest as choices."""
    if len(sessions) == 1:
        return next(iter(sessions))
    roots = [session for session in sessions.values() if session.parent is None] or [*sessions.values()]
    newest = sorted(roots, key=lambda session: session.written or 0.0)[::-1]
    lines: list[str] = []
    for session in newest[:_SHOWN]:
        at = "-" if session.written is None else f"{datetime.fromtimestamp(session.written, UTC):%Y-%m-%d %H:%M}"
        title = session.title if len(session.title) < _TITLE else cut_masked(session.title, _TITLE - 1) + "…"
        lines.append(f"{at:<16}  {session.id}  {title}".rstrip())
    more = [f"and {len(newest) - _SHOWN:,} more: `lore sessions --all` lists them"] if len(newest) > _SHOWN else []
    label = corpus.show(path)
    subagents = f", {len(sessions) - len(roots):,} of them subagents'" if len(roots) < len(sessions) else ""
    raise LoreError(
        f"{label} is OpenCode's database of {len(sessions):,} sessions{subagents}", choices=(*lines, *more),
        hint=f"name one of them ({label}#{newest[0].id} is the newest); `lore check` takes all", own=True,
    )  # fmt: skip


def database_stream(path: str, session: str) -> Iterator[bytes]:
    """Yield a session of a database; raises LoreError if it cannot be read or does not exist."""
    label = corpus.show(path)
    try:
        with closing(databases.connect(path)) as connection:
            if lacks := _missing(connection):
                raise LoreError(f"{label} is no database of OpenCode that lore knows: {lacks}")
            cursor = connection.execute("select * from session where id = ?", (session,))
            row = cursor.fetchone()
            if row is None:
                every = sessions_of(path)
                prefixed = [name for name in every if name.startswith(session)]
                near = prefixed if len(prefixed) == 1 else get_close_matches(session[:80], every, 1, 0.5)
                hint = f"did you mean {label}#{near[0]}?" if near else f"`lore fold {label}` lists its sessions"
                raise LoreError(f"{label} has no session {session!r}", hint=hint)
            info = _info(dict(zip([column[0] for column in cursor.description], row, strict=True)))
            order = "time_created, id" if "time_created" in databases.columns_of(connection, "message") else "id"
            query = f"select id, data from message where session_id = ? order by {order}"  # noqa: S608 - constants
            rows = connection.execute(query, (session,))
            yield from _document(
                info, ((_with_id(str(name), data, "role"), _stored_parts(connection, name)) for name, data in rows)
            )
    except databases.ERRORS as error:
        raise LoreError(f"cannot read {label}: {databases.reason_of(error)}", own=True) from None


def _stored_parts(connection: sqlite3.Connection, message: object) -> Iterator[bytes]:
    rows = connection.execute("select id, data from part where message_id = ? order by id", (message,))
    return (_with_id(str(name), data, "type") for name, data in rows)


def _missing(connection: sqlite3.Connection) -> str:
    """Describe what OpenCode's tables lack in a database; empty if nothing."""
    for table, needed in _TABLES.items():
        missing = needed - databases.columns_of(connection, table)
        if missing:
            return f"its table {table} has no {', '.join(sorted(missing))}"
    return ""


# the document


def _document(info: bytes, messages: Iterable[tuple[bytes, Iterable[bytes]]]) -> Iterator[bytes]:
    """Yield a document in pieces, so that a message of many parts is never in memory whole."""
    yield b'{"info":' + info + b',"messages":['
    for number, (message, parts) in enumerate(messages):
        yield (b',\n{"info":' if number else b'{"info":') + message + b',"parts":['
        for place, part in enumerate(parts):
            yield b"," + part if place else part
        yield b"]}"
    yield b"]}\n"


def _info(row: dict[str, object]) -> bytes:
    texts = {name: row.get(column) for name, column in _COLUMNS.items()}
    info: dict[str, object] = {name: text for name, text in texts.items() if isinstance(text, str) and text}
    info |= {name: info.get(name, "") for name in ("slug", "version")}
    created, revert = row.get("time_created"), row.get("revert")
    info["time"] = {"created": created if isinstance(created, int) else None}
    if isinstance(revert, str) and jsonslice.raw_members(revert.encode()) is not None:
        info["revert"] = decode(revert.encode())
    return encode(info)


def _with_id(name: str, data: object, kind: str) -> bytes:
    """Return a row's object with its id; anything but an object becomes one of an unreadable kind."""
    text = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""
    members = jsonslice.raw_members(text)
    if members is None:
        return encode({"id": name, kind: _UNREADABLE})
    members.pop("id", None)
    return jsonslice.object_of({"id": encode(name), **members})


# the storage folder


def is_session_file(path: str) -> bool:
    """Return whether a file is that of a session in a storage folder."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.basename(folder) != "session" or not path.endswith(".json"):
        return False
    return os.path.isdir(_messages(path))


def session_in_file(path: str) -> KeptSession | None:
    """Return the session that a file of a storage folder or an export holds; None for any other file."""
    if is_session_file(path):
        header = jsonslice.members_at(filesystem.small_file(path))
    else:
        with filesystem.open_file(path) as file:
            head = file.read(_EXPORT)
        if not OpenCode.recognises(head):
            return None
        header = jsonslice.members_at(head[: array_at(head, OpenCode.paths)] + b"]}", "info")
    session = text_at_path(header, ("id",))
    return KeptSession(session, text_at_path(header, ("parentID",)), path) if session else None


def _messages(path: str) -> str:
    storage = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    return os.path.join(storage, "message", os.path.basename(path).removesuffix(".json"))


def storage_stream(path: str) -> Iterator[bytes]:
    """Yield a session of a storage folder, the members of its own file in the order that an export has."""
    members = jsonslice.members_at(filesystem.small_file(path))
    info = {key: members.pop(key) for key in ("id", "slug", "projectID", "directory", "version") if key in members}
    info.setdefault("slug", b'""')
    folder = _messages(path)
    all_parts = os.path.join(os.path.dirname(os.path.dirname(folder)), "part")
    messages = sorted(_objects(folder, "role"), key=lambda message: (_created(message[1]), message[0]))
    documents = (
        (data, (part for _, part in _objects(os.path.join(all_parts, name), "type"))) for name, data in messages
    )
    return _document(jsonslice.object_of({**info, **members}), documents)


def _objects(folder: str, kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names of the objects in a folder, in their order, each with its content; none without a folder."""
    for name in filesystem.names(folder):
        stem = name.removesuffix(".json")
        if stem != name:
            yield stem, _with_id(stem, filesystem.small_file(os.path.join(folder, name)), kind)


def _created(message: bytes) -> int:
    """Return when a message was made, in ms; 0 if unknown."""
    return count_in(jsonslice.members_at(message, "time").get("created", b""), LATEST_MS) or 0
