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

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.bills import usage_with_cached_input
from lore.formats.builder import LogReader
from lore.formats.lines import nonblank_lines
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


decode = lenient.decoding(StreamRecord)


class GeminiStream(LogReader):
    """Reader of such a run."""

    name: ClassVar[str] = "gemini-cli-stream"

    def __init__(self) -> None:
        super().__init__()
        self._model: str | None = None
        self._response = ""  # name of the response whose parts arrive; empty: none does
        self._text: list[bytes] = []  # pieces of its text, as they are in JSON
        self._answered_at: str | None = None  # time of its latest record
        self._messages = 0  # of the response

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        first = raw_members(next(nonblank_lines(head), b"")) or {}
        return first.keys() >= FIRST_KEYS and first["type"] == b'"init"'

    def handle(self, data: bytes) -> None:
        record, session = decode(data), self.session
        session.at = record.timestamp
        match record.type:
            case "init":
                self._model = record.model
                session.start_session(record.session_id, at=session.at, dialect="gemini")
            case "message" if record.role == "user":
                self._end_response(None)
                session.append(UserMessage(session.line_id, blocks=(TextBlock(_text(record.content)),)))
            case "message" | "tool_use":
                self._add_part(record)
            case "tool_result":
                self._end_response(None)
                error = NULL if record.error is None else record.error.message
                output = error if is_absent(record.output) else record.output
                output = Raw(b'""') if is_absent(output) else output
                session.add_result(record.tool_id, output, failed=record.status == "error", error=error)
            case "error":
                if record.severity == "error":
                    session.signal(Sign("api-error"))
            case "result":
                self._end_run(record.stats)
            case kind:
                session.keep_unknown("unknown record type", kind)

    def finish(self) -> None:
        self._end_response(None)

    def _add_part(self, record: StreamRecord) -> None:
        """Add to the response; the first part starts the turn. Pieces of text are one message."""
        session = self.session
        if not self._response:
            session.start_turn(self._model)
            self._response, self._messages = session.line_id, 0
        self._answered_at = session.at
        if record.type == "message":
            self._text.append(bytes(_text(record.content))[1:-1])
            return
        self._end_text()
        given = Raw(b"{}") if is_absent(record.parameters) else record.parameters
        call = record.tool_id or session.line_id
        session.append(ToolCall(session.line_id, call, record.tool_name, given, response_id=self._response))

    def _end_text(self) -> None:
        text, self._text = b"".join(self._text), []
        if text:
            uuid, self._messages = f"{self._response}/{self._messages}", self._messages + 1
            blocks = (TextBlock(Raw(b'"%b"' % text)),)
            self.session.append(AssistantMessage(uuid, blocks=blocks, response_id=self._response))

    def _end_response(self, usage: e.Usage | None) -> None:
        """End the response, if there is one; the next request is asked for by the record that ends it."""
        session = self.session
        session.counter.asked_at = session.at
        if self._response:
            self._end_text()
            asked_at, session.at = session.at, self._answered_at
            session.end_turn(usage, self._response)
            session.at, self._response = asked_at, ""

    def _end_run(self, stats: StreamStats | None) -> None:
        """End the last response with the counts of the run."""
        sums = list(_sums(stats or StreamStats()))
        if not self._response and sums:  # the run ended with a call, or answered nothing
            self.session.start_turn(self._model)
            self._response, self._answered_at = self.session.line_id, self.session.at
        is_single = self.session.counter.number == len(sums) == 1
        usage = e.Usage(iterations=tuple(sums), client=CLIENT) if sums else None
        self._end_response(sums[0] if is_single else usage)


def _text(raw: Raw) -> Raw:
    if bytes(memoryview(raw)[:1]) != b'"':
        raise ValueError("content is no text")
    return raw


def _sums(stats: StreamStats) -> Iterator[e.Usage]:
    """Yield the counts of each model."""
    for model, tokens in stats.models.items():
        thoughts = (tokens.total_tokens or 0) - (tokens.input_tokens or 0) - (tokens.output_tokens or 0)
        output = None if tokens.output_tokens is None else tokens.output_tokens + max(0, thoughts)
        usage = usage_with_cached_input(tokens.input_tokens, tokens.cached, None, output, client=CLIENT)
        yield replace(usage, kind=RUN, model=model)
