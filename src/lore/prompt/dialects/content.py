"""Write blocks, functions and results of calls in a dialect's shape, and read those of any provider.

Parts that a dialect cannot express are left out, and named in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Raw, Struct

from lore.model.canonical import encode, string_in, text_of
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of, is_absent
from lore.model.jsonslice import array, raw_members
from lore.model.turn import NO_RESULT
from lore.prompt.base import Unit


class BlockWriter(Struct, frozen=True):
    """How a dialect writes blocks."""

    text: Callable[[bytes], bytes]  # a text, given as a JSON string
    # Whether a provider's block with these members, that names no dialect, is one of this dialect; None: all are.
    is_own: Callable[[dict[str, bytes]], bool] | None
    # An image, given as its media type and its data as a JSON string; None: not supported.
    image: Callable[[str, bytes], bytes | None] | None = None
    thinking: Callable[[ThinkingBlock], bytes] | None = None  # None: not supported
    image_name: str = "image"  # what an image is called if it is left out
    name: str = ""  # the dialect's

    def write(self, block: Block, omitted: list[str]) -> bytes | None:
        """Return a block in the dialect's shape; a text block of another provider as this dialect's text.

        A block that was recorded in this dialect keeps its bytes. A block that the dialect cannot express gives None,
        and its name is added to `omitted`.
        """
        output: bytes | None = None
        match block:
            case TextBlock(text=text, raw=raw):
                return own_bytes(raw, self.name) or self.text(bytes(text))
            case ImageBlock(media_type=media, data=data):
                output = self.image and self.image(media, bytes(data))
                what = f"{media} image" if self.image else self.image_name
            case ThinkingBlock():
                output, what = self.thinking and self.thinking(block), "thinking"
            case RawBlock(json=raw, dialect=dialect):
                if dialect == self.name or (dialect is None and self.is_own is None):
                    return bytes(raw)
                members = raw_members(bytes(raw)) or {}
                text = text_in(members)
                is_own = dialect is None and self.is_own is not None and self.is_own(members)
                output, what = bytes(raw) if is_own else text and self.text(text), kind_of(members)
        if output is None:
            omitted.append(what)
        return output

    def write_all(self, blocks: Iterable[Block], omitted: list[str]) -> list[bytes]:
        """Return the blocks that can be written, in order; names of the others are added to `omitted`."""
        return [data for block in blocks if (data := self.write(block, omitted)) is not None]

    def write_answer(self, unit: Unit, call: Callable[[ToolCall], bytes], omitted: list[str]) -> list[bytes]:
        """Return a unit's blocks and calls in order; a call as its provider gave it, else as `call` writes it."""
        parts: list[bytes] = []
        for part in unit.parts:
            if isinstance(part, ToolCall):
                parts.append(own_bytes(part.raw, self.name) or call(part))
            elif (data := self.write(part, omitted)) is not None:
                parts.append(data)
        return parts


def own_bytes(raw: RawBlock | None, dialect: str) -> bytes | None:
    """Return a recorded block's bytes if it was recorded in this dialect; else None."""
    return None if raw is None or raw.dialect != dialect else bytes(raw.json)


_SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema", "inputSchema")
_FUNCTION, _TEXT = b'"function"', b'"text"'
NO_SCHEMA = b'{"type":"object","properties":{}}'


class FunctionTool(Struct, frozen=True):
    """A tool that is a function, its parts as JSON."""

    name: bytes  # as JSON
    description: bytes | None  # as JSON; None: it has none
    schema: bytes | None  # of its arguments, as JSON; None: it has none
    strict: bytes | None  # whether arguments must fit the schema, as JSON; None: it does not say


def function_of(raw: bytes) -> FunctionTool | None:
    """Return the function that a tool of any provider's shape declares; None for a provider's own tool."""
    outer = raw_members(raw) or {}
    members = raw_members(outer.get("function", b"null")) or raw_members(outer.get("toolSpec", b"null")) or outer
    schema = next((members[key] for key in _SCHEMAS if key in members), None)
    if "name" not in members or (schema is None and members is outer and members.get("type", _FUNCTION) != _FUNCTION):
        return None
    if schema is not None and "inputSchema" in members:
        schema = (raw_members(schema) or {}).get("json", schema)
    return FunctionTool(members["name"], members.get("description"), schema, members.get("strict"))


_GROUPS = ("functionDeclarations", "function_declarations")


def single_tools(tools: tuple[Raw, ...]) -> list[bytes]:
    """Return tools one by one. A tool of Gemini that only declares a group of functions becomes these functions."""
    entries: list[bytes] = []
    for tool in tools:
        members = raw_members(bytes(tool)) or {}
        group = next((members[key] for key in _GROUPS if [*members] == [key]), b"")
        entries += array(group) if group[:1] == b"[" else [bytes(tool)]
    return entries


