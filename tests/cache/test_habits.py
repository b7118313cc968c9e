"""Habits: rows to chances, chances to outcomes."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lore.cache.base import Outcome
from lore.cache.bills import DROP
from lore.cache.forecast import WEIGHT, Tally, chance, outcomes
from lore.cache.habits import UNCOUNTED, UNSIGNED, Habit, Habits
from lore.model.state import SIGNS
from lore.run.rules import packaged

HABITS = packaged().habits


def row(sign="skill", *, moment="request", moves="history", fell=1, seen=4, **fields):
    return Habit(
        sign=sign, moment=moment, moves=moves, fell=fell, seen=seen, sessions=10, counted=date(2026, 1, 1), **fields
    )


def counts(sign, *, prompted=False, **fields):
    """What the packaged row that holds was counted to."""
    found = HABITS.find(sign, prompted=prompted, **fields)
    return None if found is None else (found.fell, found.seen, found.moves)


@pytest.mark.parametrize(("fell", "seen", "low", "high"), [
    (2, 2, 0.8, 0.9), (41, 42, 0.95, 0.98), (0, 16, 0.02, 0.04), (1, 12, 0.08, 0.15), (0, 0, 0.5, 0.5),
])  # fmt: skip
def test_a_share_of_few_is_less_sure_than_the_same_share_of_many(fell, seen, low, high):
    assert low <= chance(row(fell=fell, seen=seen), Tally()) <= high


def test_what_the_session_shows_is_added_and_the_packaged_counts_weigh_at_most_so_much():
    many = row(fell=41, seen=42)
    harmless = [chance(many, Tally(seen, 0)) for seen in range(6)]
    assert harmless == sorted(harmless, reverse=True)
    assert harmless[3] > 0.5 > harmless[4]
    assert chance(many, Tally(100, 0)) < WEIGHT / 100
    assert chance(row(fell=0, seen=16), Tally(4, 4)) > 0.5 > chance(row(fell=0, seen=16), Tally(3, 3))


@pytest.mark.parametrize(("sign", "fields", "expected"), [
    ("hook-context", {"prompted": True}, (41, 42, "text")),
    ("hook-context", {}, None),
    ("tool-reference", {"version": "2.1.118", "first": True}, (11, 48, "head")),
    ("tool-reference", {"version": "2.1.119", "first": True}, (20, 21, "head")),
    ("tool-reference", {"version": "2.1.207", "first": True}, (20, 21, "head")),
    ("tool-reference", {"version": "2.1.208", "first": True}, (11, 48, "head")),
    ("tool-reference", {"version": "2.1.209", "first": True}, (0, 16, "head")),
    ("tool-reference", {"version": "2.1.119"}, (1, 12, "head")),
    ("tool-reference", {"version": "2.1.300", "prompted": True}, (0, 16, "head")),
    ("tool-reference", {"first": True}, (11, 48, "head")),
    ("no-thinking", {"prompted": True, "model": "claude-opus-4-5"}, (26, 27, "history")),
    ("no-thinking", {"prompted": True, "model": "claude-sonnet-4-5"}, (26, 27, "history")),
    ("no-thinking", {"prompted": True, "model": "claude-opus-4-6"}, None),
    ("no-thinking", {"prompted": True}, None),
    ("skill", {"prompted": True, "version": "2.1.58"}, (31, 42, "text")),
    ("skill", {"prompted": True, "version": "2.1.59"}, (25, 179, "history")),
    ("skill", {"prompted": True}, (25, 179, "history")),
    ("skill", {"version": "2.1.58"}, (25, 179, "history")),
    ("image", {"prompted": True}, (2, 16, "history")),
    ("image", {}, (0, 66, "history")),
    ("client-version", {}, (2, 2, "head")),
    ("effort", {}, (3, 3, "history")),
    ("cleared", {}, (8, 8, "text")),
    ("micro-compaction", {}, (4, 12, "history")),
    ("expiry", {}, (411, 442, "head")),
    ("older-entry", {}, (8, 50, "history")),
])  # fmt: skip
def test_the_row_that_holds_is_the_nearest(sign, fields, expected):
    assert counts(sign, **fields) == expected


def test_every_packaged_row_holds_somewhere():
    for habit in HABITS.rows:
        version = habit.from_version or ("1.0" if habit.before_version else "")
        asked = {"first": bool(habit.first), "version": version, "model": habit.model.strip("*")}
        asked["provider"] = habit.provider
        assert HABITS.find(habit.sign, prompted=habit.moment == "prompt", **asked) is habit
        assert (habit.sign in SIGNS) != (habit.sign in UNSIGNED)
        assert habit.sessions > 0
        assert (bool(habit.source), habit.evidence) == (True, "M")


def test_every_sign_of_a_log_is_weighed_and_so_is_all_else_that_was_counted():
    assert {habit.sign for habit in HABITS.rows} == (set(SIGNS) | set(UNSIGNED)) - UNCOUNTED


def test_a_row_of_the_users_holds_over_the_others():
    own = row(moment="request", own=True)
    assert Habits([row("skill", moment="prompt"), own]).find("skill", prompted=True) is own


def test_the_deepest_fall_decides_and_falls_to_one_place_are_one_outcome():
    falls = [Outcome(500, 0.5, "a"), Outcome(100, 0.2, "b"), Outcome(500, 0.5, "c"), Outcome(900, 1.0, "no fall")]
    found = {outcome.read: (round(outcome.probability, 3), outcome.why) for outcome in outcomes(900, "goes-on", falls)}
    assert found == {100: (0.2, "b"), 500: (0.6, "a"), 900: (0.2, "goes-on")}
    assert outcomes(900, "goes-on", falls)[0].read == 500


def test_outcomes_that_are_no_drop_apart_speak_for_one_another():
    found = outcomes(20_300, "hidden-request", [Outcome(20_000, 0.6, "goes-on"), Outcome(9_000, 0.48, "skill")])
    assert [(outcome.read, round(outcome.probability, 3)) for outcome in found] == [
        (20_000, 0.312), (9_000, 0.48), (20_300, 0.208),
    ]  # fmt: skip


@given(st.integers(0, 10_000), st.lists(st.tuples(st.integers(0, 12_000), st.floats(0, 1))))
@example(1_001, [(0, 0.5), (0, 0.5), (1, 0.0)])  # what is likelier than not stands first, whatever lies between
def test_outcomes_sum_to_one_and_none_is_above_what_stands(read, drawn):
    found = outcomes(read, "goes-on", [Outcome(where, likely, "x") for where, likely in drawn])
    assert abs(sum(outcome.probability for outcome in found) - 1) < 1e-9
    assert all(0 <= outcome.read <= read and 0 <= outcome.probability <= 1 for outcome in found)
    assert len({outcome.read for outcome in found}) == len(found)
    near = [sum(o.probability for o in found if abs(o.read - outcome.read) <= DROP) for outcome in found]
    assert found[0].probability > 0.5 or near[0] == pytest.approx(max(near))
