"""The folder of a store of logs: whose it is, what is in it, who may read it, what its files are called.

`lore-store.json` says that it is lore's, and of which version. A folder without it is taken as one where it is empty
or holds lore's own logs, and gets it with the first write. One of a newer lore, or of something else, is refused, and
nothing in it is touched.

Names of files stay in the folder, and differ wherever the ids do, also where a file system folds case or normalises
Unicode: lower-case ASCII letters, digits, `_`, `-` and `.` stand for themselves, every other byte of UTF-8 is written
as `%` and two hex digits, capitals (so a capital letter never stands for itself). A long name keeps its beginning, and
ends with `~` and the SHA-256 of the id. An id is read from a header, never from a name.

Files are opened safely, locked, and written so that they are whole or as they were. Rules:
- no symbolic link is followed, and nothing but a regular file is opened, so that nobody who may write to the folder
  can make lore write elsewhere; files are for their owner alone (0600);
- a writer holds an exclusive lock (`lore.files.try_lock`) on the file itself, a reader a shared one for the moment of
  reading. It ends with its process. Where the file system knows no locks nobody is kept out: that one writes at a time
  is then the user's concern;
- a file that was locked is the one that still has the name; else the one that has it now is taken;
- after a write that failed a file is cut back to what it was.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from secrets import token_hex

import msgspec

from lore import files
from lore.errors import Where, reason_of
from lore.files import lock, make_folder, synchronise_folder, try_lock
from lore.formats.lore_log import LoreLog
from lore.model.canonical import encode
from lore.store.base import FormatError, StoreError

KIND, VERSION = "lore-store", 2  # 2: records say how far a session was used
_HEAD = 64 * 1024
_OTHERS = ((0o040, 0o010, "its group"), (0o004, 0o001, "everybody"))  # what lets whom read a file, and enter a folder
LOG, CHECKPOINT, TORN = ".jsonl", ".checkpoint", ".torn"
STAMP, BINDINGS = "lore-store.json", "bindings"
LONGEST, KEPT = 200, 120  # bytes: file systems take 255, with the endings
NEW = ".new"  # ends the name of a file that is being written; it begins with a dot, as no other does
PATIENCE = 10.0  # seconds to wait for another writer
_SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_PIECE = 16 * 1024 * 1024
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-.")
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)}


def name_of(session_id: str) -> str:
    """Return the name of a session's files, without its ending."""
    data = session_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)
    if name.startswith(".") or name.partition(".")[0] in _DEVICES or name == BINDINGS:
        name = f"%{data[0]:02X}{name[1:]}"
    return name if len(name) <= LONGEST else f"{name[:KEPT]}~{sha256(data).hexdigest()}"


def is_log(name: str) -> bool:
    """Tell whether a file of the folder is a session's log by its name."""
    return name.endswith(LOG) and not name.startswith(".") and name != BINDINGS + LOG


class StoreStamp(msgspec.Struct):
    """Whose a store is, and of which version of its layout."""

    kind: str
    version: int


def stamped(data: bytes, newest: int, place: str, kind: str, where: Where | None = None) -> int:
    """Return the version that a stamp says; raises FormatError where it is another program's, or a newer lore's.

    `kind` is what a store of this sort lies in.
    """
    try:
        stamp = msgspec.json.decode(data, type=StoreStamp)
    except (ValueError, RecursionError):
        stamp = None
    if stamp is None or stamp.kind != KIND or stamp.version < 1:
        message, hint = f"{place} is not a store of lore: {STAMP} says something else", f"name another {kind}"
    elif stamp.version > newest:
        message, hint = f"{place} is a store of version {stamp.version}: this lore knows {newest}", "use a newer lore"
    else:
        return stamp.version
    raise FormatError(message, hint=f"{hint}; nothing was changed", where=where)


