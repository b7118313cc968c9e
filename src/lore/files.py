"""Files that are written whole or not at all, locks on files, and where a system keeps what can be made anew.

Standard library alone: a status line asks it.
"""

from __future__ import annotations

import errno
import ntpath
import os
import posixpath
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedWriter

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    _exclusive, _shared = LOCK_EX | LOCK_NB, LOCK_SH | LOCK_NB
except ImportError:  # Windows has no advisory locks
    flock, _exclusive, _shared = None, 0, 0

PAUSE = 0.005  # seconds between two looks whether a lock is free


@contextmanager
def replaced(path: str, *, private: bool = False) -> Generator[BufferedWriter]:
    """Open a file to be written under a temporary name; synchronise and rename it at the end, remove it on an error.

    A `private` one is readable by its owner alone. Raises OSError.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:60]}.{os.urandom(6).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take a lock on an open file without waiting; True also where the system or the file system has no locks."""
    if flock is None:
        return True
    try:
        flock(descriptor, _shared if shared else _exclusive)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def lock(descriptor: int, patience: float, *, shared: bool = False) -> bool:
    """Wait for a lock on an open file, `patience` seconds at most; False where another has it for longer."""
    end = time.monotonic() + patience
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


def write(descriptor: int, data: bytes) -> None:
    """Write all of it in one write. Raises OSError, also where a disk that is nearly full took a part."""
    _check_whole(os.write(descriptor, data), data)


def _check_whole(done: int, data: bytes) -> None:
    if done != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def append(descriptor: int, data: bytes, end: int, *, durable: bool = True) -> None:
    """Write behind the end of a file, in one write, and synchronise it, or cut it back to that end. Raises OSError.

    What somebody wrote behind it meanwhile, without the lock, is not cut off: the file is then longer than it was.
    """
    done = 0
    try:
        os.lseek(descriptor, end, os.SEEK_SET)
        done = os.write(descriptor, data)
        _check_whole(done, data)
        if durable:
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):  # where this fails too, the next writer finds a torn tail
            if os.fstat(descriptor).st_size <= end + done:
                os.ftruncate(descriptor, end)
        raise


def synchronise_folder(path: str) -> None:
    """Make the names in a folder durable, where the system can. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except PermissionError:  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """Make a folder and those above it, for their owner alone, each name durable. Raises OSError."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    if above != path:
        make_folder(above)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    synchronise_folder(above)


def database_uri(path: str, options: str) -> str:
    """Return the URI by which sqlite opens exactly this absolute path, whatever characters are in it."""
    from urllib.parse import quote  # noqa: PLC0415 - asked for by few commands

    return f"file://{quote(os.fsencode(path))}?{options}"


def cache_root(environment: Mapping[str, str], home: str, platform: str) -> str:
    """Return this user's folder of caches; empty where nothing says it. `platform` is as `sys.platform` names it."""
    if platform == "win32":
        return environment.get("LOCALAPPDATA") or (ntpath.join(home, "AppData", "Local") if home else "")
    if platform == "darwin":
        return posixpath.join(home, "Library", "Caches") if home else ""
    return environment.get("XDG_CACHE_HOME") or (posixpath.join(home, ".cache") if home else "")
