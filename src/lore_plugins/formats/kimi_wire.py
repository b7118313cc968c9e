"""The screen's log of Kimi CLI, `wire.jsonl`: a step is one request, and the status after its answer has its usage.

A prompt is sent if a step follows it; commands of the client (`/compact`, `/clear`) are not. A compaction keeps the
last two messages of user and model with their results; its summary and its request's usage are not logged. Events of
subagents are between the session's own; those with an id (`agent_id`) have files of their own and are skipped here.
"""

from __future__ import annotations

from collections import deque

from msgspec import Raw, Struct

from lore.formats import SessionBuilder, result_of, stamp_of, text_in
from lore.formats import kimi_content as kimi
from lore.model import NULL, AssistantMessage, Code, Item, Sign, TextBlock, UserMessage, encode
from lore.model import events as e


class _KimiCliEnvelope(Struct, frozen=True, gc=False):  # an event; its type determines its payload
    type: str
    payload: Raw = NULL


class KimiCliRecord(Struct, frozen=True, gc=False):
    """One line of either file; a line of `context.jsonl` has a role."""

    role: str | None = None
    content: Raw = NULL
    tool_calls: tuple[kimi.KimiCall, ...] | None = None
    tool_call_id: str | None = None
    token_count: int | None = None
    type: str | None = None
    timestamp: Raw = NULL
    message: _KimiCliEnvelope | None = None


# The payload of an event; its fields depend on the type. Older clients wrote `task_tool_call_id`.
class _KimiCliPayload(Struct, frozen=True, gc=False):
    user_input: Raw = NULL
    token_usage: kimi.KimiUsage | None = None
    message_id: str | None = None
    plan_mode: bool | None = None
    tool_call_id: str = ""
    return_value: dict[str, Raw] | None = None  # of a tool: `is_error`, `output`, the client's note as `message`
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: _KimiCliEnvelope | None = None


class KimiMark(Struct, gc=False, omit_defaults=True):
    """Usage, the begin or end of a compaction, or a signal."""

    kind: str  # usage, compacting, compacted or signal
    at: str | None
    asked_at: str | None = None  # when its request was sent
    name: str = ""  # of usage the message's id
    before: str = ""
    after: str = ""
    usage: kimi.KimiUsage | None = None


class _WireChain(Struct):
    prompts: list[tuple[str, str | None, Raw]] = []  # uuid, time and content of inputs, until a step sends them
    asked_at: str | None = None  # when the current step began
    response: str = ""  # the current step, "" until it has an answer
    is_compacting: bool = False  # the last prompt requests a compaction
    is_planning: bool | None = None


CLIENT = "kimi-cli"
_KEPT = 2  # messages of user and model that a compaction keeps
_CLEARS = (b'"/clear', b'"/reset')
_DIALECTS = {"msg_": "anthropic", "resp_": "openai-responses"}  # by the prefix of response ids
_CONTENTS = frozenset(("ContentPart", "TextPart", "ThinkPart", "ToolCall", "ToolResult"))
_SILENT = frozenset((
    "TurnEnd", "MCPLoadingBegin", "MCPLoadingEnd", "HookTriggered", "HookResolved", "HookRequest", "Notification",
    "PlanDisplay", "ToolCallPart", "ApprovalRequest", "ApprovalResponse", "ApprovalRequestResolved", "ToolCallRequest",
    "QuestionRequest", "QuestionResponse", "BtwBegin", "BtwEnd",
))  # fmt: skip


