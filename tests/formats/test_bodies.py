"""Request bodies: one, many, in records; with bills and times."""

import json

import pytest

from helpers.each import each
from helpers.recognising import recognise
from lore.formats.captures.bodies import Bodies
from lore.model import jsonslice
from lore.model.turn import Call, Exchange
from lore.recording.corpus import open_head
from lore.recording.opening import Options
from lore.testing import ReaderContract, everything
from model.making import body, dumps

ONE = body("hello")
PRETTY = json.dumps(ONE, indent=2).encode() + b"\n"
LINES = b"".join(dumps(body(*["x"] * n)) + b"\n" for n in (1, 2, 3))
RECORDS = b"".join(
    dumps({"request": body("x"), "response": {"usage": {"input_tokens": n}}, "timestamp": 1733340928.5 + n}) + b"\n"
    for n in (1, 2)
)


class TestContract(ReaderContract):
    reader = Bodies
    samples = (PRETTY, dumps(ONE), LINES, RECORDS, RECORDS[:-1], b"\xef\xbb\xbf" + LINES)


def read(data):
    return [item.value for item in everything(Bodies(), data)]


def read_single(value):
    values = read(dumps(value) + b"\n")
    assert len(values) == 1
    return values[0]


@pytest.mark.parametrize(
    ("request_name", "response_name"), [("request_body", "response_body"), ("payload", "response"), ("input", "output")]
)
def test_record_with_other_member_names_is_read(request_name, response_name):
    data = dumps({request_name: ONE, response_name: {"id": "m", "usage": {"input_tokens": 7}}}) + b"\n"
    assert recognise(data) is Bodies
    (call,) = read(data)
    assert (json.loads(call.body), call.response_id, call.usage.uncached_tokens) == (ONE, "m", 7)


ANSWER = {"id": "m", "usage": {"input_tokens": 7}}


@each("record, tokens", [
    ({"params": ONE, "result": ANSWER}, 7),
    ({"requestBody": json.dumps(ONE), "responseBody": json.dumps(ANSWER)}, 7),
    ({"id": 3, "exchange": {"sent": {"body": ONE}, "got": {"body": ANSWER}}}, 7),
    ({"payload": ONE, "result": ANSWER}, 7),
    ({"sent": ONE, "got": f"event: message_start\ndata: {json.dumps({'message': ANSWER})}\n\n"}, 7),
    ({"body": ONE, "usage": ANSWER["usage"]}, 7),
    ({"request": ONE, "response": {"text": "hi", **ANSWER}}, 7),
    ({"request": ONE, "response_usage": ANSWER["usage"]}, 7),
    ({"ts": 1.5, **ONE, "response": ANSWER}, 7),
    ({**ONE, "completion": ANSWER, "status": 200}, 7),
    ({**ONE, "usage": ANSWER["usage"], "cost": 0.5}, 7),
    ({"endpoint": "/v1/messages", "body": ONE}, None),
    ({"custom_id": "a", "params": ONE}, None),
    ({"in": ONE, "out": {"content": "x", "tokens_evaluated": 9, "timings": {"prompt_n": 7, "cache_n": 2}}}, 7),
])  # fmt: skip
def test_call_is_found_by_shapes_of_bodies(record, tokens):
    data = dumps(record) + b"\n"
    assert recognise(data) is Bodies
    (call,) = read(data)
    assert json.loads(call.body) == ONE
    assert (call.usage and call.usage.uncached_tokens) == tokens


@each("record", [{"request": ONE, "response": ANSWER}, {"sent": {"url": "x", "body": ONE}, "got": {"body": ANSWER}}])
def test_calls_named_by_their_hashes_are_read(record):
    data = json.dumps({"5e1f": record, "a0b2": record}, indent=2).encode()
    assert recognise(data) is Bodies
    assert [(json.loads(call.body), call.usage.uncached_tokens) for call in read(data)] == [(ONE, 7)] * 2


@each("record", [ONE, {"url": "https://api.anthropic.com/v1/messages", "body": ONE}])
def test_named_requests_without_answers_are_no_conversation(record):
    named = read(json.dumps({"plain": record, "tools": record}, indent=2).encode())
    assert [call.call.session for call in named] == ["plain", "tools"]


