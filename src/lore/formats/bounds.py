"""Limits of a record's size: bytes, values, levels of nesting; and the messages about larger ones.

Parsers give up at different limits, so lore decides before it asks one. The tests are cheap for records that are surely
small, and cost O(bytes) for others.
"""

from __future__ import annotations

import re

from lore.model.deferred import pattern
from lore.model.limits import RECORD_BYTES, RECORD_LEVELS, RECORD_VALUES

_SURELY_FEW = 1024 * 1024  # bytes of a record that cannot hold too many
_STRETCH = 16 * 1024  # bytes in which values are seldom nested so deeply
_TEXTS = pattern(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_BESIDE_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_PIECE = 4096  # brackets that are examined together
_HIDDEN = 3  # times that empty pairs are removed from a piece
_RUNS = pattern(rb"(\[*+)(\]*+)")
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|,++', re.DOTALL)


def is_crowded(data: bytes, most: int = RECORD_VALUES) -> bool:
    """Return whether a record holds more values than lore reads: 16 MiB of `{},{},` would take gigabytes."""
    if len(data) < _SURELY_FEW or data.count(b",") <= most:
        return False
    found = 0
    for match in _TOKENS.finditer(data):
        if data[match.start()] == 0x2C:
            found += match.end() - match.start()
            if found > most:
                return True
    return False


def is_deep(data: bytes) -> bool:
    """Return whether a record is nested deeper than lore reads.

    Counts the brackets, and looks at each one only if enough of them open within a stretch. Closing brackets inside
    strings may hide a level; then the parser's own limit of 1,024 levels applies.
    """
    if len(data) <= RECORD_LEVELS or data.count(b"[") + data.count(b"{") <= RECORD_LEVELS:
        return False
    depth = 0
    for at in range(0, len(data), _STRETCH):
        end = at + _STRETCH
        depth += data.count(b"[", at, end) + data.count(b"{", at, end)
        if depth > RECORD_LEVELS:
            return _is_nested(data)
        depth = max(0, depth - data.count(b"]", at, end) - data.count(b"}", at, end))
    return False


def _is_nested(data: bytes) -> bool:
    """Return for certain whether a record is nested deeper than lore reads.

    Empty pairs are removed a few times, each of which hides one level at most. Only near the limit brackets are
    followed run by run.
    """
    brackets = (_TEXTS.sub(b"", data) if b'"' in data else data).translate(_AS_LISTS, _BESIDE_BRACKETS)
    depth = 0
    for at in range(0, len(brackets), _PIECE):
        piece = brackets[at : at + _PIECE]
        rest = piece
        for _ in range(_HIDDEN):
            rest = rest.replace(b"[]", b"")
        if depth + rest.count(b"[") + _HIDDEN > RECORD_LEVELS and _highest(piece, depth) > RECORD_LEVELS:
            return True
        depth += 2 * piece.count(b"[") - len(piece)
    return False


def _highest(brackets: bytes, depth: int) -> int:
    """Return the deepest level that brackets reach when they start at a depth."""
    highest = depth
    for opened, closed in _RUNS.findall(brackets):
        depth += len(opened)
        highest = max(highest, depth)
        depth -= len(closed)
    return highest


def too_deep() -> str:
    """Return the reason why a record is refused that is nested too deeply."""
    return f"nested more than {RECORD_LEVELS:,} levels deep"


def too_many(most: int = RECORD_VALUES) -> str:
    """Return the reason why a record is refused that holds too many values."""
    return f"it holds more than {most:,} values"


def too_long() -> str:
    """Return the reason why a line was not held."""
    return too_much(RECORD_BYTES)


def too_much(limit: int) -> str:
    """Return the reason why something longer than `limit` bytes is refused."""
    return f"longer than {limit // 1024 // 1024} MiB"
