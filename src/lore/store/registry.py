"""Stores by the scheme of their URLs, and their sessions by name: `URL#SESSION_ID`, wherever a session is named.

Other packages publish stores under the entry-point group `lore.stores`. A file that exists under the whole name wins.
The URL ends at the first `#`, unless the place that it names exists only with a later one (a file name may contain
`#`), and the id is what follows. `s3://` names recordings, never a store. Reading opens the store and closes it
before it returns: nothing is created, nothing held.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import lru_cache

from msgspec import Struct

from lore.errors import install_hint, nearest_name
from lore.model.canonical import printable
from lore.model.deferred import Registry, pattern
from lore.model.mask import mask
from lore.plugins import entry_points
from lore.store.base import SessionData, Store, StoreError, Tell, UnknownSessionError

GROUP = "lore.stores"
STORES = Registry[Callable[[str, Tell], Store]](  # by scheme; those of other packages once they were asked for
    {"memory": "lore.store.sqlite:Memory", "jsonl": "lore.store.jsonl:Jsonl", "sqlite": "lore.store.sqlite:Sqlite"},
    make=lambda store: store.open,
)
_EXTRAS = {"postgresql": "postgres", "postgres": "postgres"}  # schemes of lore's own plug-ins
_WITH_FILES = ("sqlite", "jsonl")  # schemes whose URL names a file or a folder
BESIDE = ("-wal", "-shm", "-journal")  # endings of the files that sqlite keeps next to its own
_SCHEME = pattern(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
_MOST_CUTS = 16  # places of `#` in a name that are tried as the end of a path: a hostile name may hold many
_MOST_NOTES = 1_024  # messages remembered, to print each once
NO_EVENTS = 2**53  # more events than any session has: loading after this number returns none


def ignore(_: str) -> None:
    """Ignore a message for the user."""


def scheme_of(url: str) -> str | None:
    """Return the scheme of a store's URL; None for all other text."""
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else ""
    return scheme if scheme in _EXTRAS or (scheme and _has_store(scheme)) else None


def _has_store(scheme: str) -> bool:
    """Return whether there is a store for a scheme; adds the one that another package publishes to `STORES`."""
    if scheme not in STORES:
        for point in entry_points(GROUP):
            if point.name == scheme:
                try:
                    STORES[scheme] = point.load()
                except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
                    message = f"the plug-in {scheme!r} ({GROUP}) cannot be loaded: {error}"
                    raise StoreError(message, hint=f"repair or remove {point.value}") from None
    return scheme in STORES


def open_store(url: str, tell: Tell = ignore) -> Store:
    """Open a store by its URL; raises StoreError. `tell` receives messages for the user, such as a repair."""
    scheme = scheme_of(url)
    if scheme is None:
        message, hint = "", "stores: memory:, jsonl:DIR, sqlite:FILE, postgresql://HOST/DATABASE"
        if url.strip(":").lower() in STORES:
            hint = f"write the kind, a colon, and the place: {hint}"
        elif ":" in url and (near := nearest_name(url.partition(":")[0].lower(), [*STORES, *_EXTRAS], 0.75)):
            corrected = f"{near}:{url.partition(':')[2]}"
            hint = f"did you mean {mask_url(corrected)!r}? {hint}"
        elif url and ":" not in url:
            hint = f"did you mean 'sqlite:{mask_url(url)}'? {hint}"
        elif url.lower().startswith("s3://"):
            message = ": sessions are not stored in buckets"
            hint = "to share a store between machines, use a PostgreSQL database: --store postgresql://HOST/DATABASE"
        raise StoreError(f"{mask_url(url)!r} is not the URL of a store{message}", hint=hint)
    if not _has_store(scheme):
        message = f"{mask_url(url)} needs lore's plug-in {_EXTRAS[scheme]!r}, which this installation lacks"
        raise StoreError(message, hint=install_hint(_EXTRAS[scheme]))
    return STORES[scheme](url, tell)


def open_existing(url: str, tell: Tell = ignore) -> Store:
    """Open a store for reading; raises StoreError if its file or folder is missing, where writing would make it."""
    if not may_exist(url):
        hint = "look at its name; `lore store import` makes a new one"
        raise StoreError(f"there is no store {mask_url(url)}", hint=hint)
    return open_store(url, tell)


