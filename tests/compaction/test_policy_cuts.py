"""What a compaction removes."""

from helpers.strategies.compacting import Compacted
from lore.compaction.policy import kept_entries, opening_entries, prunable_entries


def names(entries):
    return [entry.item.uuid for entry in entries]


def exchanges(count):
    return Compacted().play([("exchange", "main", None)] * count)  # u1 a2 u4 a5 u7 a8 …


def test_recent_messages_are_kept():
    entries = exchanges(4).entries()
    pruned = prunable_entries(entries, 4)
    assert names(pruned) == names(entries)[:4]
    assert names(kept_entries(entries, pruned)) == names(entries)[4:]


def test_opening_is_the_divided_exchange():
    agent = exchanges(1)
    agent.user("do it")
    for _ in range(4):
        agent.calls(1)
    pruned = prunable_entries(agent.entries(), 2)
    assert names(pruned) == names(agent.entries())[:5]
    assert names(opening_entries(agent.entries(), pruned)) == names(agent.entries())[2:5]


def test_opening_of_a_compacted_exchange_is_its_rest():
    agent = exchanges(1)
    agent.user("do it")
    for _ in range(4):
        agent.calls(1)
    agent.squeeze(2)
    for _ in range(3):
        agent.calls(1)
    pruned = prunable_entries(agent.entries(), 2)
    assert names(pruned) == names(agent.entries())[:4]
    assert names(opening_entries(agent.entries(), pruned)) == names(agent.entries())[1:4]


def test_parallel_calls_stay_with_their_text():
    agent = exchanges(1)
    agent.user("do it")
    agent.turn()
    agent.item("main", type="assistant_message", uuid="a-text", text="I look", response_id="r-1")
    for number in range(5):
        call = {"type": "tool_call", "uuid": f"t-{number}", "call_id": f"c-{number}", "name": "read", "input": {}}
        agent.item("main", **call, status="completed", output="x", response_id="r-1")
    agent.answer()
    pruned = prunable_entries(agent.entries(), 2)
    assert names(kept_entries(agent.entries(), pruned))[0] == "a-text"


def test_running_call_is_kept_with_its_response():
    agent = exchanges(1)
    agent.calls(2, finish=False)
    agent.play([("exchange", "main", None)] * 3)
    pruned = prunable_entries(agent.entries(), 2)
    assert names(pruned) == [*names(agent.entries())[:2], *names(agent.entries())[4:8]]
    assert names(kept_entries(agent.entries(), pruned))[:2] == names(agent.entries())[2:4]


def test_unanswered_messages_are_kept():
    agent = exchanges(3)
    agent.user("first")
    agent.inject()
    agent.user("second")
    assert names(prunable_entries(agent.entries(), 0)) == names(agent.entries())[:6]


def test_unsent_results_are_kept():
    agent = exchanges(3)
    agent.user("do it")
    agent.calls(3)
    assert names(prunable_entries(agent.entries(), 1)) == names(agent.entries())[:7]


def test_opaque_items_do_not_count_as_messages():
    agent = exchanges(2)
    agent.item("main", type="opaque", uuid="o1", record=1)
    agent.play([("exchange", "main", None)])
    agent.item("main", type="opaque", uuid="o2", record=2)
    pruned = prunable_entries(agent.entries(), 2)
    assert names(kept_entries(agent.entries(), pruned))[-1] == "o2"
    assert len(kept_entries(agent.entries(), pruned)) == 3
    assert "o1" in names(pruned)
