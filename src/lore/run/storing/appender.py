"""Append events to a stored session: behind what was read, or not at all.

The head is taken before the session is read: where another writer comes between, what is appended builds on a
state that is not stored any more, and the store refuses it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager

from lore.errors import LoreError
from lore.model.events import Event, encode
from lore.run.storing.clock import Clock, now
from lore.run.storing.reserved import refuse
from lore.store.address import Address, noted, open_there, unknown
from lore.store.base import ConflictError, Head, SessionDelta, Store, Tell
from lore.store.saving import save_delta


class StoredAppender:
    """A stored session that is read and then appended to."""

    def __init__(self, store: Store, session_id: str, head: Head, clock: Clock) -> None:
        self._store = store
        self._session_id = session_id
        self._head = head
        self._clock = clock

    def append(self, events: Iterable[Event]) -> bool:
        """Append events, if there are any, in one delta; never is a stored session's last line torn.

        Raises LoreError where another writer has written meanwhile, or nothing could be written.
        """
        lines = tuple(encode(event) for event in events)
        if not lines:
            return False
        delta = SessionDelta(base=self._head, new_events=lines, updated_at=self._clock())
        try:
            self._head = save_delta(self._store, self._session_id, delta)
        except ConflictError as error:
            raise LoreError(error.message, hint="nothing was written: run the command again") from None
        return False


@contextmanager
def appending_to(address: Address, tell: Tell, clock: Clock = now) -> Generator[StoredAppender]:
    """Open a stored session, to be read and then appended to; raises LoreError where there is none.

    `tell` hears what a person should know of the store, a repair for one.
    """
    refuse(address.session_id)
    with closing(open_there(address.url, tell)) as store:
        data = noted(store, address.session_id)
        if data is None:
            raise unknown(address)
        yield StoredAppender(store, address.session_id, data.head, clock)
