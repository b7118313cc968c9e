"""Tool calls and results of a chain's messages: find the one that has no counterpart, at the cost of new messages.

A result answers the latest open call of its name or id; a call in the last message may still be answered. Adding a part
costs O(log calls); listing all faults looks at every part.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import NamedTuple


class ToolPart(NamedTuple):
    """A tool call or a result."""

    position: int  # among the segments of the messages
    name: str  # the id of the call, or the tool's name if calls have no id
    answers: bool  # it is a result
    path: str


class _Added(NamedTuple):
    part: ToolPart
    before: int  # the last position of its name before it; -1: none
    is_lone: bool  # a result without a call


class ToolPairs:
    """The calls and results of one chain's latest prompt."""

    def __init__(self) -> None:
        self._added: list[_Added] = []
        self._lone: list[ToolPart] = []
        self._answers: list[int] = []  # positions of results
        self._open: Counter[str] = Counter()  # unanswered calls, by name
        self._last: dict[str, int] = {}  # the last position of each name
        self._earliest: list[tuple[int, str]] = []  # a heap of these positions, some of them outdated

    def cut(self, position: int) -> None:
        """Remove the parts at a position and after it."""
        while self._added and self._added[-1].part.position >= position:
            part, before, is_lone = self._added.pop()
            if is_lone:
                self._lone.pop()
            else:
                self._open[part.name] += 1 if part.answers else -1
            if part.answers:
                self._answers.pop()
            self._set_last(part.name, before)

    def add(self, part: ToolPart) -> None:
        """Add the next part."""
        is_lone = part.answers and self._open[part.name] <= 0
        self._added.append(_Added(part, self._last.get(part.name, -1), is_lone))
        if is_lone:
            self._lone.append(part)
        else:
            self._open[part.name] += -1 if part.answers else 1
        if part.answers:
            self._answers.append(part.position)
        self._set_last(part.name, part.position)

    def answers_since(self, position: int) -> bool:
        """Return whether a result is at a position or after it."""
        return bool(self._answers) and self._answers[-1] >= position

    def is_sound(self, last: int) -> bool:
        """Return whether every part has its counterpart; the last message begins at `last`."""
        heap = self._earliest
        while heap and (self._last.get(heap[0][1]) != heap[0][0] or self._open[heap[0][1]] <= 0):
            heappop(heap)
        return not self._lone and (not heap or heap[0][0] >= last)

    def orphan(self, last: int) -> ToolPart | None:
        """Return the first result without a call, else the first call without a result before the last message."""
        if self._lone:
            return self._lone[0]
        calls = {added.part.name: added.part for added in self._added if not added.part.answers}
        return next((call for name, call in calls.items() if self._open[name] > 0 and self._last[name] < last), None)

    def _set_last(self, name: str, position: int) -> None:
        if position < 0:
            self._last.pop(name, None)
        else:
            self._last[name] = position
            heappush(self._earliest, (position, name))
