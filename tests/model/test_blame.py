"""Blame: every code that is about a prompt says who can mend it."""

from __future__ import annotations

import pytest

from lore.model.blame import whose
from lore.model.codes import CODES


@pytest.mark.parametrize(
    ("code", "word"),
    [("LORE101", "the client:"), ("LORE113", "settings"), ("LORE301", "provider"), ("LORE303", "recording")],
)
def test_the_reader_is_told_whose_doing_it_is(code, word):
    assert word in whose(code, "waste")


def test_what_is_expected_is_nobodys_fault_and_damage_has_its_own_words():
    assert all(not whose(code, "expected") for code in CODES)
    assert not whose("LORE201", "waste")
    assert not whose("LORE402", "waste")
    assert not whose("ACME1", "waste")


def test_every_cause_of_a_miss_names_somebody():
    assert all(whose(code, one.kind) for code, one in CODES.items() if code < "LORE2" and one.kind != "expected")
