"""Lookback: how many new positions stand between two breakpoints, by the rule of the day."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lore.cache.reach import gap
from model.making import body, parsed

CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}
TODAY, DOCUMENTED, FIRST = (
    datetime(*day, tzinfo=UTC).timestamp() for day in ((2026, 7, 1), (2025, 7, 1), (2024, 12, 4))
)


def text(said, *, breakpoint=False):
    return {"type": "text", "text": said, **(CACHE_CONTROL if breakpoint else {})}


def loop(calls, *, keep=False, thinking=0):
    """A question, its breakpoint on the left; then calls and results, a breakpoint on the last of them on the right."""
    thought = [{"type": "thinking", "thinking": "…", "signature": "s"}] * thinking
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "ls", "input": {}} for n in range(calls)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "ok"} for n in range(calls)]
    results[-1] |= CACHE_CONTROL
    left = parsed(body({"role": "user", "content": [text("go", breakpoint=True)]}))
    right = parsed(
        body(
            {"role": "user", "content": [text("go", breakpoint=keep)]},
            {"role": "assistant", "content": [*thought, *uses]},
            {"role": "user", "content": results},
        )
    )
    return left, right


@pytest.mark.parametrize(
    ("calls", "at", "new", "exceeded"),
    [
        (10, TODAY, 20, False),
        (11, TODAY, 22, True),
        (11, None, 22, True),  # without a date the latest rule holds
        (24, DOCUMENTED, 2, False),  # a run of calls, a run of results
        (1, FIRST, 2, True),  # only an entry at a breakpoint was read
    ],
)
def test_positions_are_counted_by_the_rule_of_the_day(calls, at, new, exceeded):
    found = gap(*loop(calls), at)
    assert found is not None
    assert (found.new, found.exceeded) == (new, exceeded)


def test_a_second_breakpoint_where_the_last_one_stood_is_always_in_reach():
    found = gap(*loop(30, keep=True), TODAY)
    assert found is not None
    assert (found.new, found.exceeded) == (0, False)


def test_thinking_is_no_position():
    found = gap(*loop(10, thinking=5), TODAY)
    assert found is not None
    assert found.new == 20


def test_automatic_caching_sets_a_breakpoint_at_the_end():
    left = parsed(body("a", cache_control={"type": "ephemeral"}))
    right = parsed(
        body("a", {"role": "assistant", "content": [text("b")] * 21}, "c", cache_control={"type": "ephemeral"})
    )
    found = gap(left, right, TODAY)
    assert found is not None
    assert (found.new, found.exceeded) == (22, True)


def test_a_breakpoint_that_moved_back_leaves_the_entry_out_of_reach():
    left, right = loop(1)
    found = gap(right, left, TODAY)
    assert found is not None
    assert (found.new, found.exceeded) == (-1, True)


def test_nothing_is_said_without_breakpoints_or_of_other_models():
    assert gap(parsed(body("a")), parsed(body("a", "b")), TODAY) is None
    chat = {"model": "gpt-5.6", "messages": [{"role": "user", "content": [text("a", breakpoint=True)]}]}
    assert gap(parsed(chat, "openai-chat"), parsed(chat, "openai-chat"), TODAY) is None
