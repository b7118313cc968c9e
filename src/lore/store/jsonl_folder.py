"""The folder of a `jsonl:` store: names of its files, locks, and safe reading and writing.

`lore-store.json` says that the folder is lore's, and which version of the layout it has. A folder without it is adopted
by the first write if it is empty or holds lore's own logs. A folder of another version or another program is refused.

A file name is made of the session id and stays unique on file systems that ignore case or normalise Unicode: lower-case
ASCII letters, digits, `_`, `-` and `.` are kept, every other byte of the UTF-8 text becomes `%` and two hex digits. A
long name is cut and ends with `~` and the SHA-256 of the id. The id itself is read from the log, never from the name.

Symbolic links and everything that is not a regular file are refused, so that nobody who may write to the folder can
make lore write elsewhere. Files are readable by their owner only (0600).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from hashlib import sha256

import msgspec
from filelock import FileLock, Timeout

from lore import files
from lore.errors import Where, reason_of
from lore.files import make_folder, synchronise_folder
from lore.formats.lore_log import LoreLog
from lore.model.canonical import encode
from lore.store.base import FormatError, StoreError, refuse_other_version

KIND, VERSION = "lore-store", 3
LOG = ".jsonl"
STAMP, BINDINGS = "lore-store.json", "bindings.json"
LOCK, NEW = ".lock", ".new"  # endings of a lock and of a file that is being written; both names begin with a dot
PATIENCE = 10.0  # seconds to wait for another writer
HINT_RETRY = "nothing was saved: make room or repair the disk, and save again"
_LONGEST, _CUT = 200, 120  # bytes of a name: file systems take 255, with dot and ending
_HEAD = 64 * 1024  # bytes that show whether a file is a log
_PIECE = 16 * 1024 * 1024
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)}
_OTHERS = ((0o040, 0o010, "its group"), (0o004, 0o001, "everybody"))  # modes to read a file, and to enter a folder


def name_of(session_id: str) -> str:
    """Return the name of a session's files, without its ending."""
    data = session_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    if name.startswith(".") or name.partition(".")[0] in _DEVICES:
        name = f"%{data[0]:02X}{name[1:]}"
    return name if len(name) <= _LONGEST else f"{name[:_CUT]}~{sha256(data).hexdigest()}"


class _Stamp(msgspec.Struct):
    kind: str
    version: int


