"""Kimi Code's logs (`~/.kimi-code/sessions/wd_*/SESSION/agents/AGENT/wire.jsonl`), protocol 1.0 to 1.5.

A line is an event of one agent: messages, and steps. A step is one request: it begins, holds parts and calls, and ends
with its bill, which a `usage.record` repeats. A step's turn starts with the first thing that it made, since the record
of its request, with model and tools, may come before or behind its beginning. Since protocol 1.4 the log holds the
system prompt (`config.update`) and the tools as they were sent (`llm.tools_snapshot`): then prompts are structural. A
compaction keeps the messages behind a number of them, or (newer) the user's, and a summary; its own request is a turn
of a utility chain. Each agent has its own file, which does not say whose it is.

Source: `agent/records/types.ts`, `agent/context`, `loop/events.ts` of kimi-code, October 2026; no public file was
found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct, field

from lore.formats.kimi import content as kimi
from lore.formats.lines import each
from lore.formats.transcripts import TranscriptLines, TranscriptTurns
from lore.formats.values import stamp_of
from lore.model import events as e
from lore.model import lenient
from lore.model.items import NULL, AssistantMessage, Item, ToolCall, UserMessage, is_absent
from lore.model.jsonslice import raw_members
from lore.model.state import Sign


class KimiCodeOrigin(Struct, frozen=True, gc=False):
    """Who put a message in."""

    kind: str = "user"


class KimiCodeMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message that was put into the history."""

    role: str = ""
    content: Raw = NULL
    tool_calls: tuple[kimi.KimiCall, ...] = ()
    tool_call_id: str | None = None
    origin: KimiCodeOrigin | None = None
    is_error: bool | None = None
    note: Raw = NULL


class KimiCodeResult(Struct, frozen=True, gc=False, rename="camel"):
    """What came of a call."""

    output: Raw = NULL
    is_error: bool | None = None
    note: Raw = NULL


class KimiCodeEvent(Struct, frozen=True, gc=False, rename="camel"):
    """A piece of a step."""

    type: str = ""
    uuid: str | None = None
    step_uuid: str | None = None
    part: Raw = NULL
    tool_call_id: str = ""
    name: str = ""
    args: Raw = NULL
    result: KimiCodeResult | None = None
    usage: kimi.CamelUsage | None = None
    message_id: str | None = None


class KimiCodeRecord(Struct, frozen=True, gc=False, rename="camel"):
    """One line: which fields there are depends on its type."""

    type: str
    time: Raw = NULL
    created_at: Raw = NULL
    message: KimiCodeMessage | None = None
    event: KimiCodeEvent | None = None
    system_prompt: Raw = NULL
    thinking_effort: str | None = None
    thinking_level: str | None = None
    hash: str | None = None
    tools: tuple[Raw, ...] | None = None
    kind: str | None = None
    provider: str | None = None
    model: str | None = None
    tools_hash: str | None = None
    usage: kimi.CamelUsage | None = None
    source: str | None = None
    summary: Raw = NULL
    context_summary: Raw = NULL
    compacted_count: int | None = None
    kept_user_message_count: int | None = None
    kept_head_user_message_count: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    count: int | None = None
    mode: str | None = None


decode = lenient.decoding(KimiCodeRecord)


CLIENT, COMPACTIONS = "kimi-code", "utility-compaction"
_NO_INPUT = Raw(b"{}")
_DIALECTS = {"anthropic": "anthropic", "openai_responses": "openai-responses", "gemini": "gemini", "google": "gemini"}
_PEOPLES = frozenset(("user", "skill_activation", "plugin_command"))
_MACHINES = frozenset(("background_task", "cron_job", "cron_missed", "system_trigger", "retry"))
# What a client notes for itself or for the screen: nothing of it stands in a prompt.
_SILENT = (
    "turn.", "permission.", "plan", "swarm_mode.", "tools.", "goal.", "mcp.", "cron.", "task.", "prompt.", "runtime.",
    "token_counting.", "tower_mode.", "interaction.", "file_history.", "background.", "context.update_token_count",
    "forked", "interruptionReminder.", "staleGuard.", "plugin.", "profile.", "full_compaction.",
)  # fmt: skip


