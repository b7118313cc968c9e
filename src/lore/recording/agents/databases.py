"""Databases of other programs, read from a copy: the file itself is neither opened as a database, locked nor changed.

A process copies a database once, and again if it was written to in the meantime. The logs of changes (`-wal`,
`-journal`) are merged into the copy before anything is read, so that processes that are forked from this one can read
its copies at the same time. Each process deletes the copies that it made, also if SIGTERM ends it. A database of more
than `DATABASE_BYTES` is not copied, and copies of more bytes than that are not kept together.

Content is not trusted: tables must be tables (a view may compute anything), no value is longer than `COLUMN_BYTES`, and
a query takes no more steps than the size of the file explains. Errors are sqlite3.Error, OSError and ValueError.

Source: sqlite.org/walformat.html (the header of a log of changes), 2026-11.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing, suppress

from lore.files import WholeFile, database_uri
from lore.model.limits import COLUMN_BYTES, DATABASE_BYTES, QUERY_STEPS, QUERY_STEPS_PER_BYTE
from lore.model.mask import cut_masked

ERRORS = (sqlite3.Error, OSError, ValueError, OverflowError)
Stamps = tuple[tuple[int, int, int], ...]  # of a database and its logs of changes: inode, bytes, nanoseconds
_LOGS = ("-wal", "-journal")
_WAL_HEADER = 32  # bytes; it changes when the log starts again
_PIECE = 1024 * 1024  # bytes copied at a time
_ATTEMPTS = 5  # to copy a database that is being written
_STEPS = 1_000_000  # between two checks of the bound


def connect(database: str) -> sqlite3.Connection:
    """Return a connection to a copy of a database; close it when done."""
    copy = _copy_of(os.path.realpath(database), stamps(database))  # a link: the logs of changes are next to its target
    return _open_copy(copy.path, copy.size, "mode=ro&immutable=1")


def _open_copy(path: str, size: int, options: str) -> sqlite3.Connection:
    """Open a copy of `size` bytes, with bounds on its queries."""
    connection = sqlite3.connect(database_uri(path, options), uri=True)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, COLUMN_BYTES)
    checks = (QUERY_STEPS + QUERY_STEPS_PER_BYTE * size) // _STEPS
    checks_left = iter(range(checks))
    connection.set_progress_handler(lambda: next(checks_left, None) is None, _STEPS)
    return connection


def columns_of(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """Return the columns of a table; none if it is missing or a view."""
    stored = "select 1 from sqlite_master where type = 'table' and rootpage > 0 and name = ?"
    if connection.execute(stored, (table,)).fetchone() is None:
        return frozenset()
    return frozenset(row[0] for row in connection.execute("select name from pragma_table_info(?)", (table,)))


def reason_of(error: Exception) -> str:
    """Return in a few words why a database cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if reason == "interrupted":
        return "it holds more than its size explains"
    return cut_masked(reason.partition("\n")[0], 120).lower()


_folders: dict[str, int] = {}  # of copies, with the process that made each


def _end(number: int, _: object) -> None:
    """Delete the copies of this process, and end it as the signal does."""
    for folder, maker in _folders.items():
        if maker == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class _Copy:
    """A copy of a database in a temporary folder, deleted by the process that made it."""

    def __init__(self, database: str) -> None:
        from multiprocessing.util import Finalize  # noqa: PLC0415 - few runs open a database

        folder = tempfile.mkdtemp(prefix="lore-")
        # ignored by processes that are forked from this one
        Finalize(self, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=0)
        _folders[folder] = os.getpid()
        with suppress(ValueError):  # only the main thread can do that
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _end)
        self.path = os.path.join(folder, "copy.db")
        for _ in range(_ATTEMPTS):
            before = _state(database)
            for ending in ("", *_LOGS):
                if not ending or os.path.isfile(database + ending):
                    with WholeFile(database + ending) as source, open(self.path + ending, "wb") as copy:
                        shutil.copyfileobj(source, copy, _PIECE)
                elif os.path.exists(self.path + ending):
                    os.unlink(self.path + ending)
            if _state(database) == before:
                break
        else:
            raise ValueError("it is written to faster than it can be copied")
        self.size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
        # merge the logs of changes into the copy; after that it is only read
        with closing(_open_copy(self.path, self.size, "mode=rw")) as connection:
            connection.execute("select count(*) from sqlite_master").fetchone()  # rolls back uncommitted changes
            if connection.execute("pragma journal_mode = delete").fetchone() != ("delete",):
                raise ValueError("its log of changes cannot be merged")


def _state(database: str) -> tuple[int, int, int, bytes]:
    """Return a key that is equal before and after copying if only additions to the log of changes were written."""
    about, wal = os.stat(database), database + "-wal"
    header = b""
    if os.path.isfile(wal):
        with open(wal, "rb") as file:
            header = file.read(_WAL_HEADER)
    return about.st_ino, about.st_size, about.st_mtime_ns, header


def stamps(database: str) -> Stamps:
    """Return a key that changes when the database does; raises ValueError if it is too large to copy."""
    database = os.path.realpath(database)
    files = [os.stat(database + ending) for ending in ("", *_LOGS) if os.path.isfile(database + ending)]
    if sum(status.st_size for status in files) > DATABASE_BYTES:
        raise ValueError(f"larger than {DATABASE_BYTES >> 20} MiB")
    return tuple((status.st_ino, status.st_size, status.st_mtime_ns) for status in files)


_copies: dict[tuple[str, Stamps], _Copy] = {}  # by path and stamps; the last one was used last


def _copy_of(database: str, state: Stamps) -> _Copy:
    """Return the copy of a database in this state, made by this process or the one that it was forked from."""
    database_copy = _copies.pop((database, state), None)
    if database_copy is None:
        for other in [key for key in _copies if key[0] == database]:
            del _copies[other]
        database_copy = _Copy(database)
    _copies[database, state] = database_copy
    while len(_copies) > 1 and sum(copy.size for copy in _copies.values()) > DATABASE_BYTES:
        del _copies[next(iter(_copies))]
    return database_copy
