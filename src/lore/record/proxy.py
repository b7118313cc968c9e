"""The proxy: each call passes to its server and back, chunk by chunk, and is written down as it passes.

In: an ASGI application's calls (uvicorn), routes, an open journal. Out: answers of the servers (httpx), as they came:
status, headers but those of the connection, bytes still compressed; and records. Rules: nothing waits for the disk but
the end of a message, which passes when all of that message stands in the file (and is synchronised soon after), so that
what was whole for a client is whole in the capture; a chunk is passed before the next is read; who leaves is not waited
for. Only the server of a route is spoken to, and only requests that name this server as their host are taken (DNS
rebinding), none that a page of another site sends. What cannot be written down passes all the same.

Cost: memory of a call is bounded by `PIECE` a side. Sources: RFC 9110, 7.6.1 (headers of a connection) and 10.1.1
(Expect); ASGI 3.0; WHATWG Fetch Metadata; read on 2026-11-23.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from lore.record.journal import Journal
from lore.record.kept import account, cut, line_of, moment, request_headers, response_headers, url_of
from lore.record.upstreams import Route, Routes

PIECE = 256 * 1024  # bytes of a body in one record, about
PAUSE = 1.0  # seconds after which what came of a stream is written, though it goes on
_OF_CONNECTION = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
))  # fmt: skip
_ANSWERED_HERE = frozenset((b"host", b"expect"))
COMPLETE, LEFT, STOPPED = "complete", "the client left", "lore record was stopped"
CONNECT, KEEP_ALIVE = 60.0, 30.0  # seconds: until a server takes a connection, and that an idle one is kept
_SIGNED = "AWS4-HMAC-SHA256"


class ClientLeftError(Exception):
    """The client closed its connection before its request was whole."""


class Counts:
    """What passed: calls, those that were not written down, refused requests; `open` ones have not ended."""

    def __init__(self) -> None:
        self.calls = self.lost = self.refused = self.open = 0


class _Pen:
    """Append records in their order from one thread, so that a slow disk holds nothing else up."""

    def __init__(self, journal: Journal, tell: Callable[[str], None]) -> None:
        self._journal, self._tell, self._failing = journal, tell, False
        self._thread = ThreadPoolExecutor(1, "lore-record-pen")

    def write(self, record: dict[str, Any], body: bytes = b"") -> Future[bool]:
        return self._thread.submit(self._append, record, body)

    def _append(self, record: dict[str, Any], body: bytes) -> bool:
        done = self._journal.append(line_of(record, body))
        if not done and not self._failing:
            self._tell(f"error: {self._journal.shown} cannot be written: {self._journal.failed}; requests still pass")
        elif done and self._failing:
            self._tell(f"{self._journal.shown} is written again")
        self._failing = not done
        return done

    def close(self) -> None:
        self._thread.shutdown(wait=True)


async def _written(record: Future[bool]) -> None:
    """Wait until a record stands in the file, or was refused; who is cancelled meanwhile leaves it to be written."""
    await asyncio.shield(asyncio.wrap_future(record))


class _Side:
    """One side of a call as it passes: what came since the last record. Its first record has `head`."""

    def __init__(self, pen: _Pen, call: str, part: str, clock: Callable[[], float]) -> None:
        self._pen, self._named, self._clock = pen, {"call": call, "part": part}, clock
        self.head: dict[str, Any] = {}
        self.at: float | None = None  # when it began
        self.since = 0.0  # when its call did
        self.written = True  # so far
        self._last: Future[bool] | None = None
        self._pieces = bytearray()
        self._arrived: list[tuple[float, int]] = []
        self._chunks = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Note when it begins."""
        self.at = self._clock()

    async def add(self, chunk: bytes, *, timed: bool = False) -> None:
        """Take a chunk; wait where so much came that it is written."""
        self._pieces += chunk
        self._chunks += 1
        if timed:
            self._arrived.append((round((self._clock() - self.since) * 1000, 1), len(chunk)))
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(PAUSE, self._write_on)
        if len(self._pieces) >= PIECE:
            await _written(self._write(more=True))

    def end(self, **said: Any) -> Future[bool]:
        """Write what is left, once; the future is done when all of it stands in the file."""
        if self._last is None:
            self._last = self._write(more=False, **said)
        return self._last

    @property
    def over(self) -> bool:
        """Whether its last record was written."""
        return self._last is not None

    def _write_on(self) -> None:
        self._timer = None
        if not self.over:
            self._write(more=True)

    def _write(self, *, more: bool, **said: Any) -> Future[bool]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        size = cut(self._pieces) if more else len(self._pieces)
        body = bytes(self._pieces[:size])
        del self._pieces[:size]
        at = self._clock() if self.at is None else self.at
        record = {**self._named, "at": moment(at), **self.head, **said}
        self.head, self.at = {}, None
        if self._chunks > 1 and self._arrived:
            record["arrived"] = self._arrived
        self._arrived = []
        if more:
            record["more"] = True
        written = self._pen.write(record, body)
        written.add_done_callback(self._check)
        return written

    def _check(self, written: Future[bool]) -> None:
        self.written = self.written and not written.cancelled() and written.exception() is None and written.result()


