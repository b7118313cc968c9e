"""The readers of Kimi CLI's sessions (`~/.kimi/sessions/PROJECT/SESSION/`): the folder, or one of its two files.

`wire.jsonl` holds the events shown on the screen, with usage and time of each request; `context.jsonl` and its earlier
versions (`context_1.jsonl`, …) hold the messages sent to the model, with the system prompt. A folder takes messages
from the second and usage from the first. Neither has the schemas of tools or the model's name. A subagent has the same
files in its own folder.

A step of the screen's log is one request; the status after its answer has its usage. A prompt is sent if a step follows
it; commands of the client (`/compact`, `/clear`) are not. A compaction keeps the last two messages of user and model
with their results; its summary and its request's usage are not logged. Events of subagents are between the session's
own; those with an id (`agent_id`) have files of their own and are skipped here.

`context.jsonl` has a count before an answer (the whole input) and after it (with the output): a request gets its usage
from the marks of the screen's log by the first count, else in order. When the history is replaced, a new file begins:
after a revert with the same lines up to a checkpoint, after a compaction with its summary and the last messages, after
`/clear` with new lines. Usage without a count in any file is emitted as a request without messages.

Sources: the wire protocol 1.1 to 1.10 and `soul/` of kimi-cli (July 2026); no public session was found.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from lore.formats import (
    LineCutter,
    LogReader,
    PackMember,
    PackReader,
    Read,
    SessionBuilder,
    Yields,
    in_file,
    nonblank_lines,
    result_of,
    stamp_of,
    text_in,
)
from lore.formats import kimi_content as kimi
from lore.model import (
    NULL,
    AssistantMessage,
    Block,
    Code,
    Item,
    Sign,
    TextBlock,
    UserMessage,
    encode,
    is_absent,
    lenient,
    raw_members,
    text_of,
)
from lore.model import events as e


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


class KimiCliResult(Struct, frozen=True, gc=False):
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
    return_value: KimiCliResult | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: KimiCliEnvelope | None = None


decode = lenient.decoding(KimiCliRecord)
PAYLOAD = msgspec.json.Decoder(KimiCliPayload)
CALL = msgspec.json.Decoder(kimi.KimiCall)


class KimiMark(Struct, gc=False, omit_defaults=True):
    """Usage, the begin or end of a compaction, or a signal."""

    kind: str  # usage, compacting, compacted or signal
    at: str | None
    asked_at: str | None = None  # when its request was sent
    name: str = ""  # of usage the message's id
    before: str = ""
    after: str = ""
    usage: kimi.KimiUsage | None = None


class WireChain(Struct):
    """The state of a chain of the screen's log."""

    prompts: list[tuple[str, str | None, Raw]] = []  # uuid, time and content of inputs, until a step sends them
    asked_at: str | None = None  # when the current step began
    response: str = ""  # the current step, "" until it has an answer
    messages: list[list[str]] = []  # items of each message in the history
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
        self.marks: list[KimiMark] = []  # of the main chain, until `context.jsonl` needs them
        self._session = session
        self._chains: dict[str, WireChain] = {}

    @property
    def _chain(self) -> WireChain:
        return self._chains.setdefault(self._session.chain, WireChain())

    @property
    def _has_messages(self) -> bool:
        """Whether the messages of the event's chain come from this file."""
        return not self.has_context or self._session.chain != e.MAIN

    def read(self, record: KimiCliRecord) -> None:
        """Read a record."""
        message, session = record.message, self._session
        if message is not None:
            if self.has_context and session.is_started and message.type in _CONTENTS:
                return  # the other file has it
            session.at = stamp_of(record.timestamp)
            session.start_session(at=session.at, dialect=self.dialect)
            self._read_event(message)
        elif record.type != "metadata":
            session.keep_opaque(Code.UNKNOWN_RECORD, "a record without its message")

    def _read_event(self, event: KimiCliEnvelope) -> None:
        chain, session = self._chain, self._session
        match event.type:
            case "ContentPart" | "TextPart" | "ThinkPart" if self._has_messages:
                if blocks := kimi.blocks_of(event.payload):
                    self._begin_answer(chain)
                    message = AssistantMessage(session.line_id, blocks=blocks, response_id=chain.response)
                    self._append(chain, message)
            case "ToolCall" if self._has_messages:
                call = lenient.decoded(CALL, event.payload)
                self._begin_answer(chain)
                self._append(chain, kimi.call_of(call, session.line_id, chain.response))
            case "ToolResult" if self._has_messages:
                payload = lenient.decoded(PAYLOAD, event.payload)
                value = payload.return_value or KimiCliResult()
                text = text_in(value.message)  # the client's note, which the model gets before the output
                note, blocks = f"ERROR: {text}" if value.is_error else text, kimi.blocks_of(value.output)
                note = note or ("" if blocks else "Tool output is empty.")
                said = (TextBlock(Raw(encode(f"<system>{note}</system>"))),) if note else ()
                session.add_result(payload.tool_call_id, result_of((*said, *blocks)), failed=value.is_error)
            case "TurnBegin" | "SteerInput":
                self._read_prompt(chain, event)
            case "StepBegin":
                self._begin_step(chain)
            case "StepInterrupted":
                self._add_mark(KimiMark("signal", session.at, name="interrupt"))
            case "StepRetry":
                self._add_mark(KimiMark("signal", session.at, name="api-error"))
            case "StatusUpdate":
                self._read_status(chain, lenient.decoded(PAYLOAD, event.payload))
            case "CompactionBegin" | "CompactionEnd":
                chain.prompts = []  # the command that requested it
                kind = "compacting" if event.type == "CompactionBegin" else "compacted"
                self._add_mark(KimiMark(kind, session.at, name="manual" if chain.is_compacting else "auto"))
            case "SubagentEvent":
                payload = lenient.decoded(PAYLOAD, event.payload)
                inner, call = payload.event, payload.parent_tool_call_id or payload.task_tool_call_id
                if payload.agent_id is None and inner is not None and inner.type != event.type:
                    session.chain = f"agent-{call or session.chain}"
                    self._read_event(inner)
            case kind if kind not in _SILENT and kind not in _CONTENTS:
                session.keep_unknown("unknown event type", kind)
            case _:
                pass

    def _read_prompt(self, chain: WireChain, event: KimiCliEnvelope) -> None:
        session, content = self._session, lenient.decoded(PAYLOAD, event.payload).user_input
        chain.is_compacting = bytes(memoryview(content)[:9]) == b'"/compact'
        if not self._has_messages:
            return
        if event.type == "TurnBegin":  # waiting prompts were commands
            commands, chain.prompts = chain.prompts, []
            if any(bytes(memoryview(command)[:7]) in _CLEARS for _, _, command in commands):
                session.remove(item for message in chain.messages for item in message)
                chain.messages = []
        chain.prompts.append((session.line_id, session.at, content))

    def _begin_step(self, chain: WireChain) -> None:
        """Begin a step, which sends the waiting prompts."""
        session = self._session
        self._cancel_answer(chain)
        chain.asked_at = session.at
        prompts, chain.prompts = chain.prompts, []
        for uuid, session.at, content in prompts:
            if blocks := kimi.blocks_of(content):
                chain.messages.append([])
                self._append(chain, UserMessage(uuid, blocks=blocks))

    def _append(self, chain: WireChain, item: Item) -> None:
        if not chain.messages:  # cleared in the middle of a step
            chain.messages.append([])
        chain.messages[-1].append(item.uuid)
        self._session.append(item)

    def _begin_answer(self, chain: WireChain) -> None:
        """Start the turn of the current step with its first output."""
        if not chain.response:
            chain.response = self._session.line_id
            chain.messages.append([])
            self._session.counter.asked_at = chain.asked_at
            self._session.start_turn(None)

    def _cancel_answer(self, chain: WireChain) -> None:
        """End a step that answered without usage."""
        session = self._session
        if chain.response:
            chain.response = ""
            session.emit(e.TurnCanceled(turn=session.counter.number, chain=session.chain, at=session.at))

    def _read_status(self, chain: WireChain, payload: KimiCliPayload) -> None:
        session = self._session
        if payload.plan_mode is not None and payload.plan_mode != chain.is_planning:
            before, chain.is_planning = chain.is_planning, payload.plan_mode
            if before is not None:
                modes = ("plan", "default") if before else ("default", "plan")
                mark = KimiMark("signal", session.at, name="permission-mode", before=modes[0], after=modes[1])
                self._add_mark(mark)
        if payload.token_usage is None:
            return
        name = payload.message_id or ""
        dialect = next((own for begin, own in _DIALECTS.items() if name.startswith(begin)), self.dialect)
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
        now, session.at = session.at, mark.at
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
            chain.messages = chain.messages[-_KEPT:]
            kept = [item for message in chain.messages for item in message]
            session.prune(session.line_id, kept, trigger=mark.name)
        session.at = now


