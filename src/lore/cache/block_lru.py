"""What an engine's memory still holds: runs of blocks in a tree, the least recently used thrown away first.

In: paths of requests, positions in tokens. Out: how far a path is held. Rules: a block belongs to the piece in which
it ends; a use of a path is a use of every block on it; of blocks that were used last by one request the one furthest
back goes first. So what is held is closed towards the root, and a larger memory holds all that a smaller one does.
Where two pieces begin alike, what they have in common is one run. Cost O(log pieces) for a look-up, and
O(pieces that are not held + blocks' runs thrown away) for keeping a path.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from lore.cache.tree import Path


class _Run:
    """Blocks behind a prefix: tokens from `begin` to `end`; the first `kept` of its `size` blocks are held.

    `short` says that the last token of its piece was not computed on, and is not among them.
    """

    __slots__ = ("begin", "children", "end", "kept", "live", "parent", "short", "size", "used")

    def __init__(self, parent: _Run | None, begin: int, end: int, unit: int) -> None:
        self.parent, self.begin, self.end = parent, begin, end
        self.size = end // unit - begin // unit
        self.kept, self.used, self.children = 0, 0, 0
        self.live = self.short = False

    @property
    def whole(self) -> bool:
        return self.live and self.kept == self.size and not self.short

    def finish(self, unit: int) -> None:
        """Take in the last token of the piece."""
        if self.short:
            self.short = False
            self.end += 1
            self.size = self.end // unit - self.begin // unit


class Held(NamedTuple):
    """A piece to hold; `short` says that its last token is not among its tokens."""

    node: int
    tokens: int
    short: bool = False


class Residence:
    """A memory of `capacity` blocks of `unit` tokens; None: without end."""

    def __init__(self, unit: int, capacity: int | None) -> None:
        self.unit = unit
        self.capacity = capacity
        self.held = 0  # blocks
        self._runs: dict[int, _Run] = {}  # by the node at which they end
        self._leaves: list[tuple[int, int, _Run]] = []  # the least recently used first; some are out of date
        self._serial = count()
        self._clock = 0

    def places(self, path: Path) -> int:
        """Count the leading pieces of a path that are held whole."""
        low, high = 0, len(path.nodes)
        while low < high:
            middle = (low + high + 1) // 2
            run = self._runs.get(path.nodes[middle - 1])
            if run is not None and run.whole:
                low = middle
            else:
                high = middle - 1
        return low

    def within(self, path: Path, place: int, most: int) -> int:
        """Return how many tokens of the first piece that is not held whole are, all of them among the first `most`."""
        run = self._runs.get(path.nodes[place])
        if run is None and place == path.new:
            run = self._runs.get(path.like)
        before = self._runs[path.nodes[place - 1]] if place else None
        while run is not None and run is not before and not run.live:
            run = run.parent
        if run is None or run is before:
            return 0
        end = run.end if run.kept == run.size else (run.begin // self.unit + run.kept) * self.unit
        return max(0, min(end - (0 if before is None else before.end), most))

    def keep(self, path: Path, place: int, behind: list[Held], common: int) -> None:
        """Hold a path whose first `place` pieces are held, and what is `behind`; throw away what is too much.

        `common` tokens at the beginning of the first new piece are shared with another one in its place.
        """
        self._clock += 1
        run = self._runs[path.nodes[place - 1]] if place else None
        for number, held in enumerate(behind, place):
            before, run = run, self._runs.get(held.node)
            if run is None:
                shared = common if number == path.new else 0
                run = self._runs[held.node] = self._made(before, held.tokens, path.like if shared else 0, shared)
                run.short = held.short
            elif not held.short:
                run.finish(self.unit)
            self._revive(run, before)
        if run is not None:
            run.used = self._clock
            self._offer(run)
        self._evict()

    def _made(self, before: _Run | None, length: int, like: int, shared: int) -> _Run:
        begin = 0 if before is None else before.end
        parent, other = before, self._runs.get(like)
        if other is not None:
            parent = self._split(other, before, begin + min(shared, length))
        start = begin if parent is None else parent.end
        return _Run(parent, start, max(start, begin + length), self.unit)

    def _split(self, run: _Run, before: _Run | None, at: int) -> _Run | None:
        """Return the run that ends at a position on the way to another run; what has to be cut for it is."""
        while run.begin >= at and run.parent is not before and run.parent is not None:
            run = run.parent
        if run.begin >= at:
            return before
        if run.end <= at:
            return run
        head = _Run(run.parent, run.begin, at, self.unit)
        head.live, head.used, head.kept = run.live, run.used, min(run.kept, head.size)
        run.parent, run.begin = head, at
        run.size -= head.size
        run.kept -= head.kept
        if run.live and head.kept == head.size and (run.kept or not run.size):
            head.children = 1
        else:
            run.live = False
            self._offer(head)
        return head

    def _revive(self, run: _Run, before: _Run | None) -> None:
        """Hold a run whole, and those between it and one that is."""
        missing: list[_Run] = []
        step: _Run | None = run
        while step is not None and step is not before:
            missing.append(step)
            step = step.parent
        for one in reversed(missing):
            self.held += one.size - one.kept
            one.kept = one.size
            if not one.live:
                one.live = True
                if one.parent is not None:
                    one.parent.children += 1

    def _offer(self, run: _Run) -> None:
        if self.capacity is not None and run.live and not run.children:
            heappush(self._leaves, (run.used, next(self._serial), run))

    def _evict(self) -> None:
        """Throw blocks away until the rest fits, from the end of what was used least recently."""
        while self.capacity is not None and self.held > self.capacity and self._leaves:
            used, _, run = heappop(self._leaves)
            if not run.live or run.children or run.used != used:
                continue
            gone = min(run.kept, self.held - self.capacity)
            run.kept -= gone
            self.held -= gone
            if run.kept:
                self._offer(run)
            else:
                self._drop(run)

    def _drop(self, run: _Run) -> None:
        run.live = False
        parent = run.parent
        if parent is not None:
            parent.children -= 1
            parent.used = max(parent.used, run.used)
            self._offer(parent)
