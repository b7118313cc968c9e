"""Amazon Bedrock's Converse API: `toolConfig.tools`, `system`, `messages`.

Roles alternate and the user begins, so consecutive messages of one role are joined. A breakpoint is a `cachePoint`
after a tool, a system block or a content block. It is read as the breakpoint of the segment before it and not counted
among the blocks; one without a segment before it is dropped. `toolConfig` without its tools is a parameter. Source:
the Converse API reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Raw
from msgspec.structs import replace

from lore.model.canonical import encode
from lore.model.items import Block, RawBlock, ThinkingBlock, ToolCall
from lore.model.jsonslice import array, object_of, raw_members
from lore.model.turn import Fidelity, Memo, Prompt, Section, Segment
from lore.prompt.base import IN_CONVERSATION, IN_LOOPS, USUAL, CacheMark, Rendered, Spot, Unit, can, cannot
from lore.prompt.dialects import content as c
from lore.prompt.dialects.messages import Body, Writing, slice_elements, slice_list, write_list

_POINT = "cachePoint"
_SIGNS = ("modelId", "inferenceConfig", "toolConfig", "additionalModelRequestFields")
_CACHED = ("claude", "nova")  # models that take cache points; others refuse the request (reference, 2026-10)
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_BLOCKS = frozenset((
    "text", "image", "document", "video", "audio", "toolUse", "toolResult", "guardContent", "reasoningContent",
    "citationsContent", "searchResult", _POINT,
))  # fmt: skip


def _is_block(block: dict[str, bytes]) -> bool:
    return "type" not in block and not _BLOCKS.isdisjoint(block)


def _image(media: str, data: bytes) -> bytes | None:
    if media not in _FORMATS:
        return None
    return b'{"image":{"format":' + encode(_FORMATS[media]) + b',"source":{"bytes":' + data + b"}}}"


def _thinking(block: ThinkingBlock) -> bytes:
    signature = b"" if block.signature is None else b',"signature":' + encode(block.signature)
    return b'{"reasoningContent":{"reasoningText":{"text":' + bytes(block.text) + signature + b"}}}"


class Bedrock(Body):
    """Dialect of the Converse API."""

    name: ClassVar = "bedrock"  # as sessions and options name it
    capabilities: ClassVar = {
        **USUAL,
        IN_LOOPS: can("a text block after the results, in their message"),
        IN_CONVERSATION: cannot("written in the user's role"),
        "thinking": can("as reasoningContent, with its signature"),
        "images": can("as bytes: png, jpeg, gif and webp; others are left out"),
        "images in tool results": can("as blocks of the result"),
        "messages of one role in a row": cannot("joined to one message: roles alternate, the first must be the user's"),
        "cache breakpoints": can("cachePoint after tools, system and content blocks, on models of Claude and Nova"),
    }  # fmt: skip
    prompt_members = ("modelId", "system", "messages")
    writer = c.BlockWriter(
        text=lambda text: b'{"text":' + text + b"}",
        is_own=lambda block: _is_block(block) and [*block] != [_POINT],  # a point is a breakpoint, not content
        image=_image,
        thinking=_thinking,
        name=name,
    )

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body has `messages`, and a member or first block that only Converse has."""
        if "messages" not in body:
            return False
        if any(sign in body for sign in _SIGNS):
            return True
        for raw in array(body["messages"]):
            blocks = array((raw_members(raw) or {}).get("content", b""))
            if blocks:
                return _is_block(raw_members(blocks[0]) or {})
        return False

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Parse a request body; each cache point becomes the breakpoint of the segment before it."""
        members = raw_members(body) or {}
        head, config = _tool_config(members.pop("toolConfig", None))
        if config is not None:
            members["toolConfig"] = config
        _take_points(self.system(members), head)
        return self.prompt_of(fidelity, members, head, memo)

    def message(self, raw: bytes, path: str, section: Section) -> tuple[Segment, ...]:
        """Return the segments of a message; each cache point becomes the breakpoint of the one before it."""
        return tuple(_take_points(super().message(raw, path, section), []))

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Return the segments of tools (functions as `toolSpec`) and of the system prompt's texts (JSON strings)."""
        parts = _take_points(slice_elements(map(_tool, c.single_tools(tools)), "toolConfig.tools", "tools", "tool"), [])
        return (*parts, *slice_elements(map(self.writer.text, system), "system", "system", "text"))

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Return a unit's segments; they join the last message if it has the same role, since roles alternate."""
        writing = Writing(self.root, place)
        parts = [self._result(call, writing.omitted) for call in unit.calls] if unit.role == "results" else []
        breakpoints = self._add_parts(unit.blocks if unit.role == "results" else unit.parts, parts, writing.omitted)
        writing.merge("assistant" if unit.role == "assistant" else "user", parts)
        for segment, breakpoint in zip(writing.segments[-len(parts) :], breakpoints, strict=False):
            segment.breakpoint = breakpoint or segment.breakpoint
        return writing.finish()

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark | None:
        """Return the cache point of lifetime `ttl` for models of Claude and Nova; None for others."""
        if not any(name in (model or "") for name in _CACHED):
            return None
        value = b'{"type":"default"}' if ttl == "5m" else b'{"type":"default","ttl":' + encode(ttl) + b"}"
        is_claude = "claude" in (model or "")  # Nova's cache looks up only the points of a request
        return CacheMark(value, look_back=20 if is_claude else 0)

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return whether a segment is a tool, or a block that is neither empty text nor thinking."""
        if segment.kind in ("envelope", "opaque") or not segment.path.endswith("]"):
            return False
        members = raw_members(segment.data) or {}
        return "reasoningContent" not in members and members.get("text") != b'""'

    def _add_parts(self, new: Iterable[Block | ToolCall], parts: list[bytes], omitted: list[str]) -> list[bytes | None]:
        """Add blocks and calls to `parts`; return the cache point after each part, of two in a row the second."""
        breakpoints: list[bytes | None] = [None] * len(parts)
        for block in new:
            if isinstance(block, ToolCall):
                parts.append(c.own_bytes(block.raw, self.name) or _call(block))
                breakpoints.append(None)
                continue
            point = _point_in(bytes(block.json)) if isinstance(block, RawBlock) else None
            if point is not None and breakpoints:
                if breakpoints[-1] is not None:
                    omitted.append(_POINT)
                breakpoints[-1] = point
            elif (part := self.writer.write(block, omitted)) is not None:
                parts.append(part)
                breakpoints.append(None)
        return breakpoints

    def _result(self, call: ToolCall, omitted: list[str]) -> bytes:
        output, failed = c.outcome_of(call)
        parts = self.writer.write_all(c.output_blocks(output), omitted) or [self.writer.text(b'""')]
        content = b"[" + b",".join(parts) + b"]"
        status = b',"status":"error"}}' if failed else b"}}"
        return b'{"toolResult":{"toolUseId":' + encode(call.call_id) + b',"content":' + content + status

    def write(self, prompt: Prompt) -> bytes:
        """Return the request body, each breakpoint as a cache point after its segment."""
        remaining = _tool_config(prompt.params.get("toolConfig"))[1]
        members = [member for member in self.opening(prompt) if member[0] != "toolConfig"]
        parts: dict[Section, list[Segment]] = {"tools": [], "system": [], "messages": []}
        breakpoints = dict(zip(prompt.breakpoints, prompt.breakpoint_values, strict=True))
        for position, segment in enumerate([*prompt.head, *prompt.messages]):
            parts[segment.section].append(segment)
            if position in breakpoints and (segment.kind == "envelope" or segment.path.endswith("]")):
                path = f"{segment.path}.content[0]" if segment.kind == "envelope" else segment.path
                point = b'{"cachePoint":' + breakpoints[position] + b"}"
                parts[segment.section].append(Segment(segment.section, path, point))
        parts["messages"] += prompt.tail
        if parts["tools"]:
            config = {"tools": write_list(parts["tools"]), **(raw_members(remaining or b"") or {})}
            members.append(("toolConfig", object_of(config)))
        elif remaining is not None:
            members.append(("toolConfig", remaining))
        system = parts["system"]
        if system:
            members.append(("system", system[0].data if system[0].path == "system" else write_list(system)))
        members.append((self.root, self.write_messages(parts["messages"])))
        return object_of(dict(members))


def _tool_config(raw: bytes | None) -> tuple[list[Segment], bytes | None]:
    """Return the tools of `toolConfig` as segments, and its other members, if it has any."""
    members = raw_members(raw or b"") or {}
    tools = _take_points(slice_list(members.get("tools", b"null"), "toolConfig.tools", "tools", "tool", keys=()), [])
    if not tools or tools[0].kind != "tool":
        return [], raw
    remaining = {key: value for key, value in members.items() if key != "tools"}
    return tools, object_of(remaining) if remaining else None


def _tool(raw: bytes) -> bytes:
    function = c.function_of(raw)
    if function is None or "toolSpec" in (raw_members(raw) or {}):
        return raw
    schema = b'{"json":' + (function.schema or c.NO_SCHEMA) + b"}"
    return b'{"toolSpec":{' + c.function_members(replace(function, schema=schema), "inputSchema") + b"}}"


def _call(call: ToolCall) -> bytes:
    start = b'{"toolUse":{"toolUseId":' + encode(call.call_id) + b',"name":' + encode(call.name)
    return start + b',"input":' + c.arguments(call) + b"}}"


def _take_points(segments: Iterable[Segment], content: list[Segment]) -> list[Segment]:
    """Add segments to `content`; a cache point becomes the breakpoint of the segment before it."""
    points = 0
    for segment in segments:
        value = _point_in(segment.data) if segment.kind != "envelope" else None
        if value is None:
            if points:
                base, _, number = segment.path.rpartition("[")
                segment.path = f"{base}[{int(number[:-1]) - points}]"
            content.append(segment)
            continue
        points += 1
        if content:
            content[-1].breakpoint = value
    return content


def _point_in(data: bytes) -> bytes | None:
    """Return the value of a block that is a cache point; None for content."""
    members = raw_members(data) or {} if b'"cachePoint"' in data else {}
    value = members.get(_POINT, b"")
    return value if len(members) == 1 and value[:1] == b"{" else None
