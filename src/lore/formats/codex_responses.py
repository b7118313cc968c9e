"""Responses of a Codex thread that wait for their bills, and what waits with them.

In: what a response made, and its bill, which comes behind it and often behind the first results. Out: the turn's start,
what it made, its end. Rules: what a response made is held until it is billed, up to `MOST_HELD` events or `MOST_BYTES`;
one that is never billed is a request only where the log bills nothing at all.
"""

from __future__ import annotations

from msgspec import Struct, field

from lore.formats.base import Read
from lore.formats.codex_bills import Counts
from lore.formats.codex_context import Noted
from lore.formats.codex_history import History
from lore.formats.transcripts import TranscriptLines, TranscriptMemory, TranscriptTurns
from lore.model import events as e

MOST_HELD = 1_000  # events of a response that wait for its bill
MOST_BYTES = 4 * 1024 * 1024


class Held(Struct, gc=False):
    """An event that waits for the bill of its response, and its place, as it is saved."""

    event: e.Event
    line: int
    byte: int


class Response(Struct):
    """A response that is not billed yet: when it was asked for and when it began, by what model, where.

    `results` came behind it, or it is `over`: something else did. It was `given_up` where an interrupt or an error did.
    `turn` is its number where it has begun already, since too much waited; `held` is what it and its tools made, when
    the reader's state is saved.
    """

    asked: str | None
    at: str | None
    model: str | None
    line: int
    byte: int
    held: list[Held] = []
    size: int = 0
    results: bool = False
    over: bool = False
    given_up: bool = False
    turn: int = 0


class CodexMemory(TranscriptMemory):
    """All that the reader remembers.

    `thread` is the session's id, `root` the thread that its sums began in; `waiting` are the responses since the last
    bill, the one under way last; `totals` the sums so far, `tokens` all of the last response; `billed` says that a
    response was, `recorded` which the last record billed; `context` what the last turn of the user was asked with;
    `start` is the ordinal of the first record that is no copy of another thread's.
    """

    thread: str | None = None
    root: str = ""
    version: str = ""
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    waiting: list[Response] = []
    asked_at: str | None = None
    model: str | None = None
    totals: Counts | None = None
    tokens: int | None = None
    billed: bool = False
    recorded: str | None = None
    context: dict[str, Noted] = {}
    history: History = field(default_factory=History)
    start: int = 0


class CodexResponses(TranscriptLines[CodexMemory]):
    """What holds events back until the response that made them is billed."""

    memory = CodexMemory

    def __init__(self) -> None:
        super().__init__()
        self._held: list[list[Read]] = []  # what waits with each response

    def _save(self) -> bytes:
        for response, held in zip(self._memory.waiting, self._held, strict=True):
            response.held = [Held(read.value, read.line, read.byte) for read in held]  # pyright: ignore[reportArgumentType]
        return super()._save()

    def _load(self, saved: bytes) -> None:
        super()._load(saved)
        waiting = self._memory.waiting
        self._held = [[Read(held.event, held.line, held.byte) for held in response.held] for response in waiting]

    def _emit(self, event: e.Event) -> None:
        waiting, line = self._memory.waiting, self._line
        if not waiting or waiting[-1].turn:
            self._found.append(Read(event, line.number, line.byte))
            return
        response, held = waiting[-1], self._held[-1]
        held.append(Read(event, line.number, line.byte))
        response.size += len(line.data)
        if len(held) > MOST_HELD or response.size > MOST_BYTES:
            self._found += [read for held in self._held[:-1] for read in held]
            self._memory.waiting, self._held = [response], [[]]
            self._start(response, held)

    def _start(self, response: Response, held: list[Read]) -> None:
        """Start the turn of a response at its first line, and let go of what waited with it."""
        turns, place = self._memory.turns, (response.line, response.byte)
        turns.turn = response.turn = turns.turn + 1
        if response.model is not None and response.model != turns.model:
            turns.model = response.model
            self._found.append(Read(e.SessionChanged(model=response.model), *place))
        self._found.append(Read(e.TurnStarted(turn=response.turn, at=response.asked or response.at), *place))
        self._found += held

    def _end(self, response: Response, held: list[Read], usage: e.Billed | None, name: str | None = None) -> None:
        """End a response as a request."""
        if response.turn:
            self._found += held
        else:
            self._start(response, held)
        end = e.TurnCompleted(turn=response.turn, at=response.at, usage=usage, response_id=name)
        self._found.append(Read(end, self._line.number, self._line.byte))

    def _settle(self) -> None:
        """End the responses that no bill came for: requests where the log bills none and they were not given up."""
        memory = self._memory
        waiting = list(zip(memory.waiting, self._held, strict=True))
        memory.waiting, self._held = [], []
        for response, held in waiting:
            if response.turn or not (memory.billed or response.given_up):
                self._end(response, held, None)
            else:
                self._found += held

    def _respond(self, at: str | None) -> Response:
        """Begin a response."""
        memory, line = self._memory, self._line
        if not memory.billed:
            self._settle()
        response = Response(memory.asked_at, at, memory.model, line.number, line.byte)
        memory.waiting.append(response)
        self._held.append([])
        return response
