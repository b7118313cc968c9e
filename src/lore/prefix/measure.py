"""Sums of one figure (bytes, canonical bytes, tokens) over the prompts of a chain, turn by turn.

Rules: a segment is weighed when it is new, never again while it stays in the prefix; each step costs
O(segments that are new).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lore.model.prompt import Prompt, Segment
from lore.prefix.overlap import since


class Measured(NamedTuple):
    """The figure for the prompt before, the prompt now (both with their tails), and what is common."""

    left: int
    right: int
    common: int


class Measure:
    """Follow one figure through the prompts of a chain."""

    def __init__(self, weigh: Callable[[Segment], int]) -> None:
        self._weigh = weigh
        self._sums = [0]
        self._tail = 0

    def advance(self, prompt: Prompt, common: int) -> Measured:
        """Go on to the next prompt, whose first `common` segments are those of the last one."""
        sums, weigh = self._sums, self._weigh
        left = sums[-1] + self._tail
        kept = min(common, len(sums) - 1)
        del sums[kept + 1 :]
        total = sums[-1]
        for segment in since(prompt, kept, tail=False):
            total += weigh(segment)
            sums.append(total)
        self._tail = sum(map(weigh, prompt.tail)) if prompt.tail else 0
        shared = sums[min(common, len(sums) - 1)]
        if prompt.tail and common > prompt.stable:
            shared += sum(self._weigh(segment) for segment in prompt.tail[: common - prompt.stable])
        return Measured(left, total + self._tail, shared)

    @property
    def tail(self) -> int:
        """The figure for the latest prompt's tail."""
        return self._tail

    def upto(self, position: int) -> int:
        """Return the sum over the latest prompt's first `position` segments, tail excluded."""
        return self._sums[min(position, len(self._sums) - 1)]


def size(segment: Segment) -> int:
    """Weigh a segment in bytes."""
    return len(segment.data)