class WireLog:
    """Reports the records of `wire.jsonl` to a session."""

    def __init__(self, session: SessionBuilder) -> None:
        self.dialect = "openai-chat"
        self.has_context = False  # the messages of the main chain come from `context.jsonl`
        self.marks = deque[KimiMark]()  # of the main chain, until `context.jsonl` needs them
        self.last_asked_at: str | None = None  # when the main chain's last step began
        self._session = session
        self._chains: dict[str, _WireChain] = {}

    @property
    def _chain(self) -> _WireChain:
        return self._chains.setdefault(self._session.chain, _WireChain())

    @property
    def _has_messages(self) -> bool:
        """Whether the messages of the event's chain come from this file."""
        return not self.has_context or self._session.chain != e.MAIN

    def read(self, record: KimiCliRecord) -> None:
        message, session = record.message, self._session
        if message is not None:
            if self.has_context and session.is_started and message.type in _CONTENTS:
                return  # the other file has it
            session.at = stamp_of(record.timestamp)
            session.start_session(at=session.at, dialect=self.dialect)
            self._read_event(message)
        elif record.type != "metadata":
            session.keep_opaque(Code.UNKNOWN_RECORD, "a record without its message")

    def _read_event(self, event: _KimiCliEnvelope) -> None:
        chain, session = self._chain, self._session
        match event.type:
            case "ContentPart" | "TextPart" | "ThinkPart" if self._has_messages:
                if blocks := kimi.blocks_of(event.payload):
                    self._begin_answer(chain)
                    self._add_item(AssistantMessage(session.line_id, blocks=blocks, response_id=chain.response))
            case "ToolCall" if self._has_messages:
                call = session.decode(kimi.KimiCall, event.payload)
                self._begin_answer(chain)
                self._add_item(kimi.call_of(call, session.line_id, chain.response))
            case "ToolResult" if self._has_messages:
                payload = session.decode(_KimiCliPayload, event.payload)
                value = payload.return_value or {}
                text, has_failed = text_in(value.get("message", NULL)), bytes(value.get("is_error", NULL)) == b"true"
                note, blocks = f"ERROR: {text}" if has_failed else text, kimi.blocks_of(value.get("output", NULL))
                note = note or ("" if blocks else "Tool output is empty.")
                note_blocks = (TextBlock(Raw(encode(f"<system>{note}</system>"))),) if note else ()
                session.add_result(payload.tool_call_id, result_of((*note_blocks, *blocks)), failed=has_failed)
            case "TurnBegin" | "SteerInput":
                self._read_prompt(chain, event)
            case "StepBegin":
                self._begin_step(chain)
            case "StepInterrupted":
                self._add_mark(KimiMark("signal", session.at, name="interrupt"))
            case "StepRetry":
                self._add_mark(KimiMark("signal", session.at, name="api-error"))
            case "StatusUpdate":
                self._read_status(chain, session.decode(_KimiCliPayload, event.payload))
            case "CompactionBegin" | "CompactionEnd":
                chain.prompts = []  # the command that requested it
                kind = "compacting" if event.type == "CompactionBegin" else "compacted"
                self._add_mark(KimiMark(kind, session.at, name="manual" if chain.is_compacting else "auto"))
            case "SubagentEvent":
                payload = session.decode(_KimiCliPayload, event.payload)
                inner, call = payload.event, payload.parent_tool_call_id or payload.task_tool_call_id
                if payload.agent_id is None and inner is not None and inner.type != event.type:
                    session.chain = f"agent-{call or session.chain}"
                    self._read_event(inner)
            case kind:
                if kind not in _SILENT and kind not in _CONTENTS:
                    session.keep_unknown("unknown event type", kind)

    def _read_prompt(self, chain: _WireChain, event: _KimiCliEnvelope) -> None:
        session = self._session
        content = session.decode(_KimiCliPayload, event.payload).user_input
        chain.is_compacting = bytes(memoryview(content)[:9]) == b'"/compact'
        if not self._has_messages:
            return
        if event.type == "TurnBegin":  # waiting prompts were commands
            commands, chain.prompts = chain.prompts, []
            if any(bytes(memoryview(command)[:7]) in _CLEARS for _, _, command in commands):
                session.rewind_to(0)
        chain.prompts.append((session.line_id, session.at, content))

    def _begin_step(self, chain: _WireChain) -> None:
        """Begin a step, which sends the waiting prompts."""
        session = self._session
        self._cancel_answer(chain)
        chain.asked_at = session.at
        if session.chain == e.MAIN:
            self.last_asked_at = session.at
        prompts, chain.prompts = chain.prompts, []
        for uuid, session.at, content in prompts:
            if blocks := kimi.blocks_of(content):
                session.add_message(UserMessage(uuid, blocks=blocks))

    def _add_item(self, item: Item) -> None:
        history = self._session.history  # empty: it was cleared in the middle of a step
        self._session.add_item(history[-1] if history else self._session.add_message(), item)

    def _begin_answer(self, chain: _WireChain) -> None:
        """Start the turn of the current step with its first output."""
        if not chain.response:
            chain.response = self._session.line_id
            self._session.add_message()
            self._session.counter.asked_at = chain.asked_at
            self._session.start_turn(None)

    def _cancel_answer(self, chain: _WireChain) -> None:
        """End a step that answered without usage."""
        session = self._session
        if chain.response:
            chain.response = ""
            session.emit(e.TurnCanceled(turn=session.counter.number, chain=session.chain, at=session.at))

    def _read_status(self, chain: _WireChain, payload: _KimiCliPayload) -> None:
        session = self._session
        if payload.plan_mode is not None and payload.plan_mode != chain.is_planning:
            before, chain.is_planning = chain.is_planning, payload.plan_mode
            if before is not None:
                modes = ("plan", "default") if before else ("default", "plan")
                mark = KimiMark("signal", session.at, name="permission-mode", before=modes[0], after=modes[1])
                self._add_mark(mark)
        if not payload.token_usage:
            return
        name = payload.message_id or ""
        dialect = next((api for begin, api in _DIALECTS.items() if name.startswith(begin)), self.dialect)
        if dialect != self.dialect:
            self.dialect = dialect
            session.emit(e.SessionChanged(dialect=dialect, chain=session.chain))
        self._add_mark(KimiMark("usage", session.at, chain.asked_at, name, usage=payload.token_usage))

    def _add_mark(self, mark: KimiMark) -> None:
        if self._has_messages:
            self.emit_mark(mark)
        else:
            self.marks.append(mark)

    def emit_mark(self, mark: KimiMark) -> None:
        """Emit a mark at its time; usage ends the current step, or one without an answer in the files."""
        session, chain = self._session, self._chain
        event_at, session.at = session.at, mark.at
        if mark.usage is not None:
            chain.asked_at = mark.asked_at
            self._begin_answer(chain)
            chain.response = ""
            session.end_turn(kimi.billed(mark.usage, CLIENT, self.dialect), mark.name or None)
        elif mark.kind == "compacting":
            session.emit(e.CompactStarted(trigger=mark.name, chain=session.chain, at=mark.at))
        elif mark.kind == "signal":
            if mark.name == "interrupt":
                self._cancel_answer(chain)
            session.signal(Sign(mark.name, before=mark.before, after=mark.after))
        elif self._has_messages:
            session.compact(session.line_id, session.history[-_KEPT:], trigger=mark.name)
        session.at = event_at
