"""Files of a web server: https, and http where a name says so.

Rules: nothing is sent but the request itself, no password, no cookie of another host. A redirect is followed to http(s)
alone, five times at most, and never to an address of this machine or of a local network unless the name that the user
gave is one, too: who runs a server elsewhere must not choose what is read here. The host that answers in the end is
told. A body that says no length ends at LARGEST; one that is shorter than it says is gone on with where the server
gives ranges, else an error.

An answer is given up where fewer than PIECE bytes of its body came in _TIMEOUT seconds of waiting for them (time that
the reader takes in between does not count): one that drips ends, too, and is asked for again as one that breaks off is.

Bodies are asked for as they are; one that comes compressed all the same (`Content-Encoding`) is unpacked piece by
piece. Proxies are the environment's.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

from lore.errors import Where
from lore.model.canonical import printable
from lore.model.mask import cut_masked
from lore.recording.filesystem import Status
from lore.recording.remote import (
    HINT,
    LONGEST_PAUSE,
    PIECE,
    BrokenError,
    ChangedError,
    DeniedError,
    RemoteError,
    missing,
)
from lore.store.registry import say_once, shown

if TYPE_CHECKING:
    import httpx

LARGEST = 16 * 1024**3  # bytes of a body that does not say how long it is
REDIRECTS = 5
_TIMEOUT = 60.0  # seconds without a byte, or with fewer than PIECE
_ENCODINGS = ("", "identity", "gzip", "deflate")
_UNANSWERED = (408, 425, 429, 500, 502, 503, 504)
_LONGEST_NAME = 8_000  # characters of an address: servers refuse longer ones


class Web:
    """Web servers; keys are URLs."""

    def __init__(self) -> None:
        try:
            import httpx
        except ImportError:
            raise RemoteError("the client for https is not installed", hint=HINT) from None
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "lore"}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT, follow_redirects=False)
        self._errors = (httpx.HTTPError, httpx.StreamError, OSError)
        self._no_url = (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError)

    def about(self, key: str) -> Status:
        about, body = self.read(key, 0, "")
        body.close()
        return about

    def read(self, key: str, start: int, tag: str) -> tuple[Status, Generator[bytes]]:
        if len(key) > _LONGEST_NAME:
            raise RemoteError(f"{cut_masked(shown(key), 80)}…: a name of more than {_LONGEST_NAME:,} characters")
        headers = {} if not tag else {"If-Match": tag} if tag.startswith('"') else {"If-Unmodified-Since": tag}
        if start:
            headers["Range"] = f"bytes={start}-"
        with self._asked(key):
            response = self._answer(key, headers)
            try:
                about = self._checked(response, key, start)
            except RemoteError:
                response.close()
                raise
            _give_up_a_drip(response, key)
        return about, self._body(response, key, about, start)

    def _body(self, response: httpx.Response, key: str, about: Status, start: int) -> Generator[bytes]:
        read = start
        try:
            with self._asked(key):
                for piece in response.iter_bytes():
                    read += len(piece)
                    if about.size is None and read > LARGEST:
                        message = (
                            f"cannot read {shown(key)}: more than {LARGEST >> 30} GiB came, and no length was said"
                        )
                        raise RemoteError(message, hint="download it and name the file", where=Where(shown(key)))
                    yield piece
        finally:
            response.close()

    def _answer(self, key: str, headers: dict[str, str]) -> httpx.Response:
        """Ask for a file, and where it is said to be instead."""
        import httpx

        url, named = httpx.URL(key), httpx.URL(key).host
        for _ in range(REDIRECTS + 1):
            if url.host != named:
                port = url.port or (443 if url.scheme == "https" else 80)
                _refuse_inner(key, named, url.host, addresses(url.host, port))
            response = self._client.send(self._client.build_request("GET", url, headers=headers), stream=True)
            stream = response.extensions.get("network_stream")
            proxied = url.scheme in getproxies() and not proxy_bypass(url.host)
            if url.host != named and stream is not None and not proxied:  # a name may change its address
                _refuse_inner(key, named, url.host, [str(stream.get_extra_info("server_addr")[0])])
            if response.status_code not in (301, 302, 303, 307, 308) or "location" not in response.headers:
                if url.host != named:
                    say_once(f"{shown(key)} was read from {printable(url.host)}, where its server sent lore")
                return response
            response.close()
            url = url.join(response.headers["location"])
            if url.scheme not in ("http", "https") or url.userinfo or not url.host:
                message = f"cannot read {shown(key)}: its server sends to {printable(url.scheme)}:, or with a password"
                raise RemoteError(message, hint="download it and name the file", where=Where(shown(key)))
        raise RemoteError(f"cannot read {shown(key)}: redirected more than {REDIRECTS} times", where=Where(shown(key)))

    @staticmethod
    def _checked(response: httpx.Response, key: str, start: int) -> Status:
        """Return what an answer says of the whole file; raises RemoteError where it is not what was asked for."""
        status, name = response.status_code, shown(key)
        host = response.url.host
        says = (
            f"{printable(host)} answers {status}" + (f" {printable(cut_masked(response.reason_phrase, 60))}").rstrip()
        )
        if status in (404, 410):
            raise missing(key)
        if status == 412 or (status == 416 and start):
            raise ChangedError(key)
        if status in (401, 403, 407):
            hint = "what needs a login cannot be read by its name alone, and a signed name ends: make a new one"
            raise DeniedError(f"not allowed to read {name}: {says}", hint=hint, where=Where(name))
        if status in _UNANSWERED:
            error = BrokenError(f"cannot read {name}: {says}", hint="try again later", where=Where(name))
            after = response.headers.get("retry-after", "")
            error.pause = min(float(after), LONGEST_PAUSE) if after.isdecimal() and len(after) < 8 else None
            raise error
        if status not in (200, 206):
            raise RemoteError(f"cannot read {name}: {says}", where=Where(name))
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            odd = printable(cut_masked(encoding, 40))
            message = f"cannot read {name}: it came in the encoding {odd!r}, which was not asked for"
            raise RemoteError(message, hint="download it and name the file", where=Where(name))
        ranged = response.headers.get("content-range", "")
        if start and (status != 206 or not ranged.startswith(f"bytes {start}-") or encoding not in _ENCODINGS[:2]):
            message = f"cannot read {name}: it broke off after {start:,} bytes, and its server gives no ranges"
            raise RemoteError(message, hint="download it and name the file", where=Where(name))
        length = ranged.rpartition("/")[2] if start else response.headers.get("content-length", "")
        packed = encoding not in _ENCODINGS[:2]
        size = int(length) if not packed and length.isdecimal() and len(length) < 16 else None
        modified, written = response.headers.get("last-modified", ""), None
        with suppress(ValueError, OverflowError):
            written = parsedate_to_datetime(modified).timestamp() if modified else None
        tag = response.headers.get("etag", "")
        return Status(size, written, "" if packed else tag if tag.startswith('"') else modified)

    @contextmanager
    def _asked(self, key: str) -> Generator[None]:
        """Give errors of the client lore's words."""
        try:
            yield
        except RemoteError:
            raise
        except self._no_url as error:
            message = f"cannot read {cut_masked(shown(key), 200)}: {cut_masked(shown(printable(str(error))), 200)}"
            raise RemoteError(message, hint="name a file by its URL, https://HOST/FILE") from None
        except self._errors as error:
            text = cut_masked(printable(str(error) or type(error).__name__), 200)
            hint = "see that the server can be reached, and try again"
            raise BrokenError(f"cannot read {shown(key)}: {shown(text)}", hint=hint, where=Where(shown(key))) from None


