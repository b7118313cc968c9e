"""Qwen Code's chats (`~/.qwen/projects/PROJECT/chats/SESSION.jsonl`) and those of its subagents (`subagents/SESSION/`).

The records form a tree, and the prompt is the path from the root to the last record: a record that continues an earlier
one removes what followed that. A record of the assistant is one request; a subagent's answer is several records, one
for each call, and only the first may have usage. A compression has the history that replaces all before it. Thoughts
are sent again. Counts are Gemini's words for those of any API: the prompt includes cached tokens, and the total shows
whether the answer includes thoughts. If the API counted only a total, the client guesses the other counts; these are
unknown.

System prompt and tools are in no file but those of subagents that older versions started.

Source: `chatRecordingService.ts`, `session-api-history.ts` and `agent-transcript.ts` of qwen-code, October 2026; no
public file was found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.agents import google
from lore.formats.agents.google import GoogleContent
from lore.formats.bills import usage_with_cached_input
from lore.formats.builder import LogReader, Message
from lore.formats.lines import nonblank_lines
from lore.formats.values import count_in, opens, text_in
from lore.model import events as e
from lore.model.canonical import encode, text_of
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, Block, Item, TextBlock, UserMessage, is_absent
from lore.model.jsonslice import members_at
from lore.model.mask import mask
from lore.model.state import Sign

TYPES = frozenset(("user", "assistant", "tool_result", "system"))
_SCHEDULERS = frozenset(("notification", "cron", "goal_runtime"))  # subtypes of messages that no person wrote
_NEVER_SENT = frozenset(("realtime_message", "code_mode_tool_result"))
_DIALECTS = {"gemini": "gemini", "vertex-ai": "gemini", "anthropic": "anthropic"}
_CHAT = "openai-chat"
_FAILED = frozenset(("error", "cancelled"))
_API_ERROR = b"qwen-code.api_error"
_HEAD_LINES = 64
_REMOVED = -1  # the depth of a record that a rewind removed


class _QwenMessage(Struct, frozen=True, gc=False):  # a `Content`: a message that was sent or answered
    role: str = ""
    parts: Raw = NULL


class _QwenUsage(Struct, frozen=True, gc=False, rename="camel"):
    prompt_token_count: int | None = None  # with cached tokens
    candidates_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class _QwenRecord(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    version: str | None = None
    message: _QwenMessage | None = None
    usage_metadata: _QwenUsage | None = None
    model: str | None = None
    tool_call_result: dict[str, Raw] | None = None  # with a `status`
    system_payload: Raw = NULL
    agent_id: str | None = None
    is_sidechain: bool | None = None
    forked_from: dict[str, Raw] | None = None  # the `sessionId` that a fork was copied from


# The content of a system record; its subtype decides which fields it has.
class _QwenPayload(Struct, frozen=True, gc=False, rename="camel"):
    info: dict[str, Raw] | None = None  # tokens of the history before and after a compression
    compressed_history: tuple[_QwenMessage, ...] | None = None
    phase: str = ""
    raw_command: str = ""
    sent_to_model: bool | None = None
    history: tuple[_QwenMessage, ...] = ()
    system_instruction: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    auth_type: str = ""
    mode: str = ""
    hook_context: str = ""
    custom_title: str = ""


@dataclass
class _QwenChain:
    pruned: int = 0  # messages that a compression replaced
    depths: dict[str, int] = field(default_factory=dict[str, int])  # messages that lead to each record, by uuid
    response: str | None = None  # the answer that more records may belong to
    prompt: int | None = None  # digest of the user's message, if it is one text and the last one
    command: str = ""  # the latest slash command
    dialect: str = _CHAT


class QwenCode(LogReader):
    """Reader of Qwen Code's chats."""

    name: ClassVar[str] = "qwen-code"

    def __init__(self) -> None:
        super().__init__()
        self._chains = defaultdict[str, _QwenChain](_QwenChain)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in islice(nonblank_lines(head), _HEAD_LINES):
            record = members_at(line)
            has_names = record.keys() >= {"uuid", "parentUuid", "sessionId", "type"}
            if not has_names or text_in(record["type"]) not in TYPES:
                return False
            message = members_at(record, "message")
            if "systemPayload" in record or message.keys() >= {"role", "parts"}:
                return True
            if "message" in record:
                return False
        return False

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_QwenRecord, data), self.session
        if record.type not in TYPES:
            session.keep_unknown("unknown record type", record.type)
            return
        if record.is_sidechain:
            side = record.agent_id or "sidechain"
            session.chain = f"agent-{side}" if side == e.MAIN else side
        session.at, session.agent, session.version = record.timestamp, record.agent_id, record.version or ""
        if not session.is_started:
            parent = text_in((record.forked_from or {}).get("sessionId", NULL)) or None
            session.start_session(
                record.session_id or "", at=session.at, dialect=_CHAT, parent_session_id=parent, chain=session.chain
            )
        chain = self._chains[session.chain]
        if record.uuid in chain.depths:
            session.problem(Code.DUPLICATE_UUID, f"uuid {mask(record.uuid)[:60]!r} came before; passed over")
            return
        self._go_to_parent(record, chain)
        if record.type == "system":
            self._read_system(record, chain)
        elif record.subtype not in _NEVER_SENT:
            if record.type == "assistant":
                self._read_answer(record, chain)
            elif record.message is not None:
                self._read_prompt_or_results(record, record.message, chain)
        if record.uuid is not None:
            chain.depths[record.uuid] = chain.pruned + len(session.history)

    # the tree

    def _go_to_parent(self, record: _QwenRecord, chain: _QwenChain) -> None:
        """Remove what followed the record that this one continues; notes for the screen continue nothing."""
        parent = record.parent_uuid
        if not chain.depths and parent is None:
            return
        depth, is_rewind = 0 if parent is None else chain.depths.get(parent), record.subtype == "rewind"
        if depth is None or depth == _REMOVED:
            what = "is not in the file" if depth is None else "was taken back by a rewind"
            reason = f"parent {mask(str(parent))[:60]!r} {what}; file order carries on"
            self.session.problem(Code.DANGLING_PARENT, reason)
        elif depth < chain.pruned + len(self.session.history) and (record.type != "system" or is_rewind):
            if depth < chain.pruned:
                reason = "a record continues one before a compression; lore does not restore that history"
                self.session.problem(Code.DANGLING_PARENT, reason)
            self.session.rewind_to(max(0, depth - chain.pruned))
            chain.pruned = min(chain.pruned, depth)
            chain.depths = {uuid: place if place <= depth else _REMOVED for uuid, place in chain.depths.items()}
            chain.response = chain.prompt = None

    # messages

    def _read_prompt_or_results(self, record: _QwenRecord, message: _QwenMessage, chain: _QwenChain) -> None:
        """Append the results of calls, and the prompt of a user or a scheduler."""
        content, uuid = google.content_of(message.parts), self._uuid(record)
        has_only_results = record.type == "tool_result" and bool(content.results)
        self._add_results(content.results, content.blocks if has_only_results else (), record)
        chain.response = chain.prompt = None
        self.session.counter.asked_at = record.timestamp
        if has_only_results:
            return
        if content.blocks:
            source = "tick" if record.subtype in _SCHEDULERS else "user"
            self.session.add_message(UserMessage(uuid, blocks=content.blocks, source=source))
            if len(content.blocks) == 1 and record.subtype is None:
                chain.prompt = google.digest_of(b"", content.blocks)
        if record.subtype is None and self._payload_of(record).hook_context:
            self.session.signal(Sign("hook-context"))

    def _add_results(self, results: Iterable[e.PatchToolCall], blocks: tuple[Block, ...], record: _QwenRecord) -> None:
        """Emit the results of calls; the other blocks of the message are part of the first."""
        is_failed = text_in((record.tool_call_result or {}).get("status", NULL)) in _FAILED
        for number, result in enumerate(results):
            whole = result if number else google.add_blocks(result, blocks)
            status = "failed" if is_failed else whole.status
            self.session.emit(replace(whole, status=status, chain=self.session.chain, at=self.session.at))

    def _read_answer(self, record: _QwenRecord, chain: _QwenChain) -> None:
        session, usage, uuid = self.session, record.usage_metadata, self._uuid(record)
        content = google.NO_CONTENT if record.message is None else google.content_of(record.message.parts)
        is_new = chain.response is None or record.model is not None or usage is not None
        if is_new:
            if record.version:
                session.setting("client-version", record.version)
            session.start_turn(record.model)
            chain.response, session.counter.asked_at = uuid, None
        if items := _items_of(content, uuid, chain.response):
            session.add_message(*items)
        chain.prompt, chain.command = None, ""
        if is_new:
            session.end_turn(None if usage is None else usage_of(usage, record.version or ""), uuid)

    # system records: those that the client reads when it restores the history

    def _read_system(self, record: _QwenRecord, chain: _QwenChain) -> None:
        session = self.session
        match record.subtype:
            case "chat_compression":
                self._compress(record, self._payload_of(record), chain)
            case "slash_command":
                self._read_command(self._payload_of(record), chain)
            case "agent_bootstrap":
                self._start_agent(record, self._payload_of(record))
            case "session_model":
                before, chain.dialect = chain.dialect, _DIALECTS.get(self._payload_of(record).auth_type, _CHAT)
                if chain.dialect != before:
                    session.emit(e.SessionChanged(dialect=chain.dialect, chain=session.chain))
            case "session_approval_mode":
                session.setting("permission-mode", self._payload_of(record).mode)
            case "custom_title" if title := self._payload_of(record).custom_title:
                session.emit(e.SessionChanged(title=title, chain=session.chain, at=session.at))
            case "ui_telemetry" if _API_ERROR in bytes(record.system_payload):
                session.signal(Sign("api-error"))
            case _:
                pass

    def _compress(self, record: _QwenRecord, payload: _QwenPayload, chain: _QwenChain) -> None:
        if payload.compressed_history is None:
            return
        history = _contents(payload.compressed_history)  # a malformed one raises here
        trigger, sizes = "manual" if chain.command.startswith("/compress") else "auto", payload.info or {}
        before, after = (count_in(sizes.get(name, NULL)) for name in ("originalTokenCount", "newTokenCount"))
        chain.pruned += len(self.session.history)
        self.session.compact(self._uuid(record), (), trigger=trigger, pre_tokens=before, post_tokens=after)
        chain.response = chain.prompt = None
        self._add_history(history, record)

    def _add_history(self, history: Sequence[tuple[str, GoogleContent]], record: _QwenRecord) -> None:
        """Append a history that one record holds, as one message; the client wrote its first message."""
        message: Message | None = None
        for number, (role, content) in enumerate(history):
            uuid = f"{self._uuid(record)}/{number + 1}"
            items: list[Item] = []
            if role == "model":
                items = _items_of(content, uuid, uuid)
            elif content.results:
                self._add_results(content.results, content.blocks, record)
            elif content.blocks:
                source = "user" if number else "context_injection"
                items = [UserMessage(uuid, blocks=content.blocks, source=source)]
            for item in items:
                message = message or self.session.add_message()
                self.session.add_item(message, item)

    def _read_command(self, payload: _QwenPayload, chain: _QwenChain) -> None:
        """Note a slash command; a prompt that turns out to be the text of one was never sent."""
        if payload.phase == "invocation":
            chain.command = payload.raw_command
            words = payload.raw_command.split(maxsplit=1)
            self.session.signal(Sign("slash-command", tuple(words[:1])))
        elif payload.phase == "result" and payload.sent_to_model is not True and chain.prompt is not None:
            is_command = chain.prompt == google.digest_of(b"", (TextBlock(Raw(encode(payload.raw_command))),))
            self.session.rewind_to(len(self.session.history) - is_command)
        chain.prompt = None

    def _start_agent(self, record: _QwenRecord, payload: _QwenPayload) -> None:
        """Read what a subagent began with: its parent's history; in older logs its system prompt and tools."""
        history, session = _contents(payload.history), self.session
        system, tools = payload.system_instruction, payload.tools
        if opens(system) != '"':
            blocks = google.content_of(Raw(members_at(system).get("parts", b"null"))).blocks
            texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock)]
            system = Raw(encode("\n".join(texts))) if texts else NULL
        tools = tools if tools and all(opens(tool) == "{" for tool in tools) else None
        if tools is not None or not is_absent(system):
            session.emit(e.SessionChanged(system=system, tools=tools, chain=session.chain, agent_id=session.agent))
        self._add_history(history, record)

    def _payload_of(self, record: _QwenRecord) -> _QwenPayload:
        raw = record.system_payload
        return _QwenPayload() if is_absent(raw) else self.session.decode(_QwenPayload, raw)

    def _uuid(self, record: _QwenRecord) -> str:
        return record.uuid or self.session.line_id


