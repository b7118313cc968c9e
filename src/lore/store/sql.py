"""A store in an SQL database: everything that sqlite and PostgreSQL share.

`sessions` holds how far each session is stored, `events` its lines with the digest after each, `prompt_deltas` the
rows derived from them, `bindings` which session a client means.

- A call is one transaction. A reader sees one state of the store.
- A writer of a session keeps other writers of it out: sqlite has one writer, PostgreSQL a lock on the session's row.
- A delta costs a look at the session's row and at its last event, and the new rows.
- `load` compares the digest of the lines that it read with the stored one: a line that was changed, is missing or out
  of order is an error, never less than was stored.
- `verify` compares each event with the digest stored before it, so one changed line is found alone, and compares
  derived rows with the events.

Statements have `?` for each value and use what sqlite and PostgreSQL have in common. Ids are text, compared by code
point. Lines, selectors, contents, metadata, leaf ids and times are bytes, because text columns of PostgreSQL refuse
U+0000 and those of sqlite lone surrogates, and JSON can hold both: they are UTF-8 with surrogates encoded like any
character. A `seq` may be any integer that JSON can spell: past 64 bits it is text in sqlite, NUMERIC in PostgreSQL.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from lore.store.base import (
    DamagedError,
    DamagedPlace,
    DeltaRow,
    Head,
    SessionData,
    SessionSummary,
    StoreError,
    UnknownSessionError,
    Verified,
)
from lore.store.deltas import Decide, DeltaStore, PendingChange, refuse_binding, session_with_forks
from lore.store.lines import (
    SEED,
    Row,
    check_id,
    count_activity,
    digest_lines,
    digest_notes,
    is_id,
    merge_rows,
    read_header,
    rows_of,
)

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


# the tables

SCHEMA_VERSION = 6
TABLES = frozenset({"sessions", "events", "prompt_deltas", "bindings"})
_SCHEMA = (
    """
CREATE TABLE sessions (
    session {key},
    session_id {text} NOT NULL UNIQUE,
    project_id {text},
    parent_session_id {text},
    created_at {bytes},
    updated_at {bytes},
    leaf_id {bytes},
    metadata {bytes} NOT NULL,
    head_number {int} NOT NULL CHECK (head_number >= 1),
    head_digest {bytes} NOT NULL CHECK (length(head_digest) = 32),
    head_note {bytes} NOT NULL CHECK (length(head_note) = 32),
    size {int} NOT NULL CHECK (size >= 0),
    user_id {bytes},
    agent_id {bytes},
    turns {int} NOT NULL,
    used_at {bytes}
) {strict}
""",
    "CREATE INDEX sessions_by_project ON sessions (project_id)",
    """
CREATE TABLE events (
    session {int} NOT NULL REFERENCES sessions (session) ON DELETE CASCADE,
    number {int} NOT NULL CHECK (number >= 1),
    line {bytes} NOT NULL,
    digest {bytes} NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (session, number)
) {strict}
""",
    """
CREATE TABLE prompt_deltas (
    session_id {text} NOT NULL REFERENCES sessions (session_id) ON DELETE CASCADE,
    seq {seq} NOT NULL,
    project_id {text},
    selector {bytes} NOT NULL,
    content {bytes} NOT NULL,
    PRIMARY KEY (session_id, seq)
) {strict}
""",
    "CREATE INDEX prompt_deltas_by_project ON prompt_deltas (project_id)",
    """
