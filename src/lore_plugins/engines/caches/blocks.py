"""Engines that keep blocks of tokens: vLLM (full blocks of 16), LMCache (chunks of 256).

In: requests, what was billed for them. Out: predictions. Rules: the whole blocks that a request begins with are read,
as far as memory still holds them; those of the request, and with `outputs` those of what was generated, are kept. A
block can be read as soon as it is full, so requests at the same time share it. The last token that is generated is
never computed on. Where every piece has its exact count the prediction is exact; a common beginning inside a piece
counts by its bytes, and where it ends inside a block that block is not read. An image shares nothing with another.

A request whose end is known (`Request.ended`) is served until then: what it generates is computed evenly between the
beginning of its response and its end, and with a `capacity` what it uses cannot be thrown away. Where there is no room
for the next one, that one waits for those that end first. A request of which no end is known is served at once.
What memory holds and throws away: `residence.py`.

Sources: vLLM 0.32, v1/core (at least the last token is computed; a cache salt enters the first block, an adapter and
images all that they touch), LMCache 0.5.6 (chunks that are not full are not saved, what was generated only with
`save_decode_cache`), both compared on generated sequences in tests/plugins/engines/oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from lore.cache import UNKNOWN, Look, MeasuredCache, Prediction, Request, TreePath
from lore.errors import LoreError
from lore.model import Usage
from lore_plugins.engines import LMCACHE, VLLM
from lore_plugins.engines.caches.residence import (
    BlockNames,
    BlockPool,
    Chunks,
    HeldBlocks,
    LayerGroups,
    Residence,
    ServedRequest,
)

_ENDLESS = 1 << 60  # blocks


class Engine(NamedTuple):
    """How an engine keeps blocks: `unit` tokens each, where neither the first option nor a rule (`block_tokens`) says.

    `recomputed` tokens at the end of a request are computed whatever is held; of a prompt that LMCache holds whole,
    what is said is what is found in chunks. `outputs`: what was generated is kept, where `decoded` does not say.
    `chunks`: a memory with a capacity is LMCache's, not vLLM's.
    """

    name: str
    unit: int
    options: tuple[str, ...]
    recomputed: int = 1
    outputs: bool = True
    chunks: bool = False


class Blocks(MeasuredCache):
    """A memory of `capacity` blocks; None: without end.

    A model may have `groups` of layers (1 where nothing is said) that attend to a `window` of tokens, or, with
    `states`, keep a state, beside `full` groups (1) that attend to all tokens. Of these is kept what stands before the
    end of a prompt and where prompts were seen to part, and before each multiple of `retention` tokens. `hybrid` says
    that it has layers of another kind, whose state cannot be resumed at any block: it reads nothing, or less.
    """

    def __init__(
        self, look: Look, engine: Engine, *, capacity: int | None = None, hybrid: bool = False,
        decoded: bool | None = None, states: bool = False, **options: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        size = options.pop(engine.options[0], None)
        unit = size if size is not None else int(look("block_tokens", None, None) or engine.unit)
        if unit < 1 or (capacity is not None and capacity < 0):
            raise _fault(engine, "a block holds at least 1 token, and memory at least 0 blocks")
        self._names = BlockNames(unit)
        layers = _layers(engine, unit, states=states, **options)
        if engine.chunks and capacity is not None:
            self._memory = Chunks(self._names, capacity)
        elif capacity is not None or layers.groups:
            self._memory = BlockPool(self._names, _ENDLESS if capacity is None else capacity, layers)
        else:
            self._memory = Residence(self._names)
        self._running: list[_Running] = []  # in the order in which they were asked
        self._unserved: tuple[Request, TreePath] | None = None
        self._recomputed = engine.recomputed
        self._hybrid = hybrid
        self._outputs = engine.outputs if decoded is None else decoded

    def predict(self, request: Request) -> Prediction:
        """Say which blocks would be read; they are kept once the bill has said where they end."""
        self._serve()
        path = self._lay(request)
        if not request.pieces:
            return UNKNOWN
        self._serve_until(inf if request.at is None else request.at)
        self._unserved = request, path
        self._name(request, path)
        found, read = self._found(request, path)
        reason = "blocks that are held" if read else "no block is held"
        if found.seen:
            reason = "blocks that every layer holds" if read else "some layers hold nothing of what others do"
        counted = self._counted(request, path)
        confidence = "ceiling" if self._hybrid else "exact" if counted else "rule"
        return self._predicted(request, read, confidence, reason)

    def learn(self, usage: Usage | None) -> str:
        """Take a bill, then keep the request's blocks where that says that they are."""
        odd = super().learn(usage)
        if self._unserved is not None and usage is not None and not odd:
            request, path = self._unserved
            self._names.forget(path.nodes[path.new :])
            self._name(request, path)
        self._serve()
        return odd

    def _serve(self) -> None:
        """Serve the request that was predicted last as far as its answer."""
        if self._unserved is not None:
            (request, path), self._unserved = self._unserved, None
            self._begin(request, path, self._found(request, path)[0])

    def _found(self, request: Request, path: TreePath) -> tuple[HeldBlocks, int]:
        """Return what is held of a request that all layers can resume at, and the tokens of it that are read."""
        found, unit = self._memory.find(path.nodes), self._names.unit
        held = min(self._held(request, path, found), self._total(request) - self._recomputed)
        read = max(0, held // unit * unit)
        found = found._replace(blocks=min(found.blocks, read // unit))
        resumed = self._memory.resume(path.nodes, found)
        if resumed.blocks < found.blocks:
            read = min(read, self._held(request, path, resumed) // unit * unit)
        return resumed, read

    def _name(self, request: Request, path: TreePath) -> None:
        """Name the blocks of the pieces that the chain's path before did not have."""
        common = 0
        if path.new < len(request.pieces):
            common = max(0, self._begun(request, path) - self._ruler.position(path.new - 1))
        before = self._ruler.position(path.kept - 1)
        for place in range(path.kept, len(request.pieces)):
            after = self._ruler.position(place)
            alike = (path.like, common) if place == path.new else (0, 0)
            self._names.add(path.nodes[place], path.nodes[place - 1] if place else 0, after - before, *alike)
            before = after

    def _held(self, request: Request, path: TreePath, found: HeldBlocks) -> int:
        """Return the tokens that are held of a request, as they are counted now."""
        place = found.place
        position = self._ruler.position(place - 1)
        if place >= len(request.pieces):
            return position
        end = self._begun(request, path) if place == path.new else self._ruler.position(place)
        within = found.blocks * self._names.unit - self._names[path.nodes[place - 1] if place else 0].end
        return position + max(0, min(within, end - position))

    def _begin(self, request: Request, path: TreePath, found: HeldBlocks) -> None:
        """Serve a request as far as its answer."""
        prompt = self._names[path.nodes[-1]].end
        nodes, tokens = self._generated(request, path.nodes[-1]) if self._outputs else ([], 0)
        served = self._memory.begin(path.nodes, found, nodes)
        while self._running and not self._memory.fits(served, prompt):
            first = min(running.ended for running in self._running)
            for running in [running for running in self._running if running.ended == first]:
                self._end(running)
        self._memory.compute(served, prompt)
        begin = request.at if request.answered is None else request.answered
        ended = request.ended if begin is not None and request.ended is not None else -inf
        running = _Running(served, prompt, tokens, begin or 0.0, ended, computed=prompt)
        self._running.append(running)
        if ended <= (request.at or 0.0):
            self._end(running)

    def _generated(self, request: Request, last: int) -> tuple[list[int], int]:
        """Name the blocks of what is generated behind a node; return the nodes, and how many tokens it is."""
        path, tokens = self._tree.generated(request), 0
        for place, piece in enumerate(request.output):
            size = round(self._ruler.size(piece))
            alike = (path.like, size * path.alike // max(1, len(piece.data))) if place == path.new else (0, 0)
            self._names.add(path.nodes[place], last, size, *alike)
            last, tokens = path.nodes[place], tokens + size
        return path.nodes, tokens

    def _serve_until(self, at: float) -> None:
        """Let requests that are served go on, block by block in the order in which they need them."""
        steps: list[tuple[float, int, int, _Running]] = []
        for number, running in enumerate(self._running):
            counts = self._memory.steps(running.served, running.computed, running.reached(at))
            steps += [(running.time(tokens), number, tokens, running) for tokens in counts]
            if running.ended <= at:
                steps.append((running.ended, -1, number, running))
        for _, number, tokens, running in sorted(steps, key=lambda step: step[:3]):
            if number < 0:
                self._end(running)
            else:
                running.computed = tokens
                self._memory.compute(running.served, tokens)

    def _end(self, running: _Running) -> None:
        whole = running.prompt + max(0, running.output - 1)
        for tokens in self._memory.steps(running.served, running.computed, whole):
            self._memory.compute(running.served, tokens)
        self._memory.end(running.served)
        self._running.remove(running)


def _layers(
    engine: Engine, unit: int, *, states: bool, window: int | None = None, groups: int | None = None,
    full: int | None = None, retention: int | None = None,
) -> LayerGroups:  # fmt: skip
    """Return the layers of a model; raises LoreError where there can be none like these."""
    if window is None and not states:
        if groups is not None or retention:
            raise _fault(engine, "groups and retention are of layers with a window or states")
        others = 0
    elif window is not None and states:
        raise _fault(engine, "layers with a window and with states in one model are not modelled")
    else:
        others = 1 if groups is None else groups
        if others < 1 or (window is not None and window < 1):
            raise _fault(engine, "a window has at least 1 token, and there is at least 1 group of such layers")
    whole, kept = 1 if full is None else full, retention or 0
    if whole < 0 or not whole + others or kept < 0 or kept % unit:
        raise _fault(engine, "full is at least 0 (1 without other layers), and retention a multiple of the block")
    return LayerGroups(whole, others, 2 if window is None else window, states, kept)


def _fault(engine: Engine, text: str) -> LoreError:
    return LoreError(f"{engine.name}: {text}", hint=f"options of {engine.name}: " + ", ".join(engine.options))


@dataclass(slots=True, eq=False)
class _Running:
    """A request that is served; `output` tokens are generated evenly from `begin` to `ended`."""

    served: ServedRequest
    prompt: int
    output: int
    begin: float
    ended: float
    computed: int

    def reached(self, at: float) -> int:
        """Return how many tokens are computed at a time; the last that is generated never is."""
        span = self.ended - self.begin
        made = self.output if span <= 0 or at >= self.ended else int((at - self.begin) * self.output / span)
        return self.prompt + max(0, min(made, self.output - 1))

    def time(self, tokens: int) -> float:
        """Return when so many tokens are computed."""
        return self.begin + (tokens - self.prompt) * (self.ended - self.begin) / max(1, self.output)


def vllm(look: Look, **options: Any) -> Blocks:
    """Return a model of vLLM's cache."""
    return Blocks(look, Engine("vllm", 16, VLLM.options), **options)


def lmcache(look: Look, **options: Any) -> Blocks:
    """Return a model of LMCache."""
    engine = Engine("lmcache", 256, LMCACHE.options, recomputed=0, outputs=False, chunks=True)
    return Blocks(look, engine, **options)
