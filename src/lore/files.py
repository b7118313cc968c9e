"""Files that are written whole or not at all, and locks on files."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import BinaryIO

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    _exclusive, _shared = LOCK_EX | LOCK_NB, LOCK_SH | LOCK_NB
except ImportError:  # Windows has no advisory locks
    flock, _exclusive, _shared = None, 0, 0


@contextmanager
def replaced(path: str, *, private: bool = False) -> Generator[BinaryIO]:
    """Open a file to be written under a temporary name; synchronise and rename it at the end, remove it on an error.

    A `private` one is readable by its owner alone. Raises OSError.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:60]}.{token_hex(6)}.part")
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
