"""The stores that lore has, opened at a place of a test's own: what tests of all of them share.

PostgreSQL is in `tests/store` alone, where its server is (`conftest.py` there).
"""

from collections.abc import Callable
from pathlib import Path

from lore.store.base import Store
from lore.store.registry import open_store

URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda place: "memory:",
    "jsonl": lambda place: f"jsonl:{place}/sessions",
    "sqlite": lambda place: f"sqlite:{place}/sessions.db",
}


def opened(kind: str, place: Path) -> Store:
    """Open the store of a kind that lives at a place; again, it is the store after a restart (but in memory)."""
    return open_store(URLS[kind](place))
