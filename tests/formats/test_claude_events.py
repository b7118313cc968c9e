"""Claude Code's telemetry events with bodies: pairs, cut bodies, responses without a request."""

import json

from formats.captures import codes, exchanges, fixture
from helpers.fed import fed
from lore.formats.captures.telemetry import WAITING, ClaudeEvents
from lore.testing import ReaderContract
from model.making import body, dumps

FLAT, OTLP, CUT = (fixture(f"claude-events/{name}.jsonl") for name in ("stable", "breaks", "cut"))


class TestContract(ReaderContract):
    reader = ClaudeEvents
    samples = (FLAT, OTLP, CUT, FLAT.splitlines()[0])


def event(kind, text, **more):
    attributes = {"event.name": kind, "body": text, "session.id": "s", "query_source": "main", **more}
    return dumps({"body": f"claude_code.{kind}", "attributes": attributes}) + b"\n"


def request_event(text="x", **more):
    return event("api_request_body", json.dumps(body(text)), **more)


def replied(name, **more):
    text = json.dumps({"id": name, "usage": {"input_tokens": 1}, "content": []})
    return event("api_response_body", text, **more)


def test_cut_body_is_reported_once():
    assert codes(ClaudeEvents, CUT + CUT.splitlines(keepends=True)[2]) == ["LORE227"]
    assert len(exchanges(ClaudeEvents, CUT)) == 1


def test_response_belongs_to_request_of_its_purpose():
    data = (
        request_event("a")
        + request_event("b", query_source="title")
        + replied("t", query_source="title")
        + replied("m")
    )
    assert [(call.response_id, b'"b"' in call.body) for call in exchanges(ClaudeEvents, data)] == [
        ("t", True),
        ("m", False),
    ]


def test_waiting_requests_are_bounded():
    data = b"".join(request_event(str(n), query_source=str(n)) for n in range(WAITING + 2))
    reader = ClaudeEvents()
    assert len(fed(reader, data)) == 2
    assert len([*reader.end()]) == WAITING
