"""Recorded requests to turns: each body parsed, made whole where it continues others, put into its chain.

In: reads that hold exchanges, or turns whose prompts stand ready. Out: a turn for each that can be judged, in the
order in which they were asked; what cannot is a problem.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from lore.formats.base import Read, Reader
from lore.formats.lines import is_crowded, too_many
from lore.formats.said import said
from lore.model.codes import Code, Problem
from lore.model.prompt import Prompt
from lore.model.providers import model_in
from lore.model.turn import Exchange, Turn
from lore.prefix.chains import Chains
from lore.prefix.dropped import without_dropped
from lore.prompt.base import Dialect, Memo
from lore.prompt.dialects import dialect_of
from lore.recording.base import HINT_FORMATS, RecordedInput, UnrecognisedError
from lore.recording.problems import Problems
from lore.recording.response_chaining import Continuations

BY_TIME = frozenset(("har", "otel-genai", "litellm"))  # formats that say when, and promise no order
HELD, MOST = 8 * 1024 * 1024, 1024  # bytes of bodies and streams, and exchanges, that are held back

# A file with one of these and no request is a damaged recording; with none of them it was no recording at all.
UNREADABLE = (
    Code.UNREADABLE_LINE,
    Code.TORN_LAST_LINE,
    Code.LINE_TOO_LONG,
    Code.CAPTURE_TOO_LARGE,
    Code.CASSETTE_REFUSED,
    Code.UNDECODABLE_REQUEST,
    Code.REQUEST_NOT_KEPT,
    Code.ARCHIVE_REFUSED,
    Code.BODY_CUT,
    Code.CONTENT_NOT_RECORDED,
)


class PromptRecording(RecordedInput):
    """Turns whose prompts stand ready, as the recording itself holds them."""

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all chains."""
        return (read.value for read in self.reads() if isinstance(read.value, Turn))


class RequestRecording(RecordedInput):
    """The requests of one recording.

    `dialect` is the one asked for; `memos` are shared by recordings that are compared. A recording that is `growing`
    is judged as it comes; one whose format was `forced` may hold no request.
    """

    def __init__(
        self, path: str, reader: Reader, data: Iterable[bytes], problems: Problems, *, dialect: Dialect | None,
        memos: dict[str, Memo], growing: bool, forced: bool,
    ) -> None:  # fmt: skip
        super().__init__(path, reader, data, problems)
        self._dialect = dialect
        self._memos = memos  # by dialect: each slices messages its own way
        self._sorted = not growing and reader.name in BY_TIME
        self._forced = forced
        self._chains = Chains(said=said)
        self._continuations = Continuations()

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        return self._chains.forgotten()

    def turns(self) -> Iterator[Turn]:
        """Yield recorded requests; a file that is whole JSON and holds none was no recording after all."""
        requests = 0
        for read in in_time(self.reads()) if self._sorted else self.reads():
            if isinstance(read.value, Exchange):
                requests += 1
                turn = self._turn(read, read.value)
                if turn is not None:
                    yield turn
        unreadable = any(self.problems.counts[code, self.shown] for code in UNREADABLE)
        if not requests and not unreadable and not self._forced:
            raise UnrecognisedError(f"{self.shown} holds no request body that lore knows", hint=HINT_FORMATS)

    def _turn(self, read: Read, exchange: Exchange) -> Turn | None:
        """Return the next request as a turn, in the dialect asked for, else its own; None where it has none."""
        prompt = self._prompt(read, exchange)
        if prompt is None:
            return None
        link = self._chains.link(prompt, exchange)
        return Turn(
            link.chain, link.turn, prompt, asked=exchange.at, answered=exchange.answered,
            usage=exchange.usage, verdict=exchange.verdict, call=exchange.call, line=read.line, byte=read.byte,
            file=os.path.join(self.shown, read.file) if read.file else "",
            given_up=self._chains.given_up,
        )  # fmt: skip

    def _prompt(self, read: Read, exchange: Exchange) -> Prompt | None:
        if is_crowded(exchange.body):
            return self._odd(read, Code.CAPTURE_TOO_LARGE, f"a request is passed over: {too_many()}")
        dialect = self._dialect or dialect_of(exchange.body)
        if dialect is None:
            return self._odd(read, Code.REQUEST_NOT_JUDGED, "a body of no known dialect")
        parsed = dialect.parse(exchange.body, exchange.fidelity, self._memos.setdefault(dialect.name, Memo()))
        if parsed.model is None and (named := model_in(exchange.call.endpoint)) is not None:
            parsed = msgspec.structs.replace(parsed, model=named)
        whole, missing = self._continuations.whole(parsed, exchange, dialect)
        if missing:
            said = f"a request continues {missing}, which is not recorded whole: its prompt is partial"
            self._odd(read, Code.CONTINUATION, said)
        return without_dropped(whole, exchange.call.endpoint)

    def _odd(self, read: Read, code: str, said: str) -> None:
        self.problems.add(Problem(code, said), self.shown, read.line, read.byte)


def in_time(reads: Iterable[Read]) -> Iterator[Read]:
    """Yield exchanges by the time at which they were asked; everything else at once.

    Spans are written when they end, and exports list the latest first. What has no time stays behind what stood
    before it; equal times keep their order. What is held back is bounded: order is restored as far as that reaches.
    """
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
