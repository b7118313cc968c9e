"""vLLM: full blocks of 16, never the whole prompt; the least recently used prompt is evicted from its end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cache.asking import piece, pieces, predicted, reads, request, rules
from helpers.each import each
from lore.cache.registry import make, view_of
from lore.cache.views import Views
from lore.errors import LoreError
from model.making import parsed, turn


def test_recomputed_block_takes_its_own_place():
    """The last of two full blocks is recomputed; a memory of three then holds it twice, and nothing else."""
    again = [request("ab"), request("ab")]
    assert reads("vllm", [request("x"), *again, request("xy")], capacity=4) == [0, 0, 16, 16]
    assert reads("vllm", [request("x"), *again, request("xy")], capacity=3) == [0, 0, 16, 0]


def test_images_with_common_beginning_share_nothing():
    images = [replace(piece("i", 32, kind="image"), data=b"data:image/png;base64,%d" % number) for number in range(2)]
    assert reads("vllm", [request([piece("a"), image]) for image in (*images, images[0])]) == [0, 16, 32]


def test_counted_pieces_give_exact_confidence():
    assert predicted("vllm", [request("ab")])[0].confidence == "exact"
    assert predicted("vllm", [request([piece("a"), piece("b", None)])])[0].confidence == "rule"


def test_confidence_returns_to_exact():
    loose = request([piece("a"), piece("b", None)])
    then = replace(request("abc"), same=1)
    assert [one.confidence for one in predicted("vllm", [loose, then])] == ["rule", "exact"]


@each(
    "options, match",
    [
        ({"block": 0}, "a block holds"),
        ({"window": 0}, "a window has"),
        ({"window": 9, "groups": 0}, "at least 1 group"),
        ({"groups": 2}, "layers with a window or states"),
        ({"retention": 16}, "layers with a window or states"),
        ({"window": 9, "states": True}, "not supported"),
        ({"full": 0}, "full is at least 0"),
        ({"full": -1, "window": 9}, "full is at least 0"),
        ({"window": 9, "retention": 17}, "multiple of the block"),
    ],
)
def test_invalid_vllm_options_are_refused(options, match):
    with pytest.raises(LoreError, match=match) as raised:
        reads("vllm", [], **options)
    assert "window" in raised.value.hint


def test_window_layers_resume_at_the_prompt_end():
    """At first only full-attention layers can read the output; after the next prompt its end is kept, too."""
    asked = [request("abcd", output=pieces("efgh")), request("abcdefgx"), request("abcdefgy")]
    assert reads("vllm", asked) == [0, 112, 112]
    assert reads("vllm", asked, window=32) == [0, 48, 112]
    assert reads("vllm", asked, states=True) == [0, 48, 112]
    assert reads("vllm", asked, window=1_000) == [0, 48, 112]
    assert reads("vllm", asked, window=32, retention=16) == [0, 112, 112]
    assert reads("vllm", asked, window=32, retention=64) == [0, 64, 112]


class Naive:
    """vLLM's pool, place by place; free places in the order in which they are taken."""

    def __init__(self, block: int, capacity: int) -> None:
        self.block = block
        self.places: dict[int, tuple[str, ...] | None] = dict.fromkeys(range(capacity))
        self.free = list(self.places)
        self.made: list[int] = []  # filled places, in the order in which they were filled

    def read(self, tokens: list[str]) -> int:
        blocks = [tuple(tokens[:end]) for end in range(self.block, len(tokens) + 1, self.block)]
        used = []
        for block in blocks[: (len(tokens) - 1) // self.block]:
            place = next((place for place in self.made if self.places[place] == block), None)
            if place is None:
                break
            used.append(place)
        found = len(used)
        self.free = [place for place in self.free if place not in used]
        needed = min(-(-len(tokens) // self.block), len(self.places)) - found
        fresh, self.free = self.free[:needed], self.free[needed:]
        for place, block in zip(fresh, [*blocks[found:], None], strict=False):
            self.places[place] = block
            self.made = [other for other in self.made if other != place] + ([place] if block is not None else [])
        used += fresh
        empty = [place for place in used if self.places[place] is None]
        self.free = [*empty, *self.free, *(place for place in reversed(used) if place not in empty)]
        return found * self.block


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5)), min_size=1, max_size=8), max_size=25),
    st.integers(0, 20),
    st.integers(1, 4),
)
def test_reads_equal_a_naive_pool(prompts, capacity, block):
    naive, wanted, asked = Naive(block, capacity), [], []
    for prompt in prompts:
        made = [piece(f"{name}{size}", size) for name, size in prompt]
        tokens = [f"{name}{size}.{number}" for name, size in prompt for number in range(size)]
        wanted.append(naive.read(tokens))
        asked.append(request(made))
    found = reads("vllm", asked, block=block, capacity=capacity)
    assert found == wanted


def test_salt_separates_requests():
    asked = [
        turn(parsed({"messages": [{"role": "user", "content": "word " * 400}], "cache_salt": salt}, "openai-chat"), at)
        for at, salt in enumerate("aab", 1)
    ]
    model, views = make("vllm", rules()), Views(view_of("vllm"))
    assert [model.predict(views.of(each)).read > 0 for each in asked] == [False, True, False]