class Folder:
    """The folder of a store, which may not exist yet."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        """Keep the path; `patience` is how many seconds to wait for another writer."""
        self.path = path
        self._patience = patience

    @property
    def exists(self) -> bool:
        """Whether the folder exists."""
        return os.path.isdir(self.path)

    def check(self) -> bool:
        """Return whether the folder is stamped; raises FormatError if it is not a store of this version."""
        if os.path.lexists(self.path) and not self.exists:
            raise StoreError(f"{self.path} is not a folder", hint="jsonl:DIR names a folder")
        data = self.read(STAMP, _HEAD)
        if data is None:
            return False
        where = Where(self.file(STAMP))
        try:
            stamp = msgspec.json.decode(data, type=_Stamp)
        except (ValueError, RecursionError):
            stamp = _Stamp("", 0)
        if stamp.kind != KIND:
            hint = "name another folder; nothing was changed"
            raise FormatError(
                f"{self.path} is not a store of lore: {STAMP} says something else", hint=hint, where=where
            )
        refuse_other_version(f"{self.path} has layout", stamp.version, VERSION, where)
        return True

    def prepare(self) -> None:
        """Make the folder and stamp it, unless that is done; raises FormatError, StoreError."""
        if self.check():
            return
        try:
            make_folder(self.path)
        except OSError as error:
            raise failed(error, "make the folder", error.filename or self.path) from None
        with self.locked(STAMP):
            if not self.check():
                if not self._is_adoptable():
                    raise FormatError(
                        f"{self.path} holds other files, and none of lore's logs",
                        hint="name a new folder, or an empty one; this one was not touched",
                    )
                self.write_whole(STAMP, (encode({"kind": KIND, "version": VERSION}) + b"\n",))

    def _is_adoptable(self) -> bool:
        names = [name for name in self.names() if name != STAMP and not name.startswith(".")]
        heads = (self.read(name, _HEAD) or b"" for name in names if name.endswith(LOG))
        return not names or any(map(LoreLog.recognises, heads))

    def names(self) -> list[str]:
        """Return the names in the folder, sorted; raises StoreError."""
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            hint = "look at the store's name; the first session makes the folder"
            raise StoreError(f"there is no folder {self.path}", hint=hint) from None
        except OSError as error:
            raise failed(error, "read", self.path) from None

    def logs(self) -> list[str]:
        """Return the file names of the logs, sorted; raises StoreError."""
        return [name for name in self.names() if name.endswith(LOG) and not name.startswith(".")]

    def file(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.path, name)

    def readers(self) -> list[str]:
        """Return a sentence for each file that other users of this machine may read."""
        into = os.stat(self.path).st_mode
        found: list[str] = []
        for path in (self.path, *map(self.file, self.names())):
            try:
                mode = os.stat(path, follow_symlinks=False).st_mode
            except FileNotFoundError:
                continue
            others = [who for read, enter, who in _OTHERS if mode & read and into & enter]
            if others and not stat.S_ISLNK(mode):
                found.append(f"{path} may be read by {' and '.join(others)}")
        return found

    # reading and writing

    @contextmanager
    def locked(self, name: str) -> Generator[None]:
        """Hold the lock of one file against all other threads and processes; raises StoreError after a while.

        The lock is on a file beside it, which stays: removing it while another process opens it would give both the
        lock. It ends with its process.
        """
        lock = FileLock(self.file(f".{name}{LOCK}"), timeout=self._patience, mode=0o600, poll_interval=files.PAUSE)
        try:
            lock.acquire()
        except Timeout:
            path, hint = self.file(name), "nothing was saved: try again when it is done"
            raise StoreError(f"another writer holds {path}", hint=hint, where=Where(path)) from None
        except OSError as error:
            raise failed(error, "lock", self.file(name)) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def opened(self, name: str, *, write: bool = False) -> Generator[int]:
        """Open a regular file, as a descriptor; raises FileNotFoundError, StoreError."""
        descriptor = _open(self.file(name), os.O_RDWR | os.O_APPEND if write else os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the bytes of a file, at most `limit`; None if there is none; raises StoreError."""
        try:
            with self.opened(name) as descriptor:
                return read_range(descriptor, 0, limit)
        except FileNotFoundError:
            return None

    def write_whole(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file under a temporary name, then rename it; hold its lock. Durable when it returns.

        Raises StoreError; the folder is then as it was.
        """
        path, final = self.file(f".{name}{NEW}"), self.file(name)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)  # of a writer that died
            descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                for piece in pieces:
                    files.write(descriptor, piece)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(path, final)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise failed(error, "write to", final, HINT_RETRY) from None
        self.synchronise()

    def synchronise(self) -> None:
        """Make the names in the folder durable; raises StoreError."""
        try:
            synchronise_folder(self.path)
        except OSError as error:
            raise _not_durable(error, self.path) from None

    def unlink(self, name: str) -> int:
        """Remove a file and return its size; 0 if there is none; raises StoreError."""
        path = self.file(name)
        try:
            size = os.lstat(path).st_size
            os.unlink(path)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise failed(error, "remove", path) from None
        return size

    def leftovers(self) -> list[str]:
        """Return the names of files that are being written, or whose writers died; raises StoreError."""
        return [name for name in self.names() if name.startswith(".") and name.endswith(NEW)]

    def vacuum(self) -> int:
        """Remove files whose writers died, and return their size."""
        size = 0
        for name in self.leftovers():
            final = name[1:].removesuffix(NEW)
            with self.locked(final):
                size += self.unlink(name)
        return size


def failed(error: OSError, what: str, path: str, hint: str = "") -> StoreError:
    """Return the error for something that the system refused."""
    return StoreError(f"cannot {what} {path}: {reason_of(error)}", hint=hint, where=Where(path))


def _not_durable(error: OSError, path: str) -> StoreError:
    return failed(error, "write to", path, "what is stored is not durable: repair the disk, and save again")


def _open(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _SAFE, 0o600)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            message, hint = f"{path} is a symbolic link, which a store does not follow", "put the file itself there"
            raise StoreError(message, hint=hint, where=Where(path)) from None
        raise failed(error, "open", path) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise StoreError(f"{path} is not a regular file", hint="take it out of the folder", where=Where(path))


def read_range(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes of a file from `start` to `end`, or to its end; raises StoreError."""
    pieces: list[bytes] = []
    while start < end:
        try:
            os.lseek(descriptor, start, os.SEEK_SET)
            piece = os.read(descriptor, min(_PIECE, end - start))
        except OSError as error:
            hint = "look at the disk; nothing was changed"
            raise StoreError(f"cannot read what is stored: {reason_of(error)}", hint=hint) from None
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def append(descriptor: int, data: bytes, end: int, path: str) -> None:
    """Write after the end of a file, in one write, and synchronise it; raises StoreError, and the file is as it was."""
    if os.fstat(descriptor).st_size != end:
        message = f"somebody wrote to {path} without asking for its lock"
        raise StoreError(message, hint="nothing was saved: save again", where=Where(path))
    try:
        files.append(descriptor, data, end)
    except OSError as error:
        raise failed(error, "write to", path, HINT_RETRY) from None


def cut(descriptor: int, end: int, path: str) -> None:
    """Remove the bytes of a file from `end` on; raises StoreError."""
    try:
        os.ftruncate(descriptor, end)
    except OSError as error:
        raise failed(error, "repair", path) from None


def synchronise(descriptor: int, path: str) -> None:
    """Make the bytes of a file durable; raises StoreError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _not_durable(error, path) from None
