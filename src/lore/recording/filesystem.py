"""What is under a name: asked of this machine's disk, or of a plug-in for a name with a scheme (`s3://…`).

The functions are those of `os` and `os.path` over both, with their errors: what is remote and cannot be read raises
OSError, too. For a local name they cost what those of `os` do, and import nothing.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from typing import BinaryIO, NamedTuple, Protocol

from lore.errors import LoreError, lacks_plug_in
from lore.files import WholeFile
from lore.model.limits import SMALL_FILE_BYTES
from lore.plugins import published
from lore.store.registry import mask_url

GROUP = "lore.remotes"  # of entry points
_BROUGHT = ("s3", "gs", "az", "abfs", "abfss", "http", "https")  # schemes of lore's own plug-in `scale`
_LONGEST_SCHEME = 16


class Status(NamedTuple):
    """What is known of a file: bytes, seconds since the epoch (None: unknown), and the ETag of a remote one."""

    size: int | None = None
    written: float | None = None
    tag: str = ""


class FolderEntry(NamedTuple):
    """What a folder holds, as `os.DirEntry` is asked."""

    name: str
    folder: bool

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as that of os
        """Tell whether it is a folder."""
        return self.folder


class RemoteFiles(Protocol):
    """Files under names with a scheme; every name that it takes is a whole one (`s3://BUCKET/KEY`).

    To add one, publish `scheme -> RemoteFiles` under the entry-point group `lore.remotes`, a row for each scheme.
    Methods raise OSError; one that is a LoreError as well is shown to the user as it is.
    """

    lists: bool  # False (a web server): it has no folders, and nobody is asked whether a file exists before it is read

    def status(self, path: str) -> Status:
        """Return what is known of a file; raises FileNotFoundError if there is none, or only a folder."""
        ...

    def opened(self, path: str, *, in_order: bool) -> BinaryIO:
        """Open a file to be read; `in_order`: from its beginning, without seeking."""
        ...

    def fetch(self, paths: list[str]) -> Mapping[str, bytes]:
        """Return the contents of small files, read at the same time; leave out those that cannot be read."""
        ...

    def entries(self, folder: str) -> Iterator[FolderEntry]:
        """Yield what is directly in a folder. May raise OSError after the last entry, for those it cannot name."""
        ...

    def listed(self, folder: str) -> AbstractContextManager[object]:
        """List a folder with all below it, and answer `status` and `entries` from that until the end."""
        ...


@cache
def schemes() -> tuple[str, ...]:
    """Return the schemes of names that are remote, with and without their plug-in."""
    return tuple(dict.fromkeys((*_BROUGHT, *(point.name for point in published(GROUP)))))


def is_remote(path: str) -> bool:
    """Tell whether a name is one of a remote recording or folder."""
    return "://" in path[: _LONGEST_SCHEME + 3] and _scheme_of(path) in schemes()


def _scheme_of(path: str) -> str:
    return path.partition("://")[0].lower()


def _remote(path: str) -> RemoteFiles:
    """Return who reads this remote name; raises LoreError if that is not installed."""
    return _remote_files(_scheme_of(path))


@cache
def _remote_files(scheme: str) -> RemoteFiles:
    for point in published(GROUP):
        if point.name == scheme:
            return point.load()(scheme)
    raise lacks_plug_in("scale", f"{scheme}://", "remote")


def exists(path: str) -> bool:
    """Tell whether anything has this name."""
    return (is_file(path) or is_folder(path)) if is_remote(path) else os.path.lexists(path)


def is_file(path: str) -> bool:
    """Tell whether a file has this name; of a web server's that is not asked."""
    if not is_remote(path):
        return os.path.isfile(path)
    if not _remote(path).lists:
        return not _ends_as_folder(path) and "#" not in path  # which no server hears
    if not path.endswith("/"):
        with suppress(FileNotFoundError, PermissionError):
            _remote(path).status(path)
            return True
    return False


