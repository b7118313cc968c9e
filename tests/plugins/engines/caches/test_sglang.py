"""SGLang: a tree of tokens in pages; the last token is computed; leaves go whole, and not while they are used."""

from __future__ import annotations

import pytest

from cache.asking import piece, pieces, reads, request
from lore.cache.base import Piece, Request
from lore.cache.registry import view_of
from lore.cache.views import Views
from lore.errors import LoreError
from model.making import parsed, turn


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


def test_a_leaf_goes_whole():
    """A leaf of 32 tokens goes though 16 would do; what stands before it is kept."""
    asked = [request("abc"), request("ax"), request("y"), request("abc")]
    assert reads("sglang", asked, capacity=64) == [0, 16, 0, 16]


@pytest.mark.parametrize(
    ("policy", "held", "read"),
    [
        ("lru", "aba", [15, 0]),
        ("mru", "aba", [0, 15]),
        ("lfu", "aba", [15, 0]),
        ("slru", "aba", [15, 0]),
        ("fifo", "ab", [0, 15]),
        ("filo", "ab", [15, 0]),
    ],
)
def test_the_policy_says_which_leaf_goes_first(policy, held, read):
    """Then c needs a place, and a is asked or b."""
    before = [request(name) for name in (*held, "c")]
    found = [reads("sglang", [*before, request(last)], capacity=32, policy=policy)[-1] for last in "ab"]
    assert found == read


def test_a_higher_priority_stays_longer():
    held = [request("a", priority=1), request("b"), request("c")]
    found = [reads("sglang", [*held, request(last)], capacity=32, policy="priority")[-1] for last in "ab"]
    assert found == [15, 0]


def test_what_was_generated_goes_before_its_prompt():
    asked = [request("a", output=[piece("o", 17)]), request("b"), request("a")]
    assert reads("sglang", asked, capacity=48) == [0, 0, 15]


def test_what_runs_cannot_go():
    first = request("a", at=0.0, answered=1.0, ended=100.0, output=[piece("o", 2)])
    asked = [first, request("b", at=10.0), request("c", at=20.0), request("a", at=30.0, chain="other")]
    assert reads("sglang", asked, capacity=49)[-1] == 15
    assert reads("sglang", [request("a", at=0.0), *asked[1:]], capacity=32)[-1] == 0


def test_requests_of_one_batch_do_not_read_each_other():
    first = request("ab", at=0.0, answered=1.0)
    found = [reads("sglang", [first, request("ab", chain="other", at=at)])[1] for at in (0.0, 0.5, 1.0)]
    assert found == [0, 0, 31]


def test_tenants_adapters_and_extra_keys_read_nothing_of_each_other():
    views = Views(view_of("sglang"))
    found = []
    for extra in ({}, {"cache_salt": "x"}, {"extra_key": "x"}, {"lora_path": "x"}, {}):
        prompt = parsed({"model": "m", "messages": [{"role": "user", "content": "hello"}], **extra})
        found.append(views.of(turn(prompt, len(found) + 1)).space)
    assert len(set(found)) == 4
    assert found[0] == found[-1]


def test_a_request_that_memory_cannot_hold_leaves_nothing_behind():
    assert reads("sglang", [request("abcd"), request("ab"), request("ab")], capacity=32) == [0, 0, 31]


def test_a_policy_that_there_is_not_is_an_error():
    with pytest.raises(LoreError, match="policy=oldest is not one of lru, lfu"):
        reads("sglang", [], policy="oldest")
