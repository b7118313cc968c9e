"""The screen's log of Kimi CLI (`wire.jsonl`): prompts, steps with their parts and calls, usage, compactions.

A step is one request; the status after its answer has its usage. A prompt is sent if a step follows it; commands of the
client (`/compact`, `/clear`) are not. A compaction keeps the last two messages of user and model with their results;
its summary and its request's usage are not logged. Events of subagents are between the session's own; those with an id
(`agent_id`) have files of their own and are skipped here.

In a session's folder the messages come from `context.jsonl`; usage, compactions and signals are then kept as marks.

Source: `wire/types.py`, `wire/file.py`, `soul/context.py` and kosong's `message.py` of kimi-cli, wire protocol 1.10 and
before (July 2026).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from lore.formats import SessionBuilder, result_of, stamp_of, text_in
from lore.formats import kimi_content as kimi
from lore.model import NULL, AssistantMessage, Code, Item, Sign, TextBlock, UserMessage, encode, lenient
from lore.model import events as e

T = TypeVar("T", bound=Struct)


class KimiCliEnvelope(Struct, frozen=True, gc=False):
    """An event; its type determines its payload."""

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
    message: KimiCliEnvelope | None = None


class Value(Struct, frozen=True, gc=False):
    """The result of a tool."""

    is_error: bool = False
    output: Raw = NULL
    message: Raw = NULL  # the client's note for the model


class KimiCliPayload(Struct, frozen=True, gc=False):
    """The payload of an event; its fields depend on the type. Older clients wrote `task_tool_call_id`."""

    user_input: Raw = NULL
    token_usage: kimi.KimiUsage | None = None
    message_id: str | None = None
    plan_mode: bool | None = None
    tool_call_id: str = ""
    return_value: Value | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: KimiCliEnvelope | None = None


decode = lenient.decoding(KimiCliRecord)
PAYLOAD = msgspec.json.Decoder(KimiCliPayload)
CALL = msgspec.json.Decoder(kimi.KimiCall)


def decode_payload(envelope: KimiCliEnvelope, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode the payload of an event; raise ValueError if it is invalid."""
    return lenient.decoded(decoder, envelope.payload)


class KimiMark(Struct, gc=False, omit_defaults=True):
    """Usage, the begin or end of a compaction, or a signal."""

    kind: str  # bill, compacting, compacted or sign
    at: str | None
    asked_at: str | None = None  # when its request was sent
    name: str = ""  # of usage the message's id
    before: str = ""
    after: str = ""
    usage: kimi.KimiUsage | None = None


class KimiPrompt(Struct, gc=False):
    """A user's input, until a step shows that it was sent."""

    uuid: str
    at: str | None
    content: Raw


class WireChain(Struct):
    """The state of a chain of the screen's log."""

    prompts: list[KimiPrompt] = []
    asked_at: str | None = None  # when the current step began
    response: str = ""  # the current step, "" until it has an answer
    messages: list[list[str]] = []  # items of each message in the history
    command: bool = False  # whether the last prompt requests a compaction
    planning: bool | None = None


class KimiSent(Struct, gc=False):
    """A line of the model's log."""

    digest: int  # of its length and checksum
    items: tuple[str, ...] = ()
    is_message: bool = False


class KimiRequest(Struct):
    """The current request in the model's log."""

    turn: int
    bill: KimiMark | None = None
    asked: int | None = None  # whole input in tokens
    answered: bool = False


class ContextState(Struct):
    """The state of the model's log.

    `phase` is `same` while the lines equal those of the file before, `parted` after a different line that is not a
    message, `kept` after a summary while kept messages follow, `restored` while already answered messages follow, and
    then `new`.
    """

    file: str = ""
    lines: list[KimiSent] = []  # of this file
    before: list[KimiSent] = []  # of the file that it replaced; in the phase `kept` only messages
    phase: str = "same"
    same: int = 0  # lines equal to those of the file before
    kept: int = 0  # messages that the compaction kept so far
    places: list[int] = []  # indexes in `before` at which the next kept message may be
    summary: Raw = NULL
    divider: str = ""
    asked: int | None = None  # whole input of the next request
    request: KimiRequest | None = None
    played: int = 0  # marks that were emitted