class KimiKept(Struct, gc=False):
    """A message of the history: the items that it made, and whether a person wrote it."""

    items: list[str]
    user: bool = False


class KimiStep(Struct):
    """A step: when it began, its place in the history, its turn (0: not begun), whether it ended and was billed."""

    uuid: str
    at: str | None
    place: int
    turn: int = 0
    ended: bool = False
    billed: bool = False


class KimiCodeMemory(Struct):
    """All that the reader remembers.

    `history` are the messages that stand, `step` is the last step; `tables` are tools by their hash, `sent` is the hash
    of those that the last request held; `compacting` says who asked for the compaction under way.
    """

    started: bool = False
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    summaries: TranscriptTurns = field(default_factory=TranscriptTurns)
    history: list[KimiKept] = []
    step: KimiStep | None = None
    model: str | None = None
    dialect: str = "openai-chat"
    effort: str | None = None
    mode: str | None = None
    tables: dict[str, tuple[Raw, ...]] = {}
    sent: str | None = None
    compacting: str | None = None


class KimiCode(TranscriptLines[KimiCodeMemory]):
    """Reader of Kimi Code's logs."""

    name: ClassVar[str] = "kimi-code"
    memory = KimiCodeMemory
    unseen: ClassVar[str] = "the schemas of tools (before protocol 1.4), and the system prompt where none is noted"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = raw_members(next(each(head), b"")) or {}
        return own.get("type") == b'"metadata"' and {"protocol_version", "created_at"} <= own.keys()

    def _take(self, data: bytes) -> None:
        record = decode(data)
        self._at = stamp_of(record.created_at if is_absent(record.time) else record.time)
        if not self._memory.started:
            self._memory.started = True
            self._emit(e.SessionStarted(session_id="", at=self._at, dialect="openai-chat"))
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record)
        elif record.type != "metadata" and not record.type.startswith(_SILENT):
            self._unknown("unknown record type", record.type)

    # the history

    def _message(self, record: KimiCodeRecord) -> None:
        message, line = record.message, self._line.number
        if message is None:
            raise ValueError("a record without its message")
        if message.role == "tool":
            self._result(message.tool_call_id or "", message.content, message.note, failed=bool(message.is_error))
            return
        kind, uuid = (message.origin or KimiCodeOrigin()).kind, f"line-{line}"
        blocks = kimi.blocks_of(message.content)
        kept = KimiKept([], user=message.role == "user" and kind in _PEOPLES)
        self._memory.history.append(kept)
        if message.role == "assistant":
            items: list[Item] = [AssistantMessage(uuid, blocks=blocks, response_id=uuid)] if blocks else []
            items += [kimi.call_of(call, f"{uuid}/{number}", uuid) for number, call in enumerate(message.tool_calls, 1)]
        else:
            source = "user" if kept.user else "tick" if kind in _MACHINES else "context_injection"
            items = [UserMessage(uuid, blocks=blocks, source=source)] if blocks else []
        for item in items:
            kept.items.append(item.uuid)
            self._append(item)

    def _result(self, call: str, output: Raw, note: Raw, *, failed: bool) -> None:
        self._patch(call, kimi.output_of(output, note), failed=failed)
        self._memory.history.append(KimiKept([]))

    def _compacted(self, record: KimiCodeRecord) -> None:
        memory = self._memory
        history, count = memory.history, record.kept_user_message_count
        summary = record.context_summary if is_absent(record.summary) else record.summary
        if not is_absent(summary) and bytes(memoryview(summary)[:1]) != b'"':  # older: a message
            texts = kimi.blocks_of(Raw((raw_members(bytes(summary)) or {}).get("content", b"null")))
            summary = kimi.output_of(Raw(msgspec.json.encode(list(texts))))
        if count is None:
            kept = history[max(0, record.compacted_count or record.count or 0) :]
        else:
            prompts = [message for message in history if message.user]  # the last of them, and so many of the first
            head = min(max(0, record.kept_head_user_message_count or 0), max(0, count))
            tail = min(max(0, count - head), max(0, len(prompts) - head))
            kept = [*prompts[:head], *(prompts[len(prompts) - tail :] if tail else ())]
        uuid, stays = f"line-{self._line.number}", tuple(item for message in kept for item in message.items)
        trigger, pre, post = memory.compacting or "auto", record.tokens_before, record.tokens_after
        text = summary if count is None else NULL
        self._prune(uuid, stays, trigger=trigger, pre=pre, post=post, summary=text)
        memory.history, memory.step = [KimiKept([]), *kept] if count is None else [*kept], None
        if count is not None and not is_absent(summary):  # it stands behind what is kept
            memory.history.append(KimiKept([f"{uuid}/summary"]))
            text = kimi.blocks_of(summary)
            self._append(UserMessage(f"{uuid}/summary", blocks=text, source="context_injection"))

    def _undone(self, record: KimiCodeRecord) -> None:
        """Take back the last prompts and all behind each; where there are not as many, nothing."""
        history = self._memory.history
        prompts = [number for number, message in enumerate(history) if message.user]
        if record.count and 0 < record.count <= len(prompts):
            self._cut(prompts[-record.count])

    def _cleared(self, _: KimiCodeRecord) -> None:
        self._cut(0)

    def _cut(self, first: int) -> None:
        history = self._memory.history
        self._remove([item for message in history[first:] for item in message.items])
        del history[first:]
        self._memory.step = None

    # requests

    def _event(self, record: KimiCodeRecord) -> None:
        event = record.event
        if event is None:
            raise ValueError("a record without its event")
        if event.type == "tool.result":
            result = event.result or KimiCodeResult()
            self._result(event.tool_call_id, result.output, result.note, failed=bool(result.is_error))
            return
        if event.type == "step.begin":
            self._step(event.uuid)
            return
        step = self._memory.step
        if step is None or step.ended or (event.step_uuid or event.uuid or step.uuid) not in (step.uuid, event.uuid):
            step = self._step(event.step_uuid)
        if not step.turn:  # its turn starts now, with what its request was asked with
            self._memory.turns.asked_at = step.at
            now, self._at = self._at, step.at
            self._start_turn(self._memory.turns, self._memory.model)
            step.turn, self._at = self._memory.turns.turn, now
        if event.type == "step.end":
            step.ended = True
            self._end(step, event.usage, event.message_id)
        elif event.type == "content.part":
            uuid = event.uuid or f"line-{self._line.number}"
            self._made(step, AssistantMessage(uuid, blocks=kimi.blocks_of(event.part), response_id=step.uuid))
        elif event.type == "tool.call":
            uuid, args = event.uuid or f"line-{self._line.number}", event.args
            args = _NO_INPUT if is_absent(args) else args
            self._made(step, ToolCall(uuid, event.tool_call_id or uuid, event.name, args, response_id=step.uuid))
        else:
            self._unknown("unknown event type", event.type)

    def _step(self, uuid: str | None) -> KimiStep:
        """Begin a step: a message of the history."""
        history = self._memory.history
        step = self._memory.step = KimiStep(uuid or f"line-{self._line.number}", self._at, len(history))
        history.append(KimiKept([]))
        return step

    def _made(self, step: KimiStep, item: Item) -> None:
        self._memory.history[step.place].items.append(item.uuid)
        self._append(item)

    def _end(self, step: KimiStep, usage: kimi.CamelUsage | None, name: str | None = None) -> None:
        step.billed = usage is not None
        bill = None if usage is None else kimi.billed(usage, CLIENT, self._memory.dialect)
        self._emit(e.TurnCompleted(turn=step.turn, at=self._at, usage=bill, response_id=name or step.uuid))

    def _used(self, record: KimiCodeRecord) -> None:
        """Take a bill: of a compaction under way, or of a step whose end had none."""
        memory, usage = self._memory, record.usage
        if usage is None:
            return
        if memory.compacting is not None:
            self._chain = COMPACTIONS
            self._start_turn(memory.summaries, record.model)
            self._end_turn(memory.summaries, kimi.billed(usage, CLIENT, memory.dialect))
        elif memory.step is not None and memory.step.ended and not memory.step.billed:
            self._end(memory.step, usage)

    def _asked(self, record: KimiCodeRecord) -> None:
        """Take what a request was asked with."""
        memory = self._memory
        if record.kind == "compaction":
            return
        memory.model = record.model or memory.model
        dialect = _dialect_of(record.provider or "")
        tools = memory.tables.get(record.tools_hash or "")
        changed = dialect if dialect != memory.dialect else None
        memory.dialect = dialect
        if tools is not None and record.tools_hash != memory.sent:
            memory.sent = record.tools_hash
        else:
            tools = None
        if changed is not None or tools is not None or not is_absent(record.system_prompt):
            self._emit(e.SessionChanged(dialect=changed, tools=tools, system=record.system_prompt, at=self._at))
        self._effort(record)

    def _configured(self, record: KimiCodeRecord) -> None:
        if not is_absent(record.system_prompt):
            self._emit(e.SessionChanged(system=record.system_prompt, at=self._at))
        self._effort(record)

    def _effort(self, record: KimiCodeRecord) -> None:
        memory, effort = self._memory, record.thinking_effort or record.thinking_level
        before, memory.effort = memory.effort, effort or memory.effort
        self._changed("effort", before, memory.effort)

    def _tools(self, record: KimiCodeRecord) -> None:
        tables = self._memory.tables
        if record.hash is not None and record.tools is not None:
            tables[record.hash] = record.tools

    def _permitted(self, record: KimiCodeRecord) -> None:
        before, self._memory.mode = self._memory.mode, record.mode or self._memory.mode
        self._changed("permission-mode", before, self._memory.mode)

    def _compaction(self, record: KimiCodeRecord) -> None:
        begins = record.type == "full_compaction.begin"
        self._memory.compacting = (record.source or "auto") if begins else None
        if begins:
            self._emit(e.CompactStarted(trigger=self._memory.compacting, at=self._at))

    def _signed(self, record: KimiCodeRecord) -> None:
        self._observe(Sign(_SIGNS[record.type]))


