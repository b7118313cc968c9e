"""The stores that lore has, opened at a place of a test's own: what tests of all of them share.

PostgreSQL is in `tests/store` alone, where its server is (`conftest.py` there).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

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
embedded = pytest.mark.parametrize("kind", [*URLS, WITHOUT])


def opened(kind: str, place: Path) -> Store:
    """Open the store of a kind that lives at a place; again, it is the store after a restart (but in memory)."""
    if kind == WITHOUT:
        return Hiding(opened("memory", place)).store
    return open_store(URLS[kind](place))


def _stamp_sqlite(place: Path, version: int) -> int:
    with closing(sqlite3.connect(place / "sessions.db", isolation_level=None)) as connection:
        (before,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")
    return int(before)


def _stamp_jsonl(place: Path, version: int) -> int:
    path = place / "sessions" / "lore-store.json"
    before = json.loads(path.read_bytes())
    path.write_text(json.dumps({**before, "version": version}))
    return int(before["version"])


STAMPS = {"sqlite": _stamp_sqlite, "jsonl": _stamp_jsonl}
"""Write another format version into the closed store at a place, and return the previous one."""
