"""The client for web servers: aiohttp, with a guard on redirects. It sends no login, not even one of `~/.netrc`.

Redirects are followed to http and https only, and never to an address of this machine or its network, unless the server
that the user named is there, too: a server elsewhere must not choose what is read here. Link-local addresses, where
clouds have their metadata, are always refused. The host of the redirect is checked, and again the address of the
connection, as a name may change its address in between.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from types import SimpleNamespace
from typing import Any
from urllib.request import getproxies

import aiohttp
from aiohttp.abc import ResolveResult
from yarl import URL

from lore.model import printable
from lore.recording import show
from lore.store import print_note_once
from lore_plugins.scale.remote import RedirectError

_LINK = 2
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)


async def client(loop: Any = None, **_: object) -> aiohttp.ClientSession:
    """Return a session for fsspec's file system."""
    resolver, tracing = _GuardedResolver(), aiohttp.TraceConfig()
    tracing.on_request_start.append(resolver.note_named)
    tracing.on_request_redirect.append(resolver.check_redirect)
    return aiohttp.ClientSession(
        loop=loop, timeout=_TIMEOUT, trust_env=True, trace_configs=[tracing], headers={"User-Agent": "lore"},
        cookie_jar=aiohttp.DummyCookieJar(), request_class=_Request,
        connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False),
    )  # fmt: skip


class _Request(aiohttp.ClientRequest):
    def __init__(self, *args: Any, auth: object = None, **named: Any) -> None:  # noqa: ARG002 - never sent
        super().__init__(*args, auth=None, **named)


class _GuardedResolver(aiohttp.ThreadedResolver):
    """Resolves hosts that the user named, proxies of the environment, and hosts of allowed redirects."""

    def __init__(self) -> None:
        super().__init__()
        self._trusted = {URL(proxy).host for proxy in getproxies().values()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:  # fmt: skip
        """Return the addresses of a host; raises RedirectError if a redirect leads to an address of this network."""
        found = await super().resolve(host, port, family)
        if host not in self._trusted and any(_depth(each["host"]) for each in found):
            raise _inner(host)
        return found

    async def note_named(
        self, _session: object, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        """Remember the URL that the user named."""
        context.named = params.url
        self._trusted.add(params.url.host)

    async def check_redirect(
        self, _session: object, context: SimpleNamespace, params: aiohttp.TraceRequestRedirectParams
    ) -> None:
        """Raise RedirectError for a redirect that is refused; otherwise report its host."""
        named: URL = context.named
        to = params.url.join(URL(params.response.headers.get("Location", "")))
        if to.scheme not in ("http", "https") or to.user or to.password or not to.host:
            reason = f"its server redirects to {printable(to.scheme)}:, or to a URL with a password"
            raise RedirectError(reason, "download it and name the file")
        depth = await _depth_of(to)
        if depth == _LINK or (depth and not await _depth_of(named)):
            raise _inner(to.host)
        if depth:
            self._trusted.add(to.host)
        if to.host != named.host:
            print_note_once(f"{show(str(named))} is read from {printable(to.host)}, where its server redirects")


def _inner(host: str) -> RedirectError:
    reason = f"its server redirects to {printable(host)}, which is an address of this network"
    return RedirectError(reason, "name that address yourself if you trust it")


async def _depth_of(url: URL) -> int:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return 0
    return max((_depth(str(entry[4][0])) for entry in found), default=0)


def _depth(address: str) -> int:
    """Return 0 for a public address, 1 for one of this network or machine, 2 for a link-local one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return _LINK if found.is_link_local else 1 if not found.is_global or found.is_multicast else 0
