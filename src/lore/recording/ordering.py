"""Recorded requests in the order in which they were asked, where a format keeps them in another.

In: reads. Out: the same, exchanges by their time. Rules: spans are written when they end, and exports list the
latest first; what has no time stays behind what stood before it; equal times keep their order. Memory: what is
held back is bounded, so order is restored as far as that reaches.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count

from lore.formats.base import Read
from lore.model.exchange import Exchange

BY_TIME = frozenset(("har", "otel-genai", "litellm"))  # formats that say when, and promise no order
HELD, MOST = 8 * 1024 * 1024, 1024  # bytes of bodies and streams, and exchanges, that are held back


def in_time(reads: Iterable[Read]) -> Iterator[Read]:
    """Yield exchanges by the time at which they were asked; everything else at once."""
    waiting: list[tuple[float, int, Read]] = []
    numbers, size, latest = count(), 0, 0.0
    for read in reads:
        exchange = read.value
        if not isinstance(exchange, Exchange):
            yield read
            continue
        latest = latest if exchange.at is None else exchange.at
        heapq.heappush(waiting, (latest, next(numbers), read))
        size += _size(exchange)
        while size > HELD or len(waiting) > MOST:
            first = heapq.heappop(waiting)[2]
            size -= _size(first.value) if isinstance(first.value, Exchange) else 0
            yield first
    while waiting:
        yield heapq.heappop(waiting)[2]


def _size(exchange: Exchange) -> int:
    output = exchange.output
    return len(exchange.body) + len(output if isinstance(output, bytes) else output.raw)
