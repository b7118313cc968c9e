"""Every store that lore has keeps the contract of stores."""

import sqlite3

import pytest

from lore.testing import StoreContract
from storing import kind


class Contract(StoreContract):
    """The contract of one kind of store, by its name."""

    name = ""

    @pytest.fixture(autouse=True)
    def _kind(self, request):
        self.kind = kind(self.name, request)

    def make(self, place):
        return self.kind.make(place)


class TestMemory(Contract):
    name = "memory"
    restarts = False


class TestMemoryWithoutDeltas(Contract):
    """Every scenario again where each delta is saved in full by `saving.save_delta`."""

    name = "memory without deltas"
    restarts = False


class TestSqlite(Contract):
    name = "sqlite"

    def stamp(self, place, version):
        with sqlite3.connect(place / "sessions.db") as connection:
            (before,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        return before


class TestPostgres(Contract):
    name = "postgresql"

    def stamp(self, place, version):
        server, url = self.kind.server, self.kind.url(place)
        ((before,),) = server.run("SELECT version FROM lore.lore_store", url)
        server.run(f"UPDATE lore.lore_store SET version = {version}", url)
        return before
