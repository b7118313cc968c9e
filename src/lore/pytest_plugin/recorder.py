"""Record what HTTP clients send: `httpx` (sync and async) and `requests`, whichever is installed.

Seam: `send` of the client classes, the lowest documented method that every request of every client passes,
whatever its transport and whenever it was made; what clients, transports and other tools put below it stays
in force. Rules: a request is recorded before it goes on, and changed by nothing; a stream is never read;
no key is kept: of headers those in `HEADERS`, of the URL neither query nor user. Bodies are kept verbatim.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from os import PathLike
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit, urlunsplit

HEADERS = (
    "content-type", "content-encoding", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta",
    # what names the conversation, so that requests find the one that they continue
    "x-claude-code-session-id", "x-claude-code-agent-id", "session_id", "session-id", "x-session-id",
    "x-session-affinity", "thread-id", "x-openai-subagent",
)  # fmt: skip


UNPACKED = 64 * 1024 * 1024  # bytes of a body that was packed: no request is longer


@dataclass(slots=True)
class Recorded:
    """One request; `body` are its bytes on the wire (None: a stream), times are seconds since the epoch.

    `status` is None where no response came. `response` is the body of the response where the client read
    it, None else.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    at: float
    answered: float | None = None
    status: int | None = None
    _response: Any = field(default=None, repr=False)

    @property
    def response(self) -> bytes | None:
        """The response's body, if it was read."""
        if self._response is None:
            return None
        read = getattr(self._response, "_content", None)  # both clients keep it there; asking otherwise would read it
        return read if isinstance(read, bytes) else None

    def take(self, response: object) -> None:
        """Take the response."""
        self.answered = time.time()
        self.status = getattr(response, "status_code", None)
        self._response = response

    def _unpacked(self) -> bytes:
        """Return the body as it was before the client packed it; one that is packed otherwise, or broken, as it is."""
        body = self.body or b""
        if self.headers.get("content-encoding", "").lower() not in ("gzip", "x-gzip"):
            return body
        unpacking = zlib.decompressobj(31)  # with the header of gzip
        try:
            unpacked = unpacking.decompress(body, UNPACKED)
        except zlib.error:
            return body
        return unpacked if unpacking.eof else body

    def record(self) -> dict[str, Any]:
        """Return it as a record that lore reads: `{request, response, timestamp, …}`."""
        return {
            "timestamp": self.at, "method": self.method, "url": self.url, "headers": self.headers,
            "request": None if self.body is None else self._unpacked().decode("utf-8", "backslashreplace"),
            "status": self.status, "answered": self.answered, "response": _json(self.response),
        }  # fmt: skip


class Recorder:
    """What was sent, in order. `watched` names the client libraries that are recorded."""

    def __init__(self, watched: tuple[str, ...] = ()) -> None:
        self.watched = watched
        self.requests: list[Recorded] = []

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)

    def clear(self) -> None:
        """Forget what was recorded so far."""
        self.requests.clear()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the prompts among them as JSON Lines that `lore check` reads, verbatim, with secrets in them."""
        lines = (json.dumps(request.record()).encode() + b"\n" for request in self.requests)
        with open(path, "wb") as file:
            file.writelines(filter(_is_prompt, lines))


@contextmanager
def recording() -> Generator[Recorder]:
    """Record what this process sends until the block ends; then everything is as it was before."""
    found = [(seam, owner) for seam in SEAMS if (owner := _owner(seam)) is not None]
    recorder = Recorder(tuple(dict.fromkeys(seam.library for seam, _ in found)))
    _LISTENING.begin(recorder, found)
    try:
        yield recorder
    finally:
        _LISTENING.end(recorder)


class _Listening:
    """Recorders that listen now. The first puts wrappers in, the last takes them out, in whatever order they end.

    Recorders that each put back what they had found left the first one's wrapper in for ever where it ended first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wrapped: list[tuple[Any, Any, Any]] = []  # owner, its own `send`, what stands there instead
        self.recorders: list[Recorder] = []

    def begin(self, recorder: Recorder, found: Iterable[tuple[Seam, Any]]) -> None:
        """Let a recorder listen."""
        with self._lock:
            if not self.recorders:
                for seam, owner in found:
                    original = owner.__dict__["send"]
                    wrapper = original if hasattr(original, _OURS) else seam.wrap(original, _listener(seam))
                    setattr(wrapper, _OURS, True)
                    owner.send = wrapper
                    self._wrapped.append((owner, original, wrapper))
            self.recorders = [*self.recorders, recorder]

    def end(self, recorder: Recorder) -> None:
        """Let it listen no more; what another tool has put over a wrapper meanwhile stays, and passes through it."""
        with self._lock:
            self.recorders = [other for other in self.recorders if other is not recorder]
            if not self.recorders:
                for owner, original, wrapper in self._wrapped:
                    if owner.__dict__["send"] is wrapper:
                        owner.send = original
                self._wrapped.clear()


