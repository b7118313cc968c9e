"""GitHub Copilot CLI's session logs (`~/.copilot/session-state/SESSION/events.jsonl`), versions 0.0.354 to 1.0.9x.

A request is one `assistant.message`, or several of one `apiCallId`. Lines with an `agentId` (older: a
`parentToolCallId`) are a subagent's, a chain of its own. A log says what a request's answer was long, and not what its
prompt was billed: that stands in the client's database (`copilot_usage.py`), for the last request before each pause in
a checkpoint, and in sums at the end.

A compaction runs beside the session: it sums up what stood there when it began, and what came since stays. It is a
request of its own, billed on a chain of its own. The system prompt is written before the first request, and again from
time to time whether it changed or not; a subagent's is not. The schemas of tools are not in the file.

Sources: counts over 17 public sessions, versions 0.0.354 to 1.0.74; public readers of newer ones (October 2026).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar, Self

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats import copilot_records as records
from lore.formats.base import Read
from lore.formats.copilot_checkpoint import Noted, noted_in
from lore.formats.copilot_messages import dialect_of, model_named, source_of, spoken, text_or
from lore.formats.copilot_usage import COMPACTION, MAIN, OPENING, StoredUsage
from lore.formats.lines import Line, Lines, each
from lore.formats.transcripts import TranscriptLines, TranscriptMemory, TranscriptTurns
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import (
    NULL,
    AssistantMessage,
    TextBlock,
    ToolCall,
    UserMessage,
    is_absent,
)
from lore.model.jsonslice import table
from lore.model.state import Sign

_QUOTE = b'"'


class Answered(Struct):
    """The last response of a chain, so that a later line can say more of it."""

    turn: int
    at: str | None
    name: str | None
    model: str | None
    usage: e.Billed
    hashes: e.PromptHashes | None = None


class ChainMemory(Struct):
    """What is remembered of a chain.

    `live` are its items' ids in order, `since` how many of them a compaction that is under way sums up; `system` is the
    digest of its system prompt, `model` what a subagent was begun with, `dialect` that of its last model.
    """

    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    last: Answered | None = None
    live: list[str] = []
    since: int | None = None
    compacting_at: str | None = None
    system: str = ""
    model: str | None = None
    dialect: str | None = None


class Spent(Struct):
    """What a model answered since the client began to count: requests and output tokens, and the last one's chain."""

    requests: int = 0
    output_tokens: int | None = 0
    chain: str = e.MAIN


class CopilotMemory(TranscriptMemory):
    """All that the reader remembers; `header` waits for the session's first message, by when its model is known.

    `lifetimes` are the seconds that what a model writes lives, as the client reckons.
    """

    header: records.Start | None = None
    begun: bool = False
    version: str = ""
    model: str | None = None
    effort: str | None = None
    chains: dict[str, ChainMemory] = {}
    compactions: int = 0
    spent: dict[str, Spent] = {}
    stored: StoredUsage = field(default_factory=StoredUsage)
    lifetimes: dict[str, float] = {}


