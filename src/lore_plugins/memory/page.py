"""The pages of `lore memory page`, and the same as JSON: the functions of `actions.py` for a browser on this computer.

A request is answered only if its Host names this server (against DNS rebinding) and its path begins with the token,
which is new for each process and compared in constant time; a form only if its origin is this server (against CSRF).
A GET changes nothing. A form wipes exactly what its page asked about: it carries a digest of the memory it showed.
No answer is cached, framed, sniffed, or readable by another origin. Pages load nothing and run nothing, and set no
cookie. Every text passes `visible` (no control characters, direction marks or credentials) and is escaped.

Source: Fetch Standard (WHATWG), "Origin" of requests under `Referrer-Policy: same-origin`; Fetch Metadata Request
Headers and Content Security Policy Level 3 (W3C); RFC 9110, 7.4 (421); read on 2026-11-23.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import socket
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import resources
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import msgspec
import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from lore.errors import LoreError
from lore.report import count_of, quote, visible
from lore.run import ADDRESS
from lore.store import Store
from lore.store import now as now_utc
from lore_plugins.memory import actions, report
from lore_plugins.memory.identities import valid_user
from lore_plugins.memory.results import MemoryShown, MemoryWiped
from lore_plugins.memory.switch import read_switch, set_switch

LONGEST_FORM = 64 * 1024  # bytes
MOST_ENTRIES = 500  # entries of the audit log on its page
_API = "/api/users/{user:path}/memory"
_FORM = "application/x-www-form-urlencoded"
SHUTDOWN_SECONDS = 1  # for running answers when the server is stopped
_RESTART = "Changed. Programs that run read it when they start again. If you approved the file, `lore trust` it again."
_STALE_NOTE = "memory changed since the page was shown, or the form does not belong to this page. Look again."


class MemoryPage:
    """The pages of a store. `connect` opens it for one answer, `store` is the URL to show, `tell` reports faults.

    `settings` is the file with the switch.
    """

    def __init__(
        self, connect: Callable[[], AbstractContextManager[Store]], store: str, port: int, tell: Callable[[str], None],
        *, settings: Path,
    ) -> None:  # fmt: skip
        self._connect, self._store, self._tell, self._settings = connect, store, tell, settings
        names = (ADDRESS, "localhost")
        self._hosts = (*(f"{name}:{port}" for name in names), *(names if port == 80 else ()))
        self.token = secrets.token_urlsafe(32)
        self.url = f"http://{self._hosts[0]}/{self.token}/"

    def application(self) -> Starlette:
        """Return the application that serves the pages below the token."""
        routes = [
            Route("/", self.users),
            Route("/user", self.user),
            Route("/audit", self.audit),
            Route("/export", self.export),
            Route("/wipe", self.ask_wipe),
            Route("/wipe", self.wipe, methods=["POST"]),
            Route("/switch", self.show_switch),
            Route("/switch", self.turn_switch, methods=["POST"]),
            Route("/api/users", self._json(lambda store, _: actions.list_users(store))),
            Route(_API, self._json(lambda store, request: self._read(store, *_owner(request)))),
            Route(_API, self._json(self._wipe_now), methods=["DELETE"]),
            Route(f"{_API}/audit", self._json(lambda store, request: actions.read_audit(store, *_owner(request)))),
        ]
        return Starlette(
            routes=[Mount(f"/{self.token}", routes=routes)],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=self._guard)],
            exception_handlers={LoreError: self._show_error, Exception: self._report_bug},
        )

    def users(self, _: Request) -> Response:
        """Show the users."""
        with self._connect() as store:
            return self._page("users.html", users=actions.list_users(store).users)

    def user(self, request: Request) -> Response:
        """Show a user's topics and texts."""
        notes = list[str]()
        user, agent = _owner(request)
        with self._connect() as store:
            memory = actions.read_memory(store, user, agent, now=now_utc(), tell=notes.append)
        agents = [part for part in memory.agents if any(part.counts.values())]
        return self._page("user.html", user=user, agent=agent, notes=notes, agents=agents)

    def audit(self, request: Request) -> Response:
        """Show a user's audit log, the latest entry first."""
        user, agent = _owner(request)
        with self._connect() as store:
            log = actions.read_audit(store, user, agent)
        entries, hidden_count = log.entries[::-1][:MOST_ENTRIES], max(0, len(log.entries) - MOST_ENTRIES)
        return self._page(
            "audit.html", user=user, agent=agent, entries=entries, hidden_count=hidden_count, unreadable=log.unreadable
        )  # fmt: skip

    def export(self, request: Request) -> Response:
        """Return a user's memory as a JSON file, as `lore memory export` writes it."""
        answer = self._json(lambda store, request: self._read(store, *_owner(request)))(request)
        answer.headers["content-disposition"] = 'attachment; filename="memory.json"'
        return answer

    def ask_wipe(self, request: Request) -> Response:
        """Show the question that confirms a wipe."""
        with self._connect() as store:
            return self._question(store, *_owner(request))

    def _question(self, store: Store, user: str, agent: str | None, stale: str = "") -> Response:
        preview, digest = actions.preview_wipe(store, user, agent), _digest(self._read(store, user, agent))
        return self._page(
            "wipe.html", 409 if stale else 200, user=user, agent=agent, extent=report.describe_wipe(preview),
            digest=digest if preview.entries else "", stale=stale,
        )  # fmt: skip

    async def wipe(self, request: Request) -> Response:
        """Wipe what the page asked about."""
        form = await self._form(request)
        return await run_in_threadpool(self._wipe, form.get("user", ""), form.get("agent"), form.get("digest", ""))

    async def _form(self, request: Request) -> dict[str, str]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != _FORM or int(request.headers.get("content-length", LONGEST_FORM + 1)) > LONGEST_FORM:
            raise LoreError("the form does not belong to the page", hint="follow a link of the page")
        body = (await request.body()).decode(errors="replace")
        return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}

    def _wipe(self, user: str, agent: str | None, digest: str) -> Response:
        notes = list[str]()
        user = valid_user(user)
        with self._connect() as store:
            current_digest = _digest(self._read(store, user, agent))
            if not hmac.compare_digest(digest.encode("utf-8", "surrogatepass"), current_digest.encode()):
                return self._question(store, user, agent, _STALE_NOTE)
            result = actions.wipe_memory(store, user, agent, now=now_utc(), tell=notes.append)
        return self._page("done.html", title="Wiped", texts=[report.describe_wipe(result), *notes], user=user)

    def show_switch(self, _: Request, notes: Sequence[str] = ()) -> Response:
        """Show whether memory is on, and the button that changes it."""
        memory = read_switch(self._settings)
        return self._page("switch.html", memory=memory, file=str(self._settings), notes=notes)

    async def turn_switch(self, request: Request) -> Response:
        """Switch memory on or off in the settings file."""
        set_switch(self._settings, on=(await self._form(request)).get("on") == "1")
        return self.show_switch(request, [_RESTART])

    def _json(self, operation: Callable[[Store, Request], msgspec.Struct]) -> Callable[[Request], Response]:
        """Return a handler that answers with the JSON result of an operation, as `lore memory … --json` prints it."""

        def answer(request: Request) -> Response:
            with self._connect() as store:
                result = operation(store, request)
            return Response(msgspec.json.encode(result) + b"\n", media_type="application/json")

        return answer

    def _wipe_now(self, store: Store, request: Request) -> MemoryWiped:
        return actions.wipe_memory(store, *_owner(request), now=now_utc(), tell=self._tell)

    def _read(self, store: Store, user: str, agent: str | None) -> MemoryShown:
        return actions.read_memory(store, user, agent, now=now_utc())

    def _page(self, name: str, status: int = 200, *, notes: Sequence[str] = (), **values: object) -> Response:
        shared = {"style": Markup(_style()), "store": self._store, "notes": notes}  # noqa: S704 - lore's own file
        return HTMLResponse(_environment().get_template(name).render(_FUNCTIONS | shared | values), status)

    # checks of requests, and errors

    async def _guard(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = self._refusal(request) or await call_next(request)
        response.headers.update(_headers())
        return response

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is refused; None if it is allowed."""
        hosts, fetch_site = request.headers.getlist("host"), request.headers.get("sec-fetch-site")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("the request names another server\n", 421)
        token = str(request.scope["path"]).partition("/")[2].partition("/")[0]
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.token.encode()):
            return PlainTextResponse("not found: open the address that lore printed\n", 404)
        if request.method in ("GET", "HEAD"):
            follows_link = request.headers.get("sec-fetch-mode") == "navigate"
            is_own = follows_link or fetch_site not in ("cross-site", "same-site")
        else:  # a program may send DELETE without an origin; another page cannot
            own_origin = f"http://{hosts[0]}"
            origin = request.headers.get("origin", None if request.method == "POST" else own_origin)
            is_own = origin == own_origin and fetch_site in (None, "same-origin")
        return None if is_own else PlainTextResponse("refused: another page sent the request\n", 403)

    async def _show_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, LoreError)
        if "/api/" in request.scope["path"]:
            return Response(msgspec.json.encode({"error": error.message}), 400, media_type="application/json")
        return self._page(
            "done.html", 400, title="This could not be done", texts=[error.message, error.hint], user=None
        )

    async def _report_bug(self, _: Request, error: Exception) -> Response:
        """Answer without quoting anything; LORE_DEBUG=1 prints the place on standard error."""
        text = f"a bug in lore: {type(error).__name__}"
        self._tell(f"error: {text} (LORE_DEBUG=1 shows where)")
        if os.environ.get("LORE_DEBUG") == "1":
            traceback.print_tb(error.__traceback__)
        return PlainTextResponse(f"{text}\n", 500, _headers())


def serve(application: Starlette, listener: socket.socket) -> None:
    """Serve until interrupted; raise KeyboardInterrupt once running answers had a second to finish."""
    config = uvicorn.Config(
        application, log_config=None, log_level="critical", access_log=False, server_header=False, lifespan="off",
        ws="none", http="h11", loop="asyncio", proxy_headers=False, limit_concurrency=64, timeout_keep_alive=5,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listener])


def _owner(request: Request) -> tuple[str, str | None]:
    """Return the user and the agent (None: all) that a request names; raises LoreError for an invalid user."""
    user = request.path_params.get("user", request.query_params.get("user"))
    return valid_user(user), request.query_params.get("agent")


def _digest(memory: MemoryShown) -> str:
    """Return a digest of memory, to detect that it changed since a question was shown."""
    agents = [replace(agent, last_failure=None) for agent in memory.agents]
    return hashlib.sha256(msgspec.json.encode((memory.user, agents))).hexdigest()


@cache
def _headers() -> dict[str, str]:
    """Return the headers of every answer; the content policy allows nothing but the pages' own style."""
    style = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return {
        "content-security-policy": f"default-src 'none'; style-src 'sha256-{style}'; img-src data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",  # with no-referrer a browser's POST would name no origin
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "x-robots-tag": "noindex",
    }


@cache
def _style() -> str:
    return resources.files("lore_plugins.memory").joinpath("templates", "style.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("lore_plugins.memory"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_make_visible,
    )  # fmt: skip


def _make_visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _link(page: str, **query: str | None) -> Markup:
    """Return the address of a page; values stay exact, so that it leads to the same memory."""
    fields = {name: value for name, value in query.items() if value is not None}
    return escape(f"{page}?{urlencode(fields, errors='surrogatepass')}")


def _lines(text: str) -> Markup:
    """Return a text with its line breaks."""
    return escape("\n".join(map(visible, text.split("\n"))))


_FUNCTIONS: dict[str, object] = {
    "link": _link, "raw": escape, "lines": _lines, "count_of": count_of, "quote": quote,
    "agent_label": report.agent_label, "format_counts": report.format_counts, "kind_label": report.kind_label,
    "describe_change": report.describe_change, "describe_owner": report.describe_owner,
}  # fmt: skip
