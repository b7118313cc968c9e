"""Read HTTP calls as proxies, cassettes, browsers and exports record them, by one table of paths.

A record is a JSON object that holds a request and its response. `Layout` says under which paths recorders keep the
parts of a call; recorders agree so far that one layout covers all but nock's. A recorder whose names are new gets its
paths added there. One that writes a document, not lines, gets a class of three lines below: where its list is, and
which words the beginning of its files must hold.

Layouts are from the recorders' own output or documentation: HAR 1.2 (also PollyJS), VCR (Python, Ruby, betamax,
go-vcr), httpmock (Rust), nock (JavaScript), claude-tap, claude-trace, vibe-proxy, session-devtools,
X-Ray-Claude-Code-Interceptor. `served_by` (the engine that answered) and `purpose` are what `lore replay` writes.
"""

from __future__ import annotations

import base64
from typing import ClassVar, NamedTuple

from lore.formats.base import Read
from lore.formats.bounds import is_crowded, too_many
from lore.formats.contents import NO_CONTENT, Content, content_of
from lore.formats.documents import Documents
from lore.formats.http import ENDPOINT, Http, endpoint_of, exchanges_of, headers_of, status_of
from lore.formats.lines import Line, RecordReader, nonblank_lines, placed, problem
from lore.formats.values import text_in
from lore.model.canonical import decode, encode, text_of
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.jsonslice import array, raw_members, sliced_members
from lore.model.limits import CAPTURED_BYTES, CAPTURED_CALLS
from lore.model.times import decode_time

Paths = tuple[str, ...]


class Layout(NamedTuple):
    """Paths of the parts of a call in a record; of several paths the first that holds something counts."""

    url: Paths
    method: Paths
    headers: Paths
    request: Paths  # the request body
    status: Paths
    response_headers: Paths
    response: Paths  # the response body
    at: Paths = ()  # when the request was sent
    answered: Paths = ()  # when the response began
    ended: Paths = ()  # when the response was complete
    origin: str = ""  # scheme and host, if the address lacks them


COMMON = Layout(
    url=("request.url", "request.uri", "request.path", "req.url", "req.path", "when.path", "url", "uri", "path"),
    method=("request.method", "req.method", "when.method", "method"),
    headers=("request.headers", "req.headers", "when.header", "reqHeaders", "headers"),
    request=("request.body", "request.parsed_body", "request.body_raw", "request.rawBody", "request.postData",
             "request.payload", "req.body", "req.payload", "when.body", "reqBody", "requestBody"),
    status=("response.status", "status", "response.status_code", "response.statusCode", "response.http_status",
            "response.code", "res.status", "res.statusCode", "resp.status", "resp.statusCode", "then.status",
            "status_code", "statusCode", "http_status", "code"),
    response_headers=("response.headers", "res.headers", "resp.headers", "then.header", "resHeaders"),
    response=("response.body", "response.parsed_body", "response.body_raw", "response.rawBody", "response.events",
              "response.content", "response.payload", "res.body", "res.payload", "resp.body", "resp.payload",
              "then.body", "resBody", "responseBody"),
    at=("request.timestamp", "request.ts", "req.timestamp", "timestamp", "startedDateTime", "startedAt", "recordedAt",
        "recorded_at", "ts"),
    answered=("response.timestamp",),
    ended=("logged_at", "response.ts"),
)  # fmt: skip
NOCK = Layout(
    url=("path",), method=("method",), headers=("reqheaders",), request=("body",), status=("status",),
    response_headers=("rawHeaders",), response=("response",), origin="scope",
)  # fmt: skip
_NAMES = {path.rpartition(".")[2] for paths in (COMMON.url, COMMON.request) for path in paths}
_NAMED = pattern(b'"(?:%s)"|\\\\u' % "|".join(sorted(_NAMES)).encode())  # or an escaped key
_SMALL = 1024  # bytes of a record that is searched for these names before it is parsed: there may be a million
_BEFORE_END = 0.05  # a response that was stamped when it was logged began at an unknown time before
_PHASES = ("blocked", "dns", "connect", "send", "wait")  # of HAR's timings, until the response begins
_LONGEST = 86_400  # seconds of a call; more than that comes from a wrong clock
_REQUESTS = (b"request", b"req", b"reqBody", b"requestBody")  # members that hold a request
_LOOKED_AT = 64  # lines at a file's beginning: a proxy may write other records before its first call


