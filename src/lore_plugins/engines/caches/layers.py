"""SGLang's layers that do not keep every token: sliding windows, and states of state-space models.

Such layers have their own memory: they hold a window or state for some nodes of the radix tree. If that memory is full,
the least recently used node loses its part; a leaf of the tree is removed as a whole. What a running request resumed
from is kept.

Windows: a request can resume after a node if the `window` tokens before its end have their windows without a gap. A
running request releases tokens outside its window when its prompt is published, then every 128 tokens; published nodes
have no window there. So a prompt cannot be resumed at the place where another request diverged from it, until that
request has published a node that ends there: if more of a prompt is held than can be read, it first publishes only up
to the end of the held part.

States: a request can resume after a node with a state. `no_buffer` keeps the states at the end of a prompt and of a
request. `extra_buffer` keeps states at multiples of a chunk: the last one of a prompt (or the one at which it diverged
from another prompt), and in the output those at multiples of `interval`, counted from the beginning of the prompt; each
request takes three places in memory.

Source: SGLang 0.5.23, `mem_cache/unified_cache/components/swa.py` and `mamba.py`, `mem_cache/common.py`,
`managers/schedule_batch.py`, on 2026-11-23; tests/plugins/engines/oracle compares every read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count, takewhile

from lore.errors import LoreError
from lore_plugins.engines.caches.radix import Keys, RadixNode, RadixTree

_SLIDE = 128  # tokens of output between two releases of tokens outside the window


class RunningRequest:
    """A request that holds memory for the first `length` tokens of `keys`. Positions are in tokens."""

    def __init__(self, keys: Keys, prompt: int, node: RadixNode, held_tokens: int, priority: int) -> None:
        self.keys, self.prompt, self.node, self.priority = keys, prompt, node, priority
        self.length = self.shared = node.end  # the tree has its tokens up to `shared`
        self.published_end = 0  # up to here it has published nodes
        self.lock_start = self.window_start = 0  # from here on its layers are locked, or it has windows
        self.tracked = 0  # where it has a state
        # up to here the tree held its key, although not all of that could be read
        self.branch = held_tokens if held_tokens > self.shared else 0

    @property
    def computed(self) -> int:
        """The tokens computed when it has ended."""
        return max(self.prompt, self.keys.ends[-1] - 1)


class PartialLayers:
    """Parts of nodes in a memory of `capacity` tokens or states (None: unlimited), in order of last use."""

    places = 0  # additional places in memory that a running request takes
    per_token = False

    def __init__(self, tree: RadixTree, capacity: int | None) -> None:
        self._tree, self._capacity = tree, capacity
        self.size = 0
        self._queue: list[tuple[int, int, int, RadixNode]] = []  # may contain outdated entries
        self._serial = count()

    # called by the tree

    def resume_check(self) -> Callable[[RadixNode], bool]:
        """Return a function that returns whether a request can resume after a node.

        Use it for one path: call it with each node, from the root on, because it counts what it has seen.
        """
        return lambda node: node.part_used is not None

    def use(self, node: RadixNode) -> None:
        """Record that a request resumes after a node."""
        if node.part_used is not None:
            self._set_part_used(node, self._tree.tick())

    def overlap(self, node: RadixNode, running: RunningRequest) -> None:
        """Add parts that an existing node lacks and a request has computed again."""

    def commit(self, node: RadixNode, running: RunningRequest, *, is_new: bool) -> None:
        """Add a request's part of the last node that it publishes."""
        self._add_part(node)
        self.use(node)

    def cut(self, head: RadixNode, node: RadixNode) -> None:
        """Called when `head`, the front half of a node, was cut off: windows divide, a state stays with the end."""

    def drop(self, node: RadixNode) -> None:
        """Remove the part of a node."""
        if node.part_used is not None:
            self.size -= self._units(node)
            node.part_used = None

    # called by the engine

    def lock(self, node: RadixNode) -> int:
        """Lock the parts that a request needs to resume after a node; return from which token on that is."""
        lock_start = self._find_lock_start(node)
        for step in takewhile(lambda step: step.end > lock_start, node.path):
            step.part_locks += 1
        return lock_start

    def unlock(self, node: RadixNode, lock_start: int) -> None:
        """Undo a `lock` of this node, which returned `lock_start`."""
        for step in takewhile(lambda step: step.end > lock_start, node.path):
            step.part_locks -= 1
            self._queue_part(step)

    def shortage(self, units: int, running: Iterable[RunningRequest]) -> int:
        """Return how much must be evicted until `units` are free besides what requests hold outside the tree."""
        if self._capacity is None:
            return 0
        return max(0, units + self.size + sum(map(self._units_outside_tree, running)) - self._capacity)

    def evict(self, units: int) -> None:
        """Evict the least recently used parts until at least `units` are freed, or all are locked."""
        target_size = self.size - units
        while self.size > target_size and self._queue:
            used_at, _, _, node = heappop(self._queue)
            if node.part_used != used_at or node.part_locks:
                continue
            if self._tree.is_leaf(node):
                self._tree.remove(node)
            else:
                self.drop(node)

    def admit(self, running: RunningRequest) -> None:
        """Called when a request starts."""

    def after_prefill(self, running: RunningRequest, chunk_start: int) -> None:
        """Called when a chunk of a prompt, from the token `chunk_start` on, was computed."""

    def before_token(self, running: RunningRequest) -> None:
        """Called before a token of output is computed."""

    def after_token(self, running: RunningRequest) -> None:
        """Called when a token of output was computed."""

    def publication_end(self, running: RunningRequest, *, has_ended: bool) -> int:
        """Return up to which token a request is published now."""
        raise NotImplementedError

    def after_publication(self, running: RunningRequest, *, has_ended: bool) -> None:
        """Called when a request was published up to its `shared` token."""

    def _units_outside_tree(self, running: RunningRequest) -> int:
        """Return how much memory a running request holds outside the tree."""
        return self.places

    def _units(self, node: RadixNode) -> int:
        return 1

    def _find_lock_start(self, node: RadixNode) -> int:
        """Return the token from which on a request that resumes after a node needs the parts."""
        return node.end - 1

    def _add_part(self, node: RadixNode) -> None:
        """Add the part of a node; one that it has already stays as it is."""
        if node.part_used is None:
            self.size += self._units(node)
            self._set_part_used(node, self._tree.tick())

    def _set_part_used(self, node: RadixNode, now: int) -> None:
        node.part_used = now
        self._queue_part(node)

    def _queue_part(self, node: RadixNode) -> None:
        """Queue a part that may be evicted; of parts used at the same time the last of the path is evicted last."""
        if self._capacity is not None and node.part_used is not None and not node.part_locks:
            heappush(self._queue, (node.part_used, node.end, next(self._serial), node))


