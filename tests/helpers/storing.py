"""The stores that lore has, opened at a place of a test's own, and a session in a store.

PostgreSQL is in `tests/store` alone, where its server is (`conftest.py` there).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lore.model.events import SessionStarted, encode
from lore.store.base import Store
from lore.store.registry import open_store
from lore.store.session import StoredSession

URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda place: "memory:",
    "jsonl": lambda place: f"jsonl:{place}/sessions",
    "sqlite": lambda place: f"sqlite:{place}/sessions.db",
}


def opened(kind: str, place: Path) -> Store:
    """Open the store of a kind that lives at a place; again, it is the store after a restart (but in memory)."""
    return open_store(URLS[kind](place))


def stored_session(store: Store, header: SessionStarted, **options: Any) -> StoredSession:
    """Create a session with this header, or continue it."""
    store.create(encode(header))
    return StoredSession.open(store, header.session_id, **options)
