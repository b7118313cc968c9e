"""What the dialects say of the same things in their own words: blocks, functions, results of calls.

In: blocks, tools and calls as a session holds them, in any provider's shape. Out: a dialect's own, or their
parts as they were spelled. What a dialect has no words for is named, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Raw

from lore.model.canonical import encode, string_in, text_of
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of, is_absent
from lore.model.jsonslice import array, table
from lore.model.turn import NO_RESULT
from lore.prompt.base import Unit


@dataclass(frozen=True)
class BlockWriter:
    """How a dialect writes blocks: a text (a JSON string), an image (media type, JSON string), thinking.

    None: it has no words; so does an image that comes back as None. `own` tells by its members whether a provider's
    block is one of the dialect's, None takes them all; a block that says whose it is, is one of the dialect of that
    `name`. `unsaid` names images where none can be said.
    """

    text: Callable[[bytes], bytes]
    own: Callable[[dict[str, bytes]], bool] | None
    image: Callable[[str, bytes], bytes | None] | None = None
    thinking: Callable[[ThinkingBlock], bytes] | None = None
    unsaid: str = "image"
    name: str = ""

    def say(self, block: Block, omitted: list[str]) -> bytes | None:
        """Write a block, or name what is left out: a raw block as it stands, or its text alone."""
        made: bytes | None = None
        match block:
            case TextBlock(text=text, raw=raw):
                return own_bytes(raw, self.name) or self.text(bytes(text))
            case ImageBlock(media_type=media, data=data):
                made = self.image and self.image(media, bytes(data))
                what = f"{media} image" if self.image else self.unsaid
            case ThinkingBlock():
                made, what = self.thinking and self.thinking(block), "thinking"
            case RawBlock(json=raw, dialect=dialect):
                if dialect == self.name or (dialect is None and self.own is None):
                    return bytes(raw)
                own = table(bytes(raw)) or {}
                text = text_in(own)
                is_own = dialect is None and self.own is not None and self.own(own)
                made, what = bytes(raw) if is_own else text and self.text(text), kind_of(own)
        if made is None:
            omitted.append(what)
        return made

    def all(self, blocks: Iterable[Block], omitted: list[str]) -> list[bytes]:
        """Write all blocks that there are words for."""
        return [made for block in blocks if (made := self.say(block, omitted)) is not None]

    def answer(self, unit: Unit, call: Callable[[ToolCall], bytes], omitted: list[str]) -> list[bytes]:
        """Write what a unit says and calls, in order; a call as its provider gave it, else as `call` writes it."""
        found: list[bytes] = []
        for part in unit.parts:
            if isinstance(part, ToolCall):
                found.append(own_bytes(part.raw, self.name) or call(part))
            elif (made := self.say(part, omitted)) is not None:
                found.append(made)
        return found


def own_bytes(raw: RawBlock | None, dialect: str) -> bytes | None:
    """Return what a provider gave, as it gave it, where it is of this dialect."""
    return None if raw is None or raw.dialect != dialect else bytes(raw.json)


_SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema", "inputSchema")
_FUNCTION, _TEXT = b'"function"', b'"text"'
NO_SCHEMA = b'{"type":"object","properties":{}}'


class FunctionTool(NamedTuple):
    """A tool that is a function: its name, description and schema as JSON, the latter two if it has them."""

    name: bytes
    description: bytes | None
    schema: bytes | None


def function_of(raw: bytes) -> FunctionTool | None:
    """Read a tool of any provider's shape; None where it is no function but a tool of the provider's own."""
    outer = table(raw) or {}
    own = table(outer.get("function", b"null")) or table(outer.get("toolSpec", b"null")) or outer
    schema = next((own[key] for key in _SCHEMAS if key in own), None)
    if "name" not in own or (schema is None and own is outer and own.get("type", _FUNCTION) != _FUNCTION):
        return None
    if schema is not None and "inputSchema" in own:
        schema = (table(schema) or {}).get("json", schema)
    return FunctionTool(own["name"], own.get("description"), schema)


_GROUPS = ("functionDeclarations", "function_declarations")


def apart(tools: tuple[Raw, ...]) -> list[bytes]:
    """Return tools one by one: functions that Gemini declares in a group stand alone."""
    found: list[bytes] = []
    for tool in tools:
        own = table(bytes(tool)) or {}
        group = next((own[key] for key in _GROUPS if [*own] == [key]), b"")
        found += array(group) if group[:1] == b"[" else [bytes(tool)]
    return found


def described(function: FunctionTool, key: str) -> bytes:
    """Write a function's members, the schema under this key."""
    parts = [b'"name":' + function.name]
    if function.description is not None:
        parts.append(b'"description":' + function.description)
    if function.schema is not None:
        parts.append(encode(key) + b":" + function.schema)
    return b",".join(parts)