WIRE = "wire.jsonl"  # the screen's log
_NOTES = frozenset((b'"_system_prompt"', b'"_checkpoint"', b'"_usage"'))
_CLIENT_TEXTS = (b'"<system', b'"<notification')  # beginnings of texts that the client puts into user messages
_SUMMARY = b'"<system>Previous context has been compacted'
_ERROR = b'"<system>ERROR'
_CANDIDATES = 1_000  # messages before a compaction that are searched for kept ones


class ContextLine(Struct, gc=False):
    """A line of the model's log."""

    digest: int  # of its length and checksum
    items: tuple[str, ...] = ()
    is_message: bool = False


class KimiRequest(Struct):
    """The current request in the model's log."""

    turn: int
    mark: KimiMark | None  # with its usage
    whole: int | None  # input in tokens
    is_answered: bool = False


class ContextLog:
    """Reports the records of `context.jsonl` and its earlier versions to a session."""

    def __init__(self, session: SessionBuilder, wire: WireLog) -> None:
        self.file = ""
        self._session = session
        self._wire = wire
        # `same` while the lines equal those of the file before, `parted` after a different line that is not a message,
        # `kept` after a summary while kept messages follow, `restored` while already answered messages follow, `new`.
        self._phase = "same"
        self._lines: list[ContextLine] = []  # of this file
        self._before: list[ContextLine] = []  # of the file that it replaced; in the phase `kept` only messages
        self._same = 0  # lines equal to those of the file before
        self._kept = 0  # messages that the compaction kept so far
        self._places: list[int] = []  # indexes in `_before` at which the next kept message may be
        self._summary: Raw = NULL
        self._divider = ""
        self._whole: int | None = None  # input of the next request in tokens
        self._request: KimiRequest | None = None
        self._emitted = 0  # marks
        self._usage_marks: dict[int, list[int]] | None = None  # indexes of marks with usage, by whole input

    def begin_file(self, name: str) -> None:
        """Start the next file, which replaced the previous one."""
        self.file = f"{name}:"
        if self._lines:
            self._before, self._lines = self._lines, []
        self._same, self._phase = 0, "same"

    def end_file(self) -> None:
        """Finish a file. An empty file is treated as if it did not exist."""
        self._end_request(None)
        if self._phase == "kept":
            self._compact()
        elif self._phase in ("same", "parted") and self._lines:
            self._cut()

    def read(self, record: KimiCliRecord, data: bytes) -> None:
        """Read a record."""
        self._session.start_session(at=self._session.at, dialect=self._wire.dialect)
        role = record.role or ""
        line = ContextLine(len(data) << 32 | crc32(data), (), not role.startswith("_"))
        if self._phase == "same" and self._same < len(self._before):
            before = self._before[self._same]
            if before.digest == line.digest:
                self._same += 1
                self._lines.append(before)
                return
        if self._phase in ("same", "parted"):
            self._phase = "parted"
            if line.is_message and self._is_summary(record, line):
                return
        if self._phase == "kept":
            if self._is_kept(line):
                return
            self._compact()
        if not line.is_message:
            self._phase = "new" if self._phase == "restored" else self._phase
        self._lines.append(line)
        self._read_new(record, role, line)

    def _read_new(self, record: KimiCliRecord, role: str, line: ContextLine) -> None:
        session = self._session
        if role == "_usage":
            self._read_count(record.token_count)
            return
        if self._request is not None and (self._request.is_answered or role != "assistant"):
            self._end_request(None)
        match role:
            case "_system_prompt":
                if not is_absent(record.content):
                    session.emit(e.SessionChanged(system=record.content))
            case "assistant":
                self._read_answer(record, line)
            case "tool":
                blocks = kimi.blocks_of(record.content)
                has_failed = bool(blocks) and _begins(blocks[0], _ERROR)
                session.add_result(record.tool_call_id or "", kimi.output_of(record.content), failed=has_failed)
            case "user" | "system":
                if blocks := kimi.blocks_of(record.content):
                    is_own = role == "user" and not _begins(blocks[0], *_CLIENT_TEXTS)
                    source = "user" if is_own else "context_injection"
                    self._append(line, UserMessage(self._uuid, blocks=blocks, source=source))
            case _ if role != "_checkpoint":
                session.keep_unknown("a record of role", role)
            case _:
                pass

    @property
    def _uuid(self) -> str:
        return self.file + self._session.line_id

    def _append(self, line: ContextLine, item: Item) -> None:
        line.items = (*line.items, item.uuid)
        self._session.append(item)

    # requests

    def _read_count(self, count: int | None) -> None:
        """Read a count: after an answer input and output, else the whole input of the next request."""
        if self._request is not None and self._request.is_answered:
            self._end_request(count)
            return
        self._end_request(None)
        self._whole = count
        place = self._find_usage(count)
        if place is not None:
            self._begin_request(self._take_mark(place))

    def _read_answer(self, record: KimiCliRecord, line: ContextLine) -> None:
        uuid, blocks = self._uuid, kimi.blocks_of(record.content)
        if self._request is None and self._phase != "restored":
            marks = self._wire.marks  # of clients that count only after an answer, the next one
            following = range(self._emitted, len(marks) if self._whole is None else 0)
            place = next((at for at in following if marks[at].kind == "usage"), None)
            self._begin_request(None if place is None else self._take_mark(place))
        if self._request is not None:
            self._request.is_answered = True
        if blocks:
            self._append(line, AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(record.tool_calls or (), 1):
            self._append(line, kimi.call_of(call, f"{uuid}/{number}", uuid))

    def _begin_request(self, mark: KimiMark | None) -> None:
        session = self._session
        session.at, session.counter.asked_at = (None, None) if mark is None else (mark.at, mark.asked_at)
        self._request = KimiRequest(session.start_turn(None), mark, self._whole)
        session.at = self._whole = None

    def _end_request(self, total: int | None) -> None:
        """End the current request; without usage its counts give the output."""
        request, self._request = self._request, None
        if request is None:
            return
        usage, mark = None, request.mark
        if mark is not None and mark.usage is not None:
            usage = kimi.billed(mark.usage, CLIENT, self._wire.dialect)
        elif total is not None and request.whole is not None and total >= request.whole:
            usage = e.Usage(output_tokens=total - request.whole, client=CLIENT)
        at, name = (None, None) if mark is None else (mark.at, mark.name or None)
        self._session.emit(e.TurnCompleted(turn=request.turn, at=at, usage=usage, response_id=name))

    def _find_usage(self, count: int | None) -> int | None:
        """Return the index of the next usage mark with a given whole input."""
        if self._usage_marks is None:
            self._usage_marks = {}
            for place, mark in enumerate(self._wire.marks):
                if (usage := mark.usage) is not None:
                    whole = (usage.input_other or 0) + (usage.input_cache_read or 0) + (usage.input_cache_creation or 0)
                    self._usage_marks.setdefault(whole, []).append(place)
        places = [] if count is None else self._usage_marks.get(count, [])
        found = bisect_left(places, self._emitted)
        return places[found] if found < len(places) else None

    def _take_mark(self, place: int) -> KimiMark:
        """Return a mark after emitting those before it."""
        self.emit_marks(place)
        self._emitted = place + 1
        return self._wire.marks[place]

    def emit_marks(self, end: int) -> None:
        """Emit the marks before an index."""
        for mark in self._wire.marks[self._emitted : end]:
            self._wire.emit_mark(mark)
        self._emitted = max(self._emitted, end)

    # files that replaced others

    def _is_summary(self, record: KimiCliRecord, line: ContextLine) -> bool:
        """Return whether the first new message is a compaction's summary; if not, remove the earlier file's rest."""
        blocks = kimi.blocks_of(record.content) if record.role == "user" else ()
        if not blocks or not _begins(blocks[0], _SUMMARY):
            self._cut()
            return False
        texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock)]
        self._phase, self._summary, self._divider = "kept", Raw(encode("\n".join(texts))), self._uuid
        self._before = [before for before in self._before if before.is_message]
        line.items = (self._divider,)
        self._lines.append(line)
        return True

    def _is_kept(self, line: ContextLine) -> bool:
        """Return whether a message was kept by the compaction: whether it follows the last kept one in the old file."""
        before = self._before
        places = range(max(0, len(before) - _CANDIDATES), len(before)) if not self._kept else self._places
        places = [place + 1 for place in places if place < len(before) and before[place].digest == line.digest]
        if places:
            self._kept, self._places = self._kept + 1, places
        return bool(places)

    def _compact(self) -> None:
        """Emit a compaction with its summary and kept messages, preferring the last place at which they match."""
        marks, session = self._wire.marks, self._session
        ends = next((at for at in range(self._emitted, len(marks)) if marks[at].kind == "compacted"), None)
        mark = KimiMark("compacted", None, name="auto") if ends is None else self._take_mark(ends)
        last = max(self._places) if self._kept else 0
        kept = self._before[last - self._kept : last]
        self._lines += kept
        session.at = mark.at
        session.prune(
            self._divider, [item for line in kept for item in line.items], trigger=mark.name, summary=self._summary
        )
        session.at = None
        self._phase, self._before, self._kept, self._summary = "restored", [], 0, NULL

    def _cut(self) -> None:
        """Remove the items of the old file that this one does not begin with."""
        self._session.remove(item for line in self._before[self._same :] for item in line.items)
        self._phase, self._before = "new", []


