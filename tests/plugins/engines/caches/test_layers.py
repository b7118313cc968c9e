"""Layers that do not keep every token: what a request goes on from, and what goes where their memory is short."""

from __future__ import annotations

import pytest

from cache.asking import predicted, reads, request
from lore.errors import LoreError


def sglang(*requests, **options):
    return reads("sglang", [request(each) if isinstance(each, str) else each for each in requests], **options)


def test_states_are_kept_at_chunks_and_where_a_prompt_was_left():
    """The last chunk of a prompt; sent again, it is left one token before its end: a chunk before."""
    options = {"states": True, "state_chunk": 16}
    assert sglang("abcd", "abcde", **options) == [0, 64]
    assert sglang("abcd", "abcd", "abcd", **options) == [0, 0, 48]
    assert sglang("abcd", "abx", "aby", **options) == [0, 0, 32]
    assert sglang("abcd", "abcde", states=True, state_chunk=48) == [0, 48]


def test_what_is_known_is_exact_and_what_is_not_a_ceiling():
    confidences = [
        predicted("sglang", [request("ab")], **options)[0].confidence
        for options in ({"window": 16}, {"states": True}, {"hybrid": True})
    ]
    assert confidences == ["exact", "exact", "ceiling"]


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"window": 0}, "window=4096"),
        ({"window_capacity": 9}, "window=TOKENS"),
        ({"state_interval": 9}, "states=true"),
        ({"window": 9, "states": True}, "hybrid=true"),
        ({"window": 9, "tree": "radix"}, "tree=unified"),
        ({"states": True, "strategy": "no_buffer", "page_size": 16}, "page_size=1"),
        ({"states": True, "state_chunk": 0}, "state_chunk=64, state_interval=256"),
        ({"states": True, "state_capacity": 4}, "state_capacity=5"),
    ],
)
def test_settings_that_no_server_has_are_an_error_that_says_what_is_one(options, hint):
    with pytest.raises(LoreError) as raised:
        reads("sglang", [], **options)
    assert raised.value.hint == hint
