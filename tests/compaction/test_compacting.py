"""The events of a compaction."""

import pytest

from helpers.strategies.compacting import Compacted
from lore.compaction.base import Firing
from lore.compaction.executor import compaction_events
from lore.model import events as e
from lore.model.items import CompactDivider

AT = "2026-03-01T10:00:00Z"


def agent_of(count=4):
    return Compacted().play([("exchange", "main", None)] * count)


def events_of(agent, firing, summary="so far", context=None):
    return compaction_events(agent.session.state, "main", firing, summary, context, at=AT)


def test_compaction_has_two_events():
    agent = agent_of()
    agent.take(events_of(agent, Firing("cadence", tuple(agent.entries())[:4])))
    started, applied = agent.made[0][0]
    assert started == e.CompactStarted(trigger="cadence", pre_tokens=applied.pre_tokens, at=AT)
    assert (applied.trigger, applied.at, applied.preserved_uuids) == ("cadence", AT, ("u7", "a8", "u10", "a11"))
    divider, *remaining = agent.entries()
    assert isinstance(divider.item, CompactDivider)
    assert (divider.item.pruned, bytes(divider.item.summary), len(remaining)) == (4, b'"so far"', 4)


def test_held_calls_precede_kept_entries():
    agent = Compacted()
    agent.user()
    agent.calls(1, finish=False)
    agent.play([("exchange", "main", None)] * 3)
    agent.squeeze(2)
    assert [entry.item.uuid for entry in agent.entries()][1] == "t4"
    assert agent.do("patch_tool_call", call_id="c3", status="completed", output="late") == ()


def test_overflow_without_summary_leaves_its_marker():
    agent = agent_of()
    agent.take(events_of(agent, Firing("overflow", tuple(agent.entries())[:4], marker="[4 went]"), ""))
    assert bytes(agent.entries()[0].item.summary) == b'"[4 went]"'


def test_results_are_cut_without_pruning():
    agent = Compacted()
    agent.user()
    agent.turn()
    agent.calls(1, output="x" * 9_000)
    agent.turn()
    agent.do("patch_tool_call", call_id="c3", status="failed", error="y" * 9_000)
    agent.take(events_of(agent, Firing("overflow", shortened=(("c3", "cut"), ("gone", "x"))), ""))
    assert [type(entry) for entry in agent.made[0][0]] == [e.ToolResultCleared, e.PatchToolCall]
    call = agent.entries()[1].item
    assert (bytes(call.output), bytes(call.error), call.status) == (b'"cut"', b'"cut"', "failed")
    turn = agent.turn()
    assert [entry.cause for entry in turn.state.chain("main").turn.since] == ["LORE117"], "the next prompt may differ"


def test_outside_context_precedes_the_waiting_message():
    agent = agent_of()
    agent.user("back")
    agent.squeeze(2, 1)
    persisted = agent.made[0][0][-1]
    assert (persisted.turn, persisted.insert_at, persisted.outside) == (5, 2, True)
    assert agent.entries()[2].item.uuid == "u13"


@pytest.mark.parametrize("source", ["tick", "user"])
def test_outside_context_waits_for_a_persons_message(source):
    agent = agent_of()
    agent.squeeze(2, 1)
    assert agent.made[0][0][-1].insert_at == 3
    agent.user("[SCHEDULED TICK]", source=source)
    agent.turn()
    agent.answer()
    assert not any("outside" in origin for origin, _ in agent.turns[-1].texts)
    agent.user("back")
    origins = [origin for origin, _ in agent.turn().texts]
    assert origins[-2:] == ["context_injection: outside context of turn 5", "user"]


def test_two_compactions_each_add_context():
    agent = agent_of(6)
    agent.squeeze(6, 1)
    agent.user("back")
    agent.squeeze(2, 2)
    text = b" ".join(data for _, data in agent.turn().texts)
    assert b"number 1" in text
    assert b"number 2" in text


def test_unsent_outside_context_survives_a_compaction():
    agent = agent_of(6)
    agent.squeeze(6, 1)
    for _ in range(3):
        agent.user("[SCHEDULED TICK]", source="tick")
        agent.turn()
        agent.answer()
    agent.squeeze(2, 2)
    agent.user("back")
    for _ in range(2):
        texts = [data for origin, data in agent.turn().texts if "outside" in origin]
        assert [b"number 1" in text for text in texts] == [True, False]
        assert b"number 2" in texts[1]
        agent.answer()
        agent.user("and now")


def test_summary_may_hold_any_text():
    agent = agent_of()
    agent.take(events_of(agent, Firing("manual", tuple(agent.entries())[:4]), 'a "b" \ud83d \x00 </x>\u2028'))
    agent.restart("log")
    assert isinstance(agent.entries()[0].item, CompactDivider)


def test_compactions_have_different_uuids():
    agent = agent_of(6)
    agent.squeeze(8)
    agent.squeeze(4)
    first, second = (events[1].uuid for events, _, _ in agent.made)
    assert first != second
    assert first.startswith("compact-")
