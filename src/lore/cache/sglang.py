"""SGLang: one radix tree, memory of pages, and requests that hold what they use while they run.

In: requests, what was billed for them. Out: predictions. Rules: a request reads the whole pages that the tree holds of
all but its last token, and keeps them while it runs. Its prompt is published when its response begins, what was
generated when it ends, but for the last token, which is never computed on; the prompt is a node of its own then, of a
priority one higher, so that what was generated goes first. Where memory is short, what nobody uses is thrown away: for
a prompt as many tokens as it still needs and, of pages larger than 1, one page more; for a step of decoding a page for
each request that runs, needed or not. A request without times ends before the next one comes. One that memory cannot
hold is not computed, and leaves nothing behind.

What keeps requests apart (cache salt, `extra_key`, LoRA adapter) is their space. Where pieces have their exact counts
the prediction is exact. Requests that are computed in one batch do not read each other: tell it by `answered`.

Not modelled: chunks of long prompts (`--chunked-prefill-size` cuts nodes at its multiples), memory on the host
(`--enable-hierarchical-cache`), sessions, speculative decoding, requests that are retracted, the policy `tlru`.

Source: SGLang 0.5.23, `mem_cache/common.py`, `mem_cache/allocation.py`, `managers/schedule_batch.py`,
`managers/scheduler_components/batch_result_processor.py`, on 2026-11-23; tests/oracle/engines compares every read.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from itertools import count

from lore.cache.base import UNKNOWN, Look, Prediction, Request
from lore.cache.measured import Laid, MeasuredCache
from lore.cache.radix import Keys, Node, RadixTree
from lore.cache.tree import Path
from lore.errors import LoreError

TREES = ("unified", "radix")
_END, _ANSWER, _TOKEN = range(3)  # in this order where they fall together


class _Running:
    """A request that holds memory: the first `length` tokens of `keys`, of which the tree has the first `shared`."""

    def __init__(self, keys: Keys, prompt: int, node: Node, priority: int) -> None:
        self.keys, self.prompt, self.node, self.priority = keys, prompt, node, priority
        self.length = prompt
        self.shared = node.end
        self.counted = 0

    @property
    def computed(self) -> int:
        """Tokens that are computed on when it has ended."""
        return max(self.prompt, self.keys.ends[-1] - 1)


class SGLang(MeasuredCache):
    """The cache of one server, with memory of `capacity` pages; None: without end.

    `hybrid` says that the model has layers whose state cannot be resumed at any token: what is read is at most this.
    """

    def __init__(
        self, look: Look, *, page_size: int | None = None, capacity: int | None = None, policy: str = "lru",
        tree: str = "unified", hybrid: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        page = page_size if page_size is not None else int(look("block_tokens", None, None) or 1)
        if page < 1 or (capacity is not None and capacity < 0):
            raise LoreError("sglang: a page holds at least 1 token, and memory at least 0 pages", hint="page_size=1")
        self._held = RadixTree(page, policy, bounded=capacity is not None, cut_is_new=tree == "radix")
        self._capacity = capacity
        self._hybrid = hybrid
        self._events: list[tuple[float, int, int, _Running]] = []
        self._serial = count()
        self._running: set[_Running] = set()

    def predict(self, request: Request) -> Prediction:
        """Say what would be read, and keep the request's pages."""
        path = self._lay(request)
        if not request.pieces:
            return UNKNOWN
        self._advance(math.inf if request.at is None else request.at)
        laid = self._laid(request, path)
        self._share(request, path, laid)
        keys, prompt = Keys(laid.nodes, laid.ends), laid.prompt
        if self._capacity is not None and self._pages(keys.ends[-1]) > self._capacity:
            return self._said(request, path, 0, "memory cannot hold the request")
        node = self._held.match(keys, max(0, prompt - 1))
        self._held.lock(node)
        running = _Running(keys, prompt, node, request.priority)
        self._room(prompt - node.end + (self._held.page if self._held.page > 1 else 0))
        self._running.add(running)
        self._begin(request, running)
        read = self._billed(laid, node.end) // self._held.page * self._held.page
        return self._said(request, path, read, "pages that are held" if read else "no page is held")

    def _said(self, request: Request, path: Path, read: int, reason: str) -> Prediction:
        counted = self._counted(request, path)
        confidence = "ceiling" if self._hybrid else "exact" if counted else "rule"
        return self._predicted(request, min(read, max(0, self._total(request) - 1)), confidence, reason)

    def _share(self, request: Request, path: Path, laid: Laid) -> None:
        """Note what the first new piece of a request, and of its output, has in common with one in its place."""
        if path.new < len(request.pieces) and path.alike:
            before = laid.ends[path.new - 1] if path.new else 0
            alike = self._begun(request, path) - self._ruler.position(path.new - 1)
            self._held.share(path.nodes[path.new], path.like, before + alike)
        made = laid.made
        if made.new < len(request.output) and made.alike:
            place = len(request.pieces) + made.new
            begin, end = laid.ends[place - 1], laid.ends[place]
            alike = made.alike * (end - begin) // len(request.output[made.new].data)
            self._held.share(made.nodes[made.new], made.like, begin + alike)

    # memory

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self._held.page)

    def _room(self, tokens: int) -> None:
        """Throw away what nobody uses until so many tokens are free, or nothing can go."""
        if self._capacity is not None:
            page = self._held.page
            own = sum(self._pages(running.length) - running.shared // page for running in self._running)
            short = tokens - (self._capacity - own) * page + self._held.size
            if short > 0:
                self._held.evict(short)

    # what happens

    def _begin(self, request: Request, running: _Running) -> None:
        """Plan what happens to a request: at once what has no time of its own."""
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
        if self._capacity is not None and ended > answered:
            gap = (ended - answered) / (steps + 1)
            for step in range(1, steps + 1):
                heappush(self._events, (answered + step * gap, _TOKEN, next(self._serial), running))

    def _advance(self, now: float) -> None:
        """Let everything happen that has happened by now."""
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

    def _decode(self, batch: list[_Running]) -> None:
        """Give each of these requests a place for one more token."""
        batch = [running for running in batch if running.length < running.computed]
        self._room(len(batch) * self._held.page)
        for running in batch:
            running.length += 1

    def _answer(self, running: _Running) -> None:
        """Publish a prompt; one whose response is one token ends there."""
        if running not in self._running:
            return
        if running.computed == running.prompt:
            self._end(running)
        else:
            self._publish(running, running.prompt)

    def _end(self, running: _Running) -> None:
        """Publish what was generated, and let go of what a request holds."""
        if running in self._running:
            while running.length < running.computed and self._capacity is not None:
                self._decode([running])
            self._publish(running, running.computed)
            self._held.lock(running.node, -1)
            self._running.discard(running)

    def _publish(self, running: _Running, end: int) -> None:
        page = self._held.page
        end = end // page * page
        node = self._held.insert(running.keys, end, priority=running.priority, counted=running.counted).node
        running.counted = max(running.counted, end)
        prompt = running.prompt // page * page
        if 0 < prompt < end:
            self._held.insert(running.keys, prompt, priority=running.priority + 1, counted=prompt)
        self._held.lock(running.node, -1)
        self._held.lock(node)
        running.node, running.shared = node, end
