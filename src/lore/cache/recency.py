"""When a prefix was used last, and since when it can be read.

In: the paths of requests, in order. Out: how many leading pieces of a path are still kept. Rules: a use of a path
is a use of every prefix on it, whichever chain it belongs to; a prefix that a request made can be read once its
response began. A time that is not known keeps what it touches: the best case. Cost O(pieces that the chain's path
before did not have), for a chain's latest use holds for its whole path and is written down only where it is left.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from lore.cache.base import Request
from lore.cache.tree import Path


class Recency:
    """Last uses of all prefixes of a tree."""

    def __init__(self) -> None:
        self._left: dict[int, float] = {}  # nodes that a chain left, when it had used them last
        self._holders: dict[int, list[str]] = {}  # chains on whose path a node is, the latest to come last
        self._used: dict[str, float] = {}  # when the latest request of a chain was
        self._made: list[int] = []  # the first node that each request made, ascending
        self._ready: list[float] = []

    def use(self, request: Request, path: Path, lifetime: float | None) -> int:
        """Return how many leading pieces can be read, those at most `lifetime` seconds old; then touch them all."""
        self._leave(request.chain, path.cut)
        since = -math.inf if lifetime is None or request.at is None else request.at - lifetime
        places = self._ripe(path.nodes, self._young(request.chain, path, since), request.at)
        self._hold(request, path)
        return places

    def live(self, node: int, at: float | None, lifetime: float | None) -> bool:
        """Tell whether one prefix is kept and can be read."""
        if at is None:
            return True
        return (lifetime is None or self._is_young(node, at - lifetime)) and self.ready(node) <= at

    def ready(self, node: int) -> float:
        """Return since when a prefix can be read, in seconds since the epoch."""
        number = bisect_right(self._made, node) - 1
        return self._ready[number] if number >= 0 else -math.inf

    def _leave(self, chain: str, cut: Sequence[int]) -> None:
        used = self._used.get(chain, -math.inf)
        for node in cut:
            self._left[node] = max(self._left.get(node, -math.inf), used)
            self._holders[node].remove(chain)

    def _young(self, chain: str, path: Path, since: float) -> int:
        """Count the leading pieces that are young enough: what leads to a young prefix is as young."""
        low = path.kept if self._used.get(chain, -math.inf) >= since else 0
        high = path.new
        while low < high:
            middle = (low + high + 1) // 2
            if self._is_young(path.nodes[middle - 1], since):
                low = middle
            else:
                high = middle - 1
        return min(low, path.new)

    def _is_young(self, node: int, since: float) -> bool:
        if self._left.get(node, -math.inf) >= since:  # minus infinity: all are
            return True
        return any(self._used.get(chain, -math.inf) >= since for chain in reversed(self._holders.get(node, ())))

    def _ripe(self, nodes: Sequence[int], places: int, at: float | None) -> int:
        """Take away what was made by requests whose responses had not begun."""
        while at is not None and places > 0 and at < self.ready(nodes[places - 1]):
            first = self._made[bisect_right(self._made, nodes[places - 1]) - 1]
            places = bisect_left(nodes, first, 0, places)
        return places

    def _hold(self, request: Request, path: Path) -> None:
        now = math.inf if request.at is None else request.at
        self._used[request.chain] = max(now, self._used.get(request.chain, -math.inf)) if path.kept else now
        for node in path.nodes[path.kept :]:
            self._holders.setdefault(node, []).append(request.chain)
        if path.new < len(path.nodes):
            began = request.answered if request.answered is not None else request.at
            self._made.append(path.nodes[path.new])
            self._ready.append(-math.inf if began is None else began)
