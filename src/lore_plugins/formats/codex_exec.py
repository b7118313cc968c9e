"""What Codex CLI prints with `codex exec --json`: JSON Lines of a thread.

`thread.started` names the thread, `turn.started` begins the work on a prompt of the user, which is not printed, and
`turn.completed` ends it with the sums of the thread so far, those of earlier processes that it resumes included. Items
are printed when they start, change and end: what the model said, and the calls of tools with their results. A result
ends a response: what the model says after it belongs to the next request.

Sources: `exec_events.rs` of codex-rs, and public readers of its output (autumn 2026).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import (
    RUN,
    PrintedRun,
    blocks_in,
    nonblank_lines,
    object_of,
    opens,
    result_of,
    text_in,
    usage_with_cached_input,
)
from lore.model import NULL, AssistantMessage, Sign, TextBlock, ThinkingBlock, ToolCall, lenient, raw_members

_EMPTY = Raw(b'""')
# Types of items that are calls of tools: the tool's name, and the members that are its arguments.
_CALLS = {
    "command_execution": ("shell", ("command",)), "file_change": ("apply_patch", ("changes",)),
    "mcp_tool_call": ("mcp", ()), "collab_tool_call": ("collab", ("receiver_thread_ids", "prompt")),
    "web_search": ("web_search", ("query",)), "todo_list": ("update_plan", ("items",)),
}  # fmt: skip
_TEXTS = frozenset(("agent_message", "plan", "reasoning"))
_ITEMS = frozenset((*_CALLS, *_TEXTS, "error"))
_FAILED = frozenset(("failed", "declined"))


class ExecUsage(Struct, frozen=True, gc=False):
    """The sums of a thread."""

    input_tokens: int = 0  # with cached ones
    cached_input_tokens: int = 0
    output_tokens: int = 0


class ExecRecord(Struct, frozen=True, gc=False):
    """A record. Which fields there are depends on `type`."""

    type: str
    thread_id: str = ""
    item: dict[str, Raw] = {}
    usage: ExecUsage | None = None


decode_exec = lenient.decoding(ExecRecord)


class CodexExec(PrintedRun):
    """Reader of what Codex CLI prints."""

    name: ClassVar[str] = "codex-exec"
    client: ClassVar[str] = "codex"
    unseen: ClassVar[str] = "prompts of the user, the system prompt, the schemas of tools and the name of the model"

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, str] = {}  # the item of each open call
        self._sums = ExecUsage()  # of the thread, at the end of its latest turn

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in nonblank_lines(head):  # the beginning may be missing
            record = raw_members(line) or {}
            kind, item = text_in(record.get("type", b"")), raw_members(record.get("item", b"")) or {}
            if kind == "thread.started" or item:
                return "thread_id" in record or ("id" in item and text_in(item.get("type", b"")) in _ITEMS)
            if kind != "turn.started":
                return False
        return False

    def handle(self, data: bytes) -> None:
        record, session = decode_exec(data), self.session
        session.start_session(record.thread_id, dialect="openai-responses")
        match record.type:
            case "item.started" | "item.updated" | "item.completed":
                self._read_item(record.item, text_in(record.item.get("type", NULL)), record.type)
            case "turn.completed" if record.usage is not None:
                self._end_turn(record.usage)
            case "turn.failed" | "error":
                self.end_response()
                session.signal(Sign("api-error"))
            case kind:
                if kind not in ("thread.started", "turn.started"):
                    session.keep_unknown("unknown record type", kind)

    def _read_item(self, item: dict[str, Raw], kind: str, event: str) -> None:
        session, text = self.session, item.get("text", NULL)
        if kind == "todo_list":  # each change is a call; at the end of the turn it is shown again
            if event != "item.completed":
                self._end_call(self._start_call(item, kind), _EMPTY, failed=False)
        elif kind in _CALLS:
            name = text_in(item.get("id", NULL))
            call = self._calls.pop(name, "") or self._start_call(item, kind)
            if event != "item.completed":
                self._calls[name] = call
            elif kind != "web_search":  # which the provider runs within the response
                self._end_call(call, _output_of(item), failed=text_in(item.get("status", NULL)) in _FAILED)
        elif kind in _TEXTS:
            if event == "item.completed" and opens(text) == '"':
                block = ThinkingBlock(text) if kind == "reasoning" else TextBlock(text)
                response = self.start_part()
                session.append(AssistantMessage(session.line_id, blocks=(block,), response_id=response))
        elif kind != "error":
            session.keep_unknown("unknown item type", kind)

    def _start_call(self, item: dict[str, Raw], kind: str) -> str:
        """Append a call; return its id."""
        response, call = self.start_part(), self.session.line_id
        tool, names = _CALLS[kind]
        tool = "__".join(filter(None, (text_in(item.get(name, NULL)) for name in ("server", "tool")))) or tool
        given = item.get("arguments", NULL)
        if opens(given) != "{":
            given = Raw(object_of({name: bytes(item[name]) for name in names if name in item}))
        self.session.append(ToolCall(call, call, tool, given, response_id=response))
        return call

    def _end_call(self, call: str, output: Raw, *, failed: bool) -> None:
        self.end_response()
        self.session.add_result(call, output, failed=failed)

    def _end_turn(self, sums: ExecUsage) -> None:
        before, self._sums = self._sums, sums
        whole, read = (getattr(sums, name) - getattr(before, name) for name in ("input_tokens", "cached_input_tokens"))
        output = sums.output_tokens - before.output_tokens
        run = usage_with_cached_input(whole, read, None, output, client=self.client)
        self.end_run([replace(run, kind=RUN)])


def _output_of(item: dict[str, Raw]) -> Raw:
    """Return what a tool answered: a command's output, an error's message, or the content of a result."""
    output = item.get("aggregated_output", NULL)
    members = raw_members(bytes(item.get("error", NULL))) or raw_members(bytes(item.get("result", NULL))) or {}
    content = Raw(members.get("message", members.get("content", b"null")))
    return output if opens(output) == '"' else result_of(blocks_in(content))
