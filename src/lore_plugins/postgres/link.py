"""A connection to PostgreSQL: transactions, and calls that are repeated after a broken connection.

- A transaction starts with the settings that it needs, whatever the defaults of the server are (`_SESSION_SETTINGS`).
- A call whose connection broke is repeated for some seconds. Before COMMIT, the server rolls back; after COMMIT was
  sent, the data may be stored or not. Repeating a call of a store never changes the result.
- Each object has one connection, and calls of several threads wait for each other. After a fork, the child makes its
  own connection, and neither uses nor closes that of its parent.
- Errors of statements are recognised by SQLSTATE (appendix A of PostgreSQL's documentation), those of connecting by
  text. No message contains a password: libpq's message about a URL that it cannot parse is not shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from lore.store import DamagedError, FormatError, SqlValue, StoreError, Tell

_SHAPE = "postgresql://HOST:PORT/DATABASE, with USER:PASSWORD@ before HOST; percent-encode special characters in them"
_DAMAGED = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted
_STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting connections")
_MISSING = frozenset({"3F000", "42703", "42P01"})  # a missing schema, column or table
_BY_STATE = {  # SQLSTATE: the message and the hint
    "25006": ("it takes no writes: a standby, or set to read only", "give the URL of the primary server"),
    "42501": ("this user may not do that", "GRANT the user the permissions in schema lore, or use another user"),
    "53100": ("its disk is full", "make room; nothing of this call is stored"),
    "53200": ("it is out of memory", "save less at once; nothing of this call is stored"),
    "53300": ("it has no free connection", "close stores that are not used, or raise max_connections"),
    "54000": ("this is more than it can store at once", "save less at once"),
    "55P03": (
        "another writer has locked the same session for too long",
        "try again; pg_stat_activity shows the other client, and `options=-clock_timeout=60s` in the URL waits longer",
    ),
    "57014": ("the statement was canceled", "raise statement_timeout, or try again"),
}
_BY_TEXT = {  # part of a message while connecting: the hint
    "password": "check the password in the URL, in PGPASSWORD or in ~/.pgpass",
    "no pg_hba.conf entry": "allow this user and host in pg_hba.conf of the server",
    "database": "create the database: `createdb NAME`",
    "role": "create the user: `createuser NAME`",
    "too many": "close stores that are not used, or raise max_connections",
    "translate host name": "check the host in the URL",
    "timeout expired": "check that the host can be reached; `connect_timeout=30` in the URL waits longer",
}
_DEFAULT_HINT = "check that the server runs, and that the URL names its host and port"


class UnreachableError(StoreError):
    """There is no connection."""


def parse_url(url: str) -> dict[str, str]:
    """Return the connection options in a URL; raises StoreError, which does not quote the URL."""
    try:
        options = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        options = {"port": "?"}
    is_doubtful = "@" in options.get("host", "") + options.get("dbname", "")  # perhaps of an unencoded password
    ports = options.get("port", "").split(",")
    if is_doubtful or not all(port.isdecimal() or not port for port in ports):
        raise StoreError("the URL of the PostgreSQL store cannot be read", hint=_SHAPE)
    return options


def _mask_line(text: str, password: str) -> str:
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))
    return line.replace(password, "***") if password else line


READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds before a call is repeated
_CLASHES = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected
_DISCONNECTED = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})  # it stops, crashed, starts, or timed out
# setting, the value that is replaced (in SQL; NULL: any), the new value
_SESSION_SETTINGS = (
    ("search_path", "NULL", "lore, pg_temp"),
    ("synchronous_commit", "'off'", "on"),  # acknowledged data is on the disk of the server
    ("lock_timeout", "'0'", "30s"),  # otherwise a writer may wait for ever
    ("idle_in_transaction_session_timeout", "'0'", "60s"),  # a stopped client does not block others
)
_WAIT = "SELECT set_config('lock_timeout', '30s', false) WHERE current_setting('lock_timeout') = '0'"
_DEFAULTS = {
    "connect_timeout": "10",  # seconds
    "fallback_application_name": "lore",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",  # ms; a host that is gone sends nothing
}

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
T = TypeVar("T")


class RetryError(Exception):
    """A call failed and can be repeated: the connection broke, or the server rolled it back for another client."""

    def __init__(self, reason: str, *, is_lost: bool, is_unknown: bool = False) -> None:
        """Keep the reason; `is_lost`: the connection broke, `is_unknown`: during COMMIT."""
        super().__init__(reason)
        self.reason, self.is_lost, self.is_unknown = reason, is_lost, is_unknown


@dataclass(slots=True)
class _Local:
    """The connection of one process, and its lock."""

    lock: Lock = field(default_factory=Lock)
    connection: Connection | None = None
    is_committing: bool = False


class PostgresLink:
    """A connection to a URL; `url` is the URL without the password."""

    def __init__(self, url: str, masked_url: str, tell: Tell, *, pause: Callable[[float], None] = time.sleep) -> None:
        """Parse the URL without connecting; raises StoreError."""
        self.url = masked_url
        self._tell = tell
        self._pause = pause
        options = parse_url(url)
        self._password = options.get("password", "")
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in options}
        if "PGCONNECT_TIMEOUT" in os.environ:
            defaults.pop("connect_timeout", None)
        self._conninfo = make_conninfo(**{**defaults, **options, "client_encoding": "utf8"})
        self._processes: dict[int, _Local] = {}
        self._is_closed = False

    def retry(self, call: Callable[[], T]) -> T:
        """Run a call, and repeat it if the connection broke or it clashed with another; raises StoreError at last.

        A repeated call must not change the result.
        """
        reason, is_lost, is_unknown = "", True, False
        for delay in (*DELAYS, None):
            try:
                return call()
            except UnreachableError as error:
                if not reason:
                    raise
                reason, is_lost = error.message, True
            except RetryError as error:
                reason, is_lost, is_unknown = error.reason, error.is_lost, is_unknown or error.is_unknown
            if delay is not None:
                self._pause(delay)
        if is_unknown:
            raise StoreError(
                f"{reason}; there was no answer to COMMIT: all of it is stored, or nothing",
                hint="check that the server runs, and repeat this: nothing is stored twice",
            )
        if is_lost:
            raise StoreError(f"{reason}; nothing was changed", hint="check that the server runs, and repeat this")
        raise StoreError(f"{reason}: each try clashed with other writers", hint="try again")

    @contextmanager
    def transaction(self, begin: str, first: str = "SELECT 1") -> Generator[Cursor]:
        """Open a transaction and run a first statement; raises RetryError, which `retry` handles."""
        with self._lock_connection() as local, self._translate_errors(local) as connection:
            cursor = Cursor(connection.cursor(), self._translate)
            cursor.begin(f"{_begin_sql(begin)}; {first}")
            yield cursor
            if begin == WRITE:
                local.is_committing = True
                self.commit(connection)
            else:
                connection.execute("ROLLBACK")  # not COMMIT, as a statement may have failed

    def commit(self, connection: Connection) -> None:
        """Commit a transaction; PostgreSQL answers ROLLBACK, without an error, if a statement in it failed."""
        status = connection.execute("COMMIT").statusmessage
        if status != "COMMIT":
            raise psycopg.OperationalError(f"PostgreSQL answered COMMIT with {status}: nothing is stored")

    def run(self, statements: Iterable[str]) -> None:
        """Run statements that PostgreSQL allows only outside a transaction."""
        with self._lock_connection() as local, self._translate_errors(local) as connection:
            connection.execute(_WAIT)
            for statement in statements:
                connection.execute(cast("LiteralString", statement))
            connection.execute("RESET lock_timeout")

    @contextmanager
    def try_lock(self, key: int) -> Generator[bool]:
        """Try to lock an advisory lock on a new connection, without waiting; yield whether it succeeded.

        A transaction holds it, which works with a connection pooler, and ends with the connection.
        """
        with closing(self.retry(self._connect)) as connection:
            try:
                connection.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
                row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchone()
            except psycopg.Error as error:
                raise self._translate(error) from error
            yield row == (True,)

    def close(self) -> None:
        """Close the connection of this process for good."""
        self._is_closed = True
        local = self._local()
        with local.lock:
            if local.connection is not None:
                local.connection.close()
                local.connection = None

    def _local(self) -> _Local:
        return self._processes.setdefault(os.getpid(), _Local())  # atomic: two threads get the same object

    @contextmanager
    def _lock_connection(self) -> Generator[_Local]:
        local = self._local()
        with local.lock:
            if self._is_closed:
                raise StoreError(f"the store {self.url} was closed", hint="open it again")
            yield local

    @contextmanager
    def _translate_errors(self, local: _Local) -> Generator[Connection]:
        """Yield the connection; errors of PostgreSQL are translated, and after any error it is rolled back."""
        if local.connection is None or local.connection.closed:
            local.connection = self._connect()
        local.is_committing = False
        try:
            yield local.connection
        except psycopg.Error as error:
            raised = self._error_to_raise(error, local)
            _undo(local.connection)
            raise raised from error
        except BaseException:
            _undo(local.connection)
            raise

    def _connect(self) -> Connection:
        try:
            # Prepared statements do not work with a connection pooler.
            connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            text = _mask_line(str(error), self._password)
            message, fatal = f"no connection to {self.url}: {text}", text.partition("FATAL:")[2]
            if any(words in text for words in _STARTING):
                raise RetryError(message, is_lost=True) from None
            hints = (hint for words, hint in _BY_TEXT.items() if words in fatal or (" " in words and words in text))
            raise UnreachableError(message, hint=next(hints, _DEFAULT_HINT)) from None
        connection.add_notice_handler(self._report_notice)
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            message = f"{self.url}: the database is encoded in {encoding}, which cannot represent every id"
            raise StoreError(message, hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
        return connection

    def _report_notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self._tell(f"{self.url}: {diagnostic.message_primary}")

    def _translate(self, error: psycopg.Error) -> StoreError:
        """Return the error of lore for an error of the database."""
        state, url = error.sqlstate or "", self.url
        message = _mask_line(error.diag.message_primary or str(error), self._password)
        if state in _DAMAGED:
            return DamagedError(f"{url}: the database cannot read stored data: {message}", hint="restore a backup")
        if state in _MISSING:
            return FormatError(f"{url}: schema lore is not a store of lore: {message}", hint="give another database")
        if state not in _BY_STATE:
            return StoreError(f"{url}: PostgreSQL says: {message}", hint="nothing of this call is stored")
        words, hint = _BY_STATE[state]
        return StoreError(f"{url}: {words} ({message})", hint=hint)

    def _error_to_raise(self, error: psycopg.Error, local: _Local) -> Exception:
        translation = self._translate(error)
        if error.sqlstate in _CLASHES:
            return RetryError(translation.message, is_lost=False)
        if local.connection is not None and (error.sqlstate in _DISCONNECTED or local.connection.closed):
            local.connection.close()
            reason = f"the connection to {self.url} broke: {translation.message}"
            return RetryError(reason, is_lost=True, is_unknown=local.is_committing)
        return translation


class Cursor:
    """A transaction for `lore.store.SqlStore`."""

    def __init__(
        self, cursor: psycopg.Cursor[tuple[Any, ...]], translate: Callable[[psycopg.Error], StoreError]
    ) -> None:
        self._cursor = cursor
        self._translate = translate
        self.first: tuple[Any, ...] | None = None  # row of the first statement

    def begin(self, sql: str) -> None:
        """Run several statements at once, without values."""
        self._cursor.execute(cast("LiteralString", sql))
        while self._cursor.nextset():
            pass
        self.first = self._cursor.fetchone()

    def execute(self, sql: str, values: Sequence[SqlValue] = ()) -> Sequence[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        try:
            self._cursor.execute(_psycopg_sql(sql), values, binary=True)
            return self._cursor.fetchall() if self._cursor.description else ()
        except psycopg.Error as error:
            if error.sqlstate in _DAMAGED:
                raise self._translate(error) from error
            raise

    def executemany(self, sql: str, values: Iterable[Sequence[SqlValue]]) -> None:
        """Run a statement once for each row of values."""
        self._cursor.executemany(_psycopg_sql(sql), values)


def _undo(connection: Connection) -> None:
    """Roll back; if that is impossible, close the connection, so that the server rolls back."""
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


@lru_cache(maxsize=256)
def _psycopg_sql(sql: str) -> LiteralString:
    """Return a statement with the placeholders of psycopg; lore's placeholder is `?`."""
    return cast("LiteralString", sql.replace("%", "%%").replace("?", "%s"))


@lru_cache(maxsize=8)
def _begin_sql(begin: str) -> str:
    rows = ", ".join(f"('{name}', {weak}, '{ours}')" for name, weak, ours in _SESSION_SETTINGS)
    return (
        f"{begin}; SELECT pg_catalog.set_config(name, ours, true) FROM (VALUES {rows}) AS wanted (name, weak, ours) "  # noqa: S608
        "WHERE weak IS NULL OR pg_catalog.current_setting(name) = weak"
    )
