"""What Codex CLI prints with `codex exec --json`: JSON Lines of a thread.

`thread.started` names the thread, `turn.started` begins the work on a prompt of the user, which is not printed, and
`turn.completed` ends it with the sums of the thread so far, those of earlier processes that it resumes included. Items
are printed when they start, change and end: what the model said, and the calls of tools with their results. A result
ends a response: what the model says after it belongs to the next request. Calls of some tools (`write_stdin`,
`view_image`) and compactions are not printed, so a turn may have made more requests than its items show: its tokens are
never those of one request. Each process numbers its items from 0; a file may hold the output of several, one after
another. A thread that is not the first one is a chain.

Sources: `exec_events.rs` of codex-rs, and public readers of its output (autumn 2026).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import astuple, replace

from lore.formats import (
    PrintedRun,
    blocks_in,
    nonblank_lines,
    object_of,
    opens,
    result_of,
    text_at,
    text_in,
    usage_with_cached_input,
)
from lore.model import MAIN, NULL, RUN, AssistantMessage, Sign, TextBlock, ThinkingBlock, ToolCall, members_at

# Types of items that are calls of tools: the tool's name, and the members that are its arguments.
_CALLS = {
    "command_execution": ("shell", ("command",)), "file_change": ("apply_patch", ("changes",)),
    "mcp_tool_call": ("mcp", ()), "collab_tool_call": ("collab", ("receiver_thread_ids", "prompt")),
    "web_search": ("web_search", ("query",)), "todo_list": ("update_plan", ("items",)),
}  # fmt: skip
_TEXTS = frozenset(("agent_message", "plan", "reasoning"))
_ITEMS = frozenset((*_CALLS, *_TEXTS, "error"))
_FAILED = frozenset(("failed", "declined"))


class _ExecUsage(Struct, frozen=True, gc=False):  # the sums of a thread; all are 0 if nothing was counted
    input_tokens: int = 0  # with those read from a cache and written to one
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class _ExecRecord(Struct, frozen=True, gc=False):  # its type decides which fields it has
    type: str
    thread_id: str = ""
    item: dict[str, Raw] = {}
    usage: _ExecUsage | None = None


class CodexExec(PrintedRun):
    """Reader of what Codex CLI prints."""

    name: ClassVar[str] = "codex-exec"
    client: ClassVar[str] = "codex"
    unseen: ClassVar[str] = (
        "prompts of the user, the system prompt, the schemas of tools, the name of the model and the tokens of single"
        " requests (only their sum)"
    )

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, str] = {}  # the item of each open call
        self._first = ""  # the thread that is the main chain
        self._chain = MAIN
        self._sums: dict[str, _ExecUsage] = {}  # of each chain, at the end of its latest turn

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in nonblank_lines(head):  # the beginning may be missing
            record = members_at(line)
            kind, item = text_at(record, "type"), members_at(record, "item")
            if kind == "thread.started" or item:
                return "thread_id" in record or ("id" in item and text_at(item, "type") in _ITEMS)
            if kind != "turn.started":
                return False
        return False

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_ExecRecord, data), self.session
        session.chain = self._chain
        session.start_session(record.thread_id, dialect="openai-responses")
        match record.type:
            case "thread.started":
                self.end_response()
                self._calls.clear()
                self._first = self._first or record.thread_id
                self._chain = MAIN if record.thread_id == self._first else record.thread_id
            case "item.started" | "item.updated" | "item.completed":
                self._read_item(record.item, text_in(record.item.get("type", NULL)), record.type)
            case "turn.completed" if record.usage is not None:
                self._end_turn(record.usage)
            case "turn.failed" | "error":
                self.end_response()
                session.signal(Sign("api-error"))
            case kind:
                if kind not in ("turn.started", "turn.completed"):
                    session.keep_unknown("unknown record type", kind)

    def finish(self) -> None:
        self.session.chain = self._chain
        super().finish()

    def _read_item(self, item: dict[str, Raw], kind: str, event: str) -> None:
        session, text = self.session, item.get("text", NULL)
        if kind == "todo_list":  # each change is a call; at the end of the turn it is shown again
            if event != "item.completed":
                call = self._start_call(item, kind)
                self.end_response()
                session.add_result(call, Raw(b'""'), failed=False)
        elif kind == "web_search":  # which the provider runs within the response; its query is known at its end
            if event == "item.completed":
                self._start_call(item, kind)
        elif kind in _CALLS:
            name = text_in(item.get("id", NULL))
            call = self._calls.pop(name, "") or self._start_call(item, kind)
            if event != "item.completed":
                self._calls[name] = call
            else:
                self.end_response()
                session.add_result(call, _output_of(item), failed=text_in(item.get("status", NULL)) in _FAILED)
        elif kind in _TEXTS:
            if event == "item.completed" and opens(text) == '"':
                block = ThinkingBlock(text) if kind == "reasoning" else TextBlock(text)
                response = self.start_part()
                session.append(AssistantMessage(session.line_id, blocks=(block,), response_id=response))
        elif kind != "error":
            session.keep_unknown("unknown item type", kind)

    def _start_call(self, item: dict[str, Raw], kind: str) -> str:
        response, call = self.start_part(), self.session.line_id
        tool, names = _CALLS[kind]
        tool = "__".join(filter(None, (text_in(item.get(name, NULL)) for name in ("server", "tool")))) or tool
        arguments = item.get("arguments", NULL)
        if opens(arguments) != "{":
            arguments = Raw(object_of({name: bytes(item[name]) for name in names if name in item}))
        self.session.append(ToolCall(call, call, tool, arguments, response_id=response))
        return call

    def _end_turn(self, sums: _ExecUsage) -> None:
        before, self._sums[self._chain] = self._sums.get(self._chain, _ExecUsage()), sums
        growth = [now - then for now, then in zip(astuple(sums), astuple(before), strict=True)]
        whole, read, write, output = growth if min(growth) >= 0 else astuple(sums)
        run = usage_with_cached_input(whole, read, write or None, output, client=self.client)
        self.end_run([replace(run, kind=RUN)] if any(growth) else [])


def _output_of(item: dict[str, Raw]) -> Raw:
    """Return a command's output, an error's message, or the content of a result."""
    output = item.get("aggregated_output", NULL)
    members = members_at(item, "error") or members_at(item, "result")
    content = Raw(members.get("message", members.get("content", b"null")))
    return output if opens(output) == '"' else result_of(blocks_in(content))