CREATE TABLE bindings (
    client_key {text} NOT NULL PRIMARY KEY,
    session {int} NOT NULL REFERENCES sessions (session) ON DELETE CASCADE
) {strict}
""",
    "CREATE INDEX bindings_by_session ON bindings (session)",
)


def make_tables(tx: SqlTransaction, types: Mapping[str, str]) -> None:
    """Make the tables and indexes; `types` has what a database writes for each name in braces."""
    for statement in _SCHEMA:
        tx.execute(statement.format_map(types).strip())


# rows


def _typed(rows: object, kind: type[_T]) -> _T:
    """Return rows as this type; raises DamagedError: a flipped bit in a file can make text of bytes."""
    try:
        return msgspec.convert(rows, kind, builtin_types=(bytes,))
    except msgspec.ValidationError:
        raise DamagedError("a row holds a value of another type than its column's") from None


class _SessionRow(NamedTuple):
    session: int
    session_id: str
    project_id: str | None
    parent_session_id: str | None
    created_at: bytes | None
    updated_at: bytes | None
    leaf_id: bytes | None
    metadata: bytes
    head_number: int
    head_digest: bytes
    head_note: bytes
    size: int
    user_id: bytes | None
    agent_id: bytes | None
    turns: int
    used_at: bytes | None


_COLUMNS = ", ".join(_SessionRow._fields)


class _EventRow(NamedTuple):
    number: int
    line: bytes
    digest: bytes


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _decode(raw: bytes | None) -> str | None:
    """Decode a column of bytes; invalid UTF-8 is shown as escapes."""
    if raw is None:
        return None
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace")


def _columns_of(summary: SessionSummary) -> dict[str, SqlValue]:
    """Return the columns of a session's row, without its key."""
    head = summary.head
    columns: dict[str, SqlValue] = {
        "head_number": head.number, "head_digest": bytes.fromhex(head.digest), "head_note": bytes.fromhex(head.note),
    }  # fmt: skip
    for name in ("session_id", "project_id", "parent_session_id", "metadata", "size", "turns"):
        columns[name] = getattr(summary, name)
    for name in ("created_at", "updated_at", "leaf_id", "user_id", "agent_id", "used_at"):
        columns[name] = _encode(getattr(summary, name))
    return columns


class SqlSession:
    """A stored session in a transaction. Each look is one row, whatever the session's length."""

    def __init__(self, tx: SqlTransaction, row: tuple[Any, ...]) -> None:
        """`row` has `_COLUMNS`; raises DamagedError."""
        found = _typed(row, _SessionRow)
        self._tx = tx
        self.key = found.session
        self.summary = SessionSummary(
            session_id=found.session_id, head=Head(found.head_number, found.head_digest.hex(), found.head_note.hex()),
            size=found.size, project_id=found.project_id, parent_session_id=found.parent_session_id,
            leaf_id=_decode(found.leaf_id), metadata=found.metadata, created_at=_decode(found.created_at),
            updated_at=_decode(found.updated_at), user_id=_decode(found.user_id), agent_id=_decode(found.agent_id),
            turns=found.turns, used_at=_decode(found.used_at),
        )  # fmt: skip

    def digest(self, number: int) -> str | None:
        """Return the stored digest after event `number` (0: before the first); None if there is no such event."""
        if number == 0:
            return SEED.hex()
        sql = "SELECT digest FROM events WHERE session = ? AND number = ?"
        rows = _typed(self._tx.execute(sql, (self.key, number)), list[tuple[bytes]])
        return rows[0][0].hex() if rows else None

    def lines(self, after: int, count: int = 2**62) -> tuple[bytes, ...]:
        """Return at most `count` events, those after event `after`."""
        sql = "SELECT line FROM events WHERE session = ? AND number > ? AND number <= ? ORDER BY number"
        rows = self._tx.execute(sql, (self.key, after, after + count))
        return tuple(chain.from_iterable(_typed(rows, list[tuple[bytes]])))

    def events(self) -> Iterator[list[_EventRow]]:
        """Yield all events with their digests, some at a time."""
        after = 0
        sql = "SELECT number, line, digest FROM events WHERE session = ? AND number > ? ORDER BY number LIMIT ?"
        while rows := _typed(self._tx.execute(sql, (self.key, after, _AT_ONCE)), list[_EventRow]):
            yield rows
            after = rows[-1].number

    def prompt_deltas(self) -> tuple[DeltaRow, ...]:
        """Return the rows of `prompt_deltas`, by `seq`."""
        name = self.summary.session_id
        sql = "SELECT seq, project_id, selector, content FROM prompt_deltas WHERE session_id = ?"
        rows = _typed(self._tx.execute(sql, (name,)), list[tuple[Any, str | None, bytes, bytes]])
        try:
            found = [DeltaRow(name, int(seq), project, selector, text) for seq, project, selector, text in rows]
        except (TypeError, ValueError, ArithmeticError) as error:
            raise DamagedError(f"session {name!r}: a prompt delta's seq is not an integer") from error
        return tuple(sorted(found, key=lambda row: row.seq))

    def check_end(self) -> None:
        """Raise DamagedError if the last event or the notes are damaged: nothing may be added to them."""
        name, head = self.summary.session_id, self.summary.head
        if digest_notes(self.summary.leaf_id, self.summary.metadata) != head.note:
            raise DamagedError(f"session {name!r}: leaf or metadata are not as they were written")
        if self.digest(head.number) != head.digest:
            message = f"session {name!r}: event {head.number}, its last, is missing or not as it was written"
            raise DamagedError(message)


