"""Stores by the scheme of their URLs; other packages add theirs under the entry-point group `lore.stores`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import cast

from lore.store.base import Store, StoreError, Tell

# Where each is made, imported when it is asked for: a database's client is slow to import, or not installed.
_PLACES = {
    "memory": ("lore.store.memory", "Memory"),
    "jsonl": ("lore.store.jsonl", "Jsonl"),
    "sqlite": ("lore.store.sqlite", "Sqlite"),
    "postgresql": ("lore.store.postgres", "Postgres"),
    "postgres": ("lore.store.postgres", "Postgres"),
}
GROUP = "lore.stores"
STORES: dict[str, Callable[[str, Tell], Store]] = {}  # what other packages publish
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
_SHAPES = {
    "memory": "memory:",
    "jsonl": "jsonl:DIR",
    "sqlite": "sqlite:FILE",
    "postgresql": "postgresql://HOST/DATABASE",
}
HINT = "stores: " + ", ".join(_SHAPES.values())


def scheme_of(url: str) -> str | None:
    """Return the scheme of a store's URL; None for text that begins like none that is known.

    Other packages are asked only where the text begins like a scheme, and once for each.
    """
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else ""
    return scheme if scheme in _PLACES or scheme in STORES or (scheme and _publishes(scheme)) else None


@cache
def _publishes(scheme: str) -> bool:
    """Take over the store that another package publishes for a scheme; tell whether there is one."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and seldom asked

    for point in entry_points(group=GROUP, name=scheme):
        try:
            STORES[scheme] = point.load()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            hint = f"mend or remove {point.value}"
            raise StoreError(f"the plug-in {scheme!r} ({GROUP}) cannot be loaded: {error}", hint=hint) from None
        return True
    return False


def silent(_: str) -> None:
    """Say nothing."""


def open_store(url: str, tell: Tell = silent) -> Store:
    """Open a store by its URL; `tell` hears what a person should know, a repair for one.

    Raises StoreError where there is no such kind of store, and what opening it raises. Close it when done.
    """
    scheme = scheme_of(url)
    if scheme is None:
        raise StoreError(f"{shown(url)!r} names no store", hint=HINT)
    if scheme in _PLACES:
        module, name = _PLACES[scheme]
        return cast("Callable[[str, Tell], Store]", getattr(import_module(module), name).open)(url, tell)
    return STORES[scheme](url, tell)


# up to the last @: a password with @, /, ? or # in it should be percent-encoded, and is not shown where it is not
_PASSWORD = re.compile(r"(?<=://)([^/@?#:\s]*):(\S*)(?=@)|(?<=password=)[^&\s#]*", re.IGNORECASE)


def shown(url: str) -> str:
    """Return a store's URL as it may be shown: without the password in it."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***" if found[1] is not None else "***", url)
