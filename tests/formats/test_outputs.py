"""What a model said: whole, or put together from a stream in whatever form it was kept."""

import base64
import gzip
import json

import pytest

from formats.calls import exchange, text
from formats.streaming import anthropic, converse, sse, wrapped
from helpers.each import each
from helpers.frames import frame
from lore.formats import http
from lore.formats.contents import Content, content_of
from lore.formats.outputs import items_of_events, output_items
from lore.model.limits import BODY_BYTES
from lore.model.turn import StreamedOutput

BLOCKS = [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}, {"type": "text", "text": "it is 😀"},
          {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "/a"}}]  # fmt: skip
EVENTS = list(anthropic(BLOCKS, [3]))
MESSAGE = [{"role": "assistant", "content": BLOCKS}]


def dumps(value):
    """JSON in ASCII: the halves of an emoji may be in different events."""
    return json.dumps(value).encode()


def based(data):
    return Content(dumps(base64.b64encode(data).decode()), "base64")


def test_whole_output_is_returned():
    assert output_items(b'[{"role":"assistant"}]') == b'[{"role":"assistant"}]'
    assert output_items(b"") == b""


@each([
    text(sse(EVENTS).decode()),
    content_of(dumps({"kind": "sse", "chunks": [event.decode() for event in sse(EVENTS).split(b"\n\n")]})),
    Content(dumps(EVENTS), "events"),
    Content(dumps([{"event": event["type"], "data": event} for event in EVENTS]), "events"),
    Content(dumps([{"__type__": "Event", "__data__": event} for event in EVENTS]), "events"),
    Content(dumps([{"event": event["type"], "data": json.dumps(event)} for event in EVENTS]), "events"),
    based(sse(EVENTS)),
    content_of(dumps("base64:" + base64.b64encode(sse(EVENTS)).decode())),
    based(gzip.compress(sse(EVENTS))),
    based(b"".join(map(wrapped, EVENTS))),
])  # fmt: skip
def test_every_form_of_a_stream_gives_the_same(response):
    call = exchange(response=response)
    assert json.loads(output_items(call.output)) == MESSAGE


def test_chunks_of_ollama_end_with_their_counts():
    chunks = [{"message": {"role": "assistant", "content": "Hi"}, "done": False},
              {"message": {"role": "assistant", "content": ""}, "prompt_eval_count": 26, "eval_count": 8}]  # fmt: skip
    call = exchange(response=Content(dumps(chunks), "events"))
    assert (call.usage.uncached_tokens, call.usage.output_tokens) == (26, 8)
    printed = exchange(response=text(json.dumps(chunks[1], indent=1)))
    assert printed.usage == call.usage


def test_converse_frames_give_their_blocks():
    blocks = [{"text": "yes"}, {"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}}]
    call = exchange(response=based(b"".join(map(frame, converse(blocks, [2])))))
    assert json.loads(output_items(call.output)) == [{"role": "assistant", "content": blocks}]


ITEM = {"type": "message", "id": "m1", "role": "assistant", "content": []}
WHOLE = {"id": "resp_1", "output": [ITEM], "usage": {"input_tokens": 9, "output_tokens": 1}}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "output": []}}
DONE = {"type": "response.output_item.done", "item": ITEM}


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.done"])
def test_last_event_of_responses_api_has_all(kind):
    delta = {"type": "response.output_text.delta", "delta": "x"}
    call = exchange(response=text(sse([CREATED, delta, DONE, {"type": kind, "response": WHOLE}]).decode()))
    assert json.loads(output_items(call.output)) == [ITEM]


def test_finished_items_replace_a_missing_end():
    short = {"type": "response.completed", "response": {**WHOLE, "output": []}}
    for events in ((CREATED, DONE, short), (CREATED, DONE)):
        assert json.loads(items_of_events(map(dumps, events))) == [ITEM]


@each([
    StreamedOutput(b"5"), StreamedOutput(b'"'), StreamedOutput(b""), StreamedOutput(b"{}"),
    StreamedOutput(b"[1]", "events"), StreamedOutput(b"x", "events"), StreamedOutput(b'"%%%"', "base64"),
    StreamedOutput(b'"data: {"'), StreamedOutput(b'"data: 5"'), StreamedOutput(b"{}", "elsewhere"),
    StreamedOutput(dumps("\x1f\x8bnot gzip")), StreamedOutput(b'"' + b"x" * BODY_BYTES + b'"'),
    StreamedOutput(b"[[[[", "json"),
    StreamedOutput(dumps(base64.b64encode(b"\xff" * 9).decode()), "base64", "br"),
])  # fmt: skip
def test_unreadable_output_is_empty(output):
    assert output_items(output) == b""


def test_compressed_stream_is_decompressed_on_request():
    """Opened while it is read, a thousand answers of one file would be held at once."""
    numbers = " ".join(map(str, range(40_000)))
    response = based(gzip.compress(sse(anthropic([{"type": "text", "text": numbers}], [50]))))
    call = exchange(response=response)
    assert isinstance(call.output, StreamedOutput)
    assert len(call.output.raw) < 200_000 < len(output_items(call.output))


def test_reading_a_capture_joins_no_stream(monkeypatch):
    def refuse(events):
        raise AssertionError(events)

    monkeypatch.setattr("lore.formats.outputs.items_of_events", refuse)
    assert isinstance(exchange(response=text(sse(EVENTS).decode())).output, StreamedOutput)
    assert not hasattr(http, "output_items")


# real recordings


@pytest.mark.corpus
def test_real_stream_equals_recorded_body(corpus):
    files = sorted(corpus.glob("capture/vibe-proxy*.jsonl"))
    responses = [json.loads(line).get("response") for file in files for line in file.read_bytes().splitlines()]
    both = [response for response in responses if response and response.get("events") and response.get("body")]
    assert both
    for response in both:
        items = items_of_events(dumps(event["data"]) for event in response["events"])
        assert json.loads(items)[0]["content"] == response["body"]["content"]
