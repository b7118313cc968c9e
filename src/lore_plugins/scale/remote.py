"""Recordings in buckets and on web servers, read through fsspec.

    s3://BUCKET/KEY   gs://BUCKET/KEY   az://CONTAINER/KEY   abfs[s]://CONTAINER[@ACCOUNT.dfs…]/KEY   https://…
    http://…

Nothing is copied to disk. The client of fsspec for the service takes credentials from the environment and repeats
failed requests. Names with a password are refused. Error messages never contain credentials.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple, cast

from lore.errors import LoreError, Where, install_hint
from lore.model import cut_masked, mask_credentials, printable
from lore.recording import FolderEntry, Status, show

BLOCK = 16 * 1024 * 1024  # bytes of one request when a file is read in order
PART = 1024 * 1024  # and when it is read at any position
_WEB = ("http", "https")
_NO_NAMES = frozenset(("", ".", ".."))  # that no part of a path can have
_LONGEST = 300  # characters that are shown of a name, or of a client's message
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "AZURITE_", "STORAGE_EMULATOR_HOST")  # variables that clients read
_CREDENTIALS = re.compile("(AWS|AZURE|GOOGLE)_.*(KEY|SECRET|TOKEN|SAS|PASSWORD|STRING).*")  # variables


class RemoteError(LoreError, OSError):
    """A remote recording cannot be read."""


class MissingError(RemoteError, FileNotFoundError):
    """There is no such file."""


class DeniedError(RemoteError, PermissionError):
    """The credentials do not allow it."""


class RedirectError(Exception):
    """A redirect is refused; the arguments are the reason and a hint."""


class _Service(NamedTuple):
    """A kind of service: its package, the permissions to read and list, and the variables with credentials."""

    package: str
    read: str
    list: str
    variables: str


_AZURE = "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"
_SERVICES = {
    "s3": _Service("s3fs", "s3:GetObject (and s3:ListBucket, without which S3 says the same of missing objects)",
                   "s3:ListBucket", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE;"
                   " AWS_SKIP_SIGNATURE=true for a public bucket"),
    "gs": _Service("gcsfs", "storage.objects.get", "storage.objects.list", "GOOGLE_APPLICATION_CREDENTIALS"),
    "az": _Service("adlfs", "Storage Blob Data Reader", "Storage Blob Data Reader", _AZURE),
    "http": _Service("aiohttp", "a login or a new signed name", "", "none"),
}  # fmt: skip


class _Place(NamedTuple):
    """A parsed name."""

    service: str
    root: str  # bucket, container or server
    account: str  # of Azure
    key: str  # on the web the whole URL

    @property
    def name(self) -> str:
        """The name for fsspec."""
        return self.key if self.service == "http" else f"{self.root}/{self.key}"


def _place_of(path: str) -> _Place:
    """Parse a name; raises RemoteError for one without bucket or server, or with a password."""
    scheme, _, location = path.replace(os.sep, "/").partition("://")
    scheme, (root, _, key) = scheme.lower(), location.partition("/")
    service = "http" if scheme in _WEB else "az" if scheme.startswith("abfs") else scheme
    if "@" in root and (":" in root or service != "az"):
        message = f"{scheme}://…: a name may not contain credentials"
        raise RemoteError(message, hint="put them into the environment; `lore guide remote` names the variables")
    if not root or not root.isprintable() or any(char in root for char in " \\?#"):
        raise RemoteError(f"{_label(path)} names no bucket and no server", hint="s3://BUCKET/KEY, https://HOST/FILE")
    if service == "http":
        return _Place(service, root, "", path)
    if "/../" in f"/{key}/":  # a file next to a recording
        key = posixpath.normpath(key).lstrip("./")
    root, _, host = root.partition("@")
    return _Place(service, root, host.partition(".")[0], key.rstrip("/"))


class SchemeFiles:
    """Files under one scheme; `lore.recording.RemoteFiles` describes the methods."""

    def __init__(self, scheme: str) -> None:
        self.lists = scheme not in _WEB
        self._listings: list[_Listing] = []

    def status(self, path: str) -> Status:
        """Return the status of a file."""
        place = _place_of(path)
        listing = self._listing_of(place)
        if listing is not None:
            info = listing.files.get(place.key)
        else:
            with translated_errors(path, place):
                info = _client_of(place).info(place.name) if place.key else None
        if info is None or info["type"] == "directory":
            raise _missing_error(path)
        return _status_of(info)

    def opened(self, path: str, *, in_order: bool) -> BinaryIO:
        """Open a file for reading."""
        place = _place_of(path)
        if place.service == "http":
            # One request for the whole file, or one for each part.
            options = {"block_size": 0, "size": 1} if in_order else {"block_size": PART}
        elif not place.key or path.endswith("/"):
            raise _missing_error(path)
        else:
            options = {"block_size": BLOCK if in_order else PART, "cache_type": "readahead"}
        with translated_errors(path, place):
            file = _client_of(place).open(place.name, "rb", **options)
        if file.details.get("type") == "directory":
            raise _missing_error(path)
        return io.BufferedReader(_RemoteFile(file, path, place))

    def fetch(self, paths: list[str]) -> Mapping[str, bytes]:
        """Return the contents of small files, read at the same time."""
        places = {path: _place_of(path) for path in paths}
        client = _client_of(first := places[paths[0]])
        names = {path: place.name for path, place in places.items() if place.account == first.account}
        contents: list[object] = client.cat_ranges(list(names.values()), 0, None, on_error="return")
        return {path: data for path, data in zip(names, contents, strict=True) if isinstance(data, bytes)}

    def entries(self, folder: str) -> Iterator[FolderEntry]:
        """Yield the entries of a folder."""
        place = self._folder_of(folder)
        listing = self._listing_of(place)
        if listing is not None:
            yield from listing.entries(place.key, folder)
            return
        with translated_errors(folder, place, "list"):
            objects: list[Any] = []
            with suppress(FileNotFoundError):
                objects = _client_of(place).ls(place.name.rstrip("/"), detail=True)
        below = len(place.root) + len(place.key) + (2 if place.key else 1)
        for entry in objects:
            name = str(entry["name"]).rstrip("/")[below:]
            if "/" not in name and name not in _NO_NAMES:
                yield FolderEntry(name, entry["type"] == "directory")

    @contextmanager
    def listed(self, folder: str) -> Generator[None]:
        """List a folder with all its subfolders once, and use that list until the end."""
        place = self._folder_of(folder)
        with translated_errors(folder, place, "list"):
            objects = _client_of(place).find(place.name.rstrip("/"), detail=True)
        self._listings.append(_Listing(place, cast("Mapping[str, Any]", objects)))
        try:
            yield
        finally:
            self._listings.pop()

    def _folder_of(self, folder: str) -> _Place:
        if not self.lists:
            raise RemoteError(f"{_label(folder)}: a web server lists no folder", hint="name each file")
        return _place_of(folder)

    def _listing_of(self, place: _Place) -> _Listing | None:
        return next((listing for listing in self._listings if listing.covers(place)), None)


class _Listing:
    """All objects in a folder and its subfolders, by key."""

    def __init__(self, place: _Place, objects: Mapping[str, Any]) -> None:
        self._place = place
        prefix = f"{place.key}/" if place.key else ""
        self.files: dict[str, Any] = {}
        for name, info in objects.items():
            key = name[len(place.root) + 1 :]
            # else an empty object that represents a folder, or an object elsewhere
            if info["type"] != "directory" and not key.endswith("/") and key.startswith(prefix):
                self.files[key] = info
        self._keys = sorted(self.files)

    def covers(self, place: _Place) -> bool:
        """Return whether a place is in the listed folder."""
        inside = not self._place.key or f"{place.key}/".startswith(f"{self._place.key}/")
        return inside and place[:3] == self._place[:3]

    def entries(self, key: str, folder: str) -> Iterator[FolderEntry]:
        """Yield the entries of a folder; raises RemoteError at the end if it has names that no path can have."""
        prefix = f"{key}/" if key else ""
        names: dict[str, bool] = {}  # and whether each is a folder
        at = bisect_left(self._keys, prefix)
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            name, slash, _ = self._keys[at].removeprefix(prefix).partition("/")
            names[name] = names.get(name, False) or bool(slash)
            at = bisect_left(self._keys, f"{prefix}{name}0") if slash else at + 1  # after the folder: 0 follows /
        yield from (FolderEntry(name, is_folder) for name, is_folder in names.items() if name not in _NO_NAMES)
        if not _NO_NAMES.isdisjoint(names):
            message = f"{_label(folder)}: objects whose names have an empty part (`//`), `.` or `..` cannot be read"
            raise RemoteError(message, hint="copy them to other names")


class _RemoteFile(io.RawIOBase):
    """A file of fsspec whose errors are RemoteError."""

    def __init__(self, file: Any, path: str, place: _Place) -> None:
        self._file, self._path, self._place = file, path, place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with translated_errors(self._path, self._place):
            return int(self._file.seek(offset, whence))

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - any buffer
        with translated_errors(self._path, self._place):
            data: bytes = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _client_of(place: _Place) -> Any:
    """Return the file system of fsspec for a place; a new one if the variables have changed."""
    settings = frozenset(entry for entry in os.environ.items() if entry[0].startswith(_SETTINGS))
    return _client(place.service, place.account, os.getpid(), settings)


@lru_cache(maxsize=16)
def _client(service: str, account: str, _process: int, _settings: frozenset[tuple[str, str]]) -> Any:
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if service == "s3":
        options["anon"] = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        options["client_kwargs"] = {"region_name": region} if region else {}
    elif account:
        options["account_name"] = account
    elif service == "http":
        from lore_plugins.scale.web import client  # noqa: PLC0415 - it needs aiohttp

        options["get_client"] = client
    return import_module("fsspec").filesystem(service, **options)


@contextmanager
def translated_errors(path: str, place: _Place, doing: str = "read") -> Generator[None]:
    """Turn errors of a client into RemoteError; `doing` is "read" or "list"."""
    service, name = _SERVICES[place.service], _label(path)
    cannot, where = f"cannot {doing} {name}", Where(name)
    try:
        yield
    except LoreError:
        raise
    except ImportError as error:
        package = error.name if error.name == "fsspec" else service.package
        hint = install_hint("remote")
        if package not in ("fsspec", "s3fs", "aiohttp"):
            hint += f", and pip install {package} into the same environment (pipx inject lore-cache {package})"
        raise RemoteError(f"{cannot}: {package} is not installed", hint=hint) from None
    except Exception as error:  # noqa: BLE001
        # For all failures on the web, fsspec reports a missing file.
        cause = (error.__cause__ or error) if place.service == "http" else error
        status = getattr(cause, "status", None)
        text = masked_message(cause)
        if isinstance(cause, RedirectError):
            reason, hint = cause.args
            raise RemoteError(f"{cannot}: {reason}", hint=hint, where=where) from None
        if "NoSuchBucket" in text or "bucket does not exist" in text or "ContainerNotFound" in text:
            raise MissingError(f"{cannot}: there is no bucket {printable(place.root)}", where=where) from None
        if status in (404, 410) or (isinstance(cause, FileNotFoundError) and status is None):
            raise _missing_error(path) from None
        if status in (401, 403, 407) or isinstance(cause, PermissionError):
            message = f"not allowed to {doing} {name}: this needs {getattr(service, doing)}"
            hint = f"check the credentials: {service.variables}; the service says: {text}"
            raise DeniedError(message, hint=hint, where=where) from None
        if status is not None:
            text = f"the server answers {status}: {text}"
        hint = "check that the service can be reached, and try again"
        if "credential" in text.lower():
            hint = f"set {service.variables}"
        raise RemoteError(f"{cannot}: {text or type(cause).__name__}", hint=hint, where=where) from None


def _missing_error(path: str) -> MissingError:
    hint = "check the name; the name of a folder ends in `/`"
    label = _label(path)
    return MissingError(f"cannot read {label}: there is no such object", hint=hint, where=Where(label), own=True)


def _label(path: str) -> str:
    return cut_masked(show(path), _LONGEST)


def masked_message(error: BaseException) -> str:
    """Return a client's message on one line, without credentials."""
    text = show(" ".join(str(error).split()))
    for name, value in os.environ.items():
        if len(value) > 3 and _CREDENTIALS.fullmatch(name):
            text = text.replace(value, "***")
    return cut_masked(mask_credentials(printable(text)), _LONGEST)


def _status_of(info: Mapping[str, Any]) -> Status:
    """Return the status of an object; each client has its own names for the fields."""
    modified_at = next(filter(None, map(info.get, ("LastModified", "last_modified", "updated", "mtime"))), None)
    if isinstance(modified_at, str):
        with suppress(ValueError):
            modified_at = datetime.fromisoformat(modified_at)
    moment = modified_at.timestamp() if isinstance(modified_at, datetime) else None
    tag = next((str(info[name]) for name in ("ETag", "etag", "e_tag") if info.get(name)), "")
    return Status(info.get("size"), moment, tag)
