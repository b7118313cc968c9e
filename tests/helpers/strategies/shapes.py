"""Request bodies of every dialect as one flat list of parts, so that a test reads one shape.

In: the name of a dialect, a body. Out: parts in the order written. A message has one role, given by its first part: a
message that begins with a tool's result is the tool's, even if its wire role is `user` and the user's own words follow.
The text of a result is an `output`, as is any text that Chat or Responses add to the result's list. Text dialects have
no ids: their calls and results are numbered.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lore.model.turn import Segment
from lore.prompt.dialects import TEXT, dialect_names

NAMES = dialect_names()
ITEMS = (
    "openai-chat",
    "openai-responses",
)  # each result is a message of its own; elsewhere those of a response are one
BREAKPOINT_KEYS = (b'"cache_control"', b'"prompt_cache_breakpoint"', b'"cachePoint"')
THOUGHTS = ("thinking", "redacted_thinking")

Said = tuple[str, str]  # kind (text, call, result, output, thought, other), and the text or the call's id


class Part(NamedTuple):
    """A part of a message: number and role of the message, the part's kind, its text or its call's id."""

    message: int
    role: str
    kind: str
    text: str


def parts(dialect: str, body: bytes) -> list[Part]:
    """Return the parts of a body after its tools and system prompt."""
    result: list[Part] = []
    for number, (role, pieces) in enumerate(_messages(dialect, body)):
        role = "tool" if pieces and pieces[0][0] == "result" else _ROLES.get(role, role)
        result += [Part(number, role, kind, text) for kind, text in pieces]
    return result


def text(parts: list[Part]) -> str:
    """All that parts say, in order."""
    return "\n".join(part.text for part in parts)


def system_blocks(dialect: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a decoded body's system prompt, to read or to change; cache points among them have no text."""
    match dialect:
        case "gemini":
            return body["systemInstruction"]["parts"]
        case "openai-chat" | "openai-responses":
            return [block for message in _leading(body, dialect) for block in message["content"]]
        case _:
            return body["system"]


def _leading(body: dict[str, Any], dialect: str) -> list[dict[str, Any]]:
    messages = body["messages" if dialect == "openai-chat" else "input"]
    return list(itertools.takewhile(lambda message: message.get("role") == "system", messages))


def leading(dialect: str, body: bytes) -> str:
    """The text of the leading system run."""
    if dialect in TEXT:
        return _spoken(body)[0][1]
    return "\n\n".join(block.get("text", "") for block in system_blocks(dialect, json.loads(body)))


def text_of(segment: Segment) -> str:
    """Return the text of a segment; empty for JSON without text."""
    try:
        block = json.loads(segment.data)
    except ValueError:
        return segment.data.decode()
    return block.get("text", "") if isinstance(block, dict) else segment.data.decode()


def is_thought(segment: Segment) -> bool:
    """Return whether a segment is a model's thinking, in any shape."""
    block = json.loads(segment.data)
    return isinstance(block, dict) and _is_thought(block)


def _is_thought(block: dict[str, Any]) -> bool:
    return block.get("type") in THOUGHTS or "reasoningContent" in block or block.get("thought") is True


def breakpoints_in(body: bytes) -> int:
    """Count the cache breakpoints of a body."""
    return sum(body.count(key) for key in BREAKPOINT_KEYS)


# each shape


_ROLES = {"model": "assistant", "developer": "system"}


def _messages(dialect: str, body: bytes) -> Iterator[tuple[str, list[Said]]]:
    if dialect in TEXT:
        yield from _text_messages(body)
        return
    read, root = _SHAPES[dialect]
    messages = json.loads(body)[root]
    lead = len(_leading(json.loads(body), dialect)) if dialect in ITEMS else 0
    for message in messages[lead:]:
        role, pieces = read(message)
        yield role, pieces


def _anthropic(message: dict[str, Any]) -> tuple[str, list[Said]]:
    return message["role"], [piece for block in message["content"] for piece in _block(block)]


