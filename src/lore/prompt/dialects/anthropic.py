"""Anthropic Messages: `tools`, `system`, `messages`, in this render order.

Results of tools are in the user message after the calls. A breakpoint is `cache_control` on a tool or a block; at the
top level it asks for an automatic one. Source: Anthropic's API reference (Messages, prompt caching).
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from lore.model.canonical import encode
from lore.model.items import ThinkingBlock, ToolCall, blocks_of
from lore.model.jsonslice import first_element, raw_members
from lore.model.turn import Segment
from lore.prompt.base import IN_LOOPS, USUAL, CacheMark, Rendered, Spot, Unit, can
from lore.prompt.dialects.content import NO_SCHEMA, BlockWriter, arguments, function_members, function_of, outcome_of
from lore.prompt.dialects.messages import CACHE_CONTROL, Body, Writing, strip_breakpoints

_SIGNS = (b'"tool_use"', b'"tool_result"', b'"input_schema"', b'"thinking"')
_THINKING = (b'"thinking"', b'"redacted_thinking"')


def _thinking(block: ThinkingBlock) -> bytes:
    signature = b"" if block.signature is None else b',"signature":' + encode(block.signature)
    return b'{"type":"thinking","thinking":' + bytes(block.text) + signature + b"}"


def _image(media: str, data: bytes) -> bytes:
    return b'{"type":"image","source":{"type":"base64","media_type":' + encode(media) + b',"data":' + data + b"}}"


class Anthropic(Body):
    """Dialect of the Messages API."""

    name: ClassVar = "anthropic"  # as sessions and options name it
    capabilities: ClassVar = {
        **USUAL,
        IN_LOOPS: can("a text block after the results, in their message"),
        "thinking": can("as recorded, with its signature"),
        "images": can("as base64 blocks"),
        "images in tool results": can("as blocks of the result"),
        "messages of one role in a row": can("the API joins them"),
        "blocks of another provider": can("written as recorded: the API may refuse them"),
        "cache breakpoints": can("cache_control on tools, system blocks and content blocks"),
    }  # fmt: skip
    prompt_members = ("model", "tools", "system", "messages")
    lists = {"content": b"[]"}
    keys = (CACHE_CONTROL,)
    recorded_kinds = frozenset((
        "text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result",
    ))  # fmt: skip
    writer = BlockWriter(
        lambda text: b'{"type":"text","text":' + text + b"}", is_own=None, image=_image, thinking=_thinking, name=name
    )

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body has `messages`, and also one sign of this API.

        Signs are `system`, `anthropic_version` and tools with `input_schema`; also a Claude model (without a slash),
        and a call, result or thinking in this API's spelling, unless the body has `tool_calls`, a tool message, or a
        leading system or developer message.
        """
        if "messages" not in body:
            return False
        if "system" in body or "anthropic_version" in body or b'"input_schema"' in body.get("tools", b""):
            return True
        messages = body["messages"]
        if b'"tool_calls"' in messages or b'"role":"tool"' in messages.replace(b": ", b":"):
            return False
        claude = b"claude" in body.get("model", b"") and b"/" not in body.get("model", b"")
        first = (raw_members(first_element(messages)) or {}).get("role")
        return first not in (b'"system"', b'"developer"') and (claude or any(sign in messages for sign in _SIGNS))

    def tool(self, raw: bytes) -> bytes:
        """Return a function as `{"name":…,"input_schema":…}`, a breakpoint kept; any other tool as it is."""
        members, function = raw_members(raw) or {}, function_of(raw)
        is_wrapped = "function" in members or "toolSpec" in members
        if function is None or (members.get("type", b'"function"') != b'"function"' and not is_wrapped):
            return raw
        if "input_schema" in members and "type" not in members:
            return raw
        declaration = function_members(replace(function, schema=function.schema or NO_SCHEMA), "input_schema")
        breakpoint = strip_breakpoints(raw)[1]
        return b"{" + declaration + (b"" if breakpoint is None else b',"cache_control":' + breakpoint) + b"}"

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Return a unit's segments, results as a user message; one that `joins` extends a last message of its role."""
        writing = Writing(self.root, place, self.keys)
        if unit.role == "results":
            results = [self._result(call, writing.omitted) for call in unit.calls]
            parts = [*self.writer.write_all(unit.blocks, writing.omitted), *results]
        else:
            parts = self.writer.write_answer(unit, _call, writing.omitted)
        role = "user" if unit.role == "results" else unit.role
        if parts and unit.joins and place.role == role:
            writing.extend(parts)
        elif parts:
            writing.open(role, f'"role":"{role}"'.encode(), parts)
        return writing.finish()

    def _result(self, call: ToolCall, omitted: list[str]) -> bytes:
        output, failed = outcome_of(call)
        if output[:1] == b"[":
            output = b"[" + b",".join(self.writer.write_all(blocks_of(output), omitted)) + b"]"
        end = b',"is_error":true}' if failed else b"}"
        return b'{"type":"tool_result","tool_use_id":' + encode(call.call_id) + b',"content":' + output + end

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark:
        """Return the `cache_control` of lifetime `ttl`, for any model."""
        return CacheMark(b'{"type":"ephemeral"}' if ttl == "5m" else b'{"type":"ephemeral","ttl":' + encode(ttl) + b"}")

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return whether a segment is a tool that is not deferred, or a block other than thinking and empty text."""
        data = segment.data
        if segment.kind == "tool":
            return b'"defer_loading"' not in data or (raw_members(data) or {}).get("defer_loading") != b"true"
        if segment.kind in ("envelope", "opaque") or data[:1] != b"{":
            return False
        members = raw_members(data) if b'thinking"' in data or b'""' in data else None
        return members is None or (members.get("type") not in _THINKING and members.get("text") != b'""')


def _call(call: ToolCall) -> bytes:
    parts = (b'{"type":"tool_use","id":', encode(call.call_id), b',"name":', encode(call.name), b',"input":')
    return b"".join((*parts, arguments(call), b"}"))
