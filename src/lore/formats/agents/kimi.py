"""Kimi Code's logs (`~/.kimi-code/sessions/wd_*/SESSION/agents/AGENT/wire.jsonl`), protocol 1.0 to 1.5.

Each line is one event of one agent; every agent has its own file. A model request is a "step": it begins, has parts and
tool calls, and ends with its usage, which a `usage.record` repeats. Kimi CLI logs content, calls and usage alike. Since
protocol 1.4 the log also holds the system prompt and the tools that were sent: then prompts are structural.

Source: `agent/records/types.ts`, `agent/context` and `loop/events.ts` of kimi-code, October 2026; no public log was
found.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, TypeAlias

from msgspec import Raw, Struct

from lore.formats.bills import usage_without_cached_input
from lore.formats.builder import LogReader, Message
from lore.formats.lines import nonblank_lines
from lore.formats.values import CalledFunction, blocks_in, call_item, image_at, opens, result_of, stamp_of, text_in
from lore.model import events as e
from lore.model import items, lenient
from lore.model.jsonslice import members_at
from lore.model.state import Sign


class KimiCall(Struct, frozen=True, gc=False):
    """A call. Its name and arguments are in `function`, or (newer) in the call itself."""

    id: str = ""
    name: str = ""
    arguments: Raw = items.NULL
    function: CalledFunction | None = None


KimiUsage: TypeAlias = dict[str, int | None]  # counts by name, which Kimi Code writes in camelCase


def blocks_of(content: Raw) -> tuple[items.Block, ...]:
    """Return the blocks of a text, a part or a list of parts; raise ValueError for any other content."""
    listed, blocks = Raw(b"[%b]" % bytes(content)) if opens(content) == "{" else content, list[items.Block]()
    for block in blocks_in(listed):
        members = members_at(block.json) if isinstance(block, items.RawBlock) else {}
        kind, thought = members.get("type"), members.get("think", b"")
        if kind == b'"think"' and thought[:1] == b'"':
            blocks.append(items.ThinkingBlock(Raw(thought), text_in(members.get("encrypted", b"")) or None))
        elif kind == b'"image_url"':
            url = members_at(members.get("image_url", members.get("imageUrl", b"null"))).get("url", b"")
            blocks.append(image_at(url) or block)
        else:
            blocks.append(block)
    return tuple(blocks)


def call_of(call: KimiCall, uuid: str, response: str) -> items.ToolCall:
    """Return the item of a call; without arguments it has an empty object."""
    function = call.function or CalledFunction(call.name, call.arguments)
    return call_item(uuid, call.id or uuid, function.name, function.arguments, response)


def output_of(content: Raw, note: Raw = items.NULL) -> Raw:
    """Return a result as the model sees it, a text or blocks; the client's note for the model follows it."""
    has_note = opens(note) == '"' and note != Raw(b'""')
    if opens(content) == '"':
        return Raw(bytes(content)[:-1] + b"\\n" + bytes(note)[1:]) if has_note else content
    return result_of((*blocks_of(content), items.TextBlock(note)) if has_note else blocks_of(content))


def counts_of(usage: KimiUsage) -> tuple[int | None, ...]:
    """Return the tokens of a request: input without cached tokens, cache reads, cache writes, output."""
    names = ("input_other", "input_cache_read", "input_cache_creation", "output")
    return tuple([usage.get(name, usage.get(lenient.camel(name))) for name in names])


def billed(usage: KimiUsage, client: str, dialect: str) -> e.Usage:
    """Convert usage to lore's counts."""
    uncached, read, write, output = counts_of(usage)
    return usage_without_cached_input(uncached, read, write, output, client=client, dialect=dialect)


class _KimiCodeMessage(Struct, frozen=True, gc=False, rename="camel"):
    role: str = ""
    content: Raw = items.NULL
    tool_calls: tuple[KimiCall, ...] = ()
    tool_call_id: str | None = None
    origin: dict[str, Raw] | None = None  # its `kind` says who wrote it
    is_error: bool | None = None
    note: Raw = items.NULL  # the client's note for the model, after a result


