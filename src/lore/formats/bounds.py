"""How large a record may be: bytes, values, levels; and the words for one that is larger.

In: a record's bytes. Out: whether it is read. A look is cheap where a record is surely small, and costs O(bytes).
Parsers differ in where they give up, so lore decides before they are asked.
"""

from __future__ import annotations

import re

from lore.model.deferred import pattern
from lore.model.limits import RECORD_BYTES, RECORD_LEVELS, RECORD_VALUES

_SURELY_FEW = 1024 * 1024  # bytes of a record that cannot hold too many
_STRETCH = 16 * 1024  # bytes in which few values are nested so deep
_TEXTS = pattern(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_BESIDE_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_PIECE = 4096  # brackets that are looked at together
_HIDDEN = 3  # times that pairs are taken out of a piece
_RUNS = pattern(rb"(\[*+)(\]*+)")
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|,++', re.DOTALL)


def is_crowded(data: bytes, most: int = RECORD_VALUES) -> bool:
    """Tell whether a record holds more values than lore reads: 16 MiB of `{},{},` would take gigabytes.

    Costs a look at each comma, and at each string only where there are too many of these.
    """
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
    """Tell whether a record is nested deeper than lore reads.

    Costs a count of its brackets, and a look at each only where so many open within a stretch that they may be nested.
    Brackets that close nothing inside strings may hide a level: then a parser's own depth (1,024) holds.
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
    """Tell for sure whether a record is nested deeper than lore reads.

    Pairs that hold nothing are taken out some times, each of which hides one level at most: what is left opens all the
    others. Only near the limit brackets are followed run by run.
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
    """Return the deepest level that brackets reach from a depth on."""
    highest = depth
    for opened, closed in _RUNS.findall(brackets):
        depth += len(opened)
        highest = max(highest, depth)
        depth -= len(closed)
    return highest


def too_deep() -> str:
    """Say that a record is nested too deeply."""
    return f"nested more than {RECORD_LEVELS:,} levels deep"


def too_many(most: int = RECORD_VALUES) -> str:
    """Say that a record is crowded."""
    return f"it holds more than {most:,} values"


def too_long() -> str:
    """Say why a line that has no bytes has none."""
    return too_much(RECORD_BYTES)


def too_much(limit: int) -> str:
    """Say that something is longer than so many bytes."""
    return f"longer than {limit // 1024 // 1024} MiB"
