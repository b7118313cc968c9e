"""What lies elsewhere: objects of a bucket, files of a web server. Names to bytes, to what is below, and back.

    s3://BUCKET/KEY   gs://BUCKET/KEY   az://CONTAINER/KEY   abfs[s]://CONTAINER[@ACCOUNT.dfs…]/KEY   https://…   http://…

Rules: what is read is streamed, never written to disk and never held whole, but for small objects that are fetched
ahead. An answer that breaks off is gone on with at the byte where it broke, on the condition that the object is still
the one that was begun (`If-Match`): one that changed meanwhile is an error, not a mixture. Credentials are the
environment's, found by the clients themselves; a name that holds a password is refused, and none is shown. A name that
ends in `/` is a folder, and any other one where no object has it and objects lie below it; `.` begins hidden names, as
in a folder of this machine.

Who speaks to which service: `objects` (buckets), `web` (web servers). Threads: any function from any.
"""

from __future__ import annotations

import io
import os
import posixpath
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from lore.errors import LoreError, Where
from lore.model.mask import cut_masked
from lore.recording.filesystem import Status, is_remote
from lore.store.registry import shown

if TYPE_CHECKING:
    from lore.recording.remote.tree import Tree

PIECE = 256 * 1024
SMALL = 1024 * 1024  # bytes of an object that is fetched ahead
AT_ONCE = 16  # of them
LONGEST_KEY = 1024  # bytes: no service keeps an object of a longer name
TRIES = 4  # of a read that breaks off, without SMALL bytes of progress between
PAUSE = 0.5  # seconds before the first of them; twice as long before each further one
LONGEST_PAUSE = 30.0  # seconds that a server may ask for
HINT = "pip install 'lore-cache[remote]'"
_WEB = ("http", "https")
_ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_", "AZURITE_", "LORE_REMOTE")

T = TypeVar("T")


class RemoteError(LoreError, OSError):
    """A remote recording cannot be read; an OSError too, so that who asks about files hears it as of a local one."""


class MissingError(RemoteError, FileNotFoundError):
    """There is no such object."""


class DeniedError(RemoteError, PermissionError):
    """The credentials do not allow it."""


class BrokenError(RemoteError, ConnectionError):
    """A request was not answered, or not whole: asking again, after `pause` seconds if the server says so, may help."""

    pause: float | None = None


class ChangedError(RemoteError):
    """The object is not the one that was begun."""


class RemoteEntry(NamedTuple):
    """An object of a list; of a folder the key ends in `/`."""

    key: str
    about: Status = Status()


class Source(Protocol):
    """A bucket, or a web server. Each method raises RemoteError; keys are relative to it, or whole URLs."""

    def about(self, key: str) -> Status:
        """Return what is known of an object; raises MissingError."""
        ...

    def read(self, key: str, start: int, tag: str) -> tuple[Status, Iterator[bytes]]:
        """Read an object from a byte on, if it still has this ETag (empty: whichever); `size` is that of all of it."""
        ...


class Bucket(Source, Protocol):
    """A source that lists its objects."""

    def listed(self, prefix: str) -> Iterator[RemoteEntry]:
        """Yield all objects below a prefix (empty, or ending in `/`), page by page."""
        ...

    def children(self, prefix: str) -> Iterator[RemoteEntry]:
        """Yield the objects and the folders directly below a prefix."""
        ...


class RemotePlace(NamedTuple):
    """What a name says: the scheme, the bucket or the server, the key in it."""

    scheme: str
    root: str
    key: str

    @property
    def folder(self) -> str:
        """The key as that of a folder: empty, or ending in `/`."""
        return self.key if not self.key or self.key.endswith("/") else f"{self.key}/"


def place_of(path: str) -> RemotePlace:
    """Read a name; raises RemoteError for one that names no bucket or server, or holds a password."""
    path = path if os.sep == "/" else path.replace(os.sep, "/")
    scheme, _, rest = path.partition("://")
    scheme, (root, _, key) = scheme.lower(), rest.partition("/")
    if "@" in root and (":" in root or not scheme.startswith("abfs")):
        message = f"{scheme}://…: a name holds no credentials"
        raise RemoteError(message, hint="put them into the environment; `lore guide remote` names the variables")
    if not root or not root.isprintable() or any(char in root for char in " \\?#"):
        raise RemoteError(f"{shown(path)} names no bucket and no server", hint="s3://BUCKET/KEY, https://HOST/FILE")
    if scheme in _WEB:
        return RemotePlace(scheme, root, path)
    if len(key.encode("utf-8", "surrogateescape")) > LONGEST_KEY:
        message = f"{cut_masked(shown(path), 80)}…: a name of more than {LONGEST_KEY:,} bytes"
        raise RemoteError(message, hint="no service keeps an object under such a name")
    if "/../" in f"/{key}/":  # what is beside a recording
        key = posixpath.normpath(key).lstrip("./") + ("/" if key.endswith("/") else "")
    return RemotePlace(scheme, root, key)