def arguments(call: ToolCall) -> bytes:
    """Return a call's arguments for an API that takes an object alone: any other value stands under `input`."""
    given = bytes(call.input)
    return given if given[:1] == b"{" else b'{"input":' + given + b"}"


class CallOutcome(NamedTuple):
    """What came of a call: a JSON string or an array of blocks, and whether the call failed."""

    output: bytes
    failed: bool


def outcome(call: ToolCall) -> CallOutcome:
    """Return what is sent as a call's result: its output, its error, or that there is none."""
    failed = call.status == "failed"
    if not is_absent(call.output):
        return CallOutcome(bytes(call.output), failed)
    if not is_absent(call.error):
        return CallOutcome(bytes(call.error), failed or call.status == "running")
    return CallOutcome(b'""', failed=False) if call.status == "completed" else CallOutcome(NO_RESULT, failed=True)


class CallResult(NamedTuple):
    """A call's result in a request: the call's id (empty: the server gave none), the output, whether the call failed.

    The output is a JSON string or an array of blocks.
    """

    call_id: str
    output: bytes
    failed: bool = False


def result_of(own: dict[str, bytes]) -> CallResult | None:
    """Read a block or a message of any provider's shape as a call's result; None where it is none."""
    kind, failed = own.get("type"), False
    if kind == b'"tool_result"':
        name, output, failed = "tool_use_id", own.get("content", b'""'), own.get("is_error") == b"true"
    elif kind in (b'"function_call_output"', b'"custom_tool_call_output"'):
        name, output = "call_id", own.get("output", b'""')
    elif own.get("role") == b'"tool"':
        name, output = "tool_call_id", own.get("content", b'""')
    elif (inner := table(own.get("toolResult", b""))) is not None:
        own, name, output, failed = inner, "toolUseId", inner.get("content", b'""'), inner.get("status") == b'"error"'
    elif (inner := table(own.get("functionResponse", own.get("function_response", b"")))) is not None:
        own, name, output = inner, "id", inner.get("response", b'""')
        members = table(output) or {}
        if [*members] in (["result"], ["output"], ["error"]):  # as lore writes it, and as the API's reference says
            output, failed = next(iter(members.values())), "error" in members
    else:
        return None
    if output[:1] not in (b'"', b"["):
        output = encode(output.decode("utf-8", "replace"))
    return CallResult(string_in(own, name), output, failed)


def output_blocks(output: bytes) -> tuple[Block, ...]:
    """Return a result's blocks; a text is one."""
    if output[:1] == b"[":
        return blocks_of(output)
    return (TextBlock(Raw(output if output[:1] == b'"' else encode(output.decode("utf-8", "replace")))),)


def data_url(media_type: str, data: bytes) -> bytes:
    """Return an image as a JSON string that holds it."""
    return encode(f"data:{media_type};base64,")[:-1] + data[1:]


def kind_of(own: dict[str, bytes]) -> str:
    """Name the kind of a provider's block: its type, its only member, or just `block`."""
    if "type" in own:
        return text_of(own["type"])
    return next(iter(own)) if len(own) == 1 else "block"


def text_in(own: dict[str, bytes]) -> bytes | None:
    """Return the text of a text block of any provider's shape, as a JSON string; None where it has none."""
    text = own.get("text", b"")
    kind = own.get("type", _TEXT if len(own) == 1 else b"")
    return text if text[:1] == b'"' and kind in (_TEXT, b'"input_text"', b'"output_text"') else None


def as_function(raw: bytes) -> bytes:
    """Return a tool as a function in Chat's shape; one in another's is wrapped, its schema as it was spelled."""
    function = function_of(raw)
    if function is None or "function" in (table(raw) or {}):
        return raw
    return b'{"type":"function","function":{' + described(function, "parameters") + b"}}"
