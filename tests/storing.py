"""Every kind of store that lore has, opened at a place of a test's own: what tests of all of them share.

@every_store
def test_something(stores, tmp_path): store = stores.make(tmp_path)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lore.store.base import Store
from lore.store.registry import open_store
from lore.testing.stores.making import Hiding
from store.server import Server

URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda place: "memory:",
    "sqlite": lambda place: f"sqlite:{place}/sessions.db",
}
every_store = pytest.mark.parametrize("stores", [*URLS, "memory without deltas", "postgresql"], indirect=True)


class Stores:
    """One kind of store: `make` opens the one that lives at a place, again after a restart."""

    def __init__(self, name: str, url: Callable[[Path], str], server: Server | None = None) -> None:
        self.name = name
        self.restarts = not name.startswith("memory")
        self.url = url
        self.server = server

    def make(self, place: Path) -> Store:
        """Open the store that lives at a place."""
        store = open_store(self.url(place))
        return Hiding(store).store if self.name.endswith("without deltas") else store


def kind(name: str, request: pytest.FixtureRequest) -> Stores:
    """Return a kind of store by its name; PostgreSQL skips where it is not installed."""
    if name != "postgresql":
        return Stores(name, URLS[name.partition(" ")[0]])
    server, lend, urls = request.getfixturevalue("postgres"), request.getfixturevalue("databases"), dict[Path, str]()

    def url(place: Path) -> str:
        if place not in urls:
            urls[place] = lend()
        return urls[place]

    return Stores(name, url, server)