_OURS = "__lore__"
_LISTENING = _Listening()


class Seam(NamedTuple):
    """Where requests of a library pass: the class that sends, how to wrap its `send`, where the body is."""

    library: str
    owner: str
    wrap: Callable[[Any, Callable[[Any], Recorded | None]], Any]
    body: Callable[[Any], bytes | None]


def _owner(seam: Seam) -> type | None:
    try:
        return getattr(import_module(seam.library), seam.owner)
    except ImportError:
        return None


def _listener(seam: Seam) -> Callable[[Any], Recorded | None]:
    def listen(request: Any) -> Recorded | None:
        recorders = _LISTENING.recorders
        if not recorders:
            return None
        headers = {name: str(request.headers[name]) for name in HEADERS if name in request.headers}
        recorded = Recorded(request.method, _public(str(request.url)), headers, seam.body(request), time.time())
        for recorder in recorders:
            recorder.requests.append(recorded)
        return recorded

    return listen


_SENDING: ContextVar[object] = ContextVar("lore_sending", default=None)


@contextmanager
def _once(request: object, listen: Callable[[Any], Recorded | None]) -> Generator[Recorded | None]:
    """Record a request on its way down; where another tool stands between two wrappers, by the first alone."""
    if _SENDING.get() is request:
        yield None
        return
    before = _SENDING.set(request)
    try:
        yield listen(request)
    finally:
        _SENDING.reset(before)


def _sending(original: Any, listen: Callable[[Any], Recorded | None]) -> Any:
    @wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        with _once(request, listen) as recorded:
            response = original(self, request, *args, **kwargs)
            if recorded is not None:
                recorded.take(response)
            return response

    return send


def _redirecting(original: Any, listen: Callable[[Any], Recorded | None]) -> Any:
    """Wrap a `send` that calls itself for redirects: these are the same request, those of another client are not."""
    inside = threading.local()
    once = _sending(original, listen)

    @wraps(original)
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        outer = getattr(inside, "session", None)
        if outer is self:
            return original(self, request, *args, **kwargs)
        inside.session = self
        try:
            return once(self, request, *args, **kwargs)
        finally:
            inside.session = outer

    return send


def _awaiting(original: Any, listen: Callable[[Any], Recorded | None]) -> Any:
    @wraps(original)
    async def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        with _once(request, listen) as recorded:
            response = await original(self, request, *args, **kwargs)
            if recorded is not None:
                recorded.take(response)
            return response

    return send


def _kept(request: Any) -> bytes | None:
    """Return the body of an httpx request, unless it is a stream."""
    body = getattr(request, "_content", None)
    return body if isinstance(body, bytes) else None


def _prepared(request: Any) -> bytes | None:
    """Return the body of a request of `requests`, unless it is a stream."""
    body = request.body
    if isinstance(body, str):
        return body.encode("utf-8")
    return body if isinstance(body, bytes) else None


SEAMS = (
    Seam("httpx", "Client", _sending, _kept),
    Seam("httpx", "AsyncClient", _awaiting, _kept),
    Seam("requests", "Session", _redirecting, _prepared),
)


def _public(url: str) -> str:
    """Return a URL without user, query and fragment: keys stand there."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _is_prompt(line: bytes) -> bool:
    from lore.formats.bodies import Bodies  # noqa: PLC0415 - a recorder alone needs no reader
    from lore.model.turn import Exchange  # noqa: PLC0415

    reader = Bodies()
    return any(isinstance(read.value, Exchange) for read in (*reader.feed(line), *reader.finish()))


def _json(body: bytes | None) -> object:
    """Return a response as JSON where it is an object, else as text."""
    if body is None:
        return None
    text = body.decode("utf-8", "backslashreplace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("object", value) if isinstance(value, dict) else text
