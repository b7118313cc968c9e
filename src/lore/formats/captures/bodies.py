"""Read request bodies (Anthropic Messages, OpenAI Chat or Responses, Gemini, Bedrock Converse, and old completions of
a text), alone or in records.

A record is `{"request": body, "response" | "response_sse" | "usage": …, "timestamp" | "ts": …}`, perhaps with `url`,
`headers` and `status`; `request` is the body or its text. The lines of `lore assemble --all --full` are records, too.
The answer or its usage may be a member of the body, too. In a record with other names the body is the object that looks
like one, if an answer, usage, an endpoint or the id of a request in a batch shows that it was sent. A body that is the
whole record, or text, is `wire`; one in a record is `parsed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain as chained
from typing import ClassVar

from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.beginning import BOM, SPACE
from lore.formats.captures.layouts import ASSEMBLED, BODIES, COMMON, Record, call_in
from lore.formats.contents import NO_CONTENT, Content, recorded_body, unescape
from lore.formats.folders import PackMember, PackReader
from lore.formats.http import ANSWERS, ASKED, ENDPOINT, Http, Judged, endpoint_of, exchanges_of, is_body
from lore.formats.lines import Line, LineReader, fault, nonblank_lines, placed, problem
from lore.formats.plain_chat import signs
from lore.formats.values import text_in
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern
from lore.model.events import MAIN
from lore.model.jsonslice import object_of, raw_members
from lore.model.turn import Exchange

_ANSWER = {"response", "response_body", "responseBody", "output", "completion", "usage", "response_sse", "chunks"}
_APART = _ANSWER.union(BODIES.at, BODIES.status, BODIES.cost)  # members that belong to a body's answer
_SEARCHED = 16  # objects of a record in which its body is looked for
_SENT = frozenset(("custom_id", "usage"))
_STREAM = pattern(  # as text, or as a list of events
    rb'(?:\[\s*)?"(?:event:|data: ?\{)|'
    rb'\[\s*\{\s*"(?:type"\s*:\s*"(?:message_start|response\.)|messageStart"|(?:id|object|candidates)")'
)
_AROUND = replace(BODIES, url=(*COMMON.url, "endpoint", "request_path"), status=(*COMMON.status, *BODIES.status))
_BEDROCK_ERRORS = {
    "ValidationException": 400, "AccessDeniedException": 403, "ResourceNotFoundException": 404,
    "ThrottlingException": 429,
}  # fmt: skip
_SMALL = 1024  # bytes of a record that is searched for these names before it is sliced
_NAMED = pattern(
    rb'"(?:messages|contents|input|prompt|request|request_body|payload|body)\\*"|\\u'
)  # or a key that is escaped
_HELD = pattern(rb'"(?:messages|contents|input|prompt|request|request_body|payload|body)\\*"\s*:\s*[^\sn]|\\u')
_WRITTEN = frozenset(("turn", "chain", "dialect", "body"))  # `lore assemble --all --full`
# Langfuse's types of observations that call no model
_OTHER_SPAN = pattern(rb'"(?:SPAN|EVENT|AGENT|TOOL|CHAIN|RETRIEVER|EVALUATOR|EMBEDDING|GUARDRAIL)"')


class Bodies(LineReader):
    """Reader of request bodies."""

    name: ClassVar[str] = "bodies"

    def __init__(self, first_request: bytes | None = None) -> None:
        """Make a reader; `first_request` is the file's first request, if it was sliced to recognise the file."""
        super().__init__()
        self._first_request = first_request

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        text = head.removeprefix(BOM).lstrip(SPACE)
        lines = chained((line.strip(SPACE) for line in nonblank_lines(head)), (text,))
        if any(line[:1] == b"{" and isinstance(next(iter(_read_object(line)), None), Exchange) for line in lines):
            return True
        # a beginning that names the members of a request body, if its JSON is damaged
        has_model = b'"model"' in text
        is_chat = b'"messages"' in text or (has_model and (b'"system"' in text or b'"tools"' in text))
        is_gemini = b'"contents"' in text and b'"parts"' in text
        is_responses = has_model and b'"input"' in text and any(b'"%b"' % name.encode() in text for name in ASKED)
        if text[:1] != b"{" or not (is_chat or is_gemini or is_responses) or raw_members(text) is not None:
            return False
        is_damaged = fault(next(nonblank_lines(head), b"")) != ""  # what decodes all of it comes last
        return is_damaged and not signs.are_lines(head) and not signs.is_document(head)

    def _record(self, line: Line) -> list[Read] | None:
        text = line.data.strip(SPACE)
        if self._first_request is not None and self._first_request == text:
            text, self._first_request = self._first_request, None
        return [placed(value, line) for value in _read_object(text)] or None

    def _read_other(self, line: Line) -> list[Read]:
        is_span = _NAMED.search(line.data) is not None and _HELD.search(line.data) is None  # one that asked nothing
        is_span = is_span or _OTHER_SPAN.fullmatch((raw_members(line.data) or {}).get("type", b"")) is not None
        unknown = problem(Code.REQUEST_NOT_JUDGED, "a record without a request body that lore knows", line)
        return [] if is_span else [unknown]