class _Body(httpx.AsyncByteStream):
    """The body of a request as its client sends it: the last bytes pass when all of it stands in the file."""

    def __init__(self, receive: Receive, side: _Side, length: int | None) -> None:
        self._receive, self._side, self._left = receive, side, length
        self.done = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks():
                yield chunk
        finally:
            self.done.set()

    async def _chunks(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeftError
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if chunk:
                await self._side.add(chunk)
            if self._left is not None:
                self._left -= len(chunk)
            if not self._side.over and (not more or self._left == 0):
                await _written(self._side.end())
            if chunk:
                yield chunk


class _Call:
    """A call under way; `ended` says how it came to its end, once it has."""

    def __init__(self, name: str, pen: _Pen, clock: Callable[[], float]) -> None:
        self.request = _Side(pen, name, "request", clock)
        self.response = _Side(pen, name, "response", clock)
        self.ended = LEFT

    def written(self) -> bool:
        """Tell whether every record of it stands in the file, once the last one was taken."""
        return self.request.written and self.response.written


class Proxy:
    """The application. Calls run side by side in one event loop; `tell` hears, on any thread, what a person must know.

    `hosts` are the names that clients on this machine have for it; `run` tells the calls of this run from those of
    others in the same file.
    """

    def __init__(
        self, routes: Routes, journal: Journal, hosts: frozenset[str], run: str, tell: Callable[[str], None],
        *, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._routes, self._hosts, self._run, self._tell, self._clock = routes, hosts, run, tell, clock
        self._pen = _Pen(journal, tell)
        self._client: httpx.AsyncClient | None = None
        self._told = set[str]()
        self.counts = Counts()

    def open(self, version: str) -> None:
        """Write the first record of this run."""
        upstreams = {route.name: route.origin for route in self._routes.routes}
        record = {"lore_capture": 1, "at": moment(self._clock()), "lore": version, "upstreams": upstreams}
        self._pen.write(record).result()

    def close(self) -> None:
        """Wait until all records are appended."""
        self._pen.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, or what uvicorn says of the loop's life."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        headers = Headers(scope=scope)
        refusal = _refusal(scope, headers, self._hosts)
        found = None if refusal else self._routes.of(scope["raw_path"])
        if found is None:
            self.counts.refused += 1
            await self._refuse(scope, receive, send, *(refusal or (404, self._nowhere())))
            return
        self.counts.calls += 1
        self.counts.open += 1
        call = _Call(f"{self._run}-{self.counts.calls}", self._pen, self._clock)
        try:
            await self._pass(call, scope, headers, found, receive, send)
        finally:
            self.counts.open -= 1
            if not call.request.over:
                call.request.end(ended=call.ended)
            last = call.response.end(ended=call.ended)
            last.add_done_callback(lambda _: self._count(call))

    def _count(self, call: _Call) -> None:
        self.counts.lost += not call.written()

    async def _live(self, receive: Receive, send: Send) -> None:
        """Open the connections to servers with the loop, and close them before it ends."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._client = _client()
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._client is not None:
                    await self._client.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _pass(
        self, call: _Call, scope: Scope, headers: Headers, found: tuple[Route, bytes], receive: Receive, send: Send
    ) -> None:  # fmt: skip
        """Pass a call on; a client that leaves while it waits ends what is done for it."""
        route, path = found
        length = headers.get("content-length", "")
        body = _Body(receive, call.request, int(length) if length.isdigit() else None)
        query: bytes = scope["query_string"]
        call.request.head = {
            "method": scope["method"], "url": url_of(route.origin, path, query),
            "headers": request_headers(headers.raw), "account": account(headers.raw, query),
        }  # fmt: skip
        call.request.begin()
        call.response.since = self._clock()
        target = path + (b"?" + query if query else b"")
        request = _request(scope["method"], route.origin, target, headers, body)
        work = asyncio.ensure_future(self._forward(call, request, route, send))
        leaving = asyncio.ensure_future(_left(body, receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.ended = STOPPED
            raise
        finally:
            for task in (work, leaving):
                task.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()) is not None:
            call.ended = f"lore failed: {type(error).__name__}"
            raise error

    async def _forward(self, call: _Call, request: httpx.Request, route: Route, send: Send) -> None:
        """Send a request to its server and its answer to the client; errors of either are an end of the call."""
        assert self._client is not None
        try:
            response = await self._client.send(request, stream=True)
        except ClientLeftError:
            return
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            call.ended = f"no answer from the upstream: {_reason(error)}"
            self._tell_once(f"{route.origin} did not answer: {_reason(error)}")
            if not call.request.over:
                call.request.end(ended=call.ended)
            await _written(call.response.end(ended=call.ended))
            await _answer(send, 502, f"lore record: {route.origin} did not answer: {_reason(error)}")
            return
        try:
            if response.status_code == 403 and _is_signed(request):
                self._tell_once(SIGNED)
            call.ended = await _send_back(call, request.method, response, send)
        finally:
            await response.aclose()

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, text: str) -> None:
        """Answer what is not passed on, in the form in which APIs answer errors."""
        self._tell_once(f"refused: {text}")
        answer = JSONResponse(_error(text), status, {"connection": "close"})  # what else it holds is not read
        await answer(scope, receive, send)

    def _nowhere(self) -> str:
        names = ", ".join(f"/{route.name}/" for route in self._routes.routes)
        return f"the path names no upstream; paths here begin with {names}"

    def _tell_once(self, text: str) -> None:
        if text not in self._told and len(self._told) < 100:
            self._told.add(text)
            self._tell(text)


SIGNED = (
    "the upstream refused a request that is signed for this address (AWS SigV4 covers the host), and lore has no "
    "credentials to sign it anew. Leave Bedrock out with --only, for instance --only anthropic, or name a gateway that "
    "signs by itself: --upstream bedrock=URL (lore guide record)"
)


async def _send_back(call: _Call, method: str, response: httpx.Response, send: Send) -> str:
    """Pass an answer to its client and write it down; return how it ended."""
    side, raw = call.response, response.headers.raw
    side.begin()
    side.head = {"status": response.status_code, "headers": response_headers(raw)}
    chunked = "transfer-encoding" in response.headers  # which holds, where a length is said as well (RFC 9112, 6.3)
    length = "" if chunked else response.headers.get("content-length", "")
    if method == "HEAD" or response.status_code in (204, 304) or length == "0":  # no body will come
        await _written(side.end(ended=COMPLETE))
    dropped = _of(response.headers) | frozenset((b"content-length",) if chunked else ())
    await send({
        "type": "http.response.start", "status": response.status_code,
        "headers": [(name, value) for name, value in raw if name.lower() not in dropped],
    })  # fmt: skip
    left = int(length) if length.isdigit() and method != "HEAD" else None
    try:
        async for chunk in response.aiter_raw():
            await side.add(chunk, timed=True)
            if left is not None:
                left -= len(chunk)
                if left <= 0:
                    await _written(side.end(ended=COMPLETE))
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        return f"the upstream broke off: {_reason(error)}"  # uvicorn closes the connection: the client sees it, too
    if not side.over:
        await _written(side.end(ended=COMPLETE))
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return COMPLETE


async def _left(body: _Body, receive: Receive) -> None:
    """Return when the client has closed its connection; its request must have been read."""
    await body.done.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


def _client() -> httpx.AsyncClient:
    """Make the client of servers: proxies and certificates as the user's environment names them, no cookie kept.

    A server on this machine is spoken to directly.
    """
    none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    direct: dict[str, httpx.AsyncBaseTransport | None] = {
        "all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None,
    }  # fmt: skip
    return httpx.AsyncClient(
        cookies=none, follow_redirects=False, mounts=direct,
        timeout=httpx.Timeout(None, connect=CONNECT),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEEP_ALIVE),
    )  # fmt: skip


def _request(method: str, origin: str, target: bytes, headers: Headers, body: _Body) -> httpx.Request:
    """Make the request that its server gets: every header but those of the connection, the path to the byte."""
    url = httpx.URL(origin)
    dropped = _of(headers) | _ANSWERED_HERE
    pairs = [(b"host", url.netloc), *(pair for pair in headers.raw if pair[0].lower() not in dropped)]
    if "content-length" not in headers and "transfer-encoding" in headers:
        pairs.append((b"transfer-encoding", b"chunked"))
    whole = url.copy_with(raw_path=target)
    extensions = {} if whole.raw_path == target else {"target": target}
    return httpx.Request(method, whole, headers=pairs, stream=body, extensions=extensions)


def _of(headers: Headers | httpx.Headers) -> frozenset[bytes]:
    """Return the names of the headers that are between two ends of one connection alone."""
    named = headers.get("connection", "")
    return _OF_CONNECTION | {name.strip().lower().encode("latin-1", "replace") for name in named.split(",")}


def _refusal(scope: Scope, headers: Headers, hosts: frozenset[str]) -> tuple[int, str] | None:
    """Return the status and the words by which a call is refused; None for one that may pass."""
    named = headers.getlist("host")
    if len(named) != 1 or named[0].lower() not in hosts:
        return 403, "the request is for another host: this is no proxy for others"
    if scope["method"] == "CONNECT" or not scope["raw_path"].startswith(b"/"):
        return 403, "the request is for another host: this is no proxy for others"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return 403, "a page in a browser asked"
    if "websocket" in headers.get("upgrade", "").lower():
        return 426, "WebSockets are not recorded; use HTTP (Codex does by itself, after this answer)"
    return None


def _is_signed(request: httpx.Request) -> bool:
    return request.headers.get("authorization", "").startswith(_SIGNED)


def _reason(error: Exception) -> str:
    """Say what went wrong with a server, in words of the library; where these quote what was sent, its name alone."""
    text = " ".join(str(error).split())[:200]
    quotes = isinstance(error, httpx.LocalProtocolError | httpx.InvalidURL) or "b'" in text or 'b"' in text
    return type(error).__name__ if quotes or not text else f"{text} ({type(error).__name__})"


def _error(text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "lore_record", "code": "lore_record", "message": text}}


async def _answer(send: Send, status: int, text: str) -> None:
    body = json.dumps(_error(text)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
