"""vLLM: full blocks of 16, never the whole prompt, thrown away from the end of what was used least recently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.asking import piece, pieces, predicted, reads, request
from lore.cache.base import Request
from lore.errors import LoreError


def test_an_identical_prompt_of_32_tokens_reads_16():
    assert reads("vllm", [request("ab"), request("ab")]) == [0, 16]


def test_a_prompt_that_goes_on_reads_all_full_blocks():
    short = [piece("a", 40)]
    assert reads("vllm", [request(short), request([*short, piece("b", 40)])]) == [0, 32]


def test_a_salt_separates():
    assert reads("vllm", [request("abc"), request("abc", space=b"salt"), request("abc", space=b"salt")]) == [0, 0, 32]


def test_what_was_generated_is_read_but_for_its_last_token():
    first = request("ab", output=[piece("c", 17), piece("d", 16)])
    again = request([*pieces("ab"), piece("c", 17), piece("d", 16), piece("e", 16)])
    assert reads("vllm", [first, again]) == [0, 64]
    exact = request("ab", output=pieces("cd"))
    assert reads("vllm", [exact, request("abcdef")]) == [0, 48]
    assert reads("vllm", [exact, request("abcd"), request("abcdef")])[2] == 64


def test_a_common_beginning_inside_a_piece_counts_by_its_bytes():
    one, other = (
        Request("main", [piece("a", 16)._replace(data=b"x" * 64 + end, tokens=32)]) for end in (b"1" * 64, b"2" * 64)
    )
    assert reads("vllm", [one, other]) == [0, 16]


def test_what_is_thrown_away_is_gone():
    assert reads("vllm", [request("abc"), request("xyz"), request("abc")], capacity=3) == [0, 0, 0]
    assert reads("vllm", [request("abc"), request("xyz"), request("abc")], capacity=6) == [0, 0, 32]


def test_the_end_of_what_was_used_least_recently_goes_first():
    assert reads("vllm", [request("abcd"), request("xy"), request("abcd")], capacity=5) == [0, 0, 48]
    assert reads("vllm", [request("abcd"), request("xyz"), request("abcd")], capacity=5) == [0, 0, 32]


def test_two_pieces_that_begin_alike_hold_their_common_blocks_once():
    alike = [Request("main", [piece("a")._replace(data=b"x" * 128 + end, tokens=48)]) for end in (b"1" * 64, b"2" * 64)]
    assert reads("vllm", [*alike, *alike], capacity=4) == [0, 32, 32, 32]
    other = request("x")
    assert reads("vllm", [*alike, other, *alike], capacity=4) == [0, 32, 0, 32, 32]


def test_confidence_is_exact_where_every_piece_is_counted():
    assert predicted("vllm", [request("ab")])[0].confidence == "exact"
    assert predicted("vllm", [request([piece("a"), piece("b", None)])])[0].confidence == "rule"
    assert predicted("vllm", [request("ab")], hybrid=True)[0].confidence == "ceiling"


def test_a_chain_is_exact_again_when_what_was_not_counted_is_gone():
    loose = request([piece("a"), piece("b", None)])
    then = request("abc")._replace(same=1)
    assert [one.confidence for one in predicted("vllm", [loose, then])] == ["rule", "exact"]


def test_an_option_that_cannot_be_is_an_error():
    with pytest.raises(LoreError, match="block"):
        reads("vllm", [], block=0)


class Naive:
    """The same cache, block by block: what a block is read from, and when it was used last, in one list."""

    def __init__(self, block: int, capacity: int) -> None:
        self.block, self.capacity = block, capacity
        self.used: dict[tuple[str, ...], int] = {}
        self.clock = 0

    def read(self, tokens: list[str]) -> int:
        self.clock += 1
        blocks = [tuple(tokens[:end]) for end in range(self.block, len(tokens) + 1, self.block)]
        held = next((number for number, one in enumerate(blocks) if one not in self.used), len(blocks))
        for one in blocks:
            self.used[one] = self.clock
        while len(self.used) > self.capacity:
            del self.used[min(self.used, key=lambda one: (self.used[one], -len(one)))]
        return min(held * self.block, (len(tokens) - 1) // self.block * self.block)


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5)), min_size=1, max_size=8), max_size=25),
    st.integers(0, 20),
    st.integers(1, 4),
)
def test_every_read_is_that_of_a_cache_written_block_by_block(prompts, capacity, block):
    naive, wanted, asked = Naive(block, capacity), [], []
    for prompt in prompts:
        made = [piece(f"{name}{size}", size) for name, size in prompt]
        tokens = [f"{name}{size}.{number}" for name, size in prompt for number in range(size)]
        wanted.append(naive.read(tokens))
        asked.append(request(made))
    found = reads("vllm", asked, block=block, capacity=capacity)
    assert found == wanted
