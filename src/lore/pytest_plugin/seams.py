"""Seams: the methods of HTTP libraries that every request passes, how to read a request there, and its response.

A seam is the lowest method that each request of a library passes, with any transport. From a call of it come method,
URL, headers and body, from its result the pieces of the response, as the client reads them: nothing else is read or
held back. The stream of a response gets a dynamic subclass of its class, so that `isinstance` still holds. No library
is imported. Sources: httpx 0.28, httpx2 2.16, requests 2.34, aiohttp 3.14, botocore 1.44, urllib3 2.8.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias, cast

Pieces: TypeAlias = list[bytes]
Call: TypeAlias = tuple[Any, ...]


class ClientRequest(NamedTuple):
    """A request as its client sends it."""

    method: str
    url: str
    headers: Mapping[str, Any]
    body: bytes | None  # None: a stream


class ClientResponse(NamedTuple):
    """A response."""

    status: int | None
    encoding: str  # that its headers name
    pieces: Pieces  # of its body, as the client reads them


class Seam(NamedTuple):
    """A method `owner.method` of a library."""

    library: str
    module: str
    owner: str
    method: str
    read_request: Callable[[Any, Call, dict[str, Any]], ClientRequest]  # from a call of the method
    read_response: Callable[[Any, bool], ClientResponse]  # from its result; the body only if the request is a prompt
    awaits: bool = False  # it is a coroutine
    recurs: bool = False  # it calls itself for redirects and retries of one request
    over: frozenset[str] = frozenset()  # libraries that send over this one: a request below them is theirs


def _bytes(body: object) -> bytes | None:
    """Return a body as bytes, None for a stream; a form is empty, since it cannot be a prompt."""
    match body:
        case bytes():
            return body
        case None | Mapping():
            return b""
        case str():
            return body.encode("utf-8", "surrogatepass")
        case bytearray() | memoryview():
            return bytes(cast("bytearray", body))
        case BytesIO():
            return body.getvalue()[body.tell() :]
        case _:
            return None


def _argument(call: Call, keywords: Mapping[str, Any], name: str, place: int = 0) -> Any:
    return call[place] if len(call) > place else keywords.get(name)


def _lower_names(headers: Any) -> dict[str, Any]:
    """Return headers, given as a mapping or as pairs, by their names in lower case."""
    pairs: Any = cast("Any", headers).items() if isinstance(headers, Mapping) else headers or ()
    return {str(name).lower(): value for name, value in pairs}


def _httpx_request(_: Any, call: Call, keywords: dict[str, Any]) -> ClientRequest:
    request = _argument(call, keywords, "request")
    body = getattr(request, "_content", None)  # missing if the body is a stream
    return ClientRequest(request.method, str(request.url), request.headers, body if isinstance(body, bytes) else None)


def _prepared_request(_: Any, call: Call, keywords: dict[str, Any]) -> ClientRequest:
    """Read a prepared request, of `requests` or of botocore."""
    request = _argument(call, keywords, "request")
    return ClientRequest(request.method, str(request.url), request.headers, _bytes(request.body))


def _aiohttp_request(session: Any, call: Call, keywords: dict[str, Any]) -> ClientRequest:
    method, url = str(_argument(call, keywords, "method")).upper(), _argument(call, keywords, "str_or_url", 1)
    headers = {**_lower_names(session.headers), **_lower_names(keywords.get("headers"))}
    data, json = keywords.get("data"), keywords.get("json")
    if json is not None and method == "POST":  # written as the session itself will write it
        data = (getattr(session, "_json_serialize_bytes", None) or session.json_serialize)(json)
    return ClientRequest(method, str(session._build_url(url)), headers, _bytes(getattr(data, "_value", data)))


def _urllib3_request(owner: Any, call: Call, keywords: dict[str, Any]) -> ClientRequest:
    method, url = str(_argument(call, keywords, "method")), str(_argument(call, keywords, "url", 1))
    body, headers = keywords.get("body"), keywords.get("headers")
    if hasattr(owner, "scheme"):  # a pool of one host; a manager of pools gets these two by name alone
        body, headers = _argument(call, keywords, "body", 2), _argument(call, keywords, "headers", 3)
        url = url if "://" in url else f"{owner.scheme}://{owner.host}{f':{owner.port}' if owner.port else ''}{url}"
    return ClientRequest(method, url, _lower_names(headers or owner.headers), _bytes(body))


def _httpx_response(response: Any, prompt: bool) -> ClientResponse:
    content: object = getattr(response, "_content", None)
    if isinstance(content, bytes):
        return ClientResponse(response.status_code, "", [content])
    pieces: Pieces = []
    if prompt:
        _collect_pieces(response.stream, pieces, __iter__=_collect_iteration, __aiter__=_collect_async_iteration)
    return ClientResponse(response.status_code, response.headers.get("content-encoding", ""), pieces)


def _raw_response(response: Any, prompt: bool) -> ClientResponse:
    """Read a response with one of urllib3 as its `raw`: of `requests` or of botocore."""
    content: object = getattr(response, "_content", None)
    if isinstance(content, bytes):
        return ClientResponse(response.status_code, response.headers.get("content-encoding", ""), [content])
    return _urllib3_response(response.raw, prompt)._replace(status=response.status_code)


def _urllib3_response(response: Any, prompt: bool) -> ClientResponse:
    body: object = getattr(response, "_body", None)
    if isinstance(body, bytes):
        return ClientResponse(response.status, "", [body])
    pieces: Pieces = []
    if prompt and response is not None:
        _collect_pieces(response, pieces, read=_collect_reads, read1=_collect_reads, read_chunked=_collect_iteration)
    headers: Any = getattr(response, "headers", None) or {}
    return ClientResponse(getattr(response, "status", None), headers.get("content-encoding", ""), pieces)


def _aiohttp_response(response: Any, prompt: bool) -> ClientResponse:
    pieces: Pieces = []
    if prompt:
        _collect_pieces(response.content, pieces, _read_nowait_chunk=_collect_reads)
    return ClientResponse(response.status, response.headers.get("content-encoding", ""), pieces)


def _collect_pieces(stream: Any, pieces: Pieces, **methods: Callable[[Any, Pieces], Any]) -> None:
    """Make a stream's methods add what they return to `pieces`, by changing its class to a subclass."""
    # Wrappers set on the stream itself would refer to it, and a stream that its client drops would be closed late.
    kind = cast("Any", type(stream))
    members = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    members |= {name: note(getattr(kind, name), pieces) for name, note in methods.items() if hasattr(kind, name)}
    try:
        stream.__class__ = type(kind.__name__, (kind,), {"__slots__": (), **members})
    except TypeError:
        return  # a fake that is written in C, as io.BytesIO: its answer is not kept