@each("answer", [ANSWER, [{"type": "message_start", "message": ANSWER}, {"type": "message_stop"}]])
def test_invocation_log_of_bedrock_names_the_model(answer):
    request = {name: value for name, value in ONE.items() if name != "model"}
    bodies = {"input": {"inputBodyJson": request}, "output": {"outputBodyJson": answer}}
    call = read_single({"schemaType": "ModelInvocationLog", "modelId": "anthropic.claude-x", **bodies})
    assert (json.loads(call.body), call.usage.uncached_tokens) == (request, 7)
    assert call.call.endpoint == "bedrock-runtime.amazonaws.com/model/anthropic.claude-x/invoke"


@each("error, status, problems", [
    ({"message": "prompt is too long", "status": 400}, 400, 1),
    ("Error code: 400 - prompt is too long", None, 1),
    ({"message": "slow down", "status": 429}, 429, 0),
])  # fmt: skip
def test_error_next_to_an_unanswered_request_is_quoted(error, status, problems):
    exchange, *others = read(dumps({"request": ONE, "error": error}) + b"\n")
    assert (exchange.call.status, len(others)) == (status, problems)
    assert all("prompt is too long" in problem.message for problem in others)
    answered = read(dumps({"request": ONE, "response": ANSWER, "error": error}) + b"\n")
    assert len(answered) == 1 or status == 400


@each("error, status, problems", [("ValidationException", 400, 1), ("ThrottlingException", 429, 0)])
def test_invocation_log_of_bedrock_tells_refusals(error, status, problems):
    """A refused request has an `errorCode` and no usage: it was read as one without an answer, and nothing was said."""
    request = {name: value for name, value in ONE.items() if name != "model"}
    record = {"schemaType": "ModelInvocationLog", "modelId": "anthropic.claude-x", "errorCode": error}
    exchange, *others = read(dumps({**record, "input": {"inputBodyJson": request}}) + b"\n")
    assert (exchange.call.status, [problem.code for problem in others]) == (status, ["LORE231"] * problems)


@each("record", [
    {"request": ONE, "response": ANSWER, "response_cost": 0.25},
    {"request": ONE, "response": {"usage": {"prompt_tokens": 7, "cost": 0.25}}},
    {"request": ONE, "response": {"usage": {"prompt_tokens": 7, "total_cost": "0.25"}}},
    {"request": ONE, "response": {"usage": {"prompt_tokens": 7, "cost": {"input": 0.2, "total": 0.25}}}},
    {"request": ONE, "response": {"usage": {"prompt_tokens": 7, "cost_in_usd_ticks": 2_500_000_000}}},
    {"request": ONE, "response": ANSWER, "metadata": {"cost": 0.25}},
    {"call": {"request": {"body": ONE}, "response": {"body": ANSWER}}, "cost_usd": 0.25},
])  # fmt: skip
def test_stated_cost_is_recorded(record):
    assert read_single(record).usage.recorded_dollars == 0.25


def test_body_without_sign_of_sending_is_ignored():
    assert [problem.code for problem in read(dumps({"case": {"prompt": ONE, "wanted": "x"}}) + b"\n")] == ["LORE210"]


@each([{}, {"x": 1}, {"request": {"x": 1}}, {"request": "text"}, {"request": 3}, {"messages": {}}])
def test_record_without_body_is_a_problem(odd):
    values = read(LINES + dumps(odd) + b"\n")
    assert values[-1].code == "LORE210"
    for span in ({"input": None, "id": "s1"}, {"input": {"path": "a.py"}, "type": "TOOL"}):
        assert len(read(LINES + dumps(span) + b"\n")) == len(values) - 1


def test_span_that_keeps_roles_alone_is_no_request():
    span = {"input": {"model": "gpt-5.4", "messages": [{"role": "user"}], "stream": True}, "output": ANSWER}
    assert read(LINES + dumps(span) + b"\n")[-1].code == "LORE210"


RESPONSES = {"model": "gpt-5", "input": [{"role": "user", "content": "x"}]}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
CONVERSE = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": "x"}]}]}


@pytest.mark.parametrize("body", [
    RESPONSES,
    {"model": "gpt-5", "input": "x", "instructions": "I"},
    {"model": "gpt-5", "input": [], "store": False},
    {"model": "gpt-5", "previous_response_id": "r", "input": [{"type": "custom_tool_call_output"}]},
    {"model": "gpt-5", "input": [{"type": "function_call_output", "call_id": "c", "output": "o"}]},
    GEMINI,
    {"contents": [{"parts": [{"text": "x"}]}], "system_instruction": {"parts": []}},
    CONVERSE,
    {"messages": [{"role": "user", "content": [{"text": "x"}]}], "inferenceConfig": {}},
])  # fmt: skip
@each("indent", [None, 1])
def test_bodies_of_every_api_are_recognised(body, indent):
    raw = json.dumps(body, indent=indent).encode()
    call = Call(previous=body.get("previous_response_id", ""))
    assert read(raw) == [Exchange(raw, "wire", call=call)]
    assert read_single({"request": body}).body == dumps(body)
    assert recognise(dumps(body)) is Bodies