def source_of(place: RemotePlace) -> Source:
    """Return who reads this place; the same object as long as the environment says the same. Sends nothing."""
    settings = frozenset(entry for entry in os.environ.items() if entry[0].startswith(_ENVIRONMENT))
    return _source(place.scheme, place.root if place.scheme not in _WEB else "", os.getpid(), settings)


@lru_cache(maxsize=64)
def _source(scheme: str, root: str, _process: int, _settings: frozenset[tuple[str, str]]) -> Source:
    if scheme in _WEB:
        from lore.recording.remote.web import Web  # noqa: PLC0415 - its client is imported when it is needed

        return Web()
    from lore.recording.remote.objects import bucket  # noqa: PLC0415 - as above

    return bucket(scheme, root)


def _bucket_of(place: RemotePlace, path: str) -> Bucket:
    if place.scheme in _WEB:
        raise RemoteError(f"{shown(path)}: a web server lists no folder, and keeps nothing", hint="name each file")
    return cast("Bucket", source_of(place))


def missing(path: str) -> MissingError:
    """Say that there is no such object."""
    hint = "look at its name; that of a folder ends in `/`"
    return MissingError(f"cannot read {shown(path)}: there is no such object", hint=hint, where=Where(shown(path)))


# bytes


def stream(path: str, start: int = 0, tag: str = "") -> Generator[bytes]:
    """Read an object from a byte on, in pieces; raises RemoteError, which names it."""
    fetched = _FETCHED.get(path) if start == 0 else None
    if fetched is not None and (whole := fetched.result()) is not None:
        yield whole
        return
    yield from _streamed(path, start, tag)


def _streamed(path: str, start: int, tag: str) -> Generator[bytes]:
    place = place_of(path)
    if place.scheme not in _WEB and (not place.key or place.key.endswith("/")):
        raise missing(path)
    source, at, tries, resumed, condition = source_of(place), start, 0, start, tag
    while True:
        try:
            about, body = source.read(place.key, at, tag)
            tag = about.tag
            for piece in body:
                at += len(piece)
                yield piece
            if about.size is None or at == about.size:
                return
            raise BrokenError(f"cannot read {shown(path)}: {at:,} of {about.size:,} bytes came")  # noqa: TRY301 - tried again
        except ChangedError:
            message = f"cannot read {shown(path)}: it changed while it was read"
            hint = "read it again when nothing is written to it"
            raise RemoteError(message, hint=hint, where=Where(shown(path))) from None
        except BrokenError as error:
            tries = 1 if at - resumed >= SMALL else tries + 1
            if tries >= TRIES or (at > start and not tag):
                raise
            resumed, tag = at, tag if at > start else condition
            time.sleep(min(PAUSE * 2 ** (tries - 1) if error.pause is None else error.pause, LONGEST_PAUSE))


def again(call: Callable[[], T]) -> T:
    """Return what a call returns; one that is not answered is asked again."""
    for tries in range(TRIES - 1):
        try:
            return call()
        except BrokenError as error:
            time.sleep(min(PAUSE * 2**tries if error.pause is None else error.pause, LONGEST_PAUSE))
    return call()


class RemoteFile(io.RawIOBase):
    """An object as a file: what follows is one request as long as it is read on, and a new one behind a seek."""

    def __init__(self, path: str) -> None:
        self._path, self._at, self._rest = path, 0, b""
        self._pieces: Generator[bytes] | None = None
        self._about = status(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        size = self._about.size or 0
        target = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: size}[whence])
        if target != self._at:
            self._end()
            self._at = target
        return target

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - any buffer
        if not self._rest:
            if self._about.size is not None and self._at >= self._about.size:
                return 0
            if self._pieces is None:
                self._pieces = stream(self._path, self._at, self._about.tag)
            self._rest = next(self._pieces, b"")
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        self._at += len(taken)
        return len(taken)

    def _end(self) -> None:
        self._rest = b""
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    def close(self) -> None:
        self._end()
        super().close()


def opened(path: str) -> io.BufferedReader:
    """Open an object to be read anywhere in it. Costs a request, and one for each place that is read from."""
    return io.BufferedReader(RemoteFile(path), PIECE)


