"""A store in an SQL database: everything that sqlite and PostgreSQL share.

`sessions` holds how far each session is stored, `events` its lines with the digest after each, `bindings` which session
a client means.

- A call is one transaction. A reader sees one state of the store.
- A writer of a session keeps other writers of it out: sqlite has one writer, PostgreSQL a lock on the session's row.
- A delta costs a look at the session's row and at its last event, and the new rows.
- `load` compares the digest of the lines that it read with the stored one: a line that was changed, is missing or out
  of order is an error, never less than was stored.
- `verify` compares each event with the digest stored before it, so one changed line is found alone.

Statements have `?` for each value and use what sqlite and PostgreSQL have in common. Ids are text, compared by code
point. Lines, metadata, leaf ids and times are bytes, because text columns of PostgreSQL refuse U+0000 and those of
sqlite lone surrogates, and JSON can hold both: they are UTF-8 with surrogates encoded like any character.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import resources
from itertools import chain
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from lore.store.base import (
    NOTHING_RECOVERABLE,
    DamagedError,
    DamagedPlace,
    Head,
    SessionData,
    SessionSummary,
    StoreError,
    UnknownSessionError,
    Verified,
)
from lore.store.deltas import Decide, DeltaStore, PendingChange, binding_conflict, plan_append, session_with_forks
from lore.store.lines import SEED, check_id, digest_lines, digest_notes, is_id, read_header

SqlValue: TypeAlias = int | str | bytes | None
_AT_ONCE = 256  # events of one query when a whole session is verified
_T = TypeVar("_T")


class SqlTransaction(Protocol):
    """One transaction: all of it is stored, or nothing. Errors of the database are StoreErrors."""

    def execute(self, sql: str, values: Sequence[SqlValue] = ()) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return all its rows."""
        ...

    def executemany(self, sql: str, values: Iterable[Sequence[SqlValue]]) -> None:
        """Run a statement once for each of these."""
        ...


SCHEMA_VERSION = 7
TABLES = frozenset({"sessions", "events", "bindings"})


def make_tables(tx: SqlTransaction, types: Mapping[str, str]) -> None:
    """Make the tables and indexes; `types` has what a database writes for each name in braces."""
    schema = resources.files("lore.store").joinpath("schema.sql").read_text("utf-8").partition("\n\n")[2]
    for statement in schema.split(";\n")[:-1]:
        tx.execute(statement.format_map(types).strip())


def _convert_rows(rows: object, kind: type[_T]) -> _T:
    """Return rows as this type; raises DamagedError: a flipped bit in a file can make text of bytes."""
    try:
        return msgspec.convert(rows, kind, builtin_types=(bytes,))
    except msgspec.ValidationError:
        raise DamagedError("a row holds a value of another type than its column's") from None


_AS_THEY_ARE = ("session_id", "project_id", "parent_session_id", "metadata", "size", "turns")
_AS_BYTES = ("created_at", "updated_at", "leaf_id", "user_id", "agent_id", "used_at")
_COLUMNS = ", ".join(("session", "head_number", "head_digest", "head_note", *_AS_THEY_ARE, *_AS_BYTES))
_Row: TypeAlias = tuple[
    int, int, bytes, bytes, str, str | None, str | None, bytes, int, int, bytes | None, bytes | None, bytes | None,
    bytes | None, bytes | None, bytes | None,
]  # fmt: skip


def _decode(raw: Any) -> str | None:
    """Decode a column of bytes; invalid UTF-8 is shown as escapes."""
    if raw is None:
        return None
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace")


def _columns_of(summary: SessionSummary) -> dict[str, SqlValue]:
    """Return the columns of a session's row, without its key."""
    number, digest, note = summary.head
    texts = {name: getattr(summary, name) for name in _AS_BYTES}
    return {
        "head_number": number, "head_digest": bytes.fromhex(digest), "head_note": bytes.fromhex(note),
        **{name: getattr(summary, name) for name in _AS_THEY_ARE},
        **{name: text and text.encode("utf-8", "surrogatepass") for name, text in texts.items()},
    }  # fmt: skip


