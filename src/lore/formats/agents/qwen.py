"""Qwen Code's chats (`~/.qwen/projects/PROJECT/chats/SESSION.jsonl`) and those of its subagents (`subagents/SESSION/`).

A line is a record of a tree, each with the `Content` that was sent or answered. The prompt is made of the path from the
root to the last record: a record that goes on from an earlier one takes back what stood behind that. An assistant's
record is one request, its time that of the answer; a subagent's answer is several records, a call each, of which the
first alone may be billed. A compression holds the history that stands in place of all before it. Counts are Gemini's
words for those of any API: the prompt includes what was cached; by their total, the answer includes thoughts or not.
Thoughts are sent again. Where the API said a total alone the client guesses the rest: such counts are unknown.

System prompt and tools are not in the file, but for those of subagents that older versions started.

Source: `chatRecordingService.ts`, `session-api-history.ts` and `agent-transcript.ts` of qwen-code, October 2026; no
public file was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats.agents import google
from lore.formats.bills import split
from lore.formats.lines import each
from lore.formats.transcripts import TranscriptLines, TranscriptTurns
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import encode, text_of
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, Block, Item, TextBlock, UserMessage, is_absent
from lore.model.jsonslice import raw_members
from lore.model.mask import mask
from lore.model.state import Sign

TYPES = frozenset(("user", "assistant", "tool_result", "system"))


class QwenMessage(Struct, frozen=True, gc=False):
    """A `Content`: what was sent or answered, as the API has it."""

    role: str = ""
    parts: Raw = NULL


class QwenUsage(Struct, frozen=True, gc=False, rename="camel"):
    """A bill in Gemini's words: the prompt includes what was cached."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class QwenOther(Struct, frozen=True, gc=False, rename="camel"):
    """What the screen was told of a result (`status`), where a record of a branched session was copied from."""

    status: str = ""
    session_id: str | None = None


