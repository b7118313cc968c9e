"""Plain chats: JSON Lines of messages or of conversations (`chat`), or one JSON document (`chat-json`: an array of
messages or of conversations, or one conversation).

Programs that have no log of their own write `{role, content, timestamp?}`. Each message of the assistant is a request;
a model, usage, calls and results are read if a message has them. An array or a conversation that ends unanswered is the
next request, as programs hold it.

System messages before all others are the system prompt; later ones are messages. A result belongs to the call
that it names, or else to the first call that has none; a result without a call is a message. A time that the previous
message also has is that of an export, and is ignored. The dialect is that which the messages up to the first answer
show.

Several conversations of a file are chains of one session: `main`, `chat-2`, `chat-3`, … in their order. So `check`
judges each by itself, and `PATH#chat-2:N` names a turn. Each has a system prompt and tools of its own, or none.

`signs.py` says how a chat is recognised. These readers are tried last, after those of other packages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from msgspec import Raw

from lore.formats.builder import DocumentReader, LogReader, SessionBuilder
from lore.formats.lines import Line
from lore.formats.plain_chat import messages, signs
from lore.formats.plain_chat.messages import ChatResult
from lore.formats.plain_chat.signs import ChatConversation, ChatMessage, Role
from lore.formats.values import opens, spoken
from lore.model import events as e
from lore.model.canonical import printable
from lore.model.codes import Code
from lore.model.items import NULL, Block, TextBlock, ToolCall, UserMessage, blocks_of
from lore.model.limits import OPEN_CALLS
from lore.model.mask import cut_masked
from lore.model.state import CHATS


@dataclass
class OpenConversation:
    """The conversation that is read."""

    number: int = 1
    chain: str = e.MAIN
    is_started: bool = False
    system: list[Raw] = field(default_factory=list[Raw])  # texts of the system prompt, until the first other message
    tools: tuple[Raw, ...] | None = None
    model: str | None = None
    stamp: str | None = None  # time of the previous message
    dialect: str = ""  # empty: the messages have not shown it
    has_turn: bool = False
    is_waiting: bool = False  # its last message is unanswered
    open: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # id and name of calls without result


class _Chats:
    """What both envelopes share: messages and conversations."""

    unseen: ClassVar[str] = (
        "requests as they were sent, tools, and bills unless messages have their usage; "
        "without bills and requests only history is judged"
    )
    successive: ClassVar[bool] = True  # a conversation has ended when the next one begins
    session: SessionBuilder

    def __init__(self) -> None:
        super().__init__()
        self._has_conversations = False  # the records are conversations, not messages
        self._messages = 0
        self._conversation = OpenConversation()

    def handle(self, data: bytes) -> None:
        if not self._has_conversations:
            message = messages.decode(data)
            if kind := message.kind:
                self._read_message(message, kind, data)
                return
        conversation = messages.decode_conversation(data)
        if conversation.listed is None:
            self._read_message(message := messages.decode(data), message.kind, data)
        else:
            self._read_conversation(conversation, conversation.listed)

    def _read_conversation(self, record: ChatConversation, listed: list[Raw]) -> None:
        session, line = self.session, self.session.line
        number = self._conversation.number + (self._has_conversations or session.is_started)
        self._conversation = OpenConversation(number, e.MAIN if number == 1 else f"{CHATS}{number}")
        self._has_conversations = True
        self._describe(record)
        for raw in listed:
            try:
                self._read_message(message := messages.decode(raw), message.kind, raw)
            except (ValueError, RecursionError) as error:
                session.line = Line(line.number, line.byte, bytes(raw))
                session.keep_malformed(error)
        session.line = line
        self._end_conversation()

    def _describe(self, record: ChatConversation) -> None:
        conversation = self._conversation
        conversation.system = [] if record.system is NULL else messages.texts_of(record.system)
        conversation.tools, conversation.model = messages.tools_in(record.tools), record.model or None

    def _end_conversation(self) -> None:
        """End a conversation; messages without an answer are its next request."""
        conversation = self._conversation
        self.session.chain, self.session.at = conversation.chain, None
        if conversation.system or conversation.tools:
            self._start_conversation()
        if conversation.is_waiting:
            self._start_turn(None)

    def _read_message(self, message: ChatMessage, kind: Role, data: bytes | Raw) -> None:
        session, conversation, stamp = self.session, self._conversation, messages.time_of(message)
        session.chain, session.at = conversation.chain, (None if stamp == conversation.stamp else stamp)
        conversation.stamp, self._messages = stamp, self._messages + 1
        uuid = f"m{self._messages}"
        if not conversation.has_turn:
            if not conversation.is_started and kind == "system":
                conversation.system += messages.texts_of(message.body)
                return
            self._start_conversation()
            conversation.dialect = conversation.dialect or messages.dialect_of(message)
        if kind in messages.ANSWERS:
            self._read_answer(message, uuid, has_calls_in_text=kind == "call")
            return
        session.counter.asked_at, conversation.is_waiting = session.at, True
        if kind == "tool":
            self._read_results(message, uuid)
        elif kind:
            self._read_prompt(message, uuid, "user" if kind == "user" else "context_injection")
        else:
            session.line = Line(session.line.number, session.line.byte, bytes(data))
            role = printable(cut_masked(message.role or message.speaker, 40))
            session.keep_opaque(Code.UNKNOWN_RECORD, f"a message of role {role!r}")

    def _start_conversation(self) -> None:
        """Emit the header, which holds for all chains; what only one of several conversations has is a change."""
        session, conversation = self.session, self._conversation
        if conversation.is_started:
            return
        texts, tools, is_only = conversation.system, conversation.tools, not self._has_conversations
        conversation.is_started, conversation.system = True, []
        system = NULL if not texts else texts[0] if len(texts) == 1 else Raw(b"[%b]" % b",".join(map(bytes, texts)))
        header = {"system": system, "tools": tools} if is_only else {}
        session.start_session("", at=session.at, **header)
        if not is_only and (system is not NULL or tools):
            session.emit(e.SessionChanged(system=system, tools=tools, chain=conversation.chain, observed=True))

    def _start_turn(self, model: str | None) -> None:
        session, conversation = self.session, self._conversation
        if not conversation.has_turn:
            conversation.has_turn = True
            session.emit(e.SessionChanged(dialect=conversation.dialect or "openai-chat", chain=conversation.chain))
        session.start_turn(model or conversation.model)
        session.counter.asked_at, conversation.is_waiting = None, False

    def _read_answer(self, message: ChatMessage, uuid: str, *, has_calls_in_text: bool) -> None:
        open_calls = self._conversation.open
        items = spoken(messages.parts_of_answer(message, has_calls_in_text=has_calls_in_text), uuid, uuid)
        self._start_turn(message.answered_by)
        for item in items:
            if type(item) is ToolCall and item.status == "running":
                open_calls.append((item.call_id, item.name))
            self.session.append(item)
        del open_calls[:-OPEN_CALLS]
        self.session.end_turn(message.usage_of_answer)

    def _read_prompt(self, message: ChatMessage, uuid: str, source: str) -> None:
        """Read a message that the model did not make: its results, then its other parts."""
        blocks: list[Block] = []
        results: list[ChatResult] = []
        for part in messages.parts_of(message.body):
            if isinstance(part, ToolCall):
                raise ValueError("a call in a message that is not the model's")  # noqa: TRY004 - of the record
            if isinstance(part, ChatResult):
                results.append(part)
            else:
                blocks.append(part)
        for number, result in enumerate(results, 1):
            self._add_result(result, f"{uuid}:{number}")
        if blocks:
            self.session.append(UserMessage(uuid, blocks=tuple(blocks), source=source))

    def _read_results(self, message: ChatMessage, uuid: str) -> None:
        """Read a message with the result of one call, or of several."""
        parts = messages.parts_of(message.body) if opens(message.body) == "[" else []
        results = [part for part in parts if isinstance(part, ChatResult)]
        if not results:
            name, status = (
                message.tool_name or message.name or "",
                "failed" if message.status == "error" else "completed",
            )
            results = [ChatResult(message.tool_call_id or "", name, messages.output_of(message.body), status)]
        for number, result in enumerate(results):
            self._add_result(result, f"{uuid}:{number}" if number else uuid)

    def _add_result(self, result: ChatResult, uuid: str) -> None:
        """Complete the call that a result names by id, else by name, else the first open one."""
        open_calls = self._conversation.open
        field, key = (0, result.call_id) if result.call_id else (1, result.name)
        call = next((call for call in open_calls if call[field] == key), None)
        if call is None and not result.call_id and open_calls:
            call = open_calls[0]
        if call is not None:
            open_calls.remove(call)
            self.session.add_result(call[0], result.output, failed=result.status == "failed")
            return
        if result.call_id or result.name:  # otherwise the calls are in texts, as some models write them
            reason = "a result of no call that the chat holds; it is kept as a message"
            self.session.problem(Code.UNKNOWN_ID, reason)
        is_text = opens(result.output) == '"'
        blocks = (TextBlock(result.output),) if is_text else blocks_of(bytes(result.output))
        self.session.append(UserMessage(uuid, blocks=blocks, source="context_injection"))

    def finish(self) -> None:
        if self._conversation.system:
            self._start_conversation()


class Chat(_Chats, LogReader):
    """Reader of plain chats with a message, or a conversation, a line."""

    name: ClassVar[str] = "chat"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return signs.are_lines(head)


class ChatDocument(_Chats, DocumentReader):
    """Reader of plain chats that are one JSON document."""

    name: ClassVar[str] = "chat-json"
    paths: ClassVar[tuple[str, ...]] = signs.PATHS

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return signs.is_list(head) or signs.is_document(head)

    def handle_head(self, data: bytes) -> None:
        self._describe(messages.decode_conversation(data))

    def finish(self) -> None:
        if self.is_whole:
            self._end_conversation()
        else:
            super().finish()
