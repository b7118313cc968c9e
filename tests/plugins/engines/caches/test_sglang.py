"""SGLang: a tree of token pages, and the eviction of its leaves."""

from cache.asking import piece, pieces, reads, request
from lore.cache.registry import view_of
from lore.cache.views import Views
from model.making import parsed, turn


def test_dropped_thinking_block_breaks_the_prefix():
    answer = [*pieces("ab"), piece("t", 9, kind="thinking"), piece("c", 9)]
    first_request = request("ab", output=answer[2:])
    assert reads("sglang", [first_request, request([*pieces("ab"), piece("c", 9), piece("d", 9)])]) == [0, 32]


def test_salts_adapters_and_extra_keys_separate_requests():
    views = Views(view_of("sglang"))
    reads = []
    for extra in ({}, {"cache_salt": "x"}, {"extra_key": "x"}, {"lora_path": "x"}, {}):
        prompt = parsed({"model": "m", "messages": [{"role": "user", "content": "hello"}], **extra})
        reads.append(views.of(turn(prompt, len(reads) + 1)).space)
    assert len(set(reads)) == 4
    assert reads[0] == reads[-1]
