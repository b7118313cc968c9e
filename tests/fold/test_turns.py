"""Turns start, end in one of three ways, and their usage adds up."""

from __future__ import annotations

import pytest

from model.making import Fold, append, event, started, user


def start(turn, **fields):
    return event("turn_started", turn=turn, **fields)


def end(turn, kind="turn_completed", **counts):
    return event(kind, turn=turn, at="t", usage={f"{name}_tokens": count for name, count in counts.items()})


def totals(fold):
    return fold.state.main().totals


def test_turn_takes_the_changes_noted_before_it():
    fold = Fold(started(), event("cache_reset", reason="r"), start(1, at="t", context={"a": 1}))
    turn = fold.state.main().turn
    assert ([change.cause for change in turn.since], turn.at, bytes(turn.context)) == (["LORE144"], "t", b'{"a":1}')
    assert fold.state.main().since == ()


def test_turn_number_that_does_not_rise_is_a_problem():
    assert Fold(started(), start(2), start(2)).codes == ["LORE213"]


@pytest.mark.parametrize("state", ["completed", "failed", "canceled"])
def test_turn_ends_in_one_of_three_ways(state):
    fold = Fold(started(), start(1), end(1, f"turn_{state}", read=5))
    last = fold.state.main().last
    assert (last.state, last.at, totals(fold).read_tokens) == (state, "t", 5)


@pytest.mark.parametrize("events", [[], [start(2)]], ids=["no turn", "another turn"])
def test_end_of_other_turn_is_problem(events):
    fold = Fold(started(), *events, end(1, read=5))
    assert (fold.codes, fold.state.main().last) == (["LORE213"], None)


def test_usage_adds_up_and_unknown_counts_stay_unknown():
    sums = totals(Fold(started(), start(1), end(1, read=5, uncached=1), start(2), end(2, read=5, uncached=1)))
    assert (sums.turns, sums.read_tokens, sums.uncached_tokens, sums.write_tokens) == (2, 10, 2, None)


def test_second_end_of_a_turn_replaces_the_first():
    fold = Fold(started(), start(1), end(1, read=5), end(1, read=7))
    assert totals(fold).read_tokens == 7
    assert totals(fold.take(event("turn_failed", turn=1))).read_tokens is None


def test_repeated_turn_number_keeps_the_usage_of_the_first():
    sums = totals(Fold(started(), start(1), end(1, read=5), start(1), end(1, read=5)))
    assert (sums.turns, sums.read_tokens) == (2, 10)


def test_turns_are_counted_for_each_chain():
    fold = Fold(started(), start(1), start(1, chain="side"))
    assert (fold.codes, fold.state.main().turns, fold.state.chain("side").turns) == ([], 1, 1)


def test_item_records_the_turn_during_which_it_came():
    fold = Fold(started(), append(user("u")), start(3), append(user("v")))
    assert [entry.turn for entry in fold.state.main().entries] == [0, 3]


def test_impossible_counts_are_unknown_and_a_problem():
    """A read of -5 tokens was shown as 18 quintillion tokens lost."""
    fold = Fold(started(), start(1), end(1, read=-5, write=10**9 + 1, uncached=7))
    usage = fold.state.main().last.usage
    assert (usage.read_tokens, usage.write_tokens, usage.uncached_tokens, fold.codes) == (None, None, 7, ["LORE207"])


def test_late_usage_of_the_previous_turn_corrects_the_sums():
    fold = Fold(started(), start(1), end(1, output=1), start(2), end(1, output=9))
    assert totals(fold).output_tokens == 9
    assert (totals(fold.take(end(2, output=2))).output_tokens, fold.problems) == (11, [])
