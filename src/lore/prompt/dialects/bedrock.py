"""Amazon Bedrock's Converse API: `toolConfig.tools`, `system`, `messages`.

Source: the Converse API reference. Roles alternate and the user begins, so what one role says in a row is
one message. A mark is a `cachePoint` that stands behind the block it is about, in tools, system and content:
it is read as that segment's mark, and blocks are numbered without it. One with nothing before it marks
nothing, and is gone. `toolConfig` without its tools is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Raw

from lore.model.canonical import encode
from lore.model.exchange import Fidelity
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall
from lore.model.jsonslice import array, table
from lore.model.prompt import Prompt, Section, Segment
from lore.prompt.base import Capability, Mark, Memo, Place, Rendered, Unit, can, cannot
from lore.prompt.dialects.content import NO_SCHEMA, described, function_of, kind_of, outcome, output_blocks, text_in
from lore.prompt.dialects.shared import (
    Shape,
    Writing,
    joined,
    listed,
    message,
    opening,
    prompt_of,
    sliced,
    write_body,
    write_messages,
)

_OWN = ("modelId", "system", "messages")
_SHAPE: Shape = {"content": None}
_SIGNS = ("modelId", "inferenceConfig", "toolConfig", "additionalModelRequestFields")
_POINT = "cachePoint"
_CACHED = ("claude", "nova")  # models that take cache points; others refuse the request (reference, 2026-10)
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_BLOCKS = frozenset(
    "image document video audio toolUse toolResult guardContent reasoningContent citationsContent searchResult".split()
)


class Bedrock:
    """Dialect of the Converse API."""

    name: ClassVar[str] = "bedrock"
    capabilities: ClassVar[Mapping[str, Capability]] = {
        "system messages in mid-conversation": cannot("written in the user's role"),
        "thinking": can("as reasoningContent, with its signature"),
        "images": can("as bytes: png, jpeg, gif and webp; others are left out"),
        "images in tool results": can("as blocks of the result"),
        "messages of one role in a row": cannot("joined to one message: roles alternate, the first must be the user's"),
        "blocks of another provider": cannot("their text where they have one, else left out"),
        "cache marks": can("cachePoint behind tools, system and content blocks, on models of Claude and Nova"),
    }

    def recognises(self, body: dict[str, bytes]) -> bool:
        if "messages" not in body:
            return False
        if any(sign in body for sign in _SIGNS):
            return True
        for raw in array(body["messages"]):
            blocks = array((table(raw) or {}).get("content", b""))
            if blocks:
                return _is_block(table(blocks[0]) or {})
        return False

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        members = table(body) or {}
        head, rest = _tool_config(members.pop("toolConfig", None))
        if rest is not None:
            members["toolConfig"] = rest
        _take(listed(members.get("system", b"null"), "system", "system", "text", "text", ()), head)
        found = sliced(members.get("messages", b""), "messages", memo, _message)
        return prompt_of(self.name, fidelity, members, head, found.messages, _OWN)

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        raws = b"[" + b",".join([_tool(bytes(tool)) for tool in tools]) + b"]"
        found = _take(listed(raws, "toolConfig.tools", "tools", "tool", keys=()), [])
        texts = [Segment("system", f"system[{n}]", b'{"text":' + text + b"}", "text") for n, text in enumerate(system)]
        return (*found, *texts)

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        writing = Writing("messages", place)
        parts = [_result(call, writing.omitted) for call in unit.calls] if unit.role == "results" else []
        parts += [part for block in unit.blocks if (part := _block(block, writing.omitted)) is not None]
        parts += map(_call, unit.calls if unit.role != "results" else ())
        writing.merge("assistant" if unit.role == "assistant" else "user", parts)
        return writing.done()

    def mark(self, model: str | None, ttl: str) -> Mark | None:
        if not any(name in (model or "") for name in _CACHED):
            return None
        value = b'{"type":"default"}' if ttl == "5m" else b'{"type":"default","ttl":' + encode(ttl) + b"}"
        return Mark(value, on_head="claude" in (model or ""))  # Nova has no points in tools

    def may_mark(self, segment: Segment) -> bool:
        if segment.kind in ("envelope", "opaque") or not segment.path.endswith("]"):
            return False
        own = table(segment.data) or {}
        return "reasoningContent" not in own and own.get("text") != b'""'

    def write(self, prompt: Prompt) -> bytes:
        segments = [*_with_points(prompt), *prompt.tail]
        parts: dict[Section, list[Segment]] = {"tools": [], "system": [], "messages": []}
        for one in segments:
            parts[one.section].append(one)
        rest = _tool_config(prompt.params.get("toolConfig"))[1]
        members = opening(prompt, (*_OWN, "toolConfig"))
        if parts["tools"]:
            config = [("tools", joined(parts["tools"])), *(table(rest or b"") or {}).items()]
            members.append(("toolConfig", write_body(config)))
        elif rest is not None:
            members.append(("toolConfig", rest))
        system = parts["system"]
        if system:
            members.append(("system", system[0].data if system[0].path == "system" else joined(system)))
        members.append(("messages", write_messages(parts["messages"], "messages", _SHAPE)))
        return write_body(members)


def _is_block(own: dict[str, bytes]) -> bool:
    return "type" not in own and ("text" in own or _POINT in own or not _BLOCKS.isdisjoint(own))


def _tool_config(raw: bytes | None) -> tuple[list[Segment], bytes | None]:
    """Slice the tools out of `toolConfig`; what is left of it, if anything."""
    own = table(raw or b"") or {}
    found = _take(listed(own.get("tools", b"null"), "toolConfig.tools", "tools", "tool", keys=()), [])
    if not found or found[0].kind != "tool":
        return [], raw
    rest = [(key, value) for key, value in own.items() if key != "tools"]
    return found, write_body(rest) if rest else None


def _message(raw: bytes, path: str, section: Section) -> tuple[Segment, ...]:
    return tuple(_take(message(raw, path, section, _SHAPE, ()), []))


def _take(found: Iterable[Segment], taken: list[Segment]) -> list[Segment]:
    """Add segments to those before them; a cache point becomes the mark of the last one."""
    points = 0
    for one in found:
        value = _point(one.data) if one.kind != "envelope" else None
        if value is None:
            if points:
                base, _, number = one.path.rpartition("[")
                one.path = f"{base}[{int(number[:-1]) - points}]"
            taken.append(one)
            continue
        points += 1
        if taken:
            taken[-1].mark = value
    return taken


def _point(data: bytes) -> bytes | None:
    """Return the mark that a block is, as JSON; None where it is content."""
    own = table(data) or {} if b'"cachePoint"' in data else {}
    value = own.get(_POINT, b"")
    return value if len(own) == 1 and value[:1] == b"{" else None


def _with_points(prompt: Prompt) -> list[Segment]:
    """Return the segments of head and messages with cache points behind the marked ones."""
    marks = dict(zip(prompt.marks, prompt.mark_values, strict=True))
    found: list[Segment] = []
    for position, one in enumerate([*prompt.head, *prompt.messages]):
        found.append(one)
        if position in marks and (one.kind == "envelope" or one.path.endswith("]")):
            path = f"{one.path}.content[0]" if one.kind == "envelope" else one.path
            found.append(Segment(one.section, path, b'{"cachePoint":' + marks[position] + b"}"))
    return found


def _tool(raw: bytes) -> bytes:
    """A tool of Converse's shape; a function in another's is wrapped, its schema as it was spelled."""
    function = function_of(raw)
    if function is None or "toolSpec" in (table(raw) or {}):
        return raw
    schema = b'{"json":' + (function.schema or NO_SCHEMA) + b"}"
    return b'{"toolSpec":{' + described(function._replace(schema=schema), "inputSchema") + b"}}"


def _block(block: Block, omitted: list[str]) -> bytes | None:
    match block:
        case TextBlock(text=text):
            return b'{"text":' + bytes(text) + b"}"
        case ImageBlock(media_type=media, data=data) if media in _FORMATS:
            source = b'"source":{"bytes":' + bytes(data) + b"}"
            return b'{"image":{"format":' + encode(_FORMATS[media]) + b"," + source + b"}}"
        case ImageBlock(media_type=media):
            omitted.append(f"image of type {media}")
            return None
        case ThinkingBlock(text=text, signature=signature):
            signed = b"" if signature is None else b',"signature":' + encode(signature)
            return b'{"reasoningContent":{"reasoningText":{"text":' + bytes(text) + signed + b"}}}"
        case RawBlock(json=raw):
            return _raw(bytes(raw), omitted)


def _raw(raw: bytes, omitted: list[str]) -> bytes | None:
    """A provider's own block: one of Converse's, or its text if it has one."""
    own = table(raw) or {}
    if _is_block(own) and _point(raw) is None:
        return raw
    text = text_in(own)
    if text is None:
        omitted.append(kind_of(own))
        return None
    return b'{"text":' + text + b"}"


def _call(call: ToolCall) -> bytes:
    start = b'{"toolUse":{"toolUseId":' + encode(call.call_id) + b',"name":' + encode(call.name)
    return start + b',"input":' + bytes(call.input) + b"}}"


def _result(call: ToolCall, omitted: list[str]) -> bytes:
    output, failed = outcome(call)
    blocks = [data for block in output_blocks(output) if (data := _block(block, omitted)) is not None]
    content = b"[" + b",".join(blocks or [b'{"text":""}']) + b"]"
    status = b',"status":"error"}}' if failed else b"}}"
    return b'{"toolResult":{"toolUseId":' + encode(call.call_id) + b',"content":' + content + status
