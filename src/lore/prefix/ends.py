"""Ends of requests: which earlier request of a recording a prompt goes on from, if that is not its chain's last one.

In: the prompts of all chains, in order. Out: for each the request whose end (its last breakpoint, else all of it) is
the furthest beginning of the prompt, where that lies behind what the prompt shares with its chain's last request; and
who passed that end last, for a cache's lifetime counts from there. Rules: model, dialect, place and key are the same,
for each has a cache of its own; a request that failed ended nowhere.

Beginnings are known by a running hash, made once for as long as a chain sends the same segments again: cost O(segments
that are not shared with the chain's last request). Memory: the latest `KEPT` requests, and a hash a segment of a
chain's latest prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lore.model.providers import place_in
from lore.model.turn import Turn
from lore.prefix.causes import limit_of
from lore.prefix.overlap import shared_segments, since

KEPT = 64  # requests of a recording that may be gone on from besides the last one of each chain
_ON_PATH = 8  # of a chain: a request rarely takes back more than a few


@dataclass(slots=True, eq=False)
class End:
    """Where a request ended: its first `size` segments, known by `key`. `used` is the last request that had them."""

    turn: Turn
    key: int
    size: int
    used: Turn


@dataclass(slots=True, eq=False)
class _Path:
    """A chain's latest request: a running hash behind each of its segments, and the ends that it passes."""

    turn: Turn
    hashes: list[int]
    ends: list[End] = field(default_factory=list[End])


class Ends:
    """The ends of the requests of one recording."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._ends: OrderedDict[int, End] = OrderedDict()
        self._paths: dict[str, _Path] = {}

    def take(self, turn: Turn) -> End | None:
        """Take the next request; return the end that it goes on from, None where that is no other than its chain's."""
        prompt, path = turn.prompt, self._paths.get(turn.chain)
        limit = limit_of(prompt)
        shared = 0 if path is None else _shared(path.turn, turn)
        hashes = [] if path is None else path.hashes
        passed = [] if path is None else [end for end in path.ends if end.size <= shared]
        del hashes[shared:]
        found = self._walk(turn, hashes)
        own = End(turn, hashes[limit - 1], limit, turn) if limit else None
        if own is not None:
            self._keep(own)
        earlier = None if found is None else replace(found)
        ends = [*passed, *([] if found is None else [found]), *([] if own is None else [own])][-_ON_PATH:]
        for end in ends:
            end.used = turn
        self._paths[turn.chain] = _Path(turn, hashes, ends)
        return None if path is None else earlier

    def forget(self, chains: Iterable[str]) -> None:
        """Let go of chains that no request continues."""
        for chain in chains:
            self._paths.pop(chain, None)

    def _walk(self, turn: Turn, hashes: list[int]) -> End | None:
        """Add the hashes of what is new; return the furthest end among it that another request had."""
        place, found = len(hashes), None
        running = hashes[-1] if hashes else hash(_space(turn))
        for size, segment in enumerate(since(turn.prompt, place, tail=False), place + 1):
            running = hash((running, segment))
            hashes.append(running)
            end = self._ends.get(running)
            if end is not None and end.size == size and shared_segments(end.turn.prompt, turn.prompt) >= size:
                found = end
        return found

    def _keep(self, end: End) -> None:
        self._ends.pop(end.key, None)
        self._ends[end.key] = end
        while len(self._ends) > self._kept:
            self._ends.popitem(last=False)


def _space(turn: Turn) -> tuple[str | None, ...]:
    """Return what keeps caches apart, whatever stands in the prompt."""
    call = turn.call
    asked = place_in(call.endpoint), call.account, call.answered_by, call.deployment
    return turn.prompt.model, turn.prompt.dialect, *asked


def _shared(left: Turn, right: Turn) -> int:
    """Count the leading segments that two requests share; none where their caches are kept apart."""
    if _space(left) != _space(right):
        return 0
    return min(shared_segments(left.prompt, right.prompt), left.prompt.stable, right.prompt.stable)
