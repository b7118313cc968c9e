"""LMCache: whole chunks of 256; what was generated only where that is asked for."""

from __future__ import annotations

from cache.asking import pieces, reads, request


def test_what_was_generated_is_kept_only_where_that_is_asked_for():
    asked = [request("a", 256, output=pieces("bc", 256)), request("abcd", 256)]
    assert reads("lmcache", asked) == [0, 256]
    assert reads("lmcache", asked, decoded=True) == [0, 512]


def test_of_a_prompt_that_was_stored_and_not_asked_for_again_the_first_chunk_goes_first():
    """So what is left of it is not found."""
    asked = [request("ab", 256), request("xy", 256), request("ab", 256)]
    assert reads("lmcache", asked, capacity=3) == [0, 0, 0]
    assert reads("lmcache", asked, capacity=4) == [0, 0, 512]
