"""SGLang's layers that do not keep every token: sliding windows, and states of state-space models.

In: nodes of a radix tree, requests that run. Out: at which nodes a request can go on, what a request publishes, what
is thrown away where their own memory is short. Rules: what they hold of a node has its own order of last uses, in
which the oldest goes first; where that is a leaf of the tree it goes whole, else only this part of it. What a running
request goes on from stays.

Windows: a request goes on behind a node where the `window` tokens before it have theirs, without a gap. A request
gives back what its window left when its prompt is published, then every 128 tokens; what it publishes has no window
there. So what was held of a prompt is no longer read where another request leaves it, until that one published a node
that ends there: of a prompt that is held further than it can be read, only so much is published at first.

States: a request goes on behind a node that has a state. `no_buffer` keeps one where a prompt ends and where a request
ended. `extra_buffer` keeps those at multiples of a chunk: the last one of what was computed of a prompt (or the one
at which it left another prompt), and in decoding every `interval` tokens; each request takes three places in memory.

Source: SGLang 0.5.23, `mem_cache/unified_cache/components/swa.py` and `mamba.py`, `mem_cache/common.py`,
`managers/schedule_batch.py`, on 2026-11-23; tests/plugins/engines/oracle compares every read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count, takewhile

from lore.errors import LoreError
from lore_plugins.engines.caches.radix import Keys, Match, Node, Publication, RadixTree

STRATEGIES = ("extra_buffer", "no_buffer")  # `--mamba-radix-cache-strategy`; the first where a model can
_SLIDE = 128  # tokens of decoding between two times that a window is given back


class RunningRequest:
    """A request that holds memory: the first `length` tokens of `keys`, of which the tree has the first `shared`.

    `since` is the token from which its layers are kept for it, `gone` the one from which it has windows, `branch`
    the one up to which its key was held though it could not be read, `tracked` the one at which it has a state.
    """

    def __init__(self, keys: Keys, prompt: int, match: Match, priority: int) -> None:
        self.keys, self.prompt, self.node, self.priority = keys, prompt, match.node, priority
        self.length = self.shared = match.node.end
        self.counted = self.since = self.gone = self.tracked = 0
        self.branch = match.held if match.held > self.shared else 0

    @property
    def computed(self) -> int:
        """Tokens that are computed on when it has ended."""
        return max(self.prompt, self.keys.ends[-1] - 1)


class PartialLayers:
    """What both have: parts of nodes, in the order of their last use. `capacity` is tokens or states; None: no end."""

    places = 0  # in memory, that a request takes while it runs beside those of its tokens
    per_token = False

    def __init__(self, tree: RadixTree, capacity: int | None) -> None:
        self._tree, self._capacity = tree, capacity
        self.size = 0
        self._line: list[tuple[int, int, int, Node]] = []  # some are out of date
        self._serial = count()

    # the tree asks

    def valid(self) -> Callable[[Node], bool]:
        """Return what says of each node of a path, in order, whether a request can go on behind it."""
        return lambda node: node.kept is not None

    def use(self, node: Node) -> None:
        """Note that a request goes on behind a node."""
        if node.kept is not None:
            self._keep(node, self._tree.tick())

    def overlap(self, node: Node, published: Publication) -> None:
        """Take from a request what a node that was there lacks."""

    def commit(self, node: Node, published: Publication, *, new: bool) -> None:
        """Take what a request has of the last node that it publishes."""
        self._put(node)
        self.use(node)

    def cut(self, head: Node, node: Node) -> None:
        """Share what was held of a node with the one that was cut off in front."""

    def drop(self, node: Node) -> None:
        """Forget what is held of a node."""
        if node.kept is not None:
            self.size -= self._units(node)
            node.kept = None

    # the engine asks

    def lock(self, node: Node) -> int:
        """Keep what a request that goes on behind a node needs; return the token since which that is."""
        since = self._since(node)
        for step in takewhile(lambda step: step.end > since, node.path):
            step.kept_locks += 1
        return since

    def unlock(self, node: Node, since: int) -> None:
        """Keep it no longer for a request that did."""
        for step in takewhile(lambda step: step.end > since, node.path):
            step.kept_locks -= 1
            self._offer(step)

    def short(self, units: int, running: Iterable[RunningRequest]) -> int:
        """Return how much is to be thrown away until so much is free."""
        if self._capacity is None:
            return 0
        return max(0, units + self.size + sum(self._own(each) for each in running) - self._capacity)

    def evict(self, units: int) -> None:
        """Throw away what was used least recently until at least so much went, or nothing can go."""
        least = self.size - units
        while self.size > least and self._line:
            kept, _, _, node = heappop(self._line)
            if node.kept != kept or node.kept_locks:
                continue
            if self._tree.is_leaf(node):
                self._tree.remove(node)
            else:
                self.drop(node)

    def admit(self, running: RunningRequest) -> None:
        """Note that a request begins to be computed."""

    def prefilled(self, running: RunningRequest, since: int) -> None:
        """Note that a prompt was computed from a token on."""

    def decoding(self, running: RunningRequest) -> None:
        """Note that another token of a request will be computed."""

    def decoded(self, running: RunningRequest) -> None:
        """Note that another token of a request was computed."""

    def publishes(self, running: RunningRequest, *, ended: bool) -> int:
        """Return up to which token a request is published."""
        raise NotImplementedError

    def published(self, running: RunningRequest, *, ended: bool) -> None:
        """Note that it was, up to the token that it shares."""

    def _own(self, running: RunningRequest) -> int:
        return self.places

    def _units(self, node: Node) -> int:
        return 1

    def _since(self, node: Node) -> int:
        return node.end - 1

    def _put(self, node: Node) -> None:
        if node.kept is None:
            self.size += self._units(node)
            self._keep(node, self._tree.tick())

    def _keep(self, node: Node, now: int) -> None:
        node.kept = now
        self._offer(node)

    def _offer(self, node: Node) -> None:
        """Put a part that may go in line; of a path that was used at once the end is the latest."""
        if self._capacity is not None and node.kept is not None and not node.kept_locks:
            heappush(self._line, (node.kept, node.end, next(self._serial), node))


class WindowLayers(PartialLayers):
    """Windows of `window` tokens, in memory for `capacity` tokens."""

    per_token = True

    def __init__(self, tree: RadixTree, window: int, capacity: int | None) -> None:
        if window < 1:
            raise LoreError("sglang: a window holds at least 1 token", hint="window=4096")
        super().__init__(tree, capacity)
        self._window = window
        self._pages = -(-window // tree.page) * tree.page  # whole pages that hold a window

    def valid(self) -> Callable[[Node], bool]:
        """Return what says whether the window before the end of a node is whole."""
        length = math.inf  # the beginning of a prompt has no window before it

        def whole(node: Node) -> bool:
            nonlocal length
            length = 0 if node.kept is None else length + node.end - node.begin
            return length >= self._window and node.kept is not None

        return whole

    def use(self, node: Node) -> None:
        now, far = self._tree.tick(), self._window + self._tree.page
        for step in takewhile(lambda step: node.end - step.end < far, node.path):
            if step.kept is not None:
                self._keep(step, now)

    def overlap(self, node: Node, published: Publication) -> None:
        """Take the window that a node lost from a request that computed it again."""
        if published.own < node.end and node.kept is None:
            self._fill(node, published.gone)

    def commit(self, node: Node, published: Publication, *, new: bool) -> None:
        """Take the windows of a new leaf; the last one is a node of its own, so that no more is kept than is read."""
        if new:
            self._fill(node, published.gone, most=self._pages)
        self.use(node)

    def _fill(self, node: Node, gone: int, most: int | None = None) -> None:
        """Take the windows of a node from `gone` on."""
        if gone >= node.end:
            return
        if gone > node.begin:
            self._tree.cut(node, gone)
        if most is not None and node.end - node.begin > most:
            self._put(self._tree.cut(node, node.end - most))
        self._put(node)

    def cut(self, head: Node, node: Node) -> None:
        head.kept, head.kept_locks = node.kept, node.kept_locks
        self._offer(head)

    def decoding(self, running: RunningRequest) -> None:
        """Give back what a window left, every 128 tokens, but not in the first step."""
        if running.prompt < running.length and running.length - self._window >= running.gone + _SLIDE:
            self._slide(running, running.length)

    def publishes(self, running: RunningRequest, *, ended: bool) -> int:
        """Return the end of what was computed, or of what was held of it where that could not be read."""
        end = running.branch if running.shared < running.branch <= running.length else running.length
        if not ended:
            self._slide(running, end - 1)
        return end

    def published(self, running: RunningRequest, *, ended: bool) -> None:
        """Go on behind what was held, if it is published by now."""
        if 0 < running.branch <= running.shared:
            running.branch = 0
            if not ended:
                self._slide(running, running.length - 1)

    def _slide(self, running: RunningRequest, end: int) -> None:
        """Give back what the window before a token does not need, in whole pages."""
        page = self._tree.page
        if end - self._window > running.gone:
            before = (end - self._pages) // page * page
            running.gone = max(running.gone, running.shared, before)

    def _own(self, running: RunningRequest) -> int:
        page = self._tree.page
        return -(-running.length // page) * page - max(running.shared, running.gone) // page * page

    def _units(self, node: Node) -> int:
        return node.end - node.begin

    def _since(self, node: Node) -> int:
        within = [step.begin for step in takewhile(lambda step: node.end - step.end < self._window, node.path)]
        return within[-1] if within else node.end


class StateLayers(PartialLayers):
    """States, in memory for `capacity` of them.

    `chunk` is how many tokens the model computes at once (`mamba_chunk_size`), `interval` the tokens of decoding
    between two states (`--mamba-track-interval`).
    """

    def __init__(
        self, tree: RadixTree, strategy: str | None = None, capacity: int | None = None, chunk: int | None = None,
        interval: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(tree, capacity)
        chunk, interval = 64 if chunk is None else chunk, 256 if interval is None else interval
        self._buffered = (strategy or STRATEGIES[0]) == "extra_buffer"
        self.places = 3 if self._buffered else 1
        if chunk < 1 or interval < 1:
            raise LoreError("sglang: states are kept at least 1 token apart", hint="state_chunk=64, state_interval=256")
        if not self._buffered and tree.page > 1:
            raise LoreError("sglang: strategy=no_buffer needs pages of 1 token", hint="page_size=1")
        least = self.places + 2  # what it goes on from, and what is published while it runs
        if capacity is not None and capacity < least:
            raise LoreError(f"sglang: a request needs room for {least} states", hint=f"state_capacity={least}")
        self._chunk = chunk
        self._least = max(chunk, tree.page)
        self._grid = math.lcm(self._least, tree.page)
        self._interval = math.lcm(self._grid, interval)

    def admit(self, running: RunningRequest) -> None:
        """A state is kept where a request leaves another, at a multiple of a chunk."""
        branch = running.branch // self._grid * self._grid
        running.branch = branch if branch > running.shared else 0

    def prefilled(self, running: RunningRequest, since: int) -> None:
        """Keep the last state at a multiple of a chunk, or the one at which a request left another."""
        length = running.length - since
        if not self._buffered or length < self._grid:
            return
        last = since + length // self._grid * self._grid
        seen = running.length if since + length // self._chunk * self._chunk == last else last + 1
        aligned = (running.branch - since) % self._least == 0
        running.tracked = running.branch if aligned and since < running.branch < seen else last

    def decoded(self, running: RunningRequest) -> None:
        """Keep a state at each multiple of the interval."""
        if self._buffered and running.length % self._interval == 0:
            running.tracked = running.length

    def publishes(self, running: RunningRequest, *, ended: bool) -> int:
        """Return where a request has a state, 0 where it has none."""
        if not self._buffered:
            return running.length
        end, running.tracked = running.tracked, 0
        return end
