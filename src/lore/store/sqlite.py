"""`sqlite:FILE`: sessions in one file, the embedded default; `memory:`, which lives as long as its object.

- An acknowledged save survives a loss of power: the write-ahead log is synchronised at each commit.
- The first write makes the file. Until then reading finds nothing, and nothing is put on the disk.
- A database of another program, or with another version of the schema, is not written to.
- The file, and those that sqlite keeps next to it while it is open, are made 0600 in folders made 0700. Permissions
  of existing files stay.

Threads: one connection and a lock, held for each call. Processes: sqlite lets one write at a time; others wait for
it, `patience` seconds at most, and readers never wait. After a fork the child opens a connection of its own. A file
that cannot be written is read, and no file is put next to it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from typing import Any, NamedTuple

from lore.files import database_uri, make_folder, synchronise_folder
from lore.model.canonical import printable
from lore.store.base import DamagedError, DamagedPlace, FormatError, StoreError, Tell, refuse_other_version
from lore.store.registry import BESIDE, ignore, notes_on_readers
from lore.store.sql import SCHEMA_VERSION, TABLES, SqlStore, SqlTransaction, SqlValue, make_tables

PATIENCE = 10.0  # seconds to wait for other writers
OLDEST = (3, 37)  # the first version of sqlite with STRICT tables
APPLICATION = int.from_bytes(b"lore", "big")  # `application_id` of lore's databases
_TYPES = {"key": "INTEGER PRIMARY KEY", "int": "INTEGER", "text": "TEXT", "bytes": "BLOB", "strict": "STRICT"}
_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = FULL",
    "fullfsync = ON",  # macOS: through the cache of the disk, too
    "checkpoint_fullfsync = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    f"journal_size_limit = {16 * 1024 * 1024}",
)
_DESCRIPTION = (  # in one statement, as another process may make the tables between two
    "SELECT application_id, user_version, type, name FROM pragma_application_id, pragma_user_version "
    "LEFT JOIN sqlite_schema ON type IN ('table', 'view', 'trigger')"
)
_MOST_FOUND = 100  # lines of `integrity_check` that are read
_HEADER = 100  # bytes at the beginning of a database; source: https://www.sqlite.org/fileformat2.html
_REPLACED = (
    "put the file back; or, if the other one is meant, remove the files that the first left (-wal, -shm) before you "
    "open the store again"
)
_PAUSE = 0.01  # seconds between attempts to change the kind of journal, for which sqlite does not wait by itself
_MAKING = Lock()  # closing a file drops the locks of all connections that this process has on it: none has one yet


class _Transaction(NamedTuple):
    """A transaction of one connection, whose errors are StoreErrors."""

    connection: sqlite3.Connection
    path: str = ":memory:"

    def execute(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        with _translate_errors(self.path):
            return self.connection.execute(sql, values).fetchall()

    def executemany(self, sql: str, values: Iterable[Sequence[SqlValue]]) -> None:
        with _translate_errors(self.path):
            self.connection.executemany(sql, values)


class Sqlite(SqlStore):
    """A store in one file of sqlite."""

    def __init__(self, path: str, tell: Tell = ignore, *, patience: float = PATIENCE) -> None:
        """Open the file if it exists; `patience` is how many seconds to wait for other writers."""
        if sqlite3.sqlite_version_info < OLDEST:
            message = f"sqlite {sqlite3.sqlite_version} is too old: stores need 3.37 or newer"
            raise StoreError(message, hint="use a Python with a newer sqlite")
        self.url = f"sqlite:{printable(path)}"
        self._path = os.path.abspath(os.path.expanduser(path))  # a process may go to another folder
        self._tell = tell
        self._patience = patience
        self._lock = RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file
        self._inherited: list[sqlite3.Connection] = []  # of the parent process, which the child may not even close
        self._is_closed = False
        try:
            with self.transaction(write=False):
                """Report a file that is not a store at once."""
        except DamagedError as error:
            error.hint = "it cannot be opened: use a backup of the file, or name another one"
            raise

    @classmethod
    def open(cls, url: str, tell: Tell) -> Sqlite:
        """Open `sqlite:FILE`; raises StoreError, FormatError, DamagedError."""
        path = url.partition(":")[2]
        safe_url, hint = printable(url), "write sqlite:FILE, or sqlite:/FOLDER/FILE"
        if not path or "\0" in path:
            raise StoreError(f"{safe_url!r} names no file", hint=hint)
        if path.startswith("//"):  # one program reads `///x` as `/x`, another as `x`
            raise StoreError(f"{safe_url!r} is not a path: it begins with two slashes", hint=hint)
        if path == ":memory:":
            raise StoreError(f"{safe_url!r} is not a file", hint="the store `memory:` keeps sessions in memory")
        return cls(path, tell)

    # transactions

    @contextmanager
    def _transaction(self, *, write: bool) -> Generator[SqlTransaction]:
        with (
            self._own_lock(),
            self._get_connection(write=write) as connection,
            self._transact(connection, write=write) as tx,
        ):
            yield tx

    @contextmanager
    def _transact(self, connection: sqlite3.Connection, *, write: bool) -> Generator[SqlTransaction]:
        tx = _Transaction(connection, self._path)
        tx.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            yield tx
            if write:
                tx.execute("COMMIT")
        finally:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:  # uncommitted changes do not count
                self._disconnect()

    def _own_lock(self) -> RLock:
        """Return the lock; in the child of a fork a new one, because another thread of the parent may hold the old."""
        if os.getpid() != self._process:
            self._lock, self._process = RLock(), os.getpid()
            if self._connection is not None:
                self._inherited.append(self._connection)
                self._connection = None
        return self._lock

    # the connection

    @contextmanager
    def _get_connection(self, *, write: bool) -> Generator[sqlite3.Connection]:
        """Yield the connection, opened if necessary; an empty store if a missing file is read."""
        if self._is_closed:
            raise StoreError(f"{self.url} was closed", hint="open it again")
        if self._connection is not None and self._file != _identity(self._path):
            self._disconnect()  # sqlite sees that the file has moved, and does not touch the file in its place
            raise StoreError(f"{self.url} was replaced or removed while it was open", hint=_REPLACED)
        if self._connection is not None:
            yield self._connection
            return
        is_missing = _is_missing(self._path)
        # sqlite writes files next to the database
        is_writable = os.access(self._path, os.W_OK) and os.access(os.path.dirname(self._path), os.W_OK)
        if is_missing and not write:
            with closing(_make_in_memory()) as connection:
                yield connection
        elif not is_missing and not is_writable:
            self._check_files()
            is_alone = not any(os.path.exists(_beside(self._path, end)) for end in ("-wal", "-journal"))
            with closing(self._connect("mode=ro&immutable=1" if is_alone else "mode=ro")) as connection:
                if self._is_new(connection):
                    raise FormatError(f"{self.url} is a database of another program", hint="name another file")
                yield connection
        else:
            _make_file(self._path)
            self._check_files()
            connection = self._connect("mode=rw")
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._file = connection, _identity(self._path)
            yield connection

    def _check_files(self) -> None:
        """Raise StoreError for a file that cannot be a database, or a pipe next to it: opening that would hang."""
        for name in (_beside(self._path, end) for end in BESIDE):
            with suppress(OSError):  # it is missing
                if not stat.S_ISREG(os.lstat(name).st_mode):
                    raise StoreError(f"{printable(name)} is not a regular file", hint="take it out of the folder")
        size = os.path.getsize(self._path)
        if 0 < size < _HEADER:
            reason = f"it has {size} byte{'s' * (size > 1)}, less than the beginning of one"
            hint = "name another file; if this one was cut, use a backup"
            raise FormatError(f"{printable(self._path)} is not an sqlite database: {reason}", hint=hint)

    def _connect(self, options: str) -> sqlite3.Connection:
        with _translate_errors(self._path):
            return sqlite3.connect(
                database_uri(self._path, options), uri=True, timeout=self._patience, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip

    def _set_up(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file, and change to a write-ahead log, which the file remembers."""
        tx, is_new = _Transaction(connection, self._path), self._is_new(connection)
        for pragma in _PRAGMAS:
            tx.execute(f"PRAGMA {pragma}")
        if is_new:
            with self._transact(connection, write=True):
                if self._is_new(connection):  # else another process made them meanwhile
                    make_tables(tx, _TYPES)
                    tx.execute(f"PRAGMA application_id = {APPLICATION}")
                    tx.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        kind, until = "", time.monotonic() + self._patience
        while not kind:
            try:
                kind = tx.execute("PRAGMA journal_mode = WAL")[0][0]
            except StoreError as error:
                if _code_of(error.__cause__) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
        if kind != "wal":
            self._tell(f"{self.url}: no write-ahead log is possible here, so readers and writers wait for each other")

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        """Return whether a database is empty, unchanged; raises FormatError if it is not a store of this version."""
        try:
            rows = _Transaction(connection, self._path).execute(_DESCRIPTION)
        except DamagedError as error:
            if _code_of(error.__cause__) != sqlite3.SQLITE_NOTADB:
                raise
            message = f"{printable(self._path)} is not an sqlite database, or the beginning of it is damaged"
            hint = "name a file of lore's, or a new one; if this one is damaged, use a backup"
            raise FormatError(message, hint=hint) from error
        application, version = rows[0][:2]
        parts = [(kind, name) for *_, kind, name in rows if kind is not None]
        if not application and not version and not parts:
            return True
        if application != APPLICATION or version < 1:
            raise FormatError(f"{self.url} is a database of another program", hint="name another file")
        refuse_other_version(f"{self.url} has schema", version, SCHEMA_VERSION)
        others = [  # triggers and views, too: they act when rows are written or read
            f"{kind} {name}" for kind, name in parts
            if kind != "table" or not (name in TABLES or name.startswith("sqlite_"))
        ]  # fmt: skip
        if others:
            message = f"{self.url} holds parts that are not lore's: {printable(', '.join(others[:3]))}"
            raise FormatError(message, hint="name another file")
        return False

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    # the whole store

    def integrity(self) -> Sequence[DamagedPlace]:
        place, intact = f"file {printable(self._path)}", "the sessions in which nothing else is named"
        try:
            with self.transaction(write=False) as tx:
                messages = [text for (text,) in tx.execute(f"PRAGMA integrity_check({_MOST_FOUND})")]
                orphans = Counter(row[0] for row in tx.execute("PRAGMA foreign_key_check"))
        except DamagedError as error:
            messages, orphans = [error.message], Counter[str]()
        messages += [f"{count} rows of {table} belong to no session" for table, count in orphans.items()]
        return [DamagedPlace(None, None, place, text, intact) for text in messages if text != "ok"]

    def notes(self) -> tuple[str, ...]:
        notes = notes_on_readers(_beside(self._path, end) for end in ("", *BESIDE))
        if os.path.exists(self._path) and _is_missing(self._path):
            notes += (f"{printable(self._path)} is empty: nothing was ever stored in it, or all of it was lost",)
        return notes

    def vacuum(self) -> int:
        """Checkpoint the log and rewrite the file without free pages. Needs as much room again."""
        before = self._size()
        if before:
            with self._name_command(), self._own_lock(), self._get_connection(write=True) as connection:
                tx = _Transaction(connection, self._path)
                for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    tx.execute(statement)
        return max(0, before - self._size())

    def _size(self) -> int:
        files = (Path(_beside(self._path, end)) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        with self._own_lock():
            self._disconnect()
            self._is_closed = True


class Memory(SqlStore):
    """A new store in memory. Safe between threads: one lock, held for each call."""

    url = "memory:"

    def __init__(self) -> None:
        self._lock = RLock()
        self._connection = _make_in_memory()

    def __del__(self) -> None:
        self._connection.close()

    @classmethod
    def open(cls, url: str, tell: Tell) -> Memory:
        """Make an empty store; raises StoreError for a name, which it would not keep."""
        name = printable(url.partition(":")[2])
        if name:
            hint = "write memory: without a name; or, to keep the sessions, sqlite:FILE"
            raise StoreError(f"a store in memory has no name, and nothing is kept under {name!r}", hint=hint)
        return cls()

    @contextmanager
    def _transaction(self, *, write: bool) -> Generator[SqlTransaction]:
        with self._lock, self._connection:
            tx = _Transaction(self._connection)
            tx.execute("BEGIN")
            yield tx

    def vacuum(self) -> int:
        return 0

    def close(self) -> None:
        """The sessions are gone with the object."""


def _make_in_memory() -> sqlite3.Connection:
    """Return an empty store without a file."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    tx = _Transaction(connection)
    tx.execute("PRAGMA foreign_keys = ON")
    make_tables(tx, _TYPES)
    return connection


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _beside(path: str, end: str) -> str:
    """Return the path of a file that sqlite keeps next to a database, or next to the target of a link."""
    return os.path.realpath(path) + end


def _is_missing(path: str) -> bool:
    """Return whether the file is missing or empty; raises StoreError if it is not a regular file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise StoreError(f"{printable(path)}: {error.strerror}", hint="name a file that can be read") from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{printable(path)} is not a regular file", hint="name a file, new or of this store")
    return status.st_size == 0


def _make_file(path: str) -> None:
    """Make the file and its folders if they are missing; raises StoreError."""
    try:
        make_folder(os.path.dirname(path))
        with _MAKING:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        synchronise_folder(os.path.dirname(path))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{printable(path)} cannot be made: {error.strerror}", hint="choose another place") from error


_AGAIN = "look at the disk, then send the same again"
_ERRORS = {  # by sqlite's code: the error, its message and its hint
    sqlite3.SQLITE_BUSY: (StoreError, "is busy: others have been writing for too long", "try again"),
    sqlite3.SQLITE_FULL: (StoreError, "cannot grow: the disk is full", "make room, then send the same again"),
    sqlite3.SQLITE_READONLY: (StoreError, "cannot be written", "look at who owns it and its folder"),
    sqlite3.SQLITE_IOERR: (StoreError, "cannot be read or written: the disk failed, or a limit was met", _AGAIN),
    sqlite3.SQLITE_CORRUPT: (DamagedError, "is damaged", ""),
    sqlite3.SQLITE_NOTADB: (DamagedError, "is damaged: it is not a database any more", ""),
    sqlite3.SQLITE_CONSTRAINT: (DamagedError, "holds rows that contradict one another", ""),
}  # fmt: skip
_OTHER = (StoreError, "gave an error", "look at the file and its folder, and who owns them")


def _code_of(error: BaseException | None) -> int:
    """Return sqlite's primary code of an error; 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _translate_errors(path: str) -> Generator[None]:
    """Raise lore's error in place of one of sqlite's."""
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        code = _code_of(error)
        if code == sqlite3.SQLITE_ERROR and str(error).startswith("no such "):  # a name in its schema is damaged
            code = sqlite3.SQLITE_CORRUPT
        kind, message, hint = _ERRORS.get(code, _OTHER)
        raise kind(f"{printable(path)} {message} ({printable(str(error))})", hint=hint) from error
