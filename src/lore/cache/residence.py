"""What an engine's memory holds of blocks: names of blocks, and which are held while requests begin, go on and end.

In: nodes of paths with the tokens behind them. Out: how many leading blocks are held. Rules: a block is what stands up
to its end, so equal prefixes have the same blocks; it belongs to the piece in which it ends; what two pieces have in
common at their beginning is the same blocks. Without a capacity what was computed once is held. With one every read is
the engine's, block by block; vLLM's memory is in `pool.py`.

LMCache's `Chunks` are one list, the least recently used first. What a request finds is used, its first chunk last. What
it does not find is put behind that, its first chunk first, after room was made for all of it: so of a prompt that was
stored and not asked for again the first chunk goes first, and what is left of it is not found.

Cost without a capacity: O(log pieces) for a look-up and O(pieces that are not held) for the rest; with one O(blocks of
the request, at most `capacity`).

Source: LMCache 0.5.6, v1/cache_engine.py and v1/storage_backend/local_cpu_backend.py; compared in tests/oracle/engines
on 2026-11-23.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple


class Stretch:
    """Blocks that follow one another: numbers from `first` on; the first `held` are held, where there is no pool."""

    __slots__ = ("first", "held")

    def __init__(self, first: int) -> None:
        self.first, self.held = first, 0


class Part(NamedTuple):
    """The blocks of a stretch from the one at `begin` to before the one at `end`."""

    stretch: Stretch
    begin: int
    end: int

    @property
    def blocks(self) -> range:
        """The numbers of its blocks."""
        return range(self.stretch.first + self.begin, self.stretch.first + self.end)


class Named(NamedTuple):
    """A node: the position of its end in tokens, its blocks, and the last part on the way to it."""

    end: int
    parts: tuple[Part, ...]
    last: Part | None


class Names:
    """The blocks of `unit` tokens that end in each piece, by the node behind it; 0 is the root."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self._named: dict[int, Named] = {0: Named(0, (), None)}
        self._next = 0

    def __getitem__(self, node: int) -> Named:
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
        parts: list[Part] = []
        shared = min(rest, (begin + common) // self.unit - begin // self.unit)
        for part in self._named[like].parts if like in self._named else ():
            size = min(part.end - part.begin, shared)
            if size <= 0:
                break
            parts.append(part._replace(end=part.begin + size))
            shared, rest = shared - size, rest - size
        if rest:
            parts.append(Part(Stretch(self._next), 0, rest))
            self._next += rest
        self._named[node] = Named(end, tuple(parts), parts[-1] if parts else self._named[before].last)


class Served:
    """A request that is served: the parts of its blocks, of which the first `done` are found or computed."""

    __slots__ = ("_rest", "done")

    def __init__(self, parts: Iterable[Part], done: int) -> None:
        self._rest = list(parts)[::-1]
        self.done = done

    def take(self, until: int) -> Iterator[Part]:
        """Go on to the block number `until`, and yield what lies between."""
        while self.done < until and self._rest:
            stretch, begin, end = self._rest.pop()
            cut = min(end, begin + until - self.done)
            if cut < end:
                self._rest.append(Part(stretch, cut, end))
            self.done += cut - begin
            yield Part(stretch, begin, cut)


class Found(NamedTuple):
    """What of a path is held: the first `place` pieces whole, and so many `blocks` in all.

    `seen`: the blocks that some layers hold, where others hold less of them.
    """

    place: int
    blocks: int
    seen: int = 0


class Residence:
    """A memory without end: what was computed once is held."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def find(self, nodes: Sequence[int]) -> Found:
        """Return what is held of the path of these nodes."""
        place = bisect_left(range(len(nodes)), 1, key=lambda at: not self._is_whole(nodes[at]))
        blocks = self.names[nodes[place - 1] if place else 0].end // self.names.unit
        for stretch, begin, end in self.names[nodes[place]].parts if place < len(nodes) else ():
            blocks += max(0, min(end, stretch.held) - begin)
        return Found(place, blocks)

    def resume(self, nodes: Sequence[int], found: Found) -> Found:
        """Return what of that which was found all layers can resume at."""
        return found

    def begin(self, nodes: Sequence[int], found: Found, output: Sequence[int]) -> Served:
        """Serve a request that reads what was found; `output` are the nodes behind it of what it will generate."""
        before = self.names[nodes[found.place - 1] if found.place else 0]
        rest = chain(nodes[found.place :], output)
        return Served((part for node in rest for part in self.names[node].parts), before.end // self.names.unit)

    def fits(self, served: Served, tokens: int) -> bool:
        """Tell whether there is room for so many tokens of a request."""
        return True

    def steps(self, served: Served, since: int, until: int) -> Iterable[int]:
        """Return the numbers of tokens, up to `until`, at which a request that has `since` needs or fills a block."""
        return (until,)

    def compute(self, served: Served, tokens: int) -> None:
        """Hold the blocks that the first so many tokens of a request fill."""
        for stretch, _, end in served.take(tokens // self.names.unit):
            stretch.held = max(stretch.held, end)

    def end(self, served: Served) -> None:
        """Serve a request no longer."""

    def _is_whole(self, node: int) -> bool:
        last = self.names[node].last
        return last is None or last.stretch.held >= last.end


class Bounded(Residence):
    """A memory of `capacity` blocks: which are held is known block by block."""

    def __init__(self, names: Names, capacity: int) -> None:
        super().__init__(names)
        self.capacity = capacity

    def holds(self, block: int) -> bool:
        """Tell whether a block is held."""
        raise NotImplementedError

    def find(self, nodes: Sequence[int]) -> Found:
        """Return what is held of the path of these nodes."""
        blocks = 0
        for place, node in enumerate(nodes):
            for part in self.names[node].parts:
                for block in part.blocks:
                    if not self.holds(block):
                        return Found(place, blocks)
                    blocks += 1
        return Found(len(nodes), blocks)


class Chunks(Bounded):
    """The chunks that LMCache keeps in main memory, `capacity` of them."""

    def __init__(self, names: Names, capacity: int) -> None:
        super().__init__(names, capacity)
        self._held: OrderedDict[int, None] = OrderedDict()  # the least recently used first

    def holds(self, block: int) -> bool:
        """Tell whether a chunk is held."""
        return block in self._held

    def begin(self, nodes: Sequence[int], found: Found, output: Sequence[int]) -> Served:
        """Serve a request that reads what was found."""
        served = super().begin(nodes, Found(0, 0), output)
        for block in reversed([block for part in served.take(found.blocks) for block in part.blocks]):
            self._held.move_to_end(block)
        return served

    def compute(self, served: Served, tokens: int) -> None:
        """Make room for the chunks of the first so many tokens, as far as there is any, then put them in."""
        fresh = [block for part in served.take(tokens // self.names.unit) for block in part.blocks[: self.capacity]]
        fresh = fresh[: self.capacity]
        for _ in range(len(self._held) + len(fresh) - self.capacity):
            self._held.popitem(last=False)
        for block in fresh:
            self._held.setdefault(block)
