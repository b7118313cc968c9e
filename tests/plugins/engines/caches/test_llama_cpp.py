"""llama.cpp: slots, copies in main memory, shifted chunks."""

import pytest

from cache.asking import piece, pieces, predicted, reads, request
from lore.cache.base import Piece, Request
from lore.errors import LoreError


def test_default_host_memory_lowers_the_confidence():
    requests = [request("ab", 20_000), request("cd", 20_000), request("ef", 20_000)]
    assert [prediction.confidence for prediction in predicted("llama.cpp", requests)] == ["exact", "exact", "rule"]
    assert [prediction.confidence for prediction in predicted("llama.cpp", requests, host_tokens=65_536)] == [
        "exact"
    ] * 3


def test_changed_billing_header_breaks_llama_cpp_cache():
    """Anthropic removes the billing header from the prompt; a local server computes it and all after it."""
    headers = [piece(f"{day}x-anthropic-billing-header", 4, "system") for day in "12"]
    assert reads("llama.cpp", [request([header, *pieces("abc")]) for header in headers]) == [0, 0]
    assert reads("llama.cpp", [request("abc"), request("abc")]) == [0, 47]


def test_equal_pieces_of_two_spaces_are_separate():
    """The first pieces of two spaces were once compared by their bytes alone."""
    assert reads("llama.cpp", [request("ab"), request("ab", space=b"other")]) == [0, 0]


def test_empty_pieces_are_not_shifted():
    empty = [Piece(b"", "messages", tokens=0)] * 3000
    requests = [Request("main", [piece("a"), *empty, piece("b")]), Request("main", [*empty, *pieces("bc")])]
    assert reads("llama.cpp", requests, slots=1, cache_reuse=16) == [0, 16]


@pytest.mark.parametrize(
    "options", [{"slots": 0}, {"window": -1}, {"states": True, "ubatch": 0}, {"window": 8, "checkpoints": -1}]
)
def test_invalid_llama_cpp_options_are_refused(options):
    with pytest.raises(LoreError, match="at least"):
        reads("llama.cpp", [], **options)


def test_prompt_shorter_than_window_needs_a_checkpoint():
    """The server compares its first position, 0, with the start of the window, also 0."""
    requests = [request("ab"), request("abc"), request("abd"), request("ax")]
    assert reads("llama.cpp", requests, window=10**8, slots=1) == [0, 27, 26, 0]
