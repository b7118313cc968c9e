"""The ledgers of recordings that did not change since they were read: one SQLite file in the user's cache folder.

It is open only for as long as a query or a write takes, so that processes can share it. Its rows can be
made again: a damaged file, or one of another program, is deleted; one that cannot be read or written is left alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import TypeVar

import msgspec

from lore.files import make_folder
from lore.model.ledger import Ledger
from lore.recording import filesystem

KEPT_DAYS = 60  # days that an unused ledger is kept
PATIENCE = 2.0  # seconds for which another process may write
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)  # other tables, or no database
_TABLE = """create table if not exists ledgers (
    path blob primary key, maker text, identity blob, used integer, ledger blob)"""

T = TypeVar("T")


class LedgerCache:
    """Ledgers by the path of their recording.

    A ledger counts only for the `maker` (program, rules and settings) and the identity of the recording's files with
    which it was kept.
    """

    def __init__(self, file: str, maker: str, day: int) -> None:
        self._file, self._maker = os.path.abspath(file), maker
        self._day = day  # today, in days since the epoch

    def find(self, identities: Mapping[str, bytes]) -> dict[str, Ledger]:
        """Return the ledgers of recordings whose files are as they were."""
        if not os.path.exists(self._file):
            return {}
        found, unused = dict[str, Ledger](), list[bytes]()
        decoder = msgspec.msgpack.Decoder(Ledger)
        query = "select ledger, used from ledgers where path = ? and identity = ? and maker = ?"

        def look(database: sqlite3.Connection) -> None:
            for path, identity in identities.items():
                row = database.execute(query, (_key(path), identity, self._maker)).fetchone() if identity else None
                with suppress(msgspec.DecodeError, ValueError, RecursionError):
                    if row is not None:
                        found[path] = decoder.decode(row[0])
                        unused.extend([_key(path)] if row[1] != self._day else [])

        self._run(look)
        if unused:
            self._run(lambda database: self._mark_used(database, unused))
        return found

    def keep(self, made: Sequence[tuple[str, bytes, Ledger]]) -> None:
        """Keep ledgers, each with its path and the identity that its files had before they were read."""
        rows = list[tuple[bytes, str, bytes, int, bytes]]()
        for path, identity, ledger in made:
            with suppress(OverflowError):  # a recording may say numbers that no form of storage holds
                rows.append((_key(path), self._maker, identity, self._day, msgspec.msgpack.encode(ledger)))
        self._run(lambda database: database.executemany("replace into ledgers values (?, ?, ?, ?, ?)", rows))

    def _mark_used(self, database: sqlite3.Connection, paths: list[bytes]) -> None:
        """Note that ledgers were used today; delete those that were not for long."""
        database.executemany("update ledgers set used = ? where path = ?", [(self._day, path) for path in paths])
        database.execute("delete from ledgers where used < ?", (self._day - KEPT_DAYS,))

    def _run(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do work in one transaction, or none of it."""
        try:
            make_folder(os.path.dirname(self._file))
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self._file, timeout=PATIENCE)) as database, database:
                database.execute(_TABLE)
                work(database)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_NOTADB) & 0xFF in _DAMAGE:
                with suppress(OSError):
                    os.unlink(self._file)
        except OSError:
            return


def _key(path: str) -> bytes:
    return os.fsencode(path if filesystem.is_remote(path) else os.path.abspath(path))
