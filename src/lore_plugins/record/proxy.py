"""The proxy: each call passes to its server and back, chunk by chunk, and is written down as it passes.

In: an ASGI application's calls (uvicorn), routes, an open journal. Out: answers of the servers (httpx), as they came:
status, headers but those of the connection, bytes still compressed; and records. Rules: what passes to a client stands
in the file before; a chunk is passed before the next is read; who leaves is not waited for. Only the server of a route
is spoken to, and only requests that name this server as their host are taken (DNS rebinding), none that a page in a
browser sends. A request that AWS's clients signed for this address is signed anew for its server, where its address
holds the token of this run: whoever else can reach the port signs nothing with the user's credentials. What cannot be
written down passes all the same.

Cost: memory of a call is bounded by `PIECE`, of one that is signed by its body. Sources: RFC 9112, 3.2.2
(absolute-form) and 6.1 (two lengths); RFC 9113, 3.4 (PRI); ASGI 3.0; WHATWG Fetch Metadata; read on 2026-11-23.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

import httpx
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from lore.model import format_timestamp
from lore_plugins.record.forwarding import (
    LARGEST,
    NotSignedError,
    Signature,
    Signer,
    account,
    passed_on,
    reason,
    request_headers,
    request_of,
    response_headers,
    signature_of,
    url_of,
)
from lore_plugins.record.journal import COMPLETE, STOPPED, Journal, RecordedCall, Writer, line_of
from lore_plugins.record.upstreams import Route, Routes

_NOT_GIVEN = "lore signs only what comes to the address that it set as AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
_LENGTH = b"content-length"
_ELSEWHERE = "the request is for another host: this is no proxy for others"


class ClientLeftError(Exception):
    """The client closed its connection before its request was whole."""


class Passed:
    """What passed to one server: calls, bytes of bodies, answers by status; `unanswered` had none."""

    def __init__(self, name: str, server: str) -> None:
        self.name, self.server = name, server
        self.calls = self.request_bytes = self.response_bytes = self.unanswered = 0
        self.statuses = Counter[int]()

    def add(self, call: RecordedCall) -> None:
        """Count a call that ended."""
        self.calls += 1
        self.request_bytes += call.request.size
        self.response_bytes += call.response.size
        if call.status is None:
            self.unanswered += 1
        else:
            self.statuses[call.status] += 1


class TrafficCounts:
    """What passed: calls, those that were not written whole, refused requests; `open` ones have not ended."""

    def __init__(self) -> None:
        self.calls = self.lost = self.refused = self.open = 0
        self.passed: dict[tuple[str, str], Passed] = {}


class _Body(httpx.AsyncByteStream):
    """The body of a request as its client sends it: the last bytes pass when all of it stands in the file."""

    def __init__(self, receive: Receive, call: RecordedCall, length: int | None) -> None:
        self._receive, self._call, self._left = receive, call, length
        self.done = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks():
                yield chunk
        finally:
            self.done.set()

    async def _chunks(self) -> AsyncIterator[bytes]:
        more, side = True, self._call.request
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientLeftError
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if chunk:
                side.add(chunk)
            if self._left is not None:
                self._left -= len(chunk)
            if not more or self._left == 0:
                side.end(self._call.clock())
            if chunk:
                yield chunk


class Proxy:
    """The application. Calls run side by side in one event loop; `tell` hears, on any thread, what a person must know.

    `hosts` are the names that clients on this machine have for it; `run` tells the calls of this run from those of
    others in the same file; `token` is the first part of paths below which requests are signed anew; `server` is the
    client by which servers are spoken to, which it closes.
    """

    def __init__(
        self, routes: Routes, journal: Journal, server: httpx.AsyncClient, hosts: frozenset[str], run: str, token: str,
        tell: Callable[[str], None], *, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._routes, self._hosts, self._run, self._tell, self._clock = routes, hosts, run, tell, clock
        self._token = b"/" + token.encode()
        self._journal, self._writer = journal, Writer(journal, tell)
        self._client, self._signer = server, Signer()
        self._told = set[str]()
        self.counts = TrafficCounts()

    def open(self, version: str) -> None:
        """Write the first record of this run. Raises LoreError."""
        upstreams = {route.name: route.origin for route in self._routes.routes}
        record = {"lore_capture": 1, "at": format_timestamp(self._clock()), "lore": version, "upstreams": upstreams}
        self._journal.open_run(line_of(record))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, or what uvicorn says of the loop's life."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        headers = Headers(scope=scope)
        path, named = self._path(scope["raw_path"], headers)
        refusal = _refusal(scope["method"], path, headers, self._hosts)
        found = None if refusal else self._routes.of(path)
        if found is None:
            self.counts.refused += 1
            status, text = refusal or (404, self._nowhere())
            self._tell_once(f"refused: {text}")
            await _answer(send, status, text, last=True)  # what else the connection holds is not read
            return
        self.counts.calls += 1
        self.counts.open += 1
        call = RecordedCall(f"{self._run}-{self.counts.calls}", self._writer, self._clock)
        try:
            await self._pass(call, scope, headers, *found, receive=receive, send=send, may_sign=named)
        finally:
            call.close()
            self.counts.open -= 1
            self.counts.lost += not call.written
            self.counts.passed.setdefault((found[0].name, call.server), Passed(found[0].name, call.server)).add(call)

    def _path(self, path: bytes, headers: Headers) -> tuple[bytes, bool]:
        """Return a path from a slash on, without the token, and whether it began with that."""
        scheme, absolute, rest = path.partition(b"://")
        host, _, below = rest.partition(b"/")
        if absolute and scheme.lower() == b"http" and host.decode("latin-1").lower() == headers.get("host", "").lower():
            path = b"/" + below
        first, slash, below = path[1:].partition(b"/")
        named = hmac.compare_digest(b"/" + first, self._token)
        return (slash + below if named else path), named

    async def _live(self, receive: Receive, send: Send) -> None:
        """Close the connections to servers before the loop ends."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._client.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _pass(
        self, call: RecordedCall, scope: Scope, headers: Headers, route: Route, path: bytes, *, receive: Receive,
        send: Send, may_sign: bool,
    ) -> None:  # fmt: skip
        """Pass a call on; a client that leaves while it waits ends what is done for it."""
        length, query = headers.get("content-length", ""), scope["query_string"]
        signature, unsigned = None, ""
        try:
            signature = signature_of(headers.raw)
        except NotSignedError as error:
            unsigned = str(error)
        if signature is not None and not may_sign:
            unsigned = _NOT_GIVEN
        origin = route.origin_in(signature.region) if signature is not None else route.origin
        call.server = origin
        call.request.begin(call.began, {
            "method": scope["method"], "url": url_of(origin, path, query),
            "headers": request_headers(headers.raw), "account": account(headers.raw, query),
        })  # fmt: skip
        body = _Body(receive, call, int(length) if length.isdigit() else None)
        target = path + (b"?" + query if query else b"")
        request = request_of(
            scope["method"], origin, target, passed_on(headers.raw, request=True), body,
            chunked="content-length" not in headers and "transfer-encoding" in headers,
        )  # fmt: skip
        work = asyncio.ensure_future(self._forward(call, request, signature, unsigned, body, send))
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

    async def _forward(
        self,
        call: RecordedCall,
        request: httpx.Request,
        signature: Signature | None,
        unsigned: str,
        body: _Body,
        send: Send,
    ) -> None:
        """Send a request to its server and its answer to the client; errors of either are an end of the call."""
        server = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        try:
            if signature is not None or unsigned:
                request = await self._signed(request, signature, unsigned, body)
            response = await self._client.send(request, stream=True)
            if not 200 <= response.status_code < 600:  # RFC 9110, 15: nothing that uvicorn would send
                await response.aclose()
                raise httpx.RemoteProtocolError(f"it answered with status {response.status_code}")
        except ClientLeftError:
            return
        except NotSignedError as error:
            again, call.ended = False, "not sent: it could not be signed"
            text = f"nothing was sent to {server}: {error}"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            again, call.ended = True, f"no answer from the upstream: {reason(error)}"
            text = f"{server} did not answer: {reason(error)}"
        else:
            try:
                call.status = response.status_code
                call.ended = await _send_back(call, request.method, response, send)
            finally:
                await response.aclose()
            return
        self._tell_once(text)
        call.close()
        await _answer(send, 502, f"lore record: {text}", again=again)

    async def _signed(
        self, request: httpx.Request, signature: Signature | None, unsigned: str, body: _Body
    ) -> httpx.Request:
        """Return a request signed for its server, once its body is whole. Raises NotSignedError."""
        data = bytearray()
        async for chunk in body:
            if len(data) <= LARGEST:
                data += chunk
        if signature is None or unsigned:
            raise NotSignedError(unsigned)
        if len(data) > LARGEST:
            raise NotSignedError(f"its body is over {LARGEST >> 20} MB, more than is signed")
        target = request.url.raw_path
        origin = f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"
        headers = await asyncio.to_thread(
            self._signer.sign, signature, request.method, origin + target.decode("latin-1"), request.headers.raw,
            bytes(data),
        )  # fmt: skip
        chunked = (b"transfer-encoding", b"chunked") in headers
        pairs = passed_on(headers, request=True)
        return request_of(request.method, origin, target, pairs, httpx.ByteStream(bytes(data)), chunked=chunked)

    def _nowhere(self) -> str:
        names = ", ".join(f"/{route.name}/" for route in self._routes.routes)
        return f"the path names no upstream; paths here begin with {names}"

    def _tell_once(self, text: str) -> None:
        if text not in self._told and len(self._told) < 100:
            self._told.add(text)
            self._tell(text)


