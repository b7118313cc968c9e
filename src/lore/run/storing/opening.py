"""Open the store that `--store` names, for one command."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from lore.store.address import address_of, may_be_there, open_there
from lore.store.base import Store, StoreError, Tell
from lore.store.registry import open_store, scheme_of, shown

GONE = "`memory:` is gone when this command ends"


@contextmanager
def opened(url: str, tell: Tell, *, new: bool = False) -> Generator[Store]:
    """Open a store and close it; `tell` hears what a person should know. Raises StoreError.

    One that is not there yet may be made only where it may be `new`.
    """
    named = address_of(url)
    if named is not None and not os.path.lexists(url.partition(":")[2]) and may_be_there(named.url):
        raise StoreError(
            f"{shown(url)} names a session, not a store", hint=f"--store {shown(named.url)}, and the session's id apart"
        )
    store = open_store(url, tell) if new else open_there(url, tell)
    try:
        if scheme_of(url) == "memory":
            tell(f"note: {GONE}")
        yield store
    finally:
        store.close()