# the store


class SqlStore(DeltaStore):
    """Sessions in the tables of an SQL database."""

    lock: ClassVar[str] = ""  # ends a SELECT of a session's row that will be written

    @abstractmethod
    def transaction(self, *, write: bool) -> AbstractContextManager[SqlTransaction]:
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

    @abstractmethod
    def vacuum(self) -> int:
        """Free space that nothing needs; returns by how many bytes the store became smaller."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. The store cannot be used any more."""

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)
        with self.transaction(write=False) as tx:
            session = self._get(tx, session_id)
            summary, head = session.summary, session.summary.head
            start = min(after, head.number)
            lines, base = session.lines(start), session.digest(start)
            last = None if base is None else [bytes.fromhex(base), *digest_lines(bytes.fromhex(base), lines)][-1].hex()
            is_whole = len(lines) == head.number - start and last == head.digest
            if not is_whole or digest_notes(summary.leaf_id, summary.metadata) != head.note:
                damage = verify_session(session).damage
                found = f"{damage[0].place}: {damage[0].message}" if damage else "it changed"
                raise DamagedError(f"session {session_id!r}: {found}")
        return summary.with_events(lines, after + 1)

    def _change(self, session_id: str, decide: Decide) -> Head:
        with self.transaction(write=True) as tx:
            while True:
                session = self._find(tx, session_id, write=True)
                if session is not None:
                    session.check_end()
                change = decide(session)
                if change.after is None or _write(tx, session, change):
                    return change.head

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
            known = _resolve(tx, client_key)
            if known != session_id:
                raise refuse_binding(known)

    def resolve(self, client_key: str) -> str | None:
        if not is_id(client_key):
            return None
        with self.transaction(write=False) as tx:
            return _resolve(tx, client_key)

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        with self.transaction(write=False) as tx:
            return self._get(tx, session_id).prompt_deltas()

    def verify(self, session_id: str | None = None) -> Verified:
        """Recompute every digest, and compare rows with the events that they come from. Costs O(bytes).

        Each session is verified in a transaction of its own. Unreadable rows are damage.
        """
        if session_id is not None:
            verified = self._verify(session_id)
            if verified is None:
                raise UnknownSessionError(session_id)
            return msgspec.structs.replace(verified, notes=self.notes())
        damage, names = [*self.integrity()], list[str]()
        try:
            with self.transaction(write=False) as tx:
                names = sorted(_parents(tx))
                damage += _find_orphans(tx)
        except DamagedError as error:
            damage.append(DamagedPlace(None, None, "tables", error.message, "the sessions that can be listed"))
        return Verified.of((Verified(0, 0, tuple(damage)), *map(self._verify, names)), notes=self.notes())

    def _verify(self, session_id: str) -> Verified | None:
        try:
            with self.transaction(write=False) as tx:
                session = self._find(tx, session_id)
                return None if session is None else verify_session(session)
        except DamagedError as error:
            damage = DamagedPlace(session_id, None, "sessions row", error.message, "nothing is known of it")
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
    return dict(_typed(rows, list[tuple[str, str | None]]))


