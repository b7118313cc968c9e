"""Gemini CLI's chats (`~/.gemini/tmp/PROJECT/chats/session-*.jsonl`, until 2026 `session-*.json`).

A response is one message, written again under its id as its counts and its calls come: the last holds. Calls that were
noted behind a message for the screen stand in one of their own, without text, thoughts and counts: they are part of the
response before it. A chat says what a request was billed, never its system prompt or tools. `$set.messages` puts
another history in place of all before it, in which results are messages; `$rewindTo` takes a message and all behind it
back. Thoughts are shown and billed, but no later request holds them (prompts grew by less than the thoughts alone):
they are no items, and a pass of their own. Counts of the input include what was cached.

A subagent's chat lies in a folder named like its parent's session, and says only that it is one: it is a chain.

Sources: counts over 15 public chats; `chatRecordingService.ts` and `chatRecordingTypes.ts` of gemini-cli 0.56 (August
2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats.agents import google
from lore.formats.beginning import array_at
from lore.formats.bills import split
from lore.formats.lines import each
from lore.formats.transcripts import Emitting, TranscriptDocument, TranscriptLines, TranscriptTurns
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, Block, Status, TextBlock, ToolCall, UserMessage, is_absent
from lore.model.jsonslice import raw_members
from lore.model.mask import mask
from lore.model.state import Sign

CLIENT = "gemini-cli"
STATUS: dict[str, Status] = {"success": "completed", "error": "failed", "cancelled": "failed"}
_NO_INPUT = Raw(b"{}")


class GeminiTokens(Struct, frozen=True, gc=False):
    """A bill: `input` includes `cached`; `output`, `thoughts` and `tool` (prompts of server tools) stand beside."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None
    total: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all counts are zero: the client writes so what it was not told."""
        return not any((self.input, self.output, self.cached, self.thoughts, self.tool, self.total))


class GeminiCall(Struct, frozen=True, gc=False, rename="camel"):
    """A call with its result; `timestamp` is when that was noted."""

    id: str = ""
    name: str = ""
    args: Raw = NULL
    result: Raw = NULL
    status: str = ""
    timestamp: str | None = None


class GeminiRecord(Struct, frozen=True, gc=False, rename="camel"):
    """A line or a message: a message has an id and a type; others say something of the chat."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw = NULL
    model: str | None = None
    thoughts: tuple[Raw, ...] | None = None
    tokens: GeminiTokens | None = None
    tool_calls: tuple[GeminiCall, ...] | None = None
    session_id: str | None = None
    start_time: str | None = None
    kind: str | None = None
    changes: Raw = field(default=NULL, name="$set")
    rewind_to: str | None = field(default=None, name="$rewindTo")


class Changes(Struct, frozen=True, gc=False, rename="camel"):
    """What `$set` says: a history that was rewritten, or notes of the chat."""

    messages: tuple[Raw, ...] | None = None
    session_id: str | None = None


decode = lenient.decoding(GeminiRecord)
changes_of = lenient.decoding(Changes)


def billed(tokens: GeminiTokens | None) -> e.Usage | None:
    """Read a message's counts; None where the client was told none."""
    if tokens is None or tokens.is_empty:
        return None
    besides = tuple[e.Usage, ...]()
    if tokens.thoughts:
        besides = (e.Usage(0, 0, 0, tokens.thoughts, kind=e.THOUGHTS),)
    if tokens.tool:
        besides = (*besides, e.Usage(tokens.tool, 0, 0, 0, kind="tool_use_prompt"))
    return split(tokens.input, tokens.cached, None, tokens.output, besides=besides, client=CLIENT)


def calls_of(record: GeminiRecord, content: google.GoogleContent, prefix: str, response: str) -> list[ToolCall]:
    """Return a message's calls, each with its result where that is noted; uuids begin with `prefix`."""
    made: dict[str, ToolCall] = {}
    for call in record.tool_calls or ():
        name = call.id or f"{prefix}{len(made) + 1}"
        outcome = google.result_of(call.result, call.id)
        status: Status = STATUS.get(call.status, "running")
        if outcome is None:
            output, error = (Raw(b'""'), Raw(b'""')) if status != "running" else (call.result, call.result)
        else:
            output, error = outcome.output, outcome.error
        args = _NO_INPUT if is_absent(call.args) else call.args
        made[name] = ToolCall(f"{prefix}{name}", name, call.name, args, status, output, error, response_id=response)
    for part in content.calls:
        if (not part.call_id and record.tool_calls) or part.call_id in made:
            continue
        name = part.call_id or f"{prefix}{len(made) + 1}"
        made[name] = replace(part, uuid=f"{prefix}{name}", call_id=name, response_id=response)
    return list(made.values())


