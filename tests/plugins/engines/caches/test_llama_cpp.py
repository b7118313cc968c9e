"""llama.cpp: slots, the one that is most alike, copies in main memory, and chunks that are shifted."""

from __future__ import annotations

import pytest

from cache.asking import piece, pieces, predicted, reads, request, rules
from lore.cache.base import Piece, Request
from lore.cache.registry import make
from lore.cache.views import PLAIN, VIEWS, Views
from lore.errors import LoreError
from lore.prefix.likeness import without_dropped
from model.making import body, parsed, turn

SYSTEM = {"type": "text", "text": "you are an agent. " * 400, "cache_control": {"type": "ephemeral"}}


def test_an_identical_prompt_reads_all_but_one_token():
    assert reads("llama.cpp", [request("ab"), request("ab")]) == [0, 31]


def test_one_slot_holds_one_conversation():
    asked = [request("abcd"), request("wxyz"), request("abcd")]
    assert reads("llama.cpp", asked, slots=1, host_tokens=0) == [0, 0, 0]
    assert reads("llama.cpp", asked, slots=2, host_tokens=0) == [0, 0, 63]


def test_main_memory_keeps_what_a_slot_held_before():
    asked = [request("abcd"), request("wxyz"), request("abcd")]
    assert reads("llama.cpp", asked) == [0, 0, 63]
    assert reads("llama.cpp", asked, slots=1) == [0, 0, 63]
    assert reads("llama.cpp", asked, host_tokens=63) == [0, 0, 0]


def test_the_oldest_copies_go_where_main_memory_is_full():
    asked = [request("abcd"), request("wxyz"), request("mnop"), request("abcd")]
    assert reads("llama.cpp", asked, slots=1, host_tokens=192)[3] == 63
    assert reads("llama.cpp", asked, slots=1, host_tokens=191)[3] == 0


def test_a_copy_is_left_where_less_than_a_quarter_of_it_is_of_use():
    asked = [request("abcdefgh"), request("wxyz"), request("amnop")]
    assert reads("llama.cpp", asked, slots=1)[2] == 0
    assert reads("llama.cpp", [request("abcd"), *asked[1:]], slots=1)[2] == 16


def test_a_request_goes_to_the_slot_that_it_asks_for():
    asked = [request("ab", slot=0), request("cd", slot=1), request("ab", slot=1), request("ab", slot=0)]
    assert reads("llama.cpp", asked, slots=2, host_tokens=0) == [0, 0, 0, 31]
    assert reads("llama.cpp", [*asked[:2], request("ab", slot=7)], slots=2, host_tokens=0) == [0, 0, 31]


def test_a_slot_that_computes_is_not_taken():
    first = request("ab", at=0.0, ended=10.0)
    other = [request("ab", chain="other", at=at) for at in (5.0, 10.0)]
    assert [reads("llama.cpp", [first, each], slots=2)[1] for each in other] == [0, 31]
    assert [reads("llama.cpp", [first, each], slots=1)[1] for each in other] == [31, 31]


def test_a_guess_of_main_memory_that_decides_is_no_exact_prediction():
    asked = [request("ab", 20_000), request("cd", 20_000), request("ef", 20_000)]
    assert [each.confidence for each in predicted("llama.cpp", asked)] == ["exact", "exact", "rule"]
    assert [each.confidence for each in predicted("llama.cpp", asked, host_tokens=65_536)] == ["exact"] * 3


def test_the_slot_that_is_most_alike_is_chosen():
    asked = [request("abcd"), request("axyz"), request("axyq"), request("abcd")]
    assert reads("llama.cpp", asked, slots=2, host_tokens=0) == [0, 16, 48, 16]
    assert reads("llama.cpp", asked, slots=2, host_tokens=0, similarity=0.5) == [0, 0, 48, 63]


def test_a_slot_that_shares_a_tenth_or_less_is_not_chosen_for_it():
    other = [piece("a", 10), piece("x", 90)]
    more = [piece("a", 10), piece("x", 89)]
    found = [request("ab", 10), request("uv"), request(other), request("ab", 10)]
    assert reads("llama.cpp", found, slots=3, host_tokens=0)[3] == 19
    asked = [request("ab", 10), request("uv"), request(more), request("ab", 10)]
    assert reads("llama.cpp", asked, slots=3, host_tokens=0)[3] == 10


def test_the_least_recently_used_slot_is_overwritten_and_what_it_shares_is_read():
    other = [piece("a", 5), piece("x", 95)]
    assert reads("llama.cpp", [request("ab", 5), request(other)], slots=1) == [0, 5]


