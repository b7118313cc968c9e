"""A model of SGLang's cache: one radix tree, memory in pages, requests that hold pages while they run.

A request reads the whole pages that the tree holds of all its tokens but the last, and locks them while it runs. Its
prompt is published when its response begins, its output when it ends, without the last token, which is never computed;
the prompt is then a node of its own with a priority one higher, so that the output is evicted first. If memory is full,
unused pages are evicted: for a prompt the tokens it still needs and, with pages larger than 1, one page more; for a
step of decoding one page for each running request, needed or not. A request without times ends before the next one. A
request that memory cannot hold is not computed and leaves nothing.

Requests with different cache salts, `extra_key`s or LoRA adapters share nothing. A prediction is exact if all pieces
have exact token counts. Requests computed in one batch do not read each other, which `answered` shows.

Models whose layers do not all keep every token (sliding windows, states) read less: `layers.py`. A prompt longer than
`chunked_prefill` tokens is published chunk by chunk.

Not modelled: memory on the host (`--enable-hierarchical-cache`), sessions, speculative decoding, retracted requests,
the policy `tlru`, models with both windows and states.

Source: SGLang 0.5.23, `mem_cache/common.py`, `mem_cache/allocation.py`, `managers/schedule_batch.py`,
`managers/scheduler_components/batch_result_processor.py`, on 2026-11-23; tests/plugins/engines/oracle compares every
read.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count

from lore.cache import UNKNOWN, Prediction, Request, RuleLookup, TreePath
from lore.errors import LoreError
from lore_plugins.engines.caches.layers import PartialLayers, RunningRequest, StateLayers, WindowLayers
from lore_plugins.engines.caches.measured import EngineCache, RequestLayout
from lore_plugins.engines.caches.radix import Keys, RadixNode, RadixTree

_END, _ANSWER, _TOKEN = range(3)  # events at the same time happen in this order


class SGLang(EngineCache):
    """The cache of one server with `capacity` pages; None: unlimited.

    `chunked_prefill` is the number of prompt tokens computed at once (-1: all). `window` is the tokens of a model's
    sliding windows, `window_capacity` the pages of their memory. `states` means that the model has states instead: kept
    by `strategy`, at most `state_capacity`, at multiples of `state_chunk` and `state_interval` tokens. `hybrid` means
    other layers that do not keep every token: the prediction is then an upper limit.
    """

    def __init__(
        self, find_rule: RuleLookup, *, page_size: int | None = None, capacity: int | None = None, policy: str = "lru",
        tree: str = "unified", chunked_prefill: int | None = None, window: int | None = None,
        window_capacity: int | None = None, states: bool = False, strategy: str | None = None,
        state_capacity: int | None = None, state_chunk: int | None = None, state_interval: int | None = None,
        hybrid: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        page = page_size if page_size is not None else int(find_rule("block_tokens", None, None) or 1)
        if page < 1 or min(capacity or 0, window_capacity or 0) < 0:
            raise LoreError("sglang: a page holds at least 1 token, and memory at least 0 pages", hint="page_size=1")
        self._radix = RadixTree(page, policy, bounded=capacity is not None, cut_is_new=tree == "radix")
        self._capacity = capacity
        chunk = chunked_prefill or 0
        self._chunk = max(page, chunk // page * page) if chunk > 0 else math.inf
        of_states = (strategy, state_capacity, state_chunk, state_interval)
        self._layers: PartialLayers | None = None
        if tree == "radix" and (states or window is not None):
            raise LoreError("sglang: tree=radix keeps neither windows nor states", hint="tree=unified")
        if window is not None and states:
            raise LoreError("sglang: a model with windows and states is not supported", hint="hybrid=true")
        if window is not None:
            tokens = None if window_capacity is None else window_capacity * page
            self._layers = WindowLayers(self._radix, window, tokens)
        elif window_capacity is not None:
            raise LoreError("sglang: window_capacity needs a model with windows", hint="window=TOKENS")
        if states:
            self._layers = StateLayers(self._radix, *of_states)
        elif any(value is not None for value in of_states):
            raise LoreError("sglang: strategy and state_… need a model with states", hint="states=true")
        self._radix.layers = self._layers
        self._counts = capacity is not None or self._layers is not None  # whether each token is simulated
        self._hybrid = hybrid
        self._events: list[tuple[float, int, int, RunningRequest]] = []
        self._serial = count()
        self._running: set[RunningRequest] = set()

    def predict(self, request: Request) -> Prediction:
        """Predict the read tokens, and start the request."""
        path = self._lay(request)
        if not request.pieces:
            return UNKNOWN
        self._advance(math.inf if request.at is None else request.at)
        layout = self._layout_of(request, path)
        self._share_beginnings(request, path, layout)
        keys, prompt = Keys(layout.nodes, layout.ends), layout.prompt
        if self._capacity is not None and self._pages(keys.ends[-1]) > self._capacity:
            reason = "memory cannot hold the request"
            return self._predict_read(request, 0, reason, exact=self._is_exact(request, path), hybrid=self._hybrid)
        running = RunningRequest(keys, prompt, *self._radix.match(keys, max(0, prompt - 1)), request.priority)
        tree_tokens = running.shared
        self._lock(running, running.node)
        self._running.add(running)
        self._prefill(running)
        self._begin(request, running)
        read = self._corrected_position(layout, tree_tokens) // self._radix.page * self._radix.page
        reason = "pages in memory" if read else "no page in memory"
        return self._predict_read(request, read, reason, exact=self._is_exact(request, path), hybrid=self._hybrid)

    def _share_beginnings(self, request: Request, path: TreePath, layout: RequestLayout) -> None:
        """Record the common beginning of the request's and the output's first new piece with the piece at its place."""
        if path.new < len(request.pieces) and path.common_bytes:
            piece_begin = layout.ends[path.new - 1] if path.new else 0
            common = self._find_similar_end(request, path) - self._ruler.position(path.new - 1)
            self._radix.share(path.nodes[path.new], path.similar_node, piece_begin + common)
        output_path = layout.output_path
        if output_path.new < len(request.output) and output_path.common_bytes:
            place = len(request.pieces) + output_path.new
            begin, end = layout.ends[place - 1], layout.ends[place]
            common = output_path.common_bytes * (end - begin) // len(request.output[output_path.new].data)
            self._radix.share(output_path.nodes[output_path.new], output_path.similar_node, begin + common)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self._radix.page)

    def _make_room(self, tokens: int) -> None:
        """Evict unused pages until `tokens` are free, or all are in use."""
        layers, page = self._layers, self._radix.page
        size_before = layers.size if layers is not None else 0
        missing = layers.shortage(tokens, self._running) if layers is not None and layers.per_token else 0
        if self._capacity is not None:
            private_pages = sum(self._pages(running.length) - running.shared // page for running in self._running)
            self._radix.evict(max(0, tokens - (self._capacity - private_pages) * page + self._radix.size))
        if layers is not None:
            layers.evict(missing - size_before + layers.size)

    def _lock(self, running: RunningRequest, node: RadixNode) -> None:
        running.node = node
        self._radix.lock(node)
        if self._layers is not None:
            running.lock_start = self._layers.lock(node)

    def _unlock(self, running: RunningRequest) -> None:
        self._radix.lock(running.node, -1)
        if self._layers is not None:
            self._layers.unlock(running.node, running.lock_start)

    def _prefill(self, running: RunningRequest) -> None:
        """Compute a prompt chunk by chunk, and publish each chunk except the last."""
        if self._layers is not None:
            self._layers.admit(running)
            self._layers.evict(self._layers.shortage(0, self._running))
        while running.length < running.prompt:
            chunk_start = running.length
            end = int(min(running.prompt, chunk_start + self._chunk))
            self._make_room(end - chunk_start + (self._radix.page if self._radix.page > 1 else 0))
            running.length = end
            if self._layers is not None:
                self._layers.after_prefill(running, chunk_start)
            if end < running.prompt:
                self._publish(running)

    def _begin(self, request: Request, running: RunningRequest) -> None:
        """Schedule the events of a request; those without a time happen at once."""
        at = math.inf if request.at is None else request.at
        answered = at if request.answered is None else max(at, request.answered)
        ended = answered if request.ended is None else max(answered, request.ended)
        if answered > at:
            heappush(self._events, (answered, _ANSWER, next(self._serial), running))
        else:
            self._answer(running)
        if ended <= at:
            self._end(running)
            return
        heappush(self._events, (ended, _END, next(self._serial), running))
        steps = running.computed - running.prompt
        if self._counts and ended > answered:
            gap = (ended - answered) / (steps + 1)
            for step in range(1, steps + 1):
                heappush(self._events, (answered + step * gap, _TOKEN, next(self._serial), running))

    def _advance(self, now: float) -> None:
        """Process all events up to a time."""
        while self._events and self._events[0][0] <= now:
            at, kind, _, running = heappop(self._events)
            if kind == _END:
                self._end(running)
            elif kind == _ANSWER:
                self._answer(running)
            else:
                batch = [running]
                while self._events and self._events[0][:2] == (at, _TOKEN):
                    batch.append(heappop(self._events)[3])
                self._decode(batch)

    def _decode(self, batch: list[RunningRequest]) -> None:
        """Compute one more token of each request."""
        layers, batch = self._layers, [running for running in batch if running.length < running.computed]
        if layers is not None:
            for running in batch:
                layers.before_token(running)
        self._make_room(len(batch) * self._radix.page)
        for running in batch:
            running.length += 1
            if layers is not None:
                layers.after_token(running)

    def _answer(self, running: RunningRequest) -> None:
        """Publish a prompt; if the response is one token, end the request."""
        if running not in self._running:
            return
        if running.computed == running.prompt:
            self._end(running)
        else:
            self._publish(running)

    def _end(self, running: RunningRequest) -> None:
        """Publish a request's output, and unlock its pages."""
        if running in self._running:
            while running.length < running.computed and self._counts:
                self._decode([running])
            running.length = running.computed
            self._publish(running, has_ended=True)
            self._unlock(running)
            self._running.discard(running)

    def _publish(self, running: RunningRequest, *, has_ended: bool = False) -> None:
        """Insert the computed tokens of a request into the tree, and lock the node at their end."""
        page, layers, end = self._radix.page, self._layers, running.length
        if layers is not None:
            end = layers.publication_end(running, has_ended=has_ended)
            if not end:
                return
            if not has_ended:
                layers.evict(layers.shortage(int(not layers.per_token), self._running))
        end = end // page * page
        node = self._radix.insert(running, end, running.priority, running.published_end)
        running.published_end = max(running.published_end, end)
        prompt = running.prompt // page * page
        if layers is None and 0 < prompt < end:
            self._radix.insert(running, prompt, running.priority + 1, prompt)
        self._unlock(running)
        self._lock(running, node)
        running.shared = end
        if layers is not None:
            layers.after_publication(running, has_ended=has_ended)
