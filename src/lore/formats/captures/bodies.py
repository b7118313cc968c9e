"""Read request bodies (Anthropic Messages, OpenAI Chat or Responses, Gemini, Bedrock Converse), alone or in records.

A record is `{"request": body, "response" | "response_sse" | "usage": …, "timestamp" | "ts": …}`, perhaps with `url`,
`headers` and `status`; `request` is the body or its text. The lines of `lore assemble --all --full` are records, too. A
body that is the whole record, or text, is `wire`; one in a record is `parsed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain as chained
from typing import ClassVar

from msgspec.structs import replace

from lore.formats.answers import LONGEST_NAME, NOTHING, ParsedAnswer, with_response
from lore.formats.base import Read
from lore.formats.beginning import BOM, SPACE
from lore.formats.bills import billed_of, reconcile
from lore.formats.bounds import is_crowded, too_many
from lore.formats.contents import Content, body_text, recorded_body
from lore.formats.folders import PackHeader, PackMember, PackReader, placed
from lore.formats.http import ASKED, call_of, content_answer, endpoint_of, headers_of, is_body, refusal, status_of
from lore.formats.lines import Line, RecordReader, fault, nonblank_lines, problem
from lore.formats.lines import placed as at_line
from lore.formats.plain_chat import signs
from lore.formats.values import text_in
from lore.model.canonical import text_of
from lore.model.codes import Code, Problem
from lore.model.events import MAIN
from lore.model.jsonslice import Sliced, raw_members, sliced_members
from lore.model.mask import cut_masked
from lore.model.times import decode_time
from lore.model.turn import Exchange

_NO_BODY = "a record without a request body that lore knows"


class Bodies(RecordReader):
    """Reader of request bodies."""

    name: ClassVar[str] = "bodies"

    def __init__(self, known: bytes | None = None) -> None:
        """Make a reader of a file; `known` is its first request if that was sliced to recognise the file."""
        super().__init__()
        self._known = known

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        lines = (line.strip(SPACE) for line in nonblank_lines(head))
        if any(line[:1] == b"{" and _exchange(line, answer=False) is not None for line in lines):
            return True
        if not (_looks_like_body(head) and fault(next(nonblank_lines(head), b""))):  # what decodes all of it comes last
            return False
        return not (signs.are_lines(head) or signs.is_document(head))

    def _record(self, line: Line) -> list[Read] | None:
        if line.data[:1] == b"[":
            return super()._record(line)
        if is_crowded(line.data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a request is passed over: {too_many()}", line)]
        text = line.data.strip(SPACE)
        if self._known is not None and self._known == text:
            text, self._known = self._known, None
        values = _request_and_refusal(text)
        return [at_line(value, line) for value in values] if values else None

    def _values(self, data: bytes, line: Line) -> list[Exchange | Problem]:
        del line
        return _request_and_refusal(data) or [Problem(Code.REQUEST_NOT_JUDGED, _NO_BODY)]

    def _odd(self, line: Line) -> list[Read]:
        return [problem(Code.REQUEST_NOT_JUDGED, _NO_BODY, line)]


class BodyPairs(PackReader):
    """Reader of a folder of `*.request.json` and `*.response.json`, which Claude Code writes on request.

    Each request is followed by its response (`corpus` finds the pairs). Bodies are the wire's; a response without its
    request is a problem. Pairs of other providers are read in the same way.
    """

    name: ClassVar[str] = "body-pairs"

    def __init__(self) -> None:
        super().__init__()
        self._request: Read | None = None  # one that awaits its response

    def _read(self, member: PackMember) -> Iterable[Read]:
        """Return a request whose response could not be read before what follows it."""
        before = self._rest() if member.header.fault else []
        return chained(before, super()._read(member))

    def _member(self, member: PackMember) -> list[Exchange | Problem | Read]:
        header, data = member.header, member.data.strip()
        if header.orphan:
            return [Problem(Code.RESPONSE_WITHOUT_REQUEST, f"{header.name}: a response whose request is not recorded")]
        if self._request is not None:
            return self._answered(self._request, header, data)
        body = recorded_body(data)
        if body is None:
            return [Problem(Code.REQUEST_NOT_JUDGED, f"{header.name}: no request body that lore knows")]
        call = call_of({}, raw_members(body.body) or {})
        request = placed(Exchange(body.body, "wire", header.at, call=call), member.number, member.byte, header)
        if not header.awaits:
            return [request]
        self._request = request
        return []

    def _answered(self, request: Read, header: PackHeader, data: bytes) -> list[Exchange | Problem | Read]:
        self._request = None
        if raw_members(data) is None:
            return [request, Problem(Code.UNREADABLE_LINE, f"{header.name}: a response that is no JSON object")]
        assert isinstance(request.value, Exchange)
        return [Read(with_response(request.value, data, at=None), request.line, request.byte, request.file)]

    def _rest(self) -> list[Read]:
        request, self._request = self._request, None
        return [] if request is None else [request]


def _looks_like_body(head: bytes) -> bool:
    text = head.removeprefix(BOM).lstrip(SPACE)
    named = b'"messages"' in text or (b'"model"' in text and (b'"system"' in text or b'"tools"' in text))
    gemini = b'"contents"' in text and b'"parts"' in text
    responses = b'"model"' in text and b'"input"' in text and any(b'"' + name.encode() + b'"' in text for name in ASKED)
    return text[:1] == b"{" and (named or gemini or responses)


def _request_and_refusal(data: bytes) -> list[Exchange | Problem]:
    """Return the request of a record, and a problem if the API refused it; nothing if it has no body."""
    exchange = _exchange(data)
    if exchange is None:
        return []
    call = exchange.call
    refused = call.status and refusal(call.endpoint, call.status, _response(raw_members(data) or {}), call.purpose)
    return [exchange, refused] if refused else [exchange]


def _exchange(data: bytes, *, answer: bool = True) -> Exchange | None:
    """Return the request of a JSON object, without its response if `answer` is off; None if it holds no body."""
    if len(data) < _SMALL and _NAMED.search(data) is None:  # not worth slicing: there may be a million
        return None
    data = data if isinstance(data, Sliced) else data.strip(SPACE)
    record = raw_members(data)
    if record is None:
        return None
    key = _key_in(record)
    if not key:
        return Exchange(Sliced.of(data, record), "wire", call=call_of({}, record))
    given = record.get(key, b"")
    body, fidelity = (body_text(given), "wire") if given[:1] == b'"' else (given, "parsed")
    members = sliced_members(body)
    if not is_body(members):
        return None
    body = Sliced.of(body, members)
    said = _answer(record) if answer else NOTHING
    headers = headers_of(record.get("headers", b""))
    url = text_in(record.get("url", b""))
    status = next((found for key in _STATUS if (found := status_of(record.get(key, b""))) is not None), None)
    at = next((found for key in _TIMES if (found := decode_time(record.get(key, b"null"))) is not None), None)
    call = call_of(headers, members, endpoint=endpoint_of(url, headers), status=status)
    if said.provider:  # that it names itself; ids of calls may come from an earlier provider's answer
        call = replace(call, answered_by=cut_masked(said.provider, LONGEST_NAME))
    if key == "body" and (chain := text_of(record["chain"]) if record["chain"][:1] == b'"' else MAIN) != MAIN:
        call = replace(call, agent=chain)
    return Exchange(
        body, fidelity, at, said.usage, said.verdict, response_id=said.response_id,
        output=said.output, call=call,
    )  # fmt: skip


def _key_in(record: dict[str, bytes]) -> str:
    """Return the name of the member that is the body; empty if the object is the body."""
    if is_body(record):
        return ""
    return "body" if record.keys() >= _WRITTEN else next(filter(record.__contains__, _REQUESTS), _REQUESTS[0])


def _answer(record: dict[str, bytes]) -> ParsedAnswer:
    """Return what a record says of its response; the usage next to a response outweighs the usage in it."""
    found = content_answer(_response(record))
    usage = billed_of(next((record[key] for key in _USAGE if record.get(key, b"null") != b"null"), b"null"))
    return replace(found, usage=reconcile(usage, found.usage, "the record's usage", "its response"))


def _response(record: dict[str, bytes]) -> Content:
    given = (record[name] for name in _RESPONSES if record.get(name, b"null") not in _NONE)
    response = next(given, b"null")
    return Content(response, "text" if response[:1] == b'"' else "events" if response[:1] == b"[" else "json")


_REQUESTS = ("request", "request_body", "payload", "input")  # members that may be the body
_RESPONSES = ("response", "response_body", "output", "response_sse")
_NONE = (b"null", b'""')
_SMALL = 1024  # bytes of a record that is searched for these names before it is sliced
_NAMED = re.compile(rb'"(?:messages|contents|input|request|request_body|payload|body)"|\\u')  # or a key that is escaped
_WRITTEN = frozenset(("turn", "chain", "dialect", "body"))  # `lore assemble --all --full`
_TIMES = ("timestamp", "ts", "time", "at", "created_at", "started_at")
_STATUS = ("status", "status_code")
_USAGE = ("usage", "usageMetadata", "usage_metadata")
