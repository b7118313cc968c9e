"""Open the store that `--store` names, for one command."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from lore.store.address import open_there
from lore.store.base import Store, Tell
from lore.store.registry import open_store, scheme_of

GONE = "`memory:` is gone when this command ends"


@contextmanager
def opened(url: str, tell: Tell, *, new: bool = False) -> Generator[Store]:
    """Open a store and close it; `tell` hears what a person should know. Raises StoreError.

    One that is not there yet may be made only where it may be `new`.
    """
    store = open_store(url, tell) if new else open_there(url, tell)
    try:
        if scheme_of(url) == "memory":
            tell(f"note: {GONE}")
        yield store
    finally:
        store.close()
