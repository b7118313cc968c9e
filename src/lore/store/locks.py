"""The lock of an agent and its user, for one compaction at a time, and the secrets of this machine's user.

Locks are empty files named by a digest, in `locks` in `$LORE_STATE`, else in `$XDG_STATE_HOME/lore`, else in
`~/.local/state/lore`. They hold between threads and processes on every system, and end with their process. The files
stay: removing one while another process opens it would give both the lock.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lore.errors import LoreError
from lore.files import replaced
from lore.model.canonical import encode
from lore.store.registry import mask_url, place_of

FOLDER = "LORE_STATE"
KEY_BYTES = 32
_KEY = "boundary.key"


@contextmanager
def trylock(store_url: str, agent: str, user: str, *, folder: Path | None = None) -> Generator[bool]:
    """Try to hold the lock of an agent and its user, without waiting; yields whether it is held. Raises LoreError."""
    path = (folder or state_folder() / "locks") / lock_name(store_url, agent, user)
    private(path.parent)
    lock = FileLock(path, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except OSError as error:
        raise _refused(f"locks in {path.parent}", error) from None
    try:
        yield True
    finally:
        lock.release()


def lock_name(store_url: str, agent: str, user: str) -> str:
    """Return the name of a lock's file: the same for every spelling of a store's place, and without its words."""
    place = place_of(store_url)
    url = mask_url(store_url) if place is None else f"{store_url.partition(':')[0].lower()}:{os.path.realpath(place)}"
    return hashlib.sha256(encode((url, agent, user))).hexdigest() + ".lock"


def state_folder() -> Path:
    """Return the folder of this user's locks and secrets, which may not exist yet; raises LoreError."""
    if os.environ.get(FOLDER):
        return Path(os.environ[FOLDER])
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise LoreError("there is no home folder", hint=f"name a folder in ${FOLDER}") from None
    return base / "lore"


def private(folder: Path) -> Path:
    """Make a folder that only this user writes to; raises LoreError if that fails, or others may write to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise _refused(f"locks in {folder}", error) from None
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022):
        raise LoreError(f"{folder} can be written by others: nothing is kept there", hint=f"set ${FOLDER}")
    return folder


def boundary_key(folder: Path) -> bytes:
    """Return this user's random secret for boundary lines, which is made when it is first needed; raises LoreError."""
    path = private(folder) / _KEY
    try:
        if not path.exists():  # written whole: of two processes that make one, neither reads half of it
            with replaced(str(path), private=True) as file:
                file.write(secrets.token_bytes(KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise _refused(f"a key in {path}", error) from None
    if len(key) != KEY_BYTES:
        raise LoreError(f"{path} is not a key of {KEY_BYTES} bytes", hint="delete it: another one is made")
    return key


def _refused(what: str, error: OSError) -> LoreError:
    reason = (error.strerror or str(error)).lower()
    return LoreError(f"cannot keep {what}: {reason}", hint=f"name a folder in ${FOLDER}")