def test_what_was_generated_is_read_but_for_its_last_token():
    assert reads("llama.cpp", [request("ab", output=pieces("c")), request("abcd"), request("abce")]) == [0, 47, 48]


def test_a_header_that_changes_costs_everything():
    """Anthropic takes the billing header out of the prompt; a local server computes it, and all behind it anew."""
    headers = [piece(f"{day}x-anthropic-billing-header", 4, "system") for day in "12"]
    assert reads("llama.cpp", [request([one, *pieces("abc")]) for one in headers]) == [0, 0]
    assert reads("llama.cpp", [request("abc"), request("abc")]) == [0, 47]


def test_what_begins_alike_behind_something_else_is_not_shared():
    """The first pieces of two spaces were compared by their bytes, as if what stands before them were the same."""
    assert reads("llama.cpp", [request("ab"), request("ab", space=b"other")]) == [0, 0]


def test_chunks_behind_a_change_are_shifted_where_that_is_asked_for():
    asked = [request("aXbcde"), request("abcde")]
    assert reads("llama.cpp", asked) == [0, 16]
    assert reads("llama.cpp", asked, cache_reuse=32) == [0, 79]
    assert reads("llama.cpp", asked, cache_reuse=65) == [0, 16]


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


def test_a_window_is_gone_on_with_where_it_is_whole_and_else_from_a_checkpoint():
    long = [piece("a", 1000), piece("b", 1000), piece("c", 100)]
    edited = [*long[:2], piece("d", 100)]
    asked = [request(long), request(edited), request([long[0], piece("e", 500)])]
    assert reads("llama.cpp", asked, window=1024) == [0, 2000, 0]  # 1,536 cells reach back to 564, which is too late
    assert reads("llama.cpp", asked, window=128, slots=1) == [0, 2000, 0]
    assert reads("llama.cpp", asked, window=1024, swa_full=True) == [0, 2000, 1000]
    again = [request(long), request([*long, piece("f", 900)]), request([*long, piece("g", 40)])]
    assert reads("llama.cpp", again, window=16, slots=1) == [0, 2100, 2095]  # of 2,096, 4 before the end
    assert reads("llama.cpp", again, window=16, slots=1, checkpoints=0) == [0, 2100, 0]


def test_a_state_is_gone_on_with_at_its_end_and_else_from_a_checkpoint():
    asked = [request("abcd"), request("abcde"), request("abcdf"), request("abcdf")]
    assert reads("llama.cpp", asked, states=True) == [0, 64, 64, 76]  # where the second went on; 4 before the end
    assert reads("llama.cpp", asked, states=True, checkpoints=0) == [0, 64, 0, 0]


def test_a_checkpoint_stands_before_messages_of_the_user():
    def said(*texts: str) -> list[Piece]:
        opening = Piece(b'"role":"user"', "messages", "envelope", 2)
        return [each for text in texts for each in (opening, piece(text, 30))]

    asked = [request(said("a", "b", "c")), request(said("a", "b", "d"))]
    assert reads("llama.cpp", asked, states=True) == [0, 64]
    plain = [request([each._replace(kind="") for each in one.pieces]) for one in asked]
    assert reads("llama.cpp", plain, states=True) == [0, 0]


def test_of_many_checkpoints_those_close_to_another_go_first():
    asked = [request("abcdefgh"[:size]) for size in range(2, 9)] + [request("abcx")]
    assert reads("llama.cpp", asked, states=True)[-1] == 48
    assert reads("llama.cpp", asked, states=True, checkpoints=3)[-1] == 28  # the oldest stays
    assert reads("llama.cpp", asked, states=True, checkpoints=3, checkpoint_step=0)[-1] == 0


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


def test_a_change_of_the_header_alone_is_harmless_on_anthropic_and_total_on_llama_cpp():
    headers = [f"x-anthropic-billing-header: cc_version=2.1; cch={number};" for number in "12"]
    bodies = [body("hello", model="claude-opus-5", system=[{"type": "text", "text": one}, SYSTEM]) for one in headers]
    prompts = [without_dropped(parsed(one), "api.anthropic.com") for one in bodies]
    found = {}
    for name, view in (("anthropic", VIEWS["anthropic"]), ("llama.cpp", PLAIN)):
        views, model = Views(view), make(name, rules())
        found[name] = [model.predict(views.of(turn(prompt, number))).read for number, prompt in enumerate(prompts, 1)]
    assert found["anthropic"][1] > 1000
    assert found["llama.cpp"][1] <= 20
