"""Find the earlier request of a recording that a prompt continues, if that is not the last one of its chain.

A request ends at its last breakpoint, or with its last segment before the tail: that much of it may be cached. A prompt
continues the request whose end is its furthest beginning, if the two share a cache and that end is beyond what the
prompt shares with its chain's last request.

Beginnings are known by a running hash, computed once while a chain repeats the same segments: each request costs
O(segments that it does not share with its chain's last request). Memory: the latest `ENDED_REQUESTS` requests, and a
hash for each segment of each chain's latest prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from copy import copy

from msgspec import Struct

from lore.model.limits import ENDED_REQUESTS
from lore.model.providers import place_in
from lore.model.turn import Turn
from lore.prefix.overlap import count_cached_segments, count_shared_segments, iterate_from

_ENDS_OF_CHAIN = 8  # that a chain's latest request passes: a request rarely takes back more than a few


class RequestEnd(Struct, eq=False):
    """Where a request ended."""

    turn: Turn  # the request
    key: int  # the running hash of its segments
    size: int  # the number of its segments
    used: Turn  # the latest request that had them: a cache's lifetime counts from there


class _ChainEnd(Struct, eq=False):
    """A chain's latest request."""

    turn: Turn  # the latest request
    hashes: list[int]  # the running hash after each of its segments
    ends: list[RequestEnd] = []  # those that it passes


class RequestEnds:
    """The ends of the requests of one recording."""

    def __init__(self, remembered: int = ENDED_REQUESTS) -> None:
        self._remembered = remembered
        self._ends: OrderedDict[int, RequestEnd] = OrderedDict()
        self._chains: dict[str, _ChainEnd] = {}

    def add(self, turn: Turn) -> RequestEnd | None:
        """Add the next request; return the end that it continues, None if that is its chain's last request."""
        prompt, chain = turn.prompt, self._chains.get(turn.chain)
        limit = count_cached_segments(prompt)
        shared = 0
        if chain is not None and cache_scope(chain.turn) == cache_scope(turn):
            before = chain.turn.prompt
            shared = min(count_shared_segments(before, prompt), before.stable, prompt.stable)
        hashes = [] if chain is None else chain.hashes
        ends = [] if chain is None else [end for end in chain.ends if end.size <= shared]
        del hashes[shared:]
        continued = self._hash_new_segments(turn, hashes)
        earlier = None if continued is None else copy(continued)  # as it was before this request used it
        if continued is not None:
            ends.append(continued)
        if limit:
            end = RequestEnd(turn, hashes[limit - 1], limit, turn)
            ends.append(end)
            self._ends.pop(end.key, None)
            self._ends[end.key] = end
            if len(self._ends) > self._remembered:
                self._ends.popitem(last=False)
        ends = ends[-_ENDS_OF_CHAIN:]
        for end in ends:
            end.used = turn
        self._chains[turn.chain] = _ChainEnd(turn, hashes, ends)
        return None if chain is None else earlier

    def forget(self, chains: Iterable[str]) -> None:
        """Drop chains that no request continues."""
        for chain in chains:
            self._chains.pop(chain, None)

    def _hash_new_segments(self, turn: Turn, hashes: list[int]) -> RequestEnd | None:
        """Append the hashes of the new segments; return the furthest end of another request among them."""
        known, continued = len(hashes), None
        running = hashes[-1] if hashes else hash(cache_scope(turn))
        for size, segment in enumerate(iterate_from(turn.prompt, known, tail=False), known + 1):
            running = hash((running, segment))
            hashes.append(running)
            end = self._ends.get(running)
            if end is not None and end.size == size and count_shared_segments(end.turn.prompt, turn.prompt) >= size:
                continued = end
        return continued


def cache_scope(turn: Turn) -> tuple[str | None, ...]:
    """Return the fields that select a cache: model, dialect, endpoint, account, provider, deployment."""
    call, prompt = turn.call, turn.prompt
    return prompt.model, prompt.dialect, place_in(call.endpoint), call.account, call.answered_by, call.deployment
