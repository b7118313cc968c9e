"""Recorded traces of block hashes: what is read in blocks is what a search through everything earlier finds."""

from __future__ import annotations

import json

import pytest

from cache.asking import rules
from lore.cache.base import Piece, Request
from lore.cache.registry import make

MOST = 500_000  # blocks of requests compared with all before them


def requests(trace) -> list[dict]:
    """All requests that hold hashes, those of subagents too, as they were asked."""
    found, open_ = [], list(trace["requests"])
    while open_:
        one = open_.pop()
        open_ += one.get("requests") or ()
        found += [one] if one.get("hash_ids") else []
    return sorted(found, key=lambda one: one["t"])


def longest(mine: list[int], earlier: list[list[int]]) -> int:
    """Search every earlier list, block by block from the best found so far."""
    best = 0
    for other in earlier:
        if other[:best] == mine[:best]:
            while best < min(len(other), len(mine)) and other[best] == mine[best]:
                best += 1
    return best


def asked(number: int, one: dict, size: int) -> Request:
    blocks = [Piece(b"%d" % each, "messages", tokens=size) for each in one["hash_ids"]]
    rest = max(0, one["in"] - size * len(blocks)) or size  # a prompt goes on behind its last whole block
    return Request(str(number), [*blocks, Piece(b"rest %d" % number, "messages", tokens=rest)], at=float(one["t"]))


@pytest.mark.corpus
def test_block_reuse_is_that_of_a_search_through_everything_earlier(corpus):
    files = sorted((corpus / "kv-traces").glob("*.json"))
    if not files:
        pytest.skip("no traces")
    compared = 0
    for file in files:
        trace = json.loads(file.read_bytes())
        size, earlier = trace["block_size"], []
        model = make("vllm", rules(), {"block": size})
        for number, one in enumerate(requests(trace)):
            said = model.predict(asked(number, one, size))
            assert said.read == longest(one["hash_ids"], earlier) * size, (file.name, number)
            assert said.confidence == "exact"
            earlier.append(one["hash_ids"])
            compared += len(one["hash_ids"])
            if compared > MOST:
                return
    assert compared