class Folder:
    """A folder that may be there or not; `patience` is how many seconds it is waited for another writer."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        self.path = path
        self._patience = patience

    @property
    def is_there(self) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(self.path)

    def check(self) -> int:
        """Refuse a folder that is not a store's, or a newer lore's; raises FormatError, StoreError.

        Returns its version, 0 where it has no stamp.
        """
        if os.path.lexists(self.path) and not self.is_there:
            raise StoreError(f"{self.path} is no folder", hint="jsonl:DIR names a folder")
        data = read_small(self.file(STAMP), _HEAD)
        if data is None:
            return 0
        return stamped(data, VERSION, self.path, "folder", Where(self.file(STAMP)))

    def prepare(self) -> None:
        """Make the folder and stamp it, where that was not done; raises FormatError, StoreError.

        A folder of an older version is stamped anew, so that no older lore meets records which it does not know.
        """
        version = self.check()
        if version == VERSION:
            return
        try:
            make_folder(self.path)
        except OSError as error:
            raise failed(error, "make the folder", error.filename or self.path) from None
        if not version and not self._may_adopt():
            raise FormatError(
                f"{self.path} holds other files, and none of lore's logs",
                hint="name a new folder, or an empty one; this one was not touched",
            )
        try:
            self.write_whole(STAMP, (encode({"kind": KIND, "version": VERSION}) + b"\n",), replace=version > 0)
        except FileExistsError:
            self.check()

    def _may_adopt(self) -> bool:
        names = [name for name in self.names() if name != STAMP and not name.startswith(".")]
        heads = (read_small(self.file(name), _HEAD) or b"" for name in names if is_log(name))
        return not names or any(map(LoreLog.recognises, heads))

    def names(self) -> list[str]:
        """Return the names of the files in the folder, sorted; raises StoreError."""
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            raise StoreError(
                f"there is no folder {self.path}", hint="look at the store's name; the first session makes the folder"
            ) from None
        except OSError as error:
            raise failed(error, "read", self.path) from None

    def logs(self) -> list[str]:
        """Return the paths of the logs, sorted by name; raises StoreError."""
        return [self.file(name) for name in self.names() if is_log(name)]

    def file(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.path, name)

    def log(self, session_id: str) -> str:
        """Return the path of a session's log."""
        return self.file(name_of(session_id) + LOG)

    def beside(self, log: str, ending: str) -> str:
        """Return the path of a file that goes with a log."""
        return log.removesuffix(LOG) + ending

    def leftovers(self) -> list[str]:
        """Return the paths of files that are being written, or whose writers died; raises StoreError."""
        return [self.file(name) for name in self.names() if name.startswith(".") and name.endswith(NEW)]

    def readers(self) -> list[str]:
        """Say who else may read what is stored, as far as the folder lets them in."""
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

    def vacuum(self) -> int:
        """Remove files whose writers died, and return their bytes; those that are held stay."""
        return sum(map(_remove_left, self.leftovers()))

    # files of the folder, by their paths

    def writing(self, path: str, *, create: bool = False) -> AbstractContextManager[int]:
        """Open a file to append to it, alone; raises FileNotFoundError, StoreError where another holds it too long."""
        return self._held(path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0))

    def reading(self, path: str) -> AbstractContextManager[int]:
        """Open a file for reading under a shared lock; raises FileNotFoundError, StoreError."""
        return self._held(path, os.O_RDONLY, shared=True)

    @contextmanager
    def _held(self, path: str, flags: int, *, shared: bool = False) -> Generator[int]:
        while True:
            descriptor = opened(path, flags)
            try:
                if not lock(descriptor, self._patience, shared=shared):
                    hint = "nothing was saved: try again when it is done"
                    raise StoreError(f"another writer holds {path}", hint=hint, where=Where(path))
                if _is_named(descriptor, path):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def write_whole(self, name: str, pieces: Iterable[bytes], *, replace: bool) -> None:
        """Write a file under another name, synchronise it, and give it its own.

        Raises FileExistsError where there is one and `replace` is not said, StoreError; the folder is then as it was.
        """
        path, final = self.file(f".{name}.{token_hex(6)}{NEW}"), self.file(name)
        try:
            descriptor: int | None = opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileNotFoundError as error:
            raise failed(error, "write to", self.path) from None
        try:
            try_lock(descriptor)  # `vacuum` takes away what nobody holds
            for piece in pieces:
                files.write(descriptor, piece)
            os.fsync(descriptor)
            if os.name == "nt":  # which renames no file that is open
                os.close(descriptor)
                descriptor = None
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
                if descriptor is not None:
                    os.close(descriptor)
        self.synchronise()

    def synchronise(self) -> None:
        """Make the names in the folder durable, where the system can; raises StoreError."""
        try:
            synchronise_folder(self.path)
        except OSError as error:
            raise _undurable(error, self.path) from None

    def put_aside(self, descriptor: int, path: str, end: int, size: int) -> str:
        """Move the bytes of a file that stand behind `end`; returns what a person should know. Raises StoreError."""
        data, aside = read_range(descriptor, end, size), self.beside(path, TORN)
        with self.writing(aside, create=True) as kept:
            append(kept, data, os.fstat(kept).st_size, aside)
        self.synchronise()
        try:
            os.ftruncate(descriptor, end)
        except OSError as error:
            raise failed(error, "repair", path) from None
        return f"{path}: the last {len(data):,} bytes were a delta that was never acknowledged; they are in {aside}"


# files


def failed(error: OSError, what: str, path: str, hint: str = "") -> StoreError:
    """Return the error for something that the system refused."""
    return StoreError(f"cannot {what} {path}: {reason_of(error)}", hint=hint, where=Where(path))


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
            hint = "look at the disk; nothing was changed"
            raise StoreError(f"cannot read what is stored: {reason_of(error)}", hint=hint) from None
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def append(descriptor: int, data: bytes, end: int, path: str) -> None:
    """Write behind a file's end, in one write, and synchronise it; raises StoreError, and the file is as it was."""
    if os.fstat(descriptor).st_size != end:
        raise StoreError(
            f"somebody wrote to {path} without asking for its lock",
            hint="nothing was saved: save again",
            where=Where(path),
        )
    try:
        files.append(descriptor, data, end)
    except OSError as error:
        raise failed(error, "write to", path, "nothing was saved: make room or mend the disk, and save again") from None


def synchronise(descriptor: int, path: str) -> None:
    """Make what is written durable; raises StoreError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _undurable(error, path) from None


def _undurable(error: OSError, path: str) -> StoreError:
    return failed(error, "write to", path, "what is stored is not durable: mend the disk, and save again")


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


def _is_named(descriptor: int, path: str) -> bool:
    """Tell whether a file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _remove_left(path: str) -> int:
    """Remove a file whose writer died, and return its bytes; one that is held stays."""
    try:
        descriptor = opened(path, os.O_RDWR)
    except FileNotFoundError:
        return 0
    try:
        if not try_lock(descriptor):
            return 0
        found = os.fstat(descriptor)
        os.unlink(path)
        return found.st_size if found.st_nlink == 1 else 0
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise failed(error, "remove", path) from None
    finally:
        os.close(descriptor)
