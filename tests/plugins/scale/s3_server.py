"""An object server for tests, in this process: lists and reads objects like S3, and fails when a test wants it.

    with ObjectServer() as server:
        server.keep("bucket/key", b"data")       # an object
        server.requests                          # (method, key) of each request in order
        server.fail = lambda request: "torn"     # the failure of each request; None: it succeeds

It implements what the client of lore uses: GET and HEAD with ranges and `If-Match`, lists in pages. A request must have
a signature, which is not checked. Failures: `refused` (503), `error` (500), `denied` (403), `torn` (half an answer), a
number (delay in seconds).
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import md5
from typing import NamedTuple, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from helpers.serving import Handler, Loopback

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "a secret for tests"}
PAGE = 20  # keys of a page (S3: 1,000)


class Request(NamedTuple):
    method: str
    key: str
    headers: dict[str, str]


class Kept(NamedTuple):
    data: bytes
    e_tag: str
    modified: float

    @property
    def size(self) -> int:
        return len(self.data)


Objects = dict[str, Kept]
Fail = Callable[[Request], "str | float | None"]


class ObjectServer:
    """Buckets in memory, served on a local port."""

    def __init__(self, *, page: int = 0) -> None:
        self.page = page or PAGE
        self.objects: dict[str, Objects] = {}
        self.requests: list[tuple[str, str]] = []
        self.fail: Fail = lambda _: None
        handler = type("Handler", (_Handler,), {"service": self})
        self._http = Loopback(handler)
        self.endpoint = self._http.url

    def __enter__(self) -> Self:
        self._http.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.__exit__()

    def keep(self, place: str, data: bytes, *, modified: float = 1_700_000_000.0) -> None:
        """Store an object, and create its bucket if necessary."""
        bucket, _, key = place.partition("/")
        e_tag = f'"{md5(data).hexdigest()}"'  # noqa: S324 - as S3 makes one
        self.objects.setdefault(bucket, {})[key] = Kept(data, e_tag, modified)

    @contextmanager
    def counted(self) -> Iterator[list[tuple[str, str]]]:
        start, found = len(self.requests), list[tuple[str, str]]()
        yield found
        found += self.requests[start:]


class _Handler(Handler):
    service: ObjectServer

    def get(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.service.requests.append((self.command, key or "?" + parts.query.partition("&")[0]))
        failure = self.service.fail(Request(self.command, key, headers))
        if failure == "refused":
            return self._answer(503, _error("SlowDown"))
        if failure == "error":
            return self._answer(500, _error("InternalError"))
        if failure == "denied" or "authorization" not in headers:
            return self._answer(403, _error("AccessDenied"))
        if isinstance(failure, float):
            time.sleep(failure)
        return self._answer(*self._done(bucket, key, query, headers), torn=failure == "torn")

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, torn: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"" if self.command == "HEAD" else body
        self.wfile.write(body[: len(body) // 2] if torn else body)
        if torn:
            self.close_connection = True

    def _done(
        self, bucket: str, key: str, query: dict[str, list[str]], headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        objects = self.service.objects.get(bucket)
        if objects is None:
            return 404, _error("NoSuchBucket"), {}
        if not key:
            return 200, _list(objects, query, self.service.page), {"Content-Type": "application/xml"}
        return self._get(objects.get(key), headers)

    def _get(self, found: Kept | None, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        if found is None:
            return 404, _error("NoSuchKey"), {}
        modified = datetime.fromtimestamp(found.modified, UTC)
        told = {"ETag": found.e_tag, "Last-Modified": modified.strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if headers.get("if-match", found.e_tag) != found.e_tag:
            return 412, _error("PreconditionFailed"), {}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if wanted is None:
            return 200, found.data, told
        start, end = int(wanted[1]), min(int(wanted[2] or found.size) + 1, found.size)
        if start >= found.size:
            return 416, _error("InvalidRange"), {}
        told["Content-Range"] = f"bytes {start}-{end - 1}/{found.size}"
        return 206, found.data[start:end], told


def _list(objects: Objects, query: dict[str, list[str]], size: int) -> bytes:
    prefix, token = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
    delimiter, encoded = query.get("delimiter", [""])[0], query.get("encoding-type") == ["url"]
    spelled = quote if encoded else _escaped

    def entry(key: str) -> str:
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        return key if at < 0 else key[: at + 1]

    found = sorted({entry(key) for key in objects if key.startswith(prefix) and key > token})
    found = [name for name in found if name > token]
    page, rest = found[:size], found[size:]
    text = "".join(
        f"<CommonPrefixes><Prefix>{spelled(key)}</Prefix></CommonPrefixes>"
        if key not in objects
        else f"<Contents><Key>{spelled(key)}</Key><Size>{objects[key].size}</Size>"
        f"<ETag>{escape(objects[key].e_tag)}</ETag>"
        f"<LastModified>{datetime.fromtimestamp(objects[key].modified, UTC):%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
        "</Contents>"
        for key in page
    )
    more = f"<NextContinuationToken>{_escaped(page[-1])}</NextContinuationToken>" if rest else ""
    encoding = "<EncodingType>url</EncodingType>" if encoded else ""
    return (
        f"<ListBucketResult>{encoding}<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(bool(rest)).lower()}</IsTruncated>"
        f"{text}{more}</ListBucketResult>"
    ).encode()


def _escaped(text: str) -> str:
    return escape(text).replace("\n", "&#10;").replace("\r", "&#13;")


def _error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
