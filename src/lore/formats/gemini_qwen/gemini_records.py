"""Records of Gemini CLI's chats, decoded as far as a timeline needs them.

In: a line of a JSONL chat, or a message of the older document. Out: a `GeminiRecord`, its calls and its bill.
Rules: a record is decoded once; content stays raw; a wrong type of a field that is read raises ValueError.

Sources: counts over 15 public chats; `chatRecordingService.ts` and `chatRecordingTypes.ts` of gemini-cli 0.56 (August
2026).
"""

from __future__ import annotations

from msgspec import Raw, Struct, field

from lore.formats.bills import split
from lore.formats.gemini_qwen import content as google
from lore.model import events as e
from lore.model import lenient
from lore.model.items import NULL, Status, ToolCall, is_absent

CLIENT = "gemini-cli"
STATUS: dict[str, Status] = {"success": "completed", "error": "failed", "cancelled": "failed"}
_NO_INPUT = Raw(b"{}")


class GeminiTokens(Struct, frozen=True, gc=False):
    """A bill: `input` includes `cached`; `output`, `thoughts` and `tool` (prompts of server tools) stand beside."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None
    total: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all counts are zero: the client writes so what it was not told."""
        return not any((self.input, self.output, self.cached, self.thoughts, self.tool, self.total))


class GeminiCall(Struct, frozen=True, gc=False, rename="camel"):
    """A call with its result; `timestamp` is when that was noted."""

    id: str = ""
    name: str = ""
    args: Raw = NULL
    result: Raw = NULL
    status: str = ""
    timestamp: str | None = None


class GeminiRecord(Struct, frozen=True, gc=False, rename="camel"):
    """A line or a message: a message has an id and a type; others say something of the chat."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw = NULL
    model: str | None = None
    thoughts: tuple[Raw, ...] | None = None
    tokens: GeminiTokens | None = None
    tool_calls: tuple[GeminiCall, ...] | None = None
    session_id: str | None = None
    start_time: str | None = None
    kind: str | None = None
    changes: Raw = field(default=NULL, name="$set")
    rewind_to: str | None = field(default=None, name="$rewindTo")


class Changes(Struct, frozen=True, gc=False, rename="camel"):
    """What `$set` says: a history that was rewritten, or notes of the chat."""

    messages: tuple[Raw, ...] | None = None
    session_id: str | None = None


decode = lenient.decoding(GeminiRecord)
changes_of = lenient.decoding(Changes)


def billed(tokens: GeminiTokens | None) -> e.Billed | None:
    """Read a message's counts; None where the client was told none."""
    if tokens is None or tokens.is_empty:
        return None
    besides = tuple[e.Iteration, ...]()
    if tokens.thoughts:
        besides = (e.Iteration(0, 0, 0, tokens.thoughts, kind="thoughts"),)
    if tokens.tool:
        besides = (*besides, e.Iteration(tokens.tool, 0, 0, 0, kind="tool_use_prompt"))
    return split(tokens.input, tokens.cached, None, tokens.output, besides=besides, client=CLIENT)


def calls_of(record: GeminiRecord, content: google.GoogleContent, prefix: str, response: str) -> list[ToolCall]:
    """Return a message's calls, each with its result where that is noted; uuids begin with `prefix`."""
    made: dict[str, ToolCall] = {}
    for call in record.tool_calls or ():
        name = call.id or f"{prefix}{len(made) + 1}"
        outcome = google.result_of(call.result, call.id, call.name)
        status: Status = STATUS.get(call.status, "running")
        if outcome is None:
            output, error = (Raw(b'""'), Raw(b'""')) if status != "running" else (call.result, call.result)
        else:
            output, error = outcome.output, outcome.error
        args = _NO_INPUT if is_absent(call.args) else call.args
        made[name] = ToolCall(f"{prefix}{name}", name, call.name, args, status, output, error, response_id=response)
    for part in content.calls:
        if (part.id is None and record.tool_calls) or part.id in made:
            continue
        name = part.id or f"{prefix}{len(made) + 1}"
        args = _NO_INPUT if is_absent(part.args) else part.args
        made[name] = ToolCall(f"{prefix}{name}", name, part.name, args, response_id=response)
    return list(made.values())


def mark_of(output: Raw, error: Raw) -> int:
    """Return the digest of a result."""
    return google.digest(output) if is_absent(error) else google.digest(output, error)
