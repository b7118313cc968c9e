"""Objects of a bucket, read and kept: by obstore, and by fsspec where that is not installed or not able.

Obstore speaks to S3, Google Cloud Storage and Azure itself, answers a read with one request and is about ten times as
fast on many small objects. It is not able to read keys with control characters, `.`, `..` or an empty part, nor the
profiles of `~/.aws`: those are left to fsspec (with s3fs, gcsfs, adlfs). `LORE_REMOTE=obstore` or `=fsspec` chooses.

Rules: both find credentials by themselves, in the environment or what it names; requests that are throttled (429, 503)
or answered by an error of the server are sent again by the clients, with longer and longer pauses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from lore.errors import Where
from lore.model.canonical import printable
from lore.model.mask import mask
from lore.recording.filesystem import Status
from lore.recording.remote import (
    HINT,
    PIECE,
    BrokenError,
    Bucket,
    ChangedError,
    DeniedError,
    MissingError,
    RemoteEntry,
    RemoteError,
    again,
    missing,
)
from lore.store.registry import shown

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_BLOCK = 4 * 1024 * 1024  # bytes that fsspec asks for at a time
_PAGE = 1000
TIMEOUT, CONNECT = timedelta(seconds=60), timedelta(seconds=10)  # of one request of obstore
RETRIES: RetryConfig = {  # of requests that failed
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")  # environment variables
_CREDENTIALS = re.compile("(AWS|AZURE|GOOGLE)_.*(KEY|SECRET|TOKEN|SAS|PASSWORD).*")  # environment variables
_LONGEST_MESSAGE = 300  # characters of a service's message that are shown


_Doing = Literal["read", "list"]


def _rights(read: str, list: str) -> dict[_Doing, str]:
    return {"read": read, "list": list}


class _Service(NamedTuple):
    """What a service calls things: fsspec's package for it, the right to do each, where credentials are."""

    package: str
    variables: str
    rights: dict[_Doing, str]


_S3 = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_SKIP_SIGNATURE=true for a public bucket"
_AZURE = "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"
_READER = "Storage Blob Data Reader"
_SERVICES = {
    "s3": _Service("s3fs", _S3, _rights("s3:GetObject", "s3:ListBucket")),
    "gs": _Service("gcsfs", "GOOGLE_APPLICATION_CREDENTIALS", _rights(
        "storage.objects.get", "storage.objects.list")),
    "az": _Service("adlfs", _AZURE, _rights(_READER, _READER)),
}  # fmt: skip


def client_options() -> ClientConfig:
    """Return obstore's options for a service; unencrypted connections only if its endpoint begins with http://."""
    options: ClientConfig = {"timeout": TIMEOUT, "connect_timeout": CONNECT}
    endpoint = next((value for name in _ENDPOINTS if (value := os.environ.get(name))), "")
    if urlsplit(endpoint).scheme == "http":
        options["allow_http"] = True
    return options


def plain(error: BaseException) -> str:
    """Return a client's error message on one line, without credentials and details for the client's programmers."""
    text = shown(" ".join(str(error).partition("Debug source:")[0].split()))
    for name, value in os.environ.items():
        if len(value) > 3 and _CREDENTIALS.fullmatch(name):
            text = text.replace(value, "***")
    text = mask(printable(text))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def bucket(scheme: str, root: str) -> Bucket:
    """Return who reads and writes a bucket; raises RemoteError where nothing that can is installed. Sends nothing."""
    chosen = os.environ.get("LORE_REMOTE", "")
    if chosen not in ("", "obstore", "fsspec"):
        raise RemoteError(f"LORE_REMOTE={chosen!r} names no client", hint="obstore or fsspec")
    place = _Bucket(scheme, root)
    profile = place.kind == "s3" and "AWS_PROFILE" in os.environ and "AWS_ACCESS_KEY_ID" not in os.environ
    if chosen == "fsspec" or (not chosen and profile and find_spec("s3fs") is not None):
        return ByFsspec(place)
    if chosen or find_spec("obstore") is not None:
        return ByObstore(place)
    return ByFsspec(place)


