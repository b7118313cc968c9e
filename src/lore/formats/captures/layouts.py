"""The table of captures: under which JSON paths recorders keep the parts of a call.

A record is a JSON object that holds a request and its response. Recorders of HTTP calls agree so far that one row,
`COMMON`, has the paths of all; a recorder whose names are new gets its paths added there. A row of its own is for
records of another kind. A format that writes bodies in its own words (LiteLLM, Inspect, spans) writes the body that was
sent in code, and takes everything else from its row.

Paths are from the recorders' own output or documentation: HAR 1.2 (also PollyJS), VCR (Python, Ruby, betamax, go-vcr),
ExVCR and ReqCassette (Elixir), httpmock (Rust), nock (JavaScript), WireMock, Hoverfly, the test proxy of Azure's SDKs,
claude-tap, claude-trace, vibe-proxy, session-devtools, X-Ray-Claude-Code-Interceptor; LiteLLM's payload reference;
Inspect's log format; Google's replays; OpenTelemetry's conventions for generative AI, 1.37 and later.
`served_by` (the engine that answered) and `purpose` are what `lore replay` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.bills import decode_usage
from lore.formats.contents import NO_CONTENT, Content, content_of, without_matcher
from lore.formats.http import Http, headers_of, status_of
from lore.formats.values import text_in
from lore.model.canonical import decode, text_of
from lore.model.jsonslice import first_element, sliced_members
from lore.model.times import decode_time
from lore.model.turn import Fidelity

Paths = tuple[str, ...]


class Layout(Struct, frozen=True):
    """Paths of the parts of a call in a record; of several paths the first that holds something counts.

    A path is the keys to a value, joined by dots, or a key that has dots itself.
    """

    url: Paths = ()
    method: Paths = ()
    headers: Paths = ()
    request: Paths = ()  # the request body
    status: Paths = ()
    response_headers: Paths = ()
    response: Paths = ()  # the response body
    at: Paths = ()  # when the request was sent
    answered: Paths = ()  # when the response began
    is_logged_late: bool = False  # `answered` may be when the call was logged: one near the end is unknown
    ended: Paths = ()  # when the response was complete
    cost: Paths = ()  # in US dollars
    usage: Paths = ()  # apart from the response
    session: Paths = ()
    agent: Paths = ()
    response_id: Paths = ()  # apart from the response
    deployment: Paths = ()
    failure: Paths = ()  # what the client said of a call that failed, instead of a response


_FAILURE, _FAILED = ("error.message", "error"), ("error.status", "error.status_code", "error.statusCode", "error.code")
_COST = ("response_cost", "cost", "cost_usd", "costUSD", "costUsd", "total_cost", "totalCost", "metadata.cost")
COMMON = Layout(
    url=("request.url", "request.uri", "request.path", "request.urlPath", "req.url", "req.path", "when.path", "url",
         "uri", "path", "RequestUri"),
    method=("request.method", "req.method", "when.method", "method", "RequestMethod"),
    headers=("request.headers", "req.headers", "when.header", "reqHeaders", "headers", "RequestHeaders"),
    request=("request.body", "request.parsed_body", "request.body_json", "request.body_raw", "request.rawBody",
             "request.body_base64", "request.bodyBase64", "request.postData", "request.payload", "request.json",
             "request.request_body", "request.content", "request.body_segments", "req.body", "req.payload", "req.json",
             "when.body", "when.json_body", "when.json_body_str", "reqBody", "requestBody", "request.bodyPatterns",
             "RequestBody"),
    status=("response.status", "status", "response.status_code", "response.statusCode", "response.http_status",
            "response.code", "res.status", "res.statusCode", "resp.status", "resp.statusCode", "then.status",
            "status_code", "statusCode", "http_status", "code", "StatusCode", *_FAILED),
    response_headers=("response.headers", "res.headers", "resp.headers", "then.header", "resHeaders",
                      "ResponseHeaders"),
    response=("response.body", "response.parsed_body", "response.body_json", "response.body_raw", "response.rawBody",
              "response.body_base64", "response.bodyBase64", "response.jsonBody", "response.base64Body",
              "response.events", "response.chunks", "response.body_segments", "response.stream", "response.content",
              "response.payload", "response.json", "res.body", "res.payload", "res.json", "resp.body", "resp.payload",
              "resp.json", "then.body", "resBody", "responseBody", "ResponseBody", "response", "res", "resp"),
    at=("request.timestamp", "request.ts", "req.timestamp", "timestamp", "startedDateTime", "startedAt", "recordedAt",
        "recorded_at", "recorded", "ts"),
    answered=("response.timestamp",), is_logged_late=True, cost=_COST, failure=_FAILURE,
    ended=("logged_at", "response.ts"),
)  # fmt: skip
NOCK = Layout(
    url=("path",), method=("method",), headers=("reqheaders",), request=("body",), status=("status",),
    response_headers=("rawHeaders",), response=("response",),
)  # fmt: skip
# `lore record`: the records of one call joined, without their bodies.
JOURNAL = Layout(
    url=("request.url",), method=("request.method",), headers=("request.headers",), status=("response.status",),
    response_headers=("response.headers",), at=("request.at",),
)  # fmt: skip
BODIES = Layout(
    url=("url",), headers=("headers",), request=("request", "request_body", "payload", "input"),
    status=("status", "status_code", *_FAILED), failure=_FAILURE,
    response=("response.chunks", "response.body", "response", "response_body", "output", "response_sse", "chunks"),
    at=("timestamp", "ts", "time", "at", "created_at", "started_at"),
    usage=("usage", "usageMetadata", "usage_metadata", "response_usage"), cost=_COST,
)  # fmt: skip
# `lore assemble --all --full`
ASSEMBLED = replace(BODIES, request=("body",), agent=("chain",))
LITELLM = Layout(
    url=("api_base",), response=("response",), at=("startTime", "timestamp"), answered=("completionStartTime",),
    ended=("endTime",), status=("error_information.error_code", "metadata.error_information.error_code"),
    failure=("error_information.error_message", "metadata.error_information.error_message"),
    session=("session_id", "litellm_session_id", "conversation_id", "metadata.session_id",
             "metadata.litellm_session_id", "metadata.conversation_id"),
    deployment=("model_id", "hidden_params.model_id"), cost=_COST,
)  # fmt: skip
INSPECT = Layout(at=("timestamp",), response_id=("call.response.id",))
SPANS = Layout(
    url=("server.address",), session=("gen_ai.conversation.id", "session.id"),
    agent=("gen_ai.agent.id", "gen_ai.agent.name"), response_id=("gen_ai.response.id",),
    status=("http.response.status_code", "http.status_code", "error.type"),
    cost=("gen_ai.usage.cost", "operation.cost", "llm.cost.total"),
)  # fmt: skip

_TEXTS = ("url", "method", "session", "agent", "response_id", "deployment", "failure")
_BEFORE_END = 0.05  # seconds
_PHASES = ("blocked", "dns", "connect", "send", "wait")  # of HAR's timings, until the response begins
_LONGEST = 86_400  # seconds of a call; more than that comes from a wrong clock


class Record:
    """The members of a record by path; an object on the way is sliced once."""

    def __init__(self, members: Mapping[str, bytes], **parts: dict[str, bytes]) -> None:
        """Make a record; `parts` are members that are objects, and sliced already."""
        self.members = members
        self._parts = parts

    def at(self, path: str) -> bytes:
        """Return the JSON at a path; empty if the record has no such path."""
        raw = self.members.get(path)
        if raw is not None:
            return raw
        whole, _, name = path.rpartition(".")
        if not whole:
            return b""
        part = self._parts.get(whole)
        if part is None:
            part = self._parts[whole] = sliced_members(self.at(whole))
        return part.get(name, b"")

    def text(self, paths: Paths) -> str:
        """Return the first text, or number as text."""
        values = (without_matcher(self.at(path)) for path in paths)
        return next((text_of(raw) for raw in values if raw[:1] == b'"' or raw.isdigit()), "")

    def time(self, paths: Paths) -> float | None:
        return next((time for path in paths if (time := decode_time(self.at(path))) is not None), None)

    def first(self, paths: Paths) -> bytes:
        return next((raw for path in paths if (raw := self.at(path)) not in (b"", b"null")), b"")

    def content(self, paths: Paths, *, listed: bool = False) -> Content:
        """Return the first content; `listed`: a list is a parsed stream, of events."""
        for path in paths:
            if listed and path.endswith(".content") and self.at(f"{path[: -len('content')]}usage"):
                continue  # of an answer that is the whole
            raw = first_element(self.at(path)) if path == "request.body_segments" else self.at(path)
            if raw not in (b"", b"null"):
                content = Content(raw, "events") if listed and raw[:1] == b"[" else content_of(raw)
                if content.form != "nothing":
                    return content
        return NO_CONTENT


def call_in(record: Record, layout: Layout = COMMON, body: tuple[bytes, Fidelity] | None = None) -> Http:
    """Return the call in a record; missing or malformed parts are unknown. `body` overrides the layout's request."""
    members = record.members
    at, ended = record.time(layout.at), record.time(layout.ended)
    answered = record.time(layout.answered)
    if layout.is_logged_late and answered is not None and (ended is None or answered > ended - _BEFORE_END):
        answered = None
    if "timings" in members and at is not None and (waited := _wait_seconds(members["timings"])) is not None:
        answered = at + waited
    lasted = seconds_after(at, members.get("time", b""), 1000) if "startedDateTime" in members else None
    response = record.content(layout.response, listed=True)
    texts: dict[str, Any] = {name: record.text(paths) for name in _TEXTS if (paths := getattr(layout, name))}
    response_headers = headers_of(record.first(layout.response_headers)) if layout.response_headers else {}
    cost = record.first(layout.cost) or response_headers.get("x-litellm-response-cost", "").encode()
    if layout.failure is _FAILURE and response is not NO_CONTENT:
        del texts["failure"]  # it is not the client's word on this call
    return Http(
        **texts,
        headers=headers_of(record.first(layout.headers)) if layout.headers else {},
        request=Content(body[0], "json") if body else record.content(layout.request),
        fidelity=body and body[1],
        status=next((status for path in layout.status if (status := status_of(record.at(path))) is not None), None),
        response_headers=response_headers,
        response=response,
        at=at, answered=answered, ended=lasted or seconds_after(at, record.at("replay.seconds")) or ended,
        served_by=text_in(members.get("served_by", b"")), purpose=text_in(members.get("purpose", b"")),
        usage=decode_usage(record.first(layout.usage)) if layout.usage else None, cost=cost,
    )  # fmt: skip


def seconds_after(at: float | None, raw: bytes, unit: float = 1.0) -> float | None:
    """Return the time a number of seconds (or units of one) after another; None without such a number."""
    try:
        passed = float(raw) / unit if raw else 0.0
    except ValueError:
        return None
    return at + passed if at is not None and 0 < passed < _LONGEST else None


def _wait_seconds(raw: bytes) -> float | None:
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
