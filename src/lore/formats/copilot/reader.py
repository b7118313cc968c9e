"""GitHub Copilot CLI's session logs (`~/.copilot/session-state/SESSION/events.jsonl`), versions 0.0.354 to 1.0.9x.

A request is one `assistant.message`, or several of one `apiCallId`. Lines with an `agentId` (older: a
`parentToolCallId`) are a subagent's, a chain of its own. A log says what a request's answer was long, and not what its
prompt was billed: that stands elsewhere (`bills.py`).

What the command line writes with `--output-format json` is such a log with more lines: one of a type that nobody knows
is passed over where it says that it is ephemeral.

A compaction runs beside the session: it sums up what stood there when it began, and what came since stays. It is a
request of its own, billed on a chain of its own. The system prompt is written before the first request, and again from
time to time whether it changed or not; a subagent's is not. The schemas of tools are not in the file.

Sources: counts over 17 public sessions, versions 0.0.354 to 1.0.74; public readers of newer ones (October 2026).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from msgspec import Raw
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.copilot import records
from lore.formats.copilot.bills import CopilotAnswered, CopilotBills, chain_of
from lore.formats.copilot.usage import OPENING
from lore.formats.lines import Line, each
from lore.formats.values import Kinds, opens, text_in
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import (
    NULL,
    AssistantMessage,
    Block,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    is_absent,
    is_blank,
)
from lore.model.jsonslice import raw_members
from lore.model.state import Sign

_QUOTE = b'"'
_PEOPLE = ("", "user")
_TICKS = ("schedule",)


class Copilot(CopilotBills):
    """Reader of Copilot CLI's session logs."""

    name: ClassVar[str] = "copilot"
    own_tools: ClassVar[bool] = False  # their schemas are not in the file
    _usage_bytes: int = 0  # of the line before the log that holds what session-store.db says
    unseen: ClassVar[str] = (
        "the schemas of tools, the system prompts of subagents, without session-store.db what prompts were billed"
    )

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in each(head):
            if line.startswith(OPENING):  # which lore alone writes
                return True
            own = raw_members(line) or {}
            kind = own.get("type", b"")
            known = text_of(kind) in cls._ROWS.keys() | records.SILENT if kind[:1] == _QUOTE else False
            return known and own.get("data", b"")[:1] == b"{" and own.keys() >= {"id", "timestamp", "parentId"}
        return False

    def read_line(self, line: Line) -> Sequence[Read]:
        if line.number == 1 and line.data.startswith(OPENING):
            self._usage_bytes = len(line.data) + 1
            return self._store(line.data)
        if self._usage_bytes:  # places are those of the log itself
            line = Line(line.number - 1, line.byte - self._usage_bytes, line.data, line.is_torn)
        return super().read_line(line)

    def _take(self, data: bytes) -> None:
        record = _LINES.decode(data)
        row = self._ROWS.get(record.type)
        if row is not None and not isinstance(record, records.CopilotPassed):
            self._at, self._agent = record.timestamp, record.agent_id
            self._chain = chain_of(record.agent_id)
            row[1](self, record)
        elif record.type not in records.SILENT and not getattr(record, "ephemeral", False):  # as what is streamed is
            self._unknown("unknown record type", record.type)

    def _last(self) -> None:
        self._begin_session()
        stored = self._memory.stored
        left = sum(len(rows) for rows in stored.rows.values()) + stored.passed
        if stored.missing:
            detail = f"{stored.missing} requests of the log have no bill in session-store.db, {left} bills no request"
            self._problem(Code.UNKNOWN_ID, detail)

    def _see(self, *signs: Sign) -> None:
        self._observe(*signs, version=self._memory.version)

    # the session

    def _start(self, record: records.CopilotLine[records.Start]) -> None:
        memory, start = self._memory, record.data
        if record.type == "session.start" and memory.header is None and not memory.begun:
            memory.header, memory.version = start, start.copilot_version
            memory.model, memory.effort = model_named(start.selected_model), start.reasoning_effort
            return
        self._begin_session()
        memory.model = model_named(start.selected_model) or memory.model
        memory.spent = {}
        signs = [Sign("resume")]
        if start.copilot_version and start.copilot_version != memory.version:
            signs.append(Sign("client-version", before=memory.version, after=start.copilot_version))
            memory.version = start.copilot_version
        self._see(*signs)

    def _begin_session(self, at: str | None = None) -> None:
        """Emit the header, once."""
        memory = self._memory
        if memory.begun or (memory.header is None and at is None):
            return
        start, memory.begun = memory.header or records.Start(), True
        memory.header = None
        self._emit(
            e.SessionStarted(
                session_id=start.session_id, at=start.start_time or at, model=memory.model,
                dialect=dialect_of(memory.model),
            )
        )  # fmt: skip

    def _change_model(self, record: records.CopilotLine[records.CopilotModel]) -> None:
        memory, model = self._memory, record.data
        memory.model = model_named(model.new_model) or memory.model
        before = memory.effort if memory.effort is not None else model.previous_reasoning_effort
        if model.reasoning_effort is not None:
            memory.effort = model.reasoning_effort
            if before is not None and before != model.reasoning_effort:
                self._see(Sign("effort", before=before, after=model.reasoning_effort))

    def _change_mode(self, record: records.CopilotLine[records.Mode]) -> None:
        mode = record.data
        before = mode.previous_mode or mode.previous_allow_all_permission_mode
        after = mode.new_mode or mode.allow_all_permission_mode
        if before != after:
            self._see(Sign("permission-mode", before=before, after=after))

    def _change_title(self, record: records.CopilotLine[records.Title]) -> None:
        title = text_in(record.data.title)
        if title:
            self._begin_session(self._at)
            self._emit(e.SessionChanged(title=title, at=self._at))

    def _stop(self, record: records.CopilotOther) -> None:
        self._see(Sign("interrupt" if record.type == "abort" else "api-error"))

    def _skill(self, record: records.CopilotOther) -> None:
        name = (raw_members(bytes(record.data)) or {}).get("name", b"")
        self._see(Sign("skill", (text_of(name),) if name[:1] == _QUOTE else ()))

    # messages

    def _ask(self, _: records.CopilotOther) -> None:
        self._known().turns.asked_at = self._at

    def _system(self, record: records.CopilotLine[records.CopilotMessage]) -> None:
        """Take a system prompt: one that changed is a change of the session."""
        content, chain = record.data.content, self._known()
        if bytes(memoryview(content)[:1]) != _QUOTE:
            raise ValueError("a system prompt that is no text")
        self._begin_session(self._at)
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if digest != chain.system:
            chain.system = digest
            self._emit(e.SessionChanged(system=content, chain=self._chain, at=self._at))

    def _user(self, record: records.CopilotLine[records.CopilotMessage]) -> None:
        """Append a message that the model did not make, as the model sees it."""
        message, chain = record.data, self._known()
        text = message.content if is_absent(message.transformed_content) else message.transformed_content
        if bytes(memoryview(text)[:1]) != _QUOTE:
            raise ValueError("a message without text")
        self._begin_session(self._at)
        source = "system" if record.type == "system.notification" else message.source or ""
        uuid = self._id(record)
        chain.live.append(uuid)
        chain.turns.asked_at = self._at
        self._append(UserMessage(uuid, blocks=(TextBlock(text),), source=source_of(source)))
        if b'"mimeType":"image/' in bytes(message.attachments):
            self._see(Sign("image"))

    def _answer(self, record: records.CopilotLine[records.CopilotAnswer]) -> None:
        """Take what a request was answered with."""
        answer, memory = record.data, self._memory
        self._chain = name = chain_of(record.agent_id or answer.parent_tool_call_id)
        chain = self._known()
        self._begin_session(self._at)
        response = answer.api_call_id or answer.message_id or self._id(record)
        went_on = chain.last is not None and answer.api_call_id is not None and chain.last.name == answer.api_call_id
        usage = chain.last.usage if went_on and chain.last is not None else self._bill(name, record)
        model = answer.model or (memory.model if name == e.MAIN else chain.model) or chain.turns.model
        spent = memory.spent.get(model or "")
        if went_on and answer.output_tokens not in (None, usage.output_tokens):
            if spent is not None:
                spent.add(usage, -1)
            usage = replace(usage, output_tokens=answer.output_tokens)
            self._spend(name, model, usage)
        if not went_on:
            if (dialect := dialect_of(model)) != chain.dialect and dialect is not None:
                chain.dialect = dialect
                self._emit(e.SessionChanged(dialect=dialect, chain=name))
            self._start_turn(chain.turns, model)
            self._spend(name, model, usage)
        chain.turns.asked_at = None
        uuid = self._id(record)
        items: list[AssistantMessage | ToolCall] = []
        blocks = spoken(answer)
        if blocks:
            items.append(AssistantMessage(uuid, blocks=blocks, response_id=response))
        for number, call in enumerate(answer.tool_requests or ()):
            given = Raw(b"{}") if is_absent(call.arguments) else call.arguments
            items.append(ToolCall(f"{uuid}:{number}", call.tool_call_id, call.name, given, response_id=response))
        for item in items:
            chain.live.append(item.uuid)
            self._append(item)
        requests = tuple(filter(None, (answer.request_id, answer.service_request_id)))
        turn, model = chain.turns.turn, chain.turns.model
        chain.last = CopilotAnswered(turn, self._at, response, model, usage, requests=requests)
        self._complete(name, chain.last)

    def _result(self, record: records.CopilotLine[records.CopilotResult]) -> None:
        result = record.data
        self._chain = chain_of(record.agent_id or result.parent_tool_call_id)
        self._known().turns.asked_at = self._at
        output, error = (result.result or {}).get("content", NULL), (result.error or {}).get("message", NULL)
        failed = result.success is False
        told = [text for text in (error, output) if opens(text) == '"']
        text = Raw(b'""') if not told else told[0] if failed else told[-1]
        self._patch(result.tool_call_id, text, failed=failed, error=error if failed and error in told else NULL)

    def _subagent(self, record: records.CopilotLine[records.Subagent]) -> None:
        """Note the model of an agent that a call began."""
        self._known(chain_of(record.agent_id or record.data.tool_call_id)).model = model_named(record.data.model)

    # what shortens a history

    def _compact(self, record: records.CopilotLine[records.CopilotCompaction]) -> None:
        """Take a compaction: when it begins, what stands there is what it sums up."""
        name, chain, compaction = self._chain, self._known(), record.data
        if record.type == "session.compaction_start":
            chain.since, chain.compacting_at = len(chain.live), self._at
            self._emit(e.CompactStarted(trigger="auto", chain=name, at=self._at))
            return
        self._begin_session(self._at)
        used, asked_at = compaction.compaction_tokens_used, chain.compacting_at
        since, chain.since, chain.compacting_at = chain.since, None, None
        if used is not None:
            self._bill_compaction(record, used, asked_at)
        if compaction.success is False:
            return
        self._memory.spent = {}  # the client sums up anew
        chain.live = [] if since is None else chain.live[since:]
        summary = compaction.summary_content
        self._emit(
            e.CompactApplied(
                uuid=self._id(record), trigger="auto", chain=name, at=self._at,
                pre_tokens=compaction.pre_compaction_tokens, post_tokens=compaction.post_compaction_tokens,
                duration_ms=None if used is None else used.duration, preserved_uuids=tuple(chain.live),
                summary=summary if bytes(memoryview(summary)[:1]) == _QUOTE else NULL,
            )
        )  # fmt: skip

    def _clear(self, _: records.CopilotOther) -> None:
        """Take all of a history away: the user began anew."""
        chain = self._known()
        if chain.live:
            self._remove(chain.live)
            chain.live, chain.since = [], None

    def _truncate(self, _: records.CopilotOther) -> None:
        """Note that messages were dropped: the log says how many, and not which."""
        self._see(Sign("micro-compaction"))

    def _rewind(self, record: records.CopilotLine[records.Rewind]) -> None:
        """Take back what an event and those behind it made, where the log still holds it."""
        chain, target = self._known(), record.data.up_to_event_id
        at = next((place for place, uuid in enumerate(chain.live) if uuid.partition(":")[0] == target), None)
        if target and at is not None:
            gone, chain.live = chain.live[at:], chain.live[:at]
            self._remove(gone)

    # What a line of a type is, and who takes it.
    _ROWS: ClassVar[dict[str, tuple[Any, Callable[[Self, Any], None]]]] = {
        "session.start": (records.CopilotLine[records.Start], _start),
        "session.resume": (records.CopilotLine[records.Start], _start),
        "session.model_change": (records.CopilotLine[records.CopilotModel], _change_model),
        "session.title_changed": (records.CopilotLine[records.Title], _change_title),
        "session.mode_changed": (records.CopilotLine[records.Mode], _change_mode),
        "session.permissions_changed": (records.CopilotLine[records.Mode], _change_mode),
        "session.compaction_start": (records.CopilotLine[records.CopilotCompaction], _compact),
        "session.compaction_complete": (records.CopilotLine[records.CopilotCompaction], _compact),
        "session.context_cleared": (records.CopilotOther, _clear),
        "session.truncation": (records.CopilotOther, _truncate),
        "session.snapshot_rewind": (records.CopilotLine[records.Rewind], _rewind),
        "session.usage_checkpoint": (records.CopilotLine[records.CopilotCheckpoint], CopilotBills._checkpoint),
        "session.shutdown": (records.CopilotLine[records.Shutdown], CopilotBills._shut_down),
        "session.error": (records.CopilotOther, _stop),
        "model.call_failure": (records.CopilotOther, _stop),
        "abort": (records.CopilotOther, _stop),
        "skill.invoked": (records.CopilotOther, _skill),
        "system.message": (records.CopilotLine[records.CopilotMessage], _system),
        "system.notification": (records.CopilotLine[records.CopilotMessage], _user),
        "user.message": (records.CopilotLine[records.CopilotMessage], _user),
        "assistant.turn_start": (records.CopilotOther, _ask),
        "assistant.message": (records.CopilotLine[records.CopilotAnswer], _answer),
        "tool.execution_complete": (records.CopilotLine[records.CopilotResult], _result),
        "subagent.started": (records.CopilotLine[records.Subagent], _subagent),
    }


