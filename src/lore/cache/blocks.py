"""Engines that keep blocks of tokens: vLLM (full blocks of 16), SGLang (pages of 1), LMCache (chunks of 256).

In: requests, what was billed for them. Out: predictions. Rules: the whole blocks that a request begins with are read,
as far as memory still holds them; those of the request, and with `outputs` those of what was generated, are kept. A
block can be read as soon as it is full, so requests at the same time share it. The last token that is generated is
never computed on. Where every piece has its exact count the prediction is exact; a common beginning inside a piece
counts by its bytes, and where it ends inside a block that block is not read.

Of memory: a block belongs to the piece in which it ends; a use of a path is a use of every block on it; the least
recently used goes first, of blocks that were used last by one request the one furthest back. So what is held is closed
towards the root, and a larger memory holds all that a smaller one does. (SGLang throws a whole leaf away at once, here
its end goes first: the difference is one leaf at most.) Where two pieces begin alike, what they have in common is one
run. Cost O(log pieces) for a look-up, and O(pieces that are not held + runs thrown away) for keeping a path.

Sources: vLLM's design of prefix caching, and its block pool (at least the last token is computed; a cache salt
separates); SGLang's scheduler (a match is at most one token shorter than the input) and its radix cache; LMCache's
configuration, version 1 (chunks that are not full are not saved, what was generated only with `save_decode_cache`).
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from lore.cache.base import UNKNOWN, Look, Prediction, Request
from lore.cache.measured import MeasuredCache
from lore.cache.tree import Path
from lore.errors import LoreError


class Engine(NamedTuple):
    """How an engine keeps blocks: `unit` tokens each, where neither the first option nor a rule (`block_tokens`) says.

    `recomputed` tokens at the end of a request are computed whatever is held; of a prompt that LMCache holds whole,
    what is said is what is found in chunks. `outputs`: what was generated is kept, where `decoded` does not say.
    """

    name: str
    unit: int
    options: tuple[str, ...]
    recomputed: int = 1
    outputs: bool = True


class Blocks(MeasuredCache):
    """A memory of `capacity` blocks.

    `hybrid` says that the model has layers whose state cannot be resumed at any block: it reads nothing, or less.
    """

    def __init__(
        self, look: Look, engine: Engine, *, capacity: int | None = None, hybrid: bool = False,
        decoded: bool | None = None, **sizes: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        size = sizes.get(engine.options[0])
        unit = size if size is not None else int(look("block_tokens", None, None) or engine.unit)
        if unit < 1 or (capacity is not None and capacity < 0):
            hint = f"options of {engine.name}: " + ", ".join(engine.options)
            raise LoreError(f"{engine.name}: a block holds at least 1 token, and memory at least 0 blocks", hint=hint)
        self._memory = Residence(unit, capacity)
        self._recomputed = engine.recomputed
        self._hybrid = hybrid
        self._outputs = engine.outputs if decoded is None else decoded

    def predict(self, request: Request) -> Prediction:
        """Say which blocks would be read, and keep the request's."""
        path = self._lay(request)
        if not request.pieces:
            return UNKNOWN
        total, unit = self._total(request), self._memory.unit
        place = self._memory.places(path)
        held = min(self._held(request, path, place), total - self._recomputed)
        read = max(0, held // unit * unit)
        self._keep(request, path, place)
        reason = "blocks that are held" if read else "no block is held"
        counted = self._counted(request, path)
        confidence = "ceiling" if self._hybrid else "exact" if counted else "rule"
        return self._predicted(request, read, confidence, reason)

    def _held(self, request: Request, path: Path, place: int) -> int:
        position = self._ruler.position(place - 1)
        if place >= len(request.pieces):
            return position
        end = self._begun(request, path) if place == path.new else self._ruler.position(place)
        return position + self._memory.within(path, place, end - position)

    def _keep(self, request: Request, path: Path, place: int) -> None:
        edges = [self._ruler.position(number) for number in range(place - 1, len(request.pieces))]
        behind = [
            Held(node, max(0, after - before))
            for node, before, after in zip(path.nodes[place:], edges, edges[1:], strict=False)
        ]
        common = 0
        if path.new < len(request.pieces):
            common = max(0, self._begun(request, path) - self._ruler.position(path.new - 1))
        self._memory.keep(path, place, behind + self._generated(request), common)

    def _generated(self, request: Request) -> list[Held]:
        if not self._outputs or not request.output:
            return []
        sizes = [round(self._ruler.size(piece)) for piece in request.output]
        made = [Held(node, size) for node, size in zip(self._tree.beyond(request), sizes, strict=True)]
        last = made[-1]
        return [*made[:-1], Held(last.node, last.tokens - 1, short=True) if last.tokens else last]


# memory


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
        for link in reversed(missing):
            self.held += link.size - link.kept
            link.kept = link.size
            if not link.live:
                link.live = True
                if link.parent is not None:
                    link.parent.children += 1

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