def _block(block: dict[str, Any]) -> list[Said]:
    match block["type"]:
        case "text":
            return [("text", block["text"])]
        case "tool_use":
            return [("call", block["id"])]
        case "tool_result":
            return [("result", block["tool_use_id"]), *_output(block["content"])]
        case kind:
            return [("thought" if kind in THOUGHTS else "other", kind)]


def _output(content: Any) -> list[Said]:
    if isinstance(content, str):
        return [("output", content)]
    return [("output", block.get("text", "")) for block in content]


def _chat(message: dict[str, Any]) -> tuple[str, list[Said]]:
    if message["role"] == "tool":
        return "tool", [("result", message["tool_call_id"]), *_output(message["content"])]
    pieces: list[Said] = [_text_or_other(part) for part in message.get("content") or ()]
    return message["role"], [*pieces, *(("call", part["id"]) for part in message.get("tool_calls", ()))]


def _responses(item: dict[str, Any]) -> tuple[str, list[Said]]:
    match item["type"]:
        case "message":
            return item["role"], [_text_or_other(block) for block in item["content"]]
        case "function_call":
            return "assistant", [("call", item["call_id"])]
        case "function_call_output":
            return "tool", [("result", item["call_id"]), *_output(item["output"])]
        case kind:
            return "assistant", [("other", kind)]


def _text_or_other(part: dict[str, Any]) -> Said:
    return ("text", part["text"]) if "text" in part else ("other", part.get("type", ""))


def _gemini(content: dict[str, Any]) -> tuple[str, list[Said]]:
    pieces: list[Said] = []
    for part in content["parts"]:
        match part:
            case {"functionCall": {"id": call}}:
                pieces.append(("call", call))
            case {"functionResponse": {"id": call, "response": response}}:
                pieces += [("result", call), *[("output", str(value)) for value in response.values()]]
            case _:
                pieces.append(_text_or_other(part))
    return content["role"], pieces


def _bedrock(message: dict[str, Any]) -> tuple[str, list[Said]]:
    pieces: list[Said] = []
    for block in message["content"]:
        match block:
            case {"cachePoint": _}:
                continue
            case {"toolUse": {"toolUseId": call}}:
                pieces.append(("call", call))
            case {"toolResult": {"toolUseId": call, "content": content}}:
                pieces += [("result", call), *_output(content)]
            case {"reasoningContent": _}:
                pieces.append(("thought", ""))
            case _:
                pieces.append(_text_or_other(block))
    return message["role"], pieces


_SHAPES: dict[str, tuple[Callable[[dict[str, Any]], tuple[str, list[Said]]], str]] = {
    "anthropic": (_anthropic, "messages"), "openai-chat": (_chat, "messages"), "bedrock": (_bedrock, "messages"),
    "openai-responses": (_responses, "input"), "gemini": (_gemini, "contents"),
}  # fmt: skip


_MESSAGE = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", re.DOTALL)
_TAGGED = re.compile(r"<tool_(call|response)>\n(.*?)\n</tool_\1>", re.DOTALL)


def _spoken(body: bytes) -> list[tuple[str, str]]:
    """Return role and text of each message of ChatML, without the opened answer."""
    return _MESSAGE.findall(body.decode())


def _text_messages(body: bytes) -> Iterator[tuple[str, list[Said]]]:
    calls, results = itertools.count(), itertools.count()
    for role, content in _spoken(body)[1:]:
        pieces: list[Said] = []
        end = 0
        for tag in _TAGGED.finditer(content):
            pieces += [("text", prose) for prose in [content[end : tag.start()].strip("\n")] if prose]
            if tag[1] == "call":
                pieces.append(("call", f"#{next(calls)}"))
            else:
                pieces += [("result", f"#{next(results)}"), ("output", tag[2])]
            end = tag.end()
        pieces += [("text", prose) for prose in [content[end:].strip("\n")] if prose]
        yield role, pieces
