"""Counts of what agents and providers do, and which row holds."""

from __future__ import annotations

from datetime import date

import pytest

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
def test_chance_of_few_counts_is_less_extreme(fell, seen, low, high):
    assert low <= row(fell=fell, seen=seen).chance <= high


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
def test_most_specific_row_holds(sign, fields, expected):
    assert counts(sign, **fields) == expected


def test_every_packaged_row_can_hold():
    for habit in HABITS.rows:
        version = habit.from_version or ("1.0" if habit.before_version else "")
        asked = {"first": bool(habit.first), "version": version, "model": habit.model.strip("*")}
        asked["provider"] = habit.provider
        assert HABITS.find(habit.sign, prompted=habit.moment == "prompt", **asked) is habit
        assert (habit.sign in SIGNS) != (habit.sign in UNSIGNED)
        assert habit.sessions > 0
        assert (bool(habit.source), habit.evidence) == (True, "M")


def test_every_signal_has_a_count():
    assert {habit.sign for habit in HABITS.rows} == (set(SIGNS) | set(UNSIGNED)) - UNCOUNTED


def test_users_row_holds_over_packaged_rows():
    own = row(moment="request", own=True)
    assert Habits([row("skill", moment="prompt"), own]).find("skill", prompted=True) is own
