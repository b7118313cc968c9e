"""Which server a client would use, which environment variable points it at the recorder, whose a request is.

In: the environment of the user and `--upstream`. Out: routes, one a server: a client finds server `https://host` at
`http://127.0.0.1:PORT/NAME`, with the same path behind; and the variables that say so to it. Pure but for the table
(`data/clients.toml`), which is part of the package. Rules: a variable that the user has set says which server its
client would use; only a route's own server is ever named for a request.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from lore.errors import LoreError, did_you_mean

_REGION = re.compile(r"[a-z0-9-]{1,32}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_VISIBLE = re.compile(r"[!-~]+")
DEFAULT_REGION = "us-east-1"


class Variable(Struct, frozen=True):
    """An environment variable that clients read; `always`: set for every command, else where the user has set it.

    `general` is one that clients read where this one is not set.
    """

    name: str
    always: bool = False
    general: str = ""

    def value(self, environment: Mapping[str, str]) -> str:
        """Return what the user has set; empty for nothing."""
        return (environment.get(self.name) or environment.get(self.general) or "").strip()


class Client(Struct, frozen=True):
    """A row of the table: a server, and the variables that point its clients elsewhere; `signs`: clients sign requests
    for the host that they speak to (AWS).
    """

    name: str
    source: str
    variables: tuple[Variable, ...]
    url: str = ""
    path: str = ""
    signs: bool = False


class Route(NamedTuple):
    """A server behind a first part of the path; `origin` is `scheme://host[:port]`, `regional` the same with
    `{region}` where it is a provider's own and there is one in each region.
    """

    name: str
    origin: str
    regional: str = ""

    def origin_in(self, region: str) -> str:
        """Return the server of a region, which must be a name of one."""
        return self.regional.replace("{region}", region) if _REGION.fullmatch(region) and self.regional else self.origin


class Routes(NamedTuple):
    """Routes, and variables with what stands behind the address of the recorder (`/anthropic`, `/openai/v1`).

    `signed` names those variables whose clients sign what they send; `only` is the route of requests whose path names
    none, None where such requests have no server.
    """

    routes: tuple[Route, ...]
    variables: tuple[tuple[str, str], ...]
    only: Route | None = None
    signed: frozenset[str] = frozenset()

    def of(self, path: bytes) -> tuple[Route, bytes] | None:
        """Return whose a request is and the path that its server knows; None for nobody's."""
        first, _, rest = path.removeprefix(b"/").partition(b"/")
        for route in self.routes:
            if first == route.name.encode():
                return route, b"/" + rest
        return (self.only, path) if self.only is not None and path.startswith(b"/") else None


@cache
def clients() -> tuple[Client, ...]:
    """Return the table, read once a process."""
    text = resources.files("lore_plugins.record").joinpath("data", "clients.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["upstream"], tuple[Client, ...])


def routes_of(environment: Mapping[str, str], upstreams: Sequence[str] = (), only: Sequence[str] = ()) -> Routes:
    """Return the routes of a command; `upstreams` are URLs or NAME=URL, `only` names of the clients that are pointed.

    Raises LoreError for a name that is not there, and for a value that is no URL of a server.
    """
    given, everything = _given(upstreams)
    known = {client.name for client in clients()}
    for name in only:
        if name not in known | given.keys():
            raise LoreError(f"no client is called {name!r}", hint=did_you_mean(name, sorted(known), "clients"))
    routes: dict[str, Route] = {}
    variables: list[tuple[str, str]] = []
    for client in clients():
        if only and client.name not in only:
            continue
        for variable in client.variables:
            url = _url(client, variable, environment, given.get(client.name), everything)
            if url is not None:
                own = client.name not in given and everything is None and not variable.value(environment)
                route = _route(client.name, url, routes, client.url if own and "{region}" in client.url else "")
                variables.append((variable.name, f"/{route.name}{url.path.rstrip('/')}"))
    for name, url in given.items():
        if name not in known:
            _route(name, url, routes)
    alone = None if everything is None else _route("any", everything, routes)
    signed = frozenset(variable.name for client in clients() if client.signs for variable in client.variables)
    return Routes(tuple(routes.values()), tuple(variables), alone, signed)


def _given(upstreams: Sequence[str]) -> tuple[dict[str, SplitResult], SplitResult | None]:
    """Read `--upstream`: servers by the names of clients, and the one of all clients."""
    given, everything = dict[str, SplitResult](), None
    for text in upstreams:
        name, named, url = text.partition("=")
        if named and "://" not in name and "/" not in name:
            if not _NAME.fullmatch(name):
                raise LoreError(f"{name!r} is no name of an upstream", hint="--upstream NAME=URL, in lower case")
            given[name] = server(url, "--upstream")
        elif everything is not None:
            raise LoreError("--upstream names two servers for all clients", hint="--upstream NAME=URL for each")
        else:
            everything = server(text, "--upstream")
    return given, everything


def _url(
    client: Client, variable: Variable, environment: Mapping[str, str], given: SplitResult | None,
    everything: SplitResult | None,
) -> SplitResult | None:  # fmt: skip
    """Return the value that a variable would have without the recorder; None where it is left alone."""
    value = variable.value(environment)
    if given is not None:
        return given if given.path.strip("/") else given._replace(path=client.path)
    if everything is not None:
        if not (variable.always or value):
            return None
        base = everything.path.rstrip("/").removesuffix("/v1")
        return everything._replace(path=base + client.path)
    if value:
        return server(value, variable.name)
    if not variable.always:
        return None
    return urlsplit(client.url.replace("{region}", _region(environment)) + client.path)


def _region(environment: Mapping[str, str]) -> str:
    """Return the region of AWS that clients use without a word. Raises LoreError."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
    if not _REGION.fullmatch(region):
        raise LoreError("AWS_REGION is no name of a region", hint=f"for instance {DEFAULT_REGION}")
    return region


def server(text: str, where: str) -> SplitResult:
    """Read the URL of a server. Raises LoreError; what stands there is not repeated: it may hold a password."""
    hint = "https://HOST[:PORT][/PATH], without user, password, query or fragment"
    try:
        url = urlsplit(text.strip())
        port, host = url.port, url.hostname
    except ValueError:
        raise LoreError(f"{where} is no URL of a server", hint=hint) from None
    visible = _VISIBLE.fullmatch(text.strip()) is not None
    if url.scheme not in ("http", "https") or not host or not visible or url.query or url.fragment or port == 0:
        raise LoreError(f"{where} is no URL of a server", hint=hint)
    if "@" in url.netloc:
        raise LoreError(f"{where} holds a user or a password", hint="let the client send its credentials itself")
    return url


def _route(name: str, url: SplitResult, routes: dict[str, Route], regional: str = "") -> Route:
    """Return the route to a server, a new one (`openai-2`) where the name stands for another already."""
    origin, number, free = f"{url.scheme}://{url.netloc.lower()}", 1, name
    while free in routes and routes[free].origin != origin:
        number += 1
        free = f"{name}-{number}"
    return routes.setdefault(free, Route(free, origin, regional))
