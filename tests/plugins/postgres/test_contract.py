"""The contract of stores with PostgreSQL, each scenario in its own database."""

import pytest

from lore.store.registry import ignore
from lore.testing import StoreContract
from lore_plugins.postgres.store import Postgres
from store.processes import ProcessScenarios
from store.scenarios import MoreScenarios


class TestPostgres(StoreContract, MoreScenarios, ProcessScenarios):
    @pytest.fixture(autouse=True)
    def _in_databases(self, databases, postgres):
        self.databases, self.server, self.urls = databases, postgres, {}

    def make(self, place):
        return Postgres.open(self.url(place), ignore)

    def url(self, place):
        if place not in self.urls:
            self.urls[place] = self.databases()
        return self.urls[place]

    def stamp(self, place, version):
        (before,) = self.server.run("SELECT version FROM lore.lore_store", self.url(place))[0]
        self.server.run("UPDATE lore.lore_store SET version = %s", self.url(place), (version,))
        return before
