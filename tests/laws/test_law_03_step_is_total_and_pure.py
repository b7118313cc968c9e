"""Law 3: `step(state, event)` is total and pure. An unknown id changes nothing, and is a problem."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from helpers.each import each
from helpers.recognising import recognise
from helpers.states import dump_state, step
from helpers.strategies import any_events, events_of, lore_logs
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.state import FoldedSession


def _folded(events) -> FoldedSession:
    state = FoldedSession()
    for event in events:
        state = step(state, event).state
    return state


@given(any_events())
def test_step_accepts_any_event_and_is_deterministic(events):
    state = FoldedSession()
    for event in events:
        once, again = step(state, event), step(state, event)
        assert all(isinstance(problem, Problem) for problem in once.problems)
        assert dump_state(once.state) == dump_state(again.state)
        assert once.problems == again.problems
        state = once.state


@given(st.one_of(any_events(), lore_logs(damage=False, odd_lines=False).map(lambda log: log.events)))
def test_step_never_changes_earlier_states(events):
    states, dumps, state = [], [], FoldedSession()
    for event in events:
        states.append(state)
        dumps.append(dump_state(state))
        state = step(state, event).state
    assert [dump_state(earlier_state) for earlier_state in states] == dumps


@given(any_events(max_size=10), any_events(max_size=6), any_events(max_size=6))
def test_branches_from_one_state_are_independent(stem, branch_events, other_events):
    state = _folded(stem)
    alone = dump_state(_folded([*stem, *other_events]))
    for event in branch_events:
        step(state, event)
    branch = state
    for event in branch_events:
        branch = step(branch, event).state
    for event in other_events:
        state = step(state, event).state
    assert dump_state(state) == alone


UNKNOWN = (
    e.PatchText(uuid="nobody", delta_text=Raw(b'"x"')),
    e.PatchToolCall(call_id="nobody", status="completed", output=Raw(b'"x"')),
    e.ToolResultCleared(call_ids=("nobody",)),
    e.Remove(uuids=("nobody",)),
    e.Knowledge(op="remove", id="nobody"),
    e.TurnCompleted(turn=77),
)


@pytest.mark.parametrize("event", UNKNOWN, ids=lambda event: type(event).__name__)
@given(log=lore_logs(damage=False, odd_lines=False, max_size=6))
def test_unknown_id_is_problem_without_effect(event, log):
    state = _folded(log.events)
    after, problems = step(state, event)
    assert dump_state(after) == dump_state(state)
    assert len(problems) == 1


@each(UNKNOWN)
def test_unknown_id_begins_no_chain(event):
    state = _folded([e.SessionStarted(session_id="s")])
    after, problems = step(state, structs.replace(event, chain="elsewhere"))
    assert dump_state(after) == dump_state(state)
    assert len(problems) == 1


def test_recorded_events_never_change_earlier_states(recording):
    data = recording.read_bytes()
    reader = recognise(data[: 1 << 18])
    if reader.yields != "events":
        pytest.skip("holds bodies, not events")
    events = events_of(data, reader)
    state = FoldedSession(format=reader.name)
    every = max(1, len(events) // 8)
    snapshots = []
    for number, event in enumerate(events):
        if number % every == 0:
            snapshots.append((state, dump_state(state)))
        state = step(state, event).state
    assert all(dump_state(earlier_state) == dump for earlier_state, dump in snapshots)