class _KimiCodeEvent(Struct, frozen=True, gc=False, rename="camel"):  # a piece of a step; its fields depend on the type
    type: str = ""
    uuid: str | None = None
    step_uuid: str | None = None
    part: Raw = items.NULL
    tool_call_id: str = ""
    name: str = ""
    args: Raw = items.NULL
    result: dict[str, Raw] | None = None  # of a call: `output`, `isError` and a `note` for the model
    usage: KimiUsage | None = None
    message_id: str | None = None  # the provider's name for the response


class _KimiCodeRecord(Struct, frozen=True, gc=False, rename="camel"):  # one line; its fields depend on the type
    type: str
    time: Raw = items.NULL
    created_at: Raw = items.NULL
    message: _KimiCodeMessage | None = None
    event: _KimiCodeEvent | None = None
    system_prompt: Raw = items.NULL
    thinking_effort: str | None = None
    thinking_level: str | None = None  # its older name
    hash: str | None = None  # of `tools`
    tools: tuple[Raw, ...] | None = None
    kind: str | None = None  # what a request is for
    provider: str | None = None
    model: str | None = None
    tools_hash: str | None = None  # of the tools that a request sends
    usage: KimiUsage | None = None
    source: str | None = None  # who asked for a compaction
    summary: Raw = items.NULL
    context_summary: Raw = items.NULL
    compacted_count: int | None = None  # messages that the summary replaces
    kept_user_message_count: int | None = None
    kept_head_user_message_count: int | None = None  # how many of the kept messages are the first ones
    tokens_before: int | None = None
    tokens_after: int | None = None
    count: int | None = None  # prompts that an undo removes
    mode: str | None = None


_CLIENT = "kimi-code"
_DIALECTS = {"anthropic": "anthropic", "openai_responses": "openai-responses", "gemini": "gemini", "google": "gemini"}
_USER_ORIGINS = frozenset(("user", "skill_activation", "plugin_command"))
_SCHEDULER_ORIGINS = frozenset(("background_task", "cron_job", "cron_missed", "system_trigger", "retry"))
_SIGNALS = {"micro_compaction.apply": "micro-compaction", "turn.cancel": "interrupt", "turn.step.retrying": "api-error"}
# Records that only this client writes: one of them is the first if a log lacks its beginning.
_OWN = frozenset((
    "context.append_loop_event", "context.append_message", "context.apply_compaction", "llm.request", "usage.record",
    "llm.tools_snapshot", "config.update", "context.undo",
))  # fmt: skip
_LOOKED_AT = 16  # lines of a file's beginning
# Notes of the client that are never part of a prompt.
_IGNORED = (
    "metadata", "turn.", "permission.", "plan", "swarm_mode.", "tools.", "goal.", "mcp.", "cron.", "task.", "prompt.",
    "runtime.", "token_counting.", "tower_mode.", "interaction.", "file_history.", "background.",
    "context.update_token_count", "forked", "interruptionReminder.", "staleGuard.", "plugin.", "profile.",
    "full_compaction.", "usage.",
)  # fmt: skip


@dataclass(slots=True)
class _KimiStep:
    uuid: str
    started_at: str | None
    message: Message  # what the model made
    turn: int = 0  # 0: the model made nothing yet
    has_ended: bool = False
    has_usage: bool = False


