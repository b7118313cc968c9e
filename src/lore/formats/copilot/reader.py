"""The reader of logs of GitHub Copilot CLI (`~/.copilot/session-state/SESSION/events.jsonl`), 0.0.354 to 1.0.9x.

A request is one `assistant.message`, or several with one `apiCallId`. Lines with an `agentId` (in older versions a
`parentToolCallId`) belong to a subagent, a chain of its own. A log states how long answers were, and elsewhere what
their prompts cost (`bills.py`). With `--output-format json` the command line writes such a log with more lines; those
of an unknown type are passed over if they are `ephemeral`.

A compaction runs while the session continues: it summarises the items before its start, and later items remain. It is a
request on a chain of its own. The system prompt is written before the first request, and from time to time again even
if it did not change; a subagent's is not written, and no schemas of tools are.

Sources: counts over 17 public sessions, versions 0.0.354 to 1.0.74; public readers of newer ones (October 2026).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain as chained
from typing import Any, ClassVar

from msgspec import Raw
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.builder import LogReader
from lore.formats.copilot import records
from lore.formats.copilot.bills import OPENING, Answer, CopilotBills, CopilotChain
from lore.formats.lines import Line, nonblank_lines
from lore.formats.values import opens, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import text_of
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

_LINE_MEMBERS = frozenset(("id", "timestamp", "parentId"))


class Copilot(LogReader):
    """Reader of Copilot CLI's session logs."""

    name: ClassVar[str] = "copilot"
    records_builtin_tools: ClassVar[bool] = False  # their schemas are not in the file
    unseen: ClassVar[str] = (
        "the schemas of tools, the system prompts of subagents, and the usage of prompts unless session-store.db has it"
    )

    def __init__(self) -> None:
        super().__init__()
        self.bills = CopilotBills(self.session)
        self.header: records.CopilotChange | None = None  # until the first message, which shows the model
        self.model: str | None = None
        self._lines: dict[str, int] = {}  # of the records of each id

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in nonblank_lines(head):
            if line.startswith(OPENING):  # lore alone writes this
                return True
            members = raw_members(line) or {}
            kind = text_in(members.get("type", b""))
            is_known = kind in _DATA or kind.startswith(records.SILENT)
            return is_known and members.get("data", b"")[:1] == b"{" and members.keys() >= _LINE_MEMBERS
        return False

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        begin, pieces = b"", filter(None, data)
        while OPENING.startswith(begin[: len(OPENING)]) and b"\n" not in begin and (piece := next(pieces, b"")):
            begin += piece
        if begin.startswith(OPENING):  # lines and bytes are counted in the log itself
            line, _, begin = begin.partition(b"\n")
            self.session.start_record(Line(1, 0, b""))
            self.bills.read_database(line)
            yield from self.session.take()
        yield from super().read(chained((begin,), pieces))

    def handle(self, data: bytes) -> None:
        record, session = records.decode_line(data), self.session
        if record.type not in _DATA:
            if not record.ephemeral and not record.type.startswith(records.SILENT):
                session.keep_unknown("unknown record type", record.type)
            return
        session.at, session.agent, session.chain = record.timestamp, record.agent_id, _chain_of(record.agent_id)
        read = _DATA[record.type](record.data)
        match record.type:
            case "assistant.message":
                self._read_answer(read, self._uuid(record))
            case "tool.execution_complete":
                self._read_result(read)
            case "user.message" | "system.notification":
                self._read_message(record, read)
            case "system.message":
                self._read_system_prompt(read)
            case "assistant.turn_start":
                session.counter.asked_at = session.at
            case "session.usage_checkpoint":
                self.bills.read_checkpoint(read)
            case "session.shutdown":
                self.bills.read_shutdown(read)
            case "session.error" | "model.call_failure":
                session.signal(Sign("api-error"))
            case "abort":
                session.signal(Sign("interrupt"))
            case "skill.invoked":
                name = (raw_members(bytes(read)) or {}).get("name", b"")
                session.signal(Sign("skill", (text_of(name),) if opens(name) == '"' else ()))
            case "subagent.started":
                session.chain = _chain_of(record.agent_id or read.tool_call_id)
                self.chain.model = _model_named(read.model)
            case "session.compaction_start":
                chain = self.chain
                chain.compacting, chain.compacting_at = len(session.history), session.at
                session.emit(e.CompactStarted(trigger="auto", chain=session.chain, at=session.at))
            case "session.compaction_complete":
                self._read_compaction(read, self._uuid(record))
            case "session.context_cleared":
                session.rewind_to(0)
                self.chain.compacting = None
            case "session.truncation":  # the log says how many messages were dropped, and not which
                session.signal(Sign("micro-compaction"))
            case _:
                self._read_change(record.type, read)

    def finish(self) -> None:
        self._start_session()
        self.bills.report_missing()

    @property
    def chain(self) -> CopilotChain:
        return self.bills.chains.setdefault(self.session.chain, CopilotChain())

    def _uuid(self, record: records.CopilotLine) -> str:
        """Return the record's id; one of its own if another record has the same: a redactor's placeholder."""
        line = self.session.line.number
        if not record.id or self._lines.setdefault(record.id, line) != line:
            return self.session.line_id
        return record.id

    # the session

    def _read_change(self, kind: str, change: records.CopilotChange) -> None:
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
                    self.model, self.bills.spent = model or self.model, {}
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
            start = self.header or records.CopilotChange()
            at, model = start.start_time or self.session.at, self.model
            self.session.start_session(start.session_id, at=at, model=model, dialect=_dialect_of(model))

    # messages

    def _read_system_prompt(self, message: records.CopilotMessage) -> None:
        session, content = self.session, message.content
        if opens(content) != '"':
            raise ValueError("a system prompt that is not text")
        self._start_session()
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if digest != self.chain.system:
            self.chain.system = digest
            session.emit(e.SessionChanged(system=content, chain=session.chain, at=session.at))

    def _read_message(self, record: records.CopilotLine, message: records.CopilotMessage) -> None:
        """Append a message that no model made, as the model gets it."""
        session = self.session
        text = message.content if is_absent(message.transformed_content) else message.transformed_content
        if opens(text) != '"':
            raise ValueError("a message without text")
        self._start_session()
        source = "system" if record.type == "system.notification" else message.source or ""
        session.counter.asked_at = session.at
        session.add_message(UserMessage(self._uuid(record), blocks=(TextBlock(text),), source=_source_of(source)))
        if b'"mimeType":"image/' in bytes(message.attachments):
            session.signal(Sign("image"))

    def _read_answer(self, answer: records.CopilotAnswer, uuid: str) -> None:
        """Read a response, or the continuation of one."""
        session, bills = self.session, self.bills
        session.chain = name = _chain_of(session.agent or answer.parent_tool_call_id)
        chain, counter = self.chain, session.counter
        self._start_session()
        response = answer.api_call_id or answer.message_id or uuid
        model = answer.model or (self.model if name == e.MAIN else chain.model) or counter.model
        last = chain.last
        if last is not None and answer.api_call_id is not None and last.id == answer.api_call_id:
            usage = last.usage
            if answer.output_tokens not in (None, usage.output_tokens):
                usage = replace(usage, output_tokens=answer.output_tokens)
                bills.spend(name, last.turn, model, usage)
        else:
            usage, dialect = bills.usage_of_answer(answer), _dialect_of(model)
            if dialect is not None and dialect != chain.dialect:
                chain.dialect = dialect
                session.emit(e.SessionChanged(dialect=dialect, chain=name))
            bills.spend(name, session.start_turn(model), model, usage)
        counter.asked_at = None
        if blocks := _blocks_of(answer):
            session.add_message(AssistantMessage(uuid, blocks=blocks, response_id=response))
        for number, call in enumerate(answer.tool_requests or ()):
            arguments = Raw(b"{}") if is_absent(call.arguments) else call.arguments
            session.add_message(
                ToolCall(f"{uuid}:{number}", call.tool_call_id, call.name, arguments, response_id=response)
            )
        ids = tuple(filter(None, (answer.request_id, answer.service_request_id)))
        chain.last = Answer(counter.number, session.at, response, counter.model, usage, ids)
        bills.end_turn(name, chain.last)

    def _read_result(self, result: records.CopilotResult) -> None:
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

    def _read_compaction(self, compaction: records.CopilotCompaction, uuid: str) -> None:
        chain = self.chain
        self._start_session()
        used, asked_at, first_kept = compaction.compaction_tokens_used, chain.compacting_at, chain.compacting
        chain.compacting, chain.compacting_at = None, None
        if used is not None:
            self.bills.add_compaction(compaction, used, asked_at, model=used.model or self.model, uuid=uuid)
        if compaction.success is False:
            return
        self.bills.spent = {}  # the client counts from 0 again
        kept_messages = [] if first_kept is None else self.session.history[first_kept:]
        summary = compaction.summary_content
        self.session.compact(
            uuid, kept_messages, pre_tokens=compaction.pre_compaction_tokens,
            post_tokens=compaction.post_compaction_tokens, duration_ms=None if used is None else used.duration,
            summary=summary if opens(summary) == '"' else NULL,
        )  # fmt: skip


