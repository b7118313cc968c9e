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

Messages are those of OpenAI Chat (`tool_calls`, `tool_call_id`, the older `function_call`), Anthropic Messages
(`tool_use`, `tool_result`, `thinking`), the AI SDK (`tool-call`, `tool-result`), Ollama (calls without ids, arguments
as an object), ShareGPT (`gpt`, `function_call`, `observation`) and LangChain (calls in a member of their own, and
perhaps in the content, too). An unknown part stays as it is; a `function_call` without a function is text.

`signs.py` says how a chat is recognised. These readers are tried last, after those of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import values
from lore.formats.bills import decode_usage
from lore.formats.builder import DocumentReader, LogReader
from lore.formats.lines import Line
from lore.formats.plain_chat import signs
from lore.formats.plain_chat.signs import Role
from lore.formats.values import arguments_of, block_in, opens, parts_in, split_response, stamp_of, text_at, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import encode, printable
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.items import NULL, Block, RawBlock, Status, TextBlock, ThinkingBlock, ToolCall, UserMessage, blocks_of
from lore.model.jsonslice import array, is_json, members_at, raw_members
from lore.model.limits import OPEN_CALLS
from lore.model.mask import cut_masked
from lore.model.state import CHATS
from lore.model.times import decode_time

ANSWERS = ("assistant", "call")  # roles of messages that the model made
_ANTHROPIC = pattern(
    rb'"type"[ \t\r\n]*:[ \t\r\n]*"(?:tool_use|tool_result|(?:redacted_)?thinking)"|"source"[ \t\r\n]*:[ \t\r\n]*\{'
)


class _ChatResult(Struct, frozen=True):
    call_id: str  # empty if the file does not say
    name: str  # of the tool; empty if the file does not say
    output: Raw  # a text, or an array of blocks
    status: Status = "completed"


Members: TypeAlias = Mapping[str, bytes]
Part: TypeAlias = Block | ToolCall | _ChatResult  # calls have no uuids yet


def decode(data: bytes) -> Members:
    """Return the members of a message or a conversation; ValueError if it is not an object."""
    members = raw_members(data)
    if members is None:
        raise ValueError("not a JSON object")
    return signs.unwrap_langchain(members)


def body_of(message: Members) -> Raw:
    """Return the content of a message."""
    return Raw(message.get("content", message.get("value", b"null")))


def time_of(message: Members) -> str | None:
    """Return when a message was written, in RFC 3339; None if no member is a time."""
    times = (message[name] for name in signs.TIMES if name in message and decode_time(message[name]) is not None)
    return next((stamp for raw in times if (stamp := stamp_of(raw)) is not None), None)


def dialect_of(message: Members, role: Role) -> str:
    """Return the dialect that a message shows; empty if it could be any."""
    has_calls = message.get("tool_calls", b"")[:2] not in (b"", b"nu", b"[]")
    if has_calls or message.get("function_call", b"")[:1] == b"{" or role in ("call", "tool"):
        return "openai-chat"
    content = bytes(body_of(message)) if "content" in message else b""
    anthropic = content[:1] == b"[" and (role == "assistant" or _ANTHROPIC.search(content) is not None)
    return "anthropic" if anthropic or text_at(message, "model").startswith("claude") else ""


def elements_of(raw: bytes) -> list[bytes]:
    """Return the elements of text that is a JSON array; none of other text."""
    return array(raw) if raw[:1] == b"[" and is_json(raw) else []


def texts_of(content: Raw) -> list[Raw]:
    """Return the texts of a system message; ValueError if it holds anything else."""
    pieces = parts_in(content, _read_part)
    texts = [piece.text for piece in pieces if isinstance(piece, TextBlock)]
    if len(texts) < len(pieces):
        raise ValueError("a system message that is not text alone")
    return texts


def _read_part(raw: Raw) -> Part:
    if opens(raw) == '"':
        return TextBlock(raw)
    members = members_at(raw)
    match text_at(members, "type"):
        case "thinking" if (text := members.get("thinking", b""))[:1] == b'"':
            return ThinkingBlock(Raw(text), text_at(members, "signature") or None)
        case "tool_use" | "tool-call":
            return _call_in(members, text_at(members, "id", "toolCallId"))
        case "tool_result":
            output, has_failed = output_of(Raw(members.get("content", b"null"))), members.get("is_error") == b"true"
            return _ChatResult(text_at(members, "tool_use_id"), "", output, "failed" if has_failed else "completed")
        case "tool-result":
            return _result_of_ai_sdk(members)
        case _:
            return block_in(raw)


def _call_in(members: Members, call_id: str) -> ToolCall:
    named = (members[key] for key in ("input", "args", "arguments") if members.get(key, b"null") != b"null")
    return ToolCall("", call_id, text_at(members, "name", "toolName"), arguments_of(Raw(next(named, b"null"))))


