"""The reader of logs of GitHub Copilot CLI (`~/.copilot/session-state/SESSION/events.jsonl`), 0.0.354 to 1.0.9x.

A request is one `assistant.message`, or several with one `apiCallId`. Lines with an `agentId` (in older versions a
`parentToolCallId`) belong to a subagent, a chain of its own. A log states how long answers were, and elsewhere what
their prompts cost (`bills.py`). With `--output-format json` the command line writes such a log with more lines; those
of an unknown type are passed over if they are `ephemeral`.

A compaction runs while the session continues: it summarises the items before its start, and later items remain. It is a
request on a chain of its own. The system prompt is written before the first request, and from time to time again even
if it did not change; a subagent's is not written, and no schemas of tools are.

Sources: counts over 17 public sessions, versions 0.0.354 to 1.0.74; public readers of newer ones, up to 1.0.91, and the
event types of `@github/copilot` that they list (October 2026).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain as chained
from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.builder import LogReader
from lore.formats.copilot.bills import OPENING, Answer, CopilotChain, CopilotCounts, CopilotTotals, UsageReporter
from lore.formats.lines import Line, nonblank_lines
from lore.formats.values import opens, text_at, text_in
from lore.model import events as e
from lore.model import items
from lore.model.canonical import text_of
from lore.model.items import NULL, Block, is_absent, is_blank
from lore.model.jsonslice import members_at
from lore.model.state import Sign

# Beginnings of the types of lines about the screen, hooks, permissions and the client's own state. The text of a skill
# comes again as a message, name and arguments of a call with the message that made it.
_SILENT = (
    "hook.", "tool.execution_start", "tool.execution_partial_result", "tool.execution_progress", "tool.user_requested",
    "assistant.message_", "assistant.turn_end", "assistant.intent", "assistant.idle", "assistant.reasoning",
    "assistant.streaming_", "assistant.usage", "prompt_cache_break", "permission.", "user_input.", "elicitation.",
    "external_tool.", "command", "exit_plan_mode.", "auto_mode_switch.", "mcp.", "sampling.", "pending_messages.",
    "subagent.completed", "subagent.failed", "subagent.selected", "subagent.deselected", "capabilities.", "result",
    "session.info", "session.warning", "session.idle", "session.handoff", "session.plan_", "session.workspace_",
    "session.context_changed", "session.usage_info", "session.task_", "session.background_", "session.remote_",
    "session.schedule_", "session.custom_", "session.extensions_", "session.import_", "session.skills_",
    "session.mcp_", "session.tools_", "session.binary_", "session.autopilot_",
)  # fmt: skip


class _CopilotLine(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    data: Raw = NULL  # its fields depend on the type
    id: str | None = None
    timestamp: str | None = None
    agent_id: str | None = None  # the subagent that wrote it
    ephemeral: bool = False  # it was written for a screen, and is not in the client's own log


# A change of the session, or a start of it or of a subagent; the type of the line decides which fields it has.
class _CopilotChange(Struct, frozen=True, gc=False, rename="camel"):
    session_id: str = ""
    copilot_version: str = ""
    start_time: str | None = None
    selected_model: str | None = None
    new_model: str | None = None
    chosen_model: str | None = None  # by the client, which was asked to choose one
    previous_reasoning_effort: str | None = None
    reasoning_effort: str | None = None
    title: Raw = NULL
    previous_mode: str = ""
    new_mode: str = ""
    previous_allow_all_permission_mode: str = ""
    allow_all_permission_mode: str = ""
    up_to_event_id: str = ""  # the first event that a rewind removes
    tool_call_id: str = ""  # that started a subagent
    model: str | None = None  # of a subagent


class _CopilotMessage(Struct, frozen=True, gc=False, rename="camel"):  # a message that no model made
    content: Raw = NULL
    transformed_content: Raw = NULL  # what the model gets in place of `content`
    source: str | None = None  # who wrote it, if not the user
    attachments: Raw = NULL


class _CopilotRequest(Struct, frozen=True, gc=False, rename="camel"):
    tool_call_id: str = ""
    name: str = ""
    arguments: Raw = NULL


class _CopilotAnswer(Struct, frozen=True, gc=False, rename="camel"):  # a response, or a part of one
    message_id: str | None = None
    api_call_id: str | None = None  # the provider's id of the response
    request_id: str | None = None
    service_request_id: str | None = None
    model: str | None = None
    content: Raw = NULL
    tool_requests: tuple[_CopilotRequest, ...] | None = None
    reasoning_text: Raw = NULL
    reasoning_opaque: Raw = NULL
    encrypted_content: Raw = NULL
    output_tokens: int | None = None
    parent_tool_call_id: str | None = None  # the call that started the subagent, in older versions


class _CopilotResult(Struct, frozen=True, gc=False, rename="camel"):  # the end of a call
    tool_call_id: str = ""
    success: bool | None = None
    result: dict[str, Raw] | None = None  # with the output in `content`
    error: dict[str, Raw] | None = None  # with the reason in `message`
    parent_tool_call_id: str | None = None


class _CopilotCompaction(Struct, frozen=True, gc=False, rename="camel"):  # the end of a compaction
    success: bool | None = None
    pre_compaction_tokens: int | None = None
    post_compaction_tokens: int | None = None
    summary_content: Raw = NULL
    compaction_tokens_used: CopilotCounts | None = None  # by the request for the summary
    request_id: str | None = None


_KINDS = frozenset((  # types of lines that are read
    "session.start", "session.resume", "session.model_change", "session.auto_mode_resolved", "session.title_changed",
    "session.mode_changed", "session.permissions_changed", "session.snapshot_rewind", "session.compaction_start",
    "session.compaction_complete", "session.context_cleared", "session.truncation", "session.error",
    "session.usage_checkpoint", "session.shutdown", "subagent.started", "system.message", "system.notification",
    "user.message", "assistant.message", "assistant.turn_start", "tool.execution_complete", "model.call_failure",
    "abort", "skill.invoked",
))  # fmt: skip
_LINE_MEMBERS = frozenset(("id", "timestamp", "parentId"))


class Copilot(LogReader):
    """Reader of Copilot CLI's session logs."""

    name: ClassVar[str] = "copilot"
    has_unique_records: ClassVar[bool] = True
    records_builtin_tools: ClassVar[bool] = False  # their schemas are not in the file
    unseen: ClassVar[str] = (
        "the schemas of tools, the system prompts of subagents, and the usage of prompts unless session-store.db has it"
    )

    def __init__(self) -> None:
        super().__init__()
        self.reporter = UsageReporter(self.session)
        self.header: _CopilotChange | None = None  # until the first message, which shows the model
        self.model: str | None = None
        self._lines: dict[str, int] = {}  # of the records of each id

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in nonblank_lines(head):
            if line.startswith(OPENING):  # lore alone writes this
                return True
            members = members_at(line)
            kind = text_at(members, "type")
            is_known = kind in _KINDS or kind.startswith(_SILENT)
            return is_known and members.get("data", b"")[:1] == b"{" and members.keys() >= _LINE_MEMBERS
        return False

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        begin, pieces = b"", filter(None, data)
        while OPENING.startswith(begin[: len(OPENING)]) and b"\n" not in begin and (piece := next(pieces, b"")):
            begin += piece
        if begin.startswith(OPENING):  # lines and bytes are counted in the log itself
            line, _, begin = begin.partition(b"\n")
            self.session.start_record(Line(1, 0, b""))
            self.reporter.read_database(line)
            yield from self.session.take()
        yield from super().read(chained((begin,), pieces))

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_CopilotLine, data), self.session
        if record.type not in _KINDS:
            session.misfits.clear()  # nothing of such a line is read
            if not record.ephemeral and not record.type.startswith(_SILENT):
                session.keep_unknown("unknown record type", record.type)
            return
        session.at, session.agent, session.chain = record.timestamp, record.agent_id, _chain_of(record.agent_id)
        match record.type:
            case "assistant.message":
                self._read_answer(session.decode(_CopilotAnswer, record.data), self._uuid(record))
            case "tool.execution_complete":
                self._read_result(session.decode(_CopilotResult, record.data))
            case "user.message" | "system.notification":
                self._read_message(record, session.decode(_CopilotMessage, record.data))
            case "system.message":
                self._read_system_prompt(session.decode(_CopilotMessage, record.data))
            case "assistant.turn_start":
                session.counter.asked_at = session.at
            case "session.usage_checkpoint":
                self.reporter.read_checkpoint(session.decode(CopilotTotals, record.data))
            case "session.shutdown":
                self.reporter.read_shutdown(session.decode(CopilotTotals, record.data))
            case "session.error" | "model.call_failure":
                session.signal(Sign("api-error"))
            case "abort":
                session.signal(Sign("interrupt"))
            case "skill.invoked":
                name = members_at(record.data).get("name", b"")
                session.signal(Sign("skill", (text_of(name),) if opens(name) == '"' else ()))
            case "subagent.started":
                start = session.decode(_CopilotChange, record.data)
                session.chain = _chain_of(record.agent_id or start.tool_call_id)
                self.chain.model = _model_named(start.model)
            case "session.compaction_start":
                chain = self.chain
                chain.compacting, chain.compacting_at = len(session.history), session.at
                session.emit(e.CompactStarted(trigger="auto", chain=session.chain, at=session.at))
            case "session.compaction_complete":
                self._read_compaction(session.decode(_CopilotCompaction, record.data), self._uuid(record))
            case "session.context_cleared":
                session.rewind_to(0)
                self.chain.compacting = None
            case "session.truncation":  # the log says how many messages were dropped, and not which
                session.signal(Sign("micro-compaction"))
            case _:
                self._read_change(record.type, session.decode(_CopilotChange, record.data))

    def finish(self) -> None:
        self._start_session()
        self.reporter.report_missing()

    @property
    def chain(self) -> CopilotChain:
        return self.reporter.chains.setdefault(self.session.chain, CopilotChain())

    def _uuid(self, record: _CopilotLine) -> str:
        """Return the record's id; one of its own if another record has the same: a redactor's placeholder."""
        line = self.session.line.number
        if not record.id or self._lines.setdefault(record.id, line) != line:
            return self.session.line_id
        return record.id

    # the session

    def _read_change(self, kind: str, change: _CopilotChange) -> None:
        session = self.session
        match kind:
            case "session.start" | "session.resume":
                model = _model_named(change.selected_model)
                is_first = kind == "session.start" and self.header is None and not session.is_started
                if is_first:  # the header waits for the first message, which shows the model
                    self.header, self.model, session.version = change, model, change.copilot_version
                    session.setting("effort", change.reasoning_effort)
                else:
                    self._start_session()
                    self.model, self.reporter.summed = model or self.model, {}
                    session.version = change.copilot_version or session.version
                    session.signal(Sign("resume"))
                session.setting("client-version", session.version)
            case "session.model_change" | "session.auto_mode_resolved":
                self.model = _model_named(change.new_model or change.chosen_model) or self.model
                if (session.chain, "effort") not in session.settings:
                    session.setting("effort", change.previous_reasoning_effort)
                session.setting("effort", change.reasoning_effort)
            case "session.title_changed":
                if title := text_in(change.title):
                    self._start_session()
                    session.emit(e.SessionChanged(title=title, at=session.at))
            case "session.snapshot_rewind":  # an event and those after it, if the log has it
                target = change.up_to_event_id
                ids = [message.items[0].partition(":")[0] for message in session.history]
                if target in ids:
                    session.rewind_to(ids.index(target))
            case _:
                before = change.previous_mode or change.previous_allow_all_permission_mode
                after = change.new_mode or change.allow_all_permission_mode
                if before != after:
                    session.signal(Sign("permission-mode", before=before, after=after))

    def _start_session(self) -> None:
        """Emit the header, if there is one or a message needs it."""
        if not self.session.is_started and (self.header is not None or self.session.at is not None):
            start = self.header or _CopilotChange()
            at, model = start.start_time or self.session.at, self.model
            self.session.start_session(start.session_id, at=at, model=model, dialect=_dialect_of(model))

    # messages

    def _read_system_prompt(self, message: _CopilotMessage) -> None:
        session, content = self.session, message.content
        if opens(content) != '"':
            raise ValueError("a system prompt that is not text")
        self._start_session()
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if digest != self.chain.system:
            self.chain.system = digest
            session.emit(e.SessionChanged(system=content, chain=session.chain, at=session.at))

    def _read_message(self, record: _CopilotLine, message: _CopilotMessage) -> None:
        """Append a message that no model made, as the model gets it."""
        session = self.session
        text = message.content if is_absent(message.transformed_content) else message.transformed_content
        if opens(text) != '"':
            raise ValueError("a message without text")
        self._start_session()
        sender = "system" if record.type == "system.notification" else message.source or "user"
        is_prompt = sender == "user" or sender.startswith("agent-")  # another agent's is the prompt of its chain
        source = "user" if is_prompt else "tick" if sender.startswith("schedule") else "context_injection"
        session.counter.asked_at = session.at
        session.add_message(items.UserMessage(self._uuid(record), blocks=(items.TextBlock(text),), source=source))
        if b'"mimeType":"image/' in bytes(message.attachments):
            session.signal(Sign("image"))

    def _read_answer(self, answer: _CopilotAnswer, uuid: str) -> None:
        """Read a response, or the continuation of one."""
        session, reporter = self.session, self.reporter
        session.chain = name = _chain_of(session.agent or answer.parent_tool_call_id)
        chain, counter = self.chain, session.counter
        self._start_session()
        response = answer.api_call_id or answer.message_id or uuid
        model = answer.model or (self.model if name == e.MAIN else chain.model) or counter.model
        last = chain.last
        # Logs of 2025 have no ids of calls, and one message for each parallel call of a response, before any result.
        has_ids = answer.api_call_id is not None or answer.output_tokens is not None
        if last is not None and (last.id == answer.api_call_id if has_ids else counter.asked_at is None):
            usage, response = last.usage, last.id
            if answer.output_tokens not in (None, usage.output_tokens):
                usage = replace(usage, output_tokens=answer.output_tokens)
                reporter.add_to_sums(name, last.turn, model, usage)
        else:
            agents = (session.agent, answer.parent_tool_call_id)
            usage = reporter.usage_of_answer(answer.model, answer.output_tokens, agents)
            dialect = _dialect_of(model)
            if dialect is not None and dialect != chain.dialect:
                chain.dialect = dialect
                session.emit(e.SessionChanged(dialect=dialect, chain=name))
            reporter.add_to_sums(name, session.start_turn(model), model, usage)
        counter.asked_at = None
        if blocks := _blocks_of(answer):
            session.add_message(items.AssistantMessage(uuid, blocks=blocks, response_id=response))
        for number, call in enumerate(answer.tool_requests or ()):
            arguments = Raw(b"{}") if is_absent(call.arguments) else call.arguments
            session.add_message(
                items.ToolCall(f"{uuid}:{number}", call.tool_call_id, call.name, arguments, response_id=response)
            )
        ids = tuple(filter(None, (answer.request_id, answer.service_request_id)))
        chain.last = Answer(counter.number, session.at, response, counter.model, usage, ids)
        reporter.end_turn(name, chain.last)

    def _read_result(self, result: _CopilotResult) -> None:
        session = self.session
        session.chain = _chain_of(session.agent or result.parent_tool_call_id)
        session.counter.asked_at = session.at
        output, error = (result.result or {}).get("content", NULL), (result.error or {}).get("message", NULL)
        has_failed = result.success is False
        texts = [text for text in (error, output) if opens(text) == '"']
        text = Raw(b'""') if not texts else texts[0] if has_failed else texts[-1]
        session.add_result(
            result.tool_call_id, text, failed=has_failed, error=error if has_failed and error in texts else NULL
        )

    def _read_compaction(self, compaction: _CopilotCompaction, uuid: str) -> None:
        chain = self.chain
        self._start_session()
        used, asked_at, first_kept = compaction.compaction_tokens_used, chain.compacting_at, chain.compacting
        chain.compacting, chain.compacting_at = None, None
        if used is not None:
            response = compaction.request_id or uuid
            self.reporter.add_compaction(used, asked_at, model=used.model or self.model, response=response)
        if compaction.success is False:
            return
        self.reporter.summed = {}  # the client counts from 0 again
        kept_messages = [] if first_kept is None else self.session.history[first_kept:]
        summary = compaction.summary_content
        self.session.compact(
            uuid, kept_messages, pre_tokens=compaction.pre_compaction_tokens,
            post_tokens=compaction.post_compaction_tokens, duration_ms=None if used is None else used.duration,
            summary=summary if opens(summary) == '"' else NULL,
        )  # fmt: skip


def _chain_of(agent: str | None) -> str:
    """Return an agent's chain: its id, with a prefix if that is the main chain's name; the main chain for None."""
    return e.MAIN if not agent else f"agent-{agent}" if agent == e.MAIN else agent


def _model_named(name: str | None) -> str | None:
    """Return a model's name; None if the client chooses one for each request."""
    return name if name and name != "auto" else None


def _dialect_of(model: str | None) -> str | None:
    if model is None:
        return None
    return "anthropic" if model.startswith("claude") else "openai-responses" if model.startswith("gpt-5") else None


def _blocks_of(answer: _CopilotAnswer) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if opens(answer.reasoning_text) == '"':
        opaque = bytes(answer.reasoning_opaque)
        blocks.append(items.ThinkingBlock(answer.reasoning_text, text_of(opaque) if opens(opaque) == '"' else None))
    elif not is_absent(answer.encrypted_content):
        encrypted = bytes(answer.encrypted_content)
        blocks.append(items.RawBlock(Raw(b'{"type":"reasoning","summary":[],"encrypted_content":' + encrypted + b"}")))
    if opens(answer.content) == '"' and not is_blank(answer.content):
        blocks.append(items.TextBlock(answer.content))
    return tuple(blocks)
