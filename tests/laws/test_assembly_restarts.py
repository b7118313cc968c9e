"""Law of restarts: a session sends the same bytes if it is restarted anywhere, from a dump or a log."""

from __future__ import annotations

from hypothesis import given

from helpers.strategies.sessions import Agent, scripts, setups


@given(scripts(), setups)
def test_restart_anywhere_sends_same_bytes(script, setup):
    whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(script)
    assert [one.body for one in broken.turns] == [one.body for one in whole.turns]


@given(scripts(max_size=8), setups)
def test_restart_before_each_turn_sends_same_bytes(script, setup):
    for way in ("log", "lost"):
        often = [step for one in script for step in (("restart", way), one)]
        whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(often)
        assert [one.body for one in broken.turns] == [one.body for one in whole.turns]
