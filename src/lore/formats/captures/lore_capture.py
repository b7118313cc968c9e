"""Read the journal of HTTP calls that `lore record` writes, every body byte for byte.

A run of the recorder begins with `{"lore_capture": 1, "at", "lore", "upstreams"}`. A call is several records with the
same `call`; `part` is `request` or `response`. The first record of a request has `method`, `url` and `headers`, the
first of a response `status` and `headers`. `body` is text, `base64` other bytes; `more` says that a later record
continues the body; `ended` says how the call ended. `at` is RFC 3339; `arrived` holds pairs of milliseconds since the
request and bytes.

Calls may overlap: their records are joined by `call`, and they are read in the order in which they ended. A call
without an end (the recorder was killed) is read when a later run begins, or at the end of the file. Memory for open
calls is bounded: if it is exceeded, the oldest call is read without its rest.
"""

from __future__ import annotations

import base64
from typing import ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.captures.layouts import JOURNAL, Record, call_in
from lore.formats.contents import NO_CONTENT, Content, unescape
from lore.formats.http import ENDPOINT, endpoint_of, exchanges_of
from lore.formats.lines import Line, RecordReader, nonblank_lines, placed, problem
from lore.formats.values import text_in
from lore.model.codes import Code
from lore.model.jsonslice import array, raw_members
from lore.model.limits import BODY_BYTES, CAPTURED_BYTES, CAPTURED_CALLS
from lore.model.mask import cut_masked, mask
from lore.model.times import decode_time

VERSION = 1
_NOT_WRITTEN = "not written whole"  # how a side ends whose records could not be written, as on a full disk


class _Side(Struct):  # a request or a response, as far as it was read
    members: dict[str, bytes] = {}  # of its first record, without the body
    bodies: list[tuple[bool, bytes]] = []  # pieces of a body in several records: whether it is base64, the JSON string
    size: int = 0  # of these pieces
    last: bytes = b""  # `at` of its latest record
    arrived: bytes = b""  # of its latest record


class _RecordedCall(Struct):
    line: Line  # its first record
    size: int = 0  # bytes that are held
    request: _Side = msgspec.field(default_factory=_Side)
    response: _Side = msgspec.field(default_factory=_Side)


class LoreCapture(RecordReader):
    """Reader of the captures of `lore record`."""

    name: ClassVar[str] = "lore-capture"

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, _RecordedCall] = {}  # by their name
        self._held = 0  # bytes

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        opening = raw_members(next(nonblank_lines(head), b"")) or {}
        return "lore_capture" in opening or opening.keys() >= {"call", "part", "at"}  # or its beginning is missing

    def _values(self, members: dict[str, bytes], line: Line) -> list[Read]:
        if (version := members.get("lore_capture")) is not None:
            version_text = cut_masked(version.decode("utf-8", "replace"), 20)
            newer = problem(Code.BAD_HEADER, f"written by a newer lore: version {version_text}", line)
            return [*self._flush(), newer] if version != str(VERSION).encode() else self._flush()
        name, part, reads = text_in(members.get("call", b"")), members.get("part"), list[Read]()
        if not name or part not in (b'"request"', b'"response"'):
            return [problem(Code.UNKNOWN_RECORD, "not a record of a capture", line)]
        call = self._calls.get(name)
        if part == b'"request"' and (call is None or "method" in members):
            reads = [] if call is None else self._close(name)  # another call has the same name
            call = self._calls[name] = _RecordedCall(line)
        elif call is None:  # without a status it is the end of a call that failed before its request was recorded whole
            text = "the request of this response is not in the capture"
            return [problem(Code.RESPONSE_WITHOUT_REQUEST, text, line)] if "status" in members else []
        self._add(call, call.request if part == b'"request"' else call.response, members, line)
        if part == b'"response"':
            reads += [] if members.get("more") == b"true" else self._close(name)
        elif "ended" in members:  # before its body was recorded: usually its server was not reached
            self._take(name)
            reason, endpoint = text_in(members["ended"]), endpoint_of(text_in(members.get("url", b"")), {})
            if "body" in members or reason == _NOT_WRITTEN or ENDPOINT.search(endpoint) is None:
                reads.append(problem(Code.UNKNOWN_RECORD, "a request was not recorded whole; it is skipped", line))
            else:
                text = f"a request to {endpoint} failed: {cut_masked(mask(reason), 300)}"
                reads.append(problem(Code.CALL_FAILED, text, line))
        while len(self._calls) > CAPTURED_CALLS or (len(self._calls) > 1 and self._held > CAPTURED_BYTES):
            reads += self._close(next(iter(self._calls)))
        return reads

    def _add(self, call: _RecordedCall, side: _Side, members: dict[str, bytes], line: Line) -> None:
        """Add a record to its side; a body beyond the limit is kept only so far that the reader sees its size."""
        if not side.members:
            side.members = {key: raw for key, raw in members.items() if key not in ("body", "base64", "arrived")}
        side.last, side.arrived = members.get("at", b""), members.get("arrived", b"") or side.arrived
        if side.size > BODY_BYTES:
            return
        call.size += len(line.data)
        self._held += len(line.data)
        for key in ("body", "base64"):
            raw = members.get(key, b"")
            if raw[:1] == b'"':
                side.bodies.append((key == "base64", raw))
                side.size += len(raw)

    def _take(self, name: str) -> _RecordedCall:
        call = self._calls.pop(name)
        self._held -= call.size
        return call

    def _close(self, name: str) -> list[Read]:
        """Return an open call as an exchange, and drop it."""
        call = self._take(name)
        request, response = call.request, call.response
        http = call_in(Record({}, request=request.members, response=response.members), JOURNAL)
        http = replace(
            http, request=_join_pieces(request.bodies), response=_join_pieces(response.bodies),
            ended=_end_time(http.at, response), account=text_in(request.members.get("account", b"")),
            answered=decode_time(response.members.get("at", b"null")) if "status" in response.members else None,
        )  # fmt: skip
        return [placed(value, call.line) for value in exchanges_of(http)]

    def _flush(self) -> list[Read]:
        return [read for name in list(self._calls) for read in self._close(name)]


def _end_time(sent_at: float | None, response: _Side) -> float | None:
    """Return when the last piece of a response arrived, else when its last record was begun."""
    pairs = array(response.arrived)
    passed = array(pairs[-1])[:1] if pairs else []
    try:
        return sent_at + float(passed[0]) / 1000 if passed and sent_at is not None else decode_time(response.last)
    except ValueError:
        return None


def _join_pieces(pieces: list[tuple[bool, bytes]]) -> Content:
    """Join the pieces of a body, which the recorder cut between characters; return a damaged piece alone."""
    if not pieces:
        return NO_CONTENT
    if len(pieces) == 1:
        return Content(pieces[0][1], "base64" if pieces[0][0] else "text")
    if not any(binary for binary, _ in pieces):
        return Content(b'"' + b"".join(raw[1:-1] for _, raw in pieces) + b'"', "text")
    whole = bytearray()
    for binary, raw in pieces:
        try:
            whole += base64.b64decode(unescape(raw), validate=True) if binary else unescape(raw)
        except ValueError:
            return Content(raw, "base64")
    return Content(b'"' + base64.b64encode(whole) + b'"', "base64")
