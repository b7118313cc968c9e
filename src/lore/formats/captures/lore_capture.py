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
import binascii
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from lore.formats.base import Read
from lore.formats.bounds import is_crowded, too_many
from lore.formats.contents import NO_CONTENT, Content, unescape
from lore.formats.http import ENDPOINT, Http, Judged, endpoint_of, exchanges_of, headers_of, status_of
from lore.formats.lines import Line, LineReader, nonblank_lines, placed, problem
from lore.formats.values import text_in
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.jsonslice import array, raw_members
from lore.model.limits import BODY_BYTES, CAPTURED_BYTES, CAPTURED_CALLS
from lore.model.mask import cut_masked, mask
from lore.model.times import decode_time

NAME = "lore-capture"
VERSION = 1
_NOT_WRITTEN = "not written whole"  # how a side ends whose records could not be written, as on a full disk


class _Side(Struct):
    """A request or a response, as far as it was read."""

    members: dict[str, bytes] = {}  # of its first record
    bodies: list[tuple[bool, bytes]] = []  # pieces of the body: whether it is base64, and the JSON string
    size: int = 0
    last: bytes = b""  # `at` of its latest record
    arrived: bytes = b""  # of its latest record


class _OpenCall(Struct):
    """A call that has not ended."""

    number: int  # line and byte of its first record
    byte: int
    request: _Side
    response: _Side
    size: int = 0  # of its records


class LoreCapture(LineReader):
    """Reader of the captures of `lore record`."""

    name: ClassVar[str] = NAME

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, _OpenCall] = {}
        self._held = 0

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        opening = raw_members(next(nonblank_lines(head), b"")) or {}
        return "lore_capture" in opening

    def _record(self, line: Line) -> list[Read] | None:
        if is_crowded(line.data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {too_many()}", line)]
        members = raw_members(line.data)
        if members is None:
            return None
        if (version := members.get("lore_capture")) is not None:
            shown = cut_masked(version.decode("utf-8", "replace"), 20)
            newer = problem(Code.BAD_HEADER, f"written by a newer lore: version {shown}", line)
            return [*self._rest(), newer] if version != str(VERSION).encode() else self._rest()
        name, part = text_of(members.get("call", b'""')), members.get("part")
        if not name or part not in (b'"request"', b'"response"'):
            return [problem(Code.UNKNOWN_RECORD, "not a record of a capture", line)]
        if part == b'"request"':
            return [*self._requested(name, members, line)]
        return [*self._answered(name, members, line)]

    def _requested(self, name: str, members: dict[str, bytes], line: Line) -> Iterator[Read]:
        call = self._calls.get(name)
        if call is None or "method" in members:
            if call is not None:  # another call has the same name
                yield from self._close(name)
            call = self._calls[name] = _OpenCall(line.number, line.byte, _Side(members=_without_body(members)), _Side())
        self._take(call, call.request, members, line)
        if "ended" in members:
            del self._calls[name]
            self._held -= call.size
            yield _failed_request(members, line)
        while self._held > CAPTURED_BYTES or len(self._calls) > CAPTURED_CALLS:
            yield from self._close(next(iter(self._calls)))

    def _answered(self, name: str, members: dict[str, bytes], line: Line) -> Iterator[Read]:
        call = self._calls.get(name)
        if call is None and "status" not in members:
            return  # the end of a call that failed before its request was recorded whole
        if call is None:
            yield problem(Code.RESPONSE_WITHOUT_REQUEST, "the request of this response is not in the capture", line)
            return
        if not call.response.members:
            call.response.members = _without_body(members)
        self._take(call, call.response, members, line)
        if members.get("more") != b"true":
            yield from self._close(name)
            return
        while self._held > CAPTURED_BYTES and len(self._calls) > 1:
            yield from self._close(next(iter(self._calls)))

    def _take(self, call: _OpenCall, side: _Side, members: dict[str, bytes], line: Line) -> None:
        """Add a record's piece of a body; a body beyond the limit is kept only so far that the reader sees its size."""
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

    def _close(self, name: str) -> Iterator[Read]:
        call = self._calls.pop(name)
        self._held -= call.size
        line = Line(call.number, call.byte, b"{")
        return (placed(found, line) for found in _read(call))

    def _rest(self) -> list[Read]:
        return [read for name in list(self._calls) for read in self._close(name)]


def _failed_request(members: dict[str, bytes], line: Line) -> Read:
    """Return the problem of a request that ended before its body was recorded: usually its server was not reached."""
    reason, endpoint = text_in(members["ended"]), endpoint_of(text_in(members.get("url", b"")), {})
    if "body" in members or reason == _NOT_WRITTEN or ENDPOINT.search(endpoint) is None:
        return problem(Code.UNKNOWN_RECORD, "a request was not recorded whole; it is skipped", line)
    return problem(Code.CALL_FAILED, f"a request to {endpoint} failed: {cut_masked(mask(reason), 300)}", line)


def _without_body(members: dict[str, bytes]) -> dict[str, bytes]:
    return {key: raw for key, raw in members.items() if key not in ("body", "base64", "arrived")}


def _read(call: _OpenCall) -> list[Judged]:
    request, response = call.request.members, call.response.members
    return exchanges_of(
        Http(
            url=text_in(request.get("url", b"")),
            method=text_in(request.get("method", b"")),
            headers=headers_of(request.get("headers", b"")),
            request=join_pieces(call.request.bodies),
            status=status_of(response.get("status", b"")),
            response_headers=headers_of(response.get("headers", b"")),
            response=join_pieces(call.response.bodies),
            at=decode_time(request.get("at", b"null")),
            answered=decode_time(response.get("at", b"null")) if "status" in response else None,
            ended=_ended(call),
            account=text_in(request.get("account", b"")),
        )
    )


def _ended(call: _OpenCall) -> float | None:
    """Return when the last piece of a response arrived, else when its last record was begun."""
    began = decode_time(call.request.members.get("at", b"null"))
    pairs = array(call.response.arrived)
    passed = array(pairs[-1])[:1] if pairs else []
    try:
        return began + float(passed[0]) / 1000 if passed and began is not None else decode_time(call.response.last)
    except ValueError:
        return None


def join_pieces(pieces: list[tuple[bool, bytes]]) -> Content:
    """Return the pieces of a body as one content; the recorder cuts between characters. A damaged piece is returned."""
    if not pieces:
        return NO_CONTENT
    if len(pieces) == 1:
        return Content(pieces[0][1], "base64" if pieces[0][0] else "text")
    if not any(binary for binary, _ in pieces):
        return Content(b'"' + b"".join(raw[1:-1] for _, raw in pieces) + b'"', "text")
    found: list[bytes] = []
    for binary, raw in pieces:
        try:
            found.append(base64.b64decode(unescape(raw), validate=True) if binary else unescape(raw))
        except (binascii.Error, ValueError):
            return Content(raw, "base64")
    return Content(b'"' + base64.b64encode(b"".join(found)) + b'"', "base64")
