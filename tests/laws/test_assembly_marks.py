"""Assembly, law: at most four marks; without a reset the last mark of the turn before is a mark again; never on the
tail, on empty text or on thinking; the longer-lived ones first."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lore.prompt.settings import Rules
from strategies import shapes
from strategies.sessions import Agent, scripts, setups

models = st.sampled_from(["claude-opus-5", "claude-sonnet-4-5", "amazon.nova-pro-v1:0", "gpt-5.6", "gpt-5"])
MARKED = [("anthropic", "claude-opus-5"), ("bedrock", "anthropic.claude-opus-5-v1:0"), ("bedrock", "nova-pro"),
          ("openai-chat", "gpt-5.6"), ("openai-responses", "gpt-5.6")]  # fmt: skip


def _played(script, setup, model):
    return Agent(*setup, model=model).play(script)


@given(scripts(), setups, models)
def test_at_most_four_marks_in_order(script, setup, model):
    for turn in _played(script, setup, model).turns:
        marks = turn.prompt.marks
        assert len(marks) == len(turn.prompt.mark_values) <= 4
        assert list(marks) == sorted(set(marks))
        assert shapes.marks_in(turn.body) == len(marks)


@given(scripts(), setups, models)
def test_the_last_mark_of_the_turn_before_is_a_mark_again(script, setup, model):
    last = {}
    for turn in _played(script, setup, model).turns:
        before = last.get(turn.chain)
        if before is not None and not turn.entitled and before.prompt.marks:
            assert before.prompt.marks[-1] in turn.prompt.marks
        last[turn.chain] = turn


@given(scripts(), setups, models)
def test_no_mark_stands_on_the_tail_on_empty_text_or_on_thinking(script, setup, model):
    for turn in _played(script, setup, model).turns:
        for position in turn.prompt.marks:
            segment = turn.prompt.at(position)
            assert position < turn.prompt.stable
            assert segment.kind != "envelope"
            assert not shapes.is_thought(segment)
            assert json.loads(segment.data).get("text") != ""


@given(scripts(), setups, st.sampled_from(MARKED))
def test_the_end_of_what_was_said_is_marked(script, setup, marked):
    dialect, model = marked
    steps = [one for one in script if one[0] != "change" or "model" not in one[2]]
    for turn in Agent(dialect, setup[1], model=model).play(steps).turns:
        messages = range(len(turn.prompt.head), turn.prompt.stable)
        said = [at for at in messages if _may_carry(dialect, turn.prompt.at(at))]
        held = [at for at in turn.prompt.marks if at in messages]
        assert said[-1:] == held[-1:]


def _may_carry(dialect, segment):
    """Anything but thinking and empty text; at OpenAI's only what is said to the model, results apart in Chat."""
    if segment.kind == "envelope" or (dialect in shapes.ITEMS and segment.origin == "assistant"):
        return False
    if dialect == "openai-chat" and segment.origin == "tool":
        return False
    return not shapes.is_thought(segment) and json.loads(segment.data).get("text") != ""


@given(scripts(max_size=8), st.sampled_from([("1h", "1h"), ("1h", "5m"), ("5m", "5m")]))
def test_longer_lived_marks_come_first(script, ttls):
    rules = Rules(head_ttl=ttls[0], ttl=ttls[1])
    for turn in Agent("anthropic", rules).play(script).turns:
        hours = [b"1h" in value for value in turn.prompt.mark_values]
        assert hours == sorted(hours, reverse=True)
        head = [position < len(turn.prompt.head) for position in turn.prompt.marks]
        assert hours == [ttls[0] == "1h" if one else ttls[1] == "1h" for one in head]


@given(scripts(max_size=8), setups)
def test_marks_change_no_content(script, setup):
    marked, bare = Agent(*setup).play(script), Agent(setup[0], Rules(tail=setup[1].tail, marks="none")).play(script)
    for one, other in zip(marked.turns, bare.turns, strict=True):
        assert list(one.prompt) == list(other.prompt)
        assert other.prompt.marks == ()
