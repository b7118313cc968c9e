"""Cache breakpoints: where lore sets them, whose are kept, what is said about them."""

from __future__ import annotations

import json

import pytest

from lore.prompt.assemble import Assembler
from lore.prompt.base import Rules
from lore.prompt.dialects import DIALECTS
from model.making import Fold, append, call, event, said, started, user

TOOLS = [{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}, "cache_control": {"type": "ephemeral"}}]
TURNS = [
    event("knowledge", op="add", id="k-12345", title="T"),
    append(user("u1", "ask")),
    event("turn_started", turn=1),
    append(said("a1", "answer")),
    append(user("u2", "more")),
    event("turn_started", turn=2, context={"current_time": "noon"}),
]


def assembled(*events, dialect="anthropic", rules=None, **fields):
    fold = Fold(started(system="S", **{"tools": TOOLS, "model": "claude-opus-5", **fields}), *events)
    return Assembler(DIALECTS[dialect], rules=rules or Rules()).assemble(fold.state, fold.state.main())


def places(made, dialect="anthropic"):
    """Paths of the segments with a breakpoint."""
    return [made.prompt.at(place).path for place in made.prompt.breakpoints]


def test_breakpoints_stand_on_the_last_tool_the_system_prompt_the_last_end_and_this_end():
    made = assembled(*TURNS)
    assert places(made) == ["tools[1]", "system[2]", "messages[0].content[0]", "messages[2].content[0]"]
    body = json.loads(DIALECTS["anthropic"].write(made.prompt))
    assert body["tools"][1]["cache_control"] == body["messages"][2]["content"][0]["cache_control"]
    assert "cache_control" not in json.dumps(body["messages"][-1])


def test_a_recorded_breakpoint_is_no_content_where_lore_sets_its_own():
    assert b"cache_control" not in assembled(*TURNS).prompt.head[1].data


def test_a_session_may_keep_its_recorded_breakpoints():
    block = {"type": "raw", "json": {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}}
    events = [append({"type": "user_message", "uuid": "u", "blocks": [block]}), event("turn_started", turn=1)]
    made = assembled(*events, rules=Rules(breakpoints="recorded"))
    assert places(made) == ["tools[1]", "messages[0].content[0]"]
    assert made.prompt.breakpoint_values[1] == b'{"type":"ephemeral","ttl":"1h"}'
    body = json.loads(DIALECTS["anthropic"].write(made.prompt))
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_of_many_recorded_breakpoints_four_are_kept_the_latest_of_the_history():
    block = {"type": "raw", "json": {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}}
    events = [append({"type": "user_message", "uuid": f"u{n}", "blocks": [block]}) for n in range(9)]
    made = assembled(*events, event("turn_started", turn=1), rules=Rules(breakpoints="recorded"))
    assert places(made) == ["tools[1]", *(f"messages[{n}].content[0]" for n in (6, 7, 8))]


def test_no_breakpoints_are_set_where_none_are_wanted():
    assert places(assembled(*TURNS, rules=Rules(breakpoints="none"))) == []


def test_the_head_may_ask_for_a_longer_life_than_the_history():
    made = assembled(*TURNS, rules=Rules(head_ttl="1h"))
    assert [json.loads(one).get("ttl") for one in made.prompt.breakpoint_values] == ["1h", "1h", None, None]


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
def test_models_with_exact_breakpoints_have_them_on_input_parts_alone(dialect):
    made = assembled(*TURNS, dialect=dialect, model="gpt-6-sol")
    parts = [made.prompt.at(place) for place in made.prompt.breakpoints]
    assert [json.loads(one.data)["text"] for one in parts] == ["ask", "more"]
    assert b'"prompt_cache_breakpoint":{"mode":"explicit"}' in DIALECTS[dialect].write(made.prompt)


def test_more_new_blocks_than_a_look_up_goes_back_are_said():
    calls = [append(call(f"t{n}", f"c{n}", status="completed", output="o", response_id="r")) for n in range(11)]
    events = [append(user("u1", "ask")), event("turn_started", turn=1), *calls, event("turn_started", turn=2)]
    assert [(one.code, one.message.split()[0]) for one in assembled(*events).problems] == [("LORE148", "22")]
    assert assembled(*events[:-3], event("turn_started", turn=2)).problems == ()


def test_a_tool_that_is_listed_twice_is_said_once():
    fold = Fold(started(tools=[*TOOLS, TOOLS[0]]), append(user("u1")), event("turn_started", turn=1))
    made = Assembler(DIALECTS["anthropic"])
    first = made.assemble(fold.state, fold.state.main())
    assert [(one.code, one.message.rsplit(": ")[-1]) for one in first.problems] == [("LORE218", "a")]
    fold.take(append(said("a1")), event("turn_started", turn=2))
    assert made.assemble(fold.state, fold.state.main()).problems == ()
