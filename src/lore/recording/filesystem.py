"""What lies under a name: asked of this machine's disk, or of the service of a remote one.

The functions are those of `os` and `os.path` over both, with their errors: what is remote and cannot be looked at
raises OSError, too (`remote.RemoteError`), or is not there. For a local name they cost what those of `os` do, and
import nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext, suppress
from io import BufferedReader
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from lore.errors import LoreError
from lore.files import WholeFile
from lore.store.registry import shown

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

LARGEST = 16 * 1024 * 1024  # bytes of a file that is read whole: a message, a list of folders
SCHEMES = ("s3://", "gs://", "az://", "abfs://", "abfss://", "http://", "https://")


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


def is_remote(path: str) -> bool:
    """Tell whether a name is one of a remote recording or folder."""
    return "://" in path[:8] and path[:8].lower().startswith(SCHEMES)


def _remote():  # noqa: ANN202 - the module, with its types
    """Return who asks services: few names are remote, and importing it takes time."""
    from lore.recording import remote  # noqa: PLC0415 - as it says

    return remote


def exists(path: str) -> bool:
    """Tell whether anything has this name."""
    return (is_file(path) or is_folder(path)) if is_remote(path) else os.path.lexists(path)


def is_file(path: str) -> bool:
    """Tell whether a file has this name."""
    if not is_remote(path):
        return os.path.isfile(path)
    with suppress(_remote().MissingError, _remote().DeniedError):
        return _remote().is_file(path)
    return False


def is_folder(path: str) -> bool:
    """Tell whether a folder has this name."""
    if not is_remote(path):
        return os.path.isdir(path)
    with suppress(_remote().MissingError, _remote().DeniedError):
        return _remote().is_folder(path)
    return False


def is_regular(path: str) -> bool:
    """Tell whether a name is no pipe, socket, device or folder; raises OSError where it cannot be looked at."""
    return is_file(path) if is_remote(path) else stat.S_ISREG(os.stat(path).st_mode)


def status(path: str) -> Status:
    """Return what is known of a file without reading it; raises OSError."""
    if not is_remote(path):
        about = os.stat(path)
        return Status(about.st_size, about.st_mtime)
    return _remote().status(path)


def opened(path: str) -> BinaryIO:
    """Open a file to be read, anywhere in it; raises OSError."""
    if not is_remote(path):
        return BufferedReader(WholeFile(path))
    return _remote().opened(path)


def small_file(path: str) -> bytes:
    """Return a file that an agent put beside its logs, here; empty where there is none, or a larger one than any is."""
    try:
        if not os.path.isfile(path):  # a pipe might never end
            return b""
        with WholeFile(path) as file:
            return file.readall() if file.length <= LARGEST else b""
    except (OSError, ValueError):
        return b""


def names(folder: str) -> list[str]:
    """Return the names of what lies in a folder, in any order; raises OSError."""
    return [entry.name for entry in entries(folder)]


def entries(folder: str) -> Iterator[FolderEntry | os.DirEntry[str]]:
    """Yield what lies in a folder; raises OSError."""
    if not is_remote(folder):
        with os.scandir(folder) as found:
            yield from found
        return
    yield from (FolderEntry(each.key.rstrip("/"), each.key.endswith("/")) for each in _remote().entries(folder))


def walk(folder: str, failed_on: Callable[[str, LoreError | OSError], None]) -> Iterator[
    tuple[str, list[str], Collection[str]]
]:  # fmt: skip
    """Go through a folder and those below it as `os.walk` does; what cannot be listed is handed to `failed_on`.

    Of a remote one, all is listed before the first; that it cannot be raises LoreError.
    """
    if not is_remote(folder):
        yield from os.walk(folder, onerror=lambda error: failed_on(str(error.filename or folder), error))
        return
    with _remote().listing(folder) as tree:
        yield from tree.walk(folder, failed_on)


def listed(folder: str) -> AbstractContextManager[object]:
    """List a remote folder once, with all below it, for what is asked until the end."""
    if not is_remote(folder):
        return nullcontext()
    return _remote().listing(folder)


def refuse_output(path: str) -> None:
    """Raise LoreError for a remote name of a file that is to be written."""
    if is_remote(path):
        raise LoreError(f"cannot write {shown(path)}: lore writes to this machine only", hint="name a file here")
