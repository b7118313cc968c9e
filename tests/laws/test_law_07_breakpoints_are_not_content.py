"""Law 7: breakpoints are not content. A `cache_control` that moves never changes the comparison."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.recognising import recognise
from helpers.strategies import (
    CACHE_CONTROL,
    WITH_BREAKPOINTS,
    bodies,
    conversations,
    places_for_breakpoints,
    read_all,
    styles,
    with_breakpoints,
    write,
)
from lore.commands.main import main
from lore.formats.captures.bodies import Bodies
from lore.model.turn import Exchange, Memo
from lore.prefix.causes import find_causes
from lore.prefix.chains import Chains
from lore.prefix.overlap import compare_prompts, name_relation
from lore.prompt.dialects import dialect_of
from lore.prompt.dialects.messages import strip_breakpoints


def _parsed(raw: bytes):
    return dialect_of(raw).parse(raw, "wire", Memo())


def _some(draw, body) -> set[int]:
    return draw(st.sets(st.integers(0, len(places_for_breakpoints(body)) - 1), max_size=4))


@given(bodies(WITH_BREAKPOINTS), styles, st.booleans(), st.data())
def test_breakpoints_do_not_change_segments(body, style, first, data):
    bare, other = (
        _parsed(write(body, style)),
        _parsed(write(with_breakpoints(body, _some(data.draw, body), first=first), style)),
    )
    assert [(segment.path, segment.data) for segment in other] == [(segment.path, segment.data) for segment in bare]


@given(bodies(WITH_BREAKPOINTS), styles, st.data())
def test_moving_breakpoints_changes_no_comparison(body, style, data):
    first = _parsed(write(with_breakpoints(body, _some(data.draw, body)), style))
    second = _parsed(write(with_breakpoints(body, _some(data.draw, body)), style))
    comparison = compare_prompts(first, second)
    assert (comparison.is_covered, comparison.common, name_relation(first, second, comparison)) == (
        True,
        first.stable,
        "identical",
    )
    assert find_causes(first, second, comparison, ()) == ()


@given(conversations(WITH_BREAKPOINTS), styles, st.data())
def test_moving_breakpoint_keeps_one_chain(request_bodies, style, data):
    chains, memo = Chains(), Memo()
    for body in request_bodies:
        raw = write(with_breakpoints(body, _some(data.draw, body)), style)
        assert chains.add(dialect_of(raw).parse(raw, "wire", memo))[0] == "main"


@given(bodies(WITH_BREAKPOINTS), st.data())
def test_breakpoints_are_kept_apart_from_bytes(body, data):
    places = _some(data.draw, body)
    assert bool(_parsed(write(with_breakpoints(body, places))).breakpoints) == bool(places)


@given(bodies(("anthropic", "openai-chat")), st.data())
def test_message_breakpoint_is_on_last_segment(body, data):
    number = data.draw(st.integers(0, len(body["messages"]) - 1))
    messages = [
        {**message, "cache_control": CACHE_CONTROL} if n == number else message
        for n, message in enumerate(body["messages"])
    ]
    assert list(_parsed(write({**body, "messages": messages}))) == list(_parsed(write(body)))


def test_breakpoint_of_inner_copy_stays():
    block = b'{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}'
    bare = b'{"type":"text","text":"x"}'
    other = b'{"type":"custom","holds":' + block + b"}"
    result = b'{"type":"tool_result","tool_use_id":"t","content":[%s,%s]}'
    assert strip_breakpoints(result % (block, other))[0] == result % (bare, other)


def test_text_that_looks_like_a_breakpoint_is_content():
    block = write({"type": "text", "text": '"cache_control":{"type":"ephemeral"}'})
    assert strip_breakpoints(block) == (block, None)


def test_an_input_named_like_a_breakpoint_is_content():
    block = write({"type": "tool_use", "id": "t", "name": "n", "input": {"cache_control": CACHE_CONTROL}})
    assert strip_breakpoints(block) == (block, None)


def test_moving_breakpoints_is_no_cache_break(desk, capsys):
    @given(conversations(WITH_BREAKPOINTS), st.data())
    def law(request_bodies, data):
        lines = [
            write(with_breakpoints(body, _some(data.draw, body))) for body in [*request_bodies, request_bodies[-1]]
        ]
        (desk / "log.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        main(["check", "log.jsonl", "--json"])
        summary = json.loads(capsys.readouterr().out)["summary"]
        assert (summary["chains"], summary["breaks"]) == (1, 0)

    law()


def test_diff_prefix_ignores_breakpoints(desk, capsys):
    body = {
        "model": "claude-x",
        "system": [{"type": "text", "text": "s"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    (desk / "a.json").write_bytes(write(with_breakpoints(body, {0})))
    (desk / "b.json").write_bytes(write(with_breakpoints(body, {1})))
    assert main(["diff-prefix", "a.json", "b.json", "--json", "--no-tokens"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["relation"], answer["divergence"], answer["causes"]) == ("identical", None, [])


def test_breakpoints_on_recorded_body_change_no_comparison(recording):
    data = recording.read_bytes()
    if recognise(data[: 1 << 18]) is not Bodies:
        pytest.skip("holds events, not bodies")
    recorded_bodies = [read.value.body for read in read_all(Bodies(), data) if isinstance(read.value, Exchange)]
    body = json.loads(recorded_bodies[-1])
    places = {0, len(places_for_breakpoints(body)) - 1}
    plain, marked = _parsed(write(body)), _parsed(write(with_breakpoints(body, places)))
    assert compare_prompts(plain, marked).is_covered
