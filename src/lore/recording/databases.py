"""Databases of other programs, read without touching them: a copy is opened, never the file.

In: the path of an SQLite file. Out: a connection to a copy of it and of its log of changes (`-wal`), which nobody
locks. Rules: a database is copied once by a process as long as it stays as it is; one of more than `LARGEST` bytes is
not copied; the copy goes when it is needed no longer. Errors: sqlite3.Error, OSError, ValueError with a reason.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from functools import lru_cache

LARGEST = 1024 * 1024 * 1024  # bytes that are copied at most
ERRORS = (sqlite3.Error, OSError, ValueError, OverflowError)
Stamps = tuple[tuple[int, int, int], ...]  # of a database and its log of changes: inode, bytes, nanoseconds


def connect(database: str) -> sqlite3.Connection:
    """Open a copy of a database; close it when done."""
    return sqlite3.connect(_copied(os.path.abspath(database), stamps(database)).path)


def columns_of(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """Return the columns of a table; none where there is none of that name."""
    return frozenset(row[0] for row in connection.execute("select name from pragma_table_info(?)", (table,)))


def reason_of(error: Exception) -> str:
    """Say in a few words why a database cannot be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason.partition("\n")[0].lower()[:120]


class _Copy:
    """A database and its log of changes in a folder of their own, which goes when it is needed no longer."""

    def __init__(self, database: str) -> None:
        folder = tempfile.mkdtemp(prefix="lore-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = os.path.join(folder, "copy.db")
        shutil.copyfile(database, self.path)
        if os.path.isfile(database + "-wal"):
            shutil.copyfile(database + "-wal", self.path + "-wal")


def stamps(database: str) -> Stamps:
    """Return what tells that a database is another one than before; ValueError where it is too large to copy."""
    found = [os.stat(name) for name in (database, database + "-wal") if os.path.isfile(name)]
    if sum(about.st_size for about in found) > LARGEST:
        raise ValueError(f"larger than {LARGEST >> 20} MiB")
    return tuple((about.st_ino, about.st_size, about.st_mtime_ns) for about in found)


@lru_cache(maxsize=1)
def _copied(database: str, _: Stamps) -> _Copy:
    """Copy a database once for all sessions of it that are read one after another."""
    return _Copy(database)
