"""`sqlite:FILE`: sessions in one file, the embedded default; `memory:`, which lives as long as its object.

Rules:
- what a call acknowledged survives a loss of power: the write-ahead log is synced at each commit;
- a new store is made by the first write; until then reading finds nothing, and nothing is put on the disk;
- a file is looked at before sqlite opens it, read-only and by itself, together with the log beside it: what is of
  another program or of another version of the schema is not touched, nor is anything put beside it;
- the file, and the two that sqlite keeps beside it while it is open, are 0600 in folders made 0700: who owns them may
  read the sessions; who may read what was there before is not changed.

Threads: one connection and a lock, held for each call. Processes: sqlite's one writer at a time; others wait for
it, `patience` seconds at most, and readers wait for nobody. After a fork the child opens a connection of its own.
A file that cannot be written is read; nothing is put beside it.

Source of offsets: https://www.sqlite.org/fileformat2.html (the database header, the rollback journal, the
write-ahead log).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from typing import Any, NamedTuple

from lore.files import database_uri, make_folder, synchronise_folder
from lore.model.canonical import printable
from lore.store.base import DamagedError, DamagedPlace, FormatError, StoreError, Tell, refuse_other_version
from lore.store.registry import BESIDE, silent
from lore.store.sql import SqlStore
from lore.store.sql_tables import SCHEMA_VERSION, SQLITE, TABLES, SqlTransaction, SqlValue, make_tables

PATIENCE = 10.0  # seconds
_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = FULL",
    "fullfsync = ON",  # macOS: through the cache of the disk, too
    "checkpoint_fullfsync = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    f"journal_size_limit = {16 * 1024 * 1024}",
)
_MOST_FOUND = 100  # lines of SQLite's integrity_check that are read
_REPLACED = (
    "put the file back; or, if the other one is meant, remove what the first left beside it (-wal, -shm) before you "
    "open the store again"
)
_PAUSE = 0.01  # seconds, between tries to change the kind of journal: sqlite does not wait there by itself


class _Transaction:
    """A transaction of one connection; errors in lore's words."""

    def __init__(
        self, connection: sqlite3.Connection, say: Callable[[sqlite3.Error | OverflowError], StoreError]
    ) -> None:
        self._connection = connection
        self._say = say

    def execute(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise self._say(error) from error

    def executemany(self, sql: str, values: Iterable[Sequence[SqlValue]]) -> None:
        try:
            self._connection.executemany(sql, values)
        except (sqlite3.Error, OverflowError) as error:
            raise self._say(error) from error


class Sqlite(SqlStore):
    """A store in one file of sqlite."""

    def __init__(self, path: str, tell: Tell = silent, *, patience: float = PATIENCE) -> None:
        """Look at the file, and open it where it exists; `patience` is how many seconds to wait for others."""
        if sqlite3.sqlite_version_info < OLDEST:
            raise StoreError(
                f"sqlite {sqlite3.sqlite_version} is too old: stores need 3.37 or newer",
                hint="use a Python with a newer sqlite",
            )
        self.url = f"sqlite:{printable(path)}"
        self._path = os.path.abspath(os.path.expanduser(path))  # a process may go to another folder
        self._tell = tell
        self._patience = patience
        self._lock = RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._left: list[sqlite3.Connection] = []
        self._closed = False
        with self.transaction(write=False):
            """What is wrong with the file is said at once."""

    @classmethod
    def open(cls, url: str, tell: Tell) -> Sqlite:
        """Open `sqlite:FILE`; raises StoreError, FormatError, DamagedError."""
        return cls(path_of(url), tell)

    # transactions

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[SqlTransaction]:
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"
        with self._alone(), self._connected(write=write) as connection, self._begun(connection, begin) as tx:
            yield tx

    @contextmanager
    def _begun(self, connection: sqlite3.Connection, begin: str) -> Generator[SqlTransaction]:
        tx = _Transaction(connection, self._in_words)
        tx.execute(begin)
        try:
            yield tx
            tx.execute("COMMIT")
        except BaseException:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:  # the file is in order all the same: what is not committed does not count
                self._forget()
            raise

    def _alone(self) -> RLock:
        """Return the lock; in the child of a fork, one that no other thread of the parent can have held."""
        if os.getpid() != self._process:
            self._lock, self._process = RLock(), os.getpid()
            if self._connection is not None:  # sqlite forbids the child even to close it
                self._left.append(self._connection)
                self._connection = None
        return self._lock

    def _in_words(self, error: sqlite3.Error | OverflowError) -> StoreError:
        return in_words(error, self._path, self._patience)

    # the connection

    @contextmanager
    def _connected(self, *, write: bool) -> Generator[sqlite3.Connection]:
        """Give the connection, opened where there is none; for reading what is missing, an empty store."""
        if self._closed:
            raise StoreError(f"{self.url} was closed", hint="open it again")
        if self._connection is not None and self._file != _identity(self._path):
            self._forget()  # sqlite sees that the file has moved, and leaves alone what is in its place
            raise StoreError(f"{self.url} was replaced or removed while it was open", hint=_REPLACED)
        if self._connection is not None:
            yield self._connection
        elif is_missing(self._path) and not write:
            with closing(_in_memory()) as connection:
                yield connection
        elif not is_missing(self._path) and is_read_only(self._path):
            with closing(self._read_only()) as connection:
                yield connection
        else:
            self._connection = self._opened()
            self._file = _identity(self._path)
            yield self._connection

    def _connect(self, options: str, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                database_uri(self._path, options), uri=True, timeout=self._patience, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
        except sqlite3.Error as error:
            raise self._in_words(error) from error
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_only(self) -> sqlite3.Connection:
        """Open what cannot be written: as it stands where nobody has it open, else through what lies beside it."""
        self._check(stamp_of(self._path, self._patience))
        is_alone = not any(os.path.exists(beside(self._path, end)) for end in ("-wal", "-journal"))
        return self._connect("mode=ro&immutable=1" if is_alone else "mode=ro", self._refuse_foreign)

    def _opened(self) -> sqlite3.Connection:
        make(self._path)
        self._check(stamp_of(self._path, self._patience))
        return self._connect("mode=rw", self._set_up)

    def _check(self, stamp: Stamp | None) -> None:
        """Raise FormatError for a database of another program, or with another version of the schema."""
        if stamp is None:  # a new file
            return
        if stamp.application != APPLICATION or stamp.version < 1:
            raise FormatError(f"{self.url} is a database of another program", hint="name another file")
        refuse_other_version(f"{self.url} has schema", stamp.version, SCHEMA_VERSION)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file. By now sqlite has undone what a process that died had begun."""
        tx = _Transaction(connection, self._in_words)
        for pragma in _PRAGMAS:
            tx.execute(f"PRAGMA {pragma}")
        self._refuse_foreign(connection)
        if not _version(tx):
            with self._begun(connection, "BEGIN IMMEDIATE"):
                if not _version(tx):  # else another process made them meanwhile
                    make_tables(tx, SQLITE)
                    tx.execute(f"PRAGMA application_id = {APPLICATION}")
                    tx.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        refuse_other_version(f"{self.url} has schema", _version(tx), SCHEMA_VERSION)
        self._keep_log(connection)

    def _refuse_foreign(self, connection: sqlite3.Connection) -> None:
        """Refuse what does something by itself when rows are written or read, and tables of others."""
        sql = "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger')"
        others = [
            f"{kind} {name}" for kind, name in _Transaction(connection, self._in_words).execute(sql)
            if kind != "table" or not (name in TABLES or name.startswith("sqlite_"))
        ]  # fmt: skip
        if others:
            raise FormatError(
                f"{self.url} holds what is not lore's: {printable(', '.join(others[:3]))}", hint="name another file"
            )

    def _keep_log(self, connection: sqlite3.Connection) -> None:
        """Change to a write-ahead log, which the file remembers; not before the schema stands, see `stamp_of`."""
        until = time.monotonic() + self._patience
        while True:
            try:
                kind = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.Error as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise self._in_words(error) from error
                time.sleep(_PAUSE)
        if kind != "wal":
            self._tell(f"{self.url}: no write-ahead log is possible here, so readers and writers wait for each other")

    def _forget(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    # the whole store

    def integrity(self) -> Sequence[DamagedPlace]:
        place, saved = f"file {printable(self._path)}", "the sessions in which nothing else is named"
        try:
            with self.transaction(write=False) as tx:
                messages = [text for (text,) in tx.execute(f"PRAGMA integrity_check({_MOST_FOUND})")]
        except DamagedError as error:
            messages = [error.message]
        return [DamagedPlace(None, None, place, text, saved) for text in messages if text != "ok"]

    def notes(self) -> tuple[str, ...]:
        files = [Path(beside(self._path, end)) for end in ("", *BESIDE)]
        modes = {file: file.stat().st_mode & 0o777 for file in files if file.exists()}
        found = [
            f"{printable(str(file))} can be read by other users (mode {mode:04o}): `chmod 600` it"
            for file, mode in modes.items()
            if mode & 0o077
        ]
        if files[0] in modes and is_missing(self._path):
            found.append(f"{printable(self._path)} is empty: nothing was ever stored in it, or all of it was lost")
        return tuple(found)

    def vacuum(self) -> int:
        """Checkpoint the log and rewrite the file without free pages. Needs as much room again."""
        before = self._size()
        if before:
            with self._alone(), self._connected(write=True) as connection:
                tx = _Transaction(connection, self._in_words)
                for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    tx.execute(statement)
        return max(0, before - self._size())

    def _size(self) -> int:
        files = (Path(beside(self._path, end)) for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        with self._alone():
            self._forget()
            self._closed = True


class Memory(SqlStore):
    """A store in memory, of its own at each opening. Safe between threads: one lock, held for each call."""

    url = "memory:"

    def __init__(self) -> None:
        self._lock = RLock()
        self._connection = _in_memory()

    def __del__(self) -> None:
        self._connection.close()

    @classmethod
    def open(cls, url: str, tell: Tell) -> Memory:
        """Make an empty store."""
        return cls()

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[SqlTransaction]:
        with self._lock, self._connection:
            tx = _Transaction(self._connection, lambda error: in_words(error, self.url, 0))
            tx.execute("BEGIN")
            yield tx

    def vacuum(self) -> int:
        return 0

    def close(self) -> None:
        """What is stored is gone with the object."""


def _in_memory() -> sqlite3.Connection:
    """Return an empty store that is no file."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    tx = _Transaction(connection, lambda error: in_words(error, ":memory:", 0))
    tx.execute("PRAGMA foreign_keys = ON")
    make_tables(tx, SQLITE)
    return connection


def _version(tx: SqlTransaction) -> int:
    return tx.execute("PRAGMA user_version")[0][0]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# the file: its name, its first bytes, and what sqlite says when something is wrong with it

APPLICATION = int.from_bytes(b"lore", "big")
OLDEST = (3, 37)  # the first with STRICT tables
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_LOGS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_HEADER = 100
_LOOKS, _LOOK_AGAIN = 25, 0.02  # how often a file is looked at that seems damaged, and the seconds between two looks
_MAKING = Lock()  # to close a file drops the locks of all connections that this process has on it: none has one yet


class Stamp(NamedTuple):
    """Whose a database is, and of which version of its schema."""

    application: int
    version: int


def path_of(url: str) -> str:
    """Return the path in `sqlite:FILE`, as it was written; raises StoreError."""
    path = url.partition(":")[2]
    shown, hint = printable(url), "write sqlite:FILE, or sqlite:/FOLDER/FILE"
    if not path or "\0" in path:
        raise StoreError(f"{shown!r} names no file", hint=hint)
    if path.startswith("//"):  # one program reads `///x` as `/x`, another as `x`
        raise StoreError(f"{shown!r} is no path: it begins with two slashes", hint=hint)
    if path == ":memory:":
        raise StoreError(f"{shown!r} is no file", hint="the store `memory:` keeps sessions in memory")
    return path


def is_missing(path: str) -> bool:
    """Tell whether the file is missing or empty; raises StoreError for anything but a regular file."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise StoreError(f"{printable(path)}: {error.strerror}", hint="name a file that can be read") from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{printable(path)} is no file", hint="name a file, new or of this store")
    return found.st_size == 0


def make(path: str) -> None:
    """Make the file, and the folders that it lies in, where they are missing; raises StoreError."""
    try:
        make_folder(os.path.dirname(path))
        with _MAKING:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
        synchronise_folder(os.path.dirname(path))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{printable(path)} cannot be made: {error.strerror}", hint="choose another place") from error


def is_read_only(path: str) -> bool:
    """Tell whether a file cannot be written by us; sqlite writes files beside it, too."""
    return not (os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK))


def stamp_of(path: str, patience: float) -> Stamp | None:
    """Read whose database it is, and change nothing; None where it is empty.

    sqlite reads it, as a file that nobody changes: to open and close it by other means would drop the locks that
    other connections of this process have on it. What is newer in the log beside it is looked up there. Raises
    FormatError where it is no database. Costs a look at each page of the log.
    """
    refuse_odd(path)
    if is_missing(path) or _began_empty(path):
        return None
    size = os.path.getsize(path)
    if size < _HEADER:
        has = f"it has {size} byte{'s' * (size > 1)}, less than the beginning of one"
        hint = "name another file; if this one was cut, use a backup"
        raise FormatError(f"{printable(path)} is no sqlite database: {has}", hint=hint)
    page = _first_page(beside(path, "-wal"))
    if page is not None:
        return Stamp(int.from_bytes(page[68:72], "big"), int.from_bytes(page[60:64], "big", signed=True))
    looks = 0
    while True:
        try:
            return _numbers(path)
        except sqlite3.Error as error:
            looks += 1
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT and looks <= _LOOKS:
                time.sleep(_LOOK_AGAIN)  # it may be in the middle of another's writing: look again
            elif error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                message = f"{printable(path)} is no sqlite database, or the beginning of it is damaged"
                hint = f"name a file of lore's, or a new one; one that is damaged: {_RESCUE}"
                raise FormatError(message, hint=hint) from error
            else:
                raise in_words(error, path, patience) from error


def _numbers(path: str) -> Stamp:
    with closing(sqlite3.connect(database_uri(path, "mode=ro&immutable=1"), uri=True)) as connection:
        names = ("application_id", "user_version")
        return Stamp(*(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names))


def beside(path: str, end: str) -> str:
    """Return the path of a file that sqlite keeps beside a database: that which a link leads to."""
    return os.path.realpath(path) + end


def refuse_odd(path: str) -> None:
    """Raise StoreError for anything but a regular file beside a database: opening a named pipe would hang."""
    for name in (beside(path, end) for end in BESIDE):
        try:
            found = os.lstat(name)
        except OSError:  # it is not there, or not any more
            continue
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{printable(name)} is not a regular file", hint="take it out of the folder")


def _began_empty(path: str) -> bool:
    """Tell whether the first transaction was cut off: sqlite takes it back, and leaves an empty file."""
    try:
        with open(beside(path, "-journal"), "rb") as file:
            header = file.read(20)
    except OSError:
        return False
    return header.startswith(_JOURNAL) and header[16:20] == b"\0\0\0\0"


def _first_page(path: str) -> bytes | None:
    """Return the header in the newest first page that a write-ahead log holds; None where it holds none."""
    page: bytes | None = None
    committed: bytes | None = None
    try:
        with open(path, "rb") as file:
            header = file.read(32)
            size, salts, at = int.from_bytes(header[8:12], "big"), header[16:24], 32
            while header[:4] in _LOGS and len(frame := file.read(24)) == 24 and frame[8:16] == salts:
                if frame[:4] == b"\0\0\0\1":
                    page = file.read(_HEADER)
                if frame[4:8] != b"\0\0\0\0":
                    committed = page
                at += 24 + size
                file.seek(at)
    except OSError:
        return None
    return committed


_RESCUE = "`sqlite3 FILE .recover`, or a backup"
_VERIFY = f"`lore store verify` says what is whole; what cannot be opened: {_RESCUE}"
_MEANINGS = {  # code of sqlite: the error, its message and its hint
    sqlite3.SQLITE_BUSY: (StoreError, "is busy: others have been writing for {patience:g} s", "try again"),
    sqlite3.SQLITE_LOCKED: (StoreError, "is busy: others have been writing for {patience:g} s", "try again"),
    sqlite3.SQLITE_FULL: (StoreError, "cannot grow: the disk is full", "make room, then send the same again"),
    sqlite3.SQLITE_READONLY: (StoreError, "cannot be written", "look at who owns it and its folder"),
    sqlite3.SQLITE_PERM: (StoreError, "cannot be opened", "look at who owns it and its folder"),
    sqlite3.SQLITE_CANTOPEN: (StoreError, "cannot be opened", "look at who owns it and its folder"),
    sqlite3.SQLITE_IOERR: (
        StoreError, "cannot be read or written: the disk failed, or a limit was met",
        "look at the disk, then send the same again",
    ),
    sqlite3.SQLITE_CORRUPT: (DamagedError, "is damaged", _VERIFY),
    sqlite3.SQLITE_NOTADB: (DamagedError, "is damaged: it is no database any more", _VERIFY),
    sqlite3.SQLITE_CONSTRAINT: (DamagedError, "holds rows that contradict one another", _VERIFY),
    sqlite3.SQLITE_TOOBIG: (StoreError, "takes no value of this size", "write less in one event"),
    sqlite3.SQLITE_NOMEM: (StoreError, "needs more memory than there is", "write less at once"),
}  # fmt: skip
_OTHER = (StoreError, "gave an error", "look at the file and its folder")


def in_words(error: sqlite3.Error | OverflowError, path: str, patience: float) -> StoreError:
    """Return the error that a person is shown for one of sqlite."""
    code = getattr(error, "sqlite_errorcode", 0)
    is_unnamed = code == sqlite3.SQLITE_ERROR and str(error).startswith("no such ")  # a name in its schema is damaged
    kind, message, hint = _MEANINGS.get(sqlite3.SQLITE_CORRUPT if is_unnamed else code & 0xFF, _OTHER)
    return kind(f"{printable(path)} {message.format(patience=patience)} ({printable(str(error))})", hint=hint)
