"""Assembly, law: a session that is restarted anywhere, in any way, sends the same bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import any_events, lore_logs
from helpers.strategies.sessions import Agent, scripts, setups
from lore import Session
from lore.model import events as e


@given(scripts(), setups)
def test_a_session_that_is_restarted_anywhere_sends_the_same_bytes(script, setup):
    whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(script)
    assert [one.body for one in broken.turns] == [one.body for one in whole.turns]


@given(scripts(max_size=8), setups)
def test_a_session_that_is_restarted_before_each_turn_sends_the_same_bytes(script, setup):
    for way in ("dump", "log", "lost"):
        often = [step for one in script for step in (("restart", way), one)]
        whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(often)
        assert [one.body for one in broken.turns] == [one.body for one in whole.turns]


@given(st.one_of(any_events(), lore_logs(odd_lines=False).map(lambda log: log.events)), setups)
def test_any_events_give_the_same_bytes_from_a_dump_at_every_turn(events, setup):
    assert _bodies(events, setup, dumped=True) == _bodies(events, setup, dumped=False)


def _bodies(events, setup, *, dumped):
    session, found = Session(dialect=setup[0], rules=setup[1]), []
    for event in events:
        session.apply(event)
        if isinstance(event, e.TurnStarted):
            found.append(session.write(session.assembled(event.chain).prompt))
            if dumped:
                session = Session.load(session.dump(), dialect=setup[0], rules=setup[1])
    return found