def may_exist(url: str) -> bool:
    """Return whether a store's file or folder exists; True for a store without one, which only opening can tell."""
    place = place_of(url)
    return place is None or os.path.lexists(place) or os.path.lexists(url.partition(":")[2])


def place_of(url: str) -> str | None:
    """Return the path of a store's file or folder; None if it has none."""
    place = url.partition(":")[2]
    return os.path.expanduser(place) if place and scheme_of(url) in _WITH_FILES else None


# up to the last @: a password with @, /, ? or # in it should be percent-encoded, and is masked if it is not
_PASSWORD = pattern(r"(?<=://)([^/@?#:\s]*):(\S*)(?=@)|(?<=password=)[^&\s#]*", re.IGNORECASE)
# a signed URL gives whoever knows it the right to read
_QUERY = pattern(r"((?:https?|s3|gs|az|abfss?)://[^\s?#]*\?)([^\s#]+)", re.IGNORECASE)


def mask_url(url: str) -> str:
    """Return a URL with its password masked, and the values of a remote one's query."""
    safe = _PASSWORD.sub(lambda match: f"{match[1]}:***" if match[1] is not None else "***", url)
    return _QUERY.sub(_mask_values, safe) if "?" in safe else safe


def _mask_values(match: re.Match[str]) -> str:
    names = (option.partition("=") for option in match[2].split("&"))
    return match[1] + "&".join(f"{name}=***" if equals else "***" for name, equals, _ in names)


@lru_cache(maxsize=_MOST_NOTES)
def print_note_once(text: str) -> None:
    """Write a store's message to standard error, once in a process."""
    if sys.stderr is not None:
        safe = "".join(char if char.isprintable() else "\ufffd" for char in mask(mask_url(text)))
        sys.stderr.write(f"note: {safe}\n")


def notes_on_readers(paths: Iterable[str]) -> tuple[str, ...]:
    """Return a note for each of a store's files and folders that other users of this machine may read."""
    notes: list[str] = []
    for path in paths:
        with suppress(OSError):  # it is missing, or was removed meanwhile
            status = os.lstat(path)
            mode = status.st_mode & 0o777
            if mode & 0o077 and not stat.S_ISLNK(status.st_mode):
                notes.append(f"{printable(path)} can be read by other users (mode {mode:04o}): `chmod go-rwx` it")
    return tuple(notes)


class SessionAddress(Struct, frozen=True):
    """A session in a store."""

    url: str
    session_id: str


def address_of(name: str) -> SessionAddress | None:
    """Return the stored session that a name means; None for any other name."""
    if "#" not in name or scheme_of(name) is None or os.path.lexists(name):
        return None
    cuts = [at for at, char in enumerate(name) if char == "#"][:_MOST_CUTS]
    cut = next((at for at in cuts if os.path.lexists(name[:at].partition(":")[2])), cuts[0])
    return SessionAddress(name[:cut], name[cut + 1 :])


def is_store(name: str) -> bool:
    """Return whether a name is the URL of a store, and not a file."""
    return scheme_of(name) is not None and not os.path.lexists(name)


def is_file_of_store(name: str, path: str) -> bool:
    """Return whether a file is one of those that keep the store named by `name`, with a session or without."""
    address = address_of(name)
    place = place_of(name if address is None else address.url)
    if place is None or (address is None and not is_store(name)):
        return False
    place, path = os.path.realpath(place), os.path.realpath(path)
    if os.path.isdir(place):
        return os.path.dirname(path) == place and path.endswith((".jsonl", "bindings.json", "lore-store.json"))
    return path in (place, *(place + end for end in BESIDE))


def load_notes(store: Store, session_id: str) -> SessionData | None:
    """Return a stored session without its events; None if there is no such session."""
    try:
        return store.load(session_id, after=NO_EVENTS)
    except UnknownSessionError:
        return None


def session_exists(address: SessionAddress) -> bool:
    """Return whether a session is stored; False if the store cannot be read (reading it then reports why)."""
    try:
        with closing(open_existing(address.url)) as store:
            return load_notes(store, address.session_id) is not None
    except StoreError:
        return False


def read_log(address: SessionAddress) -> bytes:
    """Return the log of a stored session; raises StoreError."""
    with closing(open_existing(address.url, print_note_once)) as store:
        try:
            return store.load(address.session_id).log
        except UnknownSessionError:
            raise UnknownSessionError(address.session_id, mask_url(address.url)) from None
