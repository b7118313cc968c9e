"""LMCache: chunks of 256 tokens, outside the engine's own memory.

Rules: chunks that are not full are not saved, and what was generated is not (`save_unfull_chunk`, `save_decode_cache`
are off by default), unless `decoded` says so; chunks are thrown away least recently used first. What is said is what
is found in chunks: of a prompt that is found whole the engine still computes the last token.

Source: LMCache's configuration, version 1.
"""

from __future__ import annotations

from typing import ClassVar

from lore.cache.base import Look
from lore.cache.blocks import Blocks

CHUNK = 256


class LMCache(Blocks):
    """Chunks of `chunk_size` tokens in a store of `capacity` chunks."""

    name: ClassVar[str] = "lmcache"
    provider: ClassVar[str] = "lmcache"
    options: ClassVar[tuple[str, ...]] = ("chunk_size", "capacity", "decoded", "hybrid")
    recomputed: ClassVar[int] = 0

    def __init__(
        self, look: Look, *, chunk_size: int | None = None, capacity: int | None = None, decoded: bool = False,
        hybrid: bool = False,
    ) -> None:  # fmt: skip
        found = chunk_size if chunk_size is not None else int(look("block_tokens", None, None) or CHUNK)
        super().__init__(found, capacity, hybrid=hybrid, outputs=decoded)