def mark_of(output: Raw, error: Raw) -> int:
    """Return the digest of a result."""
    return google.digest(output) if is_absent(error) else google.digest(output, error)


_SHOWN = frozenset(("info", "warning", "error"))
_CLIENTS = (b'"<session_context>', b'"<state_snapshot>', b'"<hook_context>', b'"This is the Gemini CLI.')


class GeminiMessage(Struct, gc=False):
    """A message of the history: its items, the digest of its text, those of its calls' results (0: none has come)."""

    items: tuple[str, ...]
    text: int
    results: dict[str, int] = {}


class GeminiResponse(Struct):
    """The response under way: its message's id, when it came, its counts, and whether it has called."""

    id: str
    at: str | None
    tokens: GeminiTokens | None
    called: bool = False


class GeminiMemory(Struct):
    """All that the reader remembers.

    `messages` is the history by id, in order; `joined` are messages that are part of another, `owners` the messages of
    calls; `response` is the one whose bill may still come; `prompted` says that a prompt of the user's came since;
    `rewritten` counts the histories that were put in place of others, `tokens` the input of the last request.
    """

    session: str | None = None
    agent: str | None = None
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    messages: dict[str, GeminiMessage] = {}
    joined: dict[str, str] = {}
    owners: dict[str, str] = {}
    response: GeminiResponse | None = None
    prompted: bool = False
    rewritten: int = 0
    tokens: int | None = None

    @property
    def chain(self) -> str:
        """The chain that the chat is: a subagent's, or the main one."""
        return e.MAIN if self.agent is None else self.agent


