"""The objects of a bucket, as the store in `objects` needs them: get, put on a condition, list, delete.

In: keys below the store's prefix. Out: bytes with the ETag that they had. Rules:
- a write on a condition (`create`: nothing is there; `replace`: what was read is there still) either happens, raises
  TakenError, or raises UnansweredWriteError: then it happened or did not, and only a look says which;
- the client asks again by itself where a server answers 5xx or closes the connection, some seconds long; a write that
  it sent twice may be answered by its own first copy, so that TakenError, too, says nothing without a look;
- credentials are the environment's (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, a web identity,
  a machine's own), never the URL's, and no message holds one.

Any thread may call any method; calls do not wait for each other. A process that was forked behind a first call cannot
go on with the client, whose threads stay with its parent, and is told so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from lore.model.canonical import encode, printable
from lore.model.mask import mask
from lore.store.base import ConflictError, StoreError
from lore.store.jsonl_folder import KIND, STAMP, stamped
from lore.store.registry import shown

if TYPE_CHECKING:
    from obstore import GetOptions, PutMode
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

VERSION = 1  # of the layout of a store
HINT = "pip install 'lore-cache[remote]'"
_NO_TAG = '"00000000000000000000000000000000"'
SHAPE = "s3://BUCKET/PREFIX?endpoint=https://HOST&region=NAME, credentials in the environment (AWS_ACCESS_KEY_ID, …)"
_OPTIONS = ("endpoint", "region")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")  # variables
# What the client can put into a request; at anything else it panics.
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_NAME, _PATH = re.compile(r"[A-Za-z0-9._-]+"), re.compile(r"[A-Za-z0-9._~%/-]*")
_LONGEST_PREFIX = 400  # bytes: a key is of at most 1,024, and ours add up to 600
READS = 3  # times that something is read whose answer breaks off
ATTEMPTS = 100  # times that a write is tried again after another writer's
UNANSWERED = 3  # times that a write is sent again which was not answered, beside those of the client
AT_ONCE = 16  # requests at the same time where many objects are read
_MOST_SHOWN = 300  # characters of a server's message that are shown
TIMEOUT, CONNECT = timedelta(seconds=60), timedelta(seconds=10)  # of one request
RETRIES: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_HELD = re.compile("(AWS|AZURE|GOOGLE)_.*(KEY|SECRET|TOKEN|SAS|PASSWORD).*")  # variables with credentials
_SECRET = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")


T = TypeVar("T")


class TakenError(Exception):
    """The condition of a write does not hold: something else is there, or its own first copy."""


class UnchangedError(Exception):
    """What is there is what was known."""


class _BrokenError(StoreError):
    """What was asked for was not answered, or not whole."""


class _MissingError(Exception):
    """There is nothing."""


class UnansweredWriteError(StoreError):
    """A write was not answered: it is stored whole or not at all, not known which."""


class Tries:
    """How often a write is done again."""

    def __init__(self) -> None:
        self._writes, self._unanswered = ATTEMPTS, UNANSWERED

    def again(self, error: TakenError | UnansweredWriteError) -> None:
        """Count a write that did not happen, as far as is known; raises where it is not to be tried again."""
        self._writes -= 1
        if isinstance(error, UnansweredWriteError):
            self._unanswered -= 1
            if self._unanswered < 0:
                raise error
        if self._writes <= 0:
            raise ConflictError("gave up after repeated write conflicts", hint="do it again")


class Object(NamedTuple):
    """What a key held, and its ETag."""

    data: bytes
    e_tag: str


class ListedObject(NamedTuple):
    """An object of a list."""

    key: str
    e_tag: str | None
    size: int
    modified: datetime


class BucketAddress(NamedTuple):
    """Where a store is; `url` names the same place as it may be shown."""

    bucket: str
    prefix: str
    endpoint: str | None
    region: str | None
    url: str


def parsed(url: str) -> BucketAddress:
    """Read `s3://BUCKET/PREFIX?…`; raises StoreError, which quotes nothing of a URL that may hold a credential."""
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        endpoint = options.get("endpoint")
        place = urlsplit(endpoint) if endpoint else None
        is_odd = "@" in parts.netloc or ":" in parts.netloc or (place is not None and "@" in place.netloc)
        is_host = place is None or (_HOST.fullmatch(place.netloc) and _PATH.fullmatch(place.path) and place.port != 0)
    except ValueError:
        raise StoreError("the URL of the store of objects cannot be read", hint=SHAPE) from None
    if is_odd:
        raise StoreError("the URL of a store of objects holds no credentials", hint=SHAPE)
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        names = ", ".join(map(repr, map(printable, unknown)))
        raise StoreError(f"the URL of the store of objects has unknown options: {names}", hint=SHAPE)
    prefix = parts.path.strip("/")
    segments = prefix.split("/") if prefix else []
    is_plain = prefix.isprintable() and not any(part in ("", ".", "..") for part in segments)
    if not _NAME.fullmatch(parts.netloc) or parts.fragment or not is_plain or len(prefix.encode()) > _LONGEST_PREFIX:
        raise StoreError("the URL of the store of objects names no bucket, or no prefix that can be kept", hint=SHAPE)
    is_http = place is None or (place.scheme in ("http", "https") and not place.query and not place.fragment)
    if not is_http or not is_host:
        raise StoreError("the endpoint of a store of objects is an http or https URL", hint=SHAPE)
    if not _NAME.fullmatch(options.get("region") or "auto"):
        raise StoreError("the region of a store of objects is a name", hint=SHAPE)
    query = urlencode({name: options[name] for name in _OPTIONS if options.get(name)}, safe=":/")
    name = f"s3://{parts.netloc}/{prefix}".rstrip("/") + (f"?{query}" if query else "")
    return BucketAddress(parts.netloc, prefix, endpoint or None, options.get("region") or None, printable(name))


def is_plain(url: str) -> bool:
    """Tell whether a store is reached over a network without encryption; raises StoreError."""
    place = urlsplit(parsed(url).endpoint or "")
    return place.scheme == "http" and place.hostname not in ("localhost", "127.0.0.1", "::1")


def connected(url: str) -> ObjectClient:
    """Return the client of the store that a URL names; sends nothing. Raises StoreError."""
    place = parsed(url)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError as error:
        raise StoreError(f"the client for objects cannot be used: {error}", hint=HINT) from None
    for name in _SECRET:
        if not os.environ.get(name, "").isprintable():
            raise StoreError(f"{name} has a character that no request can hold", hint="a line feed at its end, mostly")
    config: S3Config = {"conditional_put": "etag"}
    if place.endpoint is not None:
        config["endpoint"] = place.endpoint
    if place.region is not None:
        config["region"] = place.region
    options = client_options(place.endpoint)
    try:
        store = S3Store(
            place.bucket, prefix=place.prefix or None, config=config, retry_config=RETRIES,
            client_options=options,
        )  # fmt: skip
    except (BaseError, ValueError) as error:
        raise StoreError(f"{place.url}: {plain(error)}", hint=SHAPE) from None
    return ObjectClient(store, place.url)


def client_options(endpoint: str | None = None) -> ClientConfig:
    """Return how the client speaks to a service: unencrypted only where its endpoint says http."""
    options: ClientConfig = {"timeout": TIMEOUT, "connect_timeout": CONNECT}
    endpoint = endpoint or next((value for name in _ENDPOINTS if (value := os.environ.get(name))), "")
    if urlsplit(endpoint).scheme == "http":
        options["allow_http"] = True
    return options


class ObjectClient:
    """The objects below one prefix; `url` is how the place may be shown."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self.url = url
        self._store = store
        self._process = os.getpid()

    def get(self, key: str, *, unless: str | None = None, most: int | None = None) -> Object | None:
        """Return an object, or its first `most` bytes (of one that holds none: none); None where there is none.

        With `unless` an object that still has this ETag raises UnchangedError.
        """
        options: GetOptions = {} if unless is None else {"if_none_match": unless}
        if most is not None:
            options["range"] = (0, most)

        def get() -> Object:
            found = self._store.get(key, options=options)
            return Object(bytes(found.bytes()), found.meta["e_tag"] or "")

        try:
            return self._read(key, get)
        except _MissingError:
            return None
        except _BrokenError:
            if most is None:
                raise
            return self.get(key, unless=unless)  # no range of an object that is empty

    def get_each(self, keys: Sequence[str], *, most: int | None = None) -> list[Object | None]:
        """Return several objects in the order of their keys, some of them fetched at the same time."""
        if len(keys) < 2:
            return [self.get(key, most=most) for key in keys]
        with ThreadPoolExecutor(min(AT_ONCE, len(keys))) as pool:
            return list(pool.map(partial(self.get, most=most), keys))

    def create(self, key: str, data: bytes) -> str:
        """Write an object where there is none and return its ETag; raises TakenError, UnansweredWriteError."""
        return self._put(key, data, "create")

    def replace(self, key: str, data: bytes, e_tag: str) -> str:
        """Write an object over that with an ETag, return its own; raises TakenError, UnansweredWriteError."""
        return self._put(key, data, {"e_tag": e_tag})

    def put(self, key: str, data: bytes) -> None:
        """Write an object whatever is there; raises UnansweredWriteError."""
        self._put(key, data, "overwrite")

    def _put(self, key: str, data: bytes, mode: PutMode) -> str:
        try:
            with self._asked(key, writes=True):
                return self._store.put(key, data, mode=mode, use_multipart=False)["e_tag"] or ""
        except _MissingError:
            if isinstance(mode, str):
                raise StoreError(f"{self.url}: there is no such bucket", hint=SHAPE) from None
            raise TakenError(key) from None  # S3's answer to If-Match for an object that is gone

    def listed(self, prefix: str) -> list[ListedObject]:
        """Return the objects below a prefix, by key. Costs a request for each thousand."""

        def listed() -> list[ListedObject]:
            pages = self._store.list(prefix=prefix)  # pyright: ignore[reportUnknownMemberType] - its Arrow
            return [
                ListedObject(found["path"], found["e_tag"], found["size"], found["last_modified"])
                for page in pages for found in page
            ]  # fmt: skip

        return self._read(prefix, listed)

    def _read(self, key: str, call: Callable[[], T]) -> T:
        """Return what a call returns that only reads: where its answer breaks off, it is asked again."""
        for again in reversed(range(READS)):
            try:
                with self._asked(key):
                    return call()
            except _BrokenError:
                if not again:
                    raise
        raise AssertionError("it returned or raised")

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, whatever they hold; those that are gone already are no error."""
        names = list(keys)
        if names:
            with self._asked(names[0], writes=True):
                self._store.delete(names)

    @contextmanager
    def _asked(self, key: str, *, writes: bool = False) -> Generator[None]:
        """Give errors of the client lore's words."""
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.url} was opened by the process that this one was forked from", hint="open it again, by spawn"
            )
        from obstore import exceptions as errors

        try:
            yield
        except (errors.UnauthenticatedError, errors.PermissionDeniedError) as error:
            hint = "see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do in this bucket"
            raise StoreError(f"{self.url}: not allowed to reach {printable(key)}: {plain(error)}", hint=hint) from None
        except errors.NotModifiedError:
            raise UnchangedError(key) from None
        except (errors.AlreadyExistsError, errors.PreconditionError):
            raise TakenError(key) from None
        except FileNotFoundError:
            raise _MissingError(key) from None
        except (errors.BaseError, OSError, ValueError, RuntimeError) as error:  # NotImplementedError is one, too
            raise self._failed(error, writes=writes) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the client's own: of what it cannot put into a request
                raise
            hint = "see the variables AWS_…: one has characters that no request can hold"
            raise StoreError(f"{self.url}: no request could be made: {plain(error)}", hint=hint) from None

    def _failed(self, error: Exception, *, writes: bool) -> StoreError:
        text = plain(error)
        if "NoSuchBucket" in text:
            return StoreError(f"{self.url}: there is no such bucket", hint=SHAPE)
        if "credential" in text.lower() or "169.254." in text:
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            return StoreError(f"{self.url}: no credentials were found: {text}", hint=hint)
        if writes:
            hint = "do the same again: what is stored already is not stored twice"
            return UnansweredWriteError(
                f"{self.url}: a write was not answered, and may be stored or not: {text}", hint=hint
            )
        return _BrokenError(f"{self.url}: {text}", hint="see that the endpoint can be reached, and try again")


