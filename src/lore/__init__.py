"""lore: an offline judge of prompt caches and an assembler of cache-stable prompts.

The package is imported lazily, room by room: `import lore` costs nothing but this file. `lore.Session` and
`lore.event` are the library (`lore.session`), `lore.StoredSession` and `lore.open_store` keep a session in a store.

For pytest, which loads lore's plugin: PYTEST_DONT_REWRITE this file, so that it may be imported before pytest is.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lore.session import Session as Session
    from lore.session import event as event
    from lore.store.registry import open_store as open_store
    from lore.store.session import StoredSession as StoredSession

__version__ = "0.1.0"


_PLACES = {
    "Session": "lore.session",
    "event": "lore.session",
    "StoredSession": "lore.store.session",
    "open_store": "lore.store.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'lore' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