async def _send_back(call: RecordedCall, method: str, response: httpx.Response, send: Send) -> str:
    """Pass an answer to its client and write it down; return how it ended."""
    side, raw = call.response, response.headers.raw
    call.request.flush()
    side.begin(call.clock(), {"status": response.status_code, "headers": response_headers(raw)})
    chunked = "transfer-encoding" in response.headers  # which holds, where a length is said as well (RFC 9112, 6.3)
    length = "" if chunked else response.headers.get("content-length", "")
    empty = method == "HEAD" or response.status_code in (204, 304) or length == "0"
    _write(call, b"", whole=empty)
    await send({
        "type": "http.response.start", "status": response.status_code,
        "headers": [pair for pair in passed_on(raw, request=False) if not (chunked and pair[0].lower() == _LENGTH)],
    })  # fmt: skip
    left = int(length) if length.isdigit() and not empty else None
    try:
        async for chunk in response.aiter_raw():
            if left is not None:
                left -= len(chunk)
            _write(call, chunk, whole=left is not None and left <= 0)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        return f"the upstream broke off: {reason(error)}"  # uvicorn closes the connection: the client sees it, too
    if call.request.over:
        side.end(call.clock(), COMPLETE)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return COMPLETE


def _write(call: RecordedCall, chunk: bytes, *, whole: bool) -> None:
    """Write a chunk of an answer; the last one ends it, where its request had ended, too."""
    ended = COMPLETE if whole and call.request.over else None
    if chunk or not call.response.over:
        call.response.write(chunk, call.clock() - call.began, ended)


