"""Claude Code's telemetry events with bodies: `claude_code.api_request_body` and `api_response_body`.

In: log records as JSON Lines, flat or OTLP JSON. Out: an exchange for each request whose body is whole. An
event holds at most 60 KB of a body: one that was cut is a problem. A response belongs to the oldest request
without one of the same session, model and purpose; a request is kept back until its response comes, or
`WAITING` others have come.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats.answers import answered
from lore.formats.base import Read
from lore.formats.http import call_of
from lore.formats.lines import Line
from lore.formats.records import RecordReader, first_records
from lore.formats.spans import SpanRecord, span_records
from lore.model.codes import Code, Problem
from lore.model.jsonslice import table
from lore.model.turn import Exchange

WAITING = 16
_REQUEST, _RESPONSE = "api_request_body", "api_response_body"


class _Pending(Struct, frozen=True):
    """A request without a response: the exchange (None: its body was cut), and what its response is known by."""

    exchange: Exchange | None
    key: tuple[str, str, str]
    line: int
    byte: int

    def reads(self) -> list[Problem | Read]:
        """Return the exchange with its place, if there is one."""
        return [] if self.exchange is None else [Read(self.exchange, self.line, self.byte)]


class ClaudeEvents(RecordReader):
    """Reader of Claude Code's events that hold bodies."""

    name: ClassVar[str] = "claude-events"

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[_Pending] = []
        self._cut = False

    def _own(self) -> bytes:
        return msgspec.msgpack.encode((self._cut, self._asked))

    def _remember(self, saved: bytes) -> None:
        self._cut, self._asked = msgspec.msgpack.decode(saved, type=tuple[bool, list[_Pending]])

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if b"api_request_body" not in head and b"api_response_body" not in head:
            return False
        return any(_kind(one) for record in first_records(head) for one in span_records(record))

    def _values(self, data: bytes, line: Line) -> list[Problem | Read]:
        found: list[Problem | Read] = []
        for one in span_records(data):
            kind = _kind(one)
            if kind == _REQUEST:
                found += self._request(one, line)
            elif kind == _RESPONSE:
                found += self._response(one)
        return found

    def _rest(self) -> list[Read]:
        left, self._asked = self._asked, []
        return [read for one in left for read in one.reads() if isinstance(read, Read)]

    def _request(self, one: SpanRecord, line: Line) -> list[Problem | Read]:
        body = _body(one)
        asked, said = None, list[Problem | Read]()
        if body is None:
            said = self._said_once(one)
        else:
            known = call_of({}, table(body) or {})
            session, agent = one.text("session.id") or known.session, one.text("agent.id", "agent_id")
            call = msgspec.structs.replace(known, session=session, agent=agent, purpose=one.text("query_source"))
            asked = Exchange(body, "wire", one.at, call=call)
        self._asked.append(_Pending(asked, _key(one), line.number, line.byte))
        return [*said, *(self._asked.pop(0).reads() if len(self._asked) > WAITING else [])]

    def _response(self, one: SpanRecord) -> list[Problem | Read]:
        body = _body(one)
        said = self._said_once(one) if body is None else []
        place = next((n for n, asked in enumerate(self._asked) if asked.key == _key(one)), None)
        if place is None:
            return said or [Problem(Code.RESPONSE_WITHOUT_REQUEST, "a response whose request is not recorded")]
        asked = self._asked.pop(place)
        if asked.exchange is not None:
            whole = answered(asked.exchange, body or b"{}", at=one.at)
            asked = msgspec.structs.replace(asked, exchange=whole)
        return [*said, *asked.reads()]

    def _said_once(self, one: SpanRecord) -> list[Problem | Read]:
        """Say that bodies were cut, at the first one."""
        if self._cut:
            return []
        self._cut = True
        length = one.text("body_length")
        what = f"a body of {length} bytes" if length.isdigit() else "a body"
        return [Problem(Code.BODY_CUT, f"{what} was cut when it was recorded; cut bodies are not judged")]


def _kind(one: SpanRecord) -> str:
    name = one.text("event.name", "event_name") or one.name
    name = name.removeprefix("claude_code.")
    return name if name in (_REQUEST, _RESPONSE) else ""


def _key(one: SpanRecord) -> tuple[str, str, str]:
    return one.text("session.id"), one.text("model"), one.text("query_source")


def _body(one: SpanRecord) -> bytes | None:
    """Return the body, if it is whole: a text, or JSON that an exporter decoded."""
    text = one.text("body").encode("utf-8", "backslashreplace").strip()
    cut = one.attributes.get("body_truncated", b"false").strip(b'"') == b"true"
    return text if not cut and table(text) is not None else None
