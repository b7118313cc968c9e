"""Messages of spans that were written before the conventions had a place for them."""

from __future__ import annotations

import json

from formats.captures import codes, exchanges
from lore.formats.captures.telemetry import GenAI
from lore.model.events import Usage
from model.making import dumps

CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-x"}


def span(**attributes):
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return dumps({"name": "chat gpt-x", "attributes": {**CALL, **named}}) + b"\n"


def asked(data):
    return json.loads(exchanges(GenAI, data)[0].body)


FLAT = {
    "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "be brief",
    "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "how warm?",
    "gen_ai.prompt.2.role": "assistant", "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "warmth", "gen_ai.prompt.2.tool_calls.0.arguments": '{"at":1}',
    "gen_ai.prompt.10.role": "user", "gen_ai.prompt.10.content": "and now?",
    "gen_ai.prompt.3.role": "tool", "gen_ai.prompt.3.tool_call_id": "c1", "gen_ai.prompt.3.content": "9",
    "llm.request.functions.0.name": "warmth", "llm.request.functions.0.parameters": '{"type":"object"}',
}  # fmt: skip


def test_one_attribute_for_each_member_gives_messages_in_the_order_of_their_numbers():
    """Such spans were a problem that said nothing of what to record instead; the tenth stood before the second."""
    found = asked(span(**FLAT))
    assert [one["role"] for one in found["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert found["messages"][2]["tool_calls"][0]["function"] == {"name": "warmth", "arguments": '{"at":1}'}
    assert found["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "9"}
    assert found["tools"] == [{"type": "function", "function": {"name": "warmth", "parameters": {"type": "object"}}}]


def test_a_list_of_events_gives_messages_without_the_answer():
    events = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "be brief"},
        {"event.name": "gen_ai.user.message", "role": "user", "content": ["how warm?", {"kind": "image-url"}]},
        {"event.name": "gen_ai.assistant.message", "role": "assistant",
         "tool_calls": [{"id": "c1", "function": {"name": "warmth", "arguments": {"at": 1}}}]},
        {"event.name": "gen_ai.tool.message", "role": "tool", "id": "c1", "content": "9"},
        {"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": "warm"}},
    ]  # fmt: skip
    found = asked(span(events=json.dumps(events)))["messages"]
    assert [one["role"] for one in found] == ["system", "user", "assistant", "tool"]
    assert found[1]["content"][0] == {"type": "text", "text": "how warm?"}
    assert json.loads(found[2]["tool_calls"][0]["function"]["arguments"]) == {"at": 1}


def test_counts_are_read_by_the_names_that_such_spans_use():
    counts = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.details.cache_read_tokens": 64}
    found = exchanges(GenAI, span(**FLAT, **counts))
    assert found[0].usage == Usage(uncached_tokens=36, read_tokens=64)


def test_a_span_without_content_says_what_it_lacks():
    assert codes(GenAI, span()) == ["LORE228"]


def test_wrong_types_anywhere_are_no_error():
    odd = ('[{"event.name":5}]', '[{"event.name":"gen_ai.user.message"}]')
    for wrong in (None, 5, True, [], {}, [[]], [{}], "x", *odd):
        for key in (*FLAT, "events"):
            exchanges(GenAI, span(**{**FLAT, key: wrong}))
            exchanges(GenAI, span(**{key: wrong}))
        for key in ("content", "tool_calls", "id", "role"):
            for name in ("user", "assistant", "tool"):
                exchanges(GenAI, span(events=json.dumps([{"event.name": f"gen_ai.{name}.message", key: wrong}])))
