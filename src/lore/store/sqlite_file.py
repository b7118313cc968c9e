"""The file of a `sqlite:` store: its name, its first bytes, and what sqlite says when something is wrong with it.

Rules:
- a file is looked at before sqlite opens it, read-only and by itself, together with the log beside it: what is of
  another program or of a newer lore is not touched, nor is anything put beside it;
- files are made 0600 in folders made 0700; who may read what was there before is not changed.

Source of offsets: https://www.sqlite.org/fileformat2.html (the database header, the rollback journal, the
write-ahead log).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from urllib.parse import quote

from lore.files import make_folder, synchronise_folder
from lore.model.canonical import printable
from lore.store.base import DamagedError, FormatError, StoreError
from lore.store.registry import BESIDE

APPLICATION = int.from_bytes(b"lore", "big")
OLDEST = (3, 37)  # the first with STRICT tables
_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_LOGS = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_HEADER = 100
_MAKING = Lock()  # to close a file drops the locks of all connections that this process has on it: none has one yet


class Stamp(NamedTuple):
    """Whose a database is, and of which version of its schema."""

    application: int
    version: int


def path_of(url: str) -> str:
    """Return the path in `sqlite:FILE`, as it was written; raises StoreError."""
    path = url.partition(":")[2]
    shown, hint = printable(url), "write sqlite:FILE, or sqlite:/FOLDER/FILE"
    if not path or "\0" in path:
        raise StoreError(f"{shown!r} names no file", hint=hint)
    if path.startswith("//"):  # one program reads `///x` as `/x`, another as `x`
        raise StoreError(f"{shown!r} is no path: it begins with two slashes", hint=hint)
    if path == ":memory:":
        raise StoreError(f"{shown!r} is no file", hint="the store `memory:` keeps sessions in memory")
    return path


def address(path: str, options: str) -> str:
    """Return the URI by which sqlite opens exactly this absolute path, whatever characters are in it."""
    return f"file://{quote(os.fsencode(path))}?{options}"


def is_missing(path: str) -> bool:
    """Tell whether the file is missing or empty; raises StoreError for anything but a regular file."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise StoreError(f"{printable(path)}: {error.strerror}", hint="name a file that can be read") from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{printable(path)} is no file", hint="name a file, new or of this store")
    return found.st_size == 0


def make(path: str) -> None:
    """Make the file, and the folders that it lies in, where they are missing; raises StoreError."""
    try:
        make_folder(os.path.dirname(path))
        with _MAKING:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        synchronise_folder(os.path.dirname(path))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{printable(path)} cannot be made: {error.strerror}", hint="choose another place") from error


def is_read_only(path: str) -> bool:
    """Tell whether a file cannot be written by us; sqlite writes files beside it, too."""
    return not (os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK))


_LOOKS, _PAUSE = 25, 0.02  # how often a file is looked at that seems damaged, and the seconds between two looks


def stamp_of(path: str, patience: float) -> Stamp | None:
    """Read whose database it is, and change nothing; None where it is empty.

    sqlite reads it, as a file that nobody changes: to open and close it by other means would drop the locks that
    other connections of this process have on it. What is newer in the log beside it is looked up there. Raises
    FormatError where it is no database. Costs a look at each page of the log.
    """
    refuse_odd(path)
    if is_missing(path) or _began_empty(path):
        return None
    page = _first_page(beside(path, "-wal"))
    if page is not None:
        return Stamp(int.from_bytes(page[68:72], "big"), int.from_bytes(page[60:64], "big", signed=True))
    looks = 0
    while True:
        try:
            return _numbers(path)
        except sqlite3.Error as error:
            looks += 1
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT and looks <= _LOOKS:
                time.sleep(_PAUSE)  # it may be in the middle of another's writing: look again
            elif error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                message = f"{printable(path)} is no sqlite database, or the beginning of it is damaged"
                hint = f"name a file of lore's, or a new one; one that is damaged: {_RESCUE}"
                raise FormatError(message, hint=hint) from error
            else:
                raise in_words(error, path, patience) from error


