"""llama.cpp: slots, the one that is most alike, copies in main memory, and chunks that are shifted."""

from __future__ import annotations

import pytest

from cache.asking import piece, pieces, predicted, reads, request
from lore.cache.base import Piece, Request
from lore.errors import LoreError


def test_a_guess_of_main_memory_that_decides_is_no_exact_prediction():
    asked = [request("ab", 20_000), request("cd", 20_000), request("ef", 20_000)]
    assert [each.confidence for each in predicted("llama.cpp", asked)] == ["exact", "exact", "rule"]
    assert [each.confidence for each in predicted("llama.cpp", asked, host_tokens=65_536)] == ["exact"] * 3


def test_a_header_that_changes_costs_everything():
    """Anthropic takes the billing header out of the prompt; a local server computes it, and all behind it anew."""
    headers = [piece(f"{day}x-anthropic-billing-header", 4, "system") for day in "12"]
    assert reads("llama.cpp", [request([one, *pieces("abc")]) for one in headers]) == [0, 0]
    assert reads("llama.cpp", [request("abc"), request("abc")]) == [0, 47]


def test_what_begins_alike_behind_something_else_is_not_shared():
    """The first pieces of two spaces were compared by their bytes, as if what stands before them were the same."""
    assert reads("llama.cpp", [request("ab"), request("ab", space=b"other")]) == [0, 0]


def test_chunks_are_taken_in_order_and_nothing_of_the_request_is_left_out():
    """aaaaabbbbbccccc, then aaaaaccccc: the chunk moves up. The other way round nothing does."""
    assert reads("llama.cpp", [request("abc"), request("ac")], cache_reuse=1) == [0, 31]
    assert reads("llama.cpp", [request("ac"), request("abc")], cache_reuse=1) == [0, 16]


def test_empty_pieces_match_without_end_and_are_no_chunk():
    empty = [Piece(b"", "messages", tokens=0)] * 3000
    asked = [Request("main", [piece("a"), *empty, piece("b")]), Request("main", [*empty, *pieces("bc")])]
    assert reads("llama.cpp", asked, slots=1, cache_reuse=16) == [0, 16]


def test_confidence_is_a_ceiling_for_models_that_resume_only_at_checkpoints():
    assert predicted("llama.cpp", [request("ab")])[0].confidence == "exact"
    assert predicted("llama.cpp", [request("ab")], hybrid=True)[0].confidence == "ceiling"


@pytest.mark.parametrize("options", [{"window": -1}, {"states": True, "ubatch": 0}, {"window": 8, "checkpoints": -1}])
def test_a_window_that_cannot_be_is_an_error(options):
    with pytest.raises(LoreError, match="window"):
        reads("llama.cpp", [], **options)


def test_a_prompt_that_is_shorter_than_the_window_needs_a_checkpoint_too():
    """The server compares the first position that it has, 0, with that which the window begins at, 0 as well."""
    asked = [request("ab"), request("abc"), request("abd"), request("ax")]
    assert reads("llama.cpp", asked, window=10**15, slots=1) == [0, 27, 26, 0]


def test_a_server_without_slots_is_an_error():
    with pytest.raises(LoreError, match="slot"):
        reads("llama.cpp", [], slots=0)
