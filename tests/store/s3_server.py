"""A service of objects for tests, in this process: what S3 does with conditions, and what goes wrong on the way to it.

    with ObjectServer() as server:
        url = server.url("bucket/prefix")        # of a store; a bucket is there once a URL names it
        server.serve("bucket", folder)           # the files of a folder as objects
        server.requests, server.received         # (method, key) of each request in order; bytes of their bodies
        server.fail = lambda request: "lost"     # what happens to requests from here on; None: nothing

It speaks as much of S3's protocol as lore's client uses: PUT with `If-None-Match: *` and `If-Match`, GET with ranges
and `If-None-Match`, DELETE of one and of several, listing in pages. Signatures are not checked, only that there is one.
Each object is kept in memory, but files of a folder that is served, which are mapped while they are sent; all is under
one lock: what S3 promises of reads and writes holds. Failures:

- `refused`: 503 before anything is done;   `lost`: done, and the connection closed without an answer
- `error`: done, then 500;                  `torn`: the answer breaks off in its middle
- `denied`: 403;                            a number: done after so many seconds
- `dripped`: the body comes byte by byte, 20 in a second
"""

from __future__ import annotations

import mmap
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "a secret for tests"}
AZURE = "/devstoreaccount1"  # the account of Azure's emulator, which clients name in each path
PAGE = 20  # keys of a page, where S3 has a thousand


class Request(NamedTuple):
    """One request, as failures are chosen by it."""

    method: str
    key: str
    headers: dict[str, str]


class Kept(NamedTuple):
    """An object."""

    data: bytes
    e_tag: str
    modified: float

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.data)


