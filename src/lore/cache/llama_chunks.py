"""Chunks of a slot that llama.cpp shifts to where a request has them (`--cache-reuse`).

In: what stands behind the common beginning in a slot and in a request, as pieces with their tokens. Out: the chunks
that are shifted. Rules: the request is gone through from its first open token on; the next chunk of the slot that has
at least `reuse` of the next tokens is shifted as far as both go on alike, and where none has them, that is the end.
Tokens are compared by the bytes of their pieces, and stand in a piece evenly: exact where each token of it has as many
bytes. Cost O(bytes), and as much again for each chunk.

Source: llama.cpp 0c1e570 (2026-11), tools/server/server-context.cpp (`n_cache_reuse`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from lore.model.vector import common_prefix


class Chunk(NamedTuple):
    """So many tokens of a slot, from which one on, and where a request has them."""

    begin: int
    place: int
    tokens: int

    def behind(self, tokens: int) -> Chunk:
        """Return the chunk as it stands behind so many tokens."""
        return Chunk(self.begin + tokens, self.place + tokens, self.tokens)


class Run:
    """Pieces, each its bytes and its tokens, one behind the other."""

    def __init__(self, pieces: Sequence[tuple[bytes, int]]) -> None:
        counted = [(data, tokens) for data, tokens in pieces if tokens and data]
        self.data = b"".join([data for data, _ in counted])
        self._bytes = [0, *accumulate(len(data) for data, _ in counted)]
        self._tokens = [0, *accumulate(tokens for _, tokens in counted)]

    @property
    def tokens(self) -> int:
        return self._tokens[-1]

    def at(self, token: int) -> int:
        """Return the byte at which a token begins."""
        return _between(self._tokens, self._bytes, token)

    def before(self, byte: int) -> int:
        """Return how many tokens end at or before a byte."""
        return _between(self._bytes, self._tokens, byte)


def shifted(held: Run, wanted: Run, found: int, size: int, reuse: int) -> list[Chunk]:
    """Return what is shifted, in order; the first `found` tokens of both are alike, and the slot holds `size`."""
    data, chunks = held.data[: held.at(size)], list[Chunk]()
    at, place = held.at(found), found
    while place + reuse <= wanted.tokens:
        begin = wanted.at(place)
        at = data.find(wanted.data[begin : wanted.at(place + reuse)], at)
        if at < 0:
            break
        alike = wanted.before(begin + common_prefix(data[at:], wanted.data[begin:]))
        chunks.append(Chunk(held.before(at), place, alike - place))
        at, place = at + wanted.at(alike) - begin, alike
    return chunks


def _between(ends: Sequence[int], others: Sequence[int], value: int) -> int:
    """Return where a value of one scale stands in another, both ascending from 0; no further than the end of it."""
    number = bisect_right(ends, value)
    if number >= len(ends):
        return others[-1]
    low, begin = ends[number - 1], others[number - 1]
    return begin + (value - low) * (others[number] - begin) // (ends[number] - low)
