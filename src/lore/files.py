"""Files that are written whole or not at all, and locks on files: `flock`, on Windows `LockFileEx`.

A lock of Windows keeps everybody else from reading the bytes that it covers, so lore locks one byte that no file has.
Source: learn.microsoft.com, "LockFileEx function (fileapi.h)", read 2026-11-26.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any, BinaryIO

_AT_ONCE, _EXCLUSIVE = 1, 2  # flags of LockFileEx
_BEHIND = 1 << 30  # upper half of the offset of the byte that is locked: 4 EiB
_HELD = (33, 997)  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING


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
    """Take a lock on an open file without waiting; it ends when the descriptor is closed, or with the process.

    Returns True also where the file system has no locks. A descriptor is locked once.
    """
    try:
        if sys.platform == "win32":
            lock_on_windows(descriptor, shared=shared)
        else:
            from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock  # noqa: PLC0415 - there is none on Windows

            flock(descriptor, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def lock_on_windows(descriptor: int, *, shared: bool) -> None:
    """Lock the byte behind every file; raises BlockingIOError where another process holds it, OSError otherwise."""
    import ctypes  # noqa: PLC0415 - asked for on Windows alone
    import msvcrt  # noqa: PLC0415
    from ctypes import wintypes  # noqa: PLC0415

    class Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_size_t),
            ("internal_high", ctypes.c_size_t),
            ("offset", wintypes.DWORD),
            ("offset_high", wintypes.DWORD),
            ("event", wintypes.HANDLE),
        )

    windows: Any = ctypes  # type checkers on other systems do not know these names
    handles: Any = msvcrt
    lock = windows.WinDLL("kernel32", use_last_error=True).LockFileEx
    lock.argtypes = (wintypes.HANDLE, *(wintypes.DWORD,) * 4, ctypes.POINTER(Overlapped))
    lock.restype = wintypes.BOOL
    flags = _AT_ONCE if shared else _AT_ONCE | _EXCLUSIVE
    if not lock(handles.get_osfhandle(descriptor), flags, 0, 1, 0, Overlapped(offset_high=_BEHIND)):
        code = windows.get_last_error()
        raise BlockingIOError if code in _HELD else OSError(code, "LockFileEx")


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
