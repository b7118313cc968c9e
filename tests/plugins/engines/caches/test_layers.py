"""Layers that do not keep every token: what a request goes on from, and what goes where their memory is short."""

from __future__ import annotations

import pytest

from cache.asking import piece, predicted, reads, request
from lore.errors import LoreError


def sglang(*requests, **options):
    return reads("sglang", [request(each) if isinstance(each, str) else each for each in requests], **options)


def test_a_window_at_the_end_of_a_prompt_is_read():
    assert sglang("abcd", "abcd", "abcde", window=16) == [0, 63, 64]


def answered(names):
    """Return a request with a response of more than a token: its prompt is published while it runs."""
    return request(names, output=[piece("o" + names, 9)])


def test_where_a_prompt_is_left_its_window_is_gone_until_a_request_published_it_there():
    assert sglang(answered("abcd"), answered("abx"), answered("aby"), window=16) == [0, 0, 32]
    assert sglang(answered("abcd"), answered("abx"), answered("aby"), window=63) == [0, 32, 32]


def test_a_prompt_whose_response_is_one_token_keeps_its_windows():
    assert sglang("abcd", "abx", window=16) == [0, 32]


def test_a_response_of_one_token_holds_what_was_held_up_to_another_prompt_alone():
    assert sglang(answered("abcd"), "abx", "abx", window=16) == [0, 0, 32]


def test_the_window_of_a_prompt_in_pages_is_whole_pages():
    assert sglang(answered("abcd"), "abcx", window=20, page_size=16) == [0, 48]
    assert sglang(answered("abcd"), "abx", window=20, page_size=16) == [0, 0]
    assert sglang(answered("abcd"), "abx", window=33, page_size=16) == [0, 32]


def test_windows_have_memory_of_their_own_and_go_least_recently_used_first():
    assert sglang("ab", "cd", "abe", "cde", window=32, window_capacity=96) == [0, 0, 32, 32]
    assert sglang("ab", "cd", "ef", "cdx", "abx", window=32, window_capacity=80) == [0, 0, 0, 32, 0]


def test_a_long_response_gives_back_the_window_of_its_prompt():
    asked = [request("ab", output=[piece("o", 300)]), request("abx")]
    assert reads("sglang", asked, window=16) == [0, 32]
    long = [request([piece("a", 16)], output=[piece("o", 300)]), request([piece("a", 16), piece("x")])]
    assert reads("sglang", long, window=16) == [0, 16]
    goes_on = request([*asked[0].pieces, piece("o", 300), piece("x")])
    assert reads("sglang", [*asked, goes_on], window=16)[-1] == 331


def test_long_prompts_are_published_chunk_by_chunk_and_keep_what_ends_a_chunk():
    assert sglang("abcd", "abcd", states=True, strategy="no_buffer") == [0, 0]
    assert sglang("abcd", "abcd", states=True, strategy="no_buffer", chunked_prefill=32) == [0, 32]
    assert sglang("abcd", "abx", window=16, chunked_prefill=32) == [0, 32]


def test_a_state_is_read_where_it_was_kept():
    assert sglang("ab", "abc", "abcd", "abx", states=True, strategy="no_buffer") == [0, 32, 48, 32]


def test_states_are_kept_at_chunks_and_where_a_prompt_was_left():
    """The last chunk of a prompt; sent again, it is left one token before its end: a chunk before."""
    options = {"states": True, "state_chunk": 16}
    assert sglang("abcd", "abcde", **options) == [0, 64]
    assert sglang("abcd", "abcd", "abcd", **options) == [0, 0, 48]
    assert sglang("abcd", "abx", "aby", **options) == [0, 0, 32]
    assert sglang("abcd", "abcde", states=True, state_chunk=48) == [0, 48]


def test_a_prompt_shorter_than_a_chunk_is_not_kept():
    assert sglang("ab", "abc", "abcd", states=True) == [0, 0, 0]


def test_a_state_of_what_was_generated_is_kept_at_the_interval():
    asked = [request("ab", output=[piece("o", 40)]), request([*request("ab").pieces, piece("o", 40), piece("x")])]
    assert reads("sglang", asked, states=True, state_chunk=16, state_interval=64) == [0, 64]
    assert reads("sglang", asked, states=True, state_chunk=16) == [0, 32]


def test_states_go_least_recently_used_first():
    asked = ("ab", "cd", "abx", "ef", "abz", "cdz")
    assert sglang(*asked, states=True, strategy="no_buffer") == [0, 0, 32, 0, 32, 32]
    assert sglang(*asked, states=True, strategy="no_buffer", state_capacity=4) == [0, 0, 32, 0, 32, 0]


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
