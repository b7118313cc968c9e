"""What a timeline holds: real messages, calls, tokens."""

import pytest

from helpers.each import each
from helpers.strategies.compacting import Compacted
from lore.compaction.entries import IMAGE_TOKENS, TimelineSizes, calls_tools, has_real_activity, head_tokens, tokens_of
from lore.prompt.layout import is_real


def agent_of(*texts):
    agent = Compacted()
    for text in texts:
        agent.user(text)
    return agent


@pytest.mark.parametrize("text", [
    "[AUTONOMOUS TICK]", "[SCHEDULED TICK] wake up", " \n[SCHEDULED TICK]", "\n\t" * 40 + "[AUTONOMOUS TICK] x",
])  # fmt: skip
def test_schedulers_message_is_a_tick(text):
    assert not has_real_activity(agent_of(text).entries())


@pytest.mark.parametrize("text", ["[autonomous tick]", "see [AUTONOMOUS TICK]", "[AUTONOMOUS", "\u00e9"])
def test_other_text_is_no_tick(text):
    assert has_real_activity(agent_of(text).entries())


def test_first_text_of_blocks_makes_a_tick():
    agent = Compacted()
    image = {"type": "image", "media_type": "image/png", "data": "aGk="}
    agent.user(blocks=[image, {"type": "text", "text": "[SCHEDULED TICK] look"}])
    agent.user(blocks=[image, {"type": "text", "text": "look"}])
    agent.user(blocks=[image])
    assert [is_real(entry.item) for entry in agent.entries()] == [False, True, True]


def test_blank_message_is_no_activity():
    assert not has_real_activity(agent_of("", " \n").entries())


def test_injected_message_is_no_activity():
    agent = Compacted()
    for source in ("tick", "context_injection", "something-new"):
        agent.user("hello", source=source)
    assert not has_real_activity(agent.entries())


def test_response_calls_tools_also_before_text():
    agent = agent_of("go")
    agent.calls(1)
    entries = agent.entries()
    assert calls_tools(entries, 1)
    assert not calls_tools(entries, 0)


@each("item, tokens", [
    ({"type": "user_message", "text": "x" * 40}, 10),
    ({"type": "user_message", "text": "x" * 41}, 11),
    ({"type": "user_message", "text": "\u00e9" * 20}, 10),
    ({"type": "assistant_message", "blocks": [{"type": "thinking", "text": "x" * 40, "signature": "s" * 99}]}, 10),
    ({"type": "assistant_message", "blocks": [{"type": "raw", "json": {"k": "x" * 32}}]}, 10),
    ({"type": "user_message", "blocks": [{"type": "image", "media_type": "image/png", "data": "x" * 99_999}]},
     IMAGE_TOKENS),
    ({"type": "tool_call", "call_id": "c", "name": "read", "input": {"p": 1}, "output": "x" * 29}, 10),
    ({"type": "tool_call", "call_id": "c", "name": "r", "input": {}, "error": "x" * 37, "output": "y" * 99}, 10),
    ({"type": "tool_call", "call_id": "c", "name": "r", "input": {},
      "output": [{"type": "image", "media_type": "image/png", "data": "x" * 99_999}]}, IMAGE_TOKENS + 1),
    ({"type": "tool_call", "call_id": "c", "name": "r", "input": {},
      "output": [{"type": "raw", "json": {"type": "base64", "data": "x" * 99_999}}]}, IMAGE_TOKENS + 1),
    ({"type": "opaque", "record": {"k": "x" * 99}}, 0),
])  # fmt: skip
def test_tokens_are_a_quarter_of_content_bytes(item, tokens):
    agent = Compacted()
    agent.item("main", uuid="i1", **item)
    assert tokens_of(agent.entries()) == TimelineSizes().tokens_of(agent.entries()) == tokens


def test_head_is_estimated():
    agent = Compacted(system="s" * 400, tools=[])
    before = head_tokens(agent.session.state.chain("main"))
    agent.know("abcdef1", "k" * 400)
    agent.play([("exchange", "main", None)])
    assert (before, head_tokens(agent.session.state.chain("main"))) == (100, 200)
