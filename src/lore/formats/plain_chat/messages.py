"""One message of a plain chat taken apart: what was said, calls, results, when.

In: `{role, content, …}` in the words of OpenAI Chat (`tool_calls`, `tool_call_id`, the older `function_call`),
Anthropic Messages (`tool_use`, `tool_result`, `thinking`), the AI SDK (`tool-call`, `tool-result`), Ollama (calls
without ids, arguments as an object), ShareGPT (`gpt`, `function_call`, `observation`) or LangChain (calls beside the
content, which may hold them, too). Out: blocks and calls in their order, results apart. Rules: text stays as it was
spelled; a part that none of them has stands as it is; a `function_call` that names none is what was said.

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

SPOKEN = ("assistant", "call")
_ANTHROPIC = pattern(
    rb'"type"[ \t\r\n]*:[ \t\r\n]*"(?:tool_use|tool_result|(?:redacted_)?thinking)"|"source"[ \t\r\n]*:[ \t\r\n]*\{'
)


class ChatResult(Struct, frozen=True):
    """What came of a call: a text, or an array of blocks; of which, by id or by name, where the file says it."""

    call_id: str
    name: str
    output: Raw
    status: Status = "completed"


Members: TypeAlias = dict[str, bytes]
Piece: TypeAlias = Block | ToolCall | ChatResult  # calls have no uuids yet

_MESSAGE = msgspec.json.Decoder(ChatMessage)
_CONVERSATION = msgspec.json.Decoder(ChatConversation)
_LIST = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_FUNCTION = msgspec.json.Decoder(CalledFunction)
_times_of: Callable[[ChatMessage], tuple[Raw, ...]] = attrgetter(*TIMES)


def decode(data: bytes | Raw) -> ChatMessage:
    """Decode a message; ValueError where it is none."""
    found = lenient.decoded(_MESSAGE, data)
    if found.data is NULL or not found.type:
        return found
    return replace(lenient.decoded(_MESSAGE, found.data), type=found.type)  # as LangChain packs one


def whole(data: bytes) -> ChatConversation:
    """Decode what may be a conversation, or holds what a message does; ValueError where it is no object."""
    return lenient.decoded(_CONVERSATION, data)


def time_of(message: ChatMessage) -> str | None:
    """Return when a message was written, in RFC 3339; None where no member says a time."""
    times = (raw for raw in _times_of(message) if raw is not NULL and decode_time(bytes(raw)) is not None)
    return next((stamp for raw in times if (stamp := stamp_of(raw)) is not None), None)


def dialect_of(message: ChatMessage) -> str:
    """Return the API that a message shows; empty where it could be of any."""
    if message.tool_calls or message.function_call is not None or message.kind in ("call", "tool"):
        return "openai-chat"
    listed = opens(message.content) == "["
    anthropic = listed and (message.kind == "assistant" or _ANTHROPIC.search(bytes(message.content)) is not None)
    return "anthropic" if anthropic or (message.model or "").startswith("claude") else ""


def tools_in(raw: Raw) -> tuple[Raw, ...] | None:
    """Return the definitions of tools that a conversation lists, as JSON or as its text; None without any."""
    listed = Raw(text_in(raw).encode()) if opens(raw) == '"' else raw
    try:
        found = lenient.decoded(_LIST, listed) if opens(listed) == "[" else []
    except (ValueError, RecursionError):
        return None
    return tuple([Raw(bytes(tool)) for tool in found if opens(tool) == "{"]) or None


def texts_of(content: Raw) -> list[Raw]:
    """Return the texts of a system message; ValueError where it holds anything else."""
    pieces = pieces_of(content)
    texts = [piece.text for piece in pieces if isinstance(piece, TextBlock)]
    if len(texts) < len(pieces):
        raise ValueError("a system message that is not text alone")
    return texts


def pieces_of(content: Raw) -> list[Piece]:
    """Return what content says, in order; ValueError where it is neither a text nor a list."""
    match opens(content):
        case '"':
            return [TextBlock(content)] if memoryview(content).nbytes > len('""') else []
        case "[":
            return [_piece(raw) for raw in lenient.decoded(_LIST, content)]
        case "n":
            return []
        case _:
            raise ValueError("content is neither text nor a list")


def _piece(raw: Raw) -> Piece:
    if opens(raw) == '"':
        return TextBlock(raw)
    own = raw_members(bytes(raw)) or {}
    make = _PIECES.get(text_in(own.get("type", b"")))
    return (None if make is None else make(own)) or block_in(raw)


def _thought(own: Members) -> Piece | None:
    text = own.get("thinking", b"")
    return ThinkingBlock(Raw(text), text_in(own.get("signature", b"")) or None) if text[:1] == b'"' else None


def _call_in(own: Members, call_id: str, name: str, given: str) -> ToolCall:
    arguments = given_of(Raw(own.get(given, b"null")))
    return ToolCall("", text_in(own.get(call_id, b"")), text_in(own.get(name, b"")), arguments)


def _result_in(own: Members) -> ChatResult:
    failed, output = own.get("is_error") == b"true", output_of(Raw(own.get("content", b"null")))
    return ChatResult(text_in(own.get("tool_use_id", b"")), "", output, "failed" if failed else "completed")


def _typed_result(own: Members) -> ChatResult:
    """Take a result of the AI SDK: its value alone is what the model is told."""
    output, failed = own.get("output", b"null"), False
    output = own.get("result", b"null") if output == b"null" else output
    typed = raw_members(output) or {}
    kind, value = text_in(typed.get("type", b"")), typed.get("value", b"null")
    if kind and value != b"null":
        output = bytes(_text_of(Raw(value))) if kind.endswith("json") else value  # sent as the text it is spelled with
        failed = kind.startswith("error")
    name, call = text_in(own.get("toolName", b"")), text_in(own.get("toolCallId", b""))
    return ChatResult(call, name, output_of(Raw(output)), "failed" if failed else "completed")


_PIECES: dict[str, Callable[[Members], Piece | None]] = {
    "thinking": _thought,
    "tool_use": lambda own: _call_in(own, "id", "name", "input"),
    "tool-call": lambda own: _call_in(
        own, "toolCallId", "toolName", "args" if own.get("input", b"null") == b"null" else "input"
    ),
    "tool_result": _result_in,
    "tool-result": _typed_result,
}


def output_of(content: Raw) -> Raw:
    """Return a result as lore keeps it: a text, an array of blocks; any other value as the text that it is spelled."""
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


def given_of(arguments: Raw) -> Raw:
    """Return what a call is given as a JSON object; a text that is none stands as the text that it is."""
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


def said_by(message: ChatMessage, *, calls: bool = False) -> list[Block | ToolCall]:
    """Return what a response says: thoughts, texts and calls in their places.

    With `calls`, its text is one that spells some. A call that the content holds, too, is made once.
    """
    found: list[Block | ToolCall] = []
    thoughts = (message.reasoning_content, message.reasoning, message.thinking)
    found += [ThinkingBlock(thought) for thought in thoughts if thought is not NULL and opens(thought) == '"'][:1]
    for piece in _calls_in(message.body) if calls else pieces_of(message.body):
        if isinstance(piece, ChatResult):
            _answered(piece, found)
        else:
            found.append(piece)
    if message.refusal is not NULL and opens(message.refusal) == '"':
        found.append(RawBlock(Raw(b'{"type":"refusal","refusal":%b}' % message.refusal), "openai-chat"))
    if message.function_call is not None:
        found.append(ToolCall("", "", message.function_call.name, given_of(message.function_call.arguments)))
    known = {call.call_id for call in found if isinstance(call, ToolCall)} - {""}
    for call in message.tool_calls or ():
        if not call.id or call.id not in known:
            known.add(call.id or "")
            found.append(ToolCall("", call.id or "", call.named.name, given_of(call.named.arguments)))
    return found


def _calls_in(value: Raw) -> Sequence[Piece]:
    """Return the calls that a text holds as JSON, an object or a list of some; else what it says."""
    try:
        spelled = text_in(value).encode()
        listed = lenient.decoded(_LIST, spelled) if spelled[:1] == b"[" else [spelled]
        functions = [lenient.decoded(_FUNCTION, raw) for raw in listed]
    except (ValueError, RecursionError):
        functions = []
    if not functions or not all(function.name for function in functions):
        return pieces_of(value)
    return [ToolCall("", "", function.name, given_of(function.arguments)) for function in functions]


def _answered(result: ChatResult, found: list[Block | ToolCall]) -> None:
    """Give a call of the same response its result, which the provider made; one of no such call is said."""
    for place, call in enumerate(found):
        if isinstance(call, ToolCall) and call.call_id and call.call_id == result.call_id:
            found[place] = replace(call, status=result.status, output=result.output)
            return
    output = result.output
    found += [TextBlock(output)] if opens(output) == '"' else blocks_of(bytes(output))
