"""Read HTTP calls as proxies, cassettes, browsers and exports record them, by the table of paths in `layouts.py`.

A recorder that writes a document, not lines, gets a class of three lines: where its list is, and which words the
beginning of its files must hold.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.answers import is_stream
from lore.formats.base import Read
from lore.formats.beginning import BOM, SPACE, array_at, members_of
from lore.formats.bills import decode_usage
from lore.formats.captures.layouts import COMMON, HALVES, NOCK, Record, call_in
from lore.formats.contents import Content, build_array, unescape
from lore.formats.http import ANSWERS, Http, Judged, exchanges_of, is_body, status_of
from lore.formats.lines import Line, RecordReader, nonblank_lines, placed, problem, too_much
from lore.formats.values import text_in
from lore.model.canonical import encode, text_of
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.jsonslice import array, object_of, raw_members
from lore.model.limits import CAPTURED_BYTES, CAPTURED_CALLS, ENTRY_BYTES
from lore.model.turn import Exchange

_NAMES = {path.rpartition(".")[2] for paths in (COMMON.url, COMMON.request) for path in paths}
_NAMED = pattern(b'"(?:%s)"|\\\\u' % "|".join(sorted(_NAMES)).encode())  # or an escaped key
_SMALL = 1024  # bytes of a record that is searched for these names before it is parsed: there may be a million
_LOOKED_AT = 64  # lines at a file's beginning: a proxy may write other records before its first call


class CallReader(RecordReader):
    """A reader of records that are calls."""

    def _values(self, members: dict[str, bytes], line: Line) -> list[Judged]:
        is_small = len(line.data) < _SMALL and _NAMED.search(line.data) is None  # surely no call
        return [] if is_small else exchanges_of(self.call(members))

    def call(self, members: dict[str, bytes]) -> Http:
        return call_in(Record(members))


class Documents(CallReader):
    """A reader of documents that list calls; a format names `paths` and the words that its beginning must hold."""

    name: ClassVar[str]
    reads_arrays: ClassVar[bool] = False
    words: ClassVar[tuple[bytes, ...]]
    longest: ClassVar[int] = ENTRY_BYTES

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if not all(word in head for word in cls.words):
            return False
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return (begin[:1] == b"{" and array_at(head, cls.paths) >= 0) or (begin[:1] == b"[" and "" in cls.paths)

    def _unreadable(self, line: Line, reason: str = "") -> Sequence[Read]:
        if line.data:
            return super()._unreadable(line, reason)
        return (problem(Code.CAPTURE_TOO_LARGE, f"an entry is passed over: {too_much(self.longest)}", line),)


class Cassette(Documents):
    """Reader of JSON cassettes whose bodies are objects with a `kind`: json, text, binary, sse.

    A binary body may be in a file next to the cassette, which a reader cannot open: such a request is a problem.
    """

    name: ClassVar[str] = "cassette"
    paths: ClassVar[tuple[str, ...]] = (".entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"entries"', b'"request"')


class ClaudeTap(Documents):
    """Reader of claude-tap's exports: bodies parsed, streams reassembled.

    A packet of method WEBSOCKET is one frame that asks for a response, with this response; its body names the response
    that it continues.
    """

    name: ClassVar[str] = "claude-tap"
    paths: ClassVar[tuple[str, ...]] = (".packets",)
    words: ClassVar[tuple[bytes, ...]] = (b'"packets"', b'"method"', b'"request"')


class Har(Documents):
    """Reader of HAR, as browsers, mitmproxy and PollyJS write it."""

    name: ClassVar[str] = "har"
    paths: ClassVar[tuple[str, ...]] = (".log.entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"log"', b'"entries"')


class ProxyList(Documents):
    """Reader of an array of calls: what a proxy logged, or nock recorded."""

    name: ClassVar[str] = "proxy-list"
    paths: ClassVar[tuple[str, ...]] = ("",)
    words: ClassVar[tuple[bytes, ...]] = (b'"response"',)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        names = members_of(head.removeprefix(BOM).lstrip(SPACE)[1:])
        is_call = names.keys() >= {"scope", "method"} or (b'"headers"' in head and "request" in names)
        return is_call and super().recognises(head)

    def call(self, members: dict[str, bytes]) -> Http:
        if "scope" not in members:
            return super().call(members)
        # nock writes headers as a flat list, a compressed response as hex strings, and the host apart from the path
        url = encode(text_in(members["scope"]) + text_in(members.get("path", b"")))
        headers, response = members.get("rawHeaders", b""), members.get("response", b"")
        flat = array(headers) if headers[:1] == b"[" else []
        if flat and all(element[:1] == b'"' for element in flat):
            headers = build_array(build_array(pair) for pair in zip(flat[::2], flat[1::2], strict=False))
        pieces = array(response) if response[:2] == b'["' else []
        try:
            binary = b"".join(bytes.fromhex(text_of(piece)) for piece in pieces)
        except ValueError:
            binary = b""
        if binary:
            response = b'{"base64_string":' + encode(binascii.b2a_base64(binary, newline=False).decode()) + b"}"
        return call_in(Record({**members, "path": url, "rawHeaders": headers, "response": response}), NOCK)


class ProxyLines(CallReader):
    """Reader of logs of recording proxies, a call a line."""

    name: ClassVar[str] = "proxy"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in islice(nonblank_lines(head), _LOOKED_AT):
            members = raw_members(line) or {}
            record = Record(members)
            has_response = not members.keys().isdisjoint(("response", "res", "resp", "reqBody", "requestBody"))
            if has_response and record.text(COMMON.url) and any(map(record.at, COMMON.request)):
                return True
        return False


# They say what a record is.
_WORDS = ("type", "direction", "dir", "from", "event", "kind", "phase", "stage", "msg", "message")
_SENT = {"out", "outbound", "outgoing", "sent", "send", "client", "->", ">", "→"}
_RECEIVED = {"in", "inbound", "incoming", "received", "recv", "server", "<-", "<", "←"}
_REQUEST = pattern(r"(?:^|[^a-z])req(?:uest)?(?:$|[^a-z])")
_RESPONSE = pattern(r"(?:^|[^a-z])(?:resp?(?:onse)?|reply|error|ended|end|completed?|done|finished)(?:$|[^a-z])")
_IDS = ("request_id", "requestId", "req_id", "reqId", "call_id", "callId", "exchange_id", "correlation_id",
        "correlationId", "flow_id", "id", "uuid", "seq")  # fmt: skip
_INNER = ("data", "payload", "params", "kwargs", "body", "http")  # members that may hold all others
_HALVES = {"request": ("request", "req", *_INNER), "response": ("response", "res", "resp", "result", *_INNER)}
_WHOLE = {"response", "response_body", "responseBody", "response_sse", "resBody", "res", "resp", "output", "usage"}
_BODIES = _WHOLE | ANSWERS | {*_INNER, "error"}
_STATUS = ("status", "status_code", "statusCode")
_PIECE = pattern(r"(?:^|[^a-z])(?:chunk|delta|sse|stream(?:_?event)?)(?:$|[^a-z])")
_EVENT = pattern(r"message_|content_block_|ping$")  # a record that is an event itself
_IN_EVENT = {"response", "sequence_number", "output_index", "item_id"}  # one is in each event of the Responses API
_OF_HTTP = {"status", "headers", "body", "data"}  # in no event
_HOLDERS = ("chunk", "delta", "data", "event", "body", "payload", "response", "line", "raw")
_CONTENTS = {"content", "choices", "candidates", "output"}  # one is in a whole answer
_LAST = pattern(rb"message_stop|\[DONE\]|response\.(?:completed|incomplete|failed|done)")


class OpenCall(Struct):
    """A call whose records have not all come."""

    line: Line  # its first record
    size: int = 0  # bytes that are held


C = TypeVar("C", bound=OpenCall)


class JoinedCalls(RecordReader, Generic[C]):
    """A reader of calls that are in several records, which have the name of their call. A format implements `_close`.

    Memory for open calls is bounded: if it is exceeded, the oldest one is read without its rest.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, C] = {}  # by their name
        self._held = 0  # bytes

    def _hold(self, call: C, line: Line) -> None:
        call.size += len(line.data)
        self._held += len(line.data)

    def _take(self, name: str) -> C:
        call = self._calls.pop(name)
        self._held -= call.size
        return call

    def _close(self, name: str) -> list[Read]:
        """Return an open call as an exchange, and drop it."""
        raise NotImplementedError

    def _close_oldest(self) -> list[Read]:
        """Close the oldest calls until the others are within the bounds."""
        reads = list[Read]()
        while len(self._calls) > CAPTURED_CALLS or (len(self._calls) > 1 and self._held > CAPTURED_BYTES):
            reads += self._close(next(iter(self._calls)))
        return reads

    def _flush(self) -> list[Read]:
        return [read for name in list(self._calls) for read in self._close(name)]


