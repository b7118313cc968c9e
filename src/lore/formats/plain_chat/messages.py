"""The parts of one message of a plain chat: blocks, calls, results, time.

It reads messages of OpenAI Chat (`tool_calls`, `tool_call_id`, the older `function_call`), Anthropic Messages
(`tool_use`, `tool_result`, `thinking`), the AI SDK (`tool-call`, `tool-result`), Ollama (calls without ids, arguments
as an object), ShareGPT (`gpt`, `function_call`, `observation`) and LangChain (calls in a member of their own, and
perhaps in the content, too). Text keeps its spelling; an unknown part stays as it is; a `function_call` without a
function is text.

Sources: the message types of the SDKs, November 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.plain_chat.signs import TIMES, ChatConversation, ChatMessage
from lore.formats.values import CalledFunction, block_in, opens, stamp_of, text_in
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.deferred import pattern
from lore.model.items import (
    NULL,
    Block,
    RawBlock,
    Status,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    blocks_of,
)
from lore.model.jsonslice import raw_members
from lore.model.times import decode_time

ANSWERS = ("assistant", "call")  # roles of messages that the model made
_ANTHROPIC = pattern(
    rb'"type"[ \t\r\n]*:[ \t\r\n]*"(?:tool_use|tool_result|(?:redacted_)?thinking)"|"source"[ \t\r\n]*:[ \t\r\n]*\{'
)


class ChatResult(Struct, frozen=True):
    """The result of a call."""

    call_id: str  # empty if the file does not say
    name: str  # of the tool; empty if the file does not say
    output: Raw  # a text, or an array of blocks
    status: Status = "completed"


Members: TypeAlias = dict[str, bytes]
Part: TypeAlias = Block | ToolCall | ChatResult  # calls have no uuids yet

_MESSAGE = msgspec.json.Decoder(ChatMessage)
_CONVERSATION = msgspec.json.Decoder(ChatConversation)
_LIST = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_FUNCTION = msgspec.json.Decoder(CalledFunction)
_times_of: Callable[[ChatMessage], tuple[Raw, ...]] = attrgetter(*TIMES)


def decode(data: bytes | Raw) -> ChatMessage:
    """Decode a message; ValueError if it is malformed."""
    found = lenient.decoded(_MESSAGE, data)
    if found.data is NULL or not found.type:
        return found
    return replace(lenient.decoded(_MESSAGE, found.data), type=found.type)  # as LangChain packs one


def decode_conversation(data: bytes) -> ChatConversation:
    """Decode a conversation or a message; ValueError if it is malformed."""
    return lenient.decoded(_CONVERSATION, data)


def time_of(message: ChatMessage) -> str | None:
    """Return when a message was written, in RFC 3339; None if no member is a time."""
    times = (raw for raw in _times_of(message) if raw is not NULL and decode_time(bytes(raw)) is not None)
    return next((stamp for raw in times if (stamp := stamp_of(raw)) is not None), None)


def dialect_of(message: ChatMessage) -> str:
    """Return the dialect that a message shows; empty if it could be any."""
    if message.tool_calls or message.function_call is not None or message.kind in ("call", "tool"):
        return "openai-chat"
    listed = opens(message.content) == "["
    anthropic = listed and (message.kind == "assistant" or _ANTHROPIC.search(bytes(message.content)) is not None)
    return "anthropic" if anthropic or (message.model or "").startswith("claude") else ""


def tools_in(raw: Raw) -> tuple[Raw, ...] | None:
    """Return the tools that a conversation lists, as JSON or as JSON in a text; None without any."""
    listed = Raw(text_in(raw).encode()) if opens(raw) == '"' else raw
    try:
        found = lenient.decoded(_LIST, listed) if opens(listed) == "[" else []
    except (ValueError, RecursionError):
        return None
    return tuple([Raw(bytes(tool)) for tool in found if opens(tool) == "{"]) or None


def texts_of(content: Raw) -> list[Raw]:
    """Return the texts of a system message; ValueError if it holds anything else."""
    pieces = parts_of(content)
    texts = [piece.text for piece in pieces if isinstance(piece, TextBlock)]
    if len(texts) < len(pieces):
        raise ValueError("a system message that is not text alone")
    return texts


def parts_of(content: Raw) -> list[Part]:
    """Return the parts of content, in order; ValueError if it is neither a text nor a list."""
    match opens(content):
        case '"':
            return [TextBlock(content)] if memoryview(content).nbytes > len('""') else []
        case "[":
            return [_part(raw) for raw in lenient.decoded(_LIST, content)]
        case "n":
            return []
        case _:
            raise ValueError("content is neither text nor a list")


def _part(raw: Raw) -> Part:
    if opens(raw) == '"':
        return TextBlock(raw)
    members = raw_members(bytes(raw)) or {}
    read = _READ_PART.get(text_in(members.get("type", b"")))
    return (None if read is None else read(members)) or block_in(raw)


def _thought_in(members: Members) -> Part | None:
    text = members.get("thinking", b"")
    return ThinkingBlock(Raw(text), text_in(members.get("signature", b"")) or None) if text[:1] == b'"' else None


def _call_in(members: Members, call_id: str, name: str, given: str) -> ToolCall:
    arguments = arguments_of(Raw(members.get(given, b"null")))
    return ToolCall("", text_in(members.get(call_id, b"")), text_in(members.get(name, b"")), arguments)


def _result_in(members: Members) -> ChatResult:
    failed, output = members.get("is_error") == b"true", output_of(Raw(members.get("content", b"null")))
    return ChatResult(text_in(members.get("tool_use_id", b"")), "", output, "failed" if failed else "completed")


def _result_of_ai_sdk(members: Members) -> ChatResult:
    """Return a result of the AI SDK; the model gets only its value."""
    output, failed = members.get("output", b"null"), False
    output = members.get("result", b"null") if output == b"null" else output
    typed = raw_members(output) or {}
    kind, value = text_in(typed.get("type", b"")), typed.get("value", b"null")
    if kind and value != b"null":
        output = bytes(_text_of(Raw(value))) if kind.endswith("json") else value  # sent as the text it is spelled with
        failed = kind.startswith("error")
    name, call = text_in(members.get("toolName", b"")), text_in(members.get("toolCallId", b""))
    return ChatResult(call, name, output_of(Raw(output)), "failed" if failed else "completed")


_READ_PART: dict[str, Callable[[Members], Part | None]] = {
    "thinking": _thought_in,
    "tool_use": lambda members: _call_in(members, "id", "name", "input"),
    "tool-call": lambda members: _call_in(
        members, "toolCallId", "toolName", "args" if members.get("input", b"null") == b"null" else "input"
    ),
    "tool_result": _result_in,
    "tool-result": _result_of_ai_sdk,
}


def output_of(content: Raw) -> Raw:
    """Return a result as a text or an array of blocks; any other value as the text of its JSON."""
    match opens(content):
        case '"':
            return content
        case "[":
            blocks = [block_in(raw) for raw in lenient.decoded(_LIST, content)]
            alone = blocks[0] if len(blocks) == 1 else None
            return alone.text if isinstance(alone, TextBlock) else Raw(msgspec.json.encode(blocks))
        case "n" | "":
            return Raw(b'""')
        case _:
            return _text_of(content)


def _text_of(raw: Raw) -> Raw:
    return Raw(encode(bytes(raw).decode("utf-8", "backslashreplace")))


def arguments_of(arguments: Raw) -> Raw:
    """Return the arguments of a call as a JSON object; another text as its member `arguments`."""
    kind = opens(arguments)
    if kind == "{":
        return arguments
    if kind in ("n", ""):
        return Raw(b"{}")
    given = text_in(arguments).encode("utf-8", "surrogatepass")
    try:
        _OBJECT.decode(given)
    except msgspec.DecodeError:
        return Raw(b"{}") if not given.strip() and kind == '"' else Raw(b'{"arguments":%b}' % arguments)
    return Raw(given)


def parts_of_answer(message: ChatMessage, *, has_calls_in_text: bool = False) -> list[Block | ToolCall]:
    """Return the thoughts, texts and calls of an answer, in order; a call that the content also holds, once."""
    parts: list[Block | ToolCall] = []
    thoughts = (message.reasoning_content, message.reasoning, message.thinking)
    parts += [ThinkingBlock(thought) for thought in thoughts if thought is not NULL and opens(thought) == '"'][:1]
    for part in _calls_in_text(message.body) if has_calls_in_text else parts_of(message.body):
        if isinstance(part, ChatResult):
            _add_result(part, parts)
        else:
            parts.append(part)
    if message.refusal is not NULL and opens(message.refusal) == '"':
        parts.append(RawBlock(Raw(b'{"type":"refusal","refusal":%b}' % message.refusal), "openai-chat"))
    if message.function_call is not None:
        parts.append(ToolCall("", "", message.function_call.name, arguments_of(message.function_call.arguments)))
    known = {call.call_id for call in parts if isinstance(call, ToolCall)} - {""}
    for call in message.tool_calls or ():
        if not call.id or call.id not in known:
            known.add(call.id or "")
            parts.append(ToolCall("", call.id or "", call.named.name, arguments_of(call.named.arguments)))
    return parts


def _calls_in_text(value: Raw) -> Sequence[Part]:
    """Return the calls that a text holds as JSON, an object or a list of them; its parts if it holds none."""
    try:
        text = text_in(value).encode()
        listed = lenient.decoded(_LIST, text) if text[:1] == b"[" else [text]
        functions = [lenient.decoded(_FUNCTION, raw) for raw in listed]
    except (ValueError, RecursionError):
        functions = []
    if not functions or not all(function.name for function in functions):
        return parts_of(value)
    return [ToolCall("", "", function.name, arguments_of(function.arguments)) for function in functions]


def _add_result(result: ChatResult, parts: list[Block | ToolCall]) -> None:
    """Complete the call of the same answer that the provider ran; without such a call the result is text."""
    for place, call in enumerate(parts):
        if isinstance(call, ToolCall) and call.call_id and call.call_id == result.call_id:
            parts[place] = replace(call, status=result.status, output=result.output)
            return
    output = result.output
    parts += [TextBlock(output)] if opens(output) == '"' else blocks_of(bytes(output))
