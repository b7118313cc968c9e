"""The lock of an agent and its user, for one compaction at a time.

The lock holds for all who share a store: between machines if the store has a lock of its own (PostgreSQL), else as an
empty file, in the folder of the store's files. Without files of a store it is in `locks` in `$LORE_STATE`, else in
`$XDG_STATE_HOME/lore`, else in `~/.local/state/lore`. Locks hold between threads and processes on every system, and end
with their process. The holder removes the file; FileLock refuses a lock on a file that was removed since it was opened.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lore.files import ensure_private, state_error, state_folder
from lore.model.canonical import encode
from lore.store.base import Store
from lore.store.registry import mask_url, place_of


@contextmanager
def trylock(store: Store | str, agent: str, user: str) -> Generator[bool]:
    """Try to hold the lock of an agent and its user in a store, without waiting; yields whether it is held.

    With a URL the lock is a file; a store that has a method `try_lock` is asked for it. Raises LoreError.
    """
    store_lock = None if isinstance(store, str) else getattr(store, "try_lock", None)
    if store_lock is not None:
        with store_lock(encode((agent, user)).decode()) as is_held:
            yield is_held
        return
    path = lock_path(store if isinstance(store, str) else store.url, agent, user)
    lock = FileLock(path, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except OSError as error:
        raise state_error(path.parent, "locks", error) from None
    try:
        yield True
    finally:
        if os.name == "posix":  # on Windows the lock removes the file itself, after its release
            with suppress(OSError):
                path.unlink()
        lock.release()


def lock_path(store_url: str, agent: str, user: str) -> Path:
    """Return the path of a lock's file: the same for every spelling of a store's path, which it does not reveal."""
    place = place_of(store_url)
    real = "" if place is None else os.path.realpath(place)
    is_jsonl = store_url.lower().startswith("jsonl:")
    if real and os.path.isdir(real) == is_jsonl:  # else a log alone, which is no store
        name = hashlib.sha256(encode((agent, user))).hexdigest() + ".lock"
        return Path(real, f".{name}") if is_jsonl else Path(os.path.dirname(real), f".{os.path.basename(real)}.{name}")
    url = f"{'jsonl' if is_jsonl else 'sqlite'}:{real}" if real else mask_url(store_url)
    name = hashlib.sha256(encode((url, agent, user))).hexdigest() + ".lock"
    return ensure_private(state_folder() / "locks", "locks") / name
