"""Stored sessions by name: `URL#SESSION_ID`, wherever a session is named.

In: a name. Out: a store's URL and a session's id, or the bytes of its log. Rules: a file that exists under the
whole name wins; the URL ends at the first `#`, unless the place it names is there only with a later one (a file
may have `#` in its name); all behind it is the id. Reading opens the store, and closes it before it hands
anything on: nothing is created, nothing held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from lore.store.base import SessionData, Store, StoreError, Tell, UnknownSessionError
from lore.store.registry import open_store, scheme_of, silent

BEYOND = 2**53  # more events than any session has: what is loaded after it is the head, and none of them
_CUTS = 16  # of a hostile name, not every `#` is tried


class Address(NamedTuple):
    """A session in a store."""

    url: str
    session_id: str


def address_of(name: str) -> Address | None:
    """Return what a name says of a stored session; None where it is any other name."""
    if "#" not in name or scheme_of(name) is None or os.path.lexists(name):
        return None
    cuts = [at for at, char in enumerate(name) if char == "#"][:_CUTS]
    cut = next((at for at in cuts if os.path.lexists(name[:at].partition(":")[2])), cuts[0])
    return Address(name[:cut], name[cut + 1 :])


def is_store(name: str) -> bool:
    """Tell whether a name is the URL of a store, and no file."""
    return scheme_of(name) is not None and not os.path.lexists(name)


def noted(store: Store, session_id: str) -> SessionData | None:
    """Return what is stored of a session except its events; None where there is no such session."""
    try:
        return store.load(session_id, after=BEYOND)
    except UnknownSessionError:
        return None


def exists(address: Address) -> bool:
    """Tell whether a session is stored; one in a store that cannot be read is not: reading it says why."""
    try:
        with closing(open_store(address.url)) as store:
            return noted(store, address.session_id) is not None
    except StoreError:
        return False


def log_of(address: Address, size: int, tell: Tell = silent) -> Iterator[bytes]:
    """Yield the log of a stored session, in pieces of about `size` bytes that end with a line.

    Raises StoreError. The events are held until they were handed on.
    """
    with closing(open_store(address.url, tell)) as store:
        events = list(store.load(address.session_id).events)
    events.reverse()
    piece, held = list[bytes](), 0
    while events:
        piece.append(events.pop())
        held += len(piece[-1]) + 1
        if held >= size or not events:
            yield b"\n".join((*piece, b""))
            piece, held = [], 0
