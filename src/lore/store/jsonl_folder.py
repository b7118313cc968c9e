"""The folder of a store of logs: whose it is, what is in it, who may read it, what its files are called.

`lore-store.json` says that it is lore's, and of which version. A folder without it is taken as one where it is empty
or holds lore's own logs, and gets it with the first write. One of a newer lore, or of something else, is refused, and
nothing in it is touched.

Names of files stay in the folder, and differ wherever the ids do, also where a file system folds case or normalises
Unicode: lower-case ASCII letters, digits, `_`, `-` and `.` stand for themselves, every other byte of UTF-8 is written
as `%` and two hex digits, capitals (so a capital letter never stands for itself). A long name keeps its beginning, and
ends with `~` and the SHA-256 of the id. An id is read from a header, never from a name.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256

import msgspec

from lore.errors import Where
from lore.files import make_folder, try_lock
from lore.formats.lore_log import LoreLog
from lore.model.canonical import encode
from lore.store.base import FormatError, StoreError
from lore.store.jsonl_files import NEW, failed, opened, read_small, write_whole

KIND, VERSION = "lore-store", 1
_HEAD = 64 * 1024
_OTHERS = ((0o040, 0o010, "its group"), (0o004, 0o001, "everybody"))  # what lets whom read a file, and enter a folder
LOG, CHECKPOINT, TORN = ".jsonl", ".checkpoint", ".torn"
STAMP, BINDINGS = "lore-store.json", "bindings"
LONGEST, KEPT = 200, 120  # bytes: file systems take 255, with the endings
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


class _Stamp(msgspec.Struct):
    kind: str
    version: int


class Folder:
    """A folder that may be there or not."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def is_there(self) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(self.path)

    def check(self) -> None:
        """Refuse a folder that is not a store's, or a newer lore's; raises FormatError, StoreError."""
        if os.path.lexists(self.path) and not self.is_there:
            raise StoreError(f"{self.path} is no folder", hint="jsonl:DIR names a folder")
        data = read_small(self.file(STAMP), _HEAD)
        if data is None:
            return
        try:
            stamp = msgspec.json.decode(data, type=_Stamp)
        except (ValueError, RecursionError):
            stamp = None
        if stamp is None or stamp.kind != KIND or stamp.version < 1:
            raise FormatError(
                f"{self.path} is not a store of lore: {STAMP} says something else",
                hint="name another folder; this one was not touched", where=Where(self.file(STAMP)),
            )  # fmt: skip
        if stamp.version > VERSION:
            raise FormatError(
                f"{self.path} is a store of version {stamp.version}: this lore knows {VERSION}",
                hint="use a newer lore; the folder was not touched", where=Where(self.file(STAMP)),
            )  # fmt: skip

    def prepare(self) -> None:
        """Make the folder and stamp it, where that was not done; raises FormatError, StoreError."""
        self.check()
        if os.path.lexists(self.file(STAMP)):
            return
        try:
            make_folder(self.path)
        except OSError as error:
            raise failed(error, "make the folder", error.filename or self.path) from None
        if not self._may_adopt():
            raise FormatError(
                f"{self.path} holds other files, and none of lore's logs",
                hint="name a new folder, or an empty one; this one was not touched",
            )
        try:
            write_whole(self.path, STAMP, (encode({"kind": KIND, "version": VERSION}) + b"\n",), replace=False)
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


def remove_left(path: str) -> int:
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
