"""What a timeline holds: real messages, calls, tokens."""

from helpers.each import each
from helpers.strategies.compacting import Compacted
from lore.compaction.entries import IMAGE_TOKENS, TimelineSizes, calls_tools, has_real_activity, head_tokens, tokens_of

IMAGE = {"type": "image", "media_type": "image/png", "data": "aGk="}


@each("message, is_real", [
    ({"text": "[AUTONOMOUS TICK]"}, False),
    ({"text": " \n[SCHEDULED TICK] wake up"}, False),
    ({"text": "\n\t" * 40 + "[AUTONOMOUS TICK] x"}, False),
    ({"text": "[autonomous tick]"}, True),
    ({"text": "see [AUTONOMOUS TICK]"}, True),
    ({"text": "[AUTONOMOUS"}, True),
    ({"text": "é"}, True),
    ({"text": ""}, False),
    ({"text": " \n"}, False),
    ({"text": "hello", "source": "tick"}, False),
    ({"text": "hello", "source": "context_injection"}, False),
    ({"text": "hello", "source": "something-new"}, False),
    ({"blocks": [IMAGE, {"type": "text", "text": "[SCHEDULED TICK] look"}]}, False),
    ({"blocks": [IMAGE, {"type": "text", "text": "look"}]}, True),
    ({"blocks": [IMAGE]}, True),
])  # fmt: skip
def test_message_of_a_person_is_activity(message, is_real):
    agent = Compacted()
    agent.user(**message)
    assert has_real_activity(agent.entries()) is is_real


def test_response_calls_tools_also_before_text():
    agent = Compacted()
    agent.user("go")
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
