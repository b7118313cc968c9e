"""Assembly, laws: knowledge changes only the conversation's end; a delta, once sent, stays until a reset.

Also: deltas at one place keep their order, a reset pins anew, nothing fires twice, and what is known is said.
"""

from __future__ import annotations

from hypothesis import given

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent, in_every_shape, is_delta, scripts, setups
from lore.model.inserts import signature
from lore.prompt.layout import is_shared


def _pairs(agent):
    """Yield each turn with the one before it in its chain."""
    last = {}
    for turn in agent.turns:
        if turn.chain in last:
            yield last[turn.chain], turn
        last[turn.chain] = turn


@in_every_shape
@given(scripts(), setups)
def test_without_a_reset_a_turn_up_to_its_tail_is_a_prefix_of_the_next(script, setup):
    for before, turn in _pairs(Agent(*setup).play(script)):
        if not turn.entitled:
            assert turn.stable[: len(before.stable)] == before.stable
            if setup[1].tail == "persist":
                assert not before.prompt.tail


@in_every_shape
@given(scripts(), setups)
def test_knowledge_never_changes_the_head(script, setup):
    for before, turn in _pairs(Agent(*setup).play(script)):
        if not turn.entitled:
            assert turn.head == before.head


@in_every_shape
@given(scripts(), setups)
def test_a_reset_leaves_tools_prompt_and_layers_as_they_are(script, setup):
    steps = [one for one in script if one[0] != "change"]
    for before, turn in _pairs(Agent(*setup).play(steps)):
        shared = [segment for segment in before.prompt.head if is_shared(segment)]
        assert shared
        assert [segment for segment in turn.prompt.head if is_shared(segment)] == shared


@in_every_shape
@given(scripts(), setups)
def test_a_delta_once_sent_keeps_position_and_bytes_until_a_reset(script, setup):
    for before, turn in _pairs(Agent(*setup).play(script)):
        if not turn.entitled:
            had = [(at, one.data) for at, one in enumerate(before.prompt.messages) if is_delta(one)]
            assert [(at, one.data) for at, one in enumerate(turn.prompt.messages) if is_delta(one)][: len(had)] == had


@in_every_shape
@given(scripts(), setups)
def test_deltas_stand_in_the_order_in_which_they_were_made(script, setup):
    for turn in Agent(*setup).play(script).turns:
        numbers = [int(one.origin.split()[2]) for one in turn.deltas]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == len(numbers) <= 8


@in_every_shape
@given(scripts(), setups)
def test_nothing_is_told_twice_and_nothing_is_left_untold(script, setup):
    agent = Agent(*setup)
    for step in script:
        agent.play([step])
        for chain in {one.chain for one in agent.turns}:
            _is_told(agent, chain, setup)
    for chain in {one.chain for one in agent.turns}:  # the agent itself: what it remembers of its turns is right
        agent.user("w", chain)
        agent.turn(None, chain)
        agent.user("w", chain)
        assert not {"PromptDelta", "CacheReset"} & set(agent.turn(None, chain).new)


def _is_told(agent, chain, setup):
    """Two more messages on a copy: the first turn tells what waits, the second has nothing left to tell."""
    copy = Agent(*setup)
    copy.log = agent.log
    copy.restart()
    copy.count = 10_000
    copy.user("u", chain)
    told = copy.turn(None, chain)
    copy.user("v", chain)
    assert not {"PromptDelta", "CacheReset"} & set(copy.turn(None, chain).new)
    text = "\n".join(map(shapes.text_of, told.prompt))
    for fact in told.state.knowledge.values():
        again = [one for one in told.state.chain(chain).pinned or () if one.id == fact.id]
        same = again and signature(again[0].title, again[0].content) == signature(fact.title, fact.content)
        assert fact.content[:40] in text or same