# small objects ahead


_FETCHED: dict[str, Future[bytes | None]] = {}  # until each is read


def ahead(files: Iterable[T], name: Callable[[T], tuple[str, int]]) -> Generator[T]:
    """Yield what is given, while the next small objects of it are fetched: at most AT_ONCE, of SMALL bytes each.

    `name` gives a path and its size in bytes. What a read of the object would raise is raised when it is read.
    """
    waiting, todo, pool = deque[T](), iter(files), None
    handed: list[str] = []
    try:
        while True:
            while len(waiting) < AT_ONCE and (file := next(todo, None)) is not None:
                path, size = name(file)
                if 0 < size <= SMALL and is_remote(path):
                    pool = pool or ThreadPoolExecutor(AT_ONCE)
                    _FETCHED[path] = pool.submit(_whole, path)
                waiting.append(file)
            if not waiting:
                return
            file = waiting.popleft()
            handed.append(name(file)[0])
            yield file
            _FETCHED.pop(handed.pop(), None)
    finally:
        for path in (*handed, *(name(file)[0] for file in waiting)):
            _FETCHED.pop(path, None)
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _whole(path: str) -> bytes | None:
    """Fetch an object; None for one that has grown since it was listed."""
    found = bytearray()
    with closing(_streamed(path, 0, "")) as pieces:
        for piece in pieces:
            found += piece
            if len(found) > 4 * SMALL:
                return None
    return bytes(found)


# what there is


def status(path: str) -> Status:
    """Return what is known of an object: what its list says, else what the service does. Raises RemoteError."""
    place = place_of(path)
    tree = _tree_of(place)
    if tree is not None:
        found = tree.about(place.key)
        if found is None:
            raise missing(path)
        return found
    source = source_of(place)
    about = again(lambda: source.about(place.key))
    _LATEST.clear()
    _LATEST[path] = _Seen(source, time.monotonic())
    return about


class _Seen(NamedTuple):
    """When an object was there, and who said so."""

    source: Source
    at: float


_LATEST: dict[str, _Seen] = {}  # the object that was looked at last: whether one that is named is there, is asked often
_FRESH = 2.0  # seconds


def is_file(path: str) -> bool:
    """Tell whether an object has this name; of a web server's it is not asked. Costs a request."""
    place = place_of(path)
    if place.scheme in _WEB:
        return not _is_root(place) and "#" not in path  # which no server hears
    if not place.key or place.key.endswith("/"):
        return False
    seen = _LATEST.get(path)
    if seen is not None and seen.source is source_of(place) and time.monotonic() - seen.at < _FRESH:
        return True
    try:
        status(path)
    except MissingError:
        return False
    return True


def is_folder(path: str) -> bool:
    """Tell whether a name is that of a folder. Costs two requests at most."""
    place = place_of(path)
    if place.scheme in _WEB:
        return _is_root(place)
    return not place.key or place.key.endswith("/") or (not is_file(path) and next(entries(path), None) is not None)


def _is_root(place: RemotePlace) -> bool:
    path = place.key.partition("://")[2].partition("?")[0]
    return "/" not in path or path.endswith("/")


def entries(folder: str) -> Iterator[RemoteEntry]:
    """Yield what lies directly in a folder; keys are names, those of folders end in `/`. Raises RemoteError."""
    place = place_of(folder)
    tree = _tree_of(place)
    if tree is not None:
        yield from tree.entries(place.folder)
        return
    bucket = _bucket_of(place, folder)
    for entry in again(lambda: list(bucket.children(place.folder))):
        if (name := entry.key.removeprefix(place.folder)) and name not in ("./", "../"):
            yield RemoteEntry(name, entry.about)


@contextmanager
def listing(folder: str) -> Generator[Tree]:
    """List all that lies below a folder, so that until the end nothing is asked of its service but bytes.

    Costs a request for each thousand objects; they are kept in a temporary database, not in memory. Raises RemoteError.
    """
    from lore.recording.remote.tree import Tree  # noqa: PLC0415 - it needs a database

    place = place_of(folder)
    bucket = _bucket_of(place, folder)
    with closing(Tree(place, place.folder)) as tree:
        again(lambda: tree.add(bucket.listed(place.folder)))
        _TREES.append(tree)
        try:
            yield tree
        finally:
            _TREES.remove(tree)


_TREES: list[Tree] = []  # what was listed, as long as somebody goes through it


def _tree_of(place: RemotePlace) -> Tree | None:
    return next((tree for tree in _TREES if tree.covers(place)), None)
