"""The memory of an engine with blocks: names of blocks, and the blocks held while requests start, run and end.

A block is identified by all tokens up to its end, so equal prefixes have the same blocks. It belongs to the piece in
which it ends; the common beginning of two pieces has the same blocks. Without a capacity every computed block is held.
With one, memory is simulated block by block, as in the engine.

LMCache (`Chunks`) has one list, the least recently used chunk first. Chunks that a request finds move to its end, the
request's first chunk last. Missing chunks are added after them, the first chunk first, once there is room for all. So
the first chunk of a prompt that is not requested again is evicted first, and the rest of it can no longer be found.

vLLM (`BlockPool`) has one pool of places for the blocks of all groups of layers:

- A request needs a place for each of its blocks, including a last partial one.
- Found blocks are in use and cannot be evicted. Missing blocks are computed into free places, even if another place
  holds a copy by then; of several copies the oldest is found.
- The next free place is an empty one, then the one that was released longest ago.
- A request releases its places when it ends, the last block first; a partial block is then empty.

Layers with a window need only its last tokens, layers with a state (treated as a window of two tokens) only the last
state; earlier places are released as the request advances. Of these layers a later request finds only the windows
before certain places: the last full block that the same prompt could read, the place up to which full attention held
more than they did, and each multiple of `retention`. A request reads up to a place at which every group can resume. A
state is computed where it is kept: a prompt is computed in chunks up to each of these places.

Cost without a capacity: O(log pieces) for a look-up and O(missing pieces) for the rest; with one O(blocks of the
request, at most `capacity`).

Sources: LMCache 0.5.6, v1/cache_engine.py and v1/storage_backend/local_cpu_backend.py; vLLM 0.32, v1/core/
block_pool.py, single_type_kv_cache_manager.py, kv_cache_coordinator.py and, of chunks of a prompt, sched/scheduler.py;
compared in tests/plugins/engines/oracle on 2026-11-23.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from math import inf
from typing import NamedTuple


class BlockRun:
    """Consecutive blocks, numbered from `first`; in unlimited memory the first `held_count` of them are held."""

    __slots__ = ("first", "held_count")

    def __init__(self, first: int) -> None:
        self.first, self.held_count = first, 0


class BlockRange(NamedTuple):
    """Part of a run of blocks; `begin` and `end` are offsets in the run."""

    run: BlockRun
    begin: int
    end: int

    @property
    def blocks(self) -> range:
        """The numbers of the blocks."""
        return range(self.run.first + self.begin, self.run.first + self.end)


class NamedNode(NamedTuple):
    """The blocks of a piece."""

    end: int  # its end, in tokens from the start of the request
    parts: tuple[BlockRange, ...]  # the blocks that end in it
    last: BlockRange | None  # the last part up to its end, which may belong to an earlier piece


class BlockNames:
    """The blocks of `unit` tokens that end in each piece, by its node; 0 is the root."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self._nodes: dict[int, NamedNode] = {0: NamedNode(0, (), None)}
        self._next = 0

    def __getitem__(self, node: int) -> NamedNode:
        return self._nodes[node]

    def forget(self, nodes: Iterable[int]) -> None:
        """Remove the names of nodes without held blocks."""
        for node in nodes:
            self._nodes.pop(node, None)

    def add(self, node: int, previous_node: int, tokens: int, similar_node: int = 0, common: int = 0) -> None:
        """Name the blocks of a piece that follows `previous_node`, if it has no names; negative tokens count as 0.

        The first `common` tokens equal those of `similar_node` at the same position.
        """
        if node in self._nodes:
            return
        begin = self._nodes[previous_node].end
        end = begin + max(0, tokens)
        unnamed = end // self.unit - begin // self.unit
        parts: list[BlockRange] = []
        shared = min(unnamed, (begin + common) // self.unit - begin // self.unit)
        for part in self._nodes[similar_node].parts if similar_node in self._nodes else ():
            size = min(part.end - part.begin, shared)
            if size <= 0:
                break
            parts.append(part._replace(end=part.begin + size))
            shared, unnamed = shared - size, unnamed - size
        if unnamed:
            parts.append(BlockRange(BlockRun(self._next), 0, unnamed))
            self._next += unnamed
        self._nodes[node] = NamedNode(end, tuple(parts), parts[-1] if parts else self._nodes[previous_node].last)


class ServedRequest:
    """A running request: the parts of its blocks; the first `ready_blocks` of them are held or computed.

    Its output is generated evenly from `begin` to `ended`; its last token is never computed.
    """

    __slots__ = ("_remaining", "begin", "computed", "ended", "output", "prompt", "ready_blocks")

    def __init__(self, parts: Iterable[BlockRange], prompt: int, ready_blocks: int = 0) -> None:
        self._remaining = list(parts)[::-1]
        self.ready_blocks = ready_blocks
        self.prompt, self.output, self.computed = prompt, 0, 0  # tokens
        self.begin, self.ended = 0.0, -inf

    def reached(self, at: float) -> int:
        """Return the number of tokens computed at a time."""
        span = self.ended - self.begin
        generated = self.output if span <= 0 or at >= self.ended else int((at - self.begin) * self.output / span)
        return self.prompt + max(0, min(generated, self.output - 1))

    def time(self, tokens: int) -> float:
        """Return when a number of tokens is computed."""
        return self.begin + (tokens - self.prompt) * (self.ended - self.begin) / max(1, self.output)

    def take(self, end_block: int) -> Iterator[BlockRange]:
        """Advance to the block number `end_block`, and yield the parts up to there."""
        while self.ready_blocks < end_block and self._remaining:
            run, begin, end = self._remaining.pop()
            cut = min(end, begin + end_block - self.ready_blocks)
            if cut < end:
                self._remaining.append(BlockRange(run, cut, end))
            self.ready_blocks += cut - begin
            yield BlockRange(run, begin, cut)


class HeldBlocks(NamedTuple):
    """The part of a request that memory holds: a cache hit."""

    place: int  # pieces held as a whole
    blocks: int  # blocks held
    full_blocks: int = 0  # blocks that full attention holds, if other layers hold fewer; else 0


class Residence:
    """Unlimited memory: every computed block is held."""

    def __init__(self, names: BlockNames) -> None:
        self.names = names

    def find(self, nodes: Sequence[int]) -> HeldBlocks:
        """Return the part of a path that is held."""

        def lacks_blocks(node: int) -> bool:
            last = self.names[node].last
            return last is not None and last.run.held_count < last.end

        place = bisect_left(nodes, 1, key=lacks_blocks)
        blocks = self.names[nodes[place - 1] if place else 0].end // self.names.unit
        for run, begin, end in self.names[nodes[place]].parts if place < len(nodes) else ():
            blocks += max(0, min(end, run.held_count) - begin)
        return HeldBlocks(place, blocks)

    def resume(self, nodes: Sequence[int], hit: HeldBlocks) -> HeldBlocks:
        """Return the part of `hit` after which all layers can resume."""
        return hit

    def begin(self, nodes: Sequence[int], hit: HeldBlocks, output: Sequence[int]) -> ServedRequest:
        """Start a request that reads the held blocks; `output` are the nodes of its later output."""
        start = self.names[nodes[hit.place - 1] if hit.place else 0]
        parts = (part for node in chain(nodes[hit.place :], output) for part in self.names[node].parts)
        return ServedRequest(parts, self.names[nodes[-1]].end, start.end // self.names.unit)

    def fits(self, served: ServedRequest) -> bool:
        """Return whether there is room for the prompt of a request."""
        return True

    def steps(self, served: ServedRequest, end: int) -> Iterable[int]:
        """Return the token counts, up to `end`, at which a request will need, fill or release a block."""
        return (end,)

    def compute(self, served: ServedRequest, tokens: int) -> None:
        """Hold the blocks that the first `tokens` of a request fill."""
        for run, _, end in served.take(tokens // self.names.unit):
            run.held_count = max(run.held_count, end)
        served.computed = tokens

    def end(self, served: ServedRequest) -> None:
        """End a request."""


class Bounded(Residence):
    """Memory of `capacity` blocks, each tracked by itself."""

    def __init__(self, names: BlockNames, capacity: int) -> None:
        super().__init__(names)
        self.capacity = capacity

    def holds(self, block: int) -> bool:
        """Return whether a block is held."""
        raise NotImplementedError

    def find(self, nodes: Sequence[int]) -> HeldBlocks:
        blocks = 0
        for place, node in enumerate(nodes):
            for part in self.names[node].parts:
                for block in part.blocks:
                    if not self.holds(block):
                        return HeldBlocks(place, blocks)
                    blocks += 1
        return HeldBlocks(len(nodes), blocks)


class Chunks(Bounded):
    """LMCache's main memory of `capacity` chunks."""

    def __init__(self, names: BlockNames, capacity: int) -> None:
        super().__init__(names, capacity)
        self._chunks: OrderedDict[int, None] = OrderedDict()  # the least recently used first

    def holds(self, block: int) -> bool:
        return block in self._chunks

    def begin(self, nodes: Sequence[int], hit: HeldBlocks, output: Sequence[int]) -> ServedRequest:
        served = super().begin(nodes, HeldBlocks(0, 0), output)
        for block in reversed([block for part in served.take(hit.blocks) for block in part.blocks]):
            self._chunks.move_to_end(block)
        return served

    def compute(self, served: ServedRequest, tokens: int) -> None:
        """Evict old chunks to make room for those of the first `tokens`, then add these."""
        chunks = [block for part in served.take(tokens // self.names.unit) for block in part.blocks[: self.capacity]]
        chunks = chunks[: self.capacity]
        for _ in range(len(self._chunks) + len(chunks) - self.capacity):
            self._chunks.popitem(last=False)
        for block in chunks:
            self._chunks.setdefault(block)
        served.computed = tokens


class LayerGroups(NamedTuple):
    """The groups of layers of a model."""

    full: int = 1  # groups that attend to all tokens
    groups: int = 0  # groups that attend to the last `window` tokens, or keep a state
    window: int = 2  # tokens; 2 for states
    states: bool = False
    retention: int = 0  # tokens

    def skipped(self, group: int, tokens: int, unit: int) -> int:
        """Return how many leading blocks a group no longer needs once `tokens` are computed."""
        return 0 if group < self.full else max(0, tokens - self.window + 1) // unit


_ALL = LayerGroups()


class PooledRequest(ServedRequest):
    """A running request that uses places."""

    __slots__ = ("blocks", "edges", "places", "skipped")

    def __init__(self, parts: Iterable[BlockRange], prompt: int, edges: tuple[int, ...], groups: int) -> None:
        super().__init__(parts, prompt)
        self.blocks: list[int] = []  # numbers of the found or computed blocks
        self.places: list[list[int | None]] = [[] for _ in range(groups)]  # by group; None: the block is not needed
        self.skipped = [0] * groups
        self.edges = edges  # block counts after which a later prompt can resume

    def name(self, end_block: int) -> None:
        """Advance to the block number `end_block`."""
        for part in self.take(end_block):
            self.blocks += part.blocks


class BlockPool(Bounded):
    """vLLM's memory: `capacity` places for one block each."""

    def __init__(self, names: BlockNames, capacity: int, layers: LayerGroups = _ALL) -> None:
        super().__init__(names, capacity)
        self._layers = layers
        self._groups = range(layers.full + layers.groups)
        self._window_blocks = -(-(layers.window - 1) // names.unit)  # blocks of a window
        self._empty_count = capacity
        self._numbers = count()  # a place gets a new number with each block
        self._idle_places: OrderedDict[int, int] = OrderedDict()  # blocks by unused place, the oldest first
        self._use_counts: dict[int, int] = {}  # number of requests by place
        self._copies: dict[int, dict[int, None]] = {}  # places by block and group (`_group_key`), the oldest first
        self._blocks: dict[int, int] = {}  # block and group by place

    def holds(self, block: int) -> bool:
        """Return whether all groups with full attention hold a block."""
        return self._all_hold(block, self._groups[: self._layers.full])

    def resume(self, nodes: Sequence[int], hit: HeldBlocks) -> HeldBlocks:
        """Return the part of `hit` after which the other groups hold their whole window."""
        other_groups = self._groups[self._layers.full :]
        if not other_groups or not hit.blocks:
            return hit
        blocks = [block for node in nodes for part in self.names[node].parts for block in part.blocks]
        run = 0
        for number in range(hit.blocks - 1, -1, -1):
            run = run + 1 if self._all_hold(blocks[number], other_groups) else 0
            if run and run >= self._window_blocks:
                run += number
                break
        if run == hit.blocks:
            return hit
        place = bisect_right(nodes, run * self.names.unit, key=lambda node: self.names[node].end)
        return HeldBlocks(place, run, hit.blocks if self._layers.full else 0)

    def begin(self, nodes: Sequence[int], hit: HeldBlocks, output: Sequence[int]) -> PooledRequest:
        unit, prompt = self.names.unit, self.names[nodes[-1]].end
        parts = (part for node in chain(nodes, output) for part in self.names[node].parts)
        served = PooledRequest(parts, prompt, (hit.full_blocks, (prompt - 1) // unit), len(self._groups))
        served.name(hit.blocks)
        served.computed = hit.blocks * unit
        for group in self._groups:
            first = served.skipped[group] = self._layers.skipped(group, served.computed, unit)
            served.places[group] += [None] * first
            for block in served.blocks[first:]:
                place = next(iter(self._copies[self._group_key(group, block)]))
                self._idle_places.pop(place, None)
                self._use_counts[place] = self._use_counts.get(place, 0) + 1
                served.places[group].append(place)
        return served

    def fits(self, served: ServedRequest) -> bool:
        assert isinstance(served, PooledRequest)
        blocks, chunks = -(-served.prompt // self.names.unit), min(2, len(self._chunks(served, served.prompt)))
        needed = 0
        for group, places in enumerate(served.places):
            if not self._layers.states or group < self._layers.full:
                needed += max(0, blocks - len(places))
            else:  # a place for each end of a chunk; the found one is released before the second
                last_place = places[-1] if places else None
                needed += chunks - (chunks == 2 and last_place is not None and self._use_counts[last_place] == 1)
        return min(needed, self.capacity) <= self._empty_count + len(self._idle_places)

    def steps(self, served: ServedRequest, end: int) -> Iterable[int]:
        start, unit = served.computed, self.names.unit
        edges = set(range(start // unit * unit, end + 1, unit))
        edges |= {edge + 1 for edge in edges}
        if self._layers.groups:  # a block outside the window is released with the next token
            edges |= {start + 1, *range(start + 1 + (self._layers.window - start - 1) % unit, end + 1, unit)}
        return sorted(edge for edge in edges if start < edge <= end)

    def compute(self, served: ServedRequest, tokens: int) -> None:
        """Take free places for the first `tokens` of a request, and fill them; output is computed step by step."""
        assert isinstance(served, PooledRequest)
        if served.computed >= served.prompt:
            self._compute(served, tokens - 1, tokens)
            return
        for end in self._chunks(served, tokens):
            self._compute(served, served.computed, end)

    def end(self, served: ServedRequest) -> None:
        """Release a request's places, the last one of each group first."""
        assert isinstance(served, PooledRequest)
        for group in self._groups:
            self._release(served, group, len(served.places[group]))

    def _chunks(self, served: PooledRequest, tokens: int) -> list[int]:
        """Return the ends of the chunks in which a prompt is computed; a state is kept at each end."""
        edges = {edge * self.names.unit for edge in served.edges} if self._layers.states else set[int]()
        return [*sorted(edge for edge in edges if served.computed < edge < tokens), tokens]

    def _compute(self, served: PooledRequest, computed: int, tokens: int) -> None:
        unit = self.names.unit
        for group in self._groups:
            self._release(served, group, self._layers.skipped(group, computed, unit))
        needed = -(-tokens // unit)
        for group, places in enumerate(served.places):
            if self._layers.states and group >= self._layers.full:
                places += [None] * (needed - 1 - len(places))
            while len(places) < needed and (self._empty_count or self._idle_places):
                places.append(self._take_place())
        first = served.ready_blocks
        served.name(min(tokens // unit, *map(len, served.places)))
        for group, places in enumerate(served.places):
            for number in range(first, served.ready_blocks):
                place = places[number]
                if place is not None and self._is_kept(served, group, number):
                    block = self._blocks[place] = self._group_key(group, served.blocks[number])
                    self._copies.setdefault(block, {})[place] = None
        served.computed = tokens

    def _is_kept(self, served: PooledRequest, group: int, number: int) -> bool:
        """Return whether later requests can find a block of this one."""
        if group < self._layers.full:
            return True
        interval = self._layers.retention // self.names.unit
        if interval and (self._window_blocks >= interval or number % interval >= interval - self._window_blocks):
            return True
        return any(edge - self._window_blocks <= number < edge for edge in served.edges)

    def _release(self, served: PooledRequest, group: int, end_block: int) -> None:
        places = served.places[group]
        for number in range(min(end_block, len(places)) - 1, served.skipped[group] - 1, -1):
            place, places[number] = places[number], None
            if place is None:
                continue
            self._use_counts[place] -= 1
            if self._use_counts[place]:
                continue
            del self._use_counts[place]
            if place in self._blocks:
                self._idle_places[place] = self._blocks[place]
            else:
                self._empty_count += 1
        served.skipped[group] = max(served.skipped[group], end_block)

    def _take_place(self) -> int:
        if self._empty_count:
            self._empty_count -= 1
        else:
            oldest, block = self._idle_places.popitem(last=False)
            del self._blocks[oldest], self._copies[block][oldest]
            if not self._copies[block]:
                del self._copies[block]
        place = next(self._numbers)
        self._use_counts[place] = 1
        return place

    def _group_key(self, group: int, block: int) -> int:
        return block * len(self._groups) + group

    def _all_hold(self, block: int, groups: Iterable[int]) -> bool:
        return all(self._group_key(group, block) in self._copies for group in groups)
