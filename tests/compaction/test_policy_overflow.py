"""The stages of an overflow."""

import pytest

from helpers.strategies.compacting import Compacted
from lore.compaction.entries import count_messages, tokens_of
from lore.compaction.policy import RESULT_KEPT, plan_overflow, shorten_result


def call(output):
    agent = Compacted()
    members = {"type": "tool_call", "uuid": "t", "call_id": "c", "name": "read", "input": {}, "status": "completed"}
    agent.item("main", **members, output=output)
    return agent.entries()[0].item


def texts(*strings):
    return [{"type": "text", "text": string} for string in strings]


def test_result_is_cut_by_characters():
    assert shorten_result(call("\u00e9" * 2_000)) is None
    cut = shorten_result(call("\U0001f469" * 2_001))
    assert cut == "\U0001f469" * RESULT_KEPT + "\n[OVERFLOW RECOVERY: truncated from 2001 to 1920 chars]"


def test_result_with_an_image_is_not_cut():
    image = {"type": "image", "media_type": "image/png", "data": "aGk="}
    assert shorten_result(call(texts("a" * 1_500, "b" * 1_500))).endswith("truncated from 3001 to 1920 chars]")
    assert shorten_result(call([*texts("a" * 3_000), image])) is None


def test_latest_call_of_an_id_is_cut():
    agent = Compacted()
    agent.user("go")
    for number in range(2):
        call = {"type": "tool_call", "uuid": f"t{number}", "call_id": "same", "name": "read", "input": {}}
        agent.item("main", **call, output="x" * 4_000, status="completed")
    plan = plan_overflow(agent.entries(), 1_000)
    assert [call_id for call_id, _ in plan.shortened] == ["same"]
    assert plan.final
    assert plan.tokens > 1_000


@pytest.mark.parametrize("reserve", [0, 300])
def test_overflow_keeps_room_for_a_summary(reserve):
    agent = Compacted()
    for _ in range(15):
        agent.user("x" * 400)
        agent.answer("y" * 40)
    entries = agent.entries()
    plan = plan_overflow(entries, 2_000, reserve=reserve)
    assert plan.tokens == 550 + max(reserve, 37)
    assert count_messages(plan.pruned) == 20


@pytest.mark.parametrize(("overhead", "fires"), [(9_000, False), (10_500, True)])
def test_long_head_prunes_only_a_full_window(overhead, fires):
    agent = Compacted()
    for _ in range(4):
        agent.user("x" * 400)
        agent.answer("y" * 400)
    plan = plan_overflow(agent.entries(), 12_000, overhead=overhead)
    assert (plan is not None) is fires
    assert plan is None or plan.full


@pytest.mark.parametrize(("size", "stay"), [(400, None), (1_600, 10)])
def test_small_gain_waits_for_a_full_window(size, stay):
    agent = Compacted()
    for _ in range(6):
        agent.user("x" * size)
        agent.answer("y" * size)
    entries = agent.entries()
    plan = plan_overflow(
        entries, 12_000, overhead=8_500 - tokens_of(entries)
    )  # 71 %, and below 70 % without two messages
    assert (None if plan is None else len(entries) - count_messages(plan.pruned)) == stay