def _resolve(tx: SqlTransaction, client_key: str) -> str | None:
    sql = "SELECT session_id FROM bindings JOIN sessions USING (session) WHERE client_key = ?"
    rows = _typed(tx.execute(sql, (client_key,)), list[tuple[str]])
    return rows[0][0] if rows else None


def _write(tx: SqlTransaction, session: SqlSession | None, change: PendingChange) -> bool:
    """Write a change; returns False if the session is new and another writer has created it meanwhile."""
    assert change.before is not None
    assert change.after is not None
    columns, after = _columns_of(change.after), change.after
    if session is None:
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        sql = f"INSERT INTO sessions ({names}) VALUES ({places}) ON CONFLICT (session_id) DO NOTHING RETURNING session"  # noqa: S608
        rows = tx.execute(sql, tuple(columns.values()))
        if not rows:
            return False
        key = rows[0][0]
    else:
        known, key = _columns_of(change.before), session.key
        columns = {name: value for name, value in columns.items() if value != known[name]}
        names = ", ".join(f"{name} = ?" for name in columns)
        tx.execute(f"UPDATE sessions SET {names} WHERE session = ?", (*columns.values(), key))  # noqa: S608
        if "project_id" in columns:
            sql = "UPDATE prompt_deltas SET project_id = ? WHERE session_id = ?"
            tx.execute(sql, (after.project_id, after.session_id))
    events = enumerate(zip(change.lines, change.digests, strict=True), change.before.head.number + 1)
    tx.executemany(
        "INSERT INTO events (session, number, line, digest) VALUES (?, ?, ?, ?)",
        ((key, number, line, digest) for number, (line, digest) in events),
    )
    for row in rows_of(change.lines):
        _write_prompt_delta(tx, after, row)
    return True


def _write_prompt_delta(tx: SqlTransaction, summary: SessionSummary, row: Row) -> None:
    """Write a record of a prompt delta: a later one replaces the selector, never the content."""
    seq = row.seq if -(2**63) <= row.seq < 2**63 else str(row.seq)
    tx.execute(
        "INSERT INTO prompt_deltas (session_id, seq, project_id, selector, content) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (session_id, seq) DO UPDATE SET selector = excluded.selector, "
        "content = CASE WHEN prompt_deltas.content = ? THEN excluded.content ELSE prompt_deltas.content END",
        (summary.session_id, seq, summary.project_id, row.selector, row.content or b"null", b"null"),
    )


# verifying


class _Fault(NamedTuple):
    number: int | None
    place: str
    message: str


def verify_session(session: SqlSession) -> Verified:
    """Compare everything that is stored of one session with its events. Costs O(bytes)."""
    summary, head, events = session.summary, session.summary.head, list[_EventRow]()
    failure = None
    try:
        for rows in session.events():
            events += rows
    except StoreError as error:  # a page that the database cannot read: the rows before it count
        failure = error
    within = [event for event in events if event.number <= head.number]
    faults = _compare_digests(within)
    if failure is None:
        faults += _compare_end(events, within, head)
        faults += _compare_row(within, summary, is_whole=not faults)
        try:
            derived = merge_rows(summary.session_id, summary.project_id, rows_of(event.line for event in within))
            faults += _compare_prompt_deltas(derived, session.prompt_deltas())
        except StoreError as error:
            failure = error
    if failure is not None:
        last = within[-1].number if within else 0
        faults.append(_Fault(last + 1, f"events after row {last}", f"the database cannot read them: {failure}"))
    left = "every event that is not named" if within else "nothing"
    return Verified(1, len(within), tuple(DamagedPlace(summary.session_id, *fault, left) for fault in faults))


