"""`lore simulate` for a person: what stands on a line, and under which name."""

from __future__ import annotations

import pytest

from lore.report.simulation import _shortened  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("size", range(1, 12))
def test_a_text_is_cut_between_words(size):
    """Evidence ended in the middle of a word: `the cache li`."""
    word = "x" * size
    said = _shortened(" ".join([word] * 300))
    assert len(said) <= 160
    assert set(said.removesuffix("…").split()) == {word}


def test_a_word_that_does_not_end_is_cut():
    assert _shortened("x" * 500) == "x" * 159 + "…"


def test_a_short_text_stays():
    assert _shortened("x" * 160) == "x" * 160
