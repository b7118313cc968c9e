"""SGLang: a tree of token pages, and the eviction of its leaves."""

from __future__ import annotations

from cache.asking import piece, pieces, reads, request
from helpers.each import each
from lore.cache.registry import view_of
from lore.cache.views import Views
from model.making import parsed, turn


def test_dropped_thinking_block_breaks_the_prefix():
    said = [*pieces("ab"), piece("t", 9, kind="thinking"), piece("c", 9)]
    asked = request("ab", output=said[2:])
    assert reads("sglang", [asked, request([*pieces("ab"), piece("c", 9), piece("d", 9)])]) == [0, 32]


def test_leaf_is_evicted_as_a_whole():
    """A leaf of 32 tokens is evicted though 16 would be enough; its parent is kept."""
    asked = [request("abc"), request("ax"), request("y"), request("abc")]
    assert reads("sglang", asked, capacity=64) == [0, 16, 0, 16]


@each(
    "policy, held, read",
    [
        ("lru", "aba", [15, 0]),
        ("mru", "aba", [0, 15]),
        ("lfu", "aba", [15, 0]),
        ("slru", "aba", [15, 0]),
        ("fifo", "ab", [0, 15]),
        ("filo", "ab", [15, 0]),
    ],
)
def test_policy_decides_which_leaf_is_evicted(policy, held, read):
    """c needs a place; then a or b is requested."""
    before = [request(name) for name in (*held, "c")]
    found = [reads("sglang", [*before, request(last)], capacity=32, policy=policy)[-1] for last in "ab"]
    assert found == read


def test_higher_priority_is_evicted_later():
    held = [request("a", priority=1), request("b"), request("c")]
    found = [reads("sglang", [*held, request(last)], capacity=32, policy="priority")[-1] for last in "ab"]
    assert found == [15, 0]


def test_salts_adapters_and_extra_keys_separate_requests():
    views = Views(view_of("sglang"))
    found = []
    for extra in ({}, {"cache_salt": "x"}, {"extra_key": "x"}, {"lora_path": "x"}, {}):
        prompt = parsed({"model": "m", "messages": [{"role": "user", "content": "hello"}], **extra})
        found.append(views.of(turn(prompt, len(found) + 1)).space)
    assert len(set(found)) == 4
    assert found[0] == found[-1]
