"""OpenAI Responses: `tools`, `instructions`, then `input`, whose leading system messages are the system part.

Source: OpenAI's Responses reference and prompt caching guide. Items are messages, or stand for themselves:
a call, its output, reasoning. `instructions` is one text that takes no breakpoint, so lore writes a system
message instead. A model's reasoning goes only as the item that the API itself gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from msgspec import Raw

from lore.model.canonical import encode
from lore.model.items import Block, RawBlock, ToolCall
from lore.model.jsonslice import table
from lore.model.prompt import Fidelity, Prompt, Segment
from lore.model.providers import has_exact_breakpoints
from lore.prompt.base import Breakpoint, Capability, Memo, Place, Rendered, Unit, can, cannot
from lore.prompt.dialects.content import (
    NO_SCHEMA,
    Words,
    apart,
    data_url,
    described,
    function_of,
    kind_of,
    outcome,
    output_blocks,
)
from lore.prompt.dialects.shared import (
    BREAKPOINT,
    CACHE_CONTROL,
    Shape,
    Writing,
    breakpoint_key,
    listed,
    message,
    opening,
    prompt_of,
    sliced,
    tool_list,
    tools,
    with_breakpoints,
    write_body,
    write_messages,
)

_OWN = ("model", "tools", "instructions", "input")
_SHAPE: Shape = {"content": None, "output": None, "arguments": None, "input": None}
_BREAKPOINT_KEYS = (CACHE_CONTROL, BREAKPOINT)
_ITEM = partial(message, shape=_SHAPE, keys=_BREAKPOINT_KEYS)
_SYSTEM = ("system", "developer")
_LIST = {"user": "content", "tool": "output"}  # where what joins the last item goes


def _part(kind: bytes, text: bytes) -> bytes:
    return b'{"type":"' + kind + b'","text":' + text + b"}"


_INPUT = Words(
    text=partial(_part, b"input_text"),
    own=lambda own: kind_of(own).startswith("input_"),
    image=lambda media, data: b'{"type":"input_image","image_url":' + data_url(media, data) + b"}",
)
_OUTPUT = Words(text=partial(_part, b"output_text"), own=lambda own: kind_of(own) == "refusal")


class OpenAIResponses:
    """Dialect of the Responses API."""

    name: ClassVar[str] = "openai-responses"
    capabilities: ClassVar[Mapping[str, Capability]] = {
        "system messages in mid-conversation": can("on models with a dated row; else in the user's role"),
        "thinking": cannot("left out, but for the API's own reasoning items, which are written as recorded"),
        "images": can("as data URLs, but in the model's messages"),
        "images in tool results": can("as parts of the output"),
        "messages of one role in a row": can("the API takes them"),
        "blocks of another provider": cannot("their text where they have one, else left out"),
        "tools of another provider": can(
            "functions are rewritten, their schema as spelled; a provider's own as recorded: the API may refuse them"
        ),
        "parameters of another provider": cannot("written as recorded: the session's params must be the API's own"),
        "cache breakpoints": can("prompt_cache_breakpoint on input parts, on models with exact breakpoints"),
    }

    def recognises(self, body: dict[str, bytes]) -> bool:
        return "input" in body and "messages" not in body and "contents" not in body

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        members = table(body) or {}
        head = tools(members.get("tools", b""))
        if members.get("instructions", b"null") != b"null":
            head.append(Segment("system", "instructions", members["instructions"], kind="text"))
        found = sliced(members.get("input", b""), "input", memo, _ITEM, _SYSTEM)
        return prompt_of(self.name, fidelity, members, [*head, *found.system], found.messages, _OWN)

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        found = listed(b"[" + b",".join(_tool(tool) for tool in apart(tools)) + b"]", "tools", "tools", "tool")
        if system:
            found.append(Segment("system", "input[0]", b'"type":"message","role":"system"', kind="envelope"))
        for number, text in enumerate(system):
            found.append(Segment("system", f"input[0].content[{number}]", _INPUT.text(text)))
        return tuple(found)

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place(1, "system") if any(one.kind == "envelope" for one in head) else Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        writing = Writing("input", place)
        if unit.role == "assistant":
            _answer(unit, writing)
            return writing.done()
        if unit.role == "results":
            for call in unit.calls:
                envelope = b'"type":"function_call_output","call_id":' + encode(call.call_id)
                parts = _input(output_blocks(outcome(call).output), writing)
                writing.open("tool", envelope, parts or [_INPUT.text(b'""')], "output")
        blocks = _input(unit.blocks, writing)
        key = _LIST.get(writing.place.role) if unit.joins or unit.role == "results" else None
        if blocks and key is not None:
            writing.extend(blocks, key)
        elif blocks:
            role = "system" if unit.role == "system" else "user"
            writing.open(role, f'"type":"message","role":"{role}"'.encode(), blocks)
        return writing.done()

    def breakpoint(self, model: str | None, ttl: str) -> Breakpoint | None:
        return Breakpoint(b'{"mode":"explicit"}', on_head=False) if has_exact_breakpoints(model) else None

    def takes_breakpoint(self, segment: Segment) -> bool:
        own = table(segment.data) or {} if segment.kind == "block" else {}
        return own.get("type", b"").startswith(b'"input_') and own.get("text") != b'""'

    def write(self, prompt: Prompt) -> bytes:
        segments = with_breakpoints(prompt, breakpoint_key)
        head = segments[: len(prompt.head)]
        members = [*opening(prompt, _OWN), *tool_list(head)]
        members += [("instructions", one.data) for one in head if one.path == "instructions"]
        items = [one for one in segments if one.section != "tools" and one.path != "instructions"]
        members.append(("input", write_messages([*items, *prompt.tail], "input", _SHAPE)))
        return write_body(members)


def _tool(raw: bytes) -> bytes:
    """A tool in the API's flat shape; a function in another's is wrapped, its schema as it was spelled."""
    own, function = table(raw) or {}, function_of(raw)
    if function is None or (own.get("type") == b'"function"' and "function" not in own):
        return raw
    function = function._replace(schema=function.schema or NO_SCHEMA)
    return b'{"type":"function",' + described(function, "parameters") + b"}"


def _input(blocks: tuple[Block, ...], writing: Writing) -> list[bytes]:
    return _INPUT.all(blocks, writing.omitted)


def _answer(unit: Unit, writing: Writing) -> None:
    """Write what the model said, then its calls; an item of the API's own ends the message before it."""
    speaking = False
    for block in unit.blocks:
        item = _own_item(block)
        part = None if item is not None else _OUTPUT.say(block, writing.omitted)
        if item is not None:
            _write_item(item, writing)
            speaking = False
        elif part is not None and speaking:
            writing.extend([part])
        elif part is not None:
            writing.open("assistant", b'"type":"message","role":"assistant"', [part])
            speaking = True
    for call in unit.calls:
        _write_item(_call(call), writing)


def _write_item(raw: bytes, writing: Writing) -> None:
    writing.item("assistant", _ITEM(raw, f"input[{writing.place.messages}]", "messages"))


def _own_item(block: Block) -> bytes | None:
    """Return the item of the API's own that was recorded as a block; None where it is none."""
    if not isinstance(block, RawBlock):
        return None
    raw = bytes(block.json)
    own = table(raw) or {}
    kind = kind_of(own)
    reasoning = kind == "reasoning" and ("summary" in own or "encrypted_content" in own)
    return raw if reasoning or kind.endswith(("_call", "_call_output")) else None


def _call(call: ToolCall) -> bytes:
    arguments = encode(bytes(call.input).decode("utf-8", "backslashreplace"))
    start = b'{"type":"function_call","call_id":' + encode(call.call_id) + b',"name":' + encode(call.name)
    return start + b',"arguments":' + arguments + b"}"
