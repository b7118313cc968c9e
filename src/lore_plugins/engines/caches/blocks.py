"""Models of caches that hold blocks of tokens: vLLM (full blocks of 16) and LMCache (chunks of 256).

A request reads the full blocks at its beginning that memory still holds. Its blocks are kept, and with `outputs` those
of its output. A block can be read as soon as it is full, so concurrent requests share it. The last generated token is
never computed. A prediction is exact if every piece has an exact token count; a common prefix that ends inside a piece
is counted by its bytes, and a block in which it ends is not read. Two images share nothing.

A request with a known end (`Request.ended`) runs until then: its output is computed evenly between the start of its
response and its end, and with a `capacity` its blocks cannot be evicted meanwhile. If the next request does not fit, it
waits for those that end first. A request without a known end runs in no time. Memory and eviction: `residence.py`.

Sources: vLLM 0.32, v1/core (at least the last token is computed; a cache salt is part of the first block, an adapter
and images of all blocks that they touch), LMCache 0.5.6 (partial chunks are not saved, output only with
`save_decode_cache`). tests/plugins/engines/oracle compares both with the engines on generated sequences.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar

from lore.cache import UNKNOWN, CacheRow, Prediction, Request, RuleLookup, TreePath
from lore.errors import LoreError
from lore.model import Usage
from lore_plugins.engines import LMCACHE, VLLM
from lore_plugins.engines.caches.measured import EngineCache
from lore_plugins.engines.caches.residence import (
    BlockNames,
    BlockPool,
    Chunks,
    HeldBlocks,
    LayerGroups,
    Residence,
    ServedRequest,
)

_UNLIMITED = 1 << 60  # blocks


class Vllm(EngineCache):
    """vLLM's cache of `capacity` blocks; None: unlimited.

    A model may have `full` groups of layers that attend to all tokens (default 1), and `groups` (default 1) that attend
    to a `window` of tokens or, with `states`, keep a state. Windows and states are kept before the end of a prompt,
    before the place where prompts diverged, and before each multiple of `retention` tokens. `hybrid` means layers of
    another kind, which cannot resume at every block: the prediction is then an upper limit.
    """

    row: ClassVar[CacheRow] = VLLM
    unit: ClassVar[int] = 16  # tokens of a block, unless the first option or a rule (`block_tokens`) sets them
    recomputed: ClassVar[int] = 1  # tokens at the end of a request that are always computed
    outputs: ClassVar[bool] = True  # whether output is kept, unless the option `decoded` is set
    chunks: ClassVar[bool] = False  # whether limited memory works as LMCache's, not as vLLM's

    def __init__(
        self, find_rule: RuleLookup, *, capacity: int | None = None, hybrid: bool = False, decoded: bool | None = None,
        states: bool = False, **options: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        size = options.pop(self.row.options[0], None)
        unit = size if size is not None else int(find_rule("block_tokens", None, None) or self.unit)
        if unit < 1 or (capacity is not None and capacity < 0):
            raise self._option_error("a block holds at least 1 token, and memory at least 0 blocks")
        self._names = BlockNames(unit)
        layers = self._layers(unit, states=states, **options)
        if self.chunks and capacity is not None:
            self._memory = Chunks(self._names, capacity)
        elif capacity is not None or layers.groups:
            self._memory = BlockPool(self._names, _UNLIMITED if capacity is None else capacity, layers)
        else:
            self._memory = Residence(self._names)
        self._running: list[ServedRequest] = []  # in order of arrival
        self._unstarted: tuple[Request, TreePath] | None = None
        self._hybrid = hybrid
        self._outputs = self.outputs if decoded is None else decoded

    def _layers(
        self, unit: int, *, states: bool, window: int | None = None, groups: int | None = None,
        full: int | None = None, retention: int | None = None,
    ) -> LayerGroups:  # fmt: skip
        """Return the layer groups of a model. Raise LoreError for options that do not fit together."""
        if window is None and not states:
            if groups is not None or retention:
                raise self._option_error("groups and retention need layers with a window or states")
            other_groups = 0
        elif window is not None and states:
            raise self._option_error("a model with windows and states is not supported")
        else:
            other_groups = 1 if groups is None else groups
            if other_groups < 1 or (window is not None and window < 1):
                message = "a window has at least 1 token, and there is at least 1 group of such layers"
                raise self._option_error(message)
        full_groups, retention_tokens = 1 if full is None else full, retention or 0
        if full_groups < 0 or not full_groups + other_groups or retention_tokens < 0 or retention_tokens % unit:
            raise self._option_error("full is at least 0 (1 without other layers), retention a multiple of the block")
        return LayerGroups(full_groups, other_groups, 2 if window is None else window, states, retention_tokens)

    def _option_error(self, text: str) -> LoreError:
        name, options = self.row.name, ", ".join(self.row.options)
        return LoreError(f"{name}: {text}", hint=f"options of {name}: {options}")

    def predict(self, request: Request) -> Prediction:
        """Predict the read tokens; the request's blocks are kept once its usage has corrected their sizes."""
        self._start_pending()
        path = self._lay(request)
        if not request.pieces:
            return UNKNOWN
        self._serve_until(inf if request.at is None else request.at)
        self._unstarted = request, path
        self._name_blocks(request, path)
        hit, read = self._find_readable(request, path)
        reason = "blocks in memory" if read else "no block in memory"
        if hit.full_blocks:
            reason = "blocks that every layer holds" if read else "no block that every layer holds"
        is_exact = self._is_exact(request, path)
        confidence = "ceiling" if self._hybrid else "exact" if is_exact else "rule"
        return self._predicted(request, read, confidence, reason)

    def learn(self, usage: Usage | None) -> str:
        """Learn from a response's usage, then keep the request's blocks at the sizes that it implies."""
        doubt = super().learn(usage)
        if self._unstarted is not None and usage is not None and not doubt:
            request, path = self._unstarted
            self._names.forget(path.nodes[path.new :])
            self._name_blocks(request, path)
        self._start_pending()
        return doubt

    def _start_pending(self) -> None:
        """Start the request that was predicted last."""
        if self._unstarted is not None:
            (request, path), self._unstarted = self._unstarted, None
            self._begin(request, path, self._find_readable(request, path)[0])

    def _find_readable(self, request: Request, path: TreePath) -> tuple[HeldBlocks, int]:
        """Return the held blocks at which all layers can resume, and the tokens that the request reads."""
        hit, unit = self._memory.find(path.nodes), self._names.unit
        held_tokens = min(self._held_tokens(request, path, hit), self._total(request) - self.recomputed)
        read = max(0, held_tokens // unit * unit)
        hit = hit._replace(blocks=min(hit.blocks, read // unit))
        resumable = self._memory.resume(path.nodes, hit)
        if resumable.blocks < hit.blocks:
            read = min(read, self._held_tokens(request, path, resumable) // unit * unit)
        return resumable, read

    def _name_blocks(self, request: Request, path: TreePath) -> None:
        """Name the blocks of pieces that the chain's previous request did not have."""
        common = 0
        if path.new < len(request.pieces):
            common = max(0, self._find_similar_end(request, path) - self._ruler.position(path.new - 1))
        begin = self._ruler.position(path.same - 1)
        for place in range(path.same, len(request.pieces)):
            end = self._ruler.position(place)
            similar = (path.similar_node, common) if place == path.new else (0, 0)
            self._names.add(path.nodes[place], path.nodes[place - 1] if place else 0, end - begin, *similar)
            begin = end

    def _held_tokens(self, request: Request, path: TreePath, hit: HeldBlocks) -> int:
        """Return the tokens that memory holds of a request, at the current counts."""
        place = hit.place
        position = self._ruler.position(place - 1)
        if place >= len(request.pieces):
            return position
        end = self._find_similar_end(request, path) if place == path.new else self._ruler.position(place)
        position_in_piece = hit.blocks * self._names.unit - self._names[path.nodes[place - 1] if place else 0].end
        return position + max(0, min(position_in_piece, end - position))

    def _begin(self, request: Request, path: TreePath, hit: HeldBlocks) -> None:
        """Start a request: wait until it fits, then compute its prompt."""
        nodes, output = self._name_output(request, path.nodes[-1]) if self._outputs else ([], 0)
        served = self._memory.begin(path.nodes, hit, nodes)
        while self._running and not self._memory.fits(served):
            next_end = min(running.ended for running in self._running)
            for running in [running for running in self._running if running.ended == next_end]:
                self._end(running)
        self._memory.compute(served, served.prompt)
        served.output = output
        begin = request.at if request.answered is None else request.answered
        if begin is not None and request.ended is not None:
            served.begin, served.ended = begin, request.ended
        self._running.append(served)
        if served.ended <= (request.at or 0.0):
            self._end(served)

    def _name_output(self, request: Request, last: int) -> tuple[list[int], int]:
        """Name the blocks of the output after a node; return its nodes and its size in tokens."""
        path, tokens = self._tree.generated(request), 0
        for place, piece in enumerate(request.output):
            size = round(self._ruler.size(piece))
            common = size * path.common_bytes // max(1, len(piece.data))
            similar = (path.similar_node, common) if place == path.new else (0, 0)
            self._names.add(path.nodes[place], last, size, *similar)
            last, tokens = path.nodes[place], tokens + size
        return path.nodes, tokens

    def _serve_until(self, at: float) -> None:
        """Advance running requests to a time, block by block in the order in which they need them."""
        steps: list[tuple[float, int, int, ServedRequest]] = []
        for number, served in enumerate(self._running):
            steps += [
                (served.time(tokens), number, tokens, served)
                for tokens in self._memory.steps(served, served.reached(at))
            ]
            if served.ended <= at:
                steps.append((served.ended, -1, number, served))
        for _, number, tokens, served in sorted(steps, key=lambda step: step[:3]):
            if number < 0:
                self._end(served)
            else:
                self._memory.compute(served, tokens)

    def _end(self, served: ServedRequest) -> None:
        for tokens in self._memory.steps(served, served.reached(inf)):
            self._memory.compute(served, tokens)
        self._memory.end(served)
        self._running.remove(served)


class Lmcache(Vllm):
    """LMCache, which keeps no output, and reports the chunks that it found."""

    row, unit, recomputed, outputs, chunks = LMCACHE, 256, 0, False, True
