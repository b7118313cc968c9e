"""What openfang's continuous compaction promised: triggers, activity gate, overflow stages, and who said what.

One test for each scenario, upstream's name in its first line where it has one; the defects that were derived from its
code are scenarios too. Summaries and outside context, and memory, have files of their own.
"""

from __future__ import annotations

import pytest

from helpers.strategies.compacting import Compacted
from lore import event
from lore.compaction.activity import SessionActivity
from lore.compaction.base import Firing, TimelineCut, Window
from lore.compaction.entries import count_calls, count_messages, has_real_activity, tokens_of
from lore.compaction.executor import compaction_events
from lore.compaction.policy import (
    AFTER_TURN,
    BEFORE_TURN,
    find_cut,
    find_due,
    is_cadence,
    kept_entries,
    plan_overflow,
    pruned_entries,
)
from lore.compaction.settings import Compaction, ContextSource
from lore.config import Sessions
from lore.model.items import ToolCall, UserMessage

NOON = 1772366400.0  # 2026-03-01T12:00:00Z
DAY = 86_400


def every(interval, keep=6):
    return Compaction(continuous_interval=interval, keep_recent=keep)


# needs_continuous


@pytest.mark.parametrize("exchanges", [0, 1, 5, 100])
def test_an_interval_of_0_is_off(exchanges):
    assert Compaction().continuous_interval == 0
    assert not is_cadence(exchanges, 1_000, every(0))


def test_a_cadence_fires_on_multiples_of_its_interval():
    """exchange_count is taken after the exchange is counted."""
    assert [count for count in range(1, 13) if is_cadence(count, 50, every(4))] == [4, 8, 12]


def test_a_cadence_needs_more_messages_than_are_kept():
    """keep_recent boundary: the docs said 6 and the runtime took 10; lore has one default."""
    assert Compaction().keep_recent == 6
    assert [size for size in (5, 6, 7) if is_cadence(3, size, every(3))] == [7]


def test_without_a_compaction_block_nothing_is_probed():
    """A first draft defaulted gap_secs to 900 and was caught in review."""
    assert find_due(None, None, None, now=NOON) is None
    assert Compaction().gap_secs == 0
    assert Sessions().gap_secs == 300, "a different knob"


def test_a_cadence_is_asked_after_a_turn_and_a_gap_before_it():
    assert ("cadence" in AFTER_TURN, "gap" in AFTER_TURN) == (True, False)
    assert ("cadence" in BEFORE_TURN, "gap" in BEFORE_TURN) == (False, True)


# gaps


def session(*times, agent=None, back=None):
    """An agent that was asked at these times (seconds before noon), and asked again at `back`."""
    made = Compacted(user_id="ann")
    for before in times:
        asked(made, before, agent)
        made.turn()
        made.answer()
    if back is not None:
        asked(made, back, agent)
    return made


def asked(made, before, agent):
    clock = int(12 * 3600 - before)
    at = f"2026-03-01T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}Z"
    item = {"type": "user_message", "uuid": made.new_id("u"), "text": "hi"}
    more = {"agent_id": agent} if agent else {}
    made.do("append", item=item, at=at, **more)


GAP = Compaction(gap_secs=900, keep_recent=2, context_sources=(ContextSource("mail", ("mail",)),))


def gap(made, settings=GAP, **more):
    return find_due(
        SessionActivity(made.events).chain(), made.entries(), settings, now=NOON, triggers=BEFORE_TURN, **more
    )


@pytest.mark.parametrize(("pause", "fires"), [(899, False), (900, True), (7_200, True)])
def test_a_gap_fires_from_gap_secs_on(pause, fires):
    assert bool(gap(session(pause + 9, pause + 5, pause, back=0))) is fires


def test_gaps_are_told_apart_by_agent_and_user():
    made = session(3_000, 2_000, 1_000, agent="hand", back=0)
    assert gap(made, agent="hand", user="ann").trigger == "gap"
    assert gap(made, agent="hand", user="bob") is None
    assert gap(made, agent="other") is None


