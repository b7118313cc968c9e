"""Turns: they open, they end in one of three ways, and their bills add up."""

from __future__ import annotations

import pytest

from model.making import Fold, append, event, started, user


def usage(**counts):
    return {f"{name}_tokens": count for name, count in counts.items()}


def test_a_turn_takes_the_changes_noted_before_it():
    fold = Fold(started(), event("cache_reset", reason="r"), event("turn_started", turn=1, at="t", context={"a": 1}))
    turn = fold.state.main().turn
    assert turn is not None
    assert ([one.cause for one in turn.since], turn.at, bytes(turn.context)) == (["LORE144"], "t", b'{"a":1}')
    assert fold.state.main().since == ()


def test_a_turn_number_that_does_not_rise_is_a_problem():
    assert Fold(started(), event("turn_started", turn=2), event("turn_started", turn=2)).codes == ["LORE213"]


@pytest.mark.parametrize(
    ("kind", "state"), [("turn_completed", "completed"), ("turn_failed", "failed"), ("turn_canceled", "canceled")]
)
def test_a_turn_ends_in_one_of_three_ways(kind, state):
    fold = Fold(started(), event("turn_started", turn=1), event(kind, turn=1, usage=usage(read=5), at="t"))
    last = fold.state.main().last
    assert last is not None
    assert (last.state, last.at, fold.state.main().totals.read_tokens) == (state, "t", 5)


@pytest.mark.parametrize("events", [[], [event("turn_started", turn=2)]], ids=["none", "another"])
def test_the_end_of_a_turn_that_is_not_under_way_is_a_problem(events):
    fold = Fold(started(), *events, event("turn_completed", turn=1, usage=usage(read=5)))
    assert (fold.codes, fold.state.main().last) == (["LORE213"], None)


def test_bills_add_up_and_unknown_counts_stay_unknown():
    fold = Fold(started())
    for number in (1, 2):
        fold.take(
            event("turn_started", turn=number), event("turn_completed", turn=number, usage=usage(read=5, uncached=1))
        )
    totals = fold.state.main().totals
    assert (totals.turns, totals.read_tokens, totals.uncached_tokens, totals.write_tokens) == (2, 10, 2, None)


def test_a_turn_that_ends_twice_is_billed_once():
    fold = Fold(started(), event("turn_started", turn=1), event("turn_completed", turn=1, usage=usage(read=5)))
    fold.take(event("turn_completed", turn=1, usage=usage(read=7)))
    assert fold.state.main().totals.read_tokens == 7


def test_a_bill_that_is_taken_back_is_unknown_again_not_zero():
    fold = Fold(started(), event("turn_started", turn=1), event("turn_completed", turn=1, usage=usage(read=5)))
    fold.take(event("turn_failed", turn=1))
    assert fold.state.main().totals.read_tokens is None


def test_a_turn_number_that_starts_anew_does_not_take_back_the_bill_of_the_first():
    fold = Fold(started())
    for _ in range(2):
        fold.take(event("turn_started", turn=1), event("turn_completed", turn=1, usage=usage(read=5)))
    assert (fold.state.main().totals.turns, fold.state.main().totals.read_tokens) == (2, 10)


def test_turns_of_chains_are_counted_apart():
    fold = Fold(started(), event("turn_started", turn=1), event("turn_started", turn=1, chain="side"))
    assert (fold.codes, fold.state.main().turns, fold.state.chain("side").turns) == ([], 1, 1)


def test_an_item_knows_the_turn_during_which_it_came():
    fold = Fold(started(), append(user("u")), event("turn_started", turn=3), append(user("v")))
    assert [entry.turn for entry in fold.state.main().entries] == [0, 3]


def test_counts_that_no_request_can_have_are_unknown():
    """A read of -5 tokens was shown as 18 quintillion tokens lost."""
    fold = Fold(started(), event("turn_started", turn=1))
    fold.take(
        event("turn_completed", turn=1, usage={"read_tokens": -5, "write_tokens": 10**9 + 1, "uncached_tokens": 7})
    )
    usage = fold.state.main().last.usage
    assert (usage.read_tokens, usage.write_tokens, usage.uncached_tokens, fold.codes) == (None, None, 7, ["LORE207"])


def test_a_late_bill_of_the_turn_before_is_in_the_sums_at_once():
    fold = Fold(started(), event("turn_started", turn=1), event("turn_completed", turn=1, usage={"output_tokens": 1}))
    fold.take(event("turn_started", turn=2))
    fold.take(event("turn_completed", turn=1, usage={"output_tokens": 9}))
    assert fold.state.main().totals.output_tokens == 9
    fold.take(event("turn_completed", turn=2, usage={"output_tokens": 2}))
    assert (fold.state.main().totals.output_tokens, fold.problems) == (11, [])