class _Chats(Emitting[GeminiMemory]):
    """What both envelopes share: messages, one after another."""

    memory = GeminiMemory

    def _last(self) -> None:
        self._close()

    def _begin_chat(self, header: GeminiRecord) -> None:
        """Take the record that says whose chat this is; the first holds."""
        memory = self._memory
        if memory.session is not None:
            return
        memory.session = header.session_id or ""
        if header.kind == "subagent":
            memory.agent = f"agent-{memory.session}"
        self._chain, at = memory.chain, header.start_time
        self._emit(e.SessionStarted(session_id=memory.session, at=at, dialect="gemini", chain=memory.chain))

    def _message(self, record: GeminiRecord) -> None:
        self._chain, self._at = self._memory.chain, record.timestamp
        self._begin_chat(record)
        if record.type == "gemini":
            self._gemini(record)
        elif record.type == "user":
            self._user(record)
        elif record.type in _SHOWN:
            self._shown(record)
        else:
            self._unknown("unknown message type", record.type)

    def _shown(self, record: GeminiRecord) -> None:
        """Note what the screen was told where it tells of a request; no model sees it."""
        content = google.content_of(record.content)
        first = content.blocks[0] if content.blocks else None
        text = text_of(bytes(first.text)) if isinstance(first, TextBlock) else ""
        name = "api-error" if record.type == "error" and text.startswith("[API Error") else ""
        name = "interrupt" if text.startswith("Request cancelled") else name
        if name:
            self._observe(Sign(name))

    def _name(self, record: GeminiRecord) -> str:
        name = record.id or f"line-{self._line.number}"
        return self._memory.joined.get(name, name)

    def _uuid(self, name: str) -> str:
        """Name the item of a message; one that was taken out of the history is never named again."""
        return f"{name}~{self._memory.rewritten}" if self._memory.rewritten else name

    # what the user said

    def _user(self, record: GeminiRecord, *, rewritten: bool = False) -> None:
        memory, name = self._memory, self._name(record)
        blocks = self._left(google.content_of(record.content))
        text = google.digest_of(b"user", blocks)
        known = memory.messages.get(name)
        if not blocks or (known is not None and known.text == text):
            return
        if not rewritten:
            self._close()
            memory.prompted, memory.turns.asked_at = True, record.timestamp
        uuid = self._uuid(name) if known is None else known.items[0]
        memory.messages[name] = GeminiMessage((uuid,), text)
        first = blocks[0]
        clients = isinstance(first, TextBlock) and bytes(memoryview(first.text)[:32]).startswith(_CLIENTS)
        source = "context_injection" if clients else "user"
        self._append(UserMessage(uuid, blocks=blocks, source=source))

    def _left(self, content: google.GoogleContent) -> tuple[Block, ...]:
        """Take the results among a message's parts; return what else it says."""
        memory, known = self._memory, False
        odd: list[Block] = []
        for outcome in content.outcomes:
            owner = memory.messages.get(memory.owners.get(outcome.call_id, ""))
            if owner is None:
                odd.append(TextBlock(outcome.output))
            else:
                known = True  # what stands beside it is part of it
                self._result(owner, outcome)
        return tuple(odd) if known else (*odd, *content.blocks)

    def _result(self, owner: GeminiMessage, outcome: e.PatchToolCall) -> None:
        """Note a result; one that was noted otherwise before was rewritten."""
        call, chain, at = outcome.call_id, self._chain, self._at
        mark, before = mark_of(outcome.output, outcome.error), owner.results.get(call, 0)
        if before == mark:
            return
        owner.results[call] = mark
        if before:
            self._emit(e.ToolResultCleared(call_ids=(call,), placeholder=outcome.output, chain=chain, at=at))
            return
        self._emit(replace(outcome, chain=chain, at=at))

    # what the model said

    def _gemini(self, record: GeminiRecord) -> None:
        memory, name, response = self._memory, self._name(record), self._memory.response
        if name in memory.messages:
            if response is not None and response.id == name:
                response.tokens = record.tokens or response.tokens
            self._again(record, name)
        elif response is not None and self._goes_on(record, response):
            memory.joined[name] = response.id
            self._again(record, response.id)
        elif record.model is None and record.tokens is None:  # the client wrote it in the model's place
            self._spoken(record, name)
        else:
            self._close()
            self._start_turn(memory.turns, record.model)
            memory.turns.asked_at, memory.prompted = None, False
            memory.response = GeminiResponse(name, record.timestamp, record.tokens)
            self._spoken(record, name)

    def _goes_on(self, record: GeminiRecord, response: GeminiResponse) -> bool:
        """Tell a message that is nothing but calls, which were noted behind the message of this response."""
        if self._memory.prompted or response.called or response.id not in self._memory.messages:
            return False
        silent = record.tokens is None or record.tokens.is_empty
        return silent and bool(record.tool_calls) and not record.thoughts and google.is_empty(record.content)

    def _close(self) -> None:
        """End the response under way: what comes is of another."""
        memory, response = self._memory, self._memory.response
        if response is None:
            return
        usage = billed(response.tokens)
        memory.response, memory.tokens = None, memory.tokens if response.tokens is None else response.tokens.input
        turn, name = memory.turns.turn, response.id
        self._emit(e.TurnCompleted(turn=turn, at=response.at, usage=usage, response_id=name, chain=memory.chain))

    def _spoken(self, record: GeminiRecord, name: str) -> None:
        """Append what a message of the model says."""
        content, uuid = google.content_of(record.content), self._uuid(name)
        message = GeminiMessage((uuid,) if content.blocks else (), google.digest_of(b"gemini", content.blocks))
        self._memory.messages[name] = message
        if content.blocks:
            self._append(AssistantMessage(uuid, blocks=content.blocks, response_id=name))
        self._call(record, content, name, message)

    def _again(self, record: GeminiRecord, name: str) -> None:
        """Take a message that was written again: calls that came, results, another text."""
        message, content = self._memory.messages[name], google.content_of(record.content)
        text = google.digest_of(b"gemini", content.blocks)
        if content.blocks and text != message.text:
            uuid = next((item for item in message.items if "/" not in item), self._uuid(name))
            message.text, message.items = text, tuple(dict.fromkeys((uuid, *message.items)))
            self._append(AssistantMessage(uuid, blocks=content.blocks, response_id=name))
        self._call(record, content, name, message)

    def _call(self, record: GeminiRecord, content: google.GoogleContent, name: str, message: GeminiMessage) -> None:
        """Append the calls of a message that are new, and note the results of the others."""
        memory = self._memory
        for call in calls_of(record, content, f"{self._uuid(name)}/", name):
            if call.call_id not in message.results:
                message.items = (*message.items, call.uuid)
                message.results[call.call_id] = 0 if call.status == "running" else mark_of(call.output, call.error)
                memory.owners[call.call_id] = name
                self._append(call)
            elif call.status != "running":
                outcome = e.PatchToolCall(
                    call_id=call.call_id, status=call.status, output=call.output, error=call.error
                )
                self._result(message, outcome)
        response = memory.response
        if response is not None and response.id == name:
            response.called = bool(message.results)
            times = [call.timestamp for call in record.tool_calls or () if call.timestamp and call.status in STATUS]
            memory.turns.asked_at = max(times, default=memory.turns.asked_at)

    # histories

    def _rewrite(self, raws: Sequence[Raw]) -> None:
        """Put a history in place of all before; what both begin with stays."""
        memory, at = self._memory, self._at
        found = [decode(bytes(raw)) for raw in raws]
        history = [
            _GeminiRead(record, google.content_of(record.content)) for record in found
        ]  # what is malformed raises here
        self._close()
        before = list(memory.messages.items())
        memory.messages, memory.owners, memory.joined = {}, {}, {}
        stay = self._common(before, history)
        self._at = at
        rest, leave = history[stay.records :], before[stay.messages :]
        gone = tuple(item for _, message in leave for item in message.items)
        texts = {google.digest_of(record.type.encode(), content.blocks) for record, content in rest}
        memory.rewritten += 1
        if any(message.text not in texts for _, message in leave):
            kept = tuple(item for _, message in before[: stay.messages] for item in message.items)
            self._prune(f"history-{memory.rewritten}", kept, pre=memory.tokens)
        else:
            self._remove(gone)
        known = {name for name, _ in before}
        for record, _ in rest:
            self._at = record.timestamp
            if record.type == "user":
                self._user(record, rewritten=True)
            elif record.type == "gemini" and (record.id in known or record.tokens is None):
                self._spoken(record, self._name(record))
            else:
                self._message(record)

    def _common(self, before: list[tuple[str, GeminiMessage]], history: list[_GeminiRead]) -> _Common:
        """Keep the messages that two histories begin with, under their names in the new one."""
        memory, kept = self._memory, 0
        for number, (record, content) in enumerate(history):
            self._at = record.timestamp
            if record.type == "user" and content.outcomes:
                if self._left(content):
                    return _Common(number, kept)
                continue
            if kept == len(before) or before[kept][1].text != google.digest_of(record.type.encode(), content.blocks):
                return _Common(number, kept)
            name, message = self._name(record), before[kept][1]
            memory.messages[name] = message
            memory.owners.update(dict.fromkeys(message.results, name))
            self._call(record, content, name, message)
            kept += 1
        return _Common(len(history), kept)

    def _rewind(self, name: str) -> None:
        """Take a message and all behind it back; as the client does, all where it is not known."""
        memory = self._memory
        self._close()
        name = memory.joined.get(name, name)
        names = list(memory.messages)
        if name not in memory.messages:
            self._problem(Code.UNKNOWN_ID, f"$rewindTo names unknown message {mask(name)[:60]!r}; all are taken back")
        gone = names[names.index(name) :] if name in memory.messages else names
        self._remove([item for taken in gone for item in memory.messages.pop(taken).items])


