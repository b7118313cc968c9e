"""Calls as proxies, cassettes, browsers and exports capture them: one object with a request and its response.

In: JSON Lines of such objects, or a document that lists them. Out: exchanges. Recorders agree on `request` and
`response` and differ in the names of what is inside; each name here is one that a real recorder writes. What stands
beside the two counts where they say nothing. `served_by` beside them names the engine that
answered, and `purpose` says what a request is for, as `lore replay` writes it: most answers name no engine.

To add a recorder: a row below, with where its list stands (`paths`) and words that its beginning must hold; what only
it calls something goes into the tuples of names.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from lore.formats.base import Read
from lore.formats.bounds import is_crowded, too_many
from lore.formats.contents import NO_CONTENT, Content, content_of
from lore.formats.documents import Documents
from lore.formats.http import Http, exchanges_in, headers_of, status_of
from lore.formats.lines import Line, LineReader, each, placed, problem
from lore.model.canonical import decode, text_of
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.jsonslice import raw_members, sliced_members
from lore.model.times import decode_time

_URL = ("url", "uri", "path")
BODY = ("body", "parsed_body", "body_raw", "rawBody", "postData")
_ANSWER = ("body", "parsed_body", "body_raw", "rawBody", "events", "content")
_STATUS = ("status", "status_code", "statusCode", "http_status", "code")
_NAMED = pattern(b'"(?:%s)"|\\\\u' % "|".join((*_URL, *BODY)).encode())  # or a key that is escaped
_SMALL = 1024  # bytes of a record that is looked through for its keys first
_NOTHING = Http()
_BEFORE_END = 0.05  # a response that was stamped when it was written down began some time before, unknown
_PHASES = ("blocked", "dns", "connect", "send", "wait")  # of HAR's timings, until the response begins
_LONGEST = 86_400  # seconds that a response takes: what is said to be longer is an odd clock
_LOOKED_AT = 64  # lines at a file's beginning: a proxy may note other things before its first call


class _RecordedCall(NamedTuple):
    """The members of a request and of its response, and those that stand beside them."""

    request: dict[str, bytes]
    response: dict[str, bytes]
    beside: dict[str, bytes]


def _call_of(members: dict[str, bytes]) -> _RecordedCall:
    return _RecordedCall(
        sliced_members(members.get("request", b"")), sliced_members(members.get("response", b"")), members
    )


def call_in(members: dict[str, bytes]) -> Http:
    """Read the members of an object; what is missing or of another type is unknown."""
    return _read(_call_of(members))


def _http_at(data: bytes) -> Http | None:
    members = raw_members(data)
    if members is None:
        return None
    return _NOTHING if _says_nothing(data) else call_in(members)


def _says_nothing(data: bytes) -> bool:
    """Tell a record that surely names neither an address nor a body, in one look: there may be a million."""
    return len(data) < _SMALL and _NAMED.search(data) is None


def _read(call: _RecordedCall) -> Http:
    request, response, beside = call
    began = ((request, "timestamp"), (beside, "timestamp"), (beside, "recordedAt"), (beside, "recorded_at"))
    at = next((time for side, key in began if (time := decode_time(side.get(key, b"null"))) is not None), None)
    answered, logged = (
        decode_time(response.get("timestamp", b"null")),
        decode_time(beside.get("logged_at", b"null")),
    )
    if answered is not None and (logged is None or answered > logged - _BEFORE_END):
        answered = None
    return Http(
        url=_text(_URL, request, beside),
        method=_text(("method",), request, beside),
        headers=headers_of(request.get("headers", beside.get("headers", b""))),
        request=_content(request, BODY),
        status=next((found for key in _STATUS for side in (response, beside)
                     if (found := status_of(side.get(key, b""))) is not None), None),
        response_headers=headers_of(response.get("headers", b"")),
        response=_content(response, _ANSWER),
        at=at,
        answered=answered,
        ended=_after(at, sliced_members(beside.get("replay", b"")).get("seconds", b"")) or logged,
        served_by=_text(("served_by",), beside),
        purpose=_text(("purpose",), beside),
    )  # fmt: skip


def _content(side: dict[str, bytes], names: tuple[str, ...]) -> Content:
    """Take the first content there is; a parsed stream (`events`) only where nothing says it whole."""
    for name in names:
        if (raw := side.get(name, b"null")) != b"null":
            content = Content(raw, "events") if name == "events" else content_of(raw)
            if content is not NO_CONTENT and content.form != "nothing":
                return content
    return NO_CONTENT


def _text(names: tuple[str, ...], *sides: dict[str, bytes]) -> str:
    return next((text_of(raw) for side in sides for name in names if (raw := side.get(name, b""))[:1] == b'"'), "")


class Captures(Documents):
    """A document that lists such objects."""

    def call(self, data: bytes) -> Http | None:
        return _http_at(data)


class Cassette(Captures):
    """Cassettes in JSON, each body an object that says its `kind`: json, text, binary, sse.

    A binary body may be kept in a file beside the cassette, which a reader cannot open: such requests are counted.
    """

    name: ClassVar[str] = "cassette"
    paths: ClassVar[tuple[str, ...]] = (".entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"entries"', b'"request"')


class ClaudeTap(Captures):
    """Exports of claude-tap, a recording proxy for coding agents: bodies parsed, streams reassembled.

    A packet of method WEBSOCKET is one frame that asks for a response, with the response that it made: an exchange
    of its own, whose body names the response that it continues.
    """

    name: ClassVar[str] = "claude-tap"
    paths: ClassVar[tuple[str, ...]] = (".packets",)
    words: ClassVar[tuple[bytes, ...]] = (b'"packets"', b'"method"', b'"request"')


class ProxyList(Captures):
    """What `ProxyLines` reads, in one array."""

    name: ClassVar[str] = "proxy-list"
    paths: ClassVar[tuple[str, ...]] = ("",)
    words: ClassVar[tuple[bytes, ...]] = (b'"request"', b'"response"', b'"headers"')


class ProxyLines(LineReader):
    """Logs of recording proxies (claude-trace, vibe-proxy and their like): one `{request, response}` a line.

    `request` has `url`, `headers`, `body` (parsed, or its text), `timestamp` in seconds; `response` has `body`,
    `body_raw` or `events`, or is null where none came.
    """

    name: ClassVar[str] = "proxy"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for number, line in enumerate(each(head)):
            if number == _LOOKED_AT:
                break
            if b'"request"' in line and _holds_call(raw_members(line) or {}):
                return True
        return False

    def _record(self, line: Line) -> list[Read] | None:
        if is_crowded(line.data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a call is passed over: {too_many()}", line)]
        found = exchanges_in(line.data, _http_at)
        return None if found is None else [placed(value, line) for value in found]


def _holds_call(members: dict[str, bytes]) -> bool:
    """Tell an object that holds a call: a request with a body and where it went, and room for a response."""
    request = sliced_members(members.get("request", b""))
    located = any(side.get(key, b"")[:1] == b'"' for side in (request, members) for key in _URL)
    return located and "response" in members and any(key in request for key in BODY)


class Har(Documents):
    """HAR, as browsers, mitmproxy and other proxies export it: bodies as text or base64.

    Source: the HAR 1.2 specification. `timings` are milliseconds, -1 where a phase does not apply; `ssl` is part
    of `connect`. A body in `postData.text` is what was sent.
    """

    name: ClassVar[str] = "har"
    paths: ClassVar[tuple[str, ...]] = (".log.entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"log"', b'"entries"')

    def call(self, data: bytes) -> Http | None:
        members = raw_members(data)
        if members is None:
            return None
        if _says_nothing(data):
            return _NOTHING
        request, response, beside = _call_of(members)
        at, waited = decode_time(beside.get("startedDateTime", b"")), _waited(beside.get("timings", b""))
        return Http(
            url=_text(("url",), request),
            method=_text(("method",), request),
            headers=headers_of(request.get("headers", b"")),
            request=_har_content(request.get("postData", b"")),
            status=status_of(response.get("status", b"")),
            response_headers=headers_of(response.get("headers", b"")),
            response=_har_content(response.get("content", b"")),
            at=at,
            answered=None if at is None or waited is None else at + waited,
            ended=_after(at, beside.get("time", b""), 1000),
        )


def _har_content(raw: bytes) -> Content:
    found = sliced_members(raw)
    text = found.get("text", b"")
    if text[:1] != b'"' or text == b'""':
        return NO_CONTENT
    return Content(text, "base64" if found.get("encoding") == b'"base64"' else "text")


def _after(at: float | None, raw: bytes, unit: float = 1.0) -> float | None:
    """Return the time that lies a number of seconds, or of parts of one, behind another; None for no such number."""
    try:
        passed = float(raw) / unit if raw else 0.0
    except ValueError:
        return None
    return at + passed if at is not None and 0 < passed < _LONGEST else None


def _waited(raw: bytes) -> float | None:
    """Return the seconds from the start of a call to the first byte of its response."""
    timings = sliced_members(raw)
    if "wait" not in timings:
        return None
    try:
        phases = [decode(timings[key]) for key in _PHASES if key in timings]
        waited = sum(max(float(phase), 0.0) for phase in phases if isinstance(phase, int | float)) / 1000
        return waited if waited < _LONGEST else None
    except (ValueError, RecursionError, OverflowError):
        return None
