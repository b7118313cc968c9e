"""What a server gets of a request, and what a client gets of an answer: all but what is of one connection alone.

In: a request as it came, its server. Out: the request as it is sent (httpx), headers that are passed back. Rules: the
path and every header stay as they are; proxies and certificates are those that the user's environment
names; no cookie is kept and no redirect followed. A server on this machine is spoken to directly.

Sources: RFC 9110, 7.6.1 (headers of a connection) and 10.1.1 (Expect); httpx 0.28, environment variables; Node.js,
NODE_EXTRA_CA_CERTS; requests, REQUESTS_CA_BUNDLE; AWS SDKs, AWS_CA_BUNDLE; read on 2026-11-23.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

from lore.errors import LoreError
from lore.model.mask import cut_masked
from lore.record.kept import Pairs

_OF_CONNECTION = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
))  # fmt: skip
_ANSWERED_HERE = frozenset((b"host", b"expect"))
_IN_NO_URL = re.compile(rb"[^!$-;=?-_a-z|~]")  # RFC 3986, 2; `#` begins what is not sent
CONNECT, KEEP_ALIVE = 60.0, 30.0  # seconds: until a server takes a connection, and that an idle one is kept
_TRUSTED_TOO = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
_HERE = ("127.0.0.1", "localhost", "[::1]")


def client() -> httpx.AsyncClient:
    """Make the client of servers. Raises LoreError for a proxy or a certificate of the environment that is none."""
    none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    direct: dict[str, httpx.AsyncBaseTransport | None] = {f"all://{host}": None for host in _HERE}
    trusted = _trusted()
    try:
        return httpx.AsyncClient(
            cookies=none, follow_redirects=False, mounts=direct, verify=trusted,
            timeout=httpx.Timeout(None, connect=CONNECT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEEP_ALIVE),
        )  # fmt: skip
    except ImportError:
        message, hint = "names a SOCKS proxy, for which socksio is not installed", "pip install socksio, or unset it"
    except (ValueError, httpx.InvalidURL):
        message, hint = "is no URL of a proxy", "http://HOST:PORT, or unset it"
    raise LoreError(f"ALL_PROXY, HTTPS_PROXY or HTTP_PROXY {message}", hint=hint)


def _trusted() -> ssl.SSLContext:
    """Return whose certificates are believed: SSL_CERT_FILE or SSL_CERT_DIR, else certifi's; and what clients add."""
    variable = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), "")
    try:
        context = httpx.create_ssl_context()
        for variable in filter(os.environ.get, _TRUSTED_TOO):
            path = os.environ[variable]
            folder = os.path.isdir(path)
            context.load_verify_locations(cafile=None if folder else path, capath=path if folder else None)
    except OSError as error:  # an SSLError is one
        cause = "it holds none" if isinstance(error, ssl.SSLError) else str(error.strerror or error).lower()
        raise LoreError(
            f"{variable} names no certificates that can be read: {cause}", hint=f"correct or unset {variable}"
        ) from None
    return context


def request_of(
    method: str, origin: str, target: bytes, pairs: Pairs, body: httpx.AsyncByteStream, *, chunked: bool
) -> httpx.Request:
    """Make the request that a server gets: its own name as the host, the target and the headers as they are given.

    Characters that no URL has are escaped, and `/./` and `/../` resolved, as by any client.
    """
    url = httpx.URL(origin)
    headers = [(b"host", url.netloc), *pairs]
    if chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    escaped = _IN_NO_URL.sub(lambda found: b"%%%02X" % found[0][0], target)
    return httpx.Request(method, url.copy_with(raw_path=escaped), headers=headers, stream=body)


def passed_on(pairs: Iterable[tuple[bytes, bytes]], *, request: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers without those that are between two ends of one connection alone."""
    pairs = list(pairs)
    named = b",".join(value for name, value in pairs if name.lower() == b"connection").split(b",")
    dropped = _OF_CONNECTION.union(name.strip().lower() for name in named).union(_ANSWERED_HERE if request else ())
    return [(name, value) for name, value in pairs if name.lower() not in dropped]


def reason(error: Exception) -> str:
    """Say what went wrong with a server, in words of the library; where these quote what was sent, its name alone."""
    text = cut_masked(" ".join(str(error).split()), 200)
    quotes = isinstance(error, httpx.LocalProtocolError | httpx.InvalidURL) or "b'" in text or 'b"' in text
    return type(error).__name__ if quotes or not text else f"{text} ({type(error).__name__})"
