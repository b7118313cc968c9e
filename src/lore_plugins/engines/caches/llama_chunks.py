"""llama.cpp's `--cache-reuse`: chunks of a slot that are shifted to their places in a request.

From the first token not read, the next chunk of the slot that has at least `reuse` of the following tokens is shifted
as far as both agree, until no chunk has them. Tokens are compared by bytes and are assumed to be spread evenly in a
piece: exact if all tokens of a piece have the same number of bytes. Cost: O(bytes).

Source: llama.cpp 0c1e570 (2026-11), tools/server/server-context.cpp (`n_cache_reuse`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from lore.model import common_prefix


class Chunk(NamedTuple):
    """Tokens of a slot that a request has at another place."""

    begin: int  # in the slot
    place: int  # in the request
    tokens: int

    def moved_by(self, tokens: int) -> Chunk:
        """Return the chunk with both positions moved by a number of tokens."""
        return Chunk(self.begin + tokens, self.place + tokens, self.tokens)


class TokenRun:
    """Consecutive pieces, given as their bytes and number of tokens."""

    def __init__(self, pieces: Sequence[tuple[bytes, int]]) -> None:
        nonempty = [(data, tokens) for data, tokens in pieces if tokens and data]
        self.data = b"".join([data for data, _ in nonempty])
        self._bytes = [0, *accumulate(len(data) for data, _ in nonempty)]
        self._tokens = [0, *accumulate(tokens for _, tokens in nonempty)]

    @property
    def tokens(self) -> int:
        return self._tokens[-1]

    def byte_of(self, token: int) -> int:
        """Return the byte at which a token begins."""
        return _interpolate(self._tokens, self._bytes, token)

    def tokens_before(self, byte: int) -> int:
        """Return the number of tokens that end at or before a byte."""
        return _interpolate(self._bytes, self._tokens, byte)


def find_chunks(slot_run: TokenRun, request_run: TokenRun, common: int, size: int, reuse: int) -> list[Chunk]:
    """Return the chunks to shift, in order; the first `common` tokens are equal, and the slot holds `size`."""
    data, chunks = slot_run.data[: slot_run.byte_of(size)], list[Chunk]()
    at, place = slot_run.byte_of(common), common
    while place + reuse <= request_run.tokens:
        begin = request_run.byte_of(place)
        at = data.find(request_run.data[begin : request_run.byte_of(place + reuse)], at)
        if at < 0:
            break
        chunk_end = request_run.tokens_before(begin + common_prefix(data[at:], request_run.data[begin:]))
        chunks.append(Chunk(slot_run.tokens_before(at), place, chunk_end - place))
        at, place = at + request_run.byte_of(chunk_end) - begin, chunk_end
    return chunks


def _interpolate(scale: Sequence[int], target_scale: Sequence[int], value: int) -> int:
    """Interpolate: map a position in `scale` to `target_scale`, at most to its end."""
    number = bisect_right(scale, value)
    if number >= len(scale):
        return target_scale[-1]
    low, begin = scale[number - 1], target_scale[number - 1]
    return begin + (value - low) * (target_scale[number] - begin) // (scale[number] - low)