@pytest.mark.parametrize("body", [{**RESPONSES, "instructions": "I"}, GEMINI, CONVERSE])
def test_printed_body_is_recognised_by_its_beginning(body):
    assert Bodies.recognises(json.dumps(body, indent=1).encode()[:-2])


def test_broken_printed_body_is_one_problem():
    values = read(PRETTY[:-5])
    assert [value.code for value in values] == ["LORE202"]


@each("head, name", [
    (PRETTY, "bodies"),
    (LINES, "bodies"),
    (dumps({"i": 0}) + b"\n" + RECORDS, "bodies"),
    (b" \r\n" + dumps(ONE), "bodies"),
    (b"\xef\xbb\xbf" + PRETTY, "bodies"),
    (dumps({"x": 1}), None),
    (b'{\n "x": 1\n}', None),
    (b"[1]", None),
    (b"", None),
    (b"\x00\x01", None),
    (dumps({"kind": "append", "item": {}}), "lore"),
    (dumps({"type": "mode", "mode": "x", "sessionId": "s"}), "claude-code"),
])  # fmt: skip
def test_formats_are_recognised_by_content(head, name):
    reader = recognise(head)
    assert (None if reader is None else reader.name) == name


def test_printed_body_with_late_messages_is_recognised(tmp_path):
    tools = [{"name": f"tool_{number}", "input_schema": {"type": "object", "x": "y" * 100}} for number in range(2000)]
    path = tmp_path / "b.json"
    path.write_bytes(json.dumps(body("x", tools=tools), indent=2).encode())
    reader = recognise(open_head(str(path)).head)
    assert reader is Bodies


@each([
    {"messages": [], "foo": 1},
    {"title": "t", "messages": [{"id": 1, "sender": "Bob", "text": "hi"}]},
    {"sessionId": "s", "model": "m", "messages": [{"id": "1", "type": "user", "content": "hi"}]},
    {"info": {"id": "x"}, "messages": [{"info": {"role": "user"}, "parts": []}]},
    {"model": "text-embedding-3-small", "input": "text"},
    {"model": "text-embedding-3-small", "input": ["a", "b"], "encoding_format": "float"},
    {"model": "omni-moderation-latest", "input": [{"type": "text", "text": "x"}]},
    {"model": "gpt-4o-mini-tts", "input": "say it", "voice": "alloy"},
    {"input": [{"role": "user", "content": "x"}], "ideal": "y"},
    {"event": "model", "model": "m", "input": [{"role": "user", "content": "x"}], "tools": [], "output": {}},
    {"id": "run", "model": "m", "input": [{"role": "user", "content": "x"}]},
    {"title": "t", "contents": [{"role": "user", "parts": [{"text": "x"}]}]},
    {"contents": [{"text": "x"}]},
    {"contents": ["x"]},
    {"modelId": "m", "inputText": "x"},
])  # fmt: skip
def test_exports_with_messages_are_not_bodies(export):
    """Session exports of two other agents were taken for one clean request each."""
    assert recognise(json.dumps(export).encode()) is None


class Counting:
    """A decoder that counts how often it is given one text."""

    def __init__(self, decoder, text):
        self._decoder, self._text, self.found = decoder, text, 0

    def decode(self, data):
        self.found += bytes(data).strip() == self._text
        return self._decoder.decode(data)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_recognised_body_is_decoded_once(end, tmp_path, monkeypatch):
    text = dumps(body("a", "b", "c"))
    path = tmp_path / "a.json"
    path.write_bytes(text + end)
    decoders = [Counting(getattr(jsonslice, name), text) for name in ("_MEMBERS", "_RAW")]
    for name, decoder in zip(("_MEMBERS", "_RAW"), decoders, strict=True):
        monkeypatch.setattr(jsonslice, name, decoder)
    assert len(list(Options().open(str(path)).turns())) == 1
    assert sum(decoder.found for decoder in decoders) == 1