_SHAPES = {kind: shape for kind, (shape, _) in Copilot._ROWS.items()}  # pyright: ignore[reportPrivateUsage]
_LINES = Kinds(
    {**_SHAPES, **dict.fromkeys(records.SILENT, records.CopilotOther)}, records.CopilotOther, records.SILENT,
    records.CopilotPassed,
)  # fmt: skip


def model_named(name: str | None) -> str | None:
    """Return a model's name; None where the client chooses one for each request."""
    return name if name and name != "auto" else None


def dialect_of(model: str | None) -> str | None:
    """Return the dialect of a model's requests, by its name; None where that is not known."""
    if model is None:
        return None
    return "anthropic" if model.startswith("claude") else "openai-responses" if model.startswith("gpt-5") else None


def source_of(source: str) -> str:
    """Return whose a message of the user's role is: another agent's is the prompt of its chain."""
    if source in _PEOPLE or source.startswith("agent-"):
        return "user"
    return "tick" if source.startswith(_TICKS) else "context_injection"


def spoken(answer: records.CopilotAnswer) -> tuple[Block, ...]:
    """Return what an answer says besides its calls: reasoning, then text."""
    blocks: list[Block] = []
    opaque, text = answer.reasoning_opaque, answer.reasoning_text
    if bytes(memoryview(text)[:1]) == _QUOTE:
        blocks.append(ThinkingBlock(text, text_of(bytes(opaque)) if bytes(opaque)[:1] == _QUOTE else None))
    elif not is_absent(answer.encrypted_content):
        encrypted = bytes(answer.encrypted_content)
        blocks.append(RawBlock(Raw(b'{"type":"reasoning","summary":[],"encrypted_content":' + encrypted + b"}")))
    if bytes(memoryview(answer.content)[:1]) == _QUOTE and not is_blank(answer.content):
        blocks.append(TextBlock(answer.content))
    return tuple(blocks)