_CHANGES = (
    "session.start", "session.resume", "session.model_change", "session.auto_mode_resolved", "session.title_changed",
    "session.mode_changed", "session.permissions_changed", "session.snapshot_rewind", "subagent.started",
)  # fmt: skip
_MESSAGES = ("system.message", "system.notification", "user.message")
_SIMPLE = (
    "session.compaction_start", "session.context_cleared", "session.truncation", "session.error", "model.call_failure",
    "abort", "skill.invoked", "assistant.turn_start",
)  # fmt: skip
_DATA: dict[str, Callable[[Raw], Any]] = {  # by the type of a line: how its data is decoded
    **dict.fromkeys(_CHANGES, lenient.decoding(records.CopilotChange)),
    **dict.fromkeys(_MESSAGES, lenient.decoding(records.CopilotMessage)),
    "assistant.message": lenient.decoding(records.CopilotAnswer),
    "tool.execution_complete": lenient.decoding(records.CopilotResult),
    "session.compaction_complete": lenient.decoding(records.CopilotCompaction),
    **dict.fromkeys(("session.usage_checkpoint", "session.shutdown"), lenient.decoding(records.CopilotTotals)),
    **dict.fromkeys(_SIMPLE, Raw),
}


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


def _source_of(source: str) -> str:
    """Return the source of a message of the user's role. Another agent's is the prompt of its chain."""
    if source in ("", "user") or source.startswith("agent-"):
        return "user"
    return "tick" if source.startswith("schedule") else "context_injection"


def _blocks_of(answer: records.CopilotAnswer) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if opens(answer.reasoning_text) == '"':
        opaque = bytes(answer.reasoning_opaque)
        blocks.append(ThinkingBlock(answer.reasoning_text, text_of(opaque) if opens(opaque) == '"' else None))
    elif not is_absent(answer.encrypted_content):
        encrypted = bytes(answer.encrypted_content)
        blocks.append(RawBlock(Raw(b'{"type":"reasoning","summary":[],"encrypted_content":' + encrypted + b"}")))
    if opens(answer.content) == '"' and not is_blank(answer.content):
        blocks.append(TextBlock(answer.content))
    return tuple(blocks)