def test_a_first_message_is_no_gap():
    """#948 took it for an infinite one: there was nothing to compact, and sources were asked all the same."""
    assert gap(session(back=0)) is None


def test_a_gap_of_0_is_off():
    assert gap(session(9_000, 8_000, 7_000, back=0), GAP.__class__(keep_recent=2)) is None


def test_the_window_begins_with_the_last_compaction_else_with_the_look_back():
    made = session(9_000, 8_000, 7_000, back=0)
    assert gap(made).window == Window(NOON - DAY, NOON)
    made = session(9_000, 8_000, 7_000)
    made.do("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u7", "a8"], at="2026-03-01T11:00:00Z")
    asked(made, 0, None)
    assert gap(made, user="ann").window == Window(NOON - 3_600, NOON)


def test_the_window_is_fixed_before_compaction_begins():
    """from_ts was read after the compaction had moved it, and nothing had happened since."""
    made = session(9_000, 8_000, 7_000, back=0)
    firing = gap(made)
    made.take(compaction_events(made.session.state, "main", firing, "so far", at="2026-03-01T12:00:00Z"))
    assert firing.window == Window(NOON - DAY, NOON)


# the activity gate

ACTIVITY = {
    "empty": ([], False),
    "one user message": ([("user", "hello")], True),
    "assistant only": ([("assistant", "hello")], False),
    "injected context only": ([("context_injection", "mail came")], False),
    "autonomous ticks only": ([("user", "[AUTONOMOUS TICK] go"), ("assistant", "ok")], False),
    "scheduled ticks only": ([("user", "[SCHEDULED TICK] 09:00"), ("assistant", "ok")], False),
    "a person between ticks": ([("user", "[SCHEDULED TICK]"), ("user", "stop"), ("user", "[AUTONOMOUS TICK]")], True),
    "a person and injected context": ([("context_injection", "mail came"), ("user", "read it")], True),
}


def told(said):
    made = Compacted()
    for who, text in said:
        made.answer(text) if who == "assistant" else made.user(text, source=who)
    return made


@pytest.mark.parametrize("case", ACTIVITY)
def test_has_real_user_activity(case):
    said, real = ACTIVITY[case]
    assert has_real_activity(told(said).entries()) is real


@pytest.mark.parametrize("case", [case for case, (_, real) in ACTIVITY.items() if not real])
def test_a_session_without_real_activity_is_skipped(case):
    """96.9 % of what was stored was scheduler ticks."""
    made = told(ACTIVITY[case][0] * 9)
    settings = Compaction(continuous_interval=1, keep_recent=1, gap_secs=1)
    assert find_due(SessionActivity(made.events).chain(), made.entries(), settings, now=NOON) is None


def test_tool_calls_are_counted_one_by_one():
    made = told([("user", "go")])
    made.calls(3)
    made.calls(1)
    assert count_calls(made.entries()) == 4


# overflow


def filled(count, size, *, output=0):
    """So many messages of so many tokens, the last one the result of a call where `output` is given (characters)."""
    made = Compacted()
    for number in range(count - bool(output)):
        made.answer("x" * 4 * size) if number % 2 else made.user("x" * 4 * size)
    if output:
        made.calls(1, output="r" * output)
    return made.entries()


def drained(entries, plan):
    """How many messages an overflow takes away."""
    return count_messages(pruned_entries(entries, plan.cut))


def test_up_to_70_percent_nothing_happens():
    assert plan_overflow(filled(14, 50), 1_000) is None
    assert plan_overflow(filled(14, 50), 999) is not None


def test_stage_1_keeps_the_last_10_where_that_is_enough():
    plan = plan_overflow(filled(16, 50), 1_000)
    assert (drained(filled(16, 50), plan), plan.cut, plan.shortened, plan.final) == (6, TimelineCut(6), (), False)
    assert plan.tokens <= 700


