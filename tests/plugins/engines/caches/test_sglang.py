"""SGLang: a tree of token pages, and the eviction of its leaves."""

from cache.asking import piece, pieces, reads, request
from lore.cache.registry import view_of
from lore.cache.views import Views
from model.making import parsed, turn


def test_dropped_thinking_block_breaks_the_prefix():
    said = [*pieces("ab"), piece("t", 9, kind="thinking"), piece("c", 9)]
    asked = request("ab", output=said[2:])
    assert reads("sglang", [asked, request([*pieces("ab"), piece("c", 9), piece("d", 9)])]) == [0, 32]


def test_salts_adapters_and_extra_keys_separate_requests():
    views = Views(view_of("sglang"))
    found = []
    for extra in ({}, {"cache_salt": "x"}, {"extra_key": "x"}, {"lora_path": "x"}, {}):
        prompt = parsed({"model": "m", "messages": [{"role": "user", "content": "hello"}], **extra})
        found.append(views.of(turn(prompt, len(found) + 1)).space)
    assert len(set(found)) == 4
    assert found[0] == found[-1]
