"""The session of a Codex CLI log: what a response made is held until its usage comes.

Usage follows its response, often after the first results. Only then a response is known to be a request: one that was
given up (an interrupt, an error) is not, unless the sums of usage show that it was billed. If a log has no usage at
all, every response is a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from lore.formats.base import Read
from lore.formats.builder import SessionBuilder
from lore.formats.lines import Line
from lore.model import events as e
from lore.model.items import Item
from lore.model.limits import UNBILLED_BYTES, UNBILLED_EVENTS


class CodexResponse(Struct):
    """A run of items that the model made, without usage so far."""

    line: Line  # its first record
    at: str | None  # when that was written
    asked_at: str | None
    model: str | None
    held: list[Read] = []  # what it and its tools made
    size: int = 0  # bytes of their records
    has_results: bool = False  # results of tools follow it
    is_over: bool = False  # something else follows it, or it was given up
    is_given_up: bool = False
    turn: int = 0  # its turn, if that had to start without usage: too much was held


class CodexSession(SessionBuilder):
    """Emits the events of a Codex session."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[CodexResponse] = []  # responses since the latest usage, the last one under way
        self.has_usage = False  # a response had
        self.model: str | None = None  # of the next request
        self.asked_at: str | None = None  # when it is asked for
        self.call: e.Call | None = None  # facts about it

    def emit(self, event: e.Event) -> None:
        response = self.waiting[-1] if self.waiting else None
        if response is None or response.turn:
            super().emit(event)
            return
        response.held.append(self.placed(event))
        response.size += len(self.line.data)
        if len(response.held) > UNBILLED_EVENTS or response.size > UNBILLED_BYTES:
            self.release(self.waiting[:-1])
            self.waiting = []
            self._start(response)
            self.waiting = [response]

    def append(self, item: Item) -> None:
        self.emit(e.Append(item=item, chain=self.chain, at=self.at, agent_id=self.agent))  # which may hold it

    def release(self, responses: Iterable[CodexResponse]) -> None:
        """Emit what these responses made, though they are not requests."""
        for response in responses:
            self._reads += response.held
            response.held = []

    def begin_response(self) -> CodexResponse:
        """Return a new response, whose first item comes."""
        if not self.has_usage:
            self.end_responses()
        response = CodexResponse(self.line, self.at, self.asked_at, self.model)
        self.waiting.append(response)
        return response

    def end_response(self, usage: e.Usage, name: str) -> None:
        """End the response under way as a request; one that made no item is a request as well."""
        self.has_usage = True
        waiting, self.waiting = self.waiting, []
        response = waiting.pop() if waiting else CodexResponse(self.line, self.at, self.asked_at, self.model)
        self.release(waiting)
        self._complete(response, usage, name)

    def end_given_up(self, usage: e.Usage, name: str) -> None:
        """End the response before the one under way as a request: it was given up, but billed."""
        *earlier, response, current = self.waiting
        self.waiting = []
        self.release(earlier)
        self._complete(response, usage, name)
        self.waiting = [current]

    def end_responses(self) -> None:
        """End the responses that have no usage: they are requests if the log has none at all."""
        waiting, self.waiting = self.waiting, []
        for response in waiting:
            if response.turn or not (self.has_usage or response.is_given_up):
                self._complete(response, None, None)
            else:
                self.release((response,))

    def _start(self, response: CodexResponse) -> None:
        """Start the turn of a response at its first record, then emit what it made."""
        line, self.line = self.line, response.line
        self.counter.asked_at = response.asked_at or response.at
        response.turn = self.start_turn(response.model, self.call)
        self.line = line
        self.release((response,))

    def _complete(self, response: CodexResponse, usage: e.Usage | None, name: str | None) -> None:
        if not response.turn:
            self._start(response)
        self.emit(e.TurnCompleted(turn=response.turn, at=response.at, usage=usage, response_id=name))
