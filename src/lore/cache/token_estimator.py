"""How many tokens stand before a place: billed totals are known positions, and only what lies between is estimated.

In: the path of a request, then what was billed for it. Out: positions in tokens. Rules: a position that was
billed holds for its node, whoever comes there again; between two of them the estimate is stretched to fit;
behind the last one it is bytes times a rate by model and kind of text, learned from what was billed before.
What is billed and cannot be is not learned from. Cost O(pieces that the chain's path before did not have), and
O(log pieces) for a position.

Sources: bytes of a token before anything was billed: 3.6 for text, 3.0 for tools and results (counted with
o200k_base over public sessions); an image is 1,500 tokens (Anthropic's documentation: width times height / 750).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from lore.cache.base import Piece
from lore.cache.tree import Path

# Tokens of a byte, of an image, of a token of another tokenizer.
RATES = {"text": 1 / 3.6, "json": 1 / 3.0, "thinking": 1 / 3.6, "image": 1500.0, "counted": 1.0}
_CLASS = {"call": "json", "result": "json", "thinking": "thinking", "image": "image"}
_CLASSES = tuple(RATES)
_STEP = 0.5  # how far one bill moves a rate
FEWEST, MOST = 0.02, 4.0  # times the first estimate: what is billed beyond cannot belong to these bytes
SLACK = 2_000  # tokens that a provider adds: the prompt of its tools


class _Scale:
    """The latest path of a chain: bytes before each place by class, and the places that are known."""

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.sums: list[list[float]] = [[] for _ in _CLASSES]
        self.counted: list[int] = []
        self.known: list[int] = []

    def cut(self, size: int) -> None:
        for one in (self.counted, *self.sums):
            del one[size:]
        del self.known[bisect_left(self.known, size) :]

    def add(self, piece: Piece) -> None:
        counted = piece.tokens
        own = _class_of(piece)
        size = _size_of(piece)
        for number, sums in enumerate(self.sums):
            sums.append((sums[-1] if sums else 0.0) + (size if number == own and counted is None else 0.0))
        self.counted.append((self.counted[-1] if self.counted else 0) + (counted or 0))


class Ruler:
    """Positions of one recording, or of several; give each model a ruler of its own."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._rates: dict[str, list[float]] = {}
        self._scales: dict[str, _Scale] = {}
        self._scale = _Scale()
        self._rate = list(RATES.values())

    def lay(self, chain: str, path: Path, pieces: Sequence[Piece], model: str | None) -> None:
        """Measure along the chain's latest path from now on; each of its paths has to be laid, in order."""
        scale = self._scale = self._scales.setdefault(chain, _Scale())
        self._rate = self._rates.setdefault(model or "", list(RATES.values()))
        scale.cut(path.kept)
        scale.nodes = path.nodes
        for place in range(len(scale.counted), len(pieces)):
            scale.add(pieces[place])
            if path.nodes[place] in self._known:
                scale.known.append(place)

    def known(self, place: int) -> int | None:
        """Return the position behind a piece as it was billed; None where it never was."""
        return 0 if place < 0 else self._known.get(self._scale.nodes[place])

    def position(self, place: int) -> int:
        """Return the tokens of all pieces up to and with the one at `place`; -1 is before the first."""
        return round(self._position(place))

    def inside(self, place: int, alike: int, size: int) -> int:
        """Return the position after the first `alike` bytes of the piece at `place`, of `size` bytes."""
        before = self._position(place - 1)
        return math.floor(before + (self._position(place) - before) * alike / max(size, 1))

    def size(self, piece: Piece) -> float:
        """Return the tokens of a piece that stands nowhere on the path."""
        if piece.tokens is not None:
            return piece.tokens
        number = _class_of(piece)
        return self._rate[number] * _size_of(piece)

    def learn(self, place: int, tokens: int) -> str:
        """Take a billed position; return why it cannot be, empty where it can."""
        if place < 0:
            return ""
        before, start = self._below(place - 1)
        estimate = self._between(start, place)
        billed = tokens - before
        if billed < FEWEST * estimate or billed > MOST * estimate + SLACK:
            return f"{tokens:,} tokens were billed where the body holds about {before + round(estimate):,}"
        self._fit(start, place, billed / estimate if estimate > 0 else 1.0)
        node = self._scale.nodes[place]
        if node not in self._known:
            self._scale.known.insert(bisect_left(self._scale.known, place), place)
        self._known[node] = tokens
        return ""

    def _position(self, place: int) -> float:
        below, start = self._below(place)
        estimate = self._between(start, place)
        known = self._scale.known
        number = bisect_right(known, place)
        if start == place or number == len(known):
            return below + estimate
        end = known[number]
        whole = self._between(start, end)
        return below + (self._known[self._scale.nodes[end]] - below) * (estimate / whole if whole > 0 else 0.0)

    def _below(self, place: int) -> tuple[int, int]:
        """Return the nearest known position at or before a place, and its place."""
        known = self._scale.known
        number = bisect_right(known, place) - 1
        return (0, -1) if number < 0 else (self._known[self._scale.nodes[known[number]]], known[number])

    def _between(self, start: int, end: int) -> float:
        scale = self._scale
        sums = zip(self._rate, scale.sums, strict=True)
        return _span(scale.counted, start, end) + sum(rate * _span(one, start, end) for rate, one in sums)

    def _fit(self, start: int, end: int, ratio: float) -> None:
        """Move the rates of what lies between two places towards what was billed for it, each by its share."""
        parts = [rate * _span(one, start, end) for rate, one in zip(self._rate, self._scale.sums, strict=True)]
        whole = sum(parts)
        if whole <= 0 or ratio <= 0:
            return
        for number, (part, first) in enumerate(zip(parts, RATES.values(), strict=True)):
            moved = self._rate[number] * ratio ** (_STEP * part / whole)
            self._rate[number] = min(max(moved, FEWEST * first), MOST * first)


def _class_of(piece: Piece) -> int:
    if piece.counted is not None:
        return _CLASSES.index("counted")
    return _CLASSES.index(_CLASS.get(piece.kind, "json" if piece.section == "tools" else "text"))


def _size_of(piece: Piece) -> float:
    """Return how much of its class a piece is."""
    if piece.counted is not None:
        return float(piece.counted)
    return 1.0 if piece.kind == "image" else float(len(piece.data))


def _span(sums: Sequence[float], start: int, end: int) -> float:
    """Return what lies behind `start`, up to and with `end`."""
    return (sums[end] if end >= 0 else 0) - (sums[start] if start >= 0 else 0)
