"""What the rest of lore needs of a tokenizer."""

from __future__ import annotations

from typing import Protocol


class TokenCounter(Protocol):
    """Count tokens of byte strings. Implementations tokenise each distinct text once."""

    @property
    def name(self) -> str:
        """The encoding's name, shown beside every figure."""
        ...

    def count(self, data: bytes) -> int:
        """Return the number of tokens of a text."""
        ...

    def common(self, left: bytes, right: bytes) -> int:
        """Return the number of leading tokens that two texts share."""
        ...
