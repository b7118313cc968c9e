"""Soak the count of blocks that are read again: a million requests, each compared with a search through all before it.

    python tests/soak/block_reuse.py [--requests N]

The requests are those of recorded traces of block hashes (`kv-traces` of the corpus; without it drawn ones), asked
again and again in 200 variants: each goes on as recorded from some place, under names of its own behind it. What
stands between two places where any requests of a trace part is one piece. Exit code 1 where lore counts otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lore.cache.base import Piece, Request
from lore.cache.registry import make

CORPUS = Path(os.environ.get("LORE_CORPUS", Path(__file__).resolve().parents[3] / "shared" / "corpus"))
BLOCK = 64  # tokens
VARIANTS = 200


class Blocks(NamedTuple):
    """A piece: a name, and how many blocks it is."""

    name: int
    size: int


def recorded(folder: Path) -> list[list[list[int]]]:
    """Return the requests of each trace, as they were asked, each a list of block hashes; those of subagents too."""
    found: list[list[list[int]]] = []
    for file in sorted(folder.glob("*.json")):
        requests: list[dict[str, Any]] = []
        waiting: list[dict[str, Any]] = list(json.loads(file.read_bytes())["requests"])
        while waiting:
            request = waiting.pop()
            waiting += request.get("requests") or ()
            requests += [request] if request.get("hash_ids") else []
        found.append([request["hash_ids"] for request in sorted(requests, key=lambda request: request["t"])])
    return found


def drawn(seed: int, requests: int = 60) -> list[list[int]]:
    """Return a made trace: conversations that go on, are cut and go on otherwise."""
    chance = random.Random(f"blocks {seed}")
    talks: list[list[int]] = [list(range(chance.randrange(1, 200)))]
    made: list[list[int]] = []
    for number in range(requests):
        talk = chance.choice(talks)
        kept = len(talk) if chance.random() < 0.8 else chance.randrange(1, len(talk) + 1)
        talks.append(talk[:kept] + [1_000 * (number + 1) + place for place in range(chance.randrange(1, 40))])
        made.append(talks[-1])
    return made


def in_pieces(trace: Sequence[Sequence[int]]) -> list[list[Blocks]]:
    """Cut requests where any of them part: cost O(blocks)."""
    tree: dict[tuple[int, int], int] = {}
    begun: dict[int, set[int]] = {}  # what follows a node; -1 where a request ends there
    paths: list[list[int]] = []
    for request in trace:
        node = 0
        path: list[int] = []
        for block in request:
            begun.setdefault(node, set()).add(block)
            node = tree.setdefault((node, block), len(tree) + 1)
            path.append(node)
        begun.setdefault(node, set()).add(-1)
        paths.append(path)
    cut: list[list[Blocks]] = []
    for path in paths:
        edges = [0, *(place for place, node in enumerate(path, 1) if len(begun[node]) > 1 or place == len(path))]
        cut.append([Blocks(path[end - 1], end - begin) for begin, end in pairwise(edges)])
    return cut


def replayed(traces: Sequence[Sequence[Sequence[Blocks]]], count: int) -> Iterator[tuple[str, list[Blocks]]]:
    """Yield so many requests, each with the name of its chain; names are unique to what they stand for."""
    chance = random.Random("replayed")
    while True:
        for number, trace in enumerate(traces):
            variant, parts = chance.randrange(VARIANTS), chance.randrange(12)
            for request in trace:
                if count <= 0:
                    return
                count -= 1
                own = (variant + 1) * 10**9
                yield (
                    f"{number}.{variant}.{parts}",
                    [Blocks(10**6 * number + name + (own + parts * 10**12 if place >= parts else 0), size)
                     for place, (name, size) in enumerate(request)],
                )  # fmt: skip


class _Node:
    def __init__(self) -> None:
        self.behind: dict[int, _Node] = {}


class Search:
    """Everything earlier as a tree that is walked from its root for each request."""

    def __init__(self) -> None:
        self._root = _Node()

    def read(self, request: Sequence[Blocks]) -> int:
        """Return how many blocks a request begins with that any earlier one began with; remember it."""
        node, found, whole = self._root, 0, True
        for name, size in request:
            whole = whole and name in node.behind
            found += size if whole else 0
            node = node.behind.setdefault(name, _Node())
        return found


def leading(left: Sequence[object], right: Sequence[object]) -> int:
    """Count the first items that are equal."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))


def compared(requests: Iterator[tuple[str, list[Blocks]]]) -> tuple[int, int, int]:
    """Return how many requests there were, how many blocks were read again, and how often lore counted otherwise."""
    model, search = make("vllm", lambda rule, model, at: None, {"block": BLOCK}), Search()
    latest: dict[str, list[Blocks]] = {}
    asked = read = differing = 0
    for chain, request in requests:
        same = leading(latest.get(chain, []), request)
        latest[chain] = request
        # Like an image, a piece has nothing in common with another in part: these are names of blocks, and no text. A
        # prompt goes on behind its last whole block, so that all of them may be read.
        pieces = [Piece(b"%d" % name, "messages", "image", BLOCK * size) for name, size in request]
        said = model.predict(Request(chain, [*pieces, Piece(b"end %d" % asked, "messages", "image", 1)], same))
        wanted = search.read(request) * BLOCK
        asked, read, differing = asked + 1, read + wanted // BLOCK, differing + (said.read != wanted)
        if said.read != wanted and differing < 10:
            print(f"request {asked} of {chain}: lore reads {said.read}, the search finds {wanted}")
    return asked, read, differing


def main() -> int:
    parser = argparse.ArgumentParser(description="count the blocks that a million requests read again")
    parser.add_argument("--requests", type=int, default=1_000_000)
    count = parser.parse_args().requests
    begin = time.monotonic()
    traces = recorded(CORPUS / "kv-traces") or [drawn(seed) for seed in range(5)]
    asked, read, differing = compared(replayed([in_pieces(trace) for trace in traces], count))
    seconds = time.monotonic() - begin
    print(f"{asked:,} requests read {read:,} blocks again, {differing:,} counted otherwise, {seconds:.0f} s")
    return int(differing > 0 or not read)


if __name__ == "__main__":
    sys.exit(main())
