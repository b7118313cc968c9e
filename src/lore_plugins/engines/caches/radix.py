"""SGLang's radix tree: which tokens it holds, where its nodes are cut, and in which order leaves are evicted.

Rules, as in SGLang's code: a node stands for whole pages of tokens, and the common prefix of two keys has the same
nodes. A node is cut where a look-up or an insertion ends inside it, and never joined again. Eviction removes a whole
leaf, then its parent if it has become a leaf; a locked node and its ancestors are kept. The policy (`POLICIES`) ranks
the leaves, the smallest rank first.

Time is a counter of operations. Of a node, `used_at` is its last look-up or insertion, `hits` the number of requests
that published it, `priority` the highest of theirs. When a node is cut, the new front half gets its hits, priority and
locks; its `created_at` is the time of the cut in `RadixCache`, that of the node in `UnifiedRadixCache`.

Layers that do not keep every token (`layers.py`) decide at which nodes a request can resume: a look-up ends at the
deepest of those, and counts as a use of its path.

Cost: O(nodes x log tokens) for a key, O(log nodes) for an eviction.

Source: SGLang 0.5.23, `mem_cache/radix_cache.py`, `mem_cache/evict_policy.py` and
`mem_cache/unified_cache/unified_tree_core.py`, on 2026-11-23; tests/plugins/engines/oracle compares every read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lore_plugins.engines.caches.layers import PartialLayers, RunningRequest


class Keys(NamedTuple):
    """The pieces of a request."""

    nodes: Sequence[int]
    ends: Sequence[int]  # positions in tokens

    def part(self, begin: int, end: int) -> Keys:
        """Return the pieces between two positions, including those cut at them."""
        first, last = bisect_left(self.ends, begin + 1), bisect_left(self.ends, end)
        return Keys(self.nodes[first : last + 1], self.ends[first : last + 1])


class RadixNode:
    """The tokens from `begin` to `end` of all keys through this node."""

    __slots__ = (
        "begin", "children", "created_at", "end", "hits", "keys", "locks", "parent", "part_locks", "part_used",
        "priority", "used_at",
    )  # fmt: skip

    def __init__(self, parent: RadixNode | None, keys: Keys, begin: int, end: int) -> None:
        self.parent, self.keys, self.begin, self.end = parent, keys, begin, end
        self.children: dict[int, RadixNode] = {}
        self.locks = self.hits = self.used_at = self.created_at = self.priority = 0
        self.part_used: int | None = None  # last use of the part that `layers` hold of it; None: they hold none
        self.part_locks = 0

    @property
    def path(self) -> Iterator[RadixNode]:
        """Yield this node and its ancestors without the root."""
        step = self
        while step.parent is not None:
            yield step
            step = step.parent


POLICIES: dict[str, Callable[[RadixNode], tuple[int, ...]]] = {
    "lru": lambda node: (node.used_at,),
    "lfu": lambda node: (node.hits, node.used_at),
    "fifo": lambda node: (node.created_at, node.used_at),
    "mru": lambda node: (-node.used_at,),
    "filo": lambda node: (-node.created_at, node.used_at),
    "priority": lambda node: (node.priority, node.used_at),
    "slru": lambda node: (node.hits >= 2, node.used_at),
}


class RadixTree:
    """A tree with pages of `page` tokens; without `bounded` nothing is ever evicted."""

    def __init__(self, page: int, policy: str = "lru", *, bounded: bool = False, cut_is_new: bool = False) -> None:
        self.page = page
        self.layers: PartialLayers | None = None
        self._bounded = bounded
        self.size = 0  # tokens
        self.root = RadixNode(None, Keys((), ()), 0, 0)
        self.root.locks = 1
        self._cut_is_new = cut_is_new
        self._rank = POLICIES[policy]
        self._shared: dict[int, tuple[int, int]] = {}
        self._leaves: list[tuple[tuple[int, ...], int, RadixNode]] = []  # may contain outdated entries
        self._serial = count()
        self._clock = 0

    def share(self, node: int, similar_node: int, end: int) -> None:
        """Record that a piece's tokens before the position `end` equal those of `similar_node`."""
        self._shared[node] = (self._first_equal_piece(similar_node, end), end)

    def match(self, keys: Keys, end: int) -> tuple[RadixNode, int]:
        """Look up the whole pages of a key before `end`.

        Return the node where a request resumes, and how many tokens the tree holds, which may be more than can be read.
        """
        now, end = self.tick(), end // self.page * self.page
        node = best = self.root
        can_resume = self.layers.resume_check() if self.layers is not None else None
        is_whole = True
        while is_whole and (child := self._child(node, keys, end)) is not None:
            node, is_whole = self._enter_child(child, keys, end)
            if can_resume is None or can_resume(node):
                best = node
        if self.layers is not None:
            self.layers.use(best)
        for step in best.path:
            step.used_at = now
            self._queue_leaf(step)
        return best, node.end

    def insert(self, running: RunningRequest, end: int, priority: int, published_end: int) -> RadixNode:
        """Insert a request's tokens before `end`, the end of a page; return the node at which they end.

        Up to `published_end` the request has published nodes before.
        """
        now, keys = self.tick(), running.keys
        node, is_whole = self.root, True
        while is_whole and (child := self._child(node, keys, end)) is not None:
            child.used_at = now
            node, is_whole = self._enter_child(child, keys, end)
            node.priority = max(node.priority, priority)
            if self.layers is not None:
                self.layers.overlap(node, running)
            node.hits += node.end > published_end
            self._queue_leaf(node)
        begin = node.end
        if is_new := begin < end:
            leaf = RadixNode(node, keys.part(begin, end), begin, end)
            leaf.used_at = leaf.created_at = self.tick()
            leaf.priority = priority
            node.children[self._key_id(keys, begin + self.page)] = leaf
            self.size += end - begin
            node = leaf
        if self.layers is not None and node is not self.root:
            self.layers.commit(node, running, is_new=is_new)
        if is_new:
            node.hits = int(begin + node.end - node.begin > published_end)
            self._queue_leaf(node)
        return node

    def lock(self, node: RadixNode, amount: int = 1) -> None:
        """Lock a node and its ancestors; `amount` -1 unlocks them."""
        for step in node.path:
            step.locks += amount
            self._queue_leaf(step)

    def is_leaf(self, node: RadixNode) -> bool:
        """Return whether a node is an unlocked leaf."""
        return not (node.locks or node.children) and node is not self.root

    def remove(self, leaf: RadixNode) -> None:
        """Remove a leaf."""
        parent = leaf.parent
        assert parent is not None
        if self.layers is not None:
            self.layers.drop(leaf)
        del parent.children[self._key_id(leaf.keys, leaf.begin + self.page)]
        leaf.parent = None
        self.size -= leaf.end - leaf.begin
        self._queue_leaf(parent)

    def evict(self, tokens: int) -> None:
        """Remove leaves until at least `tokens` are freed, or all are locked."""
        target_size = self.size - tokens
        while self.size > target_size and self._leaves:
            rank, _, node = heappop(self._leaves)
            if node.parent is not None and self.is_leaf(node) and rank == self._rank(node):
                self.remove(node)

    def _first_equal_piece(self, node: int, end: int) -> int:
        """Return the first piece with the same tokens before a position."""
        while node in self._shared and end <= self._shared[node][1]:
            node = self._shared[node][0]
        return node

    def _key_id(self, keys: Keys, end: int) -> int:
        """Return the number that identifies a key up to a position."""
        return self._first_equal_piece(keys.nodes[bisect_left(keys.ends, end)], end)

    def _child(self, node: RadixNode, keys: Keys, end: int) -> RadixNode | None:
        """Return the child with the next page of a key."""
        return node.children.get(self._key_id(keys, node.end + self.page)) if node.end < end else None

    def _enter_child(self, child: RadixNode, keys: Keys, end: int) -> tuple[RadixNode, bool]:
        """Return a child and True; if the key leaves it or ends in it, its front half, cut off there, and False."""
        low, high = child.begin // self.page + 1, min(child.end, end) // self.page  # bounds of the common pages

        def differs(pages: int) -> bool:
            return self._key_id(child.keys, pages * self.page) != self._key_id(keys, pages * self.page)

        if low < high:  # nearly always all are common
            low = high if not differs(high) else low + bisect_left(range(low + 1, high), 1, key=differs)
        if low * self.page == child.end:
            return child, True
        return self.cut(child, low * self.page), False

    def cut(self, node: RadixNode, at: int) -> RadixNode:
        """Cut a node in two; return the new front half."""
        parent = node.parent
        assert parent is not None
        head = RadixNode(parent, node.keys.part(node.begin, at), node.begin, at)
        head.hits, head.priority, head.locks = node.hits, node.priority, node.locks
        head.used_at = self.tick()
        head.created_at = head.used_at if self._cut_is_new else node.created_at
        parent.children[self._key_id(node.keys, node.begin + self.page)] = head
        node.parent, node.begin, node.used_at = head, at, self.tick()
        node.keys = node.keys.part(at, node.end)
        head.children[self._key_id(node.keys, at + self.page)] = node
        if self.layers is not None:
            self.layers.cut(head, node)
        self._queue_leaf(node)
        return head

    def _queue_leaf(self, node: RadixNode) -> None:
        """Queue an unlocked leaf by its current rank."""
        if self._bounded and self.is_leaf(node):
            heappush(self._leaves, (self._rank(node), next(self._serial), node))

    def tick(self) -> int:
        """Advance the clock and return it."""
        self._clock += 1
        return self._clock