def _result_of_ai_sdk(members: Members) -> _ChatResult:
    """Return a result of the AI SDK; the model gets only its value."""
    output = members.get("output", b"null")
    output = members.get("result", b"null") if output == b"null" else output
    typed = members_at(output)
    kind, value = text_at(typed, "type"), typed.get("value", b"null")
    has_value = bool(kind) and value != b"null"
    if has_value:
        output = bytes(_text_of(Raw(value))) if kind.endswith("json") else value  # sent as the text it is spelled with
    status = "failed" if has_value and kind.startswith("error") else "completed"
    return _ChatResult(text_at(members, "toolCallId"), text_at(members, "toolName"), output_of(Raw(output)), status)


def output_of(content: Raw) -> Raw:
    """Return a result as a text or an array of blocks; any other value as the text of its JSON."""
    match opens(content):
        case '"':
            return content
        case "[":
            return values.result_of([block_in(raw) for raw in lenient.decode(list[Raw], content)])
        case "n" | "":
            return Raw(b'""')
        case _:
            return _text_of(content)


def _text_of(raw: Raw) -> Raw:
    return Raw(encode(bytes(raw).decode("utf-8", "backslashreplace")))


def parts_of_answer(message: Members, *, has_calls_in_text: bool = False) -> list[Block | ToolCall]:
    """Return the thoughts, texts and calls of an answer, in order; a call that the content also holds, once."""
    parts: list[Block | ToolCall] = []
    thoughts = (message.get(name, b"") for name in ("reasoning_content", "reasoning", "thinking"))
    parts += [ThinkingBlock(Raw(thought)) for thought in thoughts if thought[:1] == b'"'][:1]
    body = body_of(message)
    for part in (_calls_in_text(body) if has_calls_in_text else []) or parts_in(body, _read_part):
        if isinstance(part, _ChatResult):
            _add_result(part, parts)
        else:
            parts.append(part)
    if (refusal := message.get("refusal", b""))[:1] == b'"':
        parts.append(RawBlock(Raw(b'{"type":"refusal","refusal":%b}' % refusal), "openai-chat"))
    if (function := raw_members(message.get("function_call", b""))) is not None:
        parts.append(_call_in(function, text_at(function, "id")))
    call_ids = {call.call_id for call in parts if isinstance(call, ToolCall)} - {""}
    listed = message.get("tool_calls", b"null")
    if listed[:1] not in (b"[", b"n"):
        raise ValueError("tool_calls are not a list")
    for call in map(decode, array(listed) if listed[:1] == b"[" else ()):
        call_id, function = text_at(call, "id"), raw_members(call.get("function", b""))
        if not call_id or call_id not in call_ids:
            call_ids.add(call_id)
            parts.append(_call_in(call if function is None else function, call_id))  # LangChain's has no function
    return parts


def _calls_in_text(value: Raw) -> list[Part]:
    """Return the calls that a text holds as JSON, an object or a list of them; none if it holds anything else."""
    text = text_in(value).encode("utf-8", "backslashreplace")
    functions = [members_at(raw) for raw in (elements_of(text) if text[:1] == b"[" else [text])]
    calls = [_call_in(function, "") for function in functions]
    return list[Part](calls) if all(call.name for call in calls) else []


def _add_result(result: _ChatResult, parts: list[Block | ToolCall]) -> None:
    """Complete the call of the same answer that the provider ran; without such a call the result is text."""
    for place, call in enumerate(parts):
        if isinstance(call, ToolCall) and call.call_id and call.call_id == result.call_id:
            parts[place] = replace(call, status=result.status, output=result.output)
            return
    output = result.output
    parts += [TextBlock(output)] if opens(output) == '"' else blocks_of(bytes(output))


@dataclass
class _OpenConversation:
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


