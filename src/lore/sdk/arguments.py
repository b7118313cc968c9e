"""Make the keyword arguments of a chain's requests without decoding the messages of earlier requests again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import islice
from typing import Any

from msgspec.structs import replace

from lore.errors import LoreError
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import Dialect
from lore.prompt.dialects.messages import Body, group_messages
from lore.sdk.objects import arguments_of


class RequestArguments:
    """The arguments of one chain's requests, in any order; cheapest in the order in which they are sent.

    Finished messages (all but the last) are decoded once and are the same Python objects in later requests. Messages
    with a breakpoint, and the last one, are made for each request. Not safe between threads.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._segments: Vector[Segment] = Vector()
        self._messages: list[Any] = []  # finished ones
        self._ends: list[int] = []  # for each of them the index of the segment after it

    def make(self, prompt: Prompt) -> dict[str, Any]:
        """Return the arguments for a prompt. Costs O(head, new messages and tail); raises LoreError for text."""
        if not isinstance(self.dialect, Body):
            return self._arguments(prompt)
        self._update(prompt.messages)
        head, start = len(prompt.head), self._ends[-1] if self._ends else 0
        marks = list(zip(prompt.breakpoints, prompt.breakpoint_values, strict=True))
        later_marks = [(at if at < head else at - start, value) for at, value in marks if not head <= at < head + start]
        positions, values = tuple([at for at, _ in later_marks]), tuple([value for _, value in later_marks])
        arguments = self._arguments(replace(
            prompt, messages=Vector(prompt.messages.since(start)), breakpoints=positions, breakpoint_values=values
        ))  # fmt: skip
        messages = self._messages.copy()
        marked: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)  # breakpoints of finished messages
        for at, value in marks:
            if head <= at < head + start:
                marked[bisect_right(self._ends, at - head)].append((at - head, value))
        for number, message_marks in marked.items():
            begin = self._ends[number - 1] if number else 0
            segments = list(islice(prompt.messages.since(begin), self._ends[number] - begin))
            messages[number] = self._decode(segments, [(at - begin, value) for at, value in message_marks])[0]
        first = self.dialect.first(prompt.head).messages
        arguments[self.dialect.root][first:first] = messages
        return arguments

    def _update(self, messages: Vector[Segment]) -> None:
        """Drop messages that changed or may be continued; decode those that are finished now."""
        same_count = self._segments.common(messages)
        while self._ends and self._ends[-1] >= same_count:
            self._ends.pop()
            self._messages.pop()
        self._segments = messages
        end = self._ends[-1] if self._ends else 0
        finished = group_messages(messages.since(end))[:-1]
        if finished:
            self._messages += self._decode([segment for message in finished for segment in message])
        for message in finished:
            end += len(message)
            self._ends.append(end)

    def _decode(self, segments: list[Segment], marks: list[tuple[int, bytes]] | None = None) -> list[Any]:
        positions, values = tuple([at for at, _ in marks or ()]), tuple([value for _, value in marks or ()])
        prompt = Prompt(
            self.dialect.name, "reconstructed", messages=Vector(segments),
            breakpoints=positions, breakpoint_values=values,
        )  # fmt: skip
        assert isinstance(self.dialect, Body)
        return self._arguments(prompt)[self.dialect.root]

    def _arguments(self, prompt: Prompt) -> dict[str, Any]:
        body = self.dialect.write(prompt)
        if body[:1] != b"{":
            message = f"the dialect {self.dialect.name} is text, which no SDK takes"
            raise LoreError(message, hint="use begin_turn, write")
        return arguments_of(body, self.dialect.name)
