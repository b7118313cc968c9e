"""SGLang's radix tree: which tokens it holds, where its nodes are cut, and which of them go first.

In: keys (`Keys`: what stands at each token of a request), in whole pages. Out: nodes; tokens that were thrown away.
Rules, all of SGLang's own code: what two keys have in common is the same nodes; a node is cut where a look-up or an
insertion ends inside it, and is never put together again; a leaf goes whole, then its parent where that is a leaf by
then; what is locked stays, with all before it. Which leaf goes first is its policy's (`POLICIES`, the smallest first).

Time is a count of what was done; a node's `used` is its last look-up or insertion, `made` when it came to be. `hits`
are the requests that published it, `priority` the highest of theirs. A node that is cut off in front has the hits,
the priority and the locks of what it was cut from; `RadixCache` has it made then, `UnifiedRadixCache` as long ago.

Layers that do not keep every token (`layers.py`) say at which node a request can go on: a look-up ends at the
deepest of those, and uses what leads there.

Cost O(nodes x log tokens) for a key, and O(log nodes) for a node that goes. A node keeps the pieces that it covers.

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
    from lore_plugins.engines.caches.layers import PartialLayers


class Keys(NamedTuple):
    """A request by its pieces: the node that stands for each, and the position in tokens at which it ends."""

    nodes: Sequence[int]
    ends: Sequence[int]

    def part(self, begin: int, end: int) -> Keys:
        """Return the pieces between two positions, those that are cut too."""
        first, last = bisect_left(self.ends, begin + 1), bisect_left(self.ends, end)
        return Keys(self.nodes[first : last + 1], self.ends[first : last + 1])


class Node:
    """Tokens from `begin` to `end` of every key that comes here."""

    __slots__ = (
        "begin", "children", "end", "hits", "kept", "kept_locks", "keys", "locks", "made", "parent", "priority", "used",
    )  # fmt: skip

    def __init__(self, parent: Node | None, keys: Keys, begin: int, end: int) -> None:
        self.parent, self.keys, self.begin, self.end = parent, keys, begin, end
        self.children: dict[int, Node] = {}
        self.locks = self.hits = self.used = self.made = self.priority = 0
        self.kept: int | None = None  # when what a component holds of it was used last; None: it holds nothing
        self.kept_locks = 0

    @property
    def path(self) -> Iterator[Node]:
        """Yield this node and those before it, up to the root and without it."""
        step = self
        while step.parent is not None:
            yield step
            step = step.parent


POLICIES: dict[str, Callable[[Node], tuple[int, ...]]] = {
    "lru": lambda node: (node.used,),
    "lfu": lambda node: (node.hits, node.used),
    "fifo": lambda node: (node.made, node.used),
    "mru": lambda node: (-node.used,),
    "filo": lambda node: (-node.made, node.used),
    "priority": lambda node: (node.priority, node.used),
    "slru": lambda node: (node.hits >= 2, node.used),
}


class Match(NamedTuple):
    """The node at which a request goes on, and up to which token its key is held, which may be further."""

    node: Node
    held: int


class Publication(NamedTuple):
    """What a request publishes: all before `end`.

    Nodes before `counted` were published by it before; the first `own` tokens are the tree's already; of those before
    `gone` it has no window any more.
    """

    end: int
    priority: int = 0
    counted: int = 0
    own: int = 0
    gone: int = 0


class RadixTree:
    """Nodes of pages of `page` tokens; `size` tokens in all. Without `bounded` nothing is to be thrown away."""

    def __init__(self, page: int, policy: str = "lru", *, bounded: bool = False, cut_is_new: bool = False) -> None:
        self.page = page
        self.component: PartialLayers | None = None
        self._bounded = bounded
        self.size = 0
        self.root = Node(None, Keys((), ()), 0, 0)
        self.root.locks = 1
        self._cut_is_new = cut_is_new
        self._rank = POLICIES[policy]
        self._shared: dict[int, tuple[int, int]] = {}
        self._leaves: list[tuple[tuple[int, ...], int, Node]] = []  # some are out of date
        self._serial = count()
        self._clock = 0

    def share(self, node: int, like: int, end: int) -> None:
        """Note that a piece's tokens before the position `end` are those of another piece in its place."""
        self._shared[node] = (self._first(like, end), end)

    def match(self, keys: Keys, end: int) -> Match:
        """Return where a request with this key goes on, of its whole pages before `end`."""
        now, end = self.tick(), end // self.page * self.page
        node = best = self.root
        valid = self.component.valid() if self.component is not None else None
        whole = True
        while whole and (child := self._child(node, keys, end)) is not None:
            node, whole = self._entered(child, keys, end)
            if valid is None or valid(node):
                best = node
        if self.component is not None:
            self.component.use(best)
        for step in best.path:
            step.used = now
            self._offer(step)
        return Match(best, node.end)

    def insert(self, keys: Keys, published: Publication) -> Node:
        """Hold a key's whole pages before the end of what is published; return the node at which it ends."""
        now, end = self.tick(), published.end // self.page * self.page
        node, whole = self.root, True
        while whole and (child := self._child(node, keys, end)) is not None:
            child.used = now
            node, whole = self._entered(child, keys, end)
            node.priority = max(node.priority, published.priority)
            if self.component is not None:
                self.component.overlap(node, published)
            node.hits += node.end > published.counted
            self._offer(node)
        begin = node.end
        if new := begin < end:
            leaf = Node(node, keys.part(begin, end), begin, end)
            leaf.used = leaf.made = self.tick()
            leaf.priority = published.priority
            node.children[self._name(keys, begin + self.page)] = leaf
            self.size += end - begin
            node = leaf
        if self.component is not None and node is not self.root:
            self.component.commit(node, published, new=new)
        if new:
            node.hits = int(begin + node.end - node.begin > published.counted)
            self._offer(node)
        return node

    def lock(self, node: Node, by: int = 1) -> None:
        """Keep a node and all before it, or with -1 no longer so for one that did."""
        for step in node.path:
            step.locks += by
            self._offer(step)

    def is_leaf(self, node: Node) -> bool:
        """Tell whether a node can go whole."""
        return not (node.locks or node.children) and node is not self.root

    def remove(self, leaf: Node) -> None:
        """Throw a leaf away."""
        parent = leaf.parent
        assert parent is not None
        if self.component is not None:
            self.component.drop(leaf)
        del parent.children[self._name(leaf.keys, leaf.begin + self.page)]
        leaf.parent = None
        self.size -= leaf.end - leaf.begin
        self._offer(parent)

    def evict(self, tokens: int) -> None:
        """Throw leaves away until at least so many tokens went, or nothing can go."""
        least = self.size - tokens
        while self.size > least and self._leaves:
            rank, _, node = heappop(self._leaves)
            if node.parent is not None and self.is_leaf(node) and rank == self._rank(node):
                self.remove(node)

    # names of pages

    def _first(self, node: int, end: int) -> int:
        """Return the first piece that had the tokens before a position which a piece has."""
        while node in self._shared and end <= self._shared[node][1]:
            node = self._shared[node][0]
        return node

    def _name(self, keys: Keys, end: int) -> int:
        """Return what stands for all of a key before a position."""
        return self._first(keys.nodes[bisect_left(keys.ends, end)], end)

    def _child(self, node: Node, keys: Keys, end: int) -> Node | None:
        """Return the child in which a key goes on, by its next page."""
        return node.children.get(self._name(keys, node.end + self.page)) if node.end < end else None

    def _entered(self, child: Node, keys: Keys, end: int) -> tuple[Node, bool]:
        """Return a child or, where the key leaves it or ends in it, its beginning; and whether it goes on."""
        low, high = child.begin // self.page + 1, min(child.end, end) // self.page  # pages that are common

        def differs(pages: int) -> bool:
            return self._name(child.keys, pages * self.page) != self._name(keys, pages * self.page)

        if low < high:  # nearly always all of them
            low = high if not differs(high) else low + bisect_left(range(low + 1, high), 1, key=differs)
        if low * self.page == child.end:
            return child, True
        return self.cut(child, low * self.page), False

    def cut(self, node: Node, at: int) -> Node:
        """Cut a node in two; return the first, which is new."""
        parent = node.parent
        assert parent is not None
        head = Node(parent, node.keys.part(node.begin, at), node.begin, at)
        head.hits, head.priority, head.locks = node.hits, node.priority, node.locks
        head.used = self.tick()
        head.made = head.used if self._cut_is_new else node.made
        parent.children[self._name(node.keys, node.begin + self.page)] = head
        node.parent, node.begin, node.used = head, at, self.tick()
        node.keys = node.keys.part(at, node.end)
        head.children[self._name(node.keys, at + self.page)] = node
        if self.component is not None:
            self.component.cut(head, node)
        self._offer(node)
        return head

    def _offer(self, node: Node) -> None:
        """Put a leaf that may go in line, by what it is now."""
        if self._bounded and self.is_leaf(node):
            heappush(self._leaves, (self._rank(node), next(self._serial), node))

    def tick(self) -> int:
        """Return the next moment."""
        self._clock += 1
        return self._clock
