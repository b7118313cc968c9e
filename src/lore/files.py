"""Read files up to the length they had when opened, write files atomically, lock files; a user's folders.

Little beyond the standard library is imported, because the status line uses this module. Locks are `flock`, on Windows
`LockFileEx`, which prevents others from reading the locked bytes, so lore locks one byte after the end of any file.
Source: learn.microsoft.com, "LockFileEx function (fileapi.h)", read 2026-11-26.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import SEEK_END, SEEK_SET, BufferedWriter, FileIO
from typing import TYPE_CHECKING, Any, NamedTuple

from lore.errors import LoreError, reason_of

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import WriteableBuffer

__all__ = [
    "OTHER_OUTPUT", "append", "make_folder", "open_capture", "replaced", "synchronise_folder", "try_lock",
    "write_error",
]  # fmt: skip

_AT_ONCE, _EXCLUSIVE = 1, 2  # flags of LockFileEx
_LOCK_BYTE = 1 << 30  # upper half of the offset of the byte that is locked: 4 EiB
_LOCKED_CODES = (33, 997)  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING

PAUSE = 0.005  # seconds between two attempts to lock
_STATE = "LORE_STATE"  # variable that names the folder of locks and approvals


class WholeFile(FileIO):
    """A regular file that is read up to the length it had when opened. Raises OSError for anything else."""

    def __init__(self, path: str) -> None:
        non_blocking = getattr(os, "O_NONBLOCK", 0)  # a pipe that took the file's place would wait for a writer
        super().__init__(path, "rb", opener=lambda path, flags: os.open(path, flags | non_blocking))
        status = os.fstat(self.fileno())
        self.length = status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise OSError(None, "not a regular file", path)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return at most `size` bytes, all if it is negative; none at the end."""
        remaining = self._remaining()
        return super().read(remaining if size is None or size < 0 else min(size, remaining)) or b""

    def readall(self) -> bytes:
        """Return all bytes to the end."""
        return b"".join(iter(self.read, b""))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer, as far as there are bytes."""
        return super().readinto(memoryview(buffer).cast("B")[: self._remaining()]) or 0

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        """Go to a place, which may be counted from the end."""
        return super().seek(self.length + offset) if whence == SEEK_END else super().seek(offset, whence)

    def _remaining(self) -> int:
        return max(0, self.length - self.tell())


def is_named_pipe(path: str) -> bool:
    """Return whether a path is a pipe that may wait for a writer for ever; raises OSError.

    A pipe that this process inherited is not meant: standard input, or `<(COMMAND)` of a shell.
    """
    inherited = path == "/dev/stdin" or path.startswith(("/dev/fd/", "/proc/self/fd/"))
    return not inherited and stat.S_ISFIFO(os.stat(path).st_mode)


class SettingsFile(NamedTuple):
    """A settings file as it was read."""

    path: str
    data: bytes
    status: os.stat_result  # of the open file


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


def try_lock(descriptor: int) -> bool:
    """Acquire a lock on an open file without waiting; it ends when the descriptor is closed, or with the process.

    Returns True also if the file system has no locks. A descriptor is locked once.
    """
    try:
        if sys.platform == "win32":
            lock_on_windows(descriptor)
        else:
            from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415 - missing on Windows

            flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def lock_on_windows(descriptor: int) -> None:
    """Lock a byte after every file's end; raises BlockingIOError if another process holds it, OSError otherwise."""
    import ctypes  # noqa: PLC0415 - only on Windows
    import msvcrt  # noqa: PLC0415
    from ctypes import wintypes  # noqa: PLC0415

    class Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_size_t), ("internal_high", ctypes.c_size_t),
            ("offset", wintypes.DWORD), ("offset_high", wintypes.DWORD), ("event", wintypes.HANDLE),
        )  # fmt: skip

    windows: Any = ctypes  # type checkers on other systems do not know these names
    handles: Any = msvcrt
    lock = windows.WinDLL("kernel32", use_last_error=True).LockFileEx
    lock.argtypes = (wintypes.HANDLE, *(wintypes.DWORD,) * 4, ctypes.POINTER(Overlapped))
    lock.restype = wintypes.BOOL
    if not lock(handles.get_osfhandle(descriptor), _AT_ONCE | _EXCLUSIVE, 0, 1, 0, Overlapped(offset_high=_LOCK_BYTE)):
        code = windows.get_last_error()
        raise BlockingIOError if code in _LOCKED_CODES else OSError(code, "LockFileEx")