class _HalfCall(OpenCall, kw_only=True):
    request: dict[str, bytes]
    response: dict[str, bytes] = {}  # status and headers, if its body follows; the last record of the answer
    pieces: list[bytes] = []  # of a streamed answer, JSON


class ProxyHalves(JoinedCalls[_HalfCall]):
    """Reader of logs in which the request and the response of a call are records of their own, joined by an id.

    A record says by `type`, `direction`, `event` or a member like these that it is a request or a response (or an
    error); answers may come in any order. It is a call of HTTP (an address and a body), or an SDK's: the fields of the
    body, alone or in a member. The pieces of a streamed answer may be records of their own. A call without the end of
    its answer is read when its id comes again, or at the end of the file.
    """

    name: ClassVar[str] = "proxy-halves"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = b"\n".join(islice(nonblank_lines(head), _LOOKED_AT))
        return any(isinstance(read.value, Exchange) for read in cls().read([begin]))

    def _values(self, members: dict[str, bytes], line: Line) -> list[Read]:
        names = (*filter(None, (Record(members).text((name,)) for name in _IDS)), "")
        side, reads = _side_of(members), list[Read]()
        known_names = (name for name in names if name in self._calls)
        name = names[0] if side == "request" else next(known_names, names[0])
        call = self._calls.get(name)
        if side == "request":
            reads = [] if call is None else self._close(name)
            call = self._calls[name] = _HalfCall(line, request=members)
        elif call is None:
            lost = problem(Code.RESPONSE_WITHOUT_REQUEST, "the request of this response is not in the log", line)
            return [lost] if side == "response" else []
        elif piece := _piece_in(members, is_answer=side == "response" and not call.pieces):
            call.pieces.append(piece)
        elif side == "response":
            is_begin = not call.pieces and _is_begin(members)
            call.response = members if is_begin else {**call.response, **members}
            if not is_begin:
                return self._close(name)
        else:
            return []
        self._hold(call, line)
        return reads + self._close_oldest()

    def _close(self, name: str) -> list[Read]:
        call = self._take(name)
        sides = {"request": call.request, "response": call.response}
        for side, members in sides.items():  # with those of the object inside it
            objects = (raw_members(members.get(name, b"")) for name in _HALVES[side])
            sides[side] = {**members, **next(filter(None, objects), dict[str, bytes]())}
        http = call_in(Record(sides["request"], **sides), HALVES)
        answers = ((body, inner) for body, inner in _objects(sides["response"], "response") if inner.keys() & ANSWERS)
        answer, answer_members = next(answers, (http.response, dict[str, bytes]()))
        if call.pieces and answer_members.keys().isdisjoint(_CONTENTS):
            http = replace(http, usage=decode_usage(answer_members.get("usage", b"")))
            answer = Content(build_array(call.pieces), "events")
        bodies = (body for body, inner in _objects(sides["request"], "request") if is_body(inner))
        http = replace(http, request=next(bodies, http.request), response=answer)
        return [placed(value, call.line) for value in exchanges_of(http)]