def _collect_reads(original: Any, pieces: Pieces) -> Any:
    def read(self: Any, *call: Any, **keywords: Any) -> bytes:
        piece = original(self, *call, **keywords)
        pieces.append(piece)
        return piece

    return read


def _collect_iteration(original: Any, pieces: Pieces) -> Any:
    def pieces_of(self: Any, *call: Any, **keywords: Any) -> Iterator[bytes]:
        for piece in original(self, *call, **keywords):
            pieces.append(piece)
            yield piece

    return pieces_of


def _collect_async_iteration(original: Any, pieces: Pieces) -> Any:
    async def pieces_of(self: Any) -> AsyncIterator[bytes]:
        source = original(self)
        try:
            async for piece in source:
                pieces.append(piece)
                yield piece
        finally:
            if isinstance(source, AsyncGenerator):
                await cast("AsyncGenerator[bytes]", source).aclose()

    return pieces_of


_OVER_URLLIB3 = frozenset(("requests", "botocore", "urllib3"))
SEAMS = (
    *(Seam(name, name, owner, "send", _httpx_request, _httpx_response, awaits=awaits)
      for name in ("httpx", "httpx2") for owner, awaits in (("Client", False), ("AsyncClient", True))),
    Seam("requests", "requests.sessions", "Session", "send", _prepared_request, _raw_response, recurs=True),
    Seam("aiohttp", "aiohttp.client", "ClientSession", "_request", _aiohttp_request, _aiohttp_response, awaits=True),
    Seam("botocore", "botocore.httpsession", "URLLib3Session", "send", _prepared_request, _raw_response),
    *(Seam("urllib3", module, owner, "urlopen", _urllib3_request, _urllib3_response, recurs=True, over=_OVER_URLLIB3)
      for module, owner in (("urllib3.poolmanager", "PoolManager"), ("urllib3.connectionpool", "HTTPConnectionPool"))),
)  # fmt: skip
LIBRARIES = tuple(dict.fromkeys(seam.library for seam in SEAMS))
