"""Agreement: what is counted."""

from __future__ import annotations

from lore.judge.agreement import Agreement, Row, agreement


def test_exact_near_and_far_are_counted_for_both_rules():
    found = agreement([Row(100, 100, 100), Row(100, 98, 110), Row(100, 90, 100)])
    assert (found.turns, found.exact, found.within, found.error) == (3, 1, 2, 12)
    assert (found.naive_exact, found.naive_within, found.naive_error) == (2, 2, 10)
    assert (found.mean_error, found.naive_mean_error) == (4.0, 10 / 3)


def test_drops_are_foreseen_missed_or_false():
    rows = [
        Row(0, 0, 5_000),
        Row(0, 5_000, 5_000),
        Row(5_000, 0, 5_000),
        Row(4_000, 4_500, 5_000),
        Row(0, 2_000, 5_000),
    ]
    found = agreement(rows)
    assert (found.drops, found.foreseen, found.false_drops) == (3, 2, 1)


def test_silence_is_compared_as_the_naive_rule():
    assert agreement([Row(90, None, 100)]).error == 10


def test_of_nothing_there_is_no_mean():
    assert agreement([]).mean_error is None
    assert Agreement().plus(Agreement(1, 1)).turns == 1