def _give_up_a_drip(response: httpx.Response, key: str) -> None:
    """Make the body of an answer end with BrokenError where it comes too slowly, before it is unpacked."""
    import httpx

    stream = response.stream
    assert isinstance(stream, httpx.SyncByteStream), "the client is no asynchronous one"

    class Paced(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            waited, came, begin = 0.0, 0, monotonic()
            for piece in stream:
                if waited > _TIMEOUT:  # and there is more to come
                    message = f"cannot read {shown(key)}: {came:,} bytes came in {waited:.0f} seconds"
                    raise BrokenError(message, hint="download it and name the file", where=Where(shown(key)))
                waited, came = waited + monotonic() - begin, came + len(piece)
                if came >= PIECE:
                    waited, came = 0.0, 0
                yield piece
                begin = monotonic()

        def close(self) -> None:
            stream.close()

    response.stream = Paced()


def addresses(host: str, port: int | None) -> list[str]:
    """Return the addresses of a host; none where it has none here."""
    with suppress(OSError, UnicodeError):
        return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    return []


def _refuse_inner(key: str, named: str, host: str, found: list[str]) -> None:
    """Raise RemoteError for a redirect into this machine or a local network, if the name does not lie there, too."""
    inner = max(map(_depth, found), default=0)
    if inner > max(map(_depth, addresses(named, None)), default=0):
        message = (
            f"cannot read {shown(key)}: its server sends to {printable(host)}, which is an address of this network"
        )
        raise RemoteError(message, hint="name that address yourself if you trust it", where=Where(shown(key)))


def _depth(address: str) -> int:
    """Return how far inside an address lies: 0 public, 1 a private network, 2 this machine, 3 a link (its metadata)."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_link_local:
        return 3
    if found.is_loopback or found.is_unspecified:
        return 2
    return 0 if found.is_global and not found.is_multicast else 1