def _numbers(path: str) -> Stamp:
    with closing(sqlite3.connect(address(path, "mode=ro&immutable=1"), uri=True)) as connection:
        names = ("application_id", "user_version")
        return Stamp(*(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names))


def beside(path: str, end: str) -> str:
    """Return the path of a file that sqlite keeps beside a database: that which a link leads to."""
    return os.path.realpath(path) + end


def refuse_odd(path: str) -> None:
    """Raise StoreError for anything but a regular file beside a database: opening a named pipe would hang."""
    for name in (beside(path, end) for end in BESIDE):
        try:
            found = os.lstat(name)
        except OSError:  # it is not there, or not any more
            continue
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{printable(name)} is not a regular file", hint="take it out of the folder")


def _began_empty(path: str) -> bool:
    """Tell whether the first transaction was cut off: sqlite takes it back, and leaves an empty file."""
    try:
        with open(beside(path, "-journal"), "rb") as file:
            header = file.read(20)
    except OSError:
        return False
    return header.startswith(_JOURNAL) and header[16:20] == b"\0\0\0\0"


def _first_page(path: str) -> bytes | None:
    """Return the header in the newest first page that a write-ahead log holds; None where it holds none."""
    page: bytes | None = None
    committed: bytes | None = None
    try:
        with open(path, "rb") as file:
            header = file.read(32)
            size, salts, at = int.from_bytes(header[8:12], "big"), header[16:24], 32
            while header[:4] in _LOGS and len(frame := file.read(24)) == 24 and frame[8:16] == salts:
                if frame[:4] == b"\0\0\0\1":
                    page = file.read(_HEADER)
                if frame[4:8] != b"\0\0\0\0":
                    committed = page
                at += 24 + size
                file.seek(at)
    except OSError:
        return None
    return committed


_RESCUE = "`sqlite3 FILE .recover`, or a backup"
_VERIFY = f"`lore store verify` says what is whole; what cannot be opened: {_RESCUE}"
_MEANINGS = {  # code of sqlite: the error, its message and its hint
    sqlite3.SQLITE_BUSY: (StoreError, "is busy: others have been writing for {patience:g} s", "try again"),
    sqlite3.SQLITE_LOCKED: (StoreError, "is busy: others have been writing for {patience:g} s", "try again"),
    sqlite3.SQLITE_FULL: (StoreError, "cannot grow: the disk is full", "make room, then send the same again"),
    sqlite3.SQLITE_READONLY: (StoreError, "cannot be written", "look at who owns it and its folder"),
    sqlite3.SQLITE_PERM: (StoreError, "cannot be opened", "look at who owns it and its folder"),
    sqlite3.SQLITE_CANTOPEN: (StoreError, "cannot be opened", "look at who owns it and its folder"),
    sqlite3.SQLITE_IOERR: (
        StoreError, "cannot be read or written: the disk failed, or a limit was met",
        "look at the disk, then send the same again",
    ),
    sqlite3.SQLITE_CORRUPT: (DamagedError, "is damaged", _VERIFY),
    sqlite3.SQLITE_NOTADB: (DamagedError, "is damaged: it is no database any more", _VERIFY),
    sqlite3.SQLITE_CONSTRAINT: (DamagedError, "holds rows that contradict one another", _VERIFY),
    sqlite3.SQLITE_TOOBIG: (StoreError, "takes no value of this size", "write less in one event"),
    sqlite3.SQLITE_NOMEM: (StoreError, "needs more memory than there is", "write less at once"),
}  # fmt: skip
_OTHER = (StoreError, "gave an error", "look at the file and its folder")


def in_words(error: sqlite3.Error | OverflowError, path: str, patience: float) -> StoreError:
    """Return the error that a person is shown for one of sqlite."""
    code = getattr(error, "sqlite_errorcode", 0)
    is_unnamed = code == sqlite3.SQLITE_ERROR and str(error).startswith("no such ")  # a name in its schema is damaged
    kind, message, hint = _MEANINGS.get(sqlite3.SQLITE_CORRUPT if is_unnamed else code & 0xFF, _OTHER)
    return kind(f"{printable(path)} {message.format(patience=patience)} ({printable(str(error))})", hint=hint)