class BodyPairs(PackReader):
    """Reader of a folder of `*.request.json` and `*.response.json`, which Claude Code writes on request.

    Each request is followed by its response (`corpus` finds the pairs). Bodies are the wire's; a response without its
    request is a problem. Pairs of other providers are read in the same way.
    """

    name: ClassVar[str] = "body-pairs"

    def __init__(self) -> None:
        super().__init__()
        self._request: tuple[PackMember, Http] | None = None  # one that awaits its response

    def _read(self, member: PackMember) -> Iterable[Read]:
        """Return what a file completes: the waiting request comes first, if this file is its unreadable response."""
        return chained(self._flush() if member.header.fault else [], super()._read(member))

    def _read_member(self, member: PackMember) -> Sequence[Judged | Read]:
        """Return the call of a response and the request before it; a request waits for its response."""
        header, data = member.header, member.data.strip()
        if header.lacks_request:
            return [Problem(Code.RESPONSE_WITHOUT_REQUEST, f"{header.name}: a response whose request is not recorded")]
        if self._request is not None:
            if raw_members(data) is None:
                text = f"{header.name}: a response that is no JSON object"
                return [*self._flush(), Problem(Code.UNREADABLE_LINE, text)]
            request, call = self._request
            self._request = request, replace(call, response=Content(data, "json"))
            return self._flush()
        body = recorded_body(data)
        if body is None:
            return [Problem(Code.REQUEST_NOT_JUDGED, f"{header.name}: no request body that lore knows")]
        self._request = member, Http(request=Content(body[0], "json"), fidelity="wire", at=header.at)
        return [] if header.has_response else self._flush()

    def _flush(self) -> list[Read]:
        if self._request is None:
            return []
        (member, call), self._request = self._request, None
        return list(map(member.placed, exchanges_of(call)))


def _read_object(data: bytes, *, part: str = "") -> list[Judged]:
    """Return the request of a JSON object, and a problem if the API refused it; nothing if it has no body.

    Each member of an object whose members are all calls is a request of its own; without an answer it is a conversation
    of its own, too: names have no order. `part` is the name of such a member, which is not searched for calls again.
    """
    if len(data) < _SMALL and _NAMED.search(data) is None:  # not worth slicing: there may be a million
        return []
    members = raw_members(data)
    if members is None:
        return []
    if is_body(members):
        if not members.keys().isdisjoint(_ANSWER):
            apart = {name: raw for name, raw in members.items() if name in _APART}
            body = object_of({name: raw for name, raw in members.items() if name not in apart})
            http = _search(apart, call_in(Record({**apart, "request": body}), BODIES))
            if http.response is not NO_CONTENT or http.usage is not None:
                return exchanges_of(replace(http, is_export=True))
        return exchanges_of(Http(request=Content(data, "json", members), fidelity="wire", session=part))
    http = call_in(Record(members), ASSEMBLED if members.keys() >= _WRITTEN else BODIES)
    if http.request.form == "json" and not is_body(http.request.members):
        http = replace(http, request=NO_CONTENT, response=NO_CONTENT)
    is_whole = http.request is NO_CONTENT and not part and len(members) > 1
    if is_whole and all(raw[:1] == b"{" for raw in members.values()):  # calls by their names or hashes
        several = [_read_object(raw, part=name) for name, raw in members.items()]
        if all(several):
            return [*chained(*several)]
    if http.request is NO_CONTENT or (http.response is NO_CONTENT and http.usage is None):
        http = _search(members, http)
    session = part if http.response is NO_CONTENT and http.usage is None else http.session
    return exchanges_of(replace(http, is_export=True, session=session, agent="" if http.agent == MAIN else http.agent))


def _search(members: dict[str, bytes], http: Http) -> Http:
    """Return the call in a record whose bodies have unknown names: they are recognised by their members."""
    request, response, around, objects = http.request, http.response, dict[str, bytes](), [members]
    for candidate in objects:
        around = {**candidate, **around}
        for raw in candidate.values():
            text = unescape(raw) if raw[:2] == b'"{' else raw
            inner = raw_members(text) if text[:1] == b"{" and raw is not request.raw else None
            if inner is None:
                if response is NO_CONTENT and _STREAM.match(raw) is not None:
                    response = Content(raw, "text" if raw[:1] == b'"' else "events")
            elif request is NO_CONTENT and is_body(inner):
                request = Content(raw, "json" if text is raw else "text")
            elif response is NO_CONTENT and inner.keys() & ANSWERS:
                response = Content(raw, "json" if text is raw else "text")
            elif text is raw and len(objects) < _SEARCHED:
                objects.append(inner)
    if http.request is NO_CONTENT:
        http = call_in(Record(around), _AROUND)
        if (model := text_in(around.get("modelId", b""))) and not http.url:  # Bedrock's log of invocations
            error = text_in(around.get("errorCode", b""))
            http = replace(
                http, url=f"https://bedrock-runtime.amazonaws.com/model/{model}/invoke", failure=error,
                status=_BEDROCK_ERRORS.get(error, 500) if error else http.status,
            )  # fmt: skip
        is_sent = response is not NO_CONTENT or around.keys() & _SENT or ENDPOINT.search(endpoint_of(http.url, {}))
        request = request if is_sent else NO_CONTENT
    return replace(http, request=request, response=response)
