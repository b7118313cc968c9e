"""Stores by the scheme of their URLs, and their sessions by name: `URL#SESSION_ID`, wherever a session is named.

Other packages add stores under the entry-point group `lore.stores`. Rules for names: a file that exists under the whole
name wins; the URL ends at the first `#`, unless the place it names is there only with a later one (a file may have `#`
in its name); all behind it is the id. `s3://` names recordings, never a store. Reading opens the store, and closes it
before it hands anything on: nothing is created, nothing held.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, lru_cache
from importlib import import_module
from typing import NamedTuple, cast

from lore.errors import install_hint
from lore.model.deferred import pattern
from lore.model.mask import mask
from lore.plugins import published
from lore.store.base import SessionData, Store, StoreError, Tell, UnknownSessionError

# Where each is made, imported when it is asked for.
_PLACES = {
    "memory": ("lore.store.sqlite", "Memory"),
    "jsonl": ("lore.store.jsonl", "Jsonl"),
    "sqlite": ("lore.store.sqlite", "Sqlite"),
}
GROUP = "lore.stores"
_BROUGHT = {"postgresql": "postgres", "postgres": "postgres"}  # schemes of lore's own plug-ins, and their extras
STORES: dict[str, Callable[[str, Tell], Store]] = {}  # what other packages publish
_SCHEME = pattern(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
HINT = "stores: memory:, jsonl:DIR, sqlite:FILE, postgresql://HOST/DATABASE"
_REMOVED = {"s3": "to share a store between machines, use a PostgreSQL database: --store postgresql://HOST/DATABASE"}


def scheme_of(url: str) -> str | None:
    """Return the scheme of a store's URL; None for text that begins like none that is known.

    Other packages are asked only where the text begins like a scheme, and once for each.
    """
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else ""
    if scheme in _PLACES or scheme in STORES or scheme in _BROUGHT:
        return scheme
    return scheme if scheme and _publishes(scheme) else None


@cache
def _publishes(scheme: str) -> bool:
    """Take over the store that another package publishes for a scheme; tell whether there is one."""
    for point in published(GROUP):
        if point.name != scheme:
            continue
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
        removed = _REMOVED.get(url.partition("://")[0].lower())
        if removed is not None:
            raise StoreError(f"{shown(url)!r} names no store: sessions are not stored in buckets", hint=removed)
        raise StoreError(f"{shown(url)!r} names no store", hint=HINT)
    if scheme in _PLACES:
        module, name = _PLACES[scheme]
        return cast("Callable[[str, Tell], Store]", getattr(import_module(module), name).open)(url, tell)
    if scheme not in STORES and not _publishes(scheme):
        extra = _BROUGHT[scheme]
        message = f"{shown(url)} needs lore's plug-in {extra!r}, which this installation lacks"
        raise StoreError(message, hint=install_hint(extra))
    return STORES[scheme](url, tell)


# up to the last @: a password with @, /, ? or # in it should be percent-encoded, and is not shown where it is not
_PASSWORD = pattern(r"(?<=://)([^/@?#:\s]*):(\S*)(?=@)|(?<=password=)[^&\s#]*", re.IGNORECASE)


# a signed name gives whoever knows it the right to read
_QUERY = pattern(r"((?:https?|s3|gs|az|abfss?)://[^\s?#]*\?)([^\s#]+)", re.IGNORECASE)


def shown(url: str) -> str:
    """Return a URL as it may be shown: without the password in it, and of what is remote without the query's values."""
    safe = _PASSWORD.sub(lambda found: f"{found[1]}:***" if found[1] is not None else "***", url)
    return _QUERY.sub(_without_values, safe) if "?" in safe else safe


def _without_values(found: re.Match[str]) -> str:
    names = (option.partition("=") for option in found[2].split("&"))
    return found[1] + "&".join(f"{name}=***" if equals else "***" for name, equals, _ in names)


