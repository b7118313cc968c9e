"""Every store that lore has keeps the contract of stores: memory here, each other one in a file of its own."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from helpers.storing import WITHOUT, opened
from lore.store import registry
from lore.store.jsonl import Jsonl
from lore.store.sqlite import Sqlite
from lore.testing import StoreContract
from store.harness import HarnessScenarios
from store.processes import ProcessScenarios


class TestMemory(StoreContract, HarnessScenarios):
    restarts = False

    def make(self, place):
        return opened("memory", place)


class TestMemoryWithoutDeltas(StoreContract, HarnessScenarios):
    """Every scenario again where each delta is saved in full by `saving.save_delta`."""

    restarts = False

    def make(self, place):
        return opened(WITHOUT, place)


class TestJsonl(StoreContract, HarnessScenarios, ProcessScenarios):
    def make(self, place):
        return Jsonl.open(self.url(place), print)

    def url(self, place):
        (place / "store").mkdir(exist_ok=True)
        return f"jsonl:{place}/store"

    def stamp(self, place, version):
        path = place / "store" / "lore-store.json"
        before = json.loads(path.read_bytes())
        path.write_text(json.dumps({**before, "version": version}))
        return before["version"]


class TestSqlite(StoreContract, HarnessScenarios, ProcessScenarios):
    def make(self, place):
        return Sqlite(str(place / "sessions.db"))

    def url(self, place):
        return f"sqlite:{place}/sessions.db"

    def stamp(self, place, version):
        with closing(sqlite3.connect(place / "sessions.db", isolation_level=None)) as connection:
            before = connection.execute("PRAGMA user_version").fetchone()[0]
            connection.execute(f"PRAGMA user_version = {version}")
        return before


@pytest.mark.parametrize("place", sorted({name for _, name in registry._OWN_STORES.values()}))
def test_every_store_is_run_through_the_contract(place):
    files = Path(__file__).parent.glob("test_*.py")
    assert any(f"class Test{place}(StoreContract, " in one.read_text(encoding="utf-8") for one in files)
