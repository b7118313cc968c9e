"""What Gemini CLI prints with `--output-format stream-json`: one run without a terminal, a record a line.

`init`, then the prompt (`message` of the user), the answer in pieces (`message` with `delta`), calls (`tool_use`) and
their results (`tool_result`); `result` ends the run and counts the tokens of each model over the whole run. No request
has counts of its own, so the counts are further passes of the last request, whose own counts are unknown; with one
request and one model they are the counts of that request. `total_tokens` also counts thoughts, which no other field
does.

Source: `packages/core/src/output/types.ts`, `stream-json-formatter.ts` and `packages/cli/src/nonInteractiveCli.ts` of
gemini-cli (August 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats.bills import split
from lore.formats.lines import each
from lore.formats.transcripts import TranscriptLines, TranscriptTurns
from lore.model import events as e
from lore.model import lenient
from lore.model.items import NULL, AssistantMessage, TextBlock, ToolCall, UserMessage, is_absent
from lore.model.jsonslice import raw_members
from lore.model.state import Sign

CLIENT = "gemini-cli"
RUN = "run"  # kind of the pass that is the sum over a run
FIRST_KEYS = frozenset(("type", "timestamp", "session_id", "model"))


class StreamTokens(Struct, frozen=True, gc=False):
    """The tokens of a model over the run."""

    total_tokens: int | None = None  # with thoughts and the prompts of server tools
    input_tokens: int | None = None  # with `cached`
    output_tokens: int | None = None  # without thoughts
    cached: int | None = None


class StreamStats(Struct, frozen=True, gc=False):
    """The counts of a run."""

    models: dict[str, StreamTokens] = {}


class StreamError(Struct, frozen=True, gc=False):
    """Why a call failed."""

    message: Raw = NULL


class StreamRecord(Struct, frozen=True, gc=False):
    """A record. Which fields there are depends on `type`."""

    type: str
    timestamp: str | None = None
    session_id: str = ""
    model: str | None = None
    role: str = ""
    content: Raw = Raw(b'""')
    tool_name: str = ""
    tool_id: str = ""
    parameters: Raw = NULL
    status: str = ""
    severity: str = ""
    output: Raw = NULL
    error: StreamError | None = None
    stats: StreamStats | None = None


class StreamMemory(Struct):
    """All that the reader remembers."""

    is_started: bool = False
    model: str | None = None
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    response: str = ""  # name of the response whose parts arrive; empty: none does
    text: list[bytes] = []  # pieces of its text, as they stand in JSON
    at: str | None = None  # time of its latest record
    spoken: int = 0  # messages that it has


decode = lenient.decoding(StreamRecord)


class GeminiStream(TranscriptLines[StreamMemory]):
    """Reader of such a run."""

    name: ClassVar[str] = "gemini-cli-stream"
    memory = StreamMemory

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        first = raw_members(next(each(head), b"")) or {}
        return first.keys() >= FIRST_KEYS and first["type"] == b'"init"'

    def _take(self, data: bytes) -> None:
        record, memory = decode(data), self._memory
        self._at = record.timestamp
        match record.type:
            case "init":
                memory.model = record.model
                if not memory.is_started:
                    memory.is_started = True
                    self._emit(e.SessionStarted(session_id=record.session_id, at=self._at, dialect="gemini"))
            case "message" if record.role == "user":
                self._end_response(None)
                memory.turns.asked_at = self._at
                self._append(UserMessage(self._line_name(), blocks=(TextBlock(_text(record.content)),)))
            case "message" | "tool_use":
                self._add_part(record)
            case "tool_result":
                self._end_response(None)
                memory.turns.asked_at = self._at
                failed = record.status == "error"
                error = NULL if record.error is None else record.error.message
                output = error if is_absent(record.output) else record.output
                self._patch(record.tool_id, Raw(b'""') if is_absent(output) else output, failed=failed, error=error)
            case "error":
                if record.severity == "error":
                    self._observe(Sign("api-error"))
            case "result":
                self._end_run(record.stats)
            case kind:
                self._unknown("unknown record type", kind)

    def _last(self) -> None:
        self._end_response(None)

    def _line_name(self) -> str:
        return f"line-{self._line.number}"

    def _add_part(self, record: StreamRecord) -> None:
        """Add to the response; the first part begins the turn. Pieces of text are one message."""
        memory = self._memory
        if not memory.response:
            self._start_turn(memory.turns, memory.model)
            memory.response, memory.turns.asked_at, memory.spoken = self._line_name(), None, 0
        memory.at = self._at
        if record.type == "message":
            memory.text.append(bytes(_text(record.content))[1:-1])
            return
        self._end_text()
        given = Raw(b"{}") if is_absent(record.parameters) else record.parameters
        call = record.tool_id or self._line_name()
        self._append(ToolCall(self._line_name(), call, record.tool_name, given, response_id=memory.response))

    def _end_text(self) -> None:
        memory, text = self._memory, b"".join(self._memory.text)
        memory.text = []
        if text:
            uuid, memory.spoken = f"{memory.response}/{memory.spoken}", memory.spoken + 1
            blocks = (TextBlock(Raw(b'"%b"' % text)),)
            self._append(AssistantMessage(uuid, blocks=blocks, response_id=memory.response))

    def _end_response(self, usage: e.Usage | None) -> None:
        memory = self._memory
        if memory.response:
            self._end_text()
            name, memory.response = memory.response, ""
            self._emit(e.TurnCompleted(turn=memory.turns.turn, at=memory.at, usage=usage, response_id=name))

    def _end_run(self, stats: StreamStats | None) -> None:
        """End the last response with the counts of the run."""
        memory, sums = self._memory, list(_sums(stats or StreamStats()))
        if not memory.response and sums:  # it ended with a call, or answered nothing
            self._start_turn(memory.turns, memory.model)
            memory.response, memory.at = self._line_name(), self._at
        alone = memory.turns.turn == len(sums) == 1
        self._end_response(sums[0] if alone else e.Usage(iterations=tuple(sums), client=CLIENT) if sums else None)


def _text(raw: Raw) -> Raw:
    if bytes(memoryview(raw)[:1]) != b'"':
        raise ValueError("content is no text")
    return raw


def _sums(stats: StreamStats) -> Iterator[e.Usage]:
    """Yield the counts of each model."""
    for model, tokens in stats.models.items():
        thoughts = (tokens.total_tokens or 0) - (tokens.input_tokens or 0) - (tokens.output_tokens or 0)
        output = None if tokens.output_tokens is None else tokens.output_tokens + max(0, thoughts)
        usage = split(tokens.input_tokens, tokens.cached, None, output, client=CLIENT)
        yield replace(usage, kind=RUN, model=model)
