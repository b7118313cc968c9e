"""What an engine's memory holds of blocks: names of blocks, and which are held while requests begin, go on and end.

In: nodes of paths with the tokens behind them. Out: how many leading blocks are held. Rules: a block is what stands up
to its end, so equal prefixes have the same blocks; it belongs to the piece in which it ends; what two pieces have in
common at their beginning is the same blocks. Without a capacity what was computed once is held. With one every read is
the engine's, block by block.

LMCache's `Chunks` are one list, the least recently used first. What a request finds is used, its first chunk last. What
it does not find is put behind that, its first chunk first, after room was made for all of it: so of a prompt that was
stored and not asked for again the first chunk goes first, and what is left of it is not found.

vLLM's memory (`BlockPool`) is one pool of places for the blocks of every group of layers:

- a request needs a place for each of its blocks, the last one too where it is not full;
- what it finds is used and cannot go; what it does not find it computes into free places, though another place may
  hold the same by then: of copies the first that was made is found;
- a free place is one that holds nothing, then the one that was given back longest ago;
- a request gives its places back when it ends, the last block first; one that is not full holds nothing then.

Layers that attend to a window need its last tokens alone, layers with a state (a window of two tokens) the state at the
end; a place with what is behind is given back as the request goes on. Of these only what a later prompt can resume at
is found again: the window before the last full block that a prompt sent again may read, that before the place up to
which full attention held more than they did, and with `retention` that before each of its multiples. What is read is
what every group can resume at. A state is computed where it is kept: so a prompt is computed as far as each of these
places, and a state needs a place there alone.

Cost without a capacity: O(log pieces) for a look-up and O(pieces that are not held) for the rest; with one O(blocks of
the request, at most `capacity`).

Sources: LMCache 0.5.6, v1/cache_engine.py and v1/storage_backend/local_cpu_backend.py; vLLM 0.32, v1/core/
block_pool.py, single_type_kv_cache_manager.py, kv_cache_coordinator.py and, of chunks of a prompt, sched/scheduler.py;
compared in tests/plugins/engines/oracle on 2026-11-23.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import NamedTuple


class Stretch:
    """Blocks that follow one another: numbers from `first` on; the first `held` are held, where there is no pool."""

    __slots__ = ("first", "held")

    def __init__(self, first: int) -> None:
        self.first, self.held = first, 0


class BlockRange(NamedTuple):
    """The blocks of a stretch from the one at `begin` to before the one at `end`."""

    stretch: Stretch
    begin: int
    end: int

    @property
    def blocks(self) -> range:
        """The numbers of its blocks."""
        return range(self.stretch.first + self.begin, self.stretch.first + self.end)


class NamedNode(NamedTuple):
    """A node: the position of its end in tokens, its blocks, and the last part on the way to it."""

    end: int
    parts: tuple[BlockRange, ...]
    last: BlockRange | None


class BlockNames:
    """The blocks of `unit` tokens that end in each piece, by the node behind it; 0 is the root."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self._named: dict[int, NamedNode] = {0: NamedNode(0, (), None)}
        self._next = 0

    def __getitem__(self, node: int) -> NamedNode:
        return self._named[node]

    def forget(self, nodes: Iterable[int]) -> None:
        """Take the names from nodes of which no block was held yet."""
        for node in nodes:
            self._named.pop(node, None)

    def add(self, node: int, before: int, tokens: int, like: int = 0, common: int = 0) -> None:
        """Name the blocks of a piece between two nodes, if they have no names; tokens below 0 count as none.

        The first `common` tokens are those of the piece before the node `like`, in the same place.
        """
        if node in self._named:
            return
        begin = self._named[before].end
        end = begin + max(0, tokens)
        rest = end // self.unit - begin // self.unit
        parts: list[BlockRange] = []
        shared = min(rest, (begin + common) // self.unit - begin // self.unit)
        for part in self._named[like].parts if like in self._named else ():
            size = min(part.end - part.begin, shared)
            if size <= 0:
                break
            parts.append(part._replace(end=part.begin + size))
            shared, rest = shared - size, rest - size
        if rest:
            parts.append(BlockRange(Stretch(self._next), 0, rest))
            self._next += rest
        self._named[node] = NamedNode(end, tuple(parts), parts[-1] if parts else self._named[before].last)


class ServedRequest:
    """A request that is served: the parts of its blocks, of which the first `done` are found or computed."""

    __slots__ = ("_rest", "done")

    def __init__(self, parts: Iterable[BlockRange], done: int) -> None:
        self._rest = list(parts)[::-1]
        self.done = done

    def take(self, until: int) -> Iterator[BlockRange]:
        """Go on to the block number `until`, and yield what lies between."""
        while self.done < until and self._rest:
            stretch, begin, end = self._rest.pop()
            cut = min(end, begin + until - self.done)
            if cut < end:
                self._rest.append(BlockRange(stretch, cut, end))
            self.done += cut - begin
            yield BlockRange(stretch, begin, cut)


class HeldBlocks(NamedTuple):
    """What of a path is held: the first `place` pieces whole, and so many `blocks` in all.

    `seen`: the blocks that some layers hold, where others hold less of them.
    """

    place: int
    blocks: int
    seen: int = 0


class Residence:
    """A memory without end: what was computed once is held."""

    def __init__(self, names: BlockNames) -> None:
        self.names = names

    def find(self, nodes: Sequence[int]) -> HeldBlocks:
        """Return what is held of the path of these nodes."""

        def lacks(node: int) -> bool:
            last = self.names[node].last
            return last is not None and last.stretch.held < last.end

        place = bisect_left(nodes, 1, key=lacks)
        blocks = self.names[nodes[place - 1] if place else 0].end // self.names.unit
        for stretch, begin, end in self.names[nodes[place]].parts if place < len(nodes) else ():
            blocks += max(0, min(end, stretch.held) - begin)
        return HeldBlocks(place, blocks)

    def resume(self, nodes: Sequence[int], found: HeldBlocks) -> HeldBlocks:
        """Return what of that which was found all layers can resume at."""
        return found

    def begin(self, nodes: Sequence[int], found: HeldBlocks, output: Sequence[int]) -> ServedRequest:
        """Serve a request that reads what was found; `output` are the nodes behind it of what it will generate."""
        before = self.names[nodes[found.place - 1] if found.place else 0]
        rest = chain(nodes[found.place :], output)
        return ServedRequest((part for node in rest for part in self.names[node].parts), before.end // self.names.unit)

    def fits(self, served: ServedRequest, tokens: int) -> bool:
        """Tell whether there is room for so many tokens of a request."""
        return True

    def steps(self, served: ServedRequest, since: int, until: int) -> Iterable[int]:
        """Return the numbers of tokens, up to `until`, at which a request that has `since` needs or fills a block."""
        return (until,)

    def compute(self, served: ServedRequest, tokens: int) -> None:
        """Hold the blocks that the first so many tokens of a request fill."""
        for stretch, _, end in served.take(tokens // self.names.unit):
            stretch.held = max(stretch.held, end)

    def end(self, served: ServedRequest) -> None:
        """Serve a request no longer."""


class Bounded(Residence):
    """A memory of `capacity` blocks: which are held is known block by block."""

    def __init__(self, names: BlockNames, capacity: int) -> None:
        super().__init__(names)
        self.capacity = capacity

    def holds(self, block: int) -> bool:
        """Tell whether a block is held."""
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
    """The chunks that LMCache keeps in main memory, `capacity` of them."""

    def __init__(self, names: BlockNames, capacity: int) -> None:
        super().__init__(names, capacity)
        self._held: OrderedDict[int, None] = OrderedDict()  # the least recently used first

    def holds(self, block: int) -> bool:
        return block in self._held

    def begin(self, nodes: Sequence[int], found: HeldBlocks, output: Sequence[int]) -> ServedRequest:
        served = super().begin(nodes, HeldBlocks(0, 0), output)
        for block in reversed([block for part in served.take(found.blocks) for block in part.blocks]):
            self._held.move_to_end(block)
        return served

    def compute(self, served: ServedRequest, tokens: int) -> None:
        """Make room for the chunks of the first so many tokens, as far as there is any, then put them in."""
        fresh = [block for part in served.take(tokens // self.names.unit) for block in part.blocks[: self.capacity]]
        fresh = fresh[: self.capacity]
        for _ in range(len(self._held) + len(fresh) - self.capacity):
            self._held.popitem(last=False)
        for block in fresh:
            self._held.setdefault(block)


# vLLM's memory


class LayerGroups(NamedTuple):
    """The layers of a model: `full` groups attend to all tokens, `groups` to the last `window` of them.

    `states`: the latter have a state, that of the last token, in place of a window (`window` is 2). `retention` is in
    tokens.
    """

    full: int = 1
    groups: int = 0
    window: int = 2
    states: bool = False
    retention: int = 0

    def skipped(self, group: int, tokens: int, unit: int) -> int:
        """Return how many leading blocks a group does not need any more when so many tokens are computed."""
        return 0 if group < self.full else max(0, tokens - self.window + 1) // unit


_ALL = LayerGroups()


class PooledRequest(ServedRequest):
    """A request that uses places: by group those of its blocks, None for what the group does not need."""

    __slots__ = ("blocks", "computed", "edges", "places", "prompt", "skipped")

    def __init__(self, parts: Iterable[BlockRange], prompt: int, edges: tuple[int, ...], groups: int) -> None:
        super().__init__(parts, 0)
        self.blocks: list[int] = []  # the names of those that are found or computed
        self.places: list[list[int | None]] = [[] for _ in range(groups)]
        self.skipped = [0] * groups
        self.prompt, self.computed = prompt, 0  # tokens
        self.edges = edges  # blocks up to which a later prompt can resume

    def name(self, until: int) -> None:
        """Go on to the block number `until`."""
        for part in self.take(until):
            self.blocks += part.blocks


class BlockPool(Bounded):
    """Places for a block each, `capacity` of them."""

    def __init__(self, names: BlockNames, capacity: int, layers: LayerGroups = _ALL) -> None:
        super().__init__(names, capacity)
        self._layers = layers
        self._groups = range(layers.full + layers.groups)
        self._run = -(-(layers.window - 1) // names.unit)  # blocks of a window
        self._empty = capacity
        self._numbers = count()  # a place has a new number with each block that it takes
        self._idle: OrderedDict[int, int] = OrderedDict()  # the block in each place that nobody uses, oldest first
        self._used: dict[int, int] = {}  # by place, how many use it
        self._copies: dict[int, dict[int, None]] = {}  # by block of a group, the places that hold it, oldest first
        self._blocks: dict[int, int] = {}  # what stands in a place

    def holds(self, block: int) -> bool:
        """Tell whether all groups that attend to all tokens hold a block."""
        return self._all_hold(block, self._groups[: self._layers.full])

    def resume(self, nodes: Sequence[int], found: HeldBlocks) -> HeldBlocks:
        """Return what of that which was found all layers can resume at: where the others have all of their window."""
        others = self._groups[self._layers.full :]
        if not others or not found.blocks:
            return found
        blocks = [block for node in nodes for part in self.names[node].parts for block in part.blocks]
        run = 0
        for number in range(found.blocks - 1, -1, -1):
            run = run + 1 if self._all_hold(blocks[number], others) else 0
            if run and run >= self._run:
                run += number
                break
        if run == found.blocks:
            return found
        place = bisect_right(nodes, run * self.names.unit, key=lambda node: self.names[node].end)
        return HeldBlocks(place, run, found.blocks if self._layers.full else 0)

    def begin(self, nodes: Sequence[int], found: HeldBlocks, output: Sequence[int]) -> PooledRequest:
        unit, prompt = self.names.unit, self.names[nodes[-1]].end
        parts = (part for node in chain(nodes, output) for part in self.names[node].parts)
        served = PooledRequest(parts, prompt, (found.seen, (prompt - 1) // unit), len(self._groups))
        served.name(found.blocks)
        served.computed = found.blocks * unit
        for group in self._groups:
            first = served.skipped[group] = self._layers.skipped(group, served.computed, unit)
            served.places[group] += [None] * first
            for block in served.blocks[first:]:
                place = next(iter(self._copies[self._key(group, block)]))
                self._idle.pop(place, None)
                self._used[place] = self._used.get(place, 0) + 1
                served.places[group].append(place)
        return served

    def fits(self, served: ServedRequest, tokens: int) -> bool:
        assert isinstance(served, PooledRequest)
        blocks, chunks = -(-tokens // self.names.unit), min(2, len(self._chunks(served, tokens)))
        needed = 0
        for group, places in enumerate(served.places):
            if not self._layers.states or group < self._layers.full:
                needed += max(0, blocks - len(places))
            else:  # a place for each end of a chunk; before the second one that of what was found is given back
                found = places[-1] if places else None
                needed += chunks - (chunks == 2 and found is not None and self._used[found] == 1)
        return min(needed, self.capacity) <= self._empty + len(self._idle)

    def steps(self, served: ServedRequest, since: int, until: int) -> Iterable[int]:
        """Return the tokens, up to `until`, at which a request that has `since` needs, fills or gives back a block."""
        unit = self.names.unit
        edges = set(range(since // unit * unit, until + 1, unit))
        edges |= {edge + 1 for edge in edges}
        if self._layers.groups:  # what is behind a window goes with the next token
            edges |= {since + 1, *range(since + 1 + (self._layers.window - since - 1) % unit, until + 1, unit)}
        return sorted(edge for edge in edges if since < edge <= until)

    def compute(self, served: ServedRequest, tokens: int) -> None:
        """Take places for the first so many tokens of a request, as far as there are, and fill them.

        What is generated has to be computed step by step.
        """
        assert isinstance(served, PooledRequest)
        if served.computed >= served.prompt:
            self._compute(served, tokens - 1, tokens)
            return
        for end in self._chunks(served, tokens):
            self._compute(served, served.computed, end)

    def end(self, served: ServedRequest) -> None:
        """Give a request's places back, the last one of each group first."""
        assert isinstance(served, PooledRequest)
        for group in self._groups:
            self._give_back(served, group, len(served.places[group]))

    def _chunks(self, served: PooledRequest, tokens: int) -> list[int]:
        """Return where the chunks end in which a prompt is computed: a state is kept where one ends."""
        edges = {edge * self.names.unit for edge in served.edges} if self._layers.states else set[int]()
        return [*sorted(edge for edge in edges if served.computed < edge < tokens), tokens]

    def _compute(self, served: PooledRequest, before: int, tokens: int) -> None:
        """Go on from `before` tokens."""
        unit = self.names.unit
        for group in self._groups:
            self._give_back(served, group, self._layers.skipped(group, before, unit))
        needed = -(-tokens // unit)
        for group, places in enumerate(served.places):
            if self._layers.states and group >= self._layers.full:
                places += [None] * (needed - 1 - len(places))
            while len(places) < needed and (self._empty or self._idle):
                places.append(self._take())
        first = served.done
        served.name(min(tokens // unit, *map(len, served.places)))
        for group, places in enumerate(served.places):
            for number in range(first, served.done):
                place = places[number]
                if place is not None and self._is_kept(served, group, number):
                    block = self._blocks[place] = self._key(group, served.blocks[number])
                    self._copies.setdefault(block, {})[place] = None
        served.computed = tokens

    def _is_kept(self, served: PooledRequest, group: int, number: int) -> bool:
        """Tell whether a block of a request can be found again."""
        if group < self._layers.full:
            return True
        every = self._layers.retention // self.names.unit
        if every and (self._run >= every or number % every >= every - self._run):
            return True
        return any(edge - self._run <= number < edge for edge in served.edges)

    def _give_back(self, served: PooledRequest, group: int, until: int) -> None:
        places = served.places[group]
        for number in range(min(until, len(places)) - 1, served.skipped[group] - 1, -1):
            place, places[number] = places[number], None
            if place is None:
                continue
            self._used[place] -= 1
            if self._used[place]:
                continue
            del self._used[place]
            if place in self._blocks:
                self._idle[place] = self._blocks[place]
            else:
                self._empty += 1
        served.skipped[group] = max(served.skipped[group], until)

    def _take(self) -> int:
        if self._empty:
            self._empty -= 1
        else:
            old, block = self._idle.popitem(last=False)
            del self._blocks[old], self._copies[block][old]
            if not self._copies[block]:
                del self._copies[block]
        place = next(self._numbers)
        self._used[place] = 1
        return place

    def _key(self, group: int, block: int) -> int:
        return block * len(self._groups) + group

    def _all_hold(self, block: int, groups: Iterable[int]) -> bool:
        return all(self._key(group, block) in self._copies for group in groups)
