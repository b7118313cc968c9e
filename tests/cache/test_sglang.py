"""SGLang: a tree of tokens in pages of 1; at least the last token is computed."""

from __future__ import annotations

from cache.asking import piece, pieces, reads, request
from lore.cache.base import Piece, Request


def test_an_identical_prompt_reads_all_but_one_token():
    assert reads("sglang", [request("ab"), request("ab")]) == [0, 31]


def test_page_1_reads_to_the_token():
    first, second = [piece("a", 7), piece("b", 5)], [piece("a", 7), piece("c", 9)]
    assert reads("sglang", [request(first), request(second)]) == [0, 7]
    alike = [Request("main", [Piece(b"x" * 30 + end, "messages", tokens=10)]) for end in (b"1" * 10, b"2" * 10)]
    assert reads("sglang", alike) == [0, 7]


def test_larger_pages_round_down():
    assert reads("sglang", [request("ab", 10), request("abc", 10)], page_size=16) == [0, 16]


def test_what_was_generated_is_read_but_for_its_last_token():
    first = request("ab", output=pieces("c"))
    assert reads("sglang", [first, request("abcd"), request("abce")]) == [0, 47, 48]


def test_a_thinking_block_that_is_left_out_breaks_there():
    said = [*pieces("ab"), piece("t", 9, kind="thinking"), piece("c", 9)]
    asked = request("ab", output=said[2:])
    assert reads("sglang", [asked, request([*pieces("ab"), piece("c", 9), piece("d", 9)])]) == [0, 32]


def test_leaves_go_least_recently_used_first():
    asked = [request("ab"), request("ac"), request("ab"), request("ad"), request("ac"), request("ab")]
    assert reads("sglang", asked, capacity=48) == [0, 16, 31, 16, 16, 16]