class _Bucket:
    """What errors of one bucket say."""

    def __init__(self, scheme: str, root: str) -> None:
        self.url = f"{scheme}://{root}"
        self.kind = "az" if scheme.startswith("abfs") else scheme
        self.name, _, host = root.partition("@")
        self.account = host.partition(".")[0]
        self.service = _SERVICES[self.kind]

    def path(self, key: str) -> str:
        return f"{self.url}/{key}"

    def denied(self, key: str, error: BaseException, doing: _Doing) -> DeniedError:
        name = shown(self.path(key))
        message = f"not allowed to {doing} {name}: this needs {self.service.rights[doing]}"
        if doing == "read" and self.kind == "s3":
            message += " (and s3:ListBucket, without which S3 says the same of what is not there)"
        hint = f"see whose credentials these are: {self.service.variables}; the service says: {plain(error)}"
        return DeniedError(message, hint=hint, where=Where(name))

    def failed(self, key: str, error: BaseException, doing: _Doing = "read") -> RemoteError:
        text, name = plain(error), shown(self.path(key))
        cannot, where = f"cannot {doing} {name}", Where(name)
        if "credential" in text.lower() or "169.254." in text or "metadata.google" in text:
            hint = f"set {self.service.variables}"
            return RemoteError(f"{cannot}: no credentials were found: {text}", hint=hint, where=where)
        if doing == "list" and ("AccessDenied" in str(error) or "403 Forbidden" in str(error)):  # obstore says no more
            return self.denied(key, error, doing)
        if any(words in text for words in ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")):
            return RemoteError(f"{cannot}: there is no bucket {printable(self.name)}", where=where)
        if "PermanentRedirect" in text or "AuthorizationHeaderMalformed" in text or "301 " in text:
            hint = "set AWS_REGION to the bucket's region"
            return RemoteError(f"{cannot}: its bucket lies in another region", hint=hint, where=where)
        hint = "see that the service can be reached, and try again"
        return BrokenError(f"{cannot}: {text}", hint=hint, where=where)


# obstore


class ByObstore:
    """A bucket, by obstore."""

    def __init__(self, place: _Bucket) -> None:
        try:
            from obstore import store
            from obstore.exceptions import BaseError
        except ImportError as error:
            raise RemoteError(f"{place.url}: the client for objects cannot be used: {error}", hint=HINT) from None
        self._place = place
        self._other: ByFsspec | None = None
        kind = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}[place.kind]
        options = client_options()
        if place.kind != "s3":
            options["allow_http"] = True  # of an emulator that the environment names; nothing else leads there
        config = cast("Any", {"account_name": place.account} if place.account else None)
        try:
            self._store: ObjectStore = kind(place.name, config=config, client_options=options, retry_config=RETRIES)
        except (BaseError, ValueError) as error:
            raise place.failed("", error) from None

    def about(self, key: str) -> Status:
        if self._is_odd(key):
            return self._fsspec(key).about(key)
        with self._asked(key):
            return _about(self._store.head(key))

    def read(self, key: str, start: int, tag: str) -> tuple[Status, Iterator[bytes]]:
        if self._is_odd(key):
            return self._fsspec(key).read(key, start, tag)
        options: GetOptions = {"if_match": tag} if tag else {}
        if start:
            options["range"] = {"offset": start}
        with self._asked(key):
            found = self._store.get(key, options=options)

        def pieces() -> Iterator[bytes]:
            with self._asked(key):
                for piece in found.stream(min_chunk_size=PIECE):
                    yield bytes(piece)

        return _about(found.meta), pieces()

    def listed(self, prefix: str) -> Iterator[RemoteEntry]:
        try:
            with self._asked(prefix, "list"):
                pages = self._store.list(prefix or None, chunk_size=_PAGE)  # pyright: ignore[reportUnknownMemberType]
                for page in pages:
                    yield from (self._listed(found) for found in page)
        except _OddError as error:
            yield from self._fsspec(prefix, error).listed(prefix)  # from the beginning

    def children(self, prefix: str) -> Iterator[RemoteEntry]:
        try:
            with self._asked(prefix, "list"):
                found = self._store.list_with_delimiter(prefix or None)  # pyright: ignore[reportUnknownMemberType]
        except _OddError as error:
            yield from self._fsspec(prefix, error).children(prefix)
            return
        yield from (RemoteEntry(f"{name.rstrip('/')}/") for name in found["common_prefixes"])
        yield from (RemoteEntry(each["path"], _about(each)) for each in found["objects"])

    def _listed(self, found: ObjectMeta) -> RemoteEntry:
        """Return an object of a list, or the folder that an empty one stands for: obstore shows `logs/` as `logs`."""
        key, about = found["path"], _about(found)
        try:
            return RemoteEntry(key, about if about.size else self.about(key))
        except MissingError:
            return RemoteEntry(f"{key}/")

    @staticmethod
    def _is_odd(key: str) -> bool:
        """Tell whether obstore refuses a key, or panics at it."""
        return not key.isprintable() or any(part in ("", ".", "..") for part in key.split("/"))

    def _fsspec(self, key: str, error: Exception | None = None) -> ByFsspec:
        if self._other is None:
            try:
                self._other = ByFsspec(self._place)
            except RemoteError as lacking:
                name = printable(shown(self._place.path(key)))
                message = f"{name} has a name that obstore cannot read" if error is None else f"{name}: {error}"
                raise RemoteError(message, hint=f"{lacking.hint}, which can") from None
        return self._other

    @contextmanager
    def _asked(self, key: str, doing: _Doing = "read") -> Generator[None]:
        """Give errors of the client lore's words."""
        from obstore import exceptions as errors

        try:
            yield
        except (errors.UnauthenticatedError, errors.PermissionDeniedError) as error:
            raise self._place.denied(key, error, doing) from None
        except errors.PreconditionError:
            raise ChangedError(key) from None
        except errors.InvalidPathError as error:
            raise _OddError(plain(error)) from None
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                raise self._place.failed(key, error, doing) from None
            raise missing(self._place.path(key)) from None
        except RemoteError:
            raise
        except (errors.BaseError, OSError, ValueError, RuntimeError) as error:
            raise self._place.failed(key, error, doing) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the client's own, of what it cannot put into a request
                raise
            hint = "see the variables of the environment: one has characters that no request can hold"
            raise RemoteError(f"{shown(self._place.url)}: no request could be made", hint=hint) from None