BEYOND = 2**53  # more events than any session has: what is loaded after it is the head, and none of them
_PLACED = ("sqlite", "jsonl")  # whose URL names a file or a folder
BESIDE = ("-wal", "-shm", "-journal")  # what sqlite keeps beside its file
_MOST_SAID = 1_024  # messages of a store printed once each
_CUTS = 16  # places of a name, each a `#`, tried as the end of a path: a hostile name may hold many


@lru_cache(maxsize=_MOST_SAID)
def say_once(text: str) -> None:
    """Write a store's notes to standard error while it is read by name.

    Said once by a process, however often the session is read.
    """
    if sys.stderr is not None:
        safe = "".join(char if char.isprintable() else "\ufffd" for char in mask(shown(text)))
        sys.stderr.write(f"note: {safe}\n")


class SessionAddress(NamedTuple):
    """A session in a store."""

    url: str
    session_id: str


def address_of(name: str) -> SessionAddress | None:
    """Return what a name says of a stored session; None where it is any other name."""
    if "#" not in name or scheme_of(name) is None or os.path.lexists(name):
        return None
    cuts = [at for at, char in enumerate(name) if char == "#"][:_CUTS]
    cut = next((at for at in cuts if os.path.lexists(name[:at].partition(":")[2])), cuts[0])
    return SessionAddress(name[:cut], name[cut + 1 :])


def is_store(name: str) -> bool:
    """Tell whether a name is the URL of a store, and no file."""
    return scheme_of(name) is not None and not os.path.lexists(name)


def holds(name: str, path: str) -> bool:
    """Tell whether a file is one of those that keep the store which a name, with a session or without, stands for."""
    address = address_of(name)
    url = name if address is None else address.url
    if scheme_of(url) not in _PLACED or (address is None and not is_store(name)):
        return False
    place, path = (os.path.realpath(name) for name in (os.path.expanduser(url.partition(":")[2]), path))
    if os.path.isdir(place):
        from lore.store.jsonl_folder import BINDINGS, LOG, STAMP  # noqa: PLC0415 - read by few commands

        return os.path.dirname(path) == place and path.endswith((LOG, BINDINGS, STAMP))
    return path in (place, *(place + end for end in BESIDE))


def open_there(url: str, tell: Tell = silent) -> Store:
    """Open a store that is there already; raises StoreError where its file or folder is missing.

    What only reads says so: a store that is not there would otherwise be an empty one.
    """
    if not may_be_there(url):
        raise StoreError(
            f"there is no store {shown(url)}", hint="look at its name; `lore store import` makes a new one"
        )
    return open_store(url, tell)


def may_be_there(url: str) -> bool:
    """Tell whether a store's file or folder is there; of a store that has none, only opening it says more."""
    place = url.partition(":")[2]
    return scheme_of(url) not in _PLACED or any(map(os.path.lexists, (place, os.path.expanduser(place))))


def noted(store: Store, session_id: str) -> SessionData | None:
    """Return what is stored of a session except its events; None where there is no such session."""
    try:
        return store.load(session_id, after=BEYOND)
    except UnknownSessionError:
        return None


def exists(address: SessionAddress) -> bool:
    """Tell whether a session is stored; one in a store that cannot be read is not: reading it says why."""
    try:
        with closing(open_there(address.url)) as store:
            return noted(store, address.session_id) is not None
    except StoreError:
        return False


def log_of(address: SessionAddress, size: int) -> Iterator[bytes]:
    """Yield the log of a stored session, in pieces of about `size` bytes that end with a line.

    Raises StoreError. The events are held until they were handed on.
    """
    with closing(open_there(address.url, say_once)) as store:
        try:
            events = deque(store.load(address.session_id).events)
        except UnknownSessionError:
            raise UnknownSessionError(address.session_id, shown(address.url)) from None
    while events:
        piece = bytearray()
        while events and len(piece) < size:
            piece += events.popleft()
            piece += b"\n"
        yield bytes(piece)