_SIGNS = {"micro_compaction.apply": "micro-compaction", "turn.cancel": "interrupt", "turn.step.retrying": "api-error"}
_HANDLERS: dict[str, Callable[[KimiCode, KimiCodeRecord], None]] = {
    "context.append_message": KimiCode._message,  # pyright: ignore[reportPrivateUsage]
    "context.append_loop_event": KimiCode._event,  # pyright: ignore[reportPrivateUsage]
    "context.apply_compaction": KimiCode._compacted,  # pyright: ignore[reportPrivateUsage]
    "context.undo": KimiCode._undone,  # pyright: ignore[reportPrivateUsage]
    "context.clear": KimiCode._cleared,  # pyright: ignore[reportPrivateUsage]
    "usage.record": KimiCode._used,  # pyright: ignore[reportPrivateUsage]
    "llm.request": KimiCode._asked,  # pyright: ignore[reportPrivateUsage]
    "llm.tools_snapshot": KimiCode._tools,  # pyright: ignore[reportPrivateUsage]
    "config.update": KimiCode._configured,  # pyright: ignore[reportPrivateUsage]
    "permission.set_mode": KimiCode._permitted,  # pyright: ignore[reportPrivateUsage]
    "full_compaction.begin": KimiCode._compaction,  # pyright: ignore[reportPrivateUsage]
    "full_compaction.complete": KimiCode._compaction,  # pyright: ignore[reportPrivateUsage]
    "full_compaction.cancel": KimiCode._compaction,  # pyright: ignore[reportPrivateUsage]
    **dict.fromkeys(_SIGNS, KimiCode._signed),  # pyright: ignore[reportPrivateUsage]
}


@lru_cache(maxsize=64)
def _dialect_of(provider: str) -> str:
    return next((own for word, own in _DIALECTS.items() if word in provider), "openai-chat")
