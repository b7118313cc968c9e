"""LMCache: whole chunks of 256."""

from cache.asking import pieces, reads, request


def test_output_is_kept_only_if_decoded_is_set():
    requests = [request("a", 256, output=pieces("bc", 256)), request("abcd", 256)]
    assert reads("lmcache", requests) == [0, 256]
    assert reads("lmcache", requests, decoded=True) == [0, 512]


def test_first_chunk_of_unused_prompt_goes_first():
    """The rest of the prompt is then no longer found."""
    requests = [request("ab", 256), request("xy", 256), request("ab", 256)]
    assert reads("lmcache", requests, capacity=3) == [0, 0, 0]
    assert reads("lmcache", requests, capacity=4) == [0, 0, 512]