class _OddError(Exception):
    """A listing holds a name that obstore refuses, and with it all others."""


def _about(meta: ObjectMeta) -> Status:
    return Status(meta["size"], meta["last_modified"].timestamp(), meta["e_tag"] or "")


# fsspec


class ByFsspec:
    """A bucket, by fsspec's filesystem for its service; each read costs one request more than obstore's."""

    def __init__(self, place: _Bucket) -> None:
        self._place = place
        service, package = place.kind, place.service.package
        missing_ones = [name for name in ("fsspec", package) if find_spec(name) is None]
        if missing_ones:
            hint = HINT if "s3fs" in missing_ones else f"{HINT}, or pip install {' '.join(missing_ones)}"
            raise RemoteError(f"{shown(place.url)} cannot be read: {package} is not installed", hint=hint)
        options: dict[str, object] = {"use_listings_cache": False, "skip_instance_cache": True}
        if service == "s3" and os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true"):
            options["anon"] = True
        if place.account:
            options["account_name"] = place.account
        with self._asked(""):
            self._files = cast("Any", import_module("fsspec")).filesystem(service, **options)

    def about(self, key: str) -> Status:
        with self._asked(key):
            found = self._files.info(self._name(key))
            if found.get("type") == "directory":
                raise missing(self._place.path(key))
            return _said(found)

    def read(self, key: str, start: int, tag: str) -> tuple[Status, Iterator[bytes]]:
        about = self.about(key)
        if tag and about.tag != tag:
            raise ChangedError(key)
        with self._asked(key):
            file = self._files.open(self._name(key), "rb", block_size=_BLOCK, cache_type="readahead")

        def pieces() -> Iterator[bytes]:
            with self._asked(key), file:
                file.seek(start)
                while data := file.read(_BLOCK):
                    yield data
                if (about.size or 0) - start > _BLOCK and again(lambda: self.about(key)).tag != about.tag:
                    raise ChangedError(key)  # not each of the filesystems asks for one version

        return about, pieces()

    def listed(self, prefix: str) -> Iterator[RemoteEntry]:
        with self._asked(prefix, "list"):
            found = self._files.find(self._name(prefix), detail=True)
            yield from (RemoteEntry(self._key(name), _said(each)) for name, each in found.items())

    def children(self, prefix: str) -> Iterator[RemoteEntry]:
        with self._asked(prefix, "list"):
            try:
                found = self._files.ls(self._name(prefix), detail=True)
            except FileNotFoundError:
                return
            for each in found:
                key = self._key(each["name"])
                yield RemoteEntry(f"{key}/") if each["type"] == "directory" else RemoteEntry(key, _said(each))

    def _name(self, key: str) -> str:
        return f"{self._place.name}/{key}"

    def _key(self, name: str) -> str:
        return name.removeprefix(f"{self._place.name}/")

    @contextmanager
    def _asked(self, key: str, doing: _Doing = "read") -> Generator[None]:
        """Give errors of the filesystems, each of which raises its own library's, lore's words."""
        try:
            yield
        except RemoteError:
            raise
        except FileNotFoundError as error:
            if "bucket" in str(error).lower():
                raise self._place.failed(key, error, doing) from None
            raise missing(self._place.path(key)) from None
        except PermissionError as error:
            raise self._place.denied(key, error, doing) from None
        except Exception as error:  # noqa: BLE001 - as above
            if type(error).__name__ == "FileExpired" or "PreconditionFailed" in str(error):
                raise ChangedError(key) from None
            raise self._place.failed(key, error, doing) from None


def _said(found: dict[str, Any]) -> Status:
    """Return what a filesystem says of an object, each in words of its own."""
    written = next(
        (found[name] for name in ("LastModified", "last_modified", "updated", "mtime") if name in found), None
    )
    if isinstance(written, str):
        with suppress(ValueError):
            written = datetime.fromisoformat(written)
    moment = written.timestamp() if isinstance(written, datetime) else None
    tag = next((str(found[name]) for name in ("ETag", "etag", "e_tag") if found.get(name)), "")
    return Status(found.get("size"), moment, tag)
