"""Plain chats: messages of a conversation and nothing else, a line each (`chat`) or one JSON array (`chat-json`).

In: `{role, content, timestamp?}`, what many programs write that write no log of their own; a model, a usage, calls and
results where a message has them (`plain_chat_messages.py`). Out: events. Each message of the assistant is a request.
An array that ends with what the model has not answered is the request that goes out next, as programs hold it.

Rules: system messages before all others are the system prompt, later ones stand where they are. A result belongs to the
call that it names, else to the first that has none; one of no call stays in the chat as a message. A time that the
message before has, too, is that of an export and says nothing. Whose API was spoken to shows in what was said up to the
first answer.

A chat is told by what its messages have, and by what they have not: these readers are asked last, behind those of other
packages, and any member that messages do not have, if it is more than a number, makes a file another program's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats import plain_chat_messages as messages
from lore.formats.bills import billed_of
from lore.formats.documents import Elements
from lore.formats.lines import BOM, SPACE, each
from lore.formats.plain_chat_messages import Message, Result
from lore.formats.transcripts import Emitting, TranscriptDocument, TranscriptLines, TranscriptMemory, TranscriptTurns
from lore.formats.values import opens, text_in
from lore.model import events as e
from lore.model.canonical import printable
from lore.model.codes import Code
from lore.model.items import NULL, Block, TextBlock, ToolCall, UserMessage, blocks_of
from lore.model.jsonslice import table

_MOST_OPEN = 512  # calls that may still get a result: of so many at a time no model made one
_LOOKED_AT = 64  # messages of a beginning that have to be messages and nothing else
_TOLD = frozenset((*messages.SYSTEM, "user"))  # an answer alone is a response that was kept, and no chat
# A first message that is longer than the beginning of a file.
_LONG = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"
    rb'"role"\s*:\s*"(?:system|developer|user)"\s*,\s*"content"\s*:\s*["\[]'
)


class ChatMemory(TranscriptMemory):
    """What the reader remembers: `system` until the first other message, `open` the calls that have no result."""

    begun: bool = False
    messages: int = 0
    system: list[Raw] = []
    stamp: str | None = None
    dialect: str = ""
    decided: bool = False
    waits: bool = False
    open: list[tuple[str, str]] = []
    turns: TranscriptTurns = msgspec.field(default_factory=TranscriptTurns)


class _Chat(Emitting[ChatMemory]):
    """Messages to events."""

    memory = ChatMemory
    unseen: ClassVar[str] = (
        "requests as they were sent, tools, and bills unless messages have their usage; "
        "without bills and requests only history is judged"
    )

    def _take(self, data: bytes) -> None:
        message, memory = messages.decode(data), self._memory
        role, stamp = message.role, messages.time_of(message)
        at, memory.stamp = (None if stamp == memory.stamp else stamp), stamp
        memory.messages = number = memory.messages + 1
        uuid = f"m{number}"
        if not memory.decided:
            if not memory.begun and role in messages.SYSTEM:
                memory.system += messages.texts_of(message.content)
                return
            self._open_session(at)
            memory.dialect = memory.dialect or messages.dialect_of(message)
        if role == "assistant":
            self._answer(message, uuid, at)
            return
        memory.turns.asked_at, memory.waits = at, True
        if role in messages.RESULTS:
            self._results(message, uuid, at)
        elif role in _TOLD:
            self._told(message, uuid, at)
        else:
            self._opaque(Code.UNKNOWN_RECORD, f"a message of role {printable(role[:40])!r}; kept as opaque")

    def _open_session(self, at: str | None) -> None:
        memory = self._memory
        if memory.begun:
            return
        memory.begun, texts = True, memory.system
        memory.system = []
        system = NULL if not texts else texts[0] if len(texts) == 1 else Raw(b"[%b]" % b",".join(map(bytes, texts)))
        self._emit(e.SessionStarted(session_id="", at=at, system=system))

    def _last(self) -> None:
        if self._memory.system:
            self._open_session(None)

    def _begin_turn(self, model: str | None, at: str | None) -> None:
        memory = self._memory
        if not memory.decided:
            memory.decided = True
            self._emit(e.SessionChanged(dialect=memory.dialect or "openai-chat"))
        self._start_turn(e.MAIN, memory.turns, model, at)
        memory.turns.asked_at, memory.waits = None, False

    def _answer(self, message: Message, uuid: str, at: str | None) -> None:
        memory = self._memory
        items = messages.spoken(message, uuid)
        self._begin_turn(message.model or None, at)
        for item in items:
            if type(item) is ToolCall and item.status == "running":
                memory.open.append((item.call_id, item.name))
            self._append(item, e.MAIN, at)
        del memory.open[:-_MOST_OPEN]
        usage = None if message.usage is NULL else billed_of(bytes(message.usage))
        self._emit(e.TurnCompleted(turn=memory.turns.turn, at=at, usage=usage))

    def _told(self, message: Message, uuid: str, at: str | None) -> None:
        """Take a message that the model did not make: results first, then what is said beside them."""
        blocks: list[Block] = []
        results: list[Result] = []
        for piece in messages.pieces_of(message.content):
            if isinstance(piece, messages.Called):
                raise ValueError("a call in a message that is not the model's")  # noqa: TRY004 - of what is read
            if isinstance(piece, Result):
                results.append(piece)
            else:
                blocks.append(piece)
        for number, result in enumerate(results, 1):
            self._result(result, f"{uuid}:{number}", at)
        if blocks:
            source = "user" if message.role == "user" else "context_injection"
            self._append(UserMessage(uuid, blocks=tuple(blocks), source=source), e.MAIN, at)

    def _results(self, message: Message, uuid: str, at: str | None) -> None:
        """Take a message that holds what came of a call, or of several."""
        parts = messages.pieces_of(message.content) if opens(message.content) == "[" else []
        several = [piece for piece in parts if isinstance(piece, Result)]
        name = message.tool_name or message.name or ""
        alone = Result(message.tool_call_id or "", name, messages.output_of(message.content))
        for number, result in enumerate(several or [alone]):
            self._result(result, f"{uuid}:{number}" if number else uuid, at)

    def _result(self, result: Result, uuid: str, at: str | None) -> None:
        found = _awaiting(self._memory.open, result)
        if found is None:
            self._problem(Code.UNKNOWN_ID, "a result of no call that the chat holds; it is kept as a message")
            output = result.output
            blocks = (TextBlock(output),) if opens(output) == '"' else blocks_of(bytes(output))
            self._append(UserMessage(uuid, blocks=blocks, source="context_injection"), e.MAIN, at)
            return
        self._memory.open.remove(found)
        self._emit(e.PatchToolCall(call_id=found[0], status=result.status, output=result.output, at=at))


class Chat(_Chat, TranscriptLines[ChatMemory]):
    """Reader of plain chats with a message a line."""

    name: ClassVar[str] = "chat"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return _are_messages(each(head))


class ChatDocument(_Chat, TranscriptDocument[ChatMemory]):
    """Reader of plain chats that are one JSON array of messages."""

    name: ClassVar[str] = "chat-json"
    paths: ClassVar[tuple[str, ...]] = ("",)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if head.removeprefix(BOM).lstrip(SPACE)[:1] != b"[":
            return False
        elements = Elements(("",))
        whole = [*elements.feed(head), *elements.finish()]
        return _are_messages([line.data for line in whole]) if whole else _LONG.match(head) is not None

    def _last(self) -> None:
        super()._last()
        if self._memory.waits and self._elements.phase == "over":
            self._begin_turn(None, None)


def _awaiting(calls: list[tuple[str, str]], result: Result) -> tuple[str, str] | None:
    """Return the call that a result is of: the one that it names, else the first of its name, else the first."""
    if result.call_id:
        return next((call for call in calls if call[0] == result.call_id), None)
    return next((call for call in calls if call[1] == result.name), calls[0] if calls else None)


def _are_messages(pieces: Iterable[bytes]) -> bool:
    """Tell whether what is whole of a beginning are messages, one of which a model was told; damage aside."""
    told = False
    for piece in islice(pieces, _LOOKED_AT):
        members = table(piece)
        if members is None:
            continue
        if not messages.is_message(members):
            return False
        told = told or text_in(members["role"]) in _TOLD
    return told
