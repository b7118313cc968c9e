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
    found: list[Part] = []
    for number, (role, said) in enumerate(_messages(dialect, body)):
        role = "tool" if said and said[0][0] == "result" else _ROLES.get(role, role)
        found += [Part(number, role, kind, text) for kind, text in said]
    return found


def text(found: list[Part]) -> str:
    """All that parts say, in order."""
    return "\n".join(one.text for one in found)


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
    return "\n\n".join(one.get("text", "") for one in system_blocks(dialect, json.loads(body)))


def text_of(segment: Segment) -> str:
    """Return the text of a segment; empty for JSON without text."""
    try:
        own = json.loads(segment.data)
    except ValueError:
        return segment.data.decode()
    return own.get("text", "") if isinstance(own, dict) else segment.data.decode()


def is_thought(segment: Segment) -> bool:
    """Return whether a segment is a model's thinking, in any shape."""
    own = json.loads(segment.data)
    return isinstance(own, dict) and _is_thought(own)


def _is_thought(own: dict[str, Any]) -> bool:
    return own.get("type") in THOUGHTS or "reasoningContent" in own or own.get("thought") is True


def breakpoints_in(body: bytes) -> int:
    """Count the cache breakpoints of a body."""
    return sum(body.count(one) for one in BREAKPOINT_KEYS)


# each shape


_ROLES = {"model": "assistant", "developer": "system"}


def _messages(dialect: str, body: bytes) -> Iterator[tuple[str, list[Said]]]:
    if dialect in TEXT:
        yield from _text_messages(body)
        return
    read, root = _SHAPES[dialect]
    messages = json.loads(body)[root]
    lead = len(_leading(json.loads(body), dialect)) if dialect in ITEMS else 0
    for one in messages[lead:]:
        role, said = read(one)
        yield role, said


def _anthropic(message: dict[str, Any]) -> tuple[str, list[Said]]:
    return message["role"], [said for one in message["content"] for said in _block(one)]


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
    return [("output", one.get("text", "")) for one in content]


def _chat(message: dict[str, Any]) -> tuple[str, list[Said]]:
    if message["role"] == "tool":
        return "tool", [("result", message["tool_call_id"]), *_output(message["content"])]
    said: list[Said] = [_text_or_other(one) for one in message.get("content") or ()]
    return message["role"], [*said, *(("call", one["id"]) for one in message.get("tool_calls", ()))]


def _responses(item: dict[str, Any]) -> tuple[str, list[Said]]:
    match item["type"]:
        case "message":
            return item["role"], [_text_or_other(one) for one in item["content"]]
        case "function_call":
            return "assistant", [("call", item["call_id"])]
        case "function_call_output":
            return "tool", [("result", item["call_id"]), *_output(item["output"])]
        case kind:
            return "assistant", [("other", kind)]


def _text_or_other(part: dict[str, Any]) -> Said:
    return ("text", part["text"]) if "text" in part else ("other", part.get("type", ""))


def _gemini(content: dict[str, Any]) -> tuple[str, list[Said]]:
    said: list[Said] = []
    for part in content["parts"]:
        match part:
            case {"functionCall": {"id": call}}:
                said.append(("call", call))
            case {"functionResponse": {"id": call, "response": response}}:
                said += [("result", call), *[("output", str(one)) for one in response.values()]]
            case _:
                said.append(_text_or_other(part))
    return content["role"], said


def _bedrock(message: dict[str, Any]) -> tuple[str, list[Said]]:
    said: list[Said] = []
    for block in message["content"]:
        match block:
            case {"cachePoint": _}:
                continue
            case {"toolUse": {"toolUseId": call}}:
                said.append(("call", call))
            case {"toolResult": {"toolUseId": call, "content": content}}:
                said += [("result", call), *_output(content)]
            case {"reasoningContent": _}:
                said.append(("thought", ""))
            case _:
                said.append(_text_or_other(block))
    return message["role"], said


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
        said: list[Said] = []
        end = 0
        for tag in _TAGGED.finditer(content):
            said += [("text", one) for one in [content[end : tag.start()].strip("\n")] if one]
            if tag[1] == "call":
                said.append(("call", f"#{next(calls)}"))
            else:
                said += [("result", f"#{next(results)}"), ("output", tag[2])]
            end = tag.end()
        said += [("text", one) for one in [content[end:].strip("\n")] if one]
        yield role, said