class QwenRecord(Struct, frozen=True, gc=False, rename="camel"):
    """One line."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    version: str | None = None
    message: QwenMessage | None = None
    usage_metadata: QwenUsage | None = None
    model: str | None = None
    tool_call_result: QwenOther | None = None
    system_payload: Raw = NULL
    agent_id: str | None = None
    is_sidechain: bool | None = None
    forked_from: QwenOther | None = None


class Compression(Struct, frozen=True, gc=False, rename="camel"):
    """Sizes of a history before and after, in tokens."""

    original_token_count: int | None = None
    new_token_count: int | None = None


class QwenPayload(Struct, frozen=True, gc=False, rename="camel"):
    """What a system record says; which fields there are depends on its subtype."""

    info: Compression | None = None
    compressed_history: tuple[QwenMessage, ...] | None = None
    phase: str = ""
    raw_command: str = ""
    sent_to_model: bool | None = None
    history: tuple[QwenMessage, ...] = ()
    system_instruction: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    auth_type: str = ""
    mode: str = ""
    hook_context: str = ""


decode = lenient.decoding(QwenRecord)
_PAYLOAD = msgspec.json.Decoder(QwenPayload)


def payload_of(record: QwenRecord) -> QwenPayload:
    """Decode what a system record says; ValueError where it is none."""
    raw = record.system_payload
    return QwenPayload() if is_absent(raw) else lenient.decoded(_PAYLOAD, raw)


_MACHINES = frozenset(("notification", "cron", "goal_runtime"))  # what sent a message that no person wrote
_NEVER_SENT = frozenset(("realtime_message", "code_mode_tool_result"))
_DIALECTS = {"gemini": "gemini", "vertex-ai": "gemini", "anthropic": "anthropic"}
_CHAT = "openai-chat"
_FAILED = frozenset(("error", "cancelled"))
_API_ERROR = b"qwen-code.api_error"
_LOOKED_AT = 64  # lines at a file's beginning, searched for the format's marks
_TAKEN = -1  # the place of a record on a branch that was left


class QwenChain(Struct):
    """What is remembered of a chain.

    `steps` are the items that each record of the path made, those of the first `pruned` forgotten with a compression;
    `places` says of each record how many steps lead to it. `response` is the answer that more records may belong to;
    `prompt` the last user's message and the digest of its text.
    """

    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    steps: list[tuple[str, ...]] = []
    pruned: int = 0
    places: dict[str, int] = {}
    response: str | None = None
    prompt: tuple[str, int] | None = None
    command: str = ""
    version: str = ""
    mode: str = ""
    dialect: str = _CHAT

    @property
    def depth(self) -> int:
        """How many steps lead to the last record."""
        return self.pruned + len(self.steps)


class QwenMemory(Struct):
    """All that the reader remembers."""

    session: str | None = None
    chains: dict[str, QwenChain] = {}


class QwenCode(TranscriptLines[QwenMemory]):
    """Reader of Qwen Code's chats."""

    name: ClassVar[str] = "qwen-code"
    memory = QwenMemory

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in islice(each(head), _LOOKED_AT):
            own = raw_members(line) or {}
            if not own.keys() >= {"uuid", "parentUuid", "sessionId", "type"}:
                return False
            if own["type"].strip(b'"').decode("utf-8", "replace") not in TYPES:
                return False
            message = raw_members(own.get("message", b"")) or {}
            if "systemPayload" in own or message.keys() >= {"role", "parts"}:
                return True
            if "message" in own:
                return False
        return False

    def _take(self, data: bytes) -> None:
        record = decode(data)
        if record.type not in TYPES:
            self._unknown("unknown record type", record.type)
            return
        if record.is_sidechain:
            side = record.agent_id or "sidechain"
            self._chain = f"agent-{side}" if side == e.MAIN else side
        self._at, self._agent = record.timestamp, record.agent_id
        self._begin_session(record)
        chains, name = self._memory.chains, self._chain
        chain = chains.get(name) or chains.setdefault(name, QwenChain())
        if record.uuid in chain.places:
            self._problem(Code.DUPLICATE_UUID, f"uuid {mask(record.uuid)[:60]!r} came before; passed over")
            return
        self._follow(record, chain)
        _HANDLERS[record.type](self, record, chain)
        if record.uuid is not None:
            chain.places[record.uuid] = chain.depth

    def _begin_session(self, record: QwenRecord) -> None:
        if self._memory.session is None:
            self._memory.session = name = record.session_id or ""
            parent = None if record.forked_from is None else record.forked_from.session_id
            chain, at = self._chain, self._at
            self._emit(e.SessionStarted(session_id=name, at=at, dialect=_CHAT, parent_session_id=parent, chain=chain))

    # the tree

    def _follow(self, record: QwenRecord, chain: QwenChain) -> None:
        """Go to the record that this one goes on from; notes for the screen alone lead nowhere."""
        parent = record.parent_uuid
        if not chain.places and parent is None:
            return
        place = 0 if parent is None else chain.places.get(parent)
        if place is None or place == _TAKEN:
            what = "is not in the file" if place is None else "was taken back by a rewind"
            self._problem(Code.DANGLING_PARENT, f"parent {mask(str(parent))[:60]!r} {what}; file order carries on")
        elif place < chain.depth and (record.type != "system" or record.subtype == "rewind"):
            self._take_back(place, chain)

    def _take_back(self, place: int, chain: QwenChain) -> None:
        if place < chain.pruned:
            detail = "a record goes on from one before a compression, whose history lore does not bring back"
            self._problem(Code.DANGLING_PARENT, detail)
        keep = max(0, place - chain.pruned)
        gone = tuple(item for step in chain.steps[keep:] for item in step)
        del chain.steps[keep:]
        chain.pruned = min(chain.pruned, place)
        chain.places = {uuid: known if known <= place else _TAKEN for uuid, known in chain.places.items()}
        chain.response = chain.prompt = None
        self._remove(gone)

    def _step(self, items: Sequence[Item], chain: QwenChain) -> None:
        for item in items:
            self._append(item)
        if items:
            chain.steps.append(tuple([item.uuid for item in items]))

    # records, by type

    def _user(self, record: QwenRecord, chain: QwenChain) -> None:
        if record.message is None or record.subtype in _NEVER_SENT:
            return
        content, uuid = google.content_of(record.message.parts), self._uuid(record)
        alone = record.type == "tool_result" and bool(content.results)
        self._results(content.results, content.blocks if alone else (), record)
        chain.response = chain.prompt = None
        chain.turns.asked_at = record.timestamp
        if alone:
            return
        if content.blocks:
            source = "tick" if record.subtype in _MACHINES else "user"
            self._step((UserMessage(uuid, blocks=content.blocks, source=source),), chain)
            plain = len(content.blocks) == 1 and record.subtype is None
            chain.prompt = (uuid, google.digest_of(b"", content.blocks)) if plain else None
        if record.subtype is None and not is_absent(record.system_payload) and payload_of(record).hook_context:
            self._observe(Sign("hook-context"), version=record.version or "")

    def _results(self, outcomes: Iterable[e.PatchToolCall], beside: tuple[Block, ...], record: QwenRecord) -> None:
        """Note the results that a message holds; what stands beside them is part of the first."""
        failed = record.tool_call_result is not None and record.tool_call_result.status in _FAILED
        for number, outcome in enumerate(outcomes):
            found = outcome if number else google.add_blocks(outcome, beside)
            status = "failed" if failed else found.status
            self._emit(replace(found, status=status, chain=self._chain, at=self._at))

    def _assistant(self, record: QwenRecord, chain: QwenChain) -> None:
        if record.subtype in _NEVER_SENT:
            return
        usage, uuid = record.usage_metadata, self._uuid(record)
        content = google.NO_CONTENT if record.message is None else google.content_of(record.message.parts)
        more = chain.response is not None and record.model is None and usage is None
        if not more:
            before, chain.version = chain.version, record.version or chain.version
            self._changed("client-version", before, chain.version, chain.version)
            self._start_turn(chain.turns, record.model)
            chain.response, chain.turns.asked_at = uuid, None
        self._step(_spoken(content, uuid, chain.response), chain)
        chain.prompt, chain.command = None, ""
        if not more:
            bill = None if usage is None else billed(usage, record.version or "")
            self._end_turn(chain.turns, bill, uuid)

    def _system(self, record: QwenRecord, chain: QwenChain) -> None:
        handle = _SYSTEM.get(record.subtype or "")
        if handle is not None:
            handle(self, record, chain)
        elif record.subtype == "ui_telemetry" and _API_ERROR in bytes(record.system_payload):
            self._observe(Sign("api-error"), version=record.version or "")

    def _compressed(self, record: QwenRecord, chain: QwenChain) -> None:
        payload = payload_of(record)
        if payload.compressed_history is None:
            return
        info, uuid = payload.info or Compression(), self._uuid(record)
        history = [google.content_of(message.parts) for message in payload.compressed_history]
        trigger = "manual" if chain.command.startswith("/compress") else "auto"
        self._prune(uuid, (), trigger=trigger, pre=info.original_token_count, post=info.new_token_count)
        chain.pruned, chain.steps = chain.depth, []
        chain.response = chain.prompt = None
        self._put(payload.compressed_history, history, chain, record)

    def _put(
        self, messages: Iterable[QwenMessage], history: list[google.GoogleContent], chain: QwenChain, record: QwenRecord
    ) -> None:
        """Append a history that stands in a record; its first message is the client's."""
        made: list[str] = []
        for number, (message, content) in enumerate(zip(messages, history, strict=True)):
            uuid = f"{self._uuid(record)}/{number + 1}"
            items: list[Item] = []
            if message.role == "model":
                items = _spoken(content, uuid, uuid)
            elif content.results:
                self._results(content.results, content.blocks, record)
            elif content.blocks:
                source = "user" if number else "context_injection"
                items = [UserMessage(uuid, blocks=content.blocks, source=source)]
            for item in items:
                self._append(item)
                made.append(item.uuid)
        if made:
            chain.steps.append(tuple(made))

    def _command(self, record: QwenRecord, chain: QwenChain) -> None:
        """Note a slash command; one whose text was kept as a prompt, and never sent, is none."""
        payload = payload_of(record)
        if payload.phase == "invocation":
            chain.command = payload.raw_command
            words = payload.raw_command.split(maxsplit=1)
            self._observe(Sign("slash-command", tuple(words[:1])), version=record.version or "")
        elif payload.phase == "result" and payload.sent_to_model is not True and chain.prompt is not None:
            uuid, text = chain.prompt
            typed = (TextBlock(Raw(encode(payload.raw_command))),)
            if text == google.digest_of(b"", typed):
                chain.steps.pop()
                self._remove((uuid,))
        chain.prompt = None

    def _bootstrap(self, record: QwenRecord, chain: QwenChain) -> None:
        """Take what a subagent was started with: its parent's history; in older logs its system prompt and tools."""
        payload = payload_of(record)
        history = [google.content_of(message.parts) for message in payload.history]
        system, tools = _instruction(payload.system_instruction), payload.tools
        tools = tools if tools and all(bytes(tool)[:1] == b"{" for tool in tools) else None
        if tools is not None or not is_absent(system):
            self._emit(e.SessionChanged(system=system, tools=tools, chain=self._chain, agent_id=self._agent))
        self._put(payload.history, history, chain, record)

    def _model(self, record: QwenRecord, chain: QwenChain) -> None:
        dialect = _DIALECTS.get(payload_of(record).auth_type, _CHAT)
        if dialect != chain.dialect:
            chain.dialect = dialect
            self._emit(e.SessionChanged(dialect=dialect, chain=self._chain))

    def _mode(self, record: QwenRecord, chain: QwenChain) -> None:
        before, chain.mode = chain.mode, payload_of(record).mode
        self._changed("permission-mode", before, chain.mode, record.version or "")

    def _uuid(self, record: QwenRecord) -> str:
        return record.uuid or f"line-{self._line.number}"


