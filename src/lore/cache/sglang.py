"""SGLang's radix cache: a tree of tokens, in pages of 1.

Rules: at least the last token is computed, so a prompt that is repeated reads all but one; matches are rounded down
to whole pages; leaves are thrown away least recently used first. The engine throws a whole leaf away at once, here
its end goes first: the difference is one leaf at most.

Source: SGLang's scheduler (a match is at most one token shorter than the input) and its radix cache.
"""

from __future__ import annotations

from typing import ClassVar

from lore.cache.base import Look
from lore.cache.blocks import Blocks

PAGE = 1


class SGLang(Blocks):
    """Pages of `page_size` tokens in a memory of `capacity` pages."""

    name: ClassVar[str] = "sglang"
    provider: ClassVar[str] = "sglang"
    options: ClassVar[tuple[str, ...]] = ("page_size", "capacity", "hybrid")

    def __init__(
        self, look: Look, *, page_size: int | None = None, capacity: int | None = None, hybrid: bool = False
    ) -> None:
        found = page_size if page_size is not None else int(look("block_tokens", None, None) or PAGE)
        super().__init__(found, capacity, hybrid=hybrid)
