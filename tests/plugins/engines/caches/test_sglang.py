"""SGLang: a tree of tokens in pages; the last token is computed; leaves go whole, and not while they are used."""

from __future__ import annotations

import pytest

from cache.asking import piece, pieces, reads, request
from lore.cache.registry import view_of
from lore.cache.views import Views
from lore.errors import LoreError
from model.making import parsed, turn


def test_a_thinking_block_that_is_left_out_breaks_there():
    said = [*pieces("ab"), piece("t", 9, kind="thinking"), piece("c", 9)]
    asked = request("ab", output=said[2:])
    assert reads("sglang", [asked, request([*pieces("ab"), piece("c", 9), piece("d", 9)])]) == [0, 32]


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


def test_tenants_adapters_and_extra_keys_read_nothing_of_each_other():
    views = Views(view_of("sglang"))
    found = []
    for extra in ({}, {"cache_salt": "x"}, {"extra_key": "x"}, {"lora_path": "x"}, {}):
        prompt = parsed({"model": "m", "messages": [{"role": "user", "content": "hello"}], **extra})
        found.append(views.of(turn(prompt, len(found) + 1)).space)
    assert len(set(found)) == 4
    assert found[0] == found[-1]


def test_a_policy_that_there_is_not_is_an_error():
    with pytest.raises(LoreError, match="policy=oldest is not one of lru, lfu"):
        reads("sglang", [], policy="oldest")
