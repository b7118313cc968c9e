"""Cache breakpoints: those that lore places, recorded ones, and the cache key."""

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
    fold = Fold(started(**{"system": "S", "tools": TOOLS, "model": "claude-opus-5", **fields}), *events)
    return Assembler(DIALECTS[dialect], rules=rules or Rules()).assemble(fold.state, fold.state.main())


def places(result, dialect="anthropic"):
    """Paths of the segments with a breakpoint."""
    return [result.prompt.segment_at(place).path for place in result.prompt.breakpoints]


def test_shared_part_session_and_both_ends_have_breakpoints():
    result = assembled(event("layer", name="style", when="once_at_start", text="Use few words."), *TURNS)
    assert places(result) == ["system[1]", "system[2]", "messages[0].content[0]", "messages[2].content[0]"]
    assert [result.prompt.segment_at(at).origin for at in result.prompt.breakpoints[:2]] == [
        "layers",
        "session and knowledge",
    ]
    body = json.loads(DIALECTS["anthropic"].write(result.prompt))
    assert body["system"][1]["cache_control"] == body["messages"][2]["content"][0]["cache_control"]
    assert "cache_control" not in body["messages"][-1]["content"][-1]


def test_last_tool_has_a_breakpoint_if_room_remains():
    assert places(assembled(*TURNS[:3])) == ["tools[1]", "system[0]", "system[1]", "messages[0].content[0]"]
    assert places(assembled(*TURNS[1:3], system=None)) == ["tools[1]", "messages[0].content[0]"]


@pytest.mark.parametrize(("ttl", "written"), [({}, None), ({"ttl": "1h"}, "1h")])
def test_automatic_breakpoint_of_caller_counts_as_one(ttl, written):
    result = assembled(*TURNS, params={"cache_control": {"type": "ephemeral", **ttl}})
    assert places(result) == ["system[0]", "system[1]", "messages[2].content[0]"]
    assert {json.loads(value).get("ttl") for value in result.prompt.breakpoint_values} == {written}
    assert result.prompt.auto_breakpoint


def test_previous_end_keeps_its_breakpoint_when_far_away():
    calls = [append(call(f"t{n}", f"c{n}", status="completed", output="o", response_id="r")) for n in range(11)]
    events = [*TURNS[:3], *calls, event("turn_started", turn=2)]
    result = assembled(*events, params={"cache_control": {"type": "ephemeral"}})
    assert places(result) == ["system[0]", "messages[0].content[0]", "messages[2].content[10]"]


def test_sessions_of_one_agent_have_one_cache_key():
    bodies = [
        json.loads(DIALECTS["openai-chat"].write(assembled(*TURNS, dialect="openai-chat", **fields).prompt))
        for fields in ({"session_id": "s-2", "model": "gpt-5"}, {"model": "gpt-5"}, {"model": "gpt-5", "system": "T"})
    ]
    keys = [body["prompt_cache_key"] for body in bodies]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("model", "params", "key"), [("mistral-large", {}, None), ("gpt-oss-20b", {}, None),
    ("gpt-6-sol", {"prompt_cache_key": "mine"}, "mine")],
)  # fmt: skip
def test_cache_key_is_the_callers_or_missing(model, params, key):
    result = assembled(*TURNS, dialect="openai-responses", model=model, params=params)
    assert json.loads(DIALECTS["openai-responses"].write(result.prompt)).get("prompt_cache_key") == key


def test_recorded_breakpoint_is_cut_out_of_a_tool():
    assert b"cache_control" not in assembled(*TURNS).prompt.head[1].data


def test_a_session_may_keep_its_recorded_breakpoints():
    block = {"type": "raw", "json": {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}}
    events = [append({"type": "user_message", "uuid": "u", "blocks": [block]}), event("turn_started", turn=1)]
    result = assembled(*events, rules=Rules(breakpoints="recorded"))
    assert places(result) == ["tools[1]", "messages[0].content[0]"]
    assert result.prompt.breakpoint_values[1] == b'{"type":"ephemeral","ttl":"1h"}'
    body = json.loads(DIALECTS["anthropic"].write(result.prompt))
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_four_latest_recorded_breakpoints_are_kept():
    block = {"type": "raw", "json": {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}}
    events = [append({"type": "user_message", "uuid": f"u{n}", "blocks": [block]}) for n in range(9)]
    result = assembled(*events, event("turn_started", turn=1), rules=Rules(breakpoints="recorded"))
    assert places(result) == ["tools[1]", *(f"messages[{n}].content[0]" for n in (6, 7, 8))]


def test_no_breakpoints_if_rules_say_none():
    assert places(assembled(*TURNS, rules=Rules(breakpoints="none"))) == []


def test_head_asks_for_a_longer_lifetime():
    result = assembled(*TURNS, rules=Rules(head_ttl="1h"))
    assert [json.loads(value).get("ttl") for value in result.prompt.breakpoint_values] == ["1h", "1h", None, None]


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
def test_exact_breakpoints_are_on_input_and_system_parts(dialect):
    result = assembled(*TURNS, dialect=dialect, model="gpt-6-sol")
    parts = [result.prompt.segment_at(place) for place in result.prompt.breakpoints]
    texts = [json.loads(part.data)["text"] for part in parts]
    assert (texts[0], texts[1][:9], *texts[2:]) == ("S", "[session]", "ask", "more")
    assert json.loads(result.prompt.params["prompt_cache_options"]) == {"mode": "explicit"}
    assert b'"prompt_cache_breakpoint":{"mode":"explicit"}' in DIALECTS[dialect].write(result.prompt)


def test_breakpoints_far_apart_are_a_problem():
    calls = [append(call(f"t{n}", f"c{n}", status="completed", output="o", response_id="r")) for n in range(11)]
    events = [append(user("u1", "ask")), event("turn_started", turn=1), *calls, event("turn_started", turn=2)]
    assert [(problem.code, problem.message.split()[0]) for problem in assembled(*events).problems] == [
        ("LORE148", "22")
    ]
    assert assembled(*events[:-3], event("turn_started", turn=2)).problems == ()


def test_tool_listed_twice_is_one_problem():
    fold = Fold(started(tools=[*TOOLS, TOOLS[0]]), append(user("u1")), event("turn_started", turn=1))
    assembler = Assembler(DIALECTS["anthropic"])
    first = assembler.assemble(fold.state, fold.state.main())
    assert [(problem.code, problem.message.rsplit(": ")[-1]) for problem in first.problems] == [("LORE218", "a")]
    fold.take(append(said("a1")), event("turn_started", turn=2))
    assert assembler.assemble(fold.state, fold.state.main()).problems == ()