def lock(descriptor: int, patience: float) -> bool:
    """Wait for a lock on an open file, `patience` seconds at most; return False if another process still has it."""
    end = time.monotonic() + patience
    while not try_lock(descriptor):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


OTHER_OUTPUT = "name another file with --output"


def open_capture(path: str, label: str, command: str, *, is_new: bool = False) -> int:
    """Open and lock a file of mode 600 for one process of a command, and return its descriptor.

    `is_new`: it must not exist yet. Raises OSError, ValueError; LoreError if another process of the command has it.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | (os.O_EXCL if is_new else 0), 0o600)
    try:
        synchronise_folder(os.path.dirname(os.path.abspath(path)))
        is_held = try_lock(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    if not is_held:
        os.close(descriptor)
        raise LoreError(f"{label} is being written by another {command}", hint=OTHER_OUTPUT)
    return descriptor


def write_error(label: str, reason: str) -> LoreError:
    """Return the error of a file that cannot be written."""
    return LoreError(f"cannot write {label}: {reason}", hint=OTHER_OUTPUT, own=True)


def append(descriptor: int, data: bytes, end: int, *, durable: bool = True) -> None:
    """Write at the end of a file, in one write, and synchronise it, or cut it back to that end. Raises OSError.

    Data that another process wrote there meanwhile, without the lock, is not cut off: the file is then longer.
    """
    byte_count = len(data)  # the most that can be written, in case an interrupt comes before `os.write` returns
    try:
        os.lseek(descriptor, end, os.SEEK_SET)
        byte_count = os.write(descriptor, data)
        if byte_count != len(data):  # a nearly full disk took only a part
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301
        if durable:
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):  # if this fails too, the next writer finds a torn tail
            if os.fstat(descriptor).st_size <= end + byte_count:
                os.ftruncate(descriptor, end)
        raise


def synchronise_folder(path: str) -> None:
    """Make the names in a folder durable, if the system supports it. Raises OSError."""
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


def current_folder() -> str:
    """Return the current folder; empty if it was deleted, or cannot be looked at."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def with_parents(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, up to the root."""
    while folder:
        yield folder
        above = os.path.dirname(folder)
        folder = "" if above == folder else above


def relative(path: str | os.PathLike[str], folder: str = "") -> str:
    """Return a path from a folder, the current one if it is empty; unchanged if there is no way from there."""
    try:
        return os.path.relpath(path, folder or os.curdir)
    except (ValueError, OSError):  # another drive, or a name that no file can have; a folder that was deleted
        return os.fspath(path)


def cache_root(environment: Mapping[str, str], home: str, platform: str) -> str:
    """Return this user's folder of caches; empty if it is unknown. `platform` is as `sys.platform` names it."""
    if platform == "win32":
        return environment.get("LOCALAPPDATA") or (rf"{home}\AppData\Local" if home else "")
    if platform == "darwin":
        return posixpath.join(home, "Library", "Caches") if home else ""
    return environment.get("XDG_CACHE_HOME") or (posixpath.join(home, ".cache") if home else "")


def config_root(environment: Mapping[str, str], home: str, platform: str) -> str:
    """Return this user's folder of settings; empty if it is unknown. `platform` is as `sys.platform` names it."""
    if platform == "win32":
        return environment.get("APPDATA") or (rf"{home}\AppData\Roaming" if home else "")
    if platform == "darwin":
        return posixpath.join(home, "Library", "Application Support") if home else ""
    folder = environment.get("XDG_CONFIG_HOME", "")  # a relative one is ignored, as the specification asks
    return folder if posixpath.isabs(folder) else posixpath.join(home, ".config") if home else ""


def state_folder() -> Path:
    """Return the folder of this user's locks and approvals, which may not exist yet; raises LoreError."""
    from pathlib import Path  # noqa: PLC0415 - the status line needs none

    if os.environ.get(_STATE):
        return Path(os.environ[_STATE])
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise LoreError("there is no home folder", hint=f"name a folder in ${_STATE}") from None
    return base / "lore"


def ensure_private(folder: Path, contents: str) -> Path:
    """Make a folder that only this user can write to; raises LoreError if that fails, or others may write to it.

    `contents` says in the error's text what would be in it, such as "locks".
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise state_error(folder, contents, error) from None
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022):
        raise LoreError(f"{folder} can be written by others: nothing is kept there", hint=f"set ${_STATE}")
    return folder


def state_error(folder: Path, contents: str, error: OSError) -> LoreError:
    """Return the error to raise if a folder of locks or approvals cannot be used."""
    return LoreError(f"cannot keep {contents} in {folder}: {reason_of(error)}", hint=f"name a folder in ${_STATE}")
