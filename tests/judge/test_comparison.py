"""Two sides are called different only where the counts are large enough to say so."""

import random
from math import isclose

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from lore.judge.measures import RATIOS, compare_shares, measure, share_of
from lore.judge.sums import Sums

BY_NAME = {ratio.name: ratio for ratio in RATIOS}
EMPTY = Sums().result("")


def session(requests=100, breaks=0, read=900, uncached=100, dollars=None, **more):
    return msgspec.structs.replace(
        EMPTY, requests=requests, breaks=breaks, read_tokens=read, uncached_tokens=uncached, dollars=dollars, **more
    )  # fmt: skip


def test_share_has_wilsons_interval():
    """Figures of Newcombe's tables (1998), method 3: 81 of 263 and 15 of 148."""
    for events, trials, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)):
        side = share_of(events, trials, 2)
        assert side.interval is not None
        assert isclose(side.interval.low, low, abs_tol=1e-4)
        assert isclose(side.interval.high, high, abs_tol=1e-4)


def test_difference_of_shares_has_newcombes_interval():
    """56 of 70 against 48 of 80: 0.0524 to 0.3339 by his method 10."""
    comparison = measure(BY_NAME["breaks"], [session(40, 24)] * 2, [session(35, 28)] * 2)
    assert comparison.difference == pytest.approx(0.2)
    assert comparison.interval is not None
    assert comparison.interval.low == pytest.approx(0.0524, abs=1e-4)
    assert comparison.interval.high == pytest.approx(0.3339, abs=1e-4)
    assert (comparison.interval.over, comparison.outcome) == ("requests", "higher")


@each("first, second, outcome", [
    ((2, 7), (0, 9), "too-few"),
    ((0, 900), (0, 900), "too-few"),
    ((50, 900), (52, 900), "no-difference"),
    ((50, 900), (5, 900), "lower"),
    ((5, 900), (50, 900), "higher"),
    ((898, 900), (900, 900), "too-few"),
    ((0, 0), (5, 900), "unknown"),
])  # fmt: skip
def test_outcome_of_comparing_shares_depends_on_counts(first, second, outcome):
    assert compare_shares(share_of(*first, 2), share_of(*second, 2)) == outcome


def test_one_session_on_a_side_is_too_few():
    """Requests of one session depend on each other: 14 of 234 against 0 of 82 once gave a strong advice."""
    assert compare_shares(share_of(500, 900, 1), share_of(5, 900, 6)) == "too-few"
    assert measure(BY_NAME["breaks"], [session(900, 500)], [session(450, 2)] * 2).outcome == "too-few"


def test_amount_needs_five_sessions_a_side():
    few, many = [session(dollars=1.0)] * 4, [session(dollars=1.0 + n / 10) for n in range(5)]
    assert measure(BY_NAME["money"], few, many).outcome == "too-few"
    assert measure(BY_NAME["money"], many, [session(dollars=9.0 + n / 10) for n in range(5)]).outcome == "higher"
    assert measure(BY_NAME["money"], many, [session(dollars=1.1)] * 5).outcome == "too-few", "no spread says nothing"


def test_one_bad_session_makes_no_difference_of_sides():
    """Requests of a session are not independent: 40 breaks in one of six sessions say little of the others."""
    first_side = [session(100, 1), session(100, 0), session(100, 2), session(100, 1), session(100, 0), session(100, 1)]
    second_side = [session(100, 40), *first_side[1:]]
    comparison = measure(BY_NAME["breaks"], first_side, second_side)
    assert comparison.interval is not None
    assert (comparison.interval.over, comparison.outcome) == ("sessions", "no-difference")
    alone = compare_shares(share_of(5, 600, 6), share_of(44, 600, 6))
    assert alone == "higher", "which is what requests alone would say"


def test_equal_sides_differ_in_one_of_twenty():
    """The confidence intervals are right on random sessions whose two sides are alike."""
    draw, wrong, rounds = random.Random(7), 0, 400
    for _ in range(rounds):
        sides = [
            [session(size := draw.randint(20, 200), sum(draw.random() < rate for _ in range(size)))
             for rate in (draw.uniform(0.02, 0.2) for _ in range(8))]
            for _ in range(2)
        ]  # fmt: skip
        wrong += measure(BY_NAME["breaks"], *sides).outcome in ("higher", "lower")
    assert wrong / rounds < 0.09


counts = st.tuples(st.integers(0, 500), st.integers(0, 500)).map(lambda pair: (min(pair), max(pair)))


@given(counts, counts)
def test_sides_that_change_places_change_the_outcome_alone(first, second):
    forth, back = (compare_shares(share_of(*a, 2), share_of(*b, 2)) for a, b in ((first, second), (second, first)))
    turned = {"higher": "lower", "lower": "higher"}
    assert turned.get(forth, forth) == back


@given(st.lists(counts.filter(lambda pair: pair[1]), min_size=1, max_size=9))
def test_interval_contains_its_value(sessions):
    side_sessions = [session(trials, events) for events, trials in sessions]
    for ratio in RATIOS:
        side = measure(ratio, side_sessions, side_sessions).left
        if side.interval is not None:
            assert side.interval.low <= side.value + 1e-6
            assert side.value <= side.interval.high + 1e-6
