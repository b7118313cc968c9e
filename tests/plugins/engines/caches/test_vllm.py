"""vLLM: full blocks of 16, never the whole prompt; the least recently used prompt is evicted from its end."""

import pytest
from msgspec.structs import replace

from cache.asking import piece, predicted, reads, request, rules
from helpers.each import each
from lore.cache.registry import make, view_of
from lore.cache.views import Views
from lore.errors import LoreError
from model.making import parsed, turn


def test_images_with_common_beginning_share_nothing():
    images = [replace(piece("i", 32, kind="image"), data=b"data:image/png;base64,%d" % number) for number in range(2)]
    assert reads("vllm", [request([piece("a"), image]) for image in (*images, images[0])]) == [0, 16, 32]


def test_counted_pieces_give_exact_confidence():
    assert predicted("vllm", [request("ab")])[0].confidence == "exact"
    assert predicted("vllm", [request([piece("a"), piece("b", None)])])[0].confidence == "rule"


def test_confidence_returns_to_exact():
    loose = request([piece("a"), piece("b", None)])
    then = replace(request("abc"), same=1)
    assert [prediction.confidence for prediction in predicted("vllm", [loose, then])] == ["rule", "exact"]


@each("options, match", [
    ({"block": 0}, "a block holds"),
    ({"window": 0}, "a window has"),
    ({"window": 9, "groups": 0}, "at least 1 group"),
    ({"groups": 2}, "layers with a window or states"),
    ({"retention": 16}, "layers with a window or states"),
    ({"window": 9, "states": True}, "not supported"),
    ({"full": 0}, "full is at least 0"),
    ({"full": -1, "window": 9}, "full is at least 0"),
    ({"window": 9, "retention": 17}, "multiple of the block"),
])  # fmt: skip
def test_invalid_vllm_options_are_refused(options, match):
    with pytest.raises(LoreError, match=match) as raised:
        reads("vllm", [], **options)
    assert "window" in raised.value.hint


def test_salt_separates_requests():
    turns = [
        turn(parsed({"messages": [{"role": "user", "content": "word " * 400}], "cache_salt": salt}, "openai-chat"), at)
        for at, salt in enumerate("aab", 1)
    ]
    model, views = make("vllm", rules()), Views(view_of("vllm"))
    assert [model.predict(views.of(turn)).read > 0 for turn in turns] == [False, True, False]
