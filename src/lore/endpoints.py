"""An HTTP endpoint that a user names: its URL, whether it is on this machine, its key, one request and its answer.

Time and size of an answer are limited. Redirects are not followed; the caller rejects them. URLs are displayed without
user, password and query. A key comes from the named environment variable and is never displayed. Text from a server is
untrusted: the caller makes it harmless before displaying it. Uses httpx (the extra `http`).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

from lore.errors import LoreError, install_hint
from lore.model.canonical import decode
from lore.untrusted import harmless, one_line

__all__ = [
    "Endpoint", "HttpAnswer", "HttpRequest", "LostConnectionError", "NoAnswerError", "TryAgainError",
    "ask_with_retries", "display_url", "error_message", "is_loopback_url", "key_in", "httpx_for", "url_of",
]  # fmt: skip


class Deadline(threading.Timer):
    """Closes the connection if a whole try takes too long: httpx' time-outs restart with each piece of an answer.

    With `loopback_only` it closes a connection to another machine before a byte is sent, as a name may resolve to any
    address.
    """

    def __init__(self, seconds: float, *, loopback_only: bool = False) -> None:
        super().__init__(seconds, self.close)
        self.daemon = True
        self._loopback_only = loopback_only
        self.is_over = False
        self._socket: socket.socket | None = None

    def on_trace_event(self, name: str, info: Mapping[str, Any]) -> None:
        """Note the socket of a new connection; raises OSError for one to another machine."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            connection: socket.socket = info["return_value"].get_extra_info("socket")
            self._socket = connection
            if self.is_over:
                self.close()
            elif self._loopback_only and not _is_loopback(address := connection.getpeername()[0]):
                connection.close()
                raise OSError(f"it leads to {address}, which is not this machine")

    def close(self) -> None:
        """Close the connection."""
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class HttpRequest(NamedTuple):
    """A request."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str]
    seconds: float  # that the answer may take
    most: int  # bytes that it may have


class HttpAnswer(NamedTuple):
    """A whole answer; times are seconds since the epoch."""

    status: int
    headers: dict[str, str]
    body: bytes
    sent_at: float  # when the request was sent
    began: float  # when the headers came
    ended: float


class LostConnectionError(Exception):
    """The connection broke, or (`unreached`) was never made; a retry may help. The message does not name the server."""

    def __init__(self, reason: str, *, unreached: bool) -> None:
        super().__init__(reason)
        self.unreached = unreached


class NoAnswerError(Exception):
    """No answer, and a retry would not help: it is too late or too long, or the request cannot be sent."""


class TryAgainError(Exception):
    """A retry may help, `tries` at most; `wait` is the pause that the server asks for, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0, tries: int = 2**31) -> None:
        super().__init__(reason)
        self.wait, self.tries = wait, tries


def httpx_for(user: str, extra: str = "http") -> Any:
    """Import httpx. If it is missing, raise LoreError with the `user` that needs it and the extra to install."""
    try:
        import httpx  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        message = f"{user} needs httpx, which is not installed"
        raise LoreError(message, hint=install_hint(extra)) from None
    return httpx