class SqlSession:
    """A stored session in a transaction. Each look is one row, whatever the session's length."""

    def __init__(self, tx: SqlTransaction, row: tuple[Any, ...]) -> None:
        """`row` has `_COLUMNS`; raises DamagedError."""
        self.key, number, digest, note, *values = _convert_rows(row, _Row)
        plain, texts = values[: len(_AS_THEY_ARE)], values[len(_AS_THEY_ARE) :]
        names = (*_AS_THEY_ARE, *_AS_BYTES)
        fields: dict[str, Any] = dict(zip(names, (*plain, *map(_decode, texts)), strict=True))
        self._tx, self.summary = tx, SessionSummary(head=Head(number, digest.hex(), note.hex()), **fields)

    def digest(self, number: int) -> str | None:
        """Return the stored digest after event `number` (0: before the first); None if there is no such event."""
        if number == 0:
            return SEED.hex()
        sql = "SELECT digest FROM events WHERE session = ? AND number = ?"
        rows = _convert_rows(self._tx.execute(sql, (self.key, number)), list[tuple[bytes]])
        return rows[0][0].hex() if rows else None

    def lines(self, after: int, count: int = 2**62) -> tuple[bytes, ...]:
        """Return at most `count` events, those after event `after`."""
        sql = "SELECT line FROM events WHERE session = ? AND number > ? AND number <= ? ORDER BY number"
        rows = self._tx.execute(sql, (self.key, after, after + count))
        return tuple(chain.from_iterable(_convert_rows(rows, list[tuple[bytes]])))

    def events(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield number, line and digest of all events; raises DamagedError."""
        after, limit, failure = 0, _AT_ONCE, None
        sql = "SELECT number, line, digest FROM events WHERE session = ? AND number > ? ORDER BY number LIMIT ?"
        while True:
            try:
                rows = self._tx.execute(sql, (self.key, after, limit))
            except Exception as error:  # noqa: BLE001 - PostgreSQL refuses further statements with other errors
                if failure is not None:
                    raise failure from None
                failure, limit = error, 1  # one by one up to the damaged page
                continue
            if not rows:
                return
            yield from _convert_rows(rows, list[tuple[int, bytes, bytes]])
            after = rows[-1][0]

    def check_end(self) -> None:
        """Raise DamagedError if the last event or the notes are damaged: nothing may be added to them."""
        name, head = self.summary.session_id, self.summary.head
        if digest_notes(self.summary.leaf_id, self.summary.metadata) != head.note:
            raise DamagedError(f"session {name!r}: leaf or metadata are not as they were written")
        if self.digest(head.number) != head.digest:
            message = f"session {name!r}: event {head.number}, its last, is missing or not as it was written"
            raise DamagedError(message)


def _write(tx: SqlTransaction, session: SqlSession | None, change: PendingChange) -> bool:
    """Write a change to a session's row, or a new row, and its events; returns False if another writer created it."""
    columns = _columns_of(change.after)
    if session is None:
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        sql = f"INSERT INTO sessions ({names}) VALUES ({places}) ON CONFLICT (session_id) DO NOTHING RETURNING session"  # noqa: S608
        rows = tx.execute(sql, tuple(columns.values()))
        if not rows:
            return False
        key = rows[0][0]
    else:
        key, previous = session.key, _columns_of(change.before)
        changed = {name: value for name, value in columns.items() if value != previous[name]}
        names = ", ".join(f"{name} = ?" for name in changed)
        tx.execute(f"UPDATE sessions SET {names} WHERE session = ?", (*changed.values(), key))  # noqa: S608
    events = enumerate(zip(change.lines, change.digests, strict=True), change.before.head.number + 1)
    sql = "INSERT INTO events (session, number, line, digest) VALUES (?, ?, ?, ?)"
    tx.executemany(sql, ((key, number, line, digest) for number, (line, digest) in events))
    return True


class SqlStore(DeltaStore):
    """Sessions in the tables of an SQL database."""

    lock: ClassVar[str] = ""  # ends a SELECT of a session's row that will be written

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[SqlTransaction]:
        """Open a transaction as `_transaction`; errors about damage name the command that shows it."""
        with self._name_command(), self._transaction(write=write) as tx:
            yield tx

    @abstractmethod
    def _transaction(self, *, write: bool) -> AbstractContextManager[SqlTransaction]:
        """Open a transaction: committed at its end, rolled back on an error.

        One that does not write sees one state of the store from its first statement on. Errors of the database leave it
        as StoreError or DamagedError.
        """

    def integrity(self) -> Sequence[DamagedPlace]:
        """Return what the database itself finds damaged in its files."""
        return ()

    def notes(self) -> tuple[str, ...]:
        """Return remarks about the store that are not damage."""
        return ()

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)
        with self.transaction(write=False) as tx:
            session = self._get(tx, session_id)
            summary, head = session.summary, session.summary.head
            start = min(after, head.number)
            lines, base = session.lines(start), bytes.fromhex(session.digest(start) or "")
            last = [base, *digest_lines(base, lines)][-1].hex()
            is_whole = len(lines) == head.number - start and last == head.digest
            if not is_whole or digest_notes(summary.leaf_id, summary.metadata) != head.note:
                _, damage = _find_damage(session)
                reason = f"{damage.place}: {damage.message}" if damage else "it changed"
                raise DamagedError(f"session {session_id!r}: {reason}")
        return summary.with_events(lines, after + 1)

    def intact_events(self, session_id: str) -> tuple[bytes, ...]:
        with self.transaction(write=False) as tx:
            return tuple(_find_damage(self._get(tx, session_id))[0])

    def _change(self, session_id: str, decide: Decide) -> Head:
        with self.transaction(write=True) as tx:
            while True:
                session = self._find(tx, session_id, write=True)
                if session is not None:
                    session.check_end()
                change = decide(session)
                if isinstance(change, Head):
                    return change
                if _write(tx, session, change):
                    return change.after.head

    def delete(self, session_id: str) -> tuple[str, ...]:
        with self.transaction(write=True) as tx:
            return self._delete(tx, session_id)

    def _delete(self, tx: SqlTransaction, session_id: str) -> tuple[str, ...]:
        self._get(tx, session_id, write=True)
        deleted = session_with_forks(session_id, _parents(tx))
        tx.executemany("DELETE FROM sessions WHERE session_id = ?", ((name,) for name in deleted))
        return deleted

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        where, values = ("", ()) if project_id is None else (" WHERE project_id = ?", (project_id,))
        if project_id is not None and not is_id(project_id):
            return []
        with self.transaction(write=False) as tx:
            rows = tx.execute(f"SELECT {_COLUMNS} FROM sessions{where} ORDER BY session_id", values)  # noqa: S608
            return [SqlSession(tx, row).summary for row in rows]

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        check_id(client_key, "client key")
        with self.transaction(write=True) as tx:
            session = self._get(tx, session_id, write=True)
            then = "DO UPDATE SET session = excluded.session" if replace else "DO NOTHING"
            sql = f"INSERT INTO bindings (client_key, session) VALUES (?, ?) ON CONFLICT (client_key) {then}"  # noqa: S608
            tx.execute(sql, (client_key, session.key))
            bound_session = _resolve(tx, client_key)
            if bound_session != session_id:
                raise binding_conflict(bound_session)

    def resolve(self, client_key: str) -> str | None:
        if not is_id(client_key):
            return None
        with self.transaction(write=False) as tx:
            return _resolve(tx, client_key)

    def verify(self, session_id: str | None = None) -> Verified:
        """Recompute every digest, and compare the rows of sessions with their events. Costs O(bytes).

        Each session is verified in a transaction of its own. Unreadable rows are damage.
        """
        if session_id is not None:
            verified = self._verify(session_id)
            if verified is None:
                raise UnknownSessionError(session_id)
            return msgspec.structs.replace(verified, notes=self.notes()).with_commands(self.url)
        damage, names = [*self.integrity()], list[str]()
        try:
            with self.transaction(write=False) as tx:
                names = sorted(_parents(tx))
        except DamagedError as error:
            damage.append(DamagedPlace(None, None, "tables", error.message, "the sessions that can be listed"))
        return Verified.of(map(self._verify, names), damage, self.notes()).with_commands(self.url)

    def _verify(self, session_id: str) -> Verified | None:
        try:
            with self.transaction(write=False) as tx:
                session = self._find(tx, session_id)
                if session is None:
                    return None
                lines, damage = _find_damage(session)
                return Verified(1, len(lines), () if damage is None else (damage,))
        except DamagedError as error:
            damage = DamagedPlace(session_id, None, "sessions row", error.message, NOTHING_RECOVERABLE)
            return Verified(1, 0, (damage,))

    def _find(self, tx: SqlTransaction, session_id: str, *, write: bool = False) -> SqlSession | None:
        if not is_id(session_id):
            return None
        lock = self.lock if write else ""
        rows = tx.execute(f"SELECT {_COLUMNS} FROM sessions WHERE session_id = ?{lock}", (session_id,))  # noqa: S608
        return SqlSession(tx, rows[0]) if rows else None

    def _get(self, tx: SqlTransaction, session_id: str, *, write: bool = False) -> SqlSession:
        session = self._find(tx, session_id, write=write)
        if session is None:
            raise UnknownSessionError(session_id)
        return session