def function_members(function: FunctionTool, key: str) -> bytes:
    """Return a function as JSON members without braces, its schema as member `key`.

    Description and schema are left out if there is none, `strict` also if `key` is not `parameters` or `input_schema`:
    Bedrock and Gemini do not take it.
    """
    parts = [b'"name":' + function.name]
    if function.description is not None:
        parts.append(b'"description":' + function.description)
    if function.schema is not None:
        parts.append(encode(key) + b":" + function.schema)
    if function.strict is not None and key in ("parameters", "input_schema"):
        parts.append(b'"strict":' + function.strict)
    return b",".join(parts)


def arguments(call: ToolCall) -> bytes:
    """Return a call's arguments as a JSON object; any other value becomes its member `input`."""
    value = bytes(call.input)
    return value if value[:1] == b"{" else b'{"input":' + value + b"}"


def outcome_of(call: ToolCall) -> tuple[bytes, bool]:
    """Return the result of a call as it is sent (a JSON string or an array of blocks), and whether the call failed."""
    failed = call.status == "failed"
    if not is_absent(call.output):
        return bytes(call.output), failed
    if not is_absent(call.error):
        return bytes(call.error), failed or call.status == "running"
    return (b'""', False) if call.status == "completed" else (NO_RESULT, True)


class CallResult(Struct, frozen=True):
    """A call's result in a request."""

    call_id: str  # empty if the server gave none
    output: bytes  # a JSON string or an array of blocks
    failed: bool = False  # the call ended with an error


def result_of(block: dict[str, bytes]) -> CallResult | None:
    """Return the call's result in the members of a block or message of any provider's shape; None if it is no result.

    A result without output has an empty text; an output that is an object is the JSON text of it.
    """
    kind, failed = block.get("type"), False
    if kind == b'"tool_result"':
        name, output, failed = "tool_use_id", block.get("content", b'""'), block.get("is_error") == b"true"
    elif kind in (b'"function_call_output"', b'"custom_tool_call_output"'):
        name, output = "call_id", block.get("output", b'""')
    elif block.get("role") == b'"tool"':
        name, output = "tool_call_id", block.get("content", b'""')
    elif (inner := raw_members(block.get("toolResult", b""))) is not None:
        block, name, output, failed = inner, "toolUseId", inner.get("content", b'""'), inner.get("status") == b'"error"'
    elif (inner := raw_members(block.get("functionResponse", block.get("function_response", b"")))) is not None:
        block, name, output = inner, "id", inner.get("response", b'""')
        members = raw_members(output) or {}
        if [*members] in (["result"], ["output"], ["error"]):  # as lore writes it, and as in the API's reference
            output, failed = next(iter(members.values())), "error" in members
    else:
        return None
    if output[:1] not in (b'"', b"["):
        output = encode(output.decode("utf-8", "replace"))
    return CallResult(string_in(block, name), output, failed)


def output_blocks(output: bytes) -> tuple[Block, ...]:
    """Return the blocks of a result: those of a JSON array; any other text or value is one text block.

    Raises ValueError for an array with an element that is no block of lore's log.
    """
    if output[:1] == b"[":
        return blocks_of(output)
    return (TextBlock(Raw(output if output[:1] == b'"' else encode(output.decode("utf-8", "replace")))),)


def data_url(media_type: str, data: bytes) -> bytes:
    """Return an image as a data URL, a JSON string; `data` is base64 as a JSON string."""
    return encode(f"data:{media_type};base64,")[:-1] + data[1:]


def kind_of(block: dict[str, bytes]) -> str:
    """Return the `type` of a provider's block, else the name of its only member, else "block"."""
    if "type" in block:
        return text_of(block["type"])
    return next(iter(block)) if len(block) == 1 else "block"


def text_in(block: dict[str, bytes]) -> bytes | None:
    """Return the text of a text block of any provider's shape, as a JSON string; None for another block."""
    text = block.get("text", b"")
    kind = block.get("type", _TEXT if len(block) == 1 else b"")
    return text if text[:1] == b'"' and kind in (_TEXT, b'"input_text"', b'"output_text"') else None


def as_function(raw: bytes) -> bytes:
    """Return a tool as a function in the shape of Chat Completions; a provider's own tool as it is."""
    function = function_of(raw)
    if function is None or "function" in (raw_members(raw) or {}):
        return raw
    return b'{"type":"function","function":{' + function_members(function, "parameters") + b"}}"
