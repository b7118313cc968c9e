"""What Gemini CLI prints with `--output-format stream-json`, and the base of readers of printed runs.

A run without a terminal prints `init`, the prompt (`message` of the user), the answer in pieces (`message` with
`delta`), calls (`tool_use`) and their results (`tool_result`); `result` counts the tokens of each model over the whole
run. No request has counts of its own, so the counts are further passes of the last request, whose own counts are
unknown; with one request and one model they are those of that request. `total_tokens` also counts thoughts, which no
other field does.

Source: `stream-json-formatter.ts` of gemini-cli 0.56 (August 2026).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.bills import usage_with_cached_input
from lore.formats.builder import LogReader
from lore.formats.lines import nonblank_lines
from lore.formats.values import call_item, opens, text_at
from lore.model import events as e
from lore.model.items import NULL, AssistantMessage, TextBlock, UserMessage, is_absent
from lore.model.jsonslice import members_at
from lore.model.state import Sign

_MEMBERS = {  # of records by type, with a time
    "init": {"session_id", "model"}, "message": {"role", "content"}, "tool_use": {"tool_name", "tool_id"},
    "tool_result": {"tool_id", "status"}, "error": {"severity", "message"}, "result": {"status", "stats"},
}  # fmt: skip


class _StreamTokens(Struct, frozen=True, gc=False):
    total_tokens: int | None = None  # with thoughts and the prompts of server tools
    input_tokens: int | None = None  # with `cached`
    output_tokens: int | None = None  # without thoughts
    cached: int | None = None


class _StreamStats(_StreamTokens, frozen=True, gc=False):
    models: dict[str, _StreamTokens] = {}


class _StreamRecord(Struct, frozen=True, gc=False):  # its type decides which fields it has
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
    error: dict[str, Raw] | None = None  # of a call, with a `message`
    stats: _StreamStats | None = None


class PrintedRun(LogReader):
    """A reader of what an agent prints without a screen. A format implements `recognises`, `handle` and `end_text`.

    Tokens are counted once for a run: no request has counts of its own.
    """

    client: ClassVar[str]
    prints_every_request: ClassVar[bool] = False  # so that the counts of a run of one request are those of the request

    def __init__(self) -> None:
        super().__init__()
        self.model: str | None = None
        self.response = ""  # name of the response whose parts arrive; empty: none does
        self._answered_at: str | None = None  # time of its latest record

    def finish(self) -> None:
        self.end_response()

    def start_part(self) -> str:
        """Return the name of the response that the current record belongs to; start a turn if none is open."""
        session = self.session
        if not self.response:
            session.start_turn(self.model)
            self.response = session.line_id
        self._answered_at = session.at
        return self.response

    def end_text(self) -> None:
        """Append the collected text of the response."""

    def end_response(self, usage: e.Usage | None = None) -> None:
        """End the open response, if any. The time of the current record is that of the next request."""
        session = self.session
        session.counter.asked_at = session.at
        if self.response:
            self.end_text()
            asked_at, session.at = session.at, self._answered_at
            session.end_turn(usage, self.response)
            session.at, self.response = asked_at, ""

    def end_run(self, sums: list[e.Usage]) -> None:
        """End the last response with the counts of the run."""
        if not self.response and sums:  # the run ended with a call, or answered nothing
            self.start_part()
        is_single = self.prints_every_request and self.session.counter.number == len(sums) == 1
        usage = e.Usage(iterations=tuple(sums), client=self.client) if sums else None
        self.end_response(sums[0] if is_single else usage)


class GeminiStream(PrintedRun):
    """Reader of the output of `gemini --output-format stream-json`."""

    name: ClassVar[str] = "gemini-cli-stream"
    client: ClassVar[str] = "gemini-cli"
    prints_every_request: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._text: list[bytes] = []  # pieces of the response's text, as they are in JSON
        self._messages = 0  # of the response

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in nonblank_lines(head):  # the beginning may be missing
            record = members_at(line)
            kind = text_at(record, "type")
            if kind not in _MEMBERS or not record.keys() >= {"timestamp", *_MEMBERS[kind]}:
                return False
            if kind != "message" or "delta" in record:  # other programs write messages, too
                return True
        return False

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_StreamRecord, data), self.session
        session.at = record.timestamp
        session.start_session(record.session_id, at=session.at, dialect="gemini")
        match record.type:
            case "init":
                self.model = record.model
            case "message" if opens(record.content) != '"':
                raise ValueError("content is no text")
            case "message" if record.role == "user":
                self.end_response()
                session.append(UserMessage(session.line_id, blocks=(TextBlock(record.content),)))
            case "message":
                self.start_part()
                self._text.append(bytes(record.content)[1:-1])
            case "tool_use":
                response = self.start_part()
                self.end_text()
                uuid = session.line_id
                session.append(call_item(uuid, record.tool_id or uuid, record.tool_name, record.parameters, response))
            case "tool_result":
                self.end_response()
                error = (record.error or {}).get("message", NULL)
                output = error if is_absent(record.output) else record.output
                output = Raw(b'""') if is_absent(output) else output
                session.add_result(record.tool_id, output, failed=record.status == "error", error=error)
            case "error":
                if record.severity == "error":
                    session.signal(Sign("api-error"))
            case "result":
                stats = record.stats
                counts = [] if stats is None else [*stats.models.items()] or [(self.model, stats)]
                self.end_run([_usage_of(model, tokens) for model, tokens in counts if tokens.input_tokens is not None])
            case kind:
                session.keep_unknown("unknown record type", kind)

    def end_text(self) -> None:
        text, self._text = b"".join(self._text), []
        if text:
            uuid, self._messages = f"{self.response}/{self._messages}", self._messages + 1
            blocks = (TextBlock(Raw(b'"%b"' % text)),)
            self.session.append(AssistantMessage(uuid, blocks=blocks, response_id=self.response))

    def end_response(self, usage: e.Usage | None = None) -> None:
        super().end_response(usage)
        self._messages = 0


def _usage_of(model: str | None, tokens: _StreamTokens) -> e.Usage:
    """Return the counts of a model's requests in the run, whose output includes thoughts."""
    thoughts = (tokens.total_tokens or 0) - (tokens.input_tokens or 0) - (tokens.output_tokens or 0)
    output = None if tokens.output_tokens is None else tokens.output_tokens + max(0, thoughts)
    usage = usage_with_cached_input(tokens.input_tokens, tokens.cached, None, output, client=GeminiStream.client)
    return replace(usage, kind=e.RUN, model=model)