def _side_of(members: dict[str, bytes]) -> str:
    """Return "request" or "response" for a half of a call, as the record says; empty for another record."""
    texts = [text_in(members.get(name, b"")).lower() for name in _WORDS]
    if any(map(_RESPONSE.search, texts)) or not _RECEIVED.isdisjoint(texts):
        return "response" if "request" not in members else ""
    is_request = any(map(_REQUEST.search, texts)) or not _SENT.isdisjoint(texts)
    return "request" if is_request and members.keys().isdisjoint(_WHOLE) else ""


def _is_begin(members: dict[str, bytes]) -> bool:
    """Return whether a response has headers or a successful status, but no body: it follows, or is not recorded."""
    half = next(filter(None, (raw_members(members.get(key, b"")) for key in _HALVES["response"])), members)
    is_success = any((status_of(half.get(key, b"")) or 0) // 100 == 2 for key in _STATUS)
    return (is_success or "headers" in half) and half.keys().isdisjoint(_BODIES)


def _piece_in(members: dict[str, bytes], *, is_answer: bool) -> bytes:
    """Return the piece of a streamed answer in a record; empty without one. The `is_answer` may hold a whole stream."""
    words = (text_in(members.get(name, b"")).lower() for name in _WORDS)
    kind = text_in(members.get("type", b""))
    is_event = members.keys() & _IN_EVENT if kind.startswith("response.") else _EVENT.match(kind)
    if is_event and members.keys().isdisjoint(_OF_HTTP):
        return object_of(members)
    is_piece = any(map(_PIECE.search, words))
    for name in _HOLDERS:
        raw = members.get(name, b"")
        if raw[:1] == b'"' and (is_piece or is_stream(unescape(raw))) and name != "event":
            return b"" if is_answer and not is_piece and _LAST.search(raw) else raw
        if is_piece and raw[:1] == b"{":
            return raw
    return b""


def _objects(members: dict[str, bytes], side: str) -> Iterator[tuple[Content, dict[str, bytes]]]:
    """Yield the objects that may be a half's body: those in its members, and the half without its ids."""
    for name in _HALVES[side]:
        if (body := raw_members(members.get(name, b""))) is not None:
            yield Content(members[name], "json", body), body
    body = {name: raw for name, raw in members.items() if name not in _IDS and not (name in _WORDS and raw[:1] == b'"')}
    yield Content(object_of(body), "json"), body