def is_stamped(client: ObjectClient) -> bool:
    """Tell whether there is a store; raises FormatError where it is another's, or a newer lore's. Costs a request."""
    found = client.get(STAMP)
    if found is None:
        return False
    stamped(found.data, VERSION, client.url, "prefix")
    return True


def make_stamp(client: ObjectClient) -> None:
    """Make a store, where the service honours conditions; raises StoreError where it does not. Costs five requests."""
    if is_stamped(client):
        return
    key = f"tried/{token_hex(16)}"
    client.create(key, b"1")
    honours = _is_refused(lambda: client.create(key, b"2")) and _is_refused(lambda: client.replace(key, b"3", _NO_TAG))
    with suppress(StoreError):  # who may write need not be allowed to delete
        client.delete((key,))
    if not honours:
        raise StoreError(
            f"{client.url}: the service ignores the conditions of a write, so that writers would undo each other's",
            hint="use one that honours If-None-Match and If-Match; nothing was kept there",
        )
    try:
        client.create(STAMP, encode({"kind": KIND, "version": VERSION}))
    except TakenError:
        is_stamped(client)


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except TakenError:
        return True
    return False


def plain(error: BaseException) -> str:
    """Return what a client says on one line: no credential, and not what is behind it for its programmers."""
    text = shown(" ".join(str(error).partition("Debug source:")[0].split()))
    for name, value in os.environ.items():
        if len(value) > 3 and _HELD.fullmatch(name):
            text = text.replace(value, "***")
    text = mask(printable(text))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
