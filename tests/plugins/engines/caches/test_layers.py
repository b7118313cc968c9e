"""SGLang's layers that do not keep every token: windows and states."""

import pytest

from cache.asking import predicted, reads, request
from helpers.each import each
from lore.errors import LoreError


def sglang(*requests, **options):
    return reads("sglang", [request(entry) if isinstance(entry, str) else entry for entry in requests], **options)


@pytest.mark.parametrize("name", ["sglang", "llama.cpp", "vllm", "lmcache"])
def test_hybrid_models_have_ceiling_confidence(name):
    layers = [{"window": 16}, {"states": True}] if name in ("sglang", "vllm") else [{}]
    confidences = [predicted(name, [request("ab")], **options)[0].confidence for options in (*layers, {"hybrid": True})]
    assert confidences == ["exact"] * len(layers) + ["ceiling"]


@each("options, hint", [
    ({"window": 0}, "window=4096"),
    ({"window_capacity": 9}, "window=TOKENS"),
    ({"state_interval": 9}, "states=true"),
    ({"window": 9, "states": True}, "hybrid=true"),
    ({"window": 9, "tree": "radix"}, "tree=unified"),
    ({"states": True, "strategy": "no_buffer", "page_size": 16}, "page_size=1"),
    ({"states": True, "state_chunk": 0}, "state_chunk=64, state_interval=256"),
    ({"states": True, "state_capacity": 4}, "state_capacity=5"),
])  # fmt: skip
def test_invalid_sglang_options_are_refused(options, hint):
    with pytest.raises(LoreError) as raised:
        reads("sglang", [], **options)
    assert raised.value.hint == hint
