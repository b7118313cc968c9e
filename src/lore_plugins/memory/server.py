"""Serve pages to a browser on this computer: an ASGI application (Starlette) and its server (uvicorn) on loopback.

A request is answered only if its Host names this server (against DNS rebinding) and its path begins with the token,
which is new for each process and compared in constant time; a POST only if its origin is this server (against CSRF).
No answer is cached, framed, sniffed, or readable by another origin. No cookie is set: the token in the path is enough.

Source: Fetch Standard (WHATWG), "Origin" of requests under `Referrer-Policy: same-origin`; Fetch Metadata Request
Headers (W3C); RFC 9110, 7.4 (421); read on 2026-11-23.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qs

from lore.errors import LoreError, install_hint
from lore.run import ADDRESS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

LONGEST_FORM = 64 * 1024  # bytes
MOST_FIELDS = 2_000  # of a form or query
SHUTDOWN_SECONDS = 1  # for running answers when the server is stopped

Fields: TypeAlias = Mapping[str, Sequence[str]]
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class PageAnswer(NamedTuple):
    """The answer of a page."""

    body: bytes
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    file: str = ""  # the name under which the browser saves it; "": it is shown


class Pages(Protocol):
    """The pages to serve."""

    def answer(self, name: str, query: Fields, form: Fields | None) -> PageAnswer:
        """Answer a GET (`form` is None) or a POST; called in several threads at a time."""
        ...

    def error_answer(self, error: LoreError, status: int = 400) -> PageAnswer:
        """Return the page of an error."""
        ...


class LoopbackSite(NamedTuple):
    """The address of the pages."""

    token: str
    hosts: tuple[str, ...]  # values of Host that name this server
    policy: str  # the Content-Security-Policy of its pages

    @property
    def url(self) -> str:
        """The address to open."""
        return f"http://{self.hosts[0]}/{self.token}/"


def site_of(port: int, policy: str) -> LoopbackSite:
    """Return a site on a port of the loopback interface, with a new token of 256 bits."""
    names = (ADDRESS, "localhost")
    hosts = tuple(f"{name}:{port}" for name in names) + (names if port == 80 else ())
    return LoopbackSite(secrets.token_urlsafe(32), hosts, policy)


def guarded(application: Application, site: LoopbackSite) -> Application:
    """Return an application that refuses other requests, and passes the path after the token to `application`."""
    headers = _headers(site.policy)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no answer refuses a web socket

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [pair for pair in message.get("headers", ()) if pair[0].lower() not in headers]
                message = {**message, "headers": [*others, *headers.items()]}
            await send(message)

        refusal = _refusal(scope, site)
        if refusal is not None:
            await _refuse(send_safely, *refusal)
            return
        rest = str(scope["path"])[len(site.token) + 1 :]
        await application({**scope, "path": rest or "/", "raw_path": None, "root_path": ""}, receive, send_safely)

    return answer


def _headers(policy: str) -> dict[bytes, bytes]:
    return {
        b"content-security-policy": policy.encode(),
        b"cache-control": b"no-store",
        b"x-content-type-options": b"nosniff",
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"same-origin",  # with no-referrer a browser's POST would name no origin
        b"cross-origin-opener-policy": b"same-origin",
        b"cross-origin-resource-policy": b"same-origin",
        b"x-robots-tag": b"noindex",
    }


def _refusal(scope: Scope, site: LoopbackSite) -> tuple[int, str] | None:
    """Return the status and text with which a request is refused; None if it is allowed."""
    host = _header(scope, b"host")
    if host not in site.hosts:
        return 421, "the request names another server"
    first = str(scope["path"]).partition("/")[2].partition("/")[0]
    if not hmac.compare_digest(first.encode("utf-8", "surrogatepass"), site.token.encode()):
        return 404, "not found: open the address that lore printed"
    method, fetched_by = scope["method"], _header(scope, b"sec-fetch-site")
    if method not in ("GET", "HEAD", "POST"):
        return 405, "method not allowed"
    if method == "POST":
        if _header(scope, b"origin") != f"http://{host}" or fetched_by not in (None, "same-origin"):
            return 403, "refused: the form belongs to another page"
    elif fetched_by in ("cross-site", "same-site") and _header(scope, b"sec-fetch-mode") != "navigate":
        return 403, "refused: another page sent the request"
    return None


def _header(scope: Scope, name: bytes) -> str | None:
    """Return a header's value; None if it is missing, "" if it occurs more than once."""
    found: list[bytes] = [value for key, value in scope["headers"] if key.lower() == name]
    return None if not found else found[0].decode("latin-1") if len(found) == 1 else ""


async def _refuse(send: Send, status: int, text: str) -> None:
    body = text.encode() + b"\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")]  # the rest of the request is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def application(
    pages: Pages, get_names: Iterable[str], post_names: Iterable[str], site: LoopbackSite, tell: Callable[[str], None]
) -> Application:  # fmt: skip
    """Return the application that serves pages, `post_names` to POST too.

    An unexpected error is a 500 that quotes nothing, and a line for `tell`; LORE_DEBUG=1 prints the place.
    """
    try:
        from starlette.applications import Starlette  # noqa: PLC0415 - an optional extra
        from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
        from starlette.responses import Response  # noqa: PLC0415
        from starlette.routing import Route  # noqa: PLC0415
    except ModuleNotFoundError:
        raise LoreError("pages for a browser need Starlette and uvicorn", hint=install_hint("memory-page")) from None

    def response(reply: PageAnswer) -> Response:
        saved = {"content-disposition": f'attachment; filename="{reply.file}"'} if reply.file else None
        return Response(reply.body, reply.status, saved, media_type=reply.kind)

    async def endpoint(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        try:
            query = _fields(str(request.url.query).encode())
            form = _fields(await _body(request)) if request.method == "POST" else None
        except LoreError as error:
            return response(pages.error_answer(error))
        return response(await run_in_threadpool(pages.answer, name, query, form))

    async def failed(_: Request, error: Exception) -> Response:
        text = f"a bug in lore: {type(error).__name__}"
        tell(f"error: {text} (LORE_DEBUG=1 shows where)")
        if os.environ.get("LORE_DEBUG") == "1":
            traceback.print_tb(error.__traceback__)
        return Response(f"{text}\n", 500, media_type="text/plain")

    routes = [Route(f"/{name}", endpoint, methods=["GET"]) for name in get_names if name not in post_names]
    routes += [Route(f"/{name}", endpoint, methods=["GET", "POST"]) for name in post_names]
    return guarded(Starlette(routes=routes, exception_handlers={Exception: failed}), site)


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise LoreError("the form does not belong to the page", hint="follow a link of the page")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_FORM:
            raise LoreError("the form is too long", hint="choose fewer")
    return bytes(body)


def _fields(encoded: bytes) -> Fields:
    try:
        return parse_qs(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise LoreError("the address or form is invalid", hint="follow a link of the page") from None


def serve(application: Application, listener: socket.socket) -> None:
    """Serve until interrupted; raise KeyboardInterrupt once running answers had a second to finish."""
    try:
        import uvicorn  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise LoreError("pages for a browser need Starlette and uvicorn", hint=install_hint("memory-page")) from None
    config = uvicorn.Config(
        application, log_config=None, log_level="critical", access_log=False, server_header=False, lifespan="off",
        ws="none", http="h11", loop="asyncio", proxy_headers=False, limit_concurrency=64, timeout_keep_alive=5,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])
