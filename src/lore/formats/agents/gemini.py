"""Gemini CLI's chats (`~/.gemini/tmp/PROJECT/chats/session-*.jsonl`, until 2026 `session-*.json`).

A response is one message that is written again under its id as its token counts and calls arrive: the last version
holds. If a notice for the screen is logged before the calls of a response, they are a message of their own, without
text, thoughts or token counts, and are added to that response. `$set.messages` replaces the history by another one, in
which results are messages; `$rewindTo` removes a message and all that follow. Input counts include cached tokens.
Thoughts are counted apart from the output, and billed: they are recorded as an extra pass of the usage, not as content,
as most later requests lack them (prompts grew by less than the thoughts; with Gemini 3.1 some hold those since the
user's prompt). A chat has neither system prompt nor tools.

A subagent's chat is in a folder named like its parent's session. The chat itself names no parent, and becomes a chain.

Sources: counts over 15 public chats; `chatRecordingService.ts` and `chatRecordingTypes.ts` of gemini-cli 0.56
(August 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.agents import google
from lore.formats.agents.google import GoogleContent
from lore.formats.beginning import array_at
from lore.formats.bills import usage_with_cached_input
from lore.formats.builder import DocumentReader, LogReader
from lore.formats.lines import nonblank_lines
from lore.formats.values import arguments_of
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, Block, Status, TextBlock, ToolCall, UserMessage
from lore.model.jsonslice import members_at
from lore.model.mask import mask
from lore.model.state import Sign

STATUS: dict[str, Status] = {"success": "completed", "error": "failed", "cancelled": "failed"}
_SCREEN = frozenset(("info", "warning", "error"))  # types of messages that only the screen shows
_CLIENT_TEXTS = (b'"<session_context>', b'"<state_snapshot>', b'"<hook_context>', b'"This is the Gemini CLI.')


class _GeminiTokens(Struct, frozen=True, gc=False):
    input: int | None = None  # with `cached`
    output: int | None = None  # without `thoughts`
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None  # prompts of server tools
    total: int | None = None


class _GeminiCall(Struct, frozen=True, gc=False, rename="camel"):  # a call, with its result once there is one
    id: str = ""
    name: str = ""
    args: Raw = NULL
    result: Raw = NULL
    status: str = ""
    timestamp: str | None = None  # of the result


# A message (it has an id and a type), the header of the chat, or a change of it.
class _GeminiRecord(Struct, frozen=True, gc=False, rename="camel"):
    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw = NULL
    model: str | None = None
    thoughts: tuple[Raw, ...] | None = None
    tokens: _GeminiTokens | None = None
    tool_calls: tuple[_GeminiCall, ...] | None = None
    session_id: str | None = None
    start_time: str | None = None
    kind: str | None = None
    summary: str | None = None  # the title of the chat
    changes: _GeminiChanges | None = msgspec.field(default=None, name="$set")
    rewind_to: str | None = msgspec.field(default=None, name="$rewindTo")


class _GeminiChanges(Struct, frozen=True, gc=False, rename="camel"):  # the content of `$set`
    messages: tuple[_GeminiRecord, ...] | None = None  # another history
    session_id: str | None = None  # written when a chat is resumed
    summary: str | None = None  # the title of the chat


@dataclass(slots=True)
class _GeminiMessage:
    text: int  # digest of its blocks
    items: list[str] = field(default_factory=list[str])  # uuids
    results: dict[str, int] = field(default_factory=dict[str, int])  # digest of each call's result; 0: none yet


@dataclass(slots=True)
class _GeminiResponse:  # the response whose counts may still come
    id: str  # of its message
    at: str | None
    tokens: _GeminiTokens | None


_NO_TEXT = google.digest_of(b"gemini", ())


class GeminiCli(LogReader):
    """Reader of chats with one record on each line."""

    name: ClassVar[str] = "gemini-cli"

    def __init__(self) -> None:
        super().__init__()
        self._chain = e.MAIN
        self._title: str | None = None
        self._messages: dict[str, _GeminiMessage] = {}  # the history by id, in order
        self._merged: dict[str, str] = {}  # messages that are part of another one, by id
        self._callers: dict[str, str] = {}  # the message of each call
        self._response: _GeminiResponse | None = None
        self._is_prompted = False  # a prompt came after the response
        self._rewrites = 0  # histories that replaced another one
        self._input_tokens: int | None = None  # of the last request

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        header = members_at(next(nonblank_lines(head), b""))
        has_names = all(header.get(key, b"")[:1] == b'"' for key in ("sessionId", "projectHash"))
        return has_names and "messages" not in header

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_GeminiRecord, data), self.session
        session.at, session.chain = record.timestamp, self._chain
        if record.rewind_to is not None:
            self._rewind_to(record.rewind_to)
        elif record.id is not None:
            self._read_message(record)
        elif (changes := record.changes) is not None:
            self._name_chat(changes.summary)
            if changes.messages is not None:
                self._replace_history(changes.messages)
            elif changes.session_id is not None:
                session.signal(Sign("resume"))
        elif record.session_id is not None:
            self._start_chat(record)
        else:
            session.keep_opaque(Code.UNKNOWN_RECORD, "a record that is no message")

    def finish(self) -> None:
        self.session.chain = self._chain
        self._end_response()

    def _start_chat(self, header: _GeminiRecord) -> None:
        session, session_id = self.session, header.session_id or ""
        if not session.is_started:
            self._title = header.summary or None
            self._chain = f"agent-{session_id}" if header.kind == "subagent" else e.MAIN
            session.start_session(
                session_id, at=header.start_time, dialect="gemini", chain=self._chain, title=self._title
            )
        session.chain = self._chain

    def _name_chat(self, title: str | None) -> None:
        if title and title != self._title:
            self._title = title
            self.session.emit(e.SessionChanged(title=title, chain=self._chain, at=self.session.at))

    def _read_message(self, record: _GeminiRecord) -> None:
        self.session.at = record.timestamp
        self._start_chat(record)
        if record.type == "gemini":
            self._read_answer(record)
        elif record.type == "user":
            self._read_prompt(record)
        elif record.type in _SCREEN:
            blocks = google.content_of(record.content).blocks
            text = text_of(bytes(blocks[0].text)) if blocks and isinstance(blocks[0], TextBlock) else ""
            if text.startswith("Request cancelled"):
                self.session.signal(Sign("interrupt"))
            elif record.type == "error" and text.startswith("[API Error"):
                self.session.fail(text.removeprefix("[API Error: ").removesuffix("]"))
        else:
            self.session.keep_unknown("unknown message type", record.type)

    def _id_of(self, record: _GeminiRecord) -> str:
        name = record.id or self.session.line_id
        return self._merged.get(name, name)

    def _uuid(self, name: str) -> str:
        """Return a new uuid for a message's item; those of items that a rewritten history removed are not reused."""
        return f"{name}~{self._rewrites}" if self._rewrites else name

    # the user's messages

    def _read_prompt(self, record: _GeminiRecord, *, is_rewritten: bool = False) -> None:
        name = self._id_of(record)
        blocks = self._read_results(google.content_of(record.content))
        text, previous = google.digest_of(b"user", blocks), self._messages.get(name)
        if not blocks or (previous is not None and previous.text == text):
            return
        if not is_rewritten:
            self._end_response()
            self._is_prompted, self.session.counter.asked_at = True, record.timestamp
        uuid = previous.items[0] if previous is not None and previous.items else self._uuid(name)
        self._messages[name] = _GeminiMessage(text, [uuid])
        first = blocks[0]
        is_client = isinstance(first, TextBlock) and bytes(memoryview(first.text)[:32]).startswith(_CLIENT_TEXTS)
        source = "context_injection" if is_client else "user"
        self.session.append(UserMessage(uuid, blocks=blocks, source=source))

    def _read_results(self, content: GoogleContent) -> tuple[Block, ...]:
        """Emit the results of calls; return the other blocks, and results of unknown calls as text."""
        unknown: list[Block] = []
        for result in content.results:
            caller = self._messages.get(self._callers.get(result.call_id, ""))
            if caller is None:
                unknown.append(TextBlock(result.output))
            else:
                self._add_result(caller, result)
        has_known = len(unknown) < len(content.results)  # the other blocks of the message are part of its result
        return tuple(unknown) if has_known else (*unknown, *content.blocks)

    def _add_result(self, caller: _GeminiMessage, result: e.PatchToolCall) -> None:
        """Emit a result that is new, or that was rewritten."""
        call, chain, at = result.call_id, self.session.chain, self.session.at
        before, caller.results[call] = caller.results.get(call, 0), google.digest(result.output, result.error)
        if not before:
            self.session.emit(replace(result, chain=chain, at=at))
        elif before != caller.results[call]:
            self.session.emit(e.ToolResultCleared(call_ids=(call,), placeholder=result.output, chain=chain, at=at))

    # the model's messages

    def _read_answer(self, record: _GeminiRecord) -> None:
        name, response = self._id_of(record), self._response
        if name in self._messages:
            if response is not None and response.id == name:
                response.tokens = record.tokens or response.tokens
        elif response is not None and not self._is_prompted and self._has_only_calls(record, response.id):
            self._merged[name] = name = response.id
        elif record.model is not None or record.tokens is not None:  # else the client wrote it in the model's place
            self._end_response()
            self.session.start_turn(record.model)
            self.session.counter.asked_at, self._is_prompted = None, False
            self._response = _GeminiResponse(name, record.timestamp, record.tokens)
        self._add_answer(record, name)

    def _has_only_calls(self, record: _GeminiRecord, response: str) -> bool:
        message = self._messages.get(response)
        if message is None or message.results or record.thoughts or not record.tool_calls:
            return False
        return usage_of(record.tokens) is None and google.content_of(record.content) == google.NO_CONTENT

    def _end_response(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            if response.tokens is not None:
                self._input_tokens = response.tokens.input
            self.session.end_turn(usage_of(response.tokens), response.id, at=response.at)

    def _add_answer(self, record: _GeminiRecord, name: str) -> None:
        """Add to a message of the model: its text if that is new or changed, calls that are new, results."""
        content = google.content_of(record.content)
        message = self._messages.setdefault(name, _GeminiMessage(_NO_TEXT))
        text = google.digest_of(b"gemini", content.blocks)
        if text != message.text and content.blocks:
            uuid = next((item for item in message.items if "/" not in item), self._uuid(name))
            message.text, message.items = text, list(dict.fromkeys((uuid, *message.items)))
            self.session.append(AssistantMessage(uuid, blocks=content.blocks, response_id=name))
        self._add_calls(record, content, name)

    def _add_calls(self, record: _GeminiRecord, content: GoogleContent, name: str) -> None:
        """Append a message's new calls, and emit the results of earlier ones that are new or changed."""
        message, response = self._messages[name], self._response
        for call in calls_of(record, content, f"{self._uuid(name)}/", name):
            call_id, status = call.call_id, call.status
            if call_id not in message.results:
                message.items.append(call.uuid)
                message.results[call_id] = 0 if status == "running" else google.digest(call.output, call.error)
                self._callers[call_id] = name
                self.session.append(call)
            elif status != "running":
                result = e.PatchToolCall(call_id=call_id, status=status, output=call.output, error=call.error)
                self._add_result(message, result)
        if response is not None and response.id == name:
            times = [call.timestamp for call in record.tool_calls or () if call.timestamp and call.status in STATUS]
            self.session.counter.asked_at = max(times, default=self.session.counter.asked_at)

    # histories

    def _replace_history(self, records: Sequence[_GeminiRecord]) -> None:
        """Replace the history; keep the messages with which the old and the new one begin.

        If the text of a removed message is gone, this is a compaction; otherwise messages are removed and appended.
        """
        session, at = self.session, self.session.at
        history = [(record, google.content_of(record.content)) for record in records]  # a malformed one raises here
        self._end_response()
        before, known_ids = list(self._messages.values()), set(self._messages)
        self._messages, self._callers, self._merged = {}, {}, {}
        same = 0
        while same < len(history) and self._match_message(before, *history[same]):
            same += 1
        dropped, added = before[len(self._messages) :], history[same:]
        session.at, self._rewrites = at, self._rewrites + 1
        texts = {google.digest_of(record.type.encode(), content.blocks) for record, content in added}
        if any(message.text not in texts for message in dropped):
            kept_items = [item for message in self._messages.values() for item in message.items]
            session.prune(f"history-{self._rewrites}", kept_items, pre_tokens=self._input_tokens)
        else:
            session.remove(item for message in dropped for item in message.items)
        for record, _ in added:
            session.at = record.timestamp
            if record.type == "user":
                self._read_prompt(record, is_rewritten=True)
            elif record.type == "gemini" and (record.id in known_ids or record.tokens is None):
                self._add_answer(record, self._id_of(record))
            else:
                self._read_message(record)

    def _match_message(self, before: list[_GeminiMessage], record: _GeminiRecord, content: GoogleContent) -> bool:
        """Keep the next message of the old history if the record repeats it; emit its new calls and results.

        Return False if the record has something else, which the caller has to add to the new history.
        """
        self.session.at = record.timestamp
        if record.type == "user" and content.results:
            return not self._read_results(content)
        count = len(self._messages)
        if count == len(before) or before[count].text != google.digest_of(record.type.encode(), content.blocks):
            return False
        name, message = self._id_of(record), before[count]
        self._messages[name] = message
        self._callers.update(dict.fromkeys(message.results, name))
        self._add_calls(record, content, name)
        return True

    def _rewind_to(self, name: str) -> None:
        """Remove a message and all after it; if it is unknown remove all messages, as the client does."""
        self._end_response()
        name, names = self._merged.get(name, name), list(self._messages)
        if name not in self._messages:
            reason = f"$rewindTo names unknown message {mask(name)[:60]!r}; all are taken back"
            self.session.problem(Code.UNKNOWN_ID, reason)
        removed = names[names.index(name) :] if name in self._messages else names
        self.session.remove([item for message_id in removed for item in self._messages.pop(message_id).items])


def usage_of(tokens: _GeminiTokens | None) -> e.Usage | None:
    """Return the counts of a response; None if the client recorded none."""
    if tokens is None or not any(msgspec.structs.astuple(tokens)):  # the client writes zeros for unknown counts
        return None
    thoughts = (e.Usage(0, 0, 0, tokens.thoughts, kind=e.THOUGHTS),) if tokens.thoughts else ()
    prompts = (e.Usage(tokens.tool, 0, 0, 0, kind="tool_use_prompt"),) if tokens.tool else ()
    return usage_with_cached_input(
        tokens.input, tokens.cached, None, tokens.output, iterations=thoughts + prompts, client="gemini-cli"
    )


def calls_of(record: _GeminiRecord, content: GoogleContent, prefix: str, response: str) -> list[ToolCall]:
    """Return a message's calls, with the results that it has; their uuids begin with `prefix`."""
    calls: dict[str, ToolCall] = {}
    for call in record.tool_calls or ():
        call_id = call.id or f"{prefix}{len(calls) + 1}"
        result, status = google.result_of(call.result, call.id), STATUS.get(call.status, "running")
        none = call.result if status == "running" else Raw(b'""')
        output, error = (none, none) if result is None else (result.output, result.error)
        uuid, arguments = f"{prefix}{call_id}", arguments_of(call.args)
        calls[call_id] = ToolCall(uuid, call_id, call.name, arguments, status, output, error, response_id=response)
    for part in content.calls:
        if (part.call_id or not record.tool_calls) and part.call_id not in calls:
            call_id = part.call_id or f"{prefix}{len(calls) + 1}"
            calls[call_id] = replace(part, uuid=f"{prefix}{call_id}", call_id=call_id, response_id=response)
    return list(calls.values())


class GeminiCliDocument(DocumentReader, GeminiCli):
    """Reader of chats that are one document, as they were until 2026."""

    name: ClassVar[str] = "gemini-cli-json"
    paths: ClassVar[tuple[str, ...]] = (".messages",)
    title_follows: ClassVar[bool] = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = array_at(head, cls.paths)
        if begin >= 0 and all(word in head[:begin] for word in (b'"sessionId"', b'"projectHash"')):
            return True
        is_sorted = begin >= 0 and b'"gemini"' in head  # by the names of members: what shows the agent comes last
        return is_sorted and cls.first_members(head).keys() >= {"id", "timestamp", "type", "content"}

    def handle_head(self, data: bytes) -> None:
        self._start_chat(self.session.decode(_GeminiRecord, data))

    def handle_tail(self, data: bytes) -> None:
        self._name_chat(self.session.decode(_GeminiRecord, data).summary)

    def handle(self, data: bytes) -> None:
        self._read_message(self.session.decode(_GeminiRecord, data))