async def _left(body: _Body, receive: Receive) -> None:
    """Return when the client has closed its connection; its request must have been read."""
    await body.done.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


def _refusal(method: str, path: bytes, headers: Headers, hosts: frozenset[str]) -> tuple[int, str] | None:
    """Return the status and the words by which a call is refused; None for one that may pass."""
    if method == "PRI":
        return 505, "HTTP/2 and gRPC are not spoken here: let the client use HTTP/1.1"
    host = headers.getlist("host")
    if len(host) != 1 or host[0].lower() not in hosts or method == "CONNECT" or not path.startswith(b"/"):
        return 403, _ELSEWHERE
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return 403, "a page in a browser asked"
    if any(origin.lower() != f"http://{host[0].lower()}" for origin in headers.getlist("origin")):
        return 403, "a page in a browser asked"
    if "content-length" in headers and "transfer-encoding" in headers:
        return 400, "the request names two lengths (Content-Length and Transfer-Encoding)"
    if "websocket" in headers.get("upgrade", "").lower():
        return 426, "WebSockets are not recorded; use HTTP (Codex does by itself, after this answer)"
    return None


async def _answer(send: Send, status: int, text: str, *, again: bool = True, last: bool = False) -> None:
    """Answer in the form in which APIs answer errors; AWS's clients read `message`."""
    error = {"type": "lore_record", "code": "lore_record", "message": text}
    body = json.dumps({"type": "error", "message": text, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [] if again else [(b"x-should-retry", b"false")]
    headers += [(b"connection", b"close")] if last else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
