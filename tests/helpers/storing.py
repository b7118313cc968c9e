"""The stores that lore has, opened at a place of a test's own: what tests of all of them share.

PostgreSQL is in `tests/store` alone, where its server is (`conftest.py` there).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from lore.store.base import Head, SessionData, Store
from lore.store.registry import open_store


class Hiding:
    """A store whose `save_delta` is missing until `able` is set."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.able = False
        self.saves: list[SessionData] = []  # sessions saved in full

    def save(self, data: SessionData) -> Head:
        self.saves.append(data)
        return self.inner.save(data)

    def __getattr__(self, name: str) -> object:
        if name == "save_delta" and not self.able:
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def store(self) -> Store:
        """The same, as type checkers see a store."""
        return cast("Store", self)


URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda place: "memory:",
    "jsonl": lambda place: f"jsonl:{place}/sessions",
    "sqlite": lambda place: f"sqlite:{place}/sessions.db",
}
WITHOUT = "memory without deltas"


def opened(kind: str, place: Path) -> Store:
    """Open the store of a kind that lives at a place; again, it is the store after a restart (but in memory)."""
    if kind == WITHOUT:
        return Hiding(opened("memory", place)).store
    return open_store(URLS[kind](place))
