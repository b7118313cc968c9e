"""Budgets of text that lore adds: an estimate of tokens, and cuts that leave characters whole.

The estimate needs no vocabulary, so that the same session gives the same bytes on every machine, and errs
high on ordinary text (a test compares it with o200k_base; noise can cost up to half more than is estimated).
Cuts fall between grapheme clusters.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+| ?[0-9]{1,3}| +|[^\S\n]|\n|[^\s]")
_VOWELS = re.compile("[aeiouyAEIOUY]")
_LONG = 12  # letters: longer words are put together of several
_SPACES = 64  # that many are surely one token


def estimate(text: str) -> int:
    """Estimate the tokens of a text. Cost O(length)."""
    return sum(map(_cost, _PIECES.findall(text)))


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isascii():
        if first.isalpha():
            return _letters(piece)
        if piece[-1].isdigit():
            return 1 + (first == " ")  # a space before a digit is a token of its own
        return len(piece) // _SPACES + (piece != " ")
    return 2 if "\u3000" <= first <= "\ud7a3" else len(first.encode("utf-8", "surrogatepass"))


def _letters(piece: str) -> int:
    """Words are made of few tokens; letters that are no word (keys, digests) have fewer vowels and more tokens."""
    size = len(piece)
    if size > 2 and 4 * len(_VOWELS.findall(piece)) < size:
        return -(-3 * size // 5)
    return -(-size // (3 if size > _LONG else 4))


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
