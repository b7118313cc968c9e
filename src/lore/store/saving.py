"""Save by delta in any store: in those that cannot, by loading and saving in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from lore.store.applying import digests_of, settle
from lore.store.base import DeltaStore, Head, SessionData, SessionDelta, Store
from lore.store.chain import NOTHING


def save_delta(store: Store, session_id: str, delta: SessionDelta) -> Head:
    """Add a delta to a session and return the head behind it.

    Whether the store takes deltas is asked at each call. One that does not is loaded and saved in full: costs
    O(the session). Raises what the store's own `save_delta` raises.
    """
    if callable(getattr(store, "save_delta", None)):
        return cast("DeltaStore", store).save_delta(session_id, delta)
    data = store.load(session_id)
    settled = settle(delta, Whole(data))
    if not settled.is_empty:
        store.save(
            msgspec.structs.replace(
                data, events=(*data.events, *settled.lines), leaf_id=settled.leaf_id, metadata=settled.metadata,
                created_at=delta.created_at or data.created_at, updated_at=delta.updated_at or data.updated_at,
                head=settled.head,
            )
        )  # fmt: skip
    return settled.head


class Whole:
    """A session that was loaded whole, as `settle` looks at it. Its digests are derived once, when asked for."""

    def __init__(self, data: SessionData) -> None:
        self._data = data
        self._digests: list[bytes] | None = None

    @property
    def head(self) -> Head:
        """How far it is stored."""
        return self._data.head

    @property
    def leaf_id(self) -> str | None:
        """Its leaf."""
        return self._data.leaf_id

    @property
    def metadata(self) -> bytes:
        """Its metadata."""
        return self._data.metadata

    def digest(self, number: int) -> str | None:
        """Return the digest behind event `number` (0: of no events); None where there is none."""
        if self._digests is None:
            self._digests = digests_of(self._data.events)
        if number == 0:
            return NOTHING.digest
        return self._digests[number - 1].hex() if 0 < number <= len(self._digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        """Return at most `count` events that came after a number."""
        return self._data.events[after : after + count]
