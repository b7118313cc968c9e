"""Anthropic Messages: `tools`, `system`, `messages`, in this render order.

Source: Anthropic's API reference (Messages, prompt caching). A tool's results stand in the user message
after the calls; a breakpoint is `cache_control` on a tool or a block; a top-level `cache_control` asks for
automatic caching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Raw

from lore.model.canonical import encode
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of
from lore.model.jsonslice import array, table
from lore.model.prompt import Fidelity, Prompt, Segment
from lore.prompt.base import Breakpoint, Capability, Memo, Place, Rendered, Role, Unit, can, cannot
from lore.prompt.dialects.content import NO_SCHEMA, apart, arguments, described, function_of, outcome
from lore.prompt.dialects.shared import (
    joined,
    listed,
    opening,
    prompt_of,
    sliced,
    strip_breakpoints,
    tool_list,
    tools,
    with_breakpoints,
    write_body,
    write_messages,
)

_OWN = ("model", "tools", "system", "messages")
_SIGNS = (b'"tool_use"', b'"tool_result"', b'"input_schema"', b'"thinking"')


class Anthropic:
    """Dialect of the Messages API."""

    name: ClassVar[str] = "anthropic"
    capabilities: ClassVar[Mapping[str, Capability]] = {
        "system messages in mid-conversation": can("on models with a dated row; else in the user's role"),
        "thinking": can("as recorded, with its signature"),
        "images": can("as base64 blocks"),
        "images in tool results": can("as blocks of the result"),
        "messages of one role in a row": can("the API joins them"),
        "blocks of another provider": can("written as recorded: the API may refuse them"),
        "tools of another provider": can(
            "functions are rewritten, their schema as spelled; a provider's own as recorded: the API may refuse them"
        ),
        "parameters of another provider": cannot("written as recorded: the session's params must be the API's own"),
        "cache breakpoints": can("cache_control on tools, system blocks and content blocks"),
    }

    def recognises(self, body: dict[str, bytes]) -> bool:
        if "messages" not in body:
            return False
        if "system" in body or "anthropic_version" in body or b'"input_schema"' in body.get("tools", b""):
            return True
        messages = body["messages"]
        if b'"tool_calls"' in messages or b'"role":"tool"' in messages.replace(b": ", b":"):
            return False
        claude = b"claude" in body.get("model", b"") and b"/" not in body.get("model", b"")
        first = (table(next(iter(array(messages)), b"")) or {}).get("role")
        return first not in (b'"system"', b'"developer"') and (claude or any(sign in messages for sign in _SIGNS))

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        members = table(body) or {}
        system = listed(members.get("system", b"null"), "system", "system", "text", "text")
        messages = sliced(members.get("messages", b""), "messages", memo).messages
        return prompt_of(self.name, fidelity, members, [*tools(members.get("tools", b"")), *system], messages, _OWN)

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        texts = [b'{"type":"text","text":' + text + b"}" for text in system]
        given = listed(b"[" + b",".join(map(_tool, apart(tools))) + b"]", "tools", "tools", "tool")
        return (*given, *listed(b"[" + b",".join(texts) + b"]", "system", "system", "text"))

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        blocks = [_block(block) for block in unit.blocks]
        blocks += map(_result if unit.role == "results" else _call, unit.calls)
        role = _ROLES[unit.role]
        if unit.joins and place.role == role:
            after = Place(place.messages, role, place.blocks + len(blocks))
            return Rendered(_blocks(blocks, place.messages - 1, place.blocks), after)
        envelope = Segment("messages", f"messages[{place.messages}]", f'"role":"{role}"'.encode(), "envelope")
        return Rendered((envelope, *_blocks(blocks, place.messages, 0)), Place(place.messages + 1, role, len(blocks)))

    def breakpoint(self, model: str | None, ttl: str) -> Breakpoint:
        return Breakpoint(
            b'{"type":"ephemeral"}' if ttl == "5m" else b'{"type":"ephemeral","ttl":' + encode(ttl) + b"}"
        )

    def takes_breakpoint(self, segment: Segment) -> bool:
        data = segment.data
        if segment.kind == "tool":
            return b'"defer_loading"' not in data or (table(data) or {}).get("defer_loading") != b"true"
        if segment.kind == "envelope" or data[:1] != b"{":
            return False
        own = table(data) if b'thinking"' in data or b'""' in data else None
        return own is None or (own.get("type") not in _THINKING and own.get("text") != b'""')

    def write(self, prompt: Prompt) -> bytes:
        segments = with_breakpoints(prompt)
        head = segments[: len(prompt.head)]
        system = [one for one in head if one.section == "system"]
        members = [*opening(prompt, _OWN), *tool_list(head)]
        if len(system) == 1 and system[0].path == "system":
            members.append(("system", system[0].data))
        elif system:
            members.append(("system", joined(system)))
        members.append(("messages", write_messages([*segments[len(head) :], *prompt.tail])))
        return write_body(members)


_ROLES: dict[Role, str] = {"user": "user", "results": "user", "assistant": "assistant", "system": "system"}
_THINKING = (b'"thinking"', b'"redacted_thinking"')


def _tool(raw: bytes) -> bytes:
    """A tool of the API's own as it stands; a function in another shape is rewritten, its schema as it was spelled."""
    own, function = table(raw) or {}, function_of(raw)
    wrapped = "function" in own or "toolSpec" in own
    if function is None or (own.get("type", b'"function"') != b'"function"' and not wrapped):
        return raw
    if "input_schema" in own and "type" not in own:
        return raw
    made = described(function._replace(schema=function.schema or NO_SCHEMA), "input_schema")
    breakpoint = strip_breakpoints(raw).breakpoint
    return b"{" + made + (b"" if breakpoint is None else b',"cache_control":' + breakpoint) + b"}"


def _blocks(blocks: list[bytes], message: int, first: int) -> tuple[Segment, ...]:
    path = f"messages[{message}].content"
    bare = [strip_breakpoints(data) for data in blocks]  # what was recorded with a breakpoint is content without it
    return tuple(
        [Segment("messages", f"{path}[{n}]", one.data, breakpoint=one.breakpoint) for n, one in enumerate(bare, first)]
    )


def _block(block: Block) -> bytes:
    if type(block) is TextBlock:
        return b'{"type":"text","text":' + bytes(block.text) + b"}"
    match block:
        case TextBlock(text=text):
            return b'{"type":"text","text":' + bytes(text) + b"}"
        case ThinkingBlock(text=text, signature=signature):
            signed = b"" if signature is None else b',"signature":' + encode(signature)
            return b'{"type":"thinking","thinking":' + bytes(text) + signed + b"}"
        case ImageBlock(media_type=media, data=data):
            source = b'{"type":"base64","media_type":' + encode(media) + b',"data":' + bytes(data) + b"}"
            return b'{"type":"image","source":' + source + b"}"
        case RawBlock(json=raw):
            return bytes(raw)


def _call(call: ToolCall) -> bytes:
    parts = (b'{"type":"tool_use","id":', encode(call.call_id), b',"name":', encode(call.name), b',"input":')
    return b"".join((*parts, arguments(call), b"}"))


def _result(call: ToolCall) -> bytes:
    output, failed = outcome(call)
    if output[:1] == b"[":
        output = b"[" + b",".join(_block(block) for block in blocks_of(output)) + b"]"
    end = b',"is_error":true}' if failed else b"}"
    return b'{"type":"tool_result","tool_use_id":' + encode(call.call_id) + b',"content":' + output + end
