"""An HTTP endpoint that a user names: its URL, whether it is on this machine, its key, what it says when it refuses.

Rules: a URL is shown without user, password and query; a key comes from an environment variable that is named, and is
never shown; what a server says is text of a stranger, to be made harmless by whoever shows it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from lore.compaction.untrusted import one_line
from lore.errors import LoreError
from lore.model.canonical import decode


class Deadline(threading.Timer):
    """Hangs up when a try has taken too long as a whole: httpx' time-outs begin anew with each piece of an answer.

    With `near` it hangs up on any server that is not on this machine, before a byte is sent: a name may lead anywhere.
    """

    def __init__(self, seconds: float, *, near: bool = False) -> None:
        super().__init__(seconds, self.hang_up)
        self.daemon = True
        self._near = near
        self.is_over = False
        self._socket: socket.socket | None = None

    def note(self, name: str, info: Mapping[str, Any]) -> None:
        """Take the socket of a connection as soon as there is one. Raises OSError for one that leads elsewhere."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            found: socket.socket = info["return_value"].get_extra_info("socket")
            self._socket = found
            if self.is_over:
                self.hang_up()
            elif self._near and not _is_loopback(address := found.getpeername()[0]):
                found.close()
                raise OSError(f"it leads to {address}, which is not this machine")

    def hang_up(self) -> None:
        """End what is waited for."""
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def shown(endpoint: str) -> str:
    """Return an endpoint as it may be shown: without user, password, query."""
    try:
        parts = urlsplit(endpoint)
        where = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the endpoint"
    return one_line(f"{parts.scheme}://{where}{parts.path}") if where else "the endpoint"


def url_of(endpoint: str, name: str, *, hint: str) -> SplitResult:
    """Return the parts of a URL that requests can be sent to; raises LoreError, which calls it by `name`."""
    try:
        parts = urlsplit(endpoint)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    else:
        if sound and endpoint.isascii() and endpoint.isprintable() and " " not in endpoint:
            return parts
    raise LoreError(f"{name} is no http or https URL", hint=hint)


def is_near(url: str) -> bool:
    """Tell whether an endpoint is on this machine: no proxy is asked then."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))  # as 127.1 is connected to
    return _is_loopback(host, unspecified=True)


def _is_loopback(address: str, *, unspecified: bool = False) -> bool:
    """Tell whether an address is of this machine alone; the `unspecified` one, as servers print it, leads to that."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return found.is_loopback or (unspecified and found.is_unspecified)


def key_in(environ: Mapping[str, str], variable: str, option: str) -> str:
    """Return the key that a variable of the environment holds; empty where none is named.

    Raises LoreError where it is not set or holds no key; `option` is what names the variable.
    """
    if not variable:
        return ""
    key = environ.get(variable, "").strip()
    if not key:
        hint = f"set it, or leave {option} out"
        raise LoreError(f"{option} names {one_line(variable)}, which is not set", hint=hint)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise LoreError(f"the value of {one_line(variable)} is no key: it has characters that no header takes")
    return key


def error_message(body: bytes) -> str:
    """Return what an error's body says: its message, else all of it."""
    try:
        table = decode(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
    error = cast("dict[str, Any]", table).get("error", table) if isinstance(table, dict) else table
    message = cast("dict[str, Any]", error).get("message", error) if isinstance(error, dict) else error
    return message if isinstance(message, str) else body.decode("utf-8", "replace")