def test_stage_2_keeps_the_last_4_with_a_marker():
    plan = plan_overflow(filled(12, 70), 1_000)
    assert (drained(filled(12, 70), plan), plan.cut) == (8, TimelineCut(8))
    assert plan.marker == (
        "[System: 8 earlier messages were removed due to context overflow. The conversation continues from here. "
        "Use /compact for smarter summarization.]"
    )


def test_above_90_percent_stage_1_is_passed_over():
    assert drained(filled(20, 46), plan_overflow(filled(20, 46), 1_000)) == 16


def test_stage_3_cuts_long_results():
    plan = plan_overflow(filled(8, 50, output=9_000), 1_000)
    assert [one.text for one in plan.shortened] == [
        "r" * 1_920 + "\n[OVERFLOW RECOVERY: truncated from 9000 to 1920 chars]"
    ]
    assert not plan.final
    assert plan.tokens <= 900


def test_what_is_too_full_even_then_is_final():
    assert plan_overflow(filled(8, 300), 1_000).final


def test_a_few_messages_under_90_percent_are_not_final():
    """Defect (a): 4 messages at 71 to 90 % without a long result ended in FinalError."""
    assert plan_overflow(filled(4, 200), 1_000) is None


def test_what_stage_2_drops_is_counted_as_drained():
    """Defect (b): the drain count knew stage 1 alone, so what stage 2 dropped was never extracted."""
    entries = filled(12, 70)
    plan = plan_overflow(entries, 1_000)
    stay = {entry.item.uuid for entry in kept_entries(entries, plan.cut)}
    assert drained(entries, plan) == sum(one.item.uuid not in stay for one in entries) == 8


def test_the_marker_counts_all_that_was_removed():
    """Defect (c): N was what stage 2 removed after stage 1 had removed more."""
    assert "[System: 9 earlier messages" in plan_overflow(filled(13, 69), 1_000).marker


def test_2_000_is_a_limit_of_characters():
    """Defect (d): it was bytes, and text in other scripts was cut at a third of it."""
    made = Compacted()
    made.user("x" * 3_700)
    made.calls(1, output="\u3042" * 2_000)
    assert plan_overflow(made.entries(), 1_000).shortened == ()


def test_a_boundary_inside_a_response_moves_back_over_all_of_it():
    """Defects (e) and (f): one message was looked back at, and the push forward did nothing."""
    made = Compacted()
    for _ in range(4):
        made.user()
        made.answer()
    made.user("all of them")
    made.turn()
    made.calls(6)
    made.answer()
    entries = made.entries()
    stay = [entry.item for entry in kept_entries(entries, find_cut(entries, 4))]
    assert [type(one) for one in stay].count(ToolCall) == 6


def test_a_tool_pair_is_never_split():
    entries = filled(9, 50, output=40)
    assert isinstance(kept_entries(entries, find_cut(entries, 1))[0].item, ToolCall)


# who said it


def test_injection_carries_its_tag():
    """MessageSource::ContextInjection, which a repair of the session lost: it then counted as a person."""
    made = session(9_000, 8_000, 7_000, back=0)
    made.squeeze(2, 1)
    for way in ("log", "dump"):
        made.restart(way)
        turn = made.turn()
        origins = [one for one, data in turn.texts if b"number 1" in data]
        assert origins == ["context_injection: outside context of turn 4"]
    assert SessionActivity(made.events).chain().exchanges == 4


def test_a_source_is_left_out_where_it_is_the_user():
    """Optional, and omitted when it is none."""
    item = event("append", item={"type": "user_message", "uuid": "u", "text": "x"}).item
    assert (item, item.source) == (UserMessage("u", item.text), "user")


def test_what_overflows_is_dropped_from_the_view_and_kept_in_the_log():
    made = Compacted()
    for _ in range(8):
        made.user("x" * 400)
        made.answer("x" * 400)
    plan = plan_overflow(made.entries(), 2_000)
    before = made.log
    made.take(compaction_events(made.session.state, "main", Firing("overflow", plan.cut, marker=plan.marker), ""))
    assert made.log.startswith(before)
    assert tokens_of(made.entries()) == plan.tokens
