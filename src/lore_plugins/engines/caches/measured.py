"""The shared part of the models of engines: requests measured with their output, exact counts.

Cost: O(pieces that are new in the chain).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from lore.cache import MeasuredCache, Prediction, Request, TreePath


class Laid(NamedTuple):
    """A request with its output, measured.

    A piece keeps the position that it had when it came first, so that equal beginnings remain equal.
    """

    nodes: list[int]  # of each piece
    ends: list[int]  # the position after each piece
    prompt: int  # the position at which the prompt ends and the output begins
    made: TreePath  # of the output


class EngineCache(MeasuredCache):
    """The base of models of engines: they keep the output, and compute at least one token."""

    def __init__(self) -> None:
        super().__init__()
        self._loose: dict[str, int] = {}  # by chain: the first place without an exact count
        self._ends: dict[int, int] = {}  # the position at which a piece ended when it came first
        self._trails: dict[str, list[int]] = {}  # those of the pieces of a chain's latest request

    def _laid(self, request: Request, path: TreePath) -> Laid:
        """Return a request with its output; call it for every request of a chain, in order."""
        ruler, ends = self._ruler, self._trails.setdefault(request.chain, [])
        del ends[path.kept :]
        for place in range(path.kept, len(request.pieces)):
            size = ruler.position(place) - ruler.position(place - 1)
            ends.append(self._ends.setdefault(path.nodes[place], (ends[-1] if ends else 0) + max(0, size)))
        made, all_ends = self._tree.generated(request), list(ends)
        for node, piece in zip(made.nodes, request.output, strict=True):
            begin = all_ends[-1] if all_ends else 0
            all_ends.append(self._ends.setdefault(node, begin + round(ruler.size(piece))))
        return Laid([*path.nodes, *made.nodes], all_ends, ends[-1] if ends else 0, made)

    def _billed(self, laid: Laid, held: int) -> int:
        """Return where a position of a request is now, after usage has corrected where pieces end."""
        place = bisect_left(laid.ends, held)
        begin = laid.ends[place - 1] if place else 0
        first, last = self._ruler.position(place - 1), self._ruler.position(place)
        return first + (last - first) * (held - begin) // max(1, laid.ends[place] - begin)

    def _counted(self, request: Request, path: TreePath) -> bool:
        """Return whether every piece has an exact count. Cost: O(pieces that are new in the chain)."""
        loose = self._loose.get(request.chain)
        if loose is None or loose >= path.kept:
            places = range(path.kept, len(request.pieces))
            loose = next((place for place in places if request.pieces[place].tokens is None), None)
            if loose is None:
                self._loose.pop(request.chain, None)
                return True
            self._loose[request.chain] = loose
        return False

    def _read(self, request: Request, read: int, reason: str, *, exact: bool, hybrid: bool) -> Prediction:
        """Predict the read of an engine, which computes at least one token; the best case of a `hybrid` model."""
        confidence = "ceiling" if hybrid else "exact" if exact else "rule"
        return self._predicted(request, min(read, max(0, self._total(request) - 1)), confidence, reason)
