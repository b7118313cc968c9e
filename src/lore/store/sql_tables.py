"""The tables of the SQL stores and their rows: the same in every database, but for the names of a few types.

`sessions` says how far each session is stored, `events` has its lines with the digest behind each, `prompt_deltas`
the rows derived from them, `bindings` which session a client means. Rules:
- statements are written with `?` for each value, and use what sqlite and PostgreSQL have in common; values come back as
  they went in: int, str, bytes, None (an integer of PostgreSQL's NUMERIC as Decimal);
- ids are text, compared by code point;
- lines, selectors, contents, metadata, leaf ids and times are bytes: text columns of PostgreSQL refuse U+0000, those
  of sqlite half a surrogate pair, and JSON can hold both. They are UTF-8, lone surrogates encoded like any character;
- a `seq` may be any integer that JSON can spell (past 64 bits it is text in sqlite, which has no wider integer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from types import UnionType
from typing import Any, NamedTuple, Protocol

from lore.store.base import DamagedError, DeltaRow, Head, SessionState, SessionSummary, like
from lore.store.deltas import StoredView
from lore.store.lines import SEED, Row, SessionHeader, note, read_header

SqlValue = int | str | bytes | None
AT_ONCE = 256  # events that are in memory at once where a whole session is gone through


class SqlTransaction(Protocol):
    """One transaction: all of it is stored, or nothing. Errors of the database are StoreErrors at each call."""

    def execute(self, sql: str, values: Sequence[SqlValue] = ()) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows, all of them; none where it gives none."""
        ...

    def executemany(self, sql: str, values: Iterable[Sequence[SqlValue]]) -> None:
        """Run a statement once for each of these."""
        ...


def typed(rows: Sequence[tuple[Any, ...]], *kinds: type | UnionType) -> Sequence[tuple[Any, ...]]:
    """Return rows whose values are of these types: a bit that is flipped in a file can make text of bytes."""
    for row in rows:
        if not all(map(isinstance, row, kinds)):
            raise DamagedError("a row holds a value of another type than its column's")
    return rows


class Event(NamedTuple):
    """One row of `events`."""

    number: int
    line: bytes
    digest: bytes


def events_of(tx: SqlTransaction, session: int) -> Iterator[list[Event]]:
    """Go through a session's events, some at a time, by number."""
    after = 0
    while True:
        rows = tx.execute(
            "SELECT number, line, digest FROM events WHERE session = ? AND number > ? ORDER BY number LIMIT ?",
            (session, after, AT_ONCE),
        )
        if not rows:
            return
        yield [Event(*row) for row in typed(rows, int, bytes, bytes)]
        after = rows[-1][0]


def encoded(text: str | None) -> bytes | None:
    """Return text as a column of bytes keeps it."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def decoded(raw: bytes | None) -> str | None:
    """Decode a column of bytes; invalid UTF-8 is shown as escapes."""
    if raw is None:
        return None
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace")


# A session's row: its key, its head, and the fields of its summary, with the types of their values.
_HEAD = {"session": int, "head_number": int, "head_digest": bytes, "head_note": bytes}
_FIELDS = {
    "session_id": str, "project_id": str | None, "parent_session_id": str | None, "size": int, "turns": int,
    **dict.fromkeys(("created_at", "updated_at", "leaf_id", "user_id", "agent_id", "used_at"), bytes | None),
}  # fmt: skip
COLUMNS = ", ".join((*_HEAD, *_FIELDS))


def columns_of(state: SessionState, before: SessionState | None) -> dict[str, SqlValue]:
    """Return the columns of a session's row that differ from what they were; of a new one, all."""
    columns: dict[str, SqlValue] = {}
    for name in SessionState.__struct_fields__:
        value = getattr(state, name)
        if before is not None and value == getattr(before, name):
            continue
        if name == "head":
            digest, noted = bytes.fromhex(value.digest), bytes.fromhex(value.note)
            columns |= {"head_number": value.number, "head_digest": digest, "head_note": noted}
        else:
            columns[name] = encoded(value) if _FIELDS.get(name) == bytes | None else value
    return columns


