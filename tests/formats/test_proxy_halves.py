"""Logs of proxies and SDKs in which the request and the response of a call are records of their own."""

import json
from typing import Any

import pytest

from formats.captures import codes, exchanges
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.captures.recorders import ProxyHalves
from lore.testing import ReaderContract

URL = "https://api.anthropic.com/v1/messages"


def body(number: int) -> dict[str, Any]:
    messages = [{"role": role, "content": "x"} for role in ("user", "assistant") * number]
    return {"model": "claude-sonnet-4-6", "max_tokens": 9, "messages": [*messages, {"role": "user", "content": "x"}]}


def answer(number: int) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100 * number, "output_tokens": 7}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": [], "usage": usage}


def stream(number: int) -> str:
    return f"event: message_start\ndata: {json.dumps({'type': 'message_start', 'message': answer(number)})}\n\n"


def call(number: int, **members: Any) -> dict[str, Any]:
    return {"id": number, "method": "POST", "url": URL, "headers": {}, **members}


HALVES = {  # a request and its response
    "directions": lambda n: ({"dir": "out", "id": n, "body": body(n)}, {"dir": "in", "id": n, "body": answer(n)}),
    "arrows": lambda n: (
        {"direction": "->", "id": n, "body": body(n)}, {"direction": "<-", "id": n, "body": answer(n)},
    ),
    "server's log": lambda n: (
        {"reqId": n, "req": {"url": "/v1/messages", "body": body(n)}, "msg": "incoming request"},
        {"reqId": n, "res": {"statusCode": 200, "body": answer(n)}, "msg": "request completed"},
    ),
    "result": lambda n: (
        {"kind": "llm.request", "id": n, "params": body(n)}, {"kind": "llm.response", "id": n, "result": answer(n)},
    ),
    "http": lambda n: (call(n, type="request", body=body(n)), {"type": "response", "id": n, "body": answer(n)}),
    "text": lambda n: (
        call(n, event="http.request", body=json.dumps(body(n))),
        {"event": "http.response", "id": n, "status": 200, "body": stream(n)},
    ),
    "path": lambda n: (
        {"type": "req", "id": n, "path": "/v1/messages", "payload": body(n)},
        {"type": "res", "id": n, "payload": answer(n)},
    ),
    "own ids": lambda n: (
        {"kind": "request", "id": f"a{n}", "requestId": n, "data": {"url": URL, "body": body(n)}},
        {"kind": "response", "id": f"b{n}", "requestId": n, "data": {"body": answer(n)}},
    ),
    "members": lambda n: (
        {"type": "request", "id": n, "request": body(n)}, {"type": "response", "id": n, "response": answer(n)},
    ),
    "sdk": lambda n: (
        {"event": "llm_request", "call_id": n, **body(n)},
        {"event": "llm_response", "call_id": n, "usage": answer(n)["usage"], "text": "x"},
    ),
    "start and end": lambda n: (
        {"event": "request_start", "id": n, "data": {"request": body(n)}},
        {"event": "request_end", "id": n, "data": {"response": answer(n)}},
    ),
    "words like a stream's": lambda n: (
        call(n, type="request.sent", body=body(n)), {"type": "response.received", "id": n, "body": answer(n)},
    ),
}  # fmt: skip


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


PLAIN = lines(*(half for number in range(3) for half in HALVES["http"](number)))


class TestContract(ReaderContract):
    reader = ProxyHalves
    samples = (PLAIN, PLAIN[:-1])


@each(HALVES)
def test_answers_that_interleave_find_their_requests(halves):
    (first, first_answer), (second, two), (third, three) = (halves(number) for number in range(3))
    data = lines({"type": "log", "msg": "up"}, first, second, two, third, first_answer, three)
    assert recognise(data) is ProxyHalves
    usage_by_size = {len(json.loads(call.body)["messages"]): call.usage for call in exchanges(ProxyHalves, data)}
    usages = {size: (usage.uncached_tokens, usage.read_tokens) for size, usage in usage_by_size.items() if usage}
    assert usages == {1: (5, 0), 3: (5, 100), 5: (5, 200)}