def is_folder(path: str) -> bool:
    """Tell whether a folder has this name: a remote one ends in `/`, or files exist below it and none has the name."""
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


def is_regular(path: str) -> bool:
    """Tell whether a name is no pipe, socket, device or folder; raises OSError where it cannot be looked at."""
    return is_file(path) if is_remote(path) else stat.S_ISREG(os.stat(path).st_mode)


def status(path: str) -> Status:
    """Return what is known of a file without reading it; raises OSError."""
    if not is_remote(path):
        about = os.stat(path)
        return Status(about.st_size, about.st_mtime)
    return _remote(path).status(path)


def opened(path: str) -> BinaryIO:
    """Open a file to be read, anywhere in it; raises OSError."""
    return _remote(path).opened(path, in_order=False) if is_remote(path) else io.BufferedReader(WholeFile(path))


def remote_pieces(path: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a remote file from its beginning; raises OSError."""
    fetched = _FETCHED.get(path)
    with _remote(path).opened(path, in_order=True) if fetched is None else io.BytesIO(fetched) as file:
        while data := file.read(size):
            yield data


_FETCHED: dict[str, bytes] = {}  # small remote files that are about to be read


@contextmanager
def fetched(paths: list[str]) -> Generator[None]:
    """Read small remote files at the same time, for whoever reads them one by one until the end."""
    by_scheme: dict[str, list[str]] = {}
    for path in paths:
        by_scheme.setdefault(_scheme_of(path), []).append(path)
    for scheme, group in by_scheme.items():
        _FETCHED.update(_remote_files(scheme).fetch(group))
    try:
        yield
    finally:
        for path in paths:
            _FETCHED.pop(path, None)


def small_file(path: str) -> bytes:
    """Return a file that an agent put beside its logs, here; empty where there is none, or a larger one than any is."""
    try:
        if not os.path.isfile(path):  # a pipe might never end
            return b""
        with WholeFile(path) as file:
            return file.readall() if file.length <= SMALL_FILE_BYTES else b""
    except (OSError, ValueError):
        return b""


def names(folder: str) -> list[str]:
    """Return the names of what lies in a folder, in any order; raises OSError."""
    return [entry.name for entry in entries(folder)]


def entries(folder: str) -> Iterator[FolderEntry | os.DirEntry[str]]:
    """Yield what lies in a folder; raises OSError."""
    if is_remote(folder):
        yield from _remote(folder).entries(folder)
        return
    with os.scandir(folder) as found:
        yield from found


def walk(folder: str, failed_on: Callable[[str, LoreError | OSError], None]) -> Iterator[
    tuple[str, list[str], Collection[str]]
]:  # fmt: skip
    """Go through a folder and those below it as `os.walk` does; what cannot be listed is handed to `failed_on`.

    Of a remote one, all is listed before the first; that it cannot be raises OSError.
    """
    if not is_remote(folder):
        yield from os.walk(folder, onerror=lambda error: failed_on(str(error.filename or folder), error))
        return
    with listed(folder):
        waiting = [folder]
        while waiting:
            place = waiting.pop()
            found: list[FolderEntry] = []
            try:
                found.extend(_remote(place).entries(place))  # keeps what came before an error
            except OSError as error:
                failed_on(place, error)
            folders = [entry.name for entry in found if entry.folder]
            yield place, folders, [entry.name for entry in found if not entry.folder]
            waiting += [os.path.join(place, name) for name in reversed(folders)]


def listed(folder: str) -> AbstractContextManager[object]:
    """List a remote folder once, with all below it, for what is asked until the end."""
    return _remote(folder).listed(folder) if is_remote(folder) else nullcontext()


def refuse_output(path: str) -> None:
    """Raise LoreError for a remote name of a file that is to be written."""
    if is_remote(path):
        raise LoreError(f"cannot write {mask_url(path)}: lore writes to this machine only", hint="name a file here")
