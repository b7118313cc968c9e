"""Replies: what a chain's latest response is known by, read only when it is asked for."""

from __future__ import annotations

import json

import pytest

from lore.model.turn import Memo, StreamedOutput
from lore.prefix.likeness import Replies, latest_answer_keys
from lore.prompt.dialects import DIALECTS
from model.making import assistant, body, dumps, parsed

LONG = "It was the parser: an empty line has no first character, and nobody had asked for that."
NAME = "toolu_01A09q90qw90lq917835"


def replied(*said):
    return dumps(list(said))


def knows(prompt, output):
    replies = Replies(lambda given: given)
    replies.remember("main", output)
    return bool(latest_answer_keys(prompt) & replies.keys_of("main"))


def test_an_answer_is_known_by_its_text_however_it_is_sent_back():
    said = replied({"role": "assistant", "content": [{"type": "text", "text": LONG + "\n"}]})
    assert knows(parsed(body("a", assistant(LONG), "b")), said)
    assert knows(parsed(body("a", assistant([{"type": "text", "text": LONG}]), "b")), said)
    assert not knows(parsed(body("a", assistant("Another answer."), "b")), said)


CALLS = {
    "anthropic": (
        {"role": "assistant", "content": [{"type": "tool_use", "id": NAME, "name": "ls", "input": {}}]},
        {"messages": [{"role": "user", "content": "a"},
                      {"role": "assistant", "content": [{"type": "tool_use", "id": NAME, "name": "ls", "input": {}}]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": NAME, "content": "x"}]}]},
    ),
    "openai-chat": (
        {"role": "assistant", "content": None, "tool_calls": [{"id": NAME, "function": {"name": "ls"}}]},
        {"messages": [{"role": "user", "content": "a"},
                      {"role": "assistant", "content": "", "tool_calls": [{"id": NAME, "function": {"name": "ls"}}]},
                      {"role": "tool", "tool_call_id": NAME, "content": "x"}]},
    ),
    "openai-responses": (
        {"type": "function_call", "call_id": NAME, "name": "ls", "arguments": "{}"},
        {"input": [{"role": "user", "content": "a"},
                   {"type": "function_call", "call_id": NAME, "name": "ls", "arguments": "{}"},
                   {"type": "function_call_output", "call_id": NAME, "output": "x"}]},
    ),
    "bedrock": (
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": NAME, "name": "ls", "input": {}}}]},
        {"messages": [{"role": "user", "content": [{"text": "a"}]},
                      {"role": "assistant", "content": [{"toolUse": {"toolUseId": NAME, "name": "ls", "input": {}}}]},
                      {"role": "user", "content": [{"toolResult": {"toolUseId": NAME, "content": []}}]}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", CALLS)
def test_a_call_is_known_by_its_name_in_every_dialect_that_has_one(dialect):
    said, asked = CALLS[dialect]
    prompt = DIALECTS[dialect].parse(json.dumps({"model": "m", **asked}).encode(), "wire", Memo())
    assert knows(prompt, replied(said))
    assert not knows(prompt, replied(said).replace(NAME.encode(), b"toolu_01B09q90qw90lq917835"))


def test_only_the_latest_answer_of_a_request_counts():
    said = replied({"role": "assistant", "content": LONG})
    assert not knows(parsed(body("a", assistant(LONG), "b", assistant("Yes."), "c", assistant(LONG[::-1]), "d")), said)


def test_a_reply_is_put_together_once_and_only_when_it_is_asked_for():
    asked = []
    replies = Replies(lambda given: asked.append(given) or b"[]")
    streams = [StreamedOutput(b'"%d"' % number) for number in range(3)]
    replies.remember("main", streams[0])
    replies.remember("main", streams[1])
    replies.remember("other", streams[2])
    assert asked == []
    replies.keys_of("main")
    replies.keys_of("main")
    assert asked == [streams[1]]


def test_what_is_not_read_is_bounded_and_the_oldest_goes_first():
    replies = Replies(lambda given: given, room=3000)
    for number in range(50):
        replies.remember(f"c{number}", replied(f"{number:1000}"))
    assert list(getattr(replies, "_unread")) == ["c48", "c49"]  # noqa: B009 - what is tested
    replies.remember("large", b"x" * 5000)
    assert getattr(replies, "_unread") == {}  # noqa: B009
    replies.remember("large", replied(LONG))
    assert replies.keys_of("large")
    replies.forget("large")
    assert (replies.keys_of("large"), getattr(replies, "_room")) == (frozenset(), 3000)  # noqa: B009