class _Members:
    """The members of a record by path; an object on the way is sliced once."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self._sides = {"": members}

    def at(self, path: str) -> bytes:
        side, _, name = path.rpartition(".")
        members = self._sides.get(side)
        if members is None:
            members = self._sides[side] = sliced_members(self.at(side))
        return members.get(name, b"")

    def text(self, paths: Paths) -> str:
        return next((text_of(raw) for path in paths if (raw := self.at(path))[:1] == b'"'), "")

    def time(self, paths: Paths) -> float | None:
        return next((time for path in paths if (time := decode_time(self.at(path))) is not None), None)

    def content(self, paths: Paths) -> Content:
        """Return the first content; a parsed stream (`events`) only if the body is not recorded."""
        for path in paths:
            if (raw := self.at(path)) not in (b"", b"null"):
                content = Content(raw, "events") if path.endswith("events") else content_of(raw)
                if content.form != "nothing":
                    return content
        return NO_CONTENT


def call_in(members: dict[str, bytes], layout: Layout = COMMON) -> Http:
    """Return the call in the members of a record; what is missing or of another type is unknown."""
    record = _Members(members)
    at, ended = record.time(layout.at), record.time(layout.ended)
    answered = record.time(layout.answered)
    if answered is not None and (ended is None or answered > ended - _BEFORE_END):
        answered = None
    if "timings" in members and at is not None and (waited := _waited(members["timings"])) is not None:
        answered = at + waited
    lasted = _after(at, members.get("time", b""), 1000) if "startedDateTime" in members else None
    return Http(
        url=text_in(record.at(layout.origin)) + record.text(layout.url),
        method=record.text(layout.method),
        headers=headers_of(next((raw for path in layout.headers if (raw := record.at(path))), b"")),
        request=record.content(layout.request),
        status=next((found for path in layout.status if (found := status_of(record.at(path))) is not None), None),
        response_headers=headers_of(next((raw for path in layout.response_headers if (raw := record.at(path))), b"")),
        response=record.content(layout.response),
        at=at,
        answered=answered,
        ended=lasted or _after(at, record.at("replay.seconds")) or ended,
        served_by=text_in(members.get("served_by", b"")),
        purpose=text_in(members.get("purpose", b"")),
    )  # fmt: skip


def _http_at(data: bytes) -> Http | None:
    members = raw_members(data)
    if members is None:
        return None
    return Http() if len(data) < _SMALL and _NAMED.search(data) is None else call_in(members)


def _after(at: float | None, raw: bytes, unit: float = 1.0) -> float | None:
    """Return the time a number of seconds (or units of one) after another; None without such a number."""
    try:
        passed = float(raw) / unit if raw else 0.0
    except ValueError:
        return None
    return at + passed if at is not None and 0 < passed < _LONGEST else None


def _waited(raw: bytes) -> float | None:
    """Return the seconds from the start of a call to the first byte of its response, from HAR's timings.

    They are milliseconds, and -1 if a phase does not apply; `ssl` is part of `connect`.
    """
    timings = sliced_members(raw)
    if "wait" not in timings:
        return None
    try:
        phases = [decode(timings[key]) for key in _PHASES if key in timings]
        waited = sum(max(float(phase), 0.0) for phase in phases if isinstance(phase, int | float)) / 1000
        return waited if waited < _LONGEST else None
    except (ValueError, RecursionError, OverflowError):
        return None


class Captures(Documents):
    """Reader of a document that lists calls in the common layout."""

    def call(self, data: bytes) -> Http | None:
        return _http_at(data)


class Cassette(Captures):
    """Reader of JSON cassettes whose bodies are objects with a `kind`: json, text, binary, sse.

    A binary body may be in a file next to the cassette, which a reader cannot open: such a request is a problem.
    """

    name: ClassVar[str] = "cassette"
    paths: ClassVar[tuple[str, ...]] = (".entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"entries"', b'"request"')


class ClaudeTap(Captures):
    """Reader of claude-tap's exports: bodies parsed, streams reassembled.

    A packet of method WEBSOCKET is one frame that asks for a response, with this response; its body names the response
    that it continues.
    """

    name: ClassVar[str] = "claude-tap"
    paths: ClassVar[tuple[str, ...]] = (".packets",)
    words: ClassVar[tuple[bytes, ...]] = (b'"packets"', b'"method"', b'"request"')


class Har(Captures):
    """Reader of HAR, as browsers, mitmproxy and PollyJS write it."""

    name: ClassVar[str] = "har"
    paths: ClassVar[tuple[str, ...]] = (".log.entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"log"', b'"entries"')


class ProxyList(Captures):
    """Reader of an array of calls: what a proxy logged, or nock recorded."""

    name: ClassVar[str] = "proxy-list"
    paths: ClassVar[tuple[str, ...]] = ("",)
    words: ClassVar[tuple[bytes, ...]] = (b'"response"',)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        is_nock = b'"scope"' in head and b'"method"' in head
        return (is_nock or (b'"request"' in head and b'"headers"' in head)) and super().recognises(head)

    def call(self, data: bytes) -> Http | None:
        members = raw_members(data) if b'"scope"' in data else None
        return _nock_call(members) if members is not None and "scope" in members else _http_at(data)


def _nock_call(members: dict[str, bytes]) -> Http:
    """Return a call that nock recorded: headers are a flat list, a compressed response is a list of hex strings."""
    headers, response = members.get("rawHeaders", b""), members.get("response", b"")
    flat = array(headers) if headers[:1] == b"[" else []
    if flat and all(one[:1] == b'"' for one in flat):
        pairs = (b"[" + name + b"," + value + b"]" for name, value in zip(flat[::2], flat[1::2], strict=False))
        headers = b"[" + b",".join(pairs) + b"]"
    pieces = array(response) if response[:2] == b'["' else []
    try:
        binary = b"".join(bytes.fromhex(text_of(piece)) for piece in pieces)
    except ValueError:
        binary = b""
    if binary:
        response = b'{"base64_string":' + encode(base64.b64encode(binary).decode()) + b"}"
    return call_in({**members, "rawHeaders": headers, "response": response}, NOCK)


class ProxyLines(RecordReader):
    """Reader of logs of recording proxies: a call a line, or its request and its response on two lines.

    Two such lines have the same id, and say in `type` or `kind` which half they are. A request is held until its
    response comes; if too many wait, the oldest is read without one.
    """

    name: ClassVar[str] = "proxy"

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, Line] = {}  # requests by id
        self._held_bytes = 0

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for number, line in enumerate(nonblank_lines(head)):
            if number == _LOOKED_AT:
                break
            if any(b'"%b"' % name in line for name in _REQUESTS) and _holds_call(raw_members(line) or {}):
                return True
        return False

    def _record(self, line: Line) -> list[Read] | None:
        if is_crowded(line.data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a call is skipped: {too_many()}", line)]
        members = raw_members(line.data)
        if members is None:
            return None
        if len(line.data) < _SMALL and _NAMED.search(line.data) is None:
            return []
        side, name = _half_of(members)
        if side == "request":
            return self._hold(name, line)
        if side:
            return self._answer(name, line)
        return [placed(value, line) for value in exchanges_of(call_in(members))]

    def _hold(self, name: str, line: Line) -> list[Read]:
        before = self._release(name) if name in self._waiting else []
        self._waiting[name] = line
        self._held_bytes += len(line.data)
        while self._held_bytes > CAPTURED_BYTES or len(self._waiting) > CAPTURED_CALLS:
            before += self._release(next(iter(self._waiting)))
        return before

    def _answer(self, name: str, line: Line) -> list[Read]:
        if name not in self._waiting:
            text = "the request of this response is not in the log"
            return [problem(Code.RESPONSE_WITHOUT_REQUEST, text, line)]
        return self._release(name, line.data)

    def _release(self, name: str, response: bytes = b"null") -> list[Read]:
        line = self._waiting.pop(name)
        self._held_bytes -= len(line.data)
        call = call_in({"request": line.data, "response": response})
        return [placed(value, line) for value in exchanges_of(call)]

    def _rest(self) -> list[Read]:
        return [read for name in list(self._waiting) for read in self._release(name)]


_HALVES = {"request": "request", "req": "request", "response": "response", "res": "response"}
_IDS = ("requestId", "request_id", "reqId", "callId", "call_id", "id")


def _half_of(members: dict[str, bytes]) -> tuple[str, str]:
    """Return which half of a call a record is, and the id of the call; empty texts if it is not half of one."""
    side = next(
        (_HALVES.get(text_in(members.get(key, b"")).lower(), "") for key in ("type", "kind") if key in members), ""
    )
    name = next((text for key in _IDS if (text := text_in(members.get(key, b"")))), "")
    has_object = any(members.get(key, b"")[:1] == b"{" for key in ("request", "req"))
    is_whole = has_object or "reqBody" in members or "requestBody" in members
    return (side, name) if side and name and not is_whole else ("", "")


def _holds_call(members: dict[str, bytes]) -> bool:
    """Return whether an object is a call: a request with an address and a body, and a place for the response."""
    if _half_of(members)[0] == "request":
        return bool(ENDPOINT.search(endpoint_of(text_in(members.get("url", b"")), {}))) and "body" in members
    record = _Members(members)
    has_response = any(key in members for key in ("response", "res", "resp", "reqBody", "requestBody"))
    return has_response and bool(record.text(COMMON.url)) and any(record.at(path) for path in COMMON.request)