class Chat(LogReader):
    """Reader of plain chats with a message, or a conversation, a line."""

    name: ClassVar[str] = "chat"
    unseen: ClassVar[str] = (
        "requests as they were sent, tools, and usage unless messages have it; "
        "without usage and requests only history is judged"
    )
    successive: ClassVar[bool] = True  # a conversation has ended when the next one begins

    def __init__(self) -> None:
        super().__init__()
        self._has_conversations = False  # the records are conversations, not messages
        self._messages = 0
        self._conversation = _OpenConversation()

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return signs.are_lines(head)

    def handle(self, data: bytes) -> None:
        record = decode(data)
        listed = next((record[name] for name in signs.LISTS if record.get(name, b"")[:1] == b"["), None)
        if listed is None or (not self._has_conversations and signs.role_of(record)):
            self._read_message(record, data)
        else:
            self._read_conversation(record, array(listed))

    def _read_conversation(self, record: Members, listed: list[bytes]) -> None:
        session, line = self.session, self.session.line
        number = self._conversation.number + (self._has_conversations or session.is_started)
        self._conversation = _OpenConversation(number, e.MAIN if number == 1 else f"{CHATS}{number}")
        self._has_conversations = True
        self._read_description(record)
        for raw in listed:
            try:
                self._read_message(decode(raw), raw)
            except (ValueError, RecursionError) as error:
                session.line = Line(line.number, line.byte, raw)
                session.keep_malformed(error)
        session.line = line
        self._end_conversation()

    def _read_description(self, record: Members) -> None:
        conversation, tools = self._conversation, record.get("tools", b"")
        conversation.system = texts_of(Raw(record.get("system", b"null")))
        listed = elements_of(text_in(tools).encode() if tools[:1] == b'"' else tools)
        conversation.tools = tuple([Raw(tool) for tool in listed if tool[:1] == b"{"]) or None
        conversation.model = text_at(record, "model") or None

    def _end_conversation(self) -> None:
        """End a conversation; messages without an answer are its next request."""
        conversation = self._conversation
        self.session.chain, self.session.at = conversation.chain, None
        if conversation.system or conversation.tools:
            self._start_conversation()
        if conversation.is_waiting:
            self._start_turn(None)

    def _read_message(self, message: Members, data: bytes) -> None:
        session, conversation = self.session, self._conversation
        stamp, kind = time_of(message), signs.role_of(message)
        session.chain, session.at = conversation.chain, (None if stamp == conversation.stamp else stamp)
        conversation.stamp, self._messages = stamp, self._messages + 1
        uuid = f"m{self._messages}"
        if not conversation.has_turn:
            if not conversation.is_started and kind == "system":
                conversation.system += texts_of(body_of(message))
                return
            self._start_conversation()
            conversation.dialect = conversation.dialect or dialect_of(message, kind)
        if kind in ANSWERS:
            self._read_answer(message, uuid, has_calls_in_text=kind == "call")
            return
        session.counter.asked_at, conversation.is_waiting = session.at, True
        if kind:
            self._read_input(message, uuid, kind)
        else:
            session.line = Line(session.line.number, session.line.byte, data)
            role = printable(cut_masked(text_at(message, "role", "from"), 40))
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

    def _read_answer(self, message: Members, uuid: str, *, has_calls_in_text: bool) -> None:
        open_calls = self._conversation.open
        items = split_response(parts_of_answer(message, has_calls_in_text=has_calls_in_text), uuid, uuid)
        metadata = members_at(message, "response_metadata")
        self._start_turn(text_at(message, "model") or text_at(metadata, "model_name", "model") or None)
        for item in items:
            if type(item) is ToolCall and item.status == "running":
                open_calls.append((item.call_id, item.name))
            self.session.append(item)
        del open_calls[:-OPEN_CALLS]
        self.session.end_turn(decode_usage(message.get("usage", message.get("usage_metadata", b"null"))))

    def _read_input(self, message: Members, uuid: str, kind: Role) -> None:
        """Read a message that the model did not make: its results, then its other parts."""
        body, is_result = body_of(message), kind == "tool"
        parts = parts_in(body, _read_part) if not is_result or opens(body) == "[" else ()
        results = [part for part in parts if isinstance(part, _ChatResult)]
        if is_result and not results:
            call, name = text_at(message, "tool_call_id"), text_at(message, "tool_name", "name")
            status = "failed" if text_at(message, "status") == "error" else "completed"
            results, parts = [_ChatResult(call, name, output_of(body), status)], ()
        elif any(isinstance(part, ToolCall) for part in parts):
            raise ValueError("a call in a message that is not the model's")
        blocks = tuple([part for part in parts if not isinstance(part, _ChatResult | ToolCall)])
        for number, result in enumerate(results, 0 if is_result and not blocks else 1):
            self._add_result(result, f"{uuid}:{number}" if number else uuid)
        if blocks:
            source = "user" if kind == "user" else "context_injection"
            self.session.append(UserMessage(uuid, blocks=blocks, source=source))

    def _add_result(self, result: _ChatResult, uuid: str) -> None:
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


class ChatDocument(DocumentReader, Chat):
    """Reader of plain chats that are one JSON document."""

    name: ClassVar[str] = "chat-json"
    paths: ClassVar[tuple[str, ...]] = signs.PATHS

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return signs.is_list(head) or signs.is_document(head)

    def handle_head(self, data: bytes) -> None:
        self._read_description(decode(data))

    def finish(self) -> None:
        if self.is_whole:
            self._end_conversation()
        else:
            super().finish()