_HANDLERS: dict[str, Callable[[QwenCode, QwenRecord, QwenChain], None]] = {
    "user": QwenCode._user,  # pyright: ignore[reportPrivateUsage]
    "tool_result": QwenCode._user,  # pyright: ignore[reportPrivateUsage]
    "assistant": QwenCode._assistant,  # pyright: ignore[reportPrivateUsage]
    "system": QwenCode._system,  # pyright: ignore[reportPrivateUsage]
}
# What the client reads of a system record when it makes the history again, or asks with; it passes over all others.
_SYSTEM: dict[str, Callable[[QwenCode, QwenRecord, QwenChain], None]] = {
    "chat_compression": QwenCode._compressed,  # pyright: ignore[reportPrivateUsage]
    "slash_command": QwenCode._command,  # pyright: ignore[reportPrivateUsage]
    "agent_bootstrap": QwenCode._bootstrap,  # pyright: ignore[reportPrivateUsage]
    "session_model": QwenCode._model,  # pyright: ignore[reportPrivateUsage]
    "session_approval_mode": QwenCode._mode,  # pyright: ignore[reportPrivateUsage]
}


def _spoken(content: google.GoogleContent, uuid: str, response: str | None) -> list[Item]:
    """Return what the model said: thoughts and text as one message, and calls."""
    blocks = (*content.thoughts, *content.blocks)
    items: list[Item] = [AssistantMessage(uuid, blocks=blocks, response_id=response)] if blocks else []
    for number, call in enumerate(content.calls, 1):
        own = f"{uuid}/{number}"
        items.append(replace(call, uuid=own, call_id=call.call_id or own, response_id=response))
    return items


def _instruction(raw: Raw) -> Raw:
    """Return a system prompt, which is a text or a `Content`, as one text."""
    if is_absent(raw) or bytes(memoryview(raw)[:1]) == b'"':
        return raw
    parts = (raw_members(bytes(raw)) or {}).get("parts", b"null")
    texts = [block.text for block in google.content_of(Raw(parts)).blocks if isinstance(block, TextBlock)]
    return Raw(encode("\n".join([text_of(bytes(text)) for text in texts]))) if texts else NULL


def billed(usage: QwenUsage, version: str) -> e.Usage | None:
    """Read a record's counts; None where the client guessed them: seven parts of a total to three."""
    whole, output, thoughts = usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count
    read, total = usage.cached_content_token_count, usage.total_token_count
    if whole is not None and output is not None and total:
        if not usage.cached_content_token_count and (whole, output) == (_share(total, 7), _share(total, 3)):
            return None
        output += (thoughts or 0) if total > whole + output else 0  # else thoughts are among them
    return split(whole, read, None, output, client=f"qwen-code {version}".rstrip())


def _share(total: int, tenths: int) -> int:
    """Return so many tenths, rounded as JavaScript does."""
    return (2 * total * tenths + 10) // 20