class KimiCode(LogReader):
    """Reader of Kimi Code's logs."""

    name: ClassVar[str] = "kimi-code"
    unseen: ClassVar[str] = "the schemas of tools (before protocol 1.4), and the system prompt unless it is recorded"

    def __init__(self) -> None:
        super().__init__()
        self._step: _KimiStep | None = None  # the latest
        self._model: str | None = None  # of the next request
        self._dialect = "openai-chat"
        self._tools: dict[str, tuple[Raw, ...]] = {}  # by their hash
        self._sent_tools: str | None = None  # hash of those that the latest request sent
        self._compacting: str | None = None  # who asked for the compaction under way

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in islice(nonblank_lines(head), _LOOKED_AT):
            record = members_at(line)
            if record.get("type") == b'"metadata"':
                return {"protocol_version", "created_at"} <= record.keys()
            if text_in(record.get("type", b"")) in _OWN and not {"time", "created_at"}.isdisjoint(record):
                return True
        return False

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_KimiCodeRecord, data), self.session
        session.at = stamp_of(record.created_at if items.is_absent(record.time) else record.time)
        session.start_session(at=session.at, dialect="openai-chat")
        match record.type:
            case "context.append_loop_event":
                self._read_event(record)
            case "context.append_message":
                self._read_message(record)
            case "usage.record" if record.usage is not None:
                self._read_late_usage(record.usage, record.model)
            case "llm.request":
                self._read_request(record)
            case "llm.tools_snapshot" if record.hash is not None and record.tools is not None:
                self._tools[record.hash] = record.tools
            case "config.update":
                if not items.is_absent(record.system_prompt):
                    session.emit(e.SessionChanged(system=record.system_prompt, at=session.at))
                session.setting("effort", record.thinking_effort or record.thinking_level)
            case "permission.set_mode" if record.mode:
                session.setting("permission-mode", record.mode)
            case "context.apply_compaction":
                self._compact(record)
            case "context.undo":
                prompts = [index for index, message in enumerate(session.history) if message.is_prompt]
                if record.count and 0 < record.count <= len(prompts):
                    session.rewind_to(prompts[-record.count])
                    self._step = None
            case "context.clear":
                session.rewind_to(0)
                self._step = None
            case "full_compaction.begin":
                self._compacting = record.source or "auto"
                session.emit(e.CompactStarted(trigger=self._compacting, at=session.at))
            case "full_compaction.complete" | "full_compaction.cancel":
                self._compacting = None
            case kind if kind in _SIGNALS:
                session.signal(Sign(_SIGNALS[kind]))
            case kind if not kind.startswith(_IGNORED):
                session.keep_unknown("unknown record type", kind)
            case _:
                pass

    def _read_message(self, record: _KimiCodeRecord) -> None:
        message, uuid = record.message, self.session.line_id
        if message is None:
            raise ValueError("a record without its message")
        if message.role == "tool":
            self._add_result(message.tool_call_id or "", message.content, message.note, failed=bool(message.is_error))
            return
        origin = text_in((message.origin or {}).get("kind", items.NULL)) or "user"
        is_prompt = message.role == "user" and origin in _USER_ORIGINS
        blocks, made = blocks_of(message.content), list[items.Item]()
        if message.role == "assistant":
            made += [items.AssistantMessage(uuid, blocks=blocks, response_id=uuid)] if blocks else []
            made += [call_of(call, f"{uuid}/{number}", uuid) for number, call in enumerate(message.tool_calls, 1)]
        elif blocks:
            source = "user" if is_prompt else "tick" if origin in _SCHEDULER_ORIGINS else "context_injection"
            made.append(items.UserMessage(uuid, blocks=blocks, source=source))
        self.session.add_message(*made, is_prompt=is_prompt)

    def _add_result(self, call_id: str, content: Raw, note: Raw, *, failed: bool) -> None:
        self.session.add_result(call_id, output_of(content, note), failed=failed)
        self.session.add_message()  # compactions count it

    def _read_event(self, record: _KimiCodeRecord) -> None:
        event, session, step = record.event, self.session, self._step
        if event is None:
            raise ValueError("a record without its event")
        if event.type == "tool.result":
            result = event.result or {}
            failed = bytes(result.get("isError", items.NULL)) == b"true"
            self._add_result(
                event.tool_call_id, result.get("output", items.NULL), result.get("note", items.NULL), failed=failed
            )
            return
        if event.type == "step.begin":
            self._begin_step(event.uuid)
            return
        if step is None or step.has_ended or (event.step_uuid or step.uuid) not in (step.uuid, event.uuid):
            step = self._begin_step(event.step_uuid)
        if not step.turn:  # the record of its request, with the model, may come after its beginning
            session.counter.asked_at = step.started_at
            step.turn = session.start_turn(self._model)
        uuid = event.uuid or session.line_id
        if event.type == "step.end":
            step.has_ended = True
            self._end_step(step, event.usage, event.message_id)
        elif event.type == "content.part":
            blocks = blocks_of(event.part)
            session.add_item(step.message, items.AssistantMessage(uuid, blocks=blocks, response_id=step.uuid))
        elif event.type == "tool.call":
            call = call_item(uuid, event.tool_call_id or uuid, event.name, event.args, step.uuid)
            session.add_item(step.message, call)
        else:
            session.keep_unknown("unknown event type", event.type)

    def _begin_step(self, uuid: str | None) -> _KimiStep:
        session = self.session
        self._step = _KimiStep(uuid or session.line_id, session.at, session.add_message())
        return self._step

    def _end_step(self, step: _KimiStep, usage: KimiUsage | None, response_id: str | None = None) -> None:
        step.has_usage = usage is not None
        bill = billed(usage, _CLIENT, self._dialect) if usage is not None else None
        self.session.end_turn(bill, response_id or step.uuid, number=step.turn)

    def _read_late_usage(self, usage: KimiUsage, model: str | None) -> None:
        """Read the usage of the compaction under way, or of a step that ended without."""
        step = self._step
        if self._compacting is not None:
            self.session.chain = "utility-compaction"
            self.session.start_turn(model)
            self.session.end_turn(billed(usage, _CLIENT, self._dialect))
        elif step is not None and step.has_ended and not step.has_usage:
            self._end_step(step, usage)

    def _read_request(self, record: _KimiCodeRecord) -> None:
        """Read the provider, model, tools and system prompt that a request was sent with."""
        if record.kind == "compaction":
            return
        session, before, provider = self.session, self._dialect, record.provider or ""
        self._model = record.model or self._model
        self._dialect = next((dialect for word, dialect in _DIALECTS.items() if word in provider), "openai-chat")
        dialect = self._dialect if self._dialect != before else None
        tools = self._tools.get(record.tools_hash or "") if record.tools_hash != self._sent_tools else None
        if tools is not None:
            self._sent_tools = record.tools_hash
        if dialect is not None or tools is not None or not items.is_absent(record.system_prompt):
            session.emit(e.SessionChanged(dialect=dialect, tools=tools, system=record.system_prompt, at=session.at))
        session.setting("effort", record.thinking_effort or record.thinking_level)

    def _compact(self, record: _KimiCodeRecord) -> None:
        session, history, uuid = self.session, self.session.history, self.session.line_id
        summary, count = record.summary, record.kept_user_message_count
        summary = record.context_summary if items.is_absent(summary) else summary
        if opens(summary) not in ("n", '"'):  # older: a whole message
            summary = result_of(blocks_of(Raw(members_at(summary).get("content", b"null"))))
        details = {"pre_tokens": record.tokens_before, "post_tokens": record.tokens_after}
        trigger, self._step = self._compacting or "auto", None
        if count is None:  # up to protocol 1.3: the summary replaces the first messages
            kept_messages = history[max(0, record.compacted_count or record.count or 0) :]
            session.compact(uuid, kept_messages, trigger=trigger, summary=summary, **details)
            session.history.insert(0, Message())
            return
        prompts = [message for message in history if message.is_prompt]  # some of the first and of the last are kept
        head = min(max(0, record.kept_head_user_message_count or 0), max(0, count))
        tail = min(max(0, count - head), max(0, len(prompts) - head))
        session.compact(uuid, [*prompts[:head], *prompts[len(prompts) - tail :]], trigger=trigger, **details)
        if not items.is_absent(summary):
            blocks = blocks_of(summary)
            session.add_message(items.UserMessage(f"{uuid}/summary", blocks=blocks, source="context_injection"))
