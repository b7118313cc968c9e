"""DeepSeek: only whole units are read."""

from __future__ import annotations

from cache.asking import piece, pieces, reads, request, rules
from lore.cache.base import Piece, Request


def test_third_request_reads_the_common_part_of_two():
    assert reads("deepseek", [request("AB"), request("AC"), request("AD")]) == [0, 0, 16]


def test_the_end_of_an_output_is_a_unit():
    assert reads("deepseek", [request("A", output=pieces("BC")), request("ABCD")]) == [0, 48]
    assert reads("deepseek", [request("A", output=pieces("BC")), request("ABD")]) == [0, 16]


def test_common_beginning_inside_a_piece_is_a_unit():
    alike = [Request("main", [Piece(b"x" * 40 + end * 20, "messages", tokens=30)]) for end in (b"1", b"2", b"3")]
    assert reads("deepseek", alike) == [0, 0, 20]


def test_a_fixed_interval_makes_units_within():
    asked = [request([piece("A", 100), piece("B", 100)]), request([piece("A", 100), piece("C", 100)])]
    assert reads("deepseek", asked, interval=64) == [0, 64]
    assert reads("deepseek", asked, rules(block_tokens=64)) == [0, 64]
    assert reads("deepseek", asked) == [0, 0]


def test_unit_being_written_is_not_read():
    one, other, late = (
        request("AB", chain=name, at=at, answered=at + 4) for name, at in (("1", 0), ("2", 1), ("3", 9))
    )
    assert reads("deepseek", [one, other, late]) == [0, 0, 32]
