"""The shared part of cache models without breakpoints: prefixes, positions in tokens, last uses, totals from usage.

Everything that is not read is uncached, unless usage has shown that this cache charges for writing; usage without all
of its counts is not learned from. Using a path uses every prefix on it, whichever chain it belongs to; a prefix can be
read once the response of the request that made it began. A request of unknown time is the best case: it reads
everything kept. Cost: O(pieces that are new in the chain), because a chain's latest use holds for its whole path.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from lore.cache.base import Confidence, Prediction, Request
from lore.cache.tree import PrefixTree, Ruler, TreePath
from lore.model.events import Usage


class MeasuredCache:
    """The base of cache models without breakpoints: prefixes, sizes, totals learned from usage."""

    def __init__(self) -> None:
        self._tree = PrefixTree()
        self._ruler = Ruler()
        self._pending: Request | None = None  # its usage has not been read yet
        self._charging: set[str | None] = set()  # models whose usage has reported writes

    def _lay(self, request: Request) -> TreePath:
        """Return the path of a request and measure it; the next usage is for it."""
        path = self._tree.path(request)
        self._ruler.measure(request.chain, path, request.pieces, request.model)
        self._pending = request
        return path

    def _total(self, request: Request) -> int:
        return self._ruler.position(len(request.pieces) - 1)

    def _find_similar_end(self, request: Request, path: TreePath) -> int:
        """Return the position up to which the first new piece begins like an earlier one in its place."""
        if path.new >= len(request.pieces):
            return self._total(request)
        return self._ruler.position_inside(path.new, path.common_bytes, len(request.pieces[path.new].data))

    def _predicted(
        self, request: Request, read: int, confidence: Confidence, reason: str, written: int = 0
    ) -> Prediction:
        """Complete a prediction from its read; if writes are charged, everything up to `written` is written."""
        write = max(0, written - read) if request.model in self._charging else 0
        return Prediction(read, write, self._total(request) - read - write, confidence, reason)

    def learn(self, usage: Usage | None) -> str:
        """Read the usage of the latest request; return how it contradicts the request, empty if it does not."""
        request, self._pending = self._pending, None
        if request is None or usage is None or not request.pieces:
            return ""
        uncached, read, write = usage.uncached_tokens, usage.read_tokens, usage.write_tokens
        if uncached is None or (read is None and write is None) or min(uncached, read or 0, write or 0) < 0:
            return ""
        if write:
            self._charging.add(request.model)
        prompt_size = uncached + (read or 0) + (write or 0)
        doubt = self._ruler.learn(len(request.pieces) - 1, prompt_size)
        if request.output and usage.output_tokens is not None and not doubt:
            self._ruler.note_billed(self._tree.generated(request).nodes[-1], prompt_size + usage.output_tokens)
        return doubt


class Recency:
    """When the prefixes of a tree were last used."""

    def __init__(self) -> None:
        self._last_uses: dict[int, float] = {}  # when a chain last used nodes that it no longer has
        self._holders: dict[int, list[str]] = {}  # chains whose path has a node, in the order of their coming
        self._used_at: dict[str, float] = {}  # when the latest request of a chain was sent
        self._first_nodes: list[int] = []  # the first new node of each request, ascending
        self._ready: list[float] = []

    def use(self, request: Request, path: TreePath, lifetime: float | None) -> int:
        """Return how many leading pieces can be read (used within `lifetime` seconds), and mark all as used."""
        at, chain, nodes = request.at, request.chain, path.nodes
        last_use = self._used_at.get(chain, -math.inf)
        for node in path.cut:
            self._last_uses[node] = max(self._last_uses.get(node, -math.inf), last_use)
            self._holders[node].remove(chain)
        earliest = -math.inf if lifetime is None or at is None else at - lifetime
        low = path.same if last_use >= earliest else 0  # everything before a young prefix is as young
        young = bisect_left(nodes, 1, low, max(low, path.new), key=lambda node: not self._is_young(node, earliest))
        places = min(young, path.new)
        while at is not None and places > 0 and at < self.ready(nodes[places - 1]):  # its response had not begun
            first = self._first_nodes[bisect_right(self._first_nodes, nodes[places - 1]) - 1]
            places = bisect_left(nodes, first, 0, places)
        now = math.inf if at is None else at
        self._used_at[chain] = max(now, last_use) if path.same else now
        for node in nodes[path.same :]:
            self._holders.setdefault(node, []).append(chain)
        if path.new < len(nodes):
            began = request.answered if request.answered is not None else at
            self._first_nodes.append(nodes[path.new])
            self._ready.append(-math.inf if began is None else began)
        return places

    def live(self, node: int, at: float | None, lifetime: float | None) -> bool:
        """Return whether a prefix is ready and was used at most `lifetime` seconds (None: any) before `at`."""
        if at is None:
            return True
        return (lifetime is None or self._is_young(node, at - lifetime)) and self.ready(node) <= at

    def ready(self, node: int) -> float:
        """Return since when a prefix can be read, in seconds since the epoch; minus infinity if that is unknown."""
        number = bisect_right(self._first_nodes, node) - 1
        return self._ready[number] if number >= 0 else -math.inf

    def _is_young(self, node: int, earliest: float) -> bool:
        if self._last_uses.get(node, -math.inf) >= earliest:  # minus infinity: all are young
            return True
        return any(self._used_at.get(chain, -math.inf) >= earliest for chain in reversed(self._holders.get(node, ())))