class _GeminiRead(NamedTuple):
    """A record and its content."""

    record: GeminiRecord
    content: google.GoogleContent


class _Common(NamedTuple):
    """How much two histories begin with: records of the new one, messages of the old one."""

    records: int
    messages: int


class GeminiCli(_Chats, TranscriptLines[GeminiMemory]):
    """Reader of chats with a record a line."""

    name: ClassVar[str] = "gemini-cli"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = raw_members(next(each(head), b"")) or {}
        named = all(own.get(key, b"")[:1] == b'"' for key in ("sessionId", "projectHash"))
        return named and "messages" not in own

    def _take(self, data: bytes) -> None:
        record = decode(data)
        self._chain, self._at = self._memory.chain, record.timestamp
        if record.rewind_to is not None:
            self._rewind(record.rewind_to)
        elif record.id is not None:
            self._message(record)
        elif not is_absent(record.changes):
            changes = changes_of(bytes(record.changes))
            if changes.messages is not None:
                self._rewrite(changes.messages)
            elif changes.session_id is not None:  # written when a chat goes on
                self._observe(Sign("resume"))
        elif record.session_id is not None:
            self._begin_chat(record)
        else:
            self._opaque(Code.UNKNOWN_RECORD, "a record that is no message; kept as opaque")


class GeminiCliDocument(_Chats, TranscriptDocument[GeminiMemory]):
    """Reader of chats that are one document, as they were until 2026."""

    name: ClassVar[str] = "gemini-cli-json"
    paths: ClassVar[tuple[str, ...]] = (".messages",)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = array_at(head, cls.paths)
        return begin >= 0 and all(word in head[:begin] for word in (b'"sessionId"', b'"projectHash"'))

    def _head(self, data: bytes) -> None:
        self._begin_chat(decode(data))

    def _take(self, data: bytes) -> None:
        self._message(decode(data))
