"""The client for web servers: aiohttp, with a guard on redirects.

A redirect is followed to http and https only. It never leads to an address of this machine or of its network, unless
the server that the user named is there, too: a server elsewhere must not choose what is read here. An address of a
cloud's metadata (link-local) is refused in any case.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

from lore.errors import LoreError
from lore.model import printable
from lore.recording import show
from lore.store import say_once

_LINK = 2
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)


async def client(loop: Any = None, **_: object) -> aiohttp.ClientSession:
    """Return a session for fsspec's file system."""
    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(_note_named)
    tracing.on_request_redirect.append(_check_redirect)
    return aiohttp.ClientSession(
        loop=loop, timeout=_TIMEOUT, trust_env=True, trace_configs=[tracing], headers={"User-Agent": "lore"},
        cookie_jar=aiohttp.DummyCookieJar(),
    )  # fmt: skip


async def _note_named(_session: object, context: SimpleNamespace, params: aiohttp.TraceRequestStartParams) -> None:
    context.named = params.url


async def _check_redirect(
    _session: object, context: SimpleNamespace, params: aiohttp.TraceRequestRedirectParams
) -> None:
    """Raise LoreError for a redirect that is not followed; report the host of one that is."""
    named: URL = context.named
    to = params.url.join(URL(params.response.headers.get("Location", "")))
    shown = show(str(named))
    if to.scheme not in ("http", "https") or to.user or to.password or not to.host:
        message = f"cannot read {shown}: its server sends to {printable(to.scheme)}:, or with a password"
        raise LoreError(message, hint="download it and name the file")
    depth = max([_depth(address) for address in await _addresses(to)], default=0)
    if depth == _LINK or (depth and not max([_depth(address) for address in await _addresses(named)], default=0)):
        message = f"cannot read {shown}: its server sends to {printable(to.host)}, which is an address of this network"
        raise LoreError(message, hint="name that address yourself if you trust it")
    if to.host != named.host:
        say_once(f"{shown} is read from {printable(to.host)}, where its server sent lore")


async def _addresses(url: URL) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def _depth(address: str) -> int:
    """Return 0 for a public address, 1 for one of this network or machine, 2 for one of a link."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return _LINK if found.is_link_local else 1 if not found.is_global or found.is_multicast else 0
