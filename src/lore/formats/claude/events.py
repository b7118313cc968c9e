"""Claude Code's telemetry: events with the bodies of its requests and responses, paired.

In: records of any exporter (`captures/telemetry.py`). Out: exchanges, and problems: an event holds at most 60 KB of a
body, and one that was cut is not judged.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats import http
from lore.formats.answers import answered
from lore.formats.base import Read
from lore.formats.captures.telemetry import SpanRecord, span_records
from lore.formats.lines import Line
from lore.formats.records import RecordReader, first_records
from lore.model.codes import Code, Problem
from lore.model.jsonslice import table
from lore.model.turn import Exchange

WAITING = 16
_REQUEST, _RESPONSE = "api_request_body", "api_response_body"


class _PendingCall(Struct, frozen=True):
    """A request without a response: the exchange (None: its body was cut), and what its response is known by."""

    exchange: Exchange | None
    key: tuple[str, str, str]
    line: int
    byte: int

    def reads(self) -> list[Problem | Read]:
        """Return the exchange with its place, if there is one."""
        return [] if self.exchange is None else [Read(self.exchange, self.line, self.byte)]


class ClaudeEvents(RecordReader):
    """Claude Code's events with bodies: `claude_code.api_request_body` and `api_response_body`.

    An event holds at most 60 KB of a body: one that was cut is a problem. A response belongs to the oldest request
    without one of the same session, model and purpose; a request is kept back until its response comes, or
    `WAITING` others have come.
    """

    name: ClassVar[str] = "claude-events"

    def __init__(self) -> None:
        super().__init__()
        self._pending: list[_PendingCall] = []
        self._cut = False

    def _save(self) -> bytes:
        return msgspec.msgpack.encode((super()._save(), self._cut, self._pending))

    def _load(self, saved: bytes) -> None:
        held, self._cut, self._pending = msgspec.msgpack.decode(saved, type=tuple[bytes, bool, list[_PendingCall]])
        super()._load(held)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return any(_kind(span) for record in first_records(head) for span in span_records(record))

    def _values(self, data: bytes, line: Line) -> list[Problem | Read]:
        found: list[Problem | Read] = []
        for span in span_records(data):
            kind = _kind(span)
            if kind == _REQUEST:
                found += self._request(span, line)
            elif kind == _RESPONSE:
                found += self._response(span)
        return found

    def _rest(self) -> list[Read]:
        left, self._pending = self._pending, []
        return [read for request in left for read in request.reads() if isinstance(read, Read)]

    def _request(self, span: SpanRecord, line: Line) -> list[Problem | Read]:
        body = _body(span)
        request, problems = None, list[Problem | Read]()
        if body is None:
            problems = self._cut_once(span)
        else:
            known = http.call_of({}, table(body) or {})
            session, agent = span.text("session.id") or known.session, span.text("agent.id", "agent_id")
            call = msgspec.structs.replace(known, session=session, agent=agent, purpose=span.text("query_source"))
            request = Exchange(body, "wire", span.at, call=call)
        self._pending.append(_PendingCall(request, _key(span), line.number, line.byte))
        return [*problems, *(self._pending.pop(0).reads() if len(self._pending) > WAITING else [])]

    def _response(self, span: SpanRecord) -> list[Problem | Read]:
        body = _body(span)
        problems = self._cut_once(span) if body is None else []
        place = next((n for n, request in enumerate(self._pending) if request.key == _key(span)), None)
        if place is None:
            return problems or [Problem(Code.RESPONSE_WITHOUT_REQUEST, "a response whose request is not recorded")]
        request = self._pending.pop(place)
        if request.exchange is not None:
            whole = answered(request.exchange, body or b"{}", at=span.at)
            request = msgspec.structs.replace(request, exchange=whole)
        return [*problems, *request.reads()]

    def _cut_once(self, span: SpanRecord) -> list[Problem | Read]:
        """Say that bodies were cut, at the first one."""
        if self._cut:
            return []
        self._cut = True
        length = span.text("body_length")
        what = f"a body of {length} bytes" if length.isdigit() else "a body"
        return [Problem(Code.BODY_CUT, f"{what} was cut when it was recorded; cut bodies are not judged")]


def _kind(span: SpanRecord) -> str:
    name = span.text("event.name", "event_name") or span.name
    name = name.removeprefix("claude_code.")
    return name if name in (_REQUEST, _RESPONSE) else ""


def _key(span: SpanRecord) -> tuple[str, str, str]:
    return span.text("session.id"), span.text("model"), span.text("query_source")


def _body(span: SpanRecord) -> bytes | None:
    """Return the body, if it is whole: a text, or JSON that an exporter decoded."""
    text = span.text("body").encode("utf-8", "backslashreplace").strip()
    cut = span.attributes.get("body_truncated", b"false").strip(b'"') == b"true"
    return text if not cut and table(text) is not None else None