class KeptFile(NamedTuple):
    """A file as an object."""

    path: Path
    size: int
    e_tag: str
    modified: float

    @property
    def data(self) -> memoryview:
        """Its bytes, mapped and not held."""
        if not self.size:
            return memoryview(b"")
        with open(self.path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


Objects = dict[str, Kept | KeptFile]
Fail = Callable[[Request], "str | float | None"]


class ObjectServer:
    """Buckets in memory behind a socket of this machine."""

    def __init__(self, *, conditions: bool = True, page: int = 0) -> None:
        self.page = page or PAGE
        self.objects: dict[str, Objects] = {}
        self.requests: list[tuple[str, str]] = []
        self.received = 0  # bytes of all bodies
        self.fail: Fail = lambda _: None
        self.conditions = conditions
        self.signed = True  # whether requests have to be
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"service": self})
        self._http = _Listener(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def url(self, place: str) -> str:
        """Return the URL of a store; its bucket is there from here on."""
        self.objects.setdefault(place.partition("/")[0], {})
        return f"s3://{place}?endpoint={self.endpoint}&region=us-east-1"

    def keep(self, place: str, data: bytes, *, modified: float = 1_700_000_000.0) -> None:
        """Put an object there; its bucket is there from here on."""
        bucket, _, key = place.partition("/")
        e_tag = f'"{md5(data).hexdigest()}"'  # noqa: S324 - as S3 makes one
        self.objects.setdefault(bucket, {})[key] = Kept(data, e_tag, modified)

    def serve(self, bucket: str, folder: Path) -> None:
        """Make the files below a folder the objects of a bucket; none may change meanwhile."""
        objects = self.objects.setdefault(bucket, {})
        for path in folder.rglob("*"):
            if path.is_file():
                known = path.stat()
                e_tag = f'"{known.st_size:x}-{known.st_mtime_ns:x}"'
                objects[path.relative_to(folder).as_posix()] = KeptFile(path, known.st_size, e_tag, known.st_mtime)

    @contextmanager
    def counted(self) -> Iterator[list[tuple[str, str]]]:
        """Collect the requests made meanwhile."""
        start, found = len(self.requests), list[tuple[str, str]]()
        yield found
        found += self.requests[start:]


class _Listener(ThreadingHTTPServer):
    """The socket; a client that is killed, or gives up, is no error of the service."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over what a client that is gone leaves."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    service: ObjectServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgment of its own headers

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).removeprefix(AZURE).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.service.received += len(body)
        self.service.requests.append((self.command, key or "?" + parts.query.partition("&")[0]))
        failure = self.service.fail(Request(self.command, key, headers))
        if failure == "refused":
            return self._answer(503, _error("SlowDown"))
        if failure == "denied" or (self.service.signed and "authorization" not in headers):
            return self._answer(403, _error("AccessDenied"))
        if isinstance(failure, float):
            time.sleep(failure)
        with self.service.lock:
            answer = self._done(bucket, key, query, headers, body)
        if failure == "lost":
            self.close_connection = True
            return None
        return (
            self._answer(500, _error("InternalError"))
            if failure == "error"
            else self._answer(*answer, torn=failure == "torn", drips=failure == "dripped")
        )

    do_GET = do_PUT = do_DELETE = do_POST = do_HEAD = _handle  # noqa: N815 - names of the library

    def _answer(
        self, status: int, body: bytes | memoryview = b"", headers: dict[str, str] | None = None, *,
        torn: bool = False, drips: bool = False,
    ) -> None:  # fmt: skip
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"" if self.command == "HEAD" else body
        while drips and body:
            self.wfile.write(body[:1])
            body = body[1:]
            time.sleep(0.05)
        self.wfile.write(body[: len(body) // 2] if torn else body)
        if torn:
            self.close_connection = True

    def _done(
        self, bucket: str, key: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes | memoryview, dict[str, str]]:
        objects = self.service.objects.get(bucket)
        if objects is None:
            return 404, _error("NoSuchBucket"), {}
        if self.command in ("GET", "HEAD") and not key:
            listed = _blobs(objects, query) if "comp" in query else _list(objects, query, self.service.page)
            return 200, listed, {"Content-Type": "application/xml"}
        if self.command == "POST":
            names = [_unescaped(name) for name in re.findall(r"<Key>(.*?)</Key>", body.decode())]
            for name in names:
                objects.pop(name, None)
            gone = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
            return 200, f'<?xml version="1.0"?><DeleteResult>{gone}</DeleteResult>'.encode(), {}
        if self.command == "DELETE":
            objects.pop(key, None)
            return 204, b"", {}
        if self.command == "PUT":
            return self._put(objects, key, headers, body)
        return self._get(objects.get(key), headers)

    def _put(
        self, objects: Objects, key: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        known = objects.get(key)
        if self.service.conditions:
            if headers.get("if-none-match") == "*" and known is not None:
                return 412, _error("PreconditionFailed"), {}
            if "if-match" in headers and known is None:
                return 404, _error("NoSuchKey"), {}
            if "if-match" in headers and known is not None and headers["if-match"] != known.e_tag:
                return 412, _error("PreconditionFailed"), {}
        e_tag = f'"{md5(body).hexdigest()}"'  # noqa: S324 - as S3 makes one
        objects[key] = Kept(body, e_tag, time.time())
        return 200, b"", {"ETag": e_tag}

    def _get(
        self, found: Kept | KeptFile | None, headers: dict[str, str]
    ) -> tuple[int, bytes | memoryview, dict[str, str]]:
        if found is None:
            return 404, _error("NoSuchKey"), {}
        modified = datetime.fromtimestamp(found.modified, UTC)
        told = {"ETag": found.e_tag, "Last-Modified": modified.strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if headers.get("if-none-match") == found.e_tag:
            return 304, b"", told
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
        """Return the key, or the folder that stands for it and others."""
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


def _blobs(objects: Objects, query: dict[str, list[str]]) -> bytes:
    """List as Azure does: in one page, other words for the same."""
    prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
    folders, text = dict[str, None](), ""
    for key, kept in sorted(objects.items()):
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        if key.startswith(prefix) and at >= 0:
            folders[key[: at + 1]] = None
        elif key.startswith(prefix):
            modified = datetime.fromtimestamp(kept.modified, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
            about = f"<Last-Modified>{modified}</Last-Modified><Etag>{escape(kept.e_tag)}</Etag>"
            about += f"<Content-Length>{kept.size}</Content-Length><Content-Type>a/b</Content-Type>"
            text += f"<Blob><Name>{_escaped(key)}</Name><Properties>{about}</Properties></Blob>"
    text += "".join(f"<BlobPrefix><Name>{_escaped(name)}</Name></BlobPrefix>" for name in folders)
    return f"<EnumerationResults><Blobs>{text}</Blobs><NextMarker/></EnumerationResults>".encode()


def _escaped(text: str) -> str:
    return escape(text).replace("\n", "&#10;").replace("\r", "&#13;")


def _unescaped(text: str) -> str:
    for name, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(name, char)
    return text


def _error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
