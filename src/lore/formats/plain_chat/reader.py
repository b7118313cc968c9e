"""Plain chats: messages and nothing else, a line each or whole conversations a line (`chat`), or one JSON document
(`chat-json`: an array of messages or of conversations, or one conversation).

In: `{role, content, timestamp?}`, what many programs write that write no log of their own; a model, a usage, calls and
results where a message has them (`messages.py`). Out: events. Each message of the assistant is a request.
An array or a conversation that ends with what the model has not answered is the request that goes out next, as programs
hold it.

Rules: system messages before all others are the system prompt, later ones stand where they are. A result belongs to the
call that it names, else to the first that has none; one of no call stays in the chat as a message. A time that the
message before has, too, is that of an export and says nothing. Whose API was spoken to shows in what was said up to the
first answer.

Several conversations in one file are chains of one session: the first is `main`, the others `chat-2`, `chat-3`, … as
they come. So `check` judges each by itself and counts all, `convert` writes them into one log, which folds to the same
chains, and `PATH#chat-2:N` names a turn; a session each would need names that such files do not have. Each has a
system prompt and tools of its own, or none.

A chat is told by what it has, and by what it has not (`signs.py`): these readers are asked last, behind
those of other packages.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.lines import Line
from lore.formats.plain_chat import messages, signs
from lore.formats.plain_chat.messages import ChatResult
from lore.formats.plain_chat.signs import ChatConversation, ChatMessage, Role
from lore.formats.transcripts import Emitting, TranscriptDocument, TranscriptLines, TranscriptTurns
from lore.formats.values import opens, spoken
from lore.model import events as e
from lore.model.canonical import printable
from lore.model.codes import Code
from lore.model.items import NULL, Block, TextBlock, ToolCall, UserMessage, blocks_of
from lore.model.limits import OPEN_CALLS
from lore.model.mask import cut_masked
from lore.model.state import CHATS


class ChatTalk(msgspec.Struct):
    """What is remembered of the conversation that is read: `system` until the first other message, `open` the calls
    that have no result; `waits` says that what came last is unanswered.
    """

    number: int = 1
    chain: str = e.MAIN
    begun: bool = False
    system: list[Raw] = []
    tools: tuple[Raw, ...] | None = None
    model: str | None = None
    stamp: str | None = None
    dialect: str = ""
    decided: bool = False
    waits: bool = False
    open: list[tuple[str, str]] = []
    turns: TranscriptTurns = msgspec.field(default_factory=TranscriptTurns)


class ChatMemory(Struct):
    """What the reader remembers: how many messages there were, whether in whole conversations, the latest of them."""

    begun: bool = False
    whole: bool = False
    messages: int = 0
    talk: ChatTalk = msgspec.field(default_factory=ChatTalk)


class _ChatEvents(Emitting[ChatMemory]):
    """Messages to events."""

    memory = ChatMemory
    unseen: ClassVar[str] = (
        "requests as they were sent, tools, and bills unless messages have their usage; "
        "without bills and requests only history is judged"
    )
    successive: ClassVar[bool] = True  # no conversation goes on when the next one has begun

    def _take(self, data: bytes) -> None:
        if not self._memory.whole:
            message = messages.decode(data)
            kind = message.kind
            if kind:
                self._message(message, kind, data)
                return
        whole = messages.whole(data)
        if whole.listed is None:
            self._message(message := messages.decode(data), message.kind, data)
        else:
            self._conversation(whole, whole.listed)

    def _conversation(self, whole: ChatConversation, listed: list[Raw]) -> None:
        """Take a conversation that is whole: a message that is none is kept as it is, and hides no other."""
        memory, line = self._memory, self._line
        number = memory.talk.number + (memory.whole or memory.begun)
        memory.talk = ChatTalk(number, e.MAIN if number == 1 else f"{CHATS}{number}")
        memory.whole = True
        self._describe(whole)
        for raw in listed:
            try:
                self._message(message := messages.decode(raw), message.kind, raw)
            except (ValueError, RecursionError) as error:
                self._line = Line(line.number, line.byte, bytes(raw))
                self._malformed(error)
        self._line = line
        self._close()

    def _describe(self, whole: ChatConversation) -> None:
        """Take what a conversation says of itself."""
        talk = self._memory.talk
        talk.system = [] if whole.system is NULL else messages.texts_of(whole.system)
        talk.tools, talk.model = messages.tools_in(whole.tools), whole.model or None

    def _close(self) -> None:
        """End a conversation: what the model has not answered is the request that goes out next."""
        talk = self._memory.talk
        self._chain, self._at = talk.chain, None
        if talk.system or talk.tools:
            self._open_chain()
        if talk.waits:
            self._begin_turn(None)

    def _message(self, message: ChatMessage, kind: Role, data: bytes | Raw) -> None:
        memory = self._memory
        talk, stamp = memory.talk, messages.time_of(message)
        self._chain, self._at, talk.stamp = talk.chain, (None if stamp == talk.stamp else stamp), stamp
        memory.messages = number = memory.messages + 1
        uuid = f"m{number}"
        if not talk.decided:
            if not talk.begun and kind == "system":
                talk.system += messages.texts_of(message.body)
                return
            self._open_chain()
            talk.dialect = talk.dialect or messages.dialect_of(message)
        if kind in messages.SPOKEN:
            self._answer(message, uuid, calls=kind == "call")
            return
        talk.turns.asked_at, talk.waits = self._at, True
        if kind == "tool":
            self._results(message, uuid)
        elif kind:
            self._told(message, uuid, "user" if kind == "user" else "context_injection")
        else:
            self._line = Line(self._line.number, self._line.byte, bytes(data))
            role = printable(cut_masked(message.role or message.speaker, 40))
            self._opaque(Code.UNKNOWN_RECORD, f"a message of role {role!r}; kept as opaque")

    def _open_chain(self) -> None:
        """Begin a conversation: the header is that of the first, the others differ from it."""
        memory, talk = self._memory, self._memory.talk
        if talk.begun:
            return
        talk.begun, texts = True, talk.system
        talk.system = []
        system = NULL if not texts else texts[0] if len(texts) == 1 else Raw(b"[%b]" % b",".join(map(bytes, texts)))
        alone = not memory.whole  # what a header says holds for all chains
        if not memory.begun:
            memory.begun = True
            tools = talk.tools if alone else None
            self._emit(e.SessionStarted(session_id="", at=self._at, system=system if alone else NULL, tools=tools))
        if not alone and (system is not NULL or talk.tools):
            self._emit(e.SessionChanged(system=system, tools=talk.tools, chain=talk.chain, observed=True))

    def _begin_turn(self, model: str | None) -> None:
        talk = self._memory.talk
        if not talk.decided:
            talk.decided = True
            self._emit(e.SessionChanged(dialect=talk.dialect or "openai-chat", chain=talk.chain))
        self._start_turn(talk.turns, model or talk.model)
        talk.turns.asked_at, talk.waits = None, False

    def _answer(self, message: ChatMessage, uuid: str, *, calls: bool) -> None:
        talk = self._memory.talk
        items = spoken(messages.said_by(message, calls=calls), uuid, uuid)
        self._begin_turn(message.answered_by)
        for item in items:
            if type(item) is ToolCall and item.status == "running":
                talk.open.append((item.call_id, item.name))
            self._append(item)
        del talk.open[:-OPEN_CALLS]
        self._end_turn(talk.turns, message.bill)

    def _told(self, message: ChatMessage, uuid: str, source: str) -> None:
        """Take a message that the model did not make: results first, then what is said beside them."""
        blocks: list[Block] = []
        results: list[ChatResult] = []
        for piece in messages.pieces_of(message.body):
            if isinstance(piece, ToolCall):
                raise ValueError("a call in a message that is not the model's")  # noqa: TRY004 - of what is read
            if isinstance(piece, ChatResult):
                results.append(piece)
            else:
                blocks.append(piece)
        for number, result in enumerate(results, 1):
            self._result(result, f"{uuid}:{number}")
        if blocks:
            self._append(UserMessage(uuid, blocks=tuple(blocks), source=source))

    def _results(self, message: ChatMessage, uuid: str) -> None:
        """Take a message that holds what came of a call, or of several."""
        parts = messages.pieces_of(message.body) if opens(message.body) == "[" else []
        several = [piece for piece in parts if isinstance(piece, ChatResult)]
        name = message.tool_name or message.name or ""
        status = "failed" if message.status == "error" else "completed"
        alone = ChatResult(message.tool_call_id or "", name, messages.output_of(message.body), status)
        for number, result in enumerate(several or [alone]):
            self._result(result, f"{uuid}:{number}" if number else uuid)

    def _result(self, result: ChatResult, uuid: str) -> None:
        """Give the call that a result names, else the first of its name, else the first, its result."""
        talk = self._memory.talk
        named = 0 if result.call_id else 1
        first = talk.open[0] if named and talk.open else None
        found = next((call for call in talk.open if call[named] == (result.call_id or result.name)), first)
        if found is None:
            if result.call_id or result.name:  # else calls stand in texts, as some models write them
                self._problem(Code.UNKNOWN_ID, "a result of no call that the chat holds; it is kept as a message")
            output = result.output
            blocks = (TextBlock(output),) if opens(output) == '"' else blocks_of(bytes(output))
            self._append(UserMessage(uuid, blocks=blocks, source="context_injection"))
            return
        talk.open.remove(found)
        self._patch(found[0], result.output, failed=result.status == "failed")


class Chat(_ChatEvents, TranscriptLines[ChatMemory]):
    """Reader of plain chats with a message, or a conversation, a line."""

    name: ClassVar[str] = "chat"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return signs.are_lines(head)

    def _last(self) -> None:
        if self._memory.talk.system:
            self._open_chain()


class ChatDocument(_ChatEvents, TranscriptDocument[ChatMemory]):
    """Reader of plain chats that are one JSON document: an array of messages or conversations, or one conversation."""

    name: ClassVar[str] = "chat-json"
    paths: ClassVar[tuple[str, ...]] = signs.PATHS

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return signs.is_list(head) or signs.is_document(head)

    def _head(self, data: bytes) -> None:
        self._describe(messages.whole(data))

    def _last(self) -> None:
        if self._elements.is_whole:
            self._close()
        elif self._memory.talk.system:
            self._open_chain()