def _compare_digests(events: Iterable[_EventRow]) -> list[_Fault]:
    """Compare each event with the digest stored before it."""
    faults: list[_Fault] = []
    last, previous = 0, SEED  # number and stored digest of the last event
    derived: bytes | None = None  # the digest that the last event should have, if it has another
    for number, line, digest in events:
        place = f"events row {number}"
        if number != last + 1:
            faults.append(_Fault(last + 1, f"events row {last + 1}", f"{_events(last + 1, number - 1)} missing"))
            faults.append(_Fault(number, place, "it cannot be checked: the event before it is missing"))
        elif (expected := digest_lines(previous, (line,))[0]) == digest:
            derived = None
        elif derived is not None and digest_lines(derived, (line,))[0] == digest:
            faults[-1] = _Fault(last, f"events row {last}", "its digest is damaged, its line is whole")
            derived = None
        else:
            faults.append(_Fault(number, place, "its line is not as it was written"))
            derived = expected
        last, previous = number, digest
    return faults


def _compare_end(events: Sequence[_EventRow], within: Sequence[_EventRow], head: Head) -> Iterator[_Fault]:
    """Compare the last event with the stored head."""
    following = head.number + 1
    if len(events) > len(within):
        extra = _events(following, events[-1].number)
        yield _Fault(following, f"events row {following}", f"{extra} after the stored head")
    last, digest = (within[-1].number, within[-1].digest) if within else (0, SEED)
    if last < head.number:
        yield _Fault(last + 1, f"events row {last + 1}", f"{_events(last + 1, head.number)} missing")
    elif digest.hex() != head.digest:
        yield _Fault(None, "sessions row", "its digest is not that of the last event")


def _events(first: int, last: int) -> str:
    return f"event {first} is" if first == last else f"events {first} to {last} are"


def _compare_row(events: Sequence[_EventRow], summary: SessionSummary, *, is_whole: bool) -> Iterator[_Fault]:
    """Compare the session's row with its events; with `is_whole` none of them is damaged."""
    if digest_notes(summary.leaf_id, summary.metadata) != summary.head.note:
        yield _Fault(None, "sessions row", "leaf or metadata are not as they were written")
    size = sum(len(event.line) for event in events) + len(events)
    if events and events[-1].number == summary.head.number == len(events) and size != summary.size:
        yield _Fault(None, "sessions row", f"its size is {summary.size}, that of its events {size}")
    if not events or events[0].number != 1:
        return
    try:
        header = read_header(events[0].line)
    except StoreError as error:
        yield _Fault(1, "events row 1", error.message)
        return
    if (header.session_id, header.parent_session_id) != (summary.session_id, summary.parent_session_id):
        yield _Fault(1, "sessions row", "its id or its parent is not that of the header")
    if (header.user_id, header.agent_id) != (summary.user_id, summary.agent_id):
        yield _Fault(1, "sessions row", "its user or its agent is not that of the header")
    if is_whole and count_activity([event.line for event in events]) != (summary.turns, summary.used_at):
        yield _Fault(None, "sessions row", "its turns or its last use are not those of its events")


def _compare_prompt_deltas(derived: Iterable[DeltaRow], stored: Iterable[DeltaRow]) -> Iterator[_Fault]:
    """Compare the rows of prompt deltas with those that the events make."""
    expected, found = {row.seq: row for row in derived}, {row.seq: row for row in stored}
    for seq in sorted(expected.keys() | found.keys()):
        if expected.get(seq) != found.get(seq):
            message = "it is not as the events say" if seq in found else "it is missing"
            yield _Fault(None, f"prompt_deltas row {seq}", message if seq in expected else "no event makes it")


def _find_orphans(tx: SqlTransaction) -> list[DamagedPlace]:
    """Return the rows that belong to no session."""
    keys = {"events": ("session", "session"), "bindings": ("client_key", "session"),
            "prompt_deltas": ("session_id", "session_id")}  # fmt: skip
    return [
        DamagedPlace(None, None, f"{table} of {name!r}", f"{count} rows belong to no session", "the rows themselves")
        for table, (shown, key) in keys.items()
        for name, count in tx.execute(
            f"SELECT {shown}, count(*) FROM {table} WHERE {key} NOT IN (SELECT {key} FROM sessions) GROUP BY {shown}"  # noqa: S608
        )
    ]