def _begins(block: Block, *texts: bytes) -> bool:
    return isinstance(block, TextBlock) and bytes(memoryview(block.text)[:48]).startswith(texts)


class KimiCli(LogReader):
    """Reader of one file of a session."""

    name: ClassVar[str] = "kimi-cli"
    own_tools: ClassVar[bool] = False  # their schemas are in neither file
    unseen: ClassVar[str] = "the schemas of tools, and the name of the model"

    def __init__(self) -> None:
        super().__init__()
        self._wire = WireLog(self.session)
        self._context = ContextLog(self.session, self._wire)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = raw_members(next(nonblank_lines(head), b"")) or {}
        if own.get("type") == b'"metadata"':
            return own.keys() == {"type", "protocol_version"}
        if own.keys() == {"timestamp", "message"}:  # before the protocol had a version
            return (raw_members(own["message"]) or {}).keys() == {"type", "payload"}
        return own.get("role") in _NOTES

    def handle(self, data: bytes) -> None:
        record = decode(data)
        if record.role is None:
            self._wire.read(record)
        else:
            self._context.read(record, data)

    def finish(self) -> None:
        self._context.end_file()
        self._context.emit_marks(len(self._wire.marks))

    def begin_file(self, name: str) -> list[Read]:
        """Start the next file of a folder; return the remaining reads of the previous one."""
        reads = self._give_up_broken()
        self._wire.has_context = True
        if self._context.file:
            self._context.end_file()
        if name != WIRE:
            self._context.begin_file(name.removesuffix(".jsonl"))
        reads += self.session.take()
        self.session.file = name
        return reads


class KimiCliSession(PackReader):
    """Reader of a session's folder: its files one after another, `wire.jsonl` first."""

    name: ClassVar[str] = "kimi-cli-session"
    yields: ClassVar[Yields] = "events"
    own_tools: ClassVar[bool] = KimiCli.own_tools
    unseen: ClassVar[str] = KimiCli.unseen

    def __init__(self) -> None:
        super().__init__()
        self._file = ""
        self._reader = KimiCli()
        self._cutter = LineCutter()

    def _member(self, member: PackMember) -> list[Read]:
        name, found = member.header.name, list[Read]()
        if name != self._file:
            found = in_file(self._file, [*self._last_line(), *self._reader.begin_file(name)])
            self._file = name
        reads = [read for line in self._cutter.feed(member.data) for read in self._reader.read_line(line)]
        return [*found, *in_file(name, reads)]

    def _last_line(self) -> list[Read]:
        cutter, self._cutter = self._cutter, LineCutter()
        return [read for line in cutter.finish() for read in self._reader.read_line(line)]

    def _rest(self) -> list[Read]:
        return in_file(self._file, [*self._last_line(), *self._reader.end()])