def test_halves_without_id_follow_each_other():
    data = lines({"event": "request", "body": body(0)}, {"event": "response", "body": answer(0)})
    assert [call.usage.output_tokens for call in exchanges(ProxyHalves, data)] == [7]


def test_request_without_answer_is_read_at_the_end():
    data = lines(*HALVES["http"](0), HALVES["http"](1)[0])
    assert [call.usage is None for call in exchanges(ProxyHalves, data)] == [False, True]


def test_answer_without_request_is_a_problem():
    assert codes(ProxyHalves, lines(*HALVES["http"](0), HALVES["http"](1)[1])) == ["LORE226"]


def test_error_is_the_answer_to_its_request():
    error = {"type": "error", "id": 0, "error": {"message": "model not found"}}
    (exchange,) = exchanges(ProxyHalves, lines(HALVES["http"](0)[0], error))
    assert exchange.usage is None
    assert codes(ProxyHalves, lines(HALVES["http"](0)[0], error)) == ["LORE231"]


def test_record_with_both_sides_is_no_half():
    whole = {"type": "request", "id": 1, "request": body(0), "response": answer(0)}
    assert recognise(lines(whole)) is not ProxyHalves


def test_request_is_read_when_its_id_comes_again():
    (first, _), (second, _) = HALVES["http"](0), HALVES["http"](1)
    answered = lines(first, {**second, "id": 0}, {"type": "response", "id": 0, "body": answer(1)})
    calls = [(len(json.loads(call.body)["messages"]), call.usage is None) for call in exchanges(ProxyHalves, answered)]
    assert calls == [(1, True), (3, False)]


EVENTS = [
    {"type": "message_start", "message": answer(2)},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x\ny"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
SSE = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
SPREAD = {  # the answer of one call, in records
    "events": [{"type": "chunk", "id": 7, "chunk": event} for event in EVENTS],
    "records that are events": [{**event, "id": 7} for event in EVENTS],
    "bodies": [{"type": "response", "id": 7, "body": f"data: {json.dumps(event)}\n\n"} for event in EVENTS],
    "pieces of any size": [
        {"type": "response_chunk", "id": 7, "data": SSE[at : at + 40]} for at in range(0, len(SSE), 40)
    ],
    "after the headers": [
        {"type": "response", "id": 7, "status": 200, "headers": {"content-type": "text/event-stream"}},
        {"type": "response_chunk", "id": 7, "data": SSE},
    ],
    "after the status": [{"type": "response", "id": 7, "status": 200}, {"type": "chunk", "id": 7, "data": SSE}],
    "after the status in a member": [
        {"type": "response", "id": 7, "data": {"statusCode": 200}}, {"type": "chunk", "id": 7, "data": SSE},
    ],
}  # fmt: skip


@each([*SPREAD])
@pytest.mark.parametrize("end", [[], [{"type": "response_end", "id": 7}], [{"type": "response.done", "id": 7}]])
def test_answer_spread_over_records_is_joined(spread, end):
    first, answer = HALVES["http"](1)
    data = lines(call(7, type="request", body=body(0)), first, *SPREAD[spread], answer, *end)
    usage_by_size = {len(json.loads(call.body)["messages"]): call.usage for call in exchanges(ProxyHalves, data)}
    assert {size: (usage.read_tokens, usage.output_tokens) for size, usage in usage_by_size.items()} == {
        1: (200, 9),
        3: (100, 7),
    }
    assert codes(ProxyHalves, data) == []


@each("end", [
    {"type": "response", "id": 7, "body": answer(2)},
    {"type": "response_end", "id": 7, "usage": answer(2)["usage"]},
])  # fmt: skip
def test_counts_after_pieces_without_counts_are_read(end):
    pieces = [{"type": "chunk", "id": 7, "delta": text} for text in ("Hel", "lo")]
    (exchange,) = exchanges(ProxyHalves, lines(call(7, type="request", body=body(0)), *pieces, end))
    assert (exchange.usage.read_tokens, exchange.usage.output_tokens) == (200, 7)
