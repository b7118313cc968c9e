"""Who sends a request, and whose reply it holds."""

import json

import pytest

from lore.model.turn import Call, Exchange, Memo
from lore.prefix.likeness import (
    Identity,
    drop_unrendered,
    identify_sender,
    is_another_run,
    latest_answer_keys,
    reply_keys,
)
from lore.prompt.dialects import DIALECTS
from model.making import assistant, body, dumps, parsed
from prefix.pairs import text

HEADER = "x-anthropic-billing-header: cc_version=2.1.195.d67; cc_prev_req=req_011; cch=aec51;"


def sender(call=Call(), **fields):  # noqa: B008 - a frozen record
    return identify_sender(parsed(body("a", **fields)), Exchange(b"{}", "wire", call=call))


@pytest.mark.parametrize(("user_id", "session"), [
    (json.dumps({"device_id": "d", "session_id": "5b0f3c1e-2a64"}), "5b0f3c1e-2a64"),
    ("user_0f_account__session_5b0f3c1e-2a64-4c55", "5b0f3c1e-2a64-4c55"),
    ("somebody", ""),
    (7, ""),
])  # fmt: skip
def test_claude_code_bodies_name_their_session(user_id, session):
    assert sender(metadata={"user_id": user_id}).session == session


def test_what_the_reader_found_comes_first():
    call = Call(session="s", agent="a", endpoint="h/p", previous="r")
    assert sender(call, metadata={"user_id": "x_session_12345678"}) == Identity("s", "a", "h/p", "r")


def test_billing_header_names_the_previous_request():
    assert sender(system=[text(HEADER)]).previous == "req_011"
    assert sender(system="cc_prev_req=req_011").previous == ""
    prompt = drop_unrendered(parsed(body("a", model="claude-x", system=[text(HEADER)])), "")
    assert prompt.dropped
    assert identify_sender(prompt, None).previous == "req_011"


def test_senders_differ_only_in_what_both_name():
    assert Identity("s").may_share_conversation(Identity())
    assert Identity(agent="a").may_share_conversation(Identity("s"))
    assert not Identity("s").may_share_conversation(Identity("t"))
    assert not Identity("s").may_share_conversation(Identity("s", "a"))
    assert not Identity(agent="a").may_share_conversation(Identity(agent="b"))


ONE, TWO, THREE = (assistant(f"Answer {name}: the parser dropped the first character of each line.") for name in "123")


@pytest.mark.parametrize(("previous", "current", "is_other"), [
    (body("a", ONE, "b"), body("a", TWO, "b"), True),
    (body("a", ONE, "b"), body("a", TWO, "b", THREE, "c"), False),  # it is longer, and keeps the rest
    (body("a", ONE, "b", TWO), body("a", THREE, "b", TWO), False),
    (body("a", ONE, "b"), body("x", TWO, "b", THREE), True),
    (body("a", ONE, "b"), body("x", ONE, "b", THREE), False),
    (body("a", ONE, "b"), body("x", "b"), False),  # it has no answer to compare
])  # fmt: skip
def test_other_answers_show_another_run(previous, current, is_other):
    before, after = parsed(previous), parsed(current)
    assert is_another_run(before, after, before.messages.common(after.messages)) is is_other


# Replies

LONG = "It was the parser: an empty line has no first character, and no caller had asked for that."
NAME = "toolu_01A09q90qw90lq917835"


def holds_reply(prompt, output):
    return bool(latest_answer_keys(prompt) & reply_keys(output))


def test_reply_is_recognised_by_text_in_any_form():
    output = dumps([{"role": "assistant", "content": [text(LONG + "\n")]}])
    assert holds_reply(parsed(body("a", assistant(LONG), "b")), output)
    assert holds_reply(parsed(body("a", assistant([text(LONG)]), "b")), output)
    assert not holds_reply(parsed(body("a", assistant("Another answer."), "b")), output)
    later = body("a", assistant(LONG), "b", assistant("Yes."), "c", assistant(LONG[::-1]), "d")
    assert not holds_reply(parsed(later), output)


ANTHROPIC_CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": NAME, "name": "ls", "input": {}}]}
CHAT_CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": NAME, "function": {"name": "ls"}}]}
ITEM = {"type": "function_call", "call_id": NAME, "name": "ls", "arguments": "{}"}
BEDROCK_CALL = {"role": "assistant", "content": [{"toolUse": {"toolUseId": NAME, "name": "ls", "input": {}}}]}
CALLS = {
    "anthropic": ("messages", ANTHROPIC_CALL),
    "openai-chat": ("messages", CHAT_CALL),
    "openai-responses": ("input", ITEM),
    "bedrock": ("messages", BEDROCK_CALL),
}


@pytest.mark.parametrize("dialect", CALLS)
def test_reply_is_recognised_by_id_of_its_call(dialect):
    member, reply = CALLS[dialect]
    prompt = DIALECTS[dialect].parse(dumps({"model": "m", member: [reply]}), "wire", Memo())
    assert holds_reply(prompt, dumps([reply]))
    assert not holds_reply(prompt, dumps([reply]).replace(NAME.encode(), b"toolu_01B09q90qw90lq917835"))
