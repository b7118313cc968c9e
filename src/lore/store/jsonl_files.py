"""Files of a folder of logs: opened safely, locked, written so that they are whole or as they were.

Rules:
- no symbolic link is followed, and nothing but a regular file is opened, so that nobody who may write to the folder
  can make lore write elsewhere; files are for their owner alone (0600);
- a writer holds an exclusive lock (`flock`) on the file itself, a reader a shared one for the moment of reading. It
  ends with its process. Where the system has no `flock` (Windows), or the file system knows none, nobody is kept out:
  that one writes at a time is then the user's concern;
- a file that was locked is the one that still has the name; else the one that has it now is taken;
- after a write that failed a file is cut back to what it was.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from secrets import token_hex

from lore import files
from lore.errors import Where
from lore.files import try_lock
from lore.store.base import StoreError

NEW = ".new"  # ends the name of a file that is being written; it begins with a dot, as no other does
PATIENCE, PAUSE = 10.0, 0.005  # seconds to wait for another writer, and between two looks
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_PIECE = 16 * 1024 * 1024


def failed(error: OSError, what: str, path: str, hint: str = "") -> StoreError:
    """Return the error for something that the system refused."""
    reason = (error.strerror or str(error)).lower()
    return StoreError(f"cannot {what} {path}: {reason}", hint=hint, where=Where(path))


def opened(path: str, flags: int) -> int:
    """Open a regular file; raises FileNotFoundError where there is none, and StoreError."""
    try:
        descriptor = os.open(path, flags | _SAFE, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(
                f"{path} is a symbolic link: a store follows none", hint="put the file itself there", where=Where(path)
            ) from None
        raise failed(error, "open", path) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise StoreError(f"{path} is not a regular file", hint="take it out of the folder", where=Where(path))


def writing(path: str, patience: float, *, create: bool = False) -> AbstractContextManager[int]:
    """Open a file to append to it, alone; raises FileNotFoundError, and StoreError where another has it too long."""
    flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
    return _held(path, flags, patience)


def reading(path: str, patience: float) -> AbstractContextManager[int]:
    """Open a file for reading under a shared lock; raises FileNotFoundError, StoreError."""
    return _held(path, os.O_RDONLY, patience, shared=True)


@contextmanager
def _held(path: str, flags: int, patience: float, *, shared: bool = False) -> Generator[int]:
    end = time.monotonic() + patience
    while True:
        descriptor = opened(path, flags)
        try:
            while not try_lock(descriptor, shared=shared):
                if time.monotonic() > end:
                    hint = "nothing was saved: try again when it is done"
                    raise StoreError(f"another writer holds {path}", hint=hint, where=Where(path))
                time.sleep(PAUSE)
            if _is_named(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_named(descriptor: int, path: str) -> bool:
    """Tell whether a file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def stamp_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file, its size first."""
    return (found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns)


def read_range(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes of a file from one place to another, or to where it ends; raises StoreError."""
    pieces: list[bytes] = []
    while start < end:
        try:
            os.lseek(descriptor, start, os.SEEK_SET)  # writing goes to the end wherever this stands
            piece = os.read(descriptor, min(_PIECE, end - start))
        except OSError as error:
            raise StoreError(
                f"cannot read what is stored: {(error.strerror or str(error)).lower()}",
                hint="look at the disk; nothing was changed",
            ) from None
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def append(descriptor: int, data: bytes, end: int, path: str) -> None:
    """Write behind a file's end, in one write, and synchronise it; raises StoreError, and the file is as it was."""
    done, error = 0, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if os.fstat(descriptor).st_size != end:
        raise StoreError(
            f"somebody wrote to {path} without asking for its lock",
            hint="nothing was saved: save again",
            where=Where(path),
        )
    try:
        done = os.write(descriptor, data)
        if done == len(data):
            os.fsync(descriptor)
            return
    except OSError as reason:
        error = reason
    with suppress(OSError):  # where this fails too, the next writer finds a torn tail
        if os.fstat(descriptor).st_size <= end + len(data):  # else somebody wrote behind it without the lock
            os.ftruncate(descriptor, end)
    raise failed(error, "write to", path, "nothing was saved: make room or mend the disk, and save again") from None


def synchronise(descriptor: int, path: str) -> None:
    """Make what is written durable; raises StoreError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _undurable(error, path) from None


def _undurable(error: OSError, path: str) -> StoreError:
    return failed(error, "write to", path, "what is stored is not durable: mend the disk, and save again")


def synchronise_folder(path: str) -> None:
    """Make the names in a folder durable, where the system can; raises StoreError."""
    try:
        files.synchronise_folder(path)
    except OSError as error:
        raise _undurable(error, path) from None


def write_whole(folder: str, name: str, pieces: Iterable[bytes], *, replace: bool) -> None:
    """Write a file under another name, synchronise it, and give it its own.

    Raises FileExistsError where there is one and `replace` is not said, and StoreError; the folder is then as it was.
    """
    path = os.path.join(folder, f".{name}.{token_hex(6)}{NEW}")
    final = os.path.join(folder, name)
    try:
        descriptor = opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileNotFoundError as error:
        raise failed(error, "write to", folder) from None
    try:
        try_lock(descriptor)  # `vacuum` takes away what nobody holds
        _write_all(descriptor, pieces)
        os.fsync(descriptor)
        (os.replace if replace else _link)(path, final)
    except FileExistsError:
        raise
    except OSError as error:
        hint = "nothing was saved: make room or mend the disk, and save again"
        raise failed(error, "write to", final, hint) from None
    finally:
        try:
            with suppress(OSError):  # what stays is `vacuum`'s
                os.unlink(path)
        finally:
            os.close(descriptor)
    synchronise_folder(folder)


def _write_all(descriptor: int, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        if os.write(descriptor, piece) != len(piece):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _link(path: str, final: str) -> None:
    """Give a file its name unless that is taken."""
    try:
        os.link(path, final)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(final):  # a file system without links
            raise FileExistsError(errno.EEXIST, "exists", final) from None
        os.rename(path, final)


def read_small(path: str, limit: int) -> bytes | None:
    """Return the bytes of a file; None where there is none; raises StoreError."""
    try:
        descriptor = opened(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return read_range(descriptor, 0, limit)
    finally:
        os.close(descriptor)


def put_aside(descriptor: int, end: int, size: int, path: str, aside: str, patience: float) -> str:
    """Move the bytes of a file that stand behind `end`; returns what a person should know. Raises StoreError."""
    data = read_range(descriptor, end, size)
    with writing(aside, patience, create=True) as kept:
        append(kept, data, os.fstat(kept).st_size, aside)
    synchronise_folder(os.path.dirname(aside))
    try:
        os.ftruncate(descriptor, end)
    except OSError as error:
        raise failed(error, "repair", path) from None
    return f"{path}: the last {len(data):,} bytes were a delta that was never acknowledged; they are in {aside}"
