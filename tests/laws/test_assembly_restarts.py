"""Assembly, law: a session that is restarted anywhere, in any way, sends the same bytes."""

from __future__ import annotations

from hypothesis import given

from helpers.strategies.sessions import Agent, scripts, setups


@given(scripts(), setups)
def test_a_session_that_is_restarted_anywhere_sends_the_same_bytes(script, setup):
    whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(script)
    assert [one.body for one in broken.turns] == [one.body for one in whole.turns]


@given(scripts(max_size=8), setups)
def test_a_session_that_is_restarted_before_each_turn_sends_the_same_bytes(script, setup):
    for way in ("log", "lost"):
        often = [step for one in script for step in (("restart", way), one)]
        whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(often)
        assert [one.body for one in broken.turns] == [one.body for one in whole.turns]