def _contents(messages: Iterable[_QwenMessage]) -> list[tuple[str, GoogleContent]]:
    return [(message.role, google.content_of(message.parts)) for message in messages]


def _items_of(content: GoogleContent, uuid: str, response: str | None) -> list[Item]:
    """Return the items of an answer: thoughts and text as one message, then the calls."""
    blocks = (*content.thoughts, *content.blocks)
    items: list[Item] = [AssistantMessage(uuid, blocks=blocks, response_id=response)] if blocks else []
    for number, call in enumerate(content.calls, 1):
        call_uuid = f"{uuid}/{number}"
        items.append(replace(call, uuid=call_uuid, call_id=call.call_id or call_uuid, response_id=response))
    return items


def usage_of(usage: _QwenUsage, version: str) -> e.Usage | None:
    """Return a record's counts; None if the client guessed them: 70 % of a total as the prompt, 30 % as the answer."""
    whole, output, read = usage.prompt_token_count, usage.candidates_token_count, usage.cached_content_token_count
    total = usage.total_token_count
    if whole is not None and output is not None and total:
        guessed = (14 * total + 10) // 20, (6 * total + 10) // 20  # rounded as JavaScript does
        if not read and (whole, output) == guessed:
            return None
        output += (usage.thoughts_token_count or 0) if total > whole + output else 0  # otherwise it includes thoughts
    return usage_with_cached_input(whole, read, None, output, client=f"qwen-code {version}".rstrip())
