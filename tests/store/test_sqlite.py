"""Sessions in one sqlite file: the contract, the file itself, and what older and other programs left there."""

import sqlite3
from contextlib import closing

from lore.store.sqlite import Sqlite
from lore.testing import StoreContract


class TestSqlite(StoreContract):
    def make(self, place):
        return Sqlite(str(place / "sessions.db"))

    def stamp(self, place, version):
        with closing(sqlite3.connect(place / "sessions.db", isolation_level=None)) as connection:
            before = connection.execute("PRAGMA user_version").fetchone()[0]
            connection.execute(f"PRAGMA user_version = {version}")
        return before
