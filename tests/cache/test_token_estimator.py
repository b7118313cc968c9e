"""Positions in tokens: known from usage, interpolated between known ones, and estimated after them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.asking import piece
from lore.cache.base import Piece, Request
from lore.cache.tree import MOST, RATES, PrefixTree, Ruler


class Laid:
    """A ruler and the tree that it measures."""

    def __init__(self) -> None:
        self.tree, self.ruler = PrefixTree(), Ruler()

    def lay(self, text: list[Piece], chain: str = "main", model: str | None = None, same: int = 0) -> Ruler:
        path = self.tree.path(Request(chain, text, same))
        self.ruler.lay(chain, path, text, model)
        return self.ruler


def text(letters: str, size: int = 3600) -> list[Piece]:
    return [Piece(letter.encode() * size, "messages") for letter in letters]


def test_before_any_bill_bytes_are_measured_by_kind():
    ruler = Laid().lay([*text("a"), Piece(b"{" * 300, "tools"), Piece(b"!" * 9, "messages", "image"), piece("c", 7)])
    assert [ruler.position(place) for place in range(-1, 4)] == [0, 1000, 1100, 2600, 2607]


def test_a_billed_position_holds_for_whoever_comes_there():
    laid = Laid()
    laid.lay(text("ab")).learn(1, 2600)
    ruler = laid.lay(text("abc"), "other")
    assert (ruler.position(1), ruler.known(1), ruler.known(0)) == (2600, 2600, None)


def test_estimates_between_billed_positions_are_stretched():
    laid = Laid()
    laid.lay(text("ab")).learn(1, 3000)
    ruler = laid.lay(text("abcd"), same=2)
    assert ruler.learn(3, 5000) == ""
    assert [ruler.position(place) for place in range(4)] == [1500, 3000, 4000, 5000]


def test_usage_changes_only_its_models_rate():
    laid = Laid()
    laid.lay(text("a"), model="one").learn(0, 2000)
    assert laid.lay(text("x"), "2", "one").position(0) == round(1000 * 2**0.5)
    assert laid.lay(text("y"), "3", "two").position(0) == 1000


def test_impossible_usage_changes_no_rate():
    laid = Laid()
    ruler = laid.lay(text("ab"))
    before = [ruler.position(place) for place in range(2)]
    assert "61,838 tokens were billed where the body holds about 2,000" in ruler.learn(1, 61838)
    assert "10 tokens were billed" in ruler.learn(1, 10)
    assert [ruler.position(place) for place in range(2)] == before


def test_rates_stay_within_bounds():
    """Few bytes billed as 2,000 tokens, 400 times, made 3,600 bytes 2.4 million tokens."""
    laid = Laid()
    for turn in range(400):
        laid.lay([Piece(b"%d" % turn, "messages")], str(turn)).learn(0, 2000)
    assert laid.lay(text("a"), "last").position(0) <= 3600 * RATES["text"] * MOST


@given(st.lists(st.tuples(st.integers(1, 5000), st.none() | st.integers(0, 400)), min_size=1, max_size=12), st.data())
def test_positions_never_fall_and_known_ones_are_met(sizes, data):
    laid = Laid()
    whole = [Piece(bytes([65 + n]) * size, "messages", tokens=tokens) for n, (size, tokens) in enumerate(sizes)]
    length, billed = 0, {}
    while length < len(whole):
        length = data.draw(st.integers(length + 1, len(whole)))
        ruler = laid.lay(whole[:length], same=length)
        total = data.draw(st.integers(0, 3000)) + max(billed.values(), default=0)
        if ruler.learn(length - 1, total) == "":
            billed[length - 1] = total
    positions = [ruler.position(place) for place in range(-1, len(whole))]
    assert positions == sorted(positions)
    assert all(positions[place + 1] == total for place, total in billed.items())


@pytest.mark.parametrize("place", [-1, -5])
def test_before_the_first_piece_nothing_is_learned(place):
    assert Laid().lay(text("a")).learn(place, 5) == ""
