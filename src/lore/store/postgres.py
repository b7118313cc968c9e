"""`postgresql://…`: sessions in a PostgreSQL database, safe under many writers.

In a database: schema `lore`, with the tables of `sql_tables` and one that says which version of it they are. It is made
where it is not there; a schema of that name of another program or version is refused untouched.
Rules:
- who writes to a session holds its row (`FOR UPDATE`) until the end: writers of one session wait for each other,
  writers of different sessions do not;
- `synchronous_commit` is on for what lore writes, whatever the server's default is; with `fsync` off nothing helps, and
  `verify` says so;
- a transaction begins with what must hold in it, whatever the server's defaults are (`_WANTED`), and with a look at
  the schema's version;
- a connection that broke is made again, and the call done again, for some seconds (`PostgresLink`): what broke before
  COMMIT was sent is undone by the server; what broke after may be stored, nobody knows; but every call of a store that
  is done twice changes nothing the second time;
- errors are told in lore's words, by SQLSTATE (PostgreSQL's documentation, appendix A), and for connections by what
  libpq says; passwords are never repeated: what libpq says of a URL that it cannot parse is not passed on.

Threads: an object is one connection, and calls wait for each other: open one for each thread that is to write at the
same time. Fork: a child process makes its own connection; that of its parent is never used, nor closed, in it. Who may
read: whoever the server lets in and GRANTs schema `lore` to; a user that may only SELECT can list and load.

What the URL may say is libpq's (its documentation, section 34.1.1): `connect_timeout`, `sslmode`,
`options=-clock_timeout=60s` and so on; PGPASSWORD and ~/.pgpass keep a password out of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from lore.model.canonical import printable
from lore.store.base import DamagedError, FormatError, StoreError, Tell, refuse_other_version
from lore.store.registry import shown
from lore.store.sql import SqlStore
from lore.store.sql_tables import POSTGRES, TABLES, VERSION, Transaction, Value, make_tables

SHAPE = "postgresql://HOST:PORT/DATABASE, a user and password before the host; percent-encode what is special in them"
DAMAGED = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted
CLASHES = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})  # the server ends, crashed, starts, or gave us up
STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting connections")
RESERVED = frozenset({"3F000", "42703", "42P01"})  # a schema, column or table that is ours is not there


_BY_STATE = {  # SQLSTATE: the message and the hint
    "25006": ("it takes no writes: a standby, or set to read only", "give the URL of the server that is written"),
    "42501": ("this user may not do that", "GRANT the user what it needs in schema lore, or use another user"),
    "53100": ("its disk is full", "make room; nothing of this call is stored"),
    "53200": ("it has no memory left", "save less at once; nothing of this call is stored"),
    "53300": ("it has no connection left", "close stores that are not used, or raise max_connections"),
    "54000": ("this is more than it can store at once", "save less at once"),
    "55P03": (
        "another writer holds what this call needs, longer than it may wait",
        "try again; pg_stat_activity shows who holds it, and `options=-clock_timeout=60s` in the URL waits longer",
    ),
    "57014": ("the statement was canceled", "raise statement_timeout, or try again"),
}
_BY_TEXT = {  # what a server or libpq says while connecting has no SQLSTATE
    "password": "see the password in the URL, in PGPASSWORD or in ~/.pgpass",
    "no pg_hba.conf entry": "let this user and host in, in the server's pg_hba.conf",
    "database": "create the database: `createdb NAME`",
    "role": "create the user: `createuser NAME`",
    "too many": "close stores that are not used, or raise max_connections",
    "translate host name": "see the host in the URL",
    "timeout expired": "see that the host can be reached; `connect_timeout=30` in the URL waits longer",
}
_ELSE = "see that the server runs, and that the URL names its host and port"


class ConnectionLostError(Exception):
    """The connection broke; `committing`: during COMMIT, so that what is stored is unknown."""

    def __init__(self, message: str, *, committing: bool = False) -> None:
        super().__init__(message)
        self.said = message
        self.committing = committing


class ClashError(Exception):
    """The server undid the transaction to let another go on: do it again."""


class UnreachableError(StoreError):
    """No connection; `soon`: the server says that it will accept one."""

    def __init__(self, message: str, *, hint: str, soon: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.soon = soon


def parsed(url: str) -> dict[str, str]:
    """Return what libpq reads from a URL; raises StoreError, that quotes nothing of it."""
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        found = {"port": "?"}
    doubtful = "@" in found.get("host", "") + found.get("dbname", "")  # a password's, that was not encoded
    ports = found.get("port", "").split(",")
    if doubtful or not all(port.isdecimal() or not port for port in ports):
        raise StoreError("the URL of the PostgreSQL store cannot be read", hint=SHAPE)
    return found


def unreachable(error: psycopg.Error, url: str, password: str) -> UnreachableError:
    """Return the error for a connection that cannot be made."""
    message = masked(str(error), password)
    soon = any(words in message for words in STARTING)
    hint = next((hint for words, hint in _BY_TEXT.items() if words in message.partition("FATAL:")[2]), "")
    hint = hint or next((hint for words, hint in _BY_TEXT.items() if " " in words and words in message), _ELSE)
    return UnreachableError(f"no connection to {url}: {message}", hint=hint, soon=soon)


def translated(error: psycopg.Error, url: str, password: str) -> StoreError:
    """Return lore's error for one of the database's."""
    state = error.sqlstate or ""
    message = masked(error.diag.message_primary or str(error), password)
    if state in DAMAGED:
        return DamagedError(f"{url}: the database cannot read what is stored: {message}", hint="restore a backup")
    if state in RESERVED:
        return FormatError(f"{url}: schema lore is not one of lore's stores: {message}", hint="give another database")
    if state not in _BY_STATE:
        return StoreError(f"{url}: PostgreSQL says: {message}", hint="nothing of this call is stored")
    words, hint = _BY_STATE[state]
    return StoreError(f"{url}: {words} ({message})", hint=hint)


def masked(text: str, password: str) -> str:
    """Return a message on one line, without the password."""
    line = printable(" ".join(text.split()))
    return line.replace(password, "***") if password else line


READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
# setting, the value that is not enough (in SQL), ours
_WANTED = (
    ("search_path", "NULL", "lore, pg_temp"),
    ("synchronous_commit", "'off'", "on"),  # what is acknowledged is on the server's disk
    ("lock_timeout", "'0'", "30s"),  # who waits for another writer does not wait for ever
    ("idle_in_transaction_session_timeout", "'0'", "60s"),  # nor does a client that is stopped hold up the others
)
_WAIT = "SELECT set_config('lock_timeout', '30s', false) WHERE current_setting('lock_timeout') = '0'"
_DEFAULTS = {
    "connect_timeout": "10",  # seconds
    "fallback_application_name": "lore",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # ms; a server whose host is gone says nothing
}
DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds before a call is done again

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class _Local:
    """What one process has of a link."""

    lock: Lock = field(default_factory=Lock)
    connection: psycopg.Connection[tuple[Any, ...]] | None = None


class PostgresLink:
    """A connection by a URL; `url` is how it may be shown."""

    def __init__(self, url: str, shown: str, tell: Tell, *, pause: Callable[[float], None] = time.sleep) -> None:
        """Read the URL, connect later; raises StoreError."""
        self.url = shown
        self.tell = tell
        self._pause = pause
        options = parsed(url)
        self._password = options.get("password", "")
        ours = {name: value for name, value in _DEFAULTS.items() if name not in options}
        if "PGCONNECT_TIMEOUT" in os.environ:
            ours.pop("connect_timeout", None)
        self._conninfo = make_conninfo(**{**ours, **options, "client_encoding": "utf8"})
        self._processes: dict[int, _Local] = {}
        self._closed = False

    def again(self, call: Callable[[], T]) -> T:
        """Return what a call returns; one whose connection broke, or that clashed with another, is done again.

        It must change nothing where it is done a second time. Raises what it raises; after the last try StoreError.
        """
        delays = iter(DELAYS)
        tried, unknown = False, False
        while True:
            try:
                return call()
            except UnreachableError as error:
                if not tried and not error.soon:
                    raise
                last: StoreError = self._gone(error.message, unknown=True) if unknown else error
            except ConnectionLostError as error:
                unknown = unknown or error.committing
                last = self._gone(f"the connection to {self.url} broke: {error.said}", unknown=unknown)
            except ClashError as error:
                last = StoreError(f"{self.url}: other writers were in the way each time: {error}", hint="try again")
            tried = True
            delay = next(delays, None)
            if delay is None:
                raise last
            self._pause(delay)

    def _gone(self, message: str, *, unknown: bool) -> StoreError:
        if not unknown:
            return StoreError(f"{message}; nothing was changed", hint="see that the server runs, and do it again")
        return StoreError(
            f"{message}; it broke while the change was committed: it is stored whole or not at all, not known which",
            hint="see that the server runs, and do the same again: what is stored already is not stored twice",
        )

    @contextmanager
    def transaction(self, begin: str, first: str = "SELECT 1") -> Generator[Cursor]:
        """Open a transaction of ours, with a first statement; raises ConnectionLostError and ClashError for `again`."""
        committing = False
        with self._held() as connection:
            try:
                cursor = Cursor(connection.cursor(), self)
                cursor.begin(f"{_opening(begin)}; {first}")
                yield cursor
                committing = begin == WRITE
                if committing:
                    self.commit(connection)
                else:
                    connection.execute("ROLLBACK")  # nothing to keep, and it may have met what cannot be read
            except psycopg.Error as error:
                translation = self._translated(error, connection, committing=committing)
                self._undo(connection)
                raise translation from error
            except BaseException:
                self._undo(connection)
                raise

    def commit(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """End a transaction: when it returns, what was written is stored.

        A transaction in which a statement failed, its error caught, is answered by ROLLBACK, and no error.
        """
        done = connection.execute("COMMIT").statusmessage
        if done != "COMMIT":
            raise psycopg.OperationalError(f"COMMIT was answered by {done}: nothing is stored")

    def alone(self, statements: Iterable[str]) -> None:
        """Run statements that the server takes only where no transaction is open."""
        with self._held() as connection:
            try:
                connection.execute(_WAIT)
                for statement in statements:
                    connection.execute(cast("LiteralString", statement))
                connection.execute("RESET lock_timeout")
            except psycopg.Error as error:
                translation = self._translated(error, connection)
                self._undo(connection)
                raise translation from error

    def close(self) -> None:
        """Close this process's connection, and make no other."""
        self._closed = True
        local = self._local()
        with local.lock:
            if local.connection is not None:
                local.connection.close()
                local.connection = None

    def _local(self) -> _Local:
        return self._processes.setdefault(os.getpid(), _Local())  # at once: two threads get the same

    @contextmanager
    def _held(self) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
        local = self._local()
        with local.lock:
            if self._closed:
                raise StoreError(f"the store {self.url} was closed", hint="open it again")
            if local.connection is None or local.connection.closed:
                local.connection = self._connect()
            yield local.connection

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            # no prepared statements: they break behind a pooler
            made = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise unreachable(error, self.url, self._password) from None
        made.add_notice_handler(self._hear)
        encoding = made.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            made.close()
            raise StoreError(
                f"{self.url}: the database is encoded in {encoding}, which has not every id",
                hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            )
        return made

    def _hear(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self.tell(f"{self.url}: {diagnostic.message_primary}")

    def _translated(
        self, error: psycopg.Error, connection: psycopg.Connection[tuple[Any, ...]], *, committing: bool = False
    ) -> Exception:
        translation = translated(error, self.url, self._password)
        if error.sqlstate in CLASHES:
            return ClashError(translation.message)
        if error.sqlstate in GONE or connection.closed:
            connection.close()
            return ConnectionLostError(translation.message, committing=committing)
        return translation

    def damaged(self, error: psycopg.Error) -> StoreError | None:
        """Return lore's error where the database cannot read its own files; None for another error."""
        return translated(error, self.url, self._password) if error.sqlstate in DAMAGED else None

    def _undo(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Roll back; a connection that cannot is closed, and the server does it."""
        status = connection.info.transaction_status
        if status is TransactionStatus.IDLE or connection.closed:
            return
        try:
            if status is TransactionStatus.ACTIVE:
                connection.close()
            else:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()


class Cursor:
    """A transaction, as the SQL stores use one."""

    def __init__(self, cursor: psycopg.Cursor[tuple[Any, ...]], link: PostgresLink) -> None:
        self._cursor = cursor
        self._link = link
        self.first: tuple[Any, ...] | None = None  # the row that the first statement gave

    def begin(self, sql: str) -> None:
        """Run what opens a transaction: statements in one journey, without values."""
        self._cursor.execute(cast("LiteralString", sql))
        while self._cursor.nextset():
            pass
        self.first = self._cursor.fetchone()

    def execute(self, sql: str, values: Sequence[Value] = ()) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows, all of them; none where it gives none."""
        try:
            self._cursor.execute(_spelled(sql), values, binary=True)
            return self._cursor.fetchall() if self._cursor.description else ()
        except psycopg.Error as error:
            damaged = self._link.damaged(error)
            if damaged is not None:
                raise damaged from error
            raise

    def executemany(self, sql: str, values: Iterable[Sequence[Value]]) -> None:
        """Run a statement once for each of these, without waiting for each."""
        self._cursor.executemany(_spelled(sql), values)


_MOST_SPELLED = 256  # texts of statements that are remembered as they are spelled


@lru_cache(maxsize=_MOST_SPELLED)
def _spelled(sql: str) -> LiteralString:
    """Spell a statement as psycopg wants it; none of lore's holds a question mark that is not a value's place."""
    return cast("LiteralString", sql.replace("%", "%%").replace("?", "%s"))


@lru_cache(maxsize=8)
def _opening(begin: str) -> str:
    rows = ", ".join(f"('{name}', {weak}, '{ours}')" for name, weak, ours in _WANTED)
    return (
        f"{begin}; SELECT pg_catalog.set_config(name, ours, true) FROM (VALUES {rows}) AS wanted (name, weak, ours) "  # noqa: S608
        "WHERE weak IS NULL OR pg_catalog.current_setting(name) = weak"
    )


# the store

_LOCK = 0x6C6F7265  # of the advisory lock under which the schema is made: "lore"
_STAMP = "CREATE TABLE lore_store (only_row BOOLEAN PRIMARY KEY CHECK (only_row), version BIGINT NOT NULL)"
_RELATIONS = (
    "SELECT relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace "
    "WHERE nspname = 'lore' AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')"
)
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace WHERE nspname = 'lore' AND relkind = 'r'"
)
_NOTED = {
    "fsync": "the server runs with fsync off: what is acknowledged can be lost when its machine stops",
    "full_page_writes": "the server runs with full_page_writes off: pages can be torn when its machine stops",
}


def _again(method: F) -> F:
    """Do a call again where its connection broke; each is done twice as if once."""

    @wraps(method)
    def call(self: Postgres, /, *args: Any, **kwargs: Any) -> Any:
        return self.link.again(lambda: method(self, *args, **kwargs))

    return cast("F", call)


class Postgres(SqlStore):
    """A store in schema `lore` of a PostgreSQL database."""

    lock = " FOR UPDATE"

    def __init__(self, link: PostgresLink) -> None:
        """Keep a link; `open` makes sure of what it leads to."""
        self.link, self.url = link, link.url

    @classmethod
    def open(cls, url: str, tell: Tell) -> Postgres:
        """Connect, and make the schema if it is missing.

        Raises FormatError for a schema of another program or version, StoreError if there is no connection.
        """
        store = cls(PostgresLink(url, shown(url), tell))
        try:
            store.prepare()
        except BaseException:
            store.close()
            raise
        return store

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[Transaction]:
        with self.link.transaction(WRITE if write else READ, "SELECT version FROM lore.lore_store") as tx:
            refuse_other_version(f"{self.url} has schema", -1 if tx.first is None else tx.first[0], VERSION)
            yield tx

    @_again
    def prepare(self) -> None:
        """Make the schema if it is missing. Clients that open a new database at once wait for each other."""
        with self.link.transaction(READ) as tx:
            if self._is_made(tx):
                return
        with self.link.transaction(WRITE, f"SELECT pg_advisory_xact_lock({_LOCK})") as tx:
            if self._is_made(tx):
                return
            if not tx.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'lore'"):
                tx.execute("CREATE SCHEMA lore")  # not IF NOT EXISTS, which asks for the right to create even so
            make_tables(tx, POSTGRES)
            tx.execute(_STAMP)
            tx.execute("INSERT INTO lore_store VALUES (true, ?)", (VERSION,))

    def _is_made(self, tx: Cursor) -> bool:
        """Return whether the schema is there; raises FormatError if it is another program's, or another version's."""
        names = {name for (name,) in tx.execute(_RELATIONS)}
        if not names:
            return False
        rows = tx.execute("SELECT version FROM lore.lore_store") if "lore_store" in names else ()
        if len(rows) != 1:
            raise FormatError(
                f"{self.url}: schema lore is another program's ({', '.join(sorted(names)[:3])})",
                hint="give another database; nothing was changed",
            )
        refuse_other_version(f"{self.url} has schema", rows[0][0], VERSION)
        return True

    def delete(self, session_id: str) -> tuple[str, ...]:
        """Delete a session and its forks; see `Store`.

        Where COMMIT was not answered and the session is not there any more, it was this call that deleted it.
        """
        gone: tuple[str, ...] = ()

        def once() -> tuple[str, ...]:
            nonlocal gone
            with self.transaction(write=True) as tx:
                if gone and self._find(tx, session_id) is None:
                    return gone
                gone = self._delete(tx, session_id)
                return gone

        return self.link.again(once)

    def notes(self) -> tuple[str, ...]:
        with self.transaction(write=False) as tx:
            return tuple(note for name, note in _NOTED.items() if tx.execute(f"SHOW {name}") == [("off",)])

    @_again
    def vacuum(self) -> int:
        """Rewrite each table without dead rows, under an exclusive lock. Costs O(the store)."""
        before = self._size()
        self.link.alone(f"VACUUM (FULL, ANALYZE) lore.{table}" for table in sorted(TABLES))
        return max(0, before - self._size())

    def _size(self) -> int:
        with self.transaction(write=False) as tx:
            return tx.execute(_SIZE)[0][0]

    def close(self) -> None:
        self.link.close()


for _name in (
    "create", "load", "save", "save_delta", "list", "move", "bind", "resolve", "prompt_deltas", "checkpoint",
    "save_checkpoint", "verify",
):  # fmt: skip
    setattr(Postgres, _name, _again(getattr(SqlStore, _name)))
