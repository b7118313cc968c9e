"""Calls and results of a chain's messages: which has no counterpart, told at the cost of what is new.

In: the parts of a prompt in their order, taken back from a place on where a history was rewritten. Out: the first
result without a call before it, else a call without a result that stands before the last message. Rules: a result
answers the latest open call of its name; a call in the last message may be answered yet.
Cost: O(log calls) a part, whatever stands before it; who asks what is wrong for the first time pays for all of them.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import NamedTuple


class ToolPart(NamedTuple):
    """A call (or with `answers` its result) that stands at a place of the messages, by its id or name."""

    position: int
    name: str
    answers: bool
    path: str


class _Taken(NamedTuple):
    """A part, where its name stood last before, and whether it is a result that answers nothing."""

    part: ToolPart
    before: int
    is_lone: bool


class ToolPairs:
    """The calls and results of one chain's latest prompt."""

    def __init__(self) -> None:
        self._taken: list[_Taken] = []
        self._lone: list[ToolPart] = []
        self._answers: list[int] = []  # positions of results
        self._open: Counter[str] = Counter()  # calls that are not answered, by name
        self._last: dict[str, int] = {}  # where a name stood last
        self._earliest: list[tuple[int, str]] = []  # a heap of these places, some of them outdated

    def cut(self, position: int) -> None:
        """Take back the parts that stand at a place or behind it."""
        while self._taken and self._taken[-1].part.position >= position:
            part, before, is_lone = self._taken.pop()
            if is_lone:
                self._lone.pop()
            else:
                self._open[part.name] += 1 if part.answers else -1
            if part.answers:
                self._answers.pop()
            self._stands(part.name, before)

    def add(self, part: ToolPart) -> None:
        """Take the next part."""
        is_lone = part.answers and self._open[part.name] <= 0
        self._taken.append(_Taken(part, self._last.get(part.name, -1), is_lone))
        if is_lone:
            self._lone.append(part)
        else:
            self._open[part.name] += -1 if part.answers else 1
        if part.answers:
            self._answers.append(part.position)
        self._stands(part.name, part.position)

    def answers_since(self, position: int) -> bool:
        """Tell whether a result stands at a place or behind it."""
        return bool(self._answers) and self._answers[-1] >= position

    def is_sound(self, last: int) -> bool:
        """Tell whether every part has its counterpart; the last message begins at `last`."""
        heap = self._earliest
        while heap and (self._last.get(heap[0][1]) != heap[0][0] or self._open[heap[0][1]] <= 0):
            heappop(heap)
        return not self._lone and (not heap or heap[0][0] >= last)

    def orphan(self, last: int) -> ToolPart | None:
        """Return the first part without a counterpart; looks at all of them."""
        if self._lone:
            return self._lone[0]
        calls = {taken.part.name: taken.part for taken in self._taken if not taken.part.answers}
        return next((call for name, call in calls.items() if self._open[name] > 0 and self._last[name] < last), None)

    def _stands(self, name: str, position: int) -> None:
        if position < 0:
            self._last.pop(name, None)
        else:
            self._last[name] = position
            heappush(self._earliest, (position, name))
