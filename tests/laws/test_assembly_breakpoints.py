"""Laws of breakpoints in assembled prompts: at most four; the last one is set again in the next turn; none on the tail,
on empty text or on thinking; longer lifetimes come first."""

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent, scripts, setups
from lore.prompt.base import AFTER_RESULTS, Rules

models = st.sampled_from(["claude-opus-5", "claude-sonnet-4-5", "amazon.nova-pro-v1:0", "gpt-5.6", "gpt-5"])
WITH_BREAKPOINTS = [("anthropic", "claude-opus-5"), ("bedrock", "anthropic.claude-opus-5-v1:0"),
                    ("bedrock", "nova-pro"),
          ("openai-chat", "gpt-5.6"), ("openai-responses", "gpt-5.6")]  # fmt: skip


def _played(script, setup, model):
    return Agent(*setup, model=model).play(script)


@given(scripts(), setups, models)
def test_at_most_four_breakpoints_in_order(script, setup, model):
    for turn in _played(script, setup, model).turns:
        breakpoints = turn.prompt.breakpoints
        assert len(breakpoints) == len(turn.prompt.breakpoint_values) <= 4
        assert list(breakpoints) == sorted(set(breakpoints))
        assert shapes.breakpoints_in(turn.body) == len(breakpoints)


@given(scripts(), setups, models)
def test_last_breakpoint_of_previous_turn_is_set_again(script, setup, model):
    last = {}
    for turn in _played(script, setup, model).turns:
        before = last.get(turn.chain)
        if before is not None and not turn.entitled and before.prompt.breakpoints:
            assert before.prompt.breakpoints[-1] in turn.prompt.breakpoints
        last[turn.chain] = turn


@given(scripts(), setups, models)
def test_breakpoints_avoid_tail_empty_text_and_thinking(script, setup, model):
    for turn in _played(script, setup, model).turns:
        for position in turn.prompt.breakpoints:
            segment = turn.prompt.segment_at(position)
            assert position < turn.prompt.stable
            assert segment.kind != "envelope"
            assert not shapes.is_thought(segment)
            assert json.loads(segment.data).get("text") != ""


@given(scripts(), setups, st.sampled_from(WITH_BREAKPOINTS))
def test_last_message_has_breakpoint(script, setup, dialect_and_model):
    dialect, model = dialect_and_model
    steps = [step for step in script if step[0] != "change" or "model" not in step[2]]
    for turn in Agent(dialect, setup[1], model=model).play(steps).turns:
        messages = range(len(turn.prompt.head), turn.prompt.stable)
        allowed = [at for at in messages if _may_carry(dialect, turn.prompt.segment_at(at))]
        marked = [at for at in turn.prompt.breakpoints if at in messages]
        assert allowed[-1:] == marked[-1:]


def _may_carry(dialect, segment):
    """Return whether a segment may carry a breakpoint in this dialect."""
    if segment.kind == "envelope" or (dialect in shapes.ITEMS and segment.origin == "assistant"):
        return False
    if dialect == "openai-chat" and (segment.origin == "tool" or segment.origin.endswith(AFTER_RESULTS)):
        return False
    return not shapes.is_thought(segment) and json.loads(segment.data).get("text") != ""


@given(scripts(max_size=8), st.sampled_from([("1h", "1h"), ("1h", "5m"), ("5m", "5m")]))
def test_longer_lived_breakpoints_come_first(script, ttls):
    rules = Rules(head_ttl=ttls[0], ttl=ttls[1])
    for turn in Agent("anthropic", rules).play(script).turns:
        hours = [b"1h" in value for value in turn.prompt.breakpoint_values]
        assert hours == sorted(hours, reverse=True)
        head = [position < len(turn.prompt.head) for position in turn.prompt.breakpoints]
        assert hours == [ttls[0] == "1h" if is_head else ttls[1] == "1h" for is_head in head]


@given(scripts(max_size=8), setups)
def test_breakpoints_change_no_content(script, setup):
    dialect, rules = setup
    marked, bare = (Agent(dialect, policy).play(script) for policy in (rules, replace(rules, breakpoints="none")))
    for turn, bare_turn in zip(marked.turns, bare.turns, strict=True):
        assert list(turn.prompt) == list(bare_turn.prompt)
        assert bare_turn.prompt.breakpoints == ()