def _parents(tx: SqlTransaction) -> dict[str, str | None]:
    """Return all sessions with their parents."""
    rows = tx.execute("SELECT session_id, parent_session_id FROM sessions")
    return dict(_convert_rows(rows, list[tuple[str, str | None]]))


def _resolve(tx: SqlTransaction, client_key: str) -> str | None:
    sql = "SELECT session_id FROM bindings JOIN sessions USING (session) WHERE client_key = ?"
    rows = _convert_rows(tx.execute(sql, (client_key,)), list[tuple[str]])
    return rows[0][0] if rows else None


def _find_damage(session: SqlSession) -> tuple[list[bytes], DamagedPlace | None]:
    """Return the events before the first damaged place, and this place; compares digests, and the session's row."""
    summary, lines, digest = session.summary, list[bytes](), SEED
    is_whole, unreadable = False, ""
    try:
        for number, line, stored in session.events():
            digest = digest_lines(digest, (line,))[0]
            if (number, stored) != (len(lines) + 1, digest) or number > summary.head.number:
                break
            lines.append(line)
        else:
            is_whole = len(lines) == summary.head.number
    except StoreError as error:  # a page that the database cannot read
        unreadable = f"the database cannot read them: {error}"
    next_number = len(lines) + 1
    if unreadable:
        place = next_number, f"events after row {len(lines)}", unreadable
    elif not is_whole:
        place = next_number, f"events row {next_number}", "the event is missing, or not as it was written"
    elif not _is_summary_of(summary, lines):
        place = None, "sessions row", "it does not match its events"
    else:
        return lines, None
    intact = "every event before it" if lines else NOTHING_RECOVERABLE
    return lines, DamagedPlace(summary.session_id, *place, intact)


def _is_summary_of(summary: SessionSummary, lines: Sequence[bytes]) -> bool:
    """Return whether a session's row is what its events and its notes make it."""
    names = ("project_id", "leaf_id", "metadata", "created_at", "updated_at")  # that no event holds
    try:
        header = read_header(lines[0])
    except StoreError:
        return False
    return plan_append(header, lines, **{name: getattr(summary, name) for name in names}).after == summary
