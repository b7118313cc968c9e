"""Tokens: counting with o200k_base, shipped in the package so that it works without a network."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.tokens.o200k import Counter as Counter

__getattr__ = public_names(__name__)