class SqlSession(StoredView):
    """A session in a transaction: each look is one row, whatever its length."""

    def __init__(self, tx: SqlTransaction, row: tuple[Any, ...]) -> None:
        """Read a row of `COLUMNS`; raises DamagedError."""
        typed((row,), *_HEAD.values(), *_FIELDS.values())
        key, number, digest, noted, *values = row
        self.tx = tx
        self.key: int = key
        self._state: SessionState | None = None
        fields: dict[str, Any] = {
            name: decoded(value) if isinstance(value, bytes) else value
            for name, value in zip(_FIELDS, values, strict=True)
        }
        self.summary = SessionSummary(head=Head(number, digest.hex(), noted.hex()), **fields)

    @property
    def state(self) -> SessionState:
        if self._state is None:  # a list asks for no metadata
            rows = self.tx.execute("SELECT metadata FROM sessions WHERE session = ?", (self.key,))
            self._state = like(SessionState, self.summary, metadata=typed(rows, bytes)[0][0])
        return self._state

    def header(self) -> SessionHeader:
        lines = self.lines(0, 1)
        if not lines:
            raise DamagedError(f"session {self.summary.session_id!r}: event 1 is missing")
        return read_header(lines[0])

    def digest(self, number: int) -> str | None:
        """Return the digest behind an event, as it is stored; None where there is none."""
        if number == 0:
            return SEED.hex()
        sql = "SELECT digest FROM events WHERE session = ? AND number = ?"
        rows = typed(self.tx.execute(sql, (self.key, number)), bytes)
        return rows[0][0].hex() if rows else None

    def lines(self, after: int, count: int = 2**62) -> tuple[bytes, ...]:
        """Return at most `count` events that came after a number."""
        sql = "SELECT line FROM events WHERE session = ? AND number > ? AND number <= ? ORDER BY number"
        rows = self.tx.execute(sql, (self.key, after, after + count))
        lines = tuple(chain.from_iterable(rows))
        if not set(map(type, lines)) <= {bytes}:  # as `typed`, ten times faster
            typed(rows, bytes)
        return lines

    def check(self) -> None:
        """Look at what must hold before anything is built on it; raises DamagedError."""
        name, number = self.summary.session_id, self.head.number
        if note(self.leaf_id, self.metadata) != self.head.note:
            raise DamagedError(f"session {name!r}: leaf or metadata are not as they were written")
        if self.digest(number) != self.head.digest:
            message = f"session {name!r}: event {number}, its last, is missing or not as it was written"
            raise DamagedError(message)


def put_events(tx: SqlTransaction, session: int, first: int, lines: Iterable[bytes], digests: Iterable[bytes]) -> None:
    """Write events, numbered from `first` on."""
    rows = zip(lines, digests, strict=True)
    tx.executemany(
        "INSERT INTO events (session, number, line, digest) VALUES (?, ?, ?, ?)",
        ((session, number, line, digest) for number, (line, digest) in enumerate(rows, first)),
    )


def put_rows(tx: SqlTransaction, session_id: str, project_id: str | None, rows: Iterable[Row]) -> None:
    """Write records of prompt deltas, in order: a later one replaces the selector, never the content."""
    for row in rows:
        tx.execute(
            "INSERT INTO prompt_deltas (session_id, seq, project_id, selector, content) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (session_id, seq) DO UPDATE SET selector = excluded.selector, "
            "content = CASE WHEN prompt_deltas.content = ? THEN excluded.content ELSE prompt_deltas.content END",
            (session_id, row.seq if -(2**63) <= row.seq < 2**63 else str(row.seq), project_id, row.selector,
             row.content or b"null", b"null"),
        )  # fmt: skip


def kept_rows(tx: SqlTransaction, session_id: str) -> tuple[DeltaRow, ...]:
    """Return a session's rows of `prompt_deltas`, by `seq`."""
    rows = tx.execute(
        "SELECT seq, project_id, selector, content FROM prompt_deltas WHERE session_id = ?", (session_id,)
    )
    typed(rows, int | str | Decimal, str | None, bytes, bytes)
    try:
        found = [DeltaRow(session_id, int(seq), *row) for seq, *row in rows]
    except (ValueError, ArithmeticError) as error:
        raise DamagedError(f"session {session_id!r}: a prompt delta's seq is no integer") from error
    return tuple(sorted(found, key=lambda row: row.seq))


# The names of the types in sqlite; `strict` ends a CREATE TABLE.
SQLITE = {
    "key": "INTEGER PRIMARY KEY", "int": "INTEGER", "text": "TEXT", "bytes": "BLOB", "seq": "ANY", "strict": "STRICT",
}  # fmt: skip

SCHEMA_VERSION = 6  # of the schema
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
    """Make the tables and indexes, with the names that a database has for the types."""
    for statement in _SCHEMA:
        tx.execute(statement.format_map(types).strip())