class WindowLayers(PartialLayers):
    """Windows of `window` tokens, in memory for `capacity` tokens."""

    per_token = True

    def __init__(self, tree: RadixTree, window: int, capacity: int | None) -> None:
        if window < 1:
            raise LoreError("sglang: a window holds at least 1 token", hint="window=4096")
        super().__init__(tree, capacity)
        self._window = window
        self._pages = -(-window // tree.page) * tree.page  # tokens of the pages that hold a window

    def resume_check(self) -> Callable[[RadixNode], bool]:
        length = math.inf  # the beginning of a prompt has no window before it

        def has_whole_window(node: RadixNode) -> bool:
            nonlocal length
            length = 0 if node.part_used is None else length + node.end - node.begin
            return length >= self._window and node.part_used is not None

        return has_whole_window

    def use(self, node: RadixNode) -> None:
        now, reach = self._tree.tick(), self._window + self._tree.page
        for step in takewhile(lambda step: node.end - step.end < reach, node.path):
            if step.part_used is not None:
                self._set_part_used(step, now)

    def overlap(self, node: RadixNode, running: RunningRequest) -> None:
        if running.shared < node.end and node.part_used is None:
            self._fill(node, running.window_start)

    def commit(self, node: RadixNode, running: RunningRequest, *, is_new: bool) -> None:
        """Add the windows of a new leaf; cut off its last one as a node, so that the rest can be evicted alone."""
        if is_new:
            self._fill(node, running.window_start, most=self._pages)
        self.use(node)

    def _fill(self, node: RadixNode, start: int, most: int | None = None) -> None:
        """Add the windows of a node from the token `start` on."""
        if start >= node.end:
            return
        if start > node.begin:
            self._tree.cut(node, start)
        if most is not None and node.end - node.begin > most:
            self._add_part(self._tree.cut(node, node.end - most))
        self._add_part(node)

    def cut(self, head: RadixNode, node: RadixNode) -> None:
        head.part_used, head.part_locks = node.part_used, node.part_locks
        self._queue_part(head)

    def before_token(self, running: RunningRequest) -> None:
        """Release tokens outside the window every 128 tokens, not before the first token of output."""
        if running.prompt < running.length and running.length - self._window >= running.window_start + _SLIDE:
            self._slide(running, running.length)

    def publication_end(self, running: RunningRequest, *, has_ended: bool) -> int:
        """Return the end of the computed tokens, or first that of the held ones that could not be read."""
        end = running.branch if running.shared < running.branch <= running.length else running.length
        if not has_ended:
            self._slide(running, end - 1)
        return end

    def after_publication(self, running: RunningRequest, *, has_ended: bool) -> None:
        """Once the branch is published, let the window advance past it."""
        if 0 < running.branch <= running.shared:
            running.branch = 0
            if not has_ended:
                self._slide(running, running.length - 1)

    def _slide(self, running: RunningRequest, end: int) -> None:
        """Release whole pages that the window before `end` does not need."""
        page = self._tree.page
        if end - self._window > running.window_start:
            needed_start = (end - self._pages) // page * page
            running.window_start = max(running.window_start, running.shared, needed_start)

    def _units_outside_tree(self, running: RunningRequest) -> int:
        page = self._tree.page
        return -(-running.length // page) * page - max(running.shared, running.window_start) // page * page

    def _units(self, node: RadixNode) -> int:
        return node.end - node.begin

    def _find_lock_start(self, node: RadixNode) -> int:
        begins = [step.begin for step in takewhile(lambda step: node.end - step.end < self._window, node.path)]
        return begins[-1] if begins else node.end


class StateLayers(PartialLayers):
    """States, in memory for `capacity` of them.

    `chunk` is `mamba_chunk_size`, the tokens that the model computes at once; `interval` is `--mamba-track-interval`:
    output gets a state at multiples of both, counted from the beginning of the prompt.
    """

    def __init__(
        self, tree: RadixTree, strategy: str | None = None, capacity: int | None = None, chunk: int | None = None,
        interval: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(tree, capacity)
        chunk, interval = 64 if chunk is None else chunk, 256 if interval is None else interval
        self._buffered = strategy != "no_buffer"
        self.places = 3 if self._buffered else 1
        if chunk < 1 or interval < 1:
            raise LoreError("sglang: states are kept at least 1 token apart", hint="state_chunk=64, state_interval=256")
        if not self._buffered and tree.page > 1:
            raise LoreError("sglang: strategy=no_buffer needs pages of 1 token", hint="page_size=1")
        least = self.places + 2  # the state it resumes from, and one published while it runs
        if capacity is not None and capacity < least:
            raise LoreError(f"sglang: a request needs room for {least} states", hint=f"state_capacity={least}")
        self._chunk = chunk
        self._least = max(chunk, tree.page)
        self._grid = math.lcm(self._least, tree.page)
        self._interval = math.lcm(self._grid, interval)

    def admit(self, running: RunningRequest) -> None:
        """Move the branch down to a multiple of a chunk, where a state can be kept; 0 if the tree has that already."""
        branch = running.branch // self._grid * self._grid
        running.branch = branch if branch > running.shared else 0

    def after_prefill(self, running: RunningRequest, chunk_start: int) -> None:
        """Keep the last state at a multiple of a chunk, or the one at the branch."""
        length = running.length - chunk_start
        if not self._buffered or length < self._grid:
            return
        last = chunk_start + length // self._grid * self._grid
        branch_limit = running.length if chunk_start + length // self._chunk * self._chunk == last else last + 1
        is_aligned = (running.branch - chunk_start) % self._least == 0
        running.tracked = running.branch if is_aligned and chunk_start < running.branch < branch_limit else last

    def after_token(self, running: RunningRequest) -> None:
        if self._buffered and running.length % self._interval == 0:
            running.tracked = running.length

    def publication_end(self, running: RunningRequest, *, has_ended: bool) -> int:
        """Return the token at which a request has a state, 0 if it has none."""
        if not self._buffered:
            return running.length
        end, running.tracked = running.tracked, 0
        return end
