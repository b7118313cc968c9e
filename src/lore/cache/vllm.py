"""vLLM's automatic prefix caching: full blocks of 16 tokens.

Rules: at least the last token is computed, so a prompt that is repeated computes its last block anew; blocks are
freed from the end of a request and thrown away least recently used first; a cache salt (`space`) separates. Models
with other than full attention have larger blocks, or read nothing.

Source: vLLM's design of prefix caching, and its block pool.
"""

from __future__ import annotations

from typing import ClassVar

from lore.cache.base import Look
from lore.cache.blocks import Blocks

BLOCK = 16


class VLLM(Blocks):
    """Blocks of `block` tokens in a memory of `capacity` blocks."""

    name: ClassVar[str] = "vllm"
    provider: ClassVar[str] = "vllm"
    options: ClassVar[tuple[str, ...]] = ("block", "capacity", "hybrid")

    def __init__(
        self, look: Look, *, block: int | None = None, capacity: int | None = None, hybrid: bool = False
    ) -> None:
        found = block if block is not None else int(look("block_tokens", None, None) or BLOCK)
        super().__init__(found, capacity, hybrid=hybrid)
