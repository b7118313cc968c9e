"""The shared part of the models of engines: requests measured with their output, exact counts.

Cost: O(pieces that are new in the chain).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from lore.cache import MeasuredCache, Prediction, Request, TreePath


class RequestLayout(NamedTuple):
    """A request with its output, measured.

    A piece keeps the position that it had when it came first, so that equal beginnings remain equal.
    """

    nodes: list[int]  # of each piece
    ends: list[int]  # the position after each piece
    prompt: int  # the position at which the prompt ends and the output begins
    output_path: TreePath


class EngineCache(MeasuredCache):
    """The base of models of engines: they keep the output, and compute at least one token."""

    def __init__(self) -> None:
        super().__init__()
        self._first_inexact: dict[str, int] = {}  # by chain: the first place without an exact count
        self._ends: dict[int, int] = {}  # the position at which a piece ended when it came first
        self._chain_ends: dict[str, list[int]] = {}  # those of the pieces of a chain's latest request

    def _layout_of(self, request: Request, path: TreePath) -> RequestLayout:
        """Return a request with its output; call it for every request of a chain, in order."""
        ruler, ends = self._ruler, self._chain_ends.setdefault(request.chain, [])
        del ends[path.same :]
        for place in range(path.same, len(request.pieces)):
            size = ruler.position(place) - ruler.position(place - 1)
            ends.append(self._ends.setdefault(path.nodes[place], (ends[-1] if ends else 0) + max(0, size)))
        output_path, ends_with_output = self._tree.generated(request), list(ends)
        for node, piece in zip(output_path.nodes, request.output, strict=True):
            begin = ends_with_output[-1] if ends_with_output else 0
            ends_with_output.append(self._ends.setdefault(node, begin + round(ruler.size(piece))))
        return RequestLayout([*path.nodes, *output_path.nodes], ends_with_output, ends[-1] if ends else 0, output_path)

    def _corrected_position(self, layout: RequestLayout, position: int) -> int:
        """Return where a position of a request is now, after usage has corrected where pieces end."""
        place = bisect_left(layout.ends, position)
        begin = layout.ends[place - 1] if place else 0
        first, last = self._ruler.position(place - 1), self._ruler.position(place)
        return first + (last - first) * (position - begin) // max(1, layout.ends[place] - begin)

    def _is_exact(self, request: Request, path: TreePath) -> bool:
        """Return whether every piece has an exact count. Cost: O(pieces that are new in the chain)."""
        first_inexact = self._first_inexact.get(request.chain)
        if first_inexact is None or first_inexact >= path.same:
            places = range(path.same, len(request.pieces))
            first_inexact = next((place for place in places if request.pieces[place].tokens is None), None)
            if first_inexact is None:
                self._first_inexact.pop(request.chain, None)
                return True
            self._first_inexact[request.chain] = first_inexact
        return False

    def _predict_read(self, request: Request, read: int, reason: str, *, exact: bool, hybrid: bool) -> Prediction:
        """Predict the read of an engine, which computes at least one token; the best case of a `hybrid` model."""
        confidence = "ceiling" if hybrid else "exact" if exact else "rule"
        return self._predicted(request, min(read, max(0, self._total(request) - 1)), confidence, reason)