class Endpoint(NamedTuple):
    """A server and how to connect to it."""

    httpx: Any  # the module
    label: str  # its URL without user, password and query
    is_loopback: bool  # whether it is on this machine
    mask_key: Callable[[str], str]  # removes the key from an error's text
    trust_env: bool = False  # as for httpx
    proxy: str | None = None  # as for httpx

    def ask(self, request: HttpRequest) -> HttpAnswer:
        """Send a request once, over a new connection. Raises LostConnectionError and NoAnswerError."""
        http, deadline = self.httpx, Deadline(request.seconds, loopback_only=self.is_loopback)
        late = NoAnswerError(f"{self.label}: no whole answer after {request.seconds:g} s")
        deadline.start()
        try:
            answer = self._exchange(request, deadline)
        except http.TimeoutException:
            raise late from None
        except http.HTTPError as error:
            if deadline.is_over:
                raise late from None
            reason = one_line(self.mask_key(str(error))) or type(error).__name__
            raise LostConnectionError(reason, unreached=isinstance(error, http.ConnectError)) from None
        except (http.InvalidURL, ImportError, OSError, ValueError) as error:  # a host, a proxy, certificates
            raise NoAnswerError(f"{self.label} cannot be asked: {one_line(self.mask_key(str(error)))}") from None
        finally:
            deadline.cancel()
        if deadline.is_over:  # a closed connection may look like the end
            raise late
        return answer

    def refusal(self, answer: HttpAnswer, *, quotes: bool = True) -> str:
        """Return in words that an answer is not a success; its own message only if it may be quoted."""
        if 300 <= answer.status < 400:
            return f"{self.label} redirects elsewhere ({answer.status})"
        message = one_line(self.mask_key(harmless(error_message(answer.body))), 400) if quotes else ""
        return f"{self.label} answers {answer.status}" + (f": {message}" if message else "")

    def _exchange(self, request: HttpRequest, deadline: Deadline) -> HttpAnswer:
        httpx = self.httpx
        plain = request.url.startswith("http:") and (self.is_loopback or not self.trust_env)
        verify = SSLContext(PROTOCOL_TLS_CLIENT) if plain else httpx.create_ssl_context()  # 25 ms
        body, sent_at = bytearray(), time.time()
        extensions = {"trace": deadline.on_trace_event}
        with (
            httpx.Client(
                timeout=request.seconds, follow_redirects=False, verify=verify,
                trust_env=self.trust_env, proxy=self.proxy,
            ) as client,
            client.stream(
                request.method, request.url, content=request.body, headers=request.headers, extensions=extensions
            ) as response,
        ):  # fmt: skip
            began = time.time()
            for piece in response.iter_raw():
                body += piece
                if len(body) > request.most:
                    raise NoAnswerError(f"{self.label}: its answer has more than {request.most:,} bytes")
            return HttpAnswer(response.status_code, dict(response.headers), bytes(body), sent_at, began, time.time())


def ask_with_retries(
    ask: Callable[[], HttpAnswer], pauses: Sequence[float], note: Callable[[TryAgainError, float], None], *,
    sleep: Callable[[float], None],
) -> HttpAnswer:  # fmt: skip
    """Ask until there is an answer, or the last TryAgainError is raised.

    Between tries are these pauses (seconds), or the longer one that the server asks for; `note` is called before each.
    """
    for tried, least in enumerate(pauses, 1):
        try:
            return ask()
        except TryAgainError as error:
            if tried >= error.tries:
                raise
            pause = max(least, error.wait)
            note(error, pause)
            sleep(pause)
    return ask()


def display_url(endpoint: str) -> str:
    """Return an endpoint without user, password and query."""
    try:
        parts = urlsplit(endpoint)
        where = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the endpoint"
    return one_line(f"{parts.scheme}://{where}{parts.path}") if where else "the endpoint"


def url_of(endpoint: str, name: str, *, hint: str) -> SplitResult:
    """Return the parts of a URL that requests can be sent to. Raise LoreError, which names the setting `name`."""
    try:
        parts = urlsplit(endpoint)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if is_valid and endpoint.isascii() and endpoint.isprintable() and " " not in endpoint:
            return parts
    except ValueError:
        pass
    raise LoreError(f"{name} is not an http or https URL", hint=hint)


def is_loopback_url(url: str) -> bool:
    """Return whether an endpoint is on this machine, so that no proxy is used."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))  # as 127.1 is connected to
    return _is_loopback(host, unspecified=True)


def _is_loopback(address: str, *, unspecified: bool = False) -> bool:
    """Return whether an address is a loopback one; with `unspecified`, also 0.0.0.0, which servers print for it."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or (unspecified and ip.is_unspecified)


def key_in(environ: Mapping[str, str], variable: str, option: str) -> str:
    """Return the key in a variable of the environment; empty if no variable is named.

    Raises LoreError if it is not set or is not a key; `option` is the setting that names the variable.
    """
    if not variable:
        return ""
    key = environ.get(variable, "").strip()
    if not key:
        hint = f"set it, or leave {option} out"
        raise LoreError(f"{option} names {one_line(variable)}, which is not set", hint=hint)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise LoreError(f"the value of {one_line(variable)} is not a key: it has characters that no header may have")
    return key


def error_message(body: bytes) -> str:
    """Return the message in an error's body, otherwise the whole body."""
    try:
        table = decode(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
    error = cast("dict[str, Any]", table).get("error", table) if isinstance(table, dict) else table
    message = cast("dict[str, Any]", error).get("message", error) if isinstance(error, dict) else error
    return message if isinstance(message, str) else body.decode("utf-8", "replace")