class Copilot(TranscriptLines[CopilotMemory]):
    """Reader of Copilot CLI's session logs."""

    name: ClassVar[str] = "copilot"
    memory = CopilotMemory
    own_tools: ClassVar[bool] = False  # their schemas are not in the file
    unseen: ClassVar[str] = (
        "the schemas of tools, the system prompts of subagents, without session-store.db what prompts were billed"
    )

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in each(head):
            if line.startswith(OPENING):  # which lore alone writes
                return True
            own = table(line) or {}
            kind = own.get("type", b"")
            named = kind[:1] == _QUOTE and text_of(kind) in records.KINDS
            return named and own.get("data", b"")[:1] == b"{" and own.keys() >= {"id", "timestamp", "parentId"}
        return False

    def feed(self, data: bytes) -> list[Read]:
        lines = self._lines
        if lines.number == 0 and lines.byte == 0:  # the first line is not whole, and may be the one before the log
            begun = lines.pending + data
            end = begun.find(b"\n") if begun.startswith(OPENING) else -1
            if end >= 0:
                self._lines = Lines(times=self.times)
                return [*self._store(begun[:end]), *super().feed(begun[end + 1 :])]
        return super().feed(data)

    def _store(self, line: bytes) -> list[Read]:
        """Take what a database bills."""
        self._line = Line(1, 0, b"")
        try:
            self._memory.stored, fault = StoredUsage.read(line)
        except ValueError:
            fault = "what its database bills cannot be read"
        if fault:
            self._problem(Code.UNREADABLE_FILE, fault)
        return self._taken()

    def _take(self, data: bytes) -> None:
        record = records.decode(data)
        if type(record) is records.SilentLine:
            if record.type == "assistant.turn_start":
                self._chain(record).turns.asked_at = record.timestamp
            return
        handle = self._HANDLERS.get(record.type)
        if handle is None:
            self._opaque(Code.UNKNOWN_RECORD, f"unknown record type {record.type[:60]!r}; kept as opaque")
        else:
            handle(self, record)

    def _last(self) -> None:
        self._begin_session()
        stored = self._memory.stored
        left = sum(len(rows) for rows in stored.rows.values()) + stored.passed
        if stored.missing:
            detail = f"{stored.missing} requests of the log have no bill in session-store.db, {left} bills no request"
            self._problem(Code.UNKNOWN_ID, detail)

    # where a line belongs

    def _name(self, record: records.Line, parent: str | None = None) -> str:
        """Name the chain of a line: the agent that it names, which may be called as the main chain is."""
        name = record.agent_id or parent
        return e.MAIN if not name else f"agent-{name}" if name == e.MAIN else name

    def _chain(self, record: records.Line, parent: str | None = None) -> ChainMemory:
        return self._memory.chains.setdefault(self._name(record, parent), ChainMemory())

    def _id(self, record: records.Line) -> str:
        return record.id or f"line-{self._line.number}"

    def _see(self, record: records.Line, *signs: Sign) -> None:
        self._observe(signs, self._name(record), record.timestamp, self._memory.version)

    # the session

    def _start(self, record: records.StartLine) -> None:
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
        self._see(record, *signs)

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

    def _change_model(self, record: records.ModelLine) -> None:
        memory, model = self._memory, record.data
        memory.model = model_named(model.new_model) or memory.model
        before = memory.effort if memory.effort is not None else model.previous_reasoning_effort
        if model.reasoning_effort is not None:
            memory.effort = model.reasoning_effort
            if before is not None and before != model.reasoning_effort:
                self._see(record, Sign("effort", before=before, after=model.reasoning_effort))

    def _change_mode(self, record: records.ModeLine) -> None:
        mode = record.data
        before = mode.previous_mode or mode.previous_allow_all_permission_mode
        after = mode.new_mode or mode.allow_all_permission_mode
        if before != after:
            self._see(record, Sign("permission-mode", before=before, after=after))

    def _stop(self, record: records.OtherLine) -> None:
        self._see(record, Sign("interrupt" if record.type == "abort" else "api-error"))

    def _skill(self, record: records.OtherLine) -> None:
        name = (table(bytes(record.data)) or {}).get("name", b"")
        self._see(record, Sign("skill", (text_of(name),) if name[:1] == _QUOTE else ()))

    # messages

    def _system(self, record: records.MessageLine) -> None:
        """Take a system prompt: one that changed is a change of the session."""
        content, chain = record.data.content, self._chain(record)
        if bytes(memoryview(content)[:1]) != _QUOTE:
            raise ValueError("a system prompt that is no text")
        self._begin_session(record.timestamp)
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if digest != chain.system:
            chain.system = digest
            self._emit(e.SessionChanged(system=content, chain=self._name(record), at=record.timestamp))

    def _user(self, record: records.MessageLine) -> None:
        """Append a message that the model did not make, as the model sees it."""
        message, chain = record.data, self._chain(record)
        text = message.content if is_absent(message.transformed_content) else message.transformed_content
        if bytes(memoryview(text)[:1]) != _QUOTE:
            raise ValueError("a message without text")
        self._begin_session(record.timestamp)
        source = "system" if record.type == "system.notification" else message.source or ""
        uuid = self._id(record)
        chain.live.append(uuid)
        chain.turns.asked_at = record.timestamp
        item = UserMessage(uuid, blocks=(TextBlock(text),), source=source_of(source))
        self._append(item, self._name(record), record.timestamp, record.agent_id)
        if b'"mimeType":"image/' in bytes(message.attachments):
            self._see(record, Sign("image"))

    def _answer(self, record: records.AnswerLine) -> None:
        """Take what a request was answered with."""
        answer, memory = record.data, self._memory
        name, chain = self._name(record, answer.parent_tool_call_id), self._chain(record, answer.parent_tool_call_id)
        self._begin_session(record.timestamp)
        response = answer.api_call_id or answer.message_id or self._id(record)
        went_on = chain.last is not None and answer.api_call_id is not None and chain.last.name == answer.api_call_id
        usage = chain.last.usage if went_on and chain.last is not None else self._bill(name, record)
        if went_on and answer.output_tokens is not None:
            usage = replace(usage, output_tokens=answer.output_tokens)
        if not went_on:
            model = answer.model or (memory.model if name == e.MAIN else chain.model) or chain.turns.model
            if (dialect := dialect_of(model)) != chain.dialect and dialect is not None:
                chain.dialect = dialect
                self._emit(e.SessionChanged(dialect=dialect, chain=name))
            self._start_turn(name, chain.turns, model, record.timestamp, record.agent_id)
            self._spend(name, model, answer.output_tokens)
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
            self._append(item, name, record.timestamp, record.agent_id)
        chain.last = Answered(chain.turns.turn, record.timestamp, response, chain.turns.model, usage)
        self._complete(name, chain.last)

    def _bill(self, name: str, record: records.AnswerLine) -> e.Billed:
        """Return what the database bills of a request; without one, what the log says."""
        answer = record.data
        agents = (MAIN,) if name == e.MAIN else tuple(filter(None, (record.agent_id, answer.parent_tool_call_id)))
        row = self._memory.stored.take(agents, answer.model, answer.output_tokens)
        if row is None:
            return self._billed(records.Usage(output_tokens=answer.output_tokens))
        output = answer.output_tokens if row.output_tokens is None else row.output_tokens
        counts = row.input_tokens, output, row.cache_read_tokens, row.cache_write_tokens
        return self._billed(records.Usage(*counts), answer.model)

    def _complete(self, name: str, last: Answered) -> None:
        usage = None if last.usage == e.Billed(client=last.usage.client) else last.usage
        self._emit(
            e.TurnCompleted(
                turn=last.turn, at=last.at, chain=name, usage=usage, response_id=last.name, hashes=last.hashes
            )
        )

    def _result(self, record: records.ResultLine) -> None:
        result = record.data
        name, chain = self._name(record, result.parent_tool_call_id), self._chain(record, result.parent_tool_call_id)
        chain.turns.asked_at = record.timestamp
        output = NULL if result.result is None else result.result.content
        error = NULL if result.error is None else result.error.message
        failed = result.success is False
        self._emit(
            e.PatchToolCall(
                call_id=result.tool_call_id, status="failed" if failed else "completed", chain=name,
                at=record.timestamp, output=text_or(output, error, failed=failed),
                error=error if failed and bytes(memoryview(error)[:1]) == _QUOTE else NULL,
            )
        )  # fmt: skip

    def _subagent(self, record: records.SubagentLine) -> None:
        """Note the model of an agent that a call began."""
        chain = self._chain(record, record.data.tool_call_id)
        chain.model = model_named(record.data.model)

    # what shortens a history

    def _compact(self, record: records.CompactionLine) -> None:
        """Take a compaction: when it begins, what stands there is what it sums up."""
        name, chain, compaction = self._name(record), self._chain(record), record.data
        if record.type == "session.compaction_start":
            chain.since, chain.compacting_at = len(chain.live), record.timestamp
            self._emit(e.CompactStarted(trigger="auto", chain=name, at=record.timestamp))
            return
        self._begin_session(record.timestamp)
        used, asked_at = compaction.compaction_tokens_used, chain.compacting_at
        since, chain.since, chain.compacting_at = chain.since, None, None
        if used is not None:
            self._bill_compaction(record, used, asked_at)
        if compaction.success is False:
            return
        chain.live = [] if since is None else chain.live[since:]
        summary = compaction.summary_content
        self._emit(
            e.CompactApplied(
                uuid=self._id(record), trigger="auto", chain=name, at=record.timestamp,
                pre_tokens=compaction.pre_compaction_tokens, post_tokens=compaction.post_compaction_tokens,
                duration_ms=None if used is None else used.duration, preserved_uuids=tuple(chain.live),
                summary=summary if bytes(memoryview(summary)[:1]) == _QUOTE else NULL,
            )
        )  # fmt: skip

    def _bill_compaction(self, record: records.CompactionLine, used: records.Usage, asked_at: str | None) -> None:
        """Bill the request that summed up, on a chain of its own."""
        memory = self._memory
        memory.compactions += 1
        name, model = f"utility-{memory.compactions}", used.model or memory.model
        if model is not None:
            self._emit(e.SessionChanged(model=model, chain=name))
        self._emit(e.TurnStarted(turn=1, at=asked_at or record.timestamp, chain=name))
        if COMPACTION in memory.stored.rows:
            memory.stored.take((COMPACTION,), used.model, used.output_tokens)
        usage, response = self._billed(used, model), record.data.request_id or self._id(record)
        self._emit(e.TurnCompleted(turn=1, at=record.timestamp, chain=name, usage=usage, response_id=response))
        self._spend(name, model, used.output_tokens)

    def _clear(self, record: records.OtherLine) -> None:
        """Take all of a history away: the user began anew."""
        name, chain = self._name(record), self._chain(record)
        if chain.live:
            self._emit(e.Remove(uuids=tuple(chain.live), chain=name, at=record.timestamp))
            chain.live, chain.since = [], None

    def _truncate(self, record: records.OtherLine) -> None:
        """Note that messages were dropped: the log says how many, and not which."""
        self._see(record, Sign("micro-compaction"))

    def _rewind(self, record: records.RewindLine) -> None:
        """Take back what an event and those behind it made, where the log still holds it."""
        chain, target = self._chain(record), record.data.up_to_event_id
        at = next((place for place, uuid in enumerate(chain.live) if uuid.partition(":")[0] == target), None)
        if target and at is not None:
            gone, chain.live = chain.live[at:], chain.live[:at]
            self._emit(e.Remove(uuids=tuple(gone), chain=self._name(record), at=record.timestamp))

    # bills

    def _billed(self, usage: records.Usage, model: str | None = None) -> e.Billed:
        """Split counts whose input includes what was read and written; what was written lives as long as is known."""
        whole, read, write = usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens
        client = f"copilot {self._memory.version}".rstrip()
        cached = (read or 0) + (write or 0)
        if whole is not None and cached > whole:
            odd = f"{cached} cached tokens are more than all {whole} of the input"
            return e.OddBill(None, read, write, usage.output_tokens, client=client, odd=odd)
        uncached = None if whole is None else whole - cached
        life = self._memory.lifetimes.get(model or "") if write else None
        short, long = write if life == 300 else None, write if life == 3_600 else None
        return e.Billed(
            uncached, read, write, usage.output_tokens, write_5m_tokens=short, write_1h_tokens=long, client=client
        )

    def _spend(self, name: str, model: str | None, output: int | None) -> None:
        spent = self._memory.spent.setdefault(model or "", Spent())
        spent.requests, spent.chain = spent.requests + 1, name
        spent.output_tokens = None if output is None or spent.output_tokens is None else spent.output_tokens + output

    def _checkpoint(self, record: records.CheckpointLine) -> None:
        """Take what is noted as a session goes idle: of the last requests what they were billed, and hashes."""
        memory = self._memory
        for state in record.data.model_cache_state or ():
            if state.cache_ttl_seconds is not None:
                memory.lifetimes[state.model_id] = state.cache_ttl_seconds
        found, odd = noted_in(record.data.prompt_cache_break_state)
        if odd:
            self._problem(Code.MALFORMED_RECORD, f"{odd} conversations of promptCacheBreakState cannot be read")
        for noted in found:
            if noted.lifetime is not None:
                memory.lifetimes[noted.model] = noted.lifetime
            for name, chain in memory.chains.items():
                if chain.last is not None and chain.last.name == noted.response:
                    self._note(name, chain.last, noted)

    def _note(self, name: str, last: Answered, noted: Noted) -> None:
        """Complete a request again, with what a checkpoint notes of it."""
        bill, known = self._billed(noted.usage, noted.model), last.usage
        if known.read_tokens is not None and bill.read_tokens not in (None, known.read_tokens):
            detail = f"{bill.read_tokens} tokens read by the checkpoint, {known.read_tokens} by session-store.db"
            self._problem(Code.UNKNOWN_ID, f"the bill of {noted.response[:80]!r} is not clear: {detail}")
        if bill.read_tokens is not None:
            last.usage = replace(bill, output_tokens=known.output_tokens)
        last.hashes = noted.hashes
        self._complete(name, last)

    def _shut_down(self, record: records.ShutdownLine) -> None:
        """Compare what a client sums up with the requests of the log; where a sum is of one request, it is its bill."""
        memory = self._memory
        for model, metrics in (record.data.model_metrics or {}).items():
            spent, count = memory.spent.get(model), metrics.requests.count if metrics.requests else None
            usage = metrics.usage
            if spent is None or count is None or usage is None:
                continue
            chain = memory.chains.get(spent.chain)
            if count == spent.requests == 1 and chain is not None and chain.last is not None:
                chain.last.usage = self._billed(usage, model)
                self._complete(spent.chain, chain.last)
            elif count < spent.requests or (
                count == spent.requests and spent.output_tokens not in (None, usage.output_tokens)
            ):
                detail = f"{count} requests and {usage.output_tokens} output tokens at the end, {spent.requests} and"
                self._problem(Code.UNKNOWN_ID, f"{model}: {detail} {spent.output_tokens} in the log: one is incomplete")
        memory.spent = {}

    _HANDLERS: ClassVar[dict[str, Callable[[Self, Any], None]]] = {
        "session.start": _start,
        "session.resume": _start,
        "session.model_change": _change_model,
        "session.mode_changed": _change_mode,
        "session.permissions_changed": _change_mode,
        "session.compaction_start": _compact,
        "session.compaction_complete": _compact,
        "session.context_cleared": _clear,
        "session.truncation": _truncate,
        "session.snapshot_rewind": _rewind,
        "session.usage_checkpoint": _checkpoint,
        "session.shutdown": _shut_down,
        "session.error": _stop,
        "abort": _stop,
        "skill.invoked": _skill,
        "system.message": _system,
        "system.notification": _user,
        "user.message": _user,
        "assistant.message": _answer,
        "tool.execution_complete": _result,
        "subagent.started": _subagent,
    }