class KimiMemory(Struct):
    """The state of a reader."""

    joined: bool = False  # whether the messages come from the model's log
    dialect: str = "openai-chat"
    chains: dict[str, WireChain] = {}
    marks: list[KimiMark] = []  # of the screen's log, until the model's log needs them
    context: ContextState = field(default_factory=ContextState)


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


class Wire:
    """Emits the events of the screen's log."""

    session: SessionBuilder

    def __init__(self) -> None:
        super().__init__()
        self._memory = KimiMemory()

    def _start_session(self) -> None:
        self.session.start_session(at=self.session.at, dialect=self._memory.dialect)

    def _known(self, name: str = "") -> WireChain:
        """Return the state of a chain, by default that of the event."""
        chains, name = self._memory.chains, name or self.session.chain
        return chains.get(name) or chains.setdefault(name, WireChain())

    @property
    def _is_told(self) -> bool:
        """Whether the messages of the event's chain come from this file."""
        return not self._memory.joined or self.session.chain != e.MAIN

    def _wire(self, record: KimiCliRecord) -> None:
        """Read a line of `wire.jsonl`."""
        message = record.message
        if message is not None:
            if self._memory.joined and self.session.is_started and message.type in _CONTENTS:
                return  # the other file has it
            self.session.at = stamp_of(record.timestamp)
            self._start_session()
            self._event(message)
        elif record.type != "metadata":
            self.session.keep_opaque(Code.UNKNOWN_RECORD, "a record without its message")

    def _event(self, event: KimiCliEnvelope) -> None:
        match event.type:
            case "TurnBegin" | "SteerInput":
                self._prompt(event)
            case "StepBegin":
                self._step()
            case "StepInterrupted" | "StepRetry":
                name = "api-error" if event.type == "StepRetry" else "interrupt"
                self._mark(KimiMark("sign", self.session.at, name=name))
            case "ContentPart" | "TextPart" | "ThinkPart" if self._is_told:
                self._part(event)
            case "ToolCall" if self._is_told:
                call, own = decode_payload(event, CALL), self._answer()
                self._say(own, kimi.call_of(call, self.session.line_id, own.response))
            case "ToolResult" if self._is_told:
                payload = decode_payload(event, PAYLOAD)
                value = payload.return_value or Value()
                self.session.add_result(payload.tool_call_id, _returned(value), failed=value.is_error)
            case "StatusUpdate":
                self._status(event)
            case "CompactionBegin" | "CompactionEnd":
                self._compaction(event)
            case "SubagentEvent":
                self._subagent(event)
            case kind if kind not in _SILENT and kind not in _CONTENTS:
                self.session.keep_unknown("unknown event type", kind)
            case _:
                pass

    def _subagent(self, event: KimiCliEnvelope) -> None:
        payload = decode_payload(event, PAYLOAD)
        inner, call = payload.event, payload.parent_tool_call_id or payload.task_tool_call_id
        if payload.agent_id is None and inner is not None and inner.type != event.type:
            self.session.chain = f"agent-{call or self.session.chain}"
            self._event(inner)

    def _prompt(self, event: KimiCliEnvelope) -> None:
        own, content = self._known(), decode_payload(event, PAYLOAD).user_input
        own.command = bytes(memoryview(content)[:9]) == b'"/compact'
        if not self._is_told:
            return
        if event.type == "TurnBegin":  # waiting prompts were commands
            commands, own.prompts = own.prompts, []
            if own.messages and any(bytes(memoryview(prompt.content)[:7]) in _CLEARS for prompt in commands):
                removed, own.messages = tuple(item for message in own.messages for item in message), []
                self.session.emit(e.Remove(uuids=removed, chain=self.session.chain, at=self.session.at))
        own.prompts.append(KimiPrompt(self.session.line_id, self.session.at, content))

    def _step(self) -> None:
        """Begin a step, which sends the waiting prompts."""
        own = self._known()
        self._abandon(own)
        own.asked_at = self.session.at
        prompts, own.prompts = own.prompts, []
        for prompt in prompts:
            blocks = kimi.blocks_of(prompt.content)
            if blocks:
                own.messages.append([])
                self.session.at = prompt.at
                self._say(own, UserMessage(prompt.uuid, blocks=blocks))

    def _say(self, own: WireChain, item: Item) -> None:
        if not own.messages:  # cleared in the middle of a step
            own.messages.append([])
        own.messages[-1].append(item.uuid)
        self.session.append(item)

    def _answer(self) -> WireChain:
        """Return the chain, starting the turn of the current step with its first output."""
        own = self._known()
        if not own.response:
            own.response = self.session.line_id
            own.messages.append([])
            self.session.counter.asked_at = own.asked_at
            self.session.start_turn(None)
        return own

    def _abandon(self, own: WireChain) -> None:
        """End a step that answered without usage."""
        if own.response:
            own.response = ""
            self.session.emit(
                e.TurnCanceled(turn=self.session.counter.number, chain=self.session.chain, at=self.session.at)
            )

    def _part(self, event: KimiCliEnvelope) -> None:
        blocks = kimi.blocks_of(event.payload)
        if blocks:
            own = self._answer()
            self._say(own, AssistantMessage(self.session.line_id, blocks=blocks, response_id=own.response))

    def _status(self, event: KimiCliEnvelope) -> None:
        payload, own, at = decode_payload(event, PAYLOAD), self._known(), self.session.at
        if payload.plan_mode is not None and payload.plan_mode != own.planning:
            before, own.planning = own.planning, payload.plan_mode
            if before is not None:
                modes = ("plan", "default") if before else ("default", "plan")
                self._mark(KimiMark("sign", at, name="permission-mode", before=modes[0], after=modes[1]))
        if payload.token_usage is None:
            return
        name = payload.message_id or ""
        dialect = next((own for begin, own in _DIALECTS.items() if name.startswith(begin)), self._memory.dialect)
        if dialect != self._memory.dialect:
            self._memory.dialect = dialect
            self.session.emit(e.SessionChanged(dialect=dialect, chain=self.session.chain))
        self._mark(KimiMark("bill", at, own.asked_at, name, usage=payload.token_usage))

    def _compaction(self, event: KimiCliEnvelope) -> None:
        own = self._known()
        begins = event.type == "CompactionBegin"
        own.prompts = []  # the command that requested it
        name = "manual" if own.command else "auto"
        self._mark(KimiMark("compacting" if begins else "compacted", self.session.at, name=name))

    def _mark(self, mark: KimiMark) -> None:
        if self._is_told:
            self._play(mark)
        else:
            self._memory.marks.append(mark)

    def _play(self, mark: KimiMark) -> None:
        """Emit a mark at its time; usage ends the current step, or one without an answer in the files."""
        now, self.session.at = self.session.at, mark.at
        self._emit_mark(mark, self._known())
        self.session.at = now

    def _emit_mark(self, mark: KimiMark, own: WireChain) -> None:
        if mark.kind == "bill" and mark.usage is not None:
            own.asked_at = mark.asked_at
            self._answer()
            own.response = ""
            self.session.end_turn(kimi.billed(mark.usage, CLIENT, self._memory.dialect), mark.name or None)
        elif mark.kind == "compacting":
            self.session.emit(e.CompactStarted(trigger=mark.name, chain=self.session.chain, at=mark.at))
        elif mark.kind == "sign":
            if mark.name == "interrupt":
                self._abandon(own)
            self.session.signal(Sign(mark.name, before=mark.before, after=mark.after))
        elif self._is_told:
            own.messages = own.messages[-_KEPT:]
            kept = [item for message in own.messages for item in message]
            self.session.prune(self.session.line_id, kept, trigger=mark.name)


def _returned(value: Value) -> Raw:
    """Return a result as the model gets it: the client's note, then the tool's output."""
    text = text_in(value.message)
    note = f"ERROR: {text}" if value.is_error else text
    blocks = kimi.blocks_of(value.output)
    note = note or ("" if blocks else "Tool output is empty.")
    before = (TextBlock(Raw(encode(f"<system>{note}</system>"))),) if note else ()
    blocks = (*before, *blocks)
    return result_of(blocks)
