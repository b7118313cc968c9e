"""Give a stored session back as its log."""

from __future__ import annotations

from collections.abc import Iterator

from lore.store.base import Store


def exported(store: Store, session_id: str) -> Iterator[bytes]:
    """Return the lines of a session's log, each with its end; raises UnknownSessionError, DamagedError at once."""
    events = store.load(session_id).events
    return (event + b"\n" for event in events)
