"""Give a stored session back as its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from lore.errors import LoreError
from lore.store.base import SalvagingStore, Store, Tell


def exported(store: Store, session_id: str) -> Iterator[bytes]:
    """Return the lines of a session's log, each with its end; raises UnknownSessionError, DamagedError at once."""
    events = store.load(session_id).events
    return (event + b"\n" for event in events)


def left(store: Store, session_id: str, tell: Tell) -> Iterator[bytes]:
    """Return the lines of a damaged session that are surely as they were written; `tell` hears how many are not there.

    Raises UnknownSessionError, and LoreError for a store of another package that cannot do that.
    """
    if not callable(getattr(store, "salvage", None)):
        raise LoreError(f"{store.url} cannot give out a part of a session", hint="leave --salvage out")
    found = cast("SalvagingStore", store).salvage(session_id)
    out = "nothing is" if not found.lost else "1 event is" if found.lost == 1 else f"{found.lost:,} events are"
    tell(f"note: {out} left out{': damaged or missing' if found.lost else ''}")
    return (event + b"\n" for event in found.events)
