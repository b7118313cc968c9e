"""Recorded traces of block hashes: predicted reads equal a search through all earlier requests."""

from __future__ import annotations

import json

import pytest

from cache.asking import rules
from helpers.matrix import some
from lore.cache.base import Piece, Request
from lore.cache.registry import make


def requests(trace) -> list[dict]:
    """Return all requests with hashes, also of subagents, in order of time."""
    found, open_ = [], list(trace["requests"])
    while open_:
        one = open_.pop()
        open_ += one.get("requests") or ()
        found += [one] if one.get("hash_ids") else []
    return sorted(found, key=lambda one: one["t"])


def longest(mine: list[int], earlier: list[list[int]]) -> int:
    """Return the longest common prefix with any earlier list."""
    best = 0
    for other in earlier:
        if other[:best] == mine[:best]:
            while best < min(len(other), len(mine)) and other[best] == mine[best]:
                best += 1
    return best


def asked(number: int, one: dict, size: int) -> Request:
    blocks = [Piece(b"%d" % each, "messages", tokens=size) for each in one["hash_ids"]]
    rest = max(0, one["in"] - size * len(blocks)) or size  # the tokens after the last whole block
    return Request(str(number), [*blocks, Piece(b"rest %d" % number, "messages", tokens=rest)], at=float(one["t"]))


@pytest.mark.corpus
@pytest.mark.parametrize("most", some([80_000, 500_000]))  # blocks of requests compared with all before them
def test_block_reuse_equals_a_full_search(corpus, most):
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
            if compared > most:
                return
    assert compared
