"""Files and folders by name: on this machine's disk, or remote ones (`s3://…`), which a plug-in reads.

The functions do for both what those of `os` and `os.path` do, with the same errors: OSError for a remote file, too. For
a local name they cost what those of `os` cost, and import nothing.
"""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from typing import BinaryIO, Protocol

from msgspec import Struct

from lore.errors import LoreError, lacks_plug_in
from lore.files import WholeFile
from lore.model.limits import SMALL_FILE_BYTES
from lore.plugins import entry_points
from lore.store.registry import mask_url

GROUP = "lore.remotes"  # of entry points
_OF_SCALE = ("s3", "gs", "az", "abfs", "abfss", "http", "https")  # schemes of lore's own plug-in `scale`
_LONGEST_SCHEME = 16


class Status(Struct, frozen=True):
    """What a file system records of a file; None if unknown."""

    size: int | None = None  # bytes
    written: float | None = None  # seconds since the epoch
    tag: str = ""  # the ETag of a remote file


class FolderEntry(Struct, frozen=True):
    """A file or folder in a remote folder, with the methods of `os.DirEntry` that lore uses."""

    name: str
    folder: bool

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - the parameter of os.DirEntry
        return self.folder


class RemoteFiles(Protocol):
    """Files under names with a scheme; all names are complete (`s3://BUCKET/KEY`).

    To add one, publish `scheme -> RemoteFiles` under the entry-point group `lore.remotes`, a row for each scheme.
    Methods raise OSError; an error that is also a LoreError is shown to the user as it is.
    """

    lists: bool  # False for a web server: it has no folders, and reading a file is the only way to know that it exists

    def status(self, path: str) -> Status:
        """Return the status of a file; raises FileNotFoundError if it is missing or a folder."""
        ...

    def opened(self, path: str, *, in_order: bool) -> BinaryIO:
        """Open a file for reading; `in_order`: from its beginning, without seeking."""
        ...

    def fetch(self, paths: list[str]) -> Mapping[str, bytes]:
        """Return the contents of small files, read in parallel, without those that cannot be read."""
        ...

    def entries(self, folder: str) -> Iterator[FolderEntry]:
        """Yield the entries of a folder. May raise OSError after the last one, for those that it cannot list."""
        ...

    def listed(self, folder: str) -> AbstractContextManager[object]:
        """Return a context in which one listing of a folder and all below it answers `status` and `entries`."""
        ...


@cache
def schemes() -> tuple[str, ...]:
    """Return the schemes of remote names, also those whose plug-in is not installed."""
    return tuple(dict.fromkeys((*_OF_SCALE, *(point.name for point in entry_points(GROUP)))))


def is_remote(path: str) -> bool:
    """Return whether a name has the scheme of a remote file or folder."""
    scheme, separator, _ = path[: _LONGEST_SCHEME + 3].partition("://")
    return separator != "" and scheme.lower() in schemes()


def _remote(path: str) -> RemoteFiles:
    """Return the reader of a remote name; raises LoreError if its plug-in is missing."""
    return _remote_files(path.partition("://")[0].lower())


@cache
def _remote_files(scheme: str) -> RemoteFiles:
    for point in entry_points(GROUP):
        if point.name == scheme:
            return point.load()(scheme)
    raise lacks_plug_in("scale", f"{scheme}://", "remote")


def exists(path: str) -> bool:
    """Return whether a file, a folder or a link of this name exists."""
    return (is_file(path) or is_folder(path)) if is_remote(path) else os.path.lexists(path)


def is_file(path: str) -> bool:
    """Return whether a file of this name exists; of a web server, which is not asked: whether it may be one."""
    if not is_remote(path):
        return os.path.isfile(path)
    if not _remote(path).lists:
        return not _ends_as_folder(path) and "#" not in path  # `#` is not sent to a server
    if not path.endswith("/"):
        with suppress(FileNotFoundError, PermissionError):
            _remote(path).status(path)
            return True
    return False


def is_folder(path: str) -> bool:
    """Return whether a folder of this name exists; a remote one ends in `/`, or there are files below it."""
    if not is_remote(path):
        return os.path.isdir(path)
    remote = _remote(path)
    if not remote.lists:
        return _ends_as_folder(path)
    if path.endswith("/"):
        return True
    with suppress(FileNotFoundError, PermissionError):
        return not is_file(path) and next(iter(remote.entries(path)), None) is not None
    return False


def _ends_as_folder(url: str) -> bool:
    place = url.partition("://")[2].partition("?")[0]
    return "/" not in place or place.endswith("/")


def status(path: str) -> Status:
    """Return the status of a file without reading it; raises OSError."""
    if not is_remote(path):
        about = os.stat(path)
        return Status(about.st_size, about.st_mtime)
    return _remote(path).status(path)


def open_file(path: str) -> BinaryIO:
    """Open a file for reading, with seeking; raises OSError."""
    return _remote(path).opened(path, in_order=False) if is_remote(path) else io.BufferedReader(WholeFile(path))


def remote_pieces(path: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a remote file in pieces of at most `size`; raises OSError."""
    fetched = _FETCHED.get(path)
    with _remote(path).opened(path, in_order=True) if fetched is None else io.BytesIO(fetched) as file:
        while data := file.read(size):
            yield data


_FETCHED: dict[str, bytes] = {}  # small remote files that will be read next


@contextmanager
def prefetch(paths: list[str]) -> Generator[None]:
    """Fetch small remote files in parallel; inside the context they are read from memory."""
    groups: dict[str, list[str]] = {}  # by scheme
    for path in paths:
        groups.setdefault(path.partition("://")[0].lower(), []).append(path)
    for group in groups.values():
        _FETCHED.update(_remote(group[0]).fetch(group))
    try:
        yield
    finally:
        for path in paths:
            _FETCHED.pop(path, None)


def small_file(path: str) -> bytes:
    """Return the bytes of a local file next to an agent's logs; empty if it is missing or too large to be one."""
    try:
        if not os.path.isfile(path):  # a pipe might never end
            return b""
        with WholeFile(path) as file:
            return file.readall() if file.length <= SMALL_FILE_BYTES else b""
    except (OSError, ValueError):
        return b""


def end_of(path: str, size: int) -> bytes:
    """Return the last bytes of a local file, at most `size`; raises OSError."""
    with open(path, "rb") as file:
        file.seek(-min(size, os.fstat(file.fileno()).st_size), os.SEEK_END)
        return file.read(size)


def names(folder: str) -> list[str]:
    """Return the names of a folder's entries, sorted, without hidden ones; none if it cannot be listed."""
    try:
        return sorted(entry.name for entry in entries(folder) if not entry.name.startswith("."))
    except (OSError, ValueError):
        return []


def entries(folder: str) -> Iterator[FolderEntry | os.DirEntry[str]]:
    """Yield the entries of a folder; raises OSError."""
    if is_remote(folder):
        yield from _remote(folder).entries(folder)
        return
    with os.scandir(folder) as listing:
        yield from listing


def list_once(folder: str) -> AbstractContextManager[object]:
    """Return a context in which a remote folder is listed once, with all below it."""
    return _remote(folder).listed(folder) if is_remote(folder) else nullcontext()


def refuse_output(path: str) -> None:
    """Raise LoreError if an output file is remote."""
    if is_remote(path):
        raise LoreError(f"cannot write {mask_url(path)}: lore writes to this machine only", hint="name a file here")
