"""Align two sequences: which of their members correspond, and where they differ.

In: two lists of keys. Out: the gaps between what is equal, in order. Rules: the equal beginning first, then keys
that stand once on each side, as long as their order agrees, and what is equal around them. Cost: O(n log n) of
the keys, however much differs; the result is no shortest difference, and need not be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple


class Gap(NamedTuple):
    """Half-open ranges of both sides between which nothing corresponds; `open` says that both ends are reached."""

    left: range
    right: range
    open: bool


def gaps(left: Sequence[Hashable], right: Sequence[Hashable], *, grows: bool = False) -> list[Gap]:
    """Return where two sequences differ. `grows`: the right is expected to go on behind the end of the left."""
    i = j = _front(left, right)
    back = 0 if grows else _back(left, right, i)
    inner = _anchors(left[i : len(left) - back], right[i : len(right) - back])
    anchors = [(at + i, other + i) for at, other in inner]
    found: list[Gap] = []
    for at, other in [*anchors, (len(left), len(right))]:
        if at < i or other < j:  # taken already while the gap before was made smaller
            continue
        last = at == len(left) and other == len(right)
        while i < at and j < other and left[i] == right[j]:
            i, j = i + 1, j + 1
        end, stop = at, other
        while not (last and grows) and end > i and stop > j and left[end - 1] == right[stop - 1]:
            end, stop = end - 1, stop - 1
        if i < end or j < stop:
            found.append(Gap(range(i, end), range(j, stop), last))
        i, j = (at, other) if last else (at + 1, other + 1)
    return found


def equal_pairs(found: Sequence[Gap], size: int) -> list[tuple[int, int]]:
    """Return the members that correspond between gaps, `size` being how many the left has."""
    pairs: list[tuple[int, int]] = []
    i = j = 0
    for gap in found:
        pairs += zip(range(i, gap.left.start), range(j, gap.right.start), strict=True)
        i, j = gap.left.stop, gap.right.stop
    return [*pairs, *zip(range(i, size), range(j, j + size - i), strict=True)]


def _front(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def _back(left: Sequence[Hashable], right: Sequence[Hashable], front: int) -> int:
    room = min(len(left), len(right)) - front
    pairs = enumerate(zip(reversed(left), reversed(right), strict=False))
    return min(room, next((at for at, (one, other) in pairs if one != other), room))


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair the keys that stand once on each side, the longest run whose order agrees."""
    mine, theirs = Counter(left), Counter(right)
    where = {key: at for at, key in enumerate(right) if theirs[key] == 1}
    pairs = [(at, where[key]) for at, key in enumerate(left) if mine[key] == 1 and key in where]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs whose second members rise (patience sorting)."""
    if all(one[1] < other[1] for one, other in pairwise(pairs)):
        return pairs
    tops: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for number, (_, value) in enumerate(pairs):
        place = bisect_left(tops, value)
        before.append(holders[place - 1] if place else -1)
        if place == len(tops):
            tops.append(value)
            holders.append(number)
        else:
            tops[place], holders[place] = value, number
    run: list[tuple[int, int]] = []
    at = holders[-1] if holders else -1
    while at >= 0:
        run.append(pairs[at])
        at = before[at]
    return run[::-1]
