"""Budgets of text that lore adds: an estimate of tokens, and cuts that leave characters whole.

The estimate needs no vocabulary and errs high on ordinary text (a test compares it with o200k_base), so
that the same session gives the same bytes on every machine. Cuts fall between grapheme clusters.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}|[^\S\n]+|\n|[^\s]")


def estimate(text: str) -> int:
    """Estimate the tokens of a text. Cost O(length)."""
    return sum(map(_cost, _PIECES.findall(text)))


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isascii():
        if first.isalpha():
            return -(-len(piece) // 4)
        return 0 if piece == " " else 1
    return 2 if "\u3000" <= first <= "\ud7a3" else len(first.encode("utf-8", "surrogatepass"))


def cut(text: str, limit: int) -> str:
    """Return the longest beginning of at most `limit` code points that splits no grapheme cluster."""
    if len(text) <= limit:
        return text
    import regex  # noqa: PLC0415 - seldom needed, and slow to import

    end = 0
    for match in regex.finditer(r"\X", text[: limit + 1]):
        if match.end() > limit:
            break
        end = match.end()
    return text[:end]
