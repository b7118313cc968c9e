"""Sums of one figure (bytes, canonical bytes, tokens) over the prompts of a chain, turn by turn.

Rules: a segment is weighed when it is new, never again while it stays in the prefix; each step costs
O(segments that are new).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lore.model.prompt import Prompt, Segment
from lore.model.vector import Vector


class Measured(NamedTuple):
    """The figure for the prompt before, the prompt now (both with their tails), and what is common."""

    left: int
    right: int
    common: int


class Measure:
    """Follow one figure through the prompts of a chain.

    Head and messages are summed apart: a head that changes every turn does not make the history new.
    """

    def __init__(self, weigh: Callable[[Segment], int]) -> None:
        self._weigh = weigh
        self._head = [0]
        self._sums = [0]
        self._messages: Vector[Segment] = Vector()
        self._tail = 0

    def advance(self, prompt: Prompt, common: int) -> Measured:
        """Go on to the next prompt, whose first `common` segments are those of the last one."""
        left = self._head[-1] + self._sums[-1] + self._tail
        size = len(prompt.head)
        same = common - size if common > size else self._messages.common(prompt.messages)
        kept = min(common, size, len(self._head) - 1)
        self._go_on(self._head, kept, prompt.head[kept:])
        same = min(same, len(self._sums) - 1)
        self._go_on(self._sums, same, prompt.messages.since(same))
        self._messages = prompt.messages
        self._tail = sum(map(self._weigh, prompt.tail)) if prompt.tail else 0
        shared = self.upto(common)
        if prompt.tail and common > prompt.stable:
            shared += sum(self._weigh(segment) for segment in prompt.tail[: common - prompt.stable])
        return Measured(left, self._head[-1] + self._sums[-1] + self._tail, shared)

    def _go_on(self, sums: list[int], kept: int, new: Iterable[Segment]) -> None:
        del sums[kept + 1 :]
        total, weigh = sums[-1], self._weigh
        for segment in new:
            total += weigh(segment)
            sums.append(total)

    @property
    def tail(self) -> int:
        """The figure for the latest prompt's tail."""
        return self._tail

    def upto(self, position: int) -> int:
        """Return the sum over the latest prompt's first `position` segments, tail excluded."""
        size = len(self._head) - 1
        if position <= size:
            return self._head[position]
        return self._head[-1] + self._sums[min(position - size, len(self._sums) - 1)]


def size(segment: Segment) -> int:
    """Weigh a segment in bytes."""
    return len(segment.data)
