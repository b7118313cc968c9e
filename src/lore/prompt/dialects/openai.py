"""OpenAI: Chat Completions (`tools`, then `messages`) and Responses (`tools`, `instructions`, then `input`).

Leading system messages are the system part. Chat: calls are in `tool_calls` of the assistant's message, each result is
a `tool` message of its own, and reasoning is left out unless the API itself gave it (`reasoning_content`). Responses:
an item is a message, a call, the output of a call, or reasoning, which is written only if the API itself gave the item.
`instructions` is one text that takes no breakpoint, so lore writes system messages instead.

Sources: OpenAI's Chat and Responses references and its prompt caching guide. That tools are rendered before the system
message was measured.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, TypeGuard

from msgspec.structs import replace

from lore.model.canonical import encode
from lore.model.items import Block, RawBlock, TextBlock, ToolCall
from lore.model.jsonslice import raw_members
from lore.model.providers import dialects_for, has_exact_breakpoints
from lore.model.turn import Segment
from lore.prompt import base
from lore.prompt.base import CacheMark, Rendered, Spot, Unit, can, cannot
from lore.prompt.dialects import content as c
from lore.prompt.dialects.messages import BREAKPOINT, CACHE_CONTROL, COPILOT, Body, Writing, strip_breakpoints


def _part(kind: bytes, text: bytes) -> bytes:
    return b'{"type":"' + kind + b'","text":' + text + b"}"


_text = partial(_part, b"text")
_RESULT = c.BlockWriter(text=_text, is_own=lambda _: False, image_name="image in a tool result")
_CHAT, _RESPONSES = "openai-chat", "openai-responses"
_OUTPUT = c.BlockWriter(
    text=partial(_part, b"output_text"), is_own=lambda block: c.kind_of(block) == "refusal", name=_RESPONSES
)


_EACH = can("each is a message; only one if the model's chat template takes no more, or one_system_message names it")


class _OpenAI(Body):
    """What both APIs have in common."""

    keys = (CACHE_CONTROL, BREAKPOINT, COPILOT)
    system_roles = ("system", "developer")

    def breakpoint(self, model: str | None, ttl: str) -> CacheMark | None:
        """Return the mark of models that are cached at exact breakpoints."""
        if not has_exact_breakpoints(model):
            return None
        return CacheMark(b'{"mode":"explicit"}', on_tools=False, look_back=0, options="prompt_cache_options")

    def cache_key_member(self, model: str | None) -> str | None:
        """Return `prompt_cache_key` for OpenAI's own models: servers of other models may refuse the member."""
        name = (model or "").rsplit("/", 1)[-1]
        is_openai = self.name in dialects_for(name) and _RESPONSES in dialects_for(name)
        return "prompt_cache_key" if is_openai and not name.startswith("gpt-oss") else None


class OpenAIChat(_OpenAI):
    """Dialect of the Chat Completions API."""

    name: ClassVar = _CHAT  # as sessions and options name it
    capabilities: ClassVar = {
        **base.USUAL,
        base.IN_LOOPS: can("a text part after the result, in the last tool message"),
        base.SEVERAL_LEADING: _EACH,
        "thinking": cannot("left out: the API has no place for it"),
        "images": can("as data URLs"),
        "images in tool results": cannot("left out: a tool message holds text"),
    }  # fmt: skip
    prompt_members = ("model", "tools", "messages")
    lists = {"content": b"null", "tool_calls": b""}
    recorded_kinds = frozenset(("text", "image_url", "input_audio", "file", "refusal"))
    system_envelope = b'"role":"system"'
    writer = c.BlockWriter(
        text=_text,
        is_own=lambda block: c.kind_of(block) in ("image_url", "input_audio", "file", "refusal"),
        image=lambda media, data: b'{"type":"image_url","image_url":{"url":' + c.data_url(media, data) + b"}}",
        name=name,
    )

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body has `messages`."""
        return "messages" in body

    def tool(self, raw: bytes) -> bytes:
        """Return a tool without `cache_control`, a function as `{"type":"function","function":…}`."""
        function = c.as_function(raw)
        return strip_breakpoints(raw)[0] if function is raw else function

    def system(self, members: dict[str, bytes]) -> list[Segment]:
        """Return no segments: the system prompt is in leading messages."""
        return []

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Return a unit's segments: a message for each result of a tool, then one for the rest.

        The rest is added to the last message before it, if that is a user's or tool's and the unit `joins` or has
        results; else it is a message of the unit's role, of the user's after results. Members of a
        recorded answer other than content and calls (such as `reasoning_content`) are members of its envelope.
        """
        writing = Writing(self.root, place)
        has_results = unit.role == "results"
        for call in unit.calls if has_results else ():
            envelope = b'"role":"tool","tool_call_id":' + encode(call.call_id)
            parts = _RESULT.write_all(c.output_blocks(c.outcome_of(call)[0]), writing.omitted)
            writing.open("tool", envelope, parts or [_text(b'""')])
        members = [extra for block in unit.blocks if (extra := _own_members(block)) is not None]
        other = (block for block in unit.blocks if _own_members(block) is None) if members else unit.blocks
        blocks = self.writer.write_all(other, writing.omitted)
        if blocks and (unit.joins or has_results) and writing.place.role in ("user", "tool"):
            writing.extend(blocks)
        elif blocks or members or (unit.calls and not has_results):
            role = "user" if has_results else unit.role
            writing.open(role, b",".join((f'"role":"{role}"'.encode(), *members)), blocks)
        for number, call in enumerate(() if has_results else unit.calls):
            function = b'{"name":' + encode(call.name) + b',"arguments":' + _arguments(call) + b"}"
            data = b'{"id":' + encode(call.call_id) + b',"type":"function","function":' + function + b"}"
            path = f"messages[{place.messages}].tool_calls[{number}]"
            writing.segments.append(Segment("messages", path, c.own_bytes(call.raw, _CHAT) or data))
        return writing.finish()

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return whether a segment is a nonempty content part.

        A part of an assembled answer (known by its `origin`) takes none; a tool message takes one, as the API's schema
        has it (`ChatCompletionToolMessageParam` of openai-python 3.57).
        """
        is_part = ".content[" in segment.path and not segment.data.endswith(b'"text":""}')
        return is_part and segment.origin != "assistant"


def _own_members(block: Block) -> bytes | None:
    """Return the members of a recorded answer of this API other than content and calls; None for any other block."""
    if not isinstance(block, RawBlock) or block.dialect != _CHAT:
        return None
    members = raw_members(bytes(block.json)) or {}
    members.pop("role", None) if "type" not in members else members.clear()
    return b",".join([encode(key) + b":" + value for key, value in members.items()]) or None


def _arguments(call: ToolCall) -> bytes:
    return encode(bytes(call.input).decode("utf-8", "backslashreplace"))


class OpenAIResponses(_OpenAI):
    """Dialect of the Responses API."""

    name: ClassVar = _RESPONSES  # as sessions and options name it
    capabilities: ClassVar = {
        **base.USUAL,
        base.IN_LOOPS: can("a text part after the last call's output, in its list"),
        base.SEVERAL_LEADING: _EACH,
        "thinking": cannot("left out, except the API's own reasoning items, which are written as recorded"),
        "images": can("as data URLs, except in the model's messages"),
        "images in tool results": can("as parts of the output"),
    }  # fmt: skip
    prompt_members = ("model", "tools", "instructions", "input")
    root = "input"
    lists = {"content": None, "output": None, "arguments": None, "input": None}
    recorded_kinds = frozenset(("input_text", "output_text", "input_image", "input_file", "refusal"))
    system_envelope = b'"type":"message","role":"system"'
    writer = c.BlockWriter(
        text=partial(_part, b"input_text"),
        is_own=lambda block: c.kind_of(block).startswith("input_"),
        image=lambda media, data: b'{"type":"input_image","image_url":' + c.data_url(media, data) + b"}",
        name=name,
    )

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body has `input`, and neither `messages` nor `contents`."""
        return "input" in body and "messages" not in body and "contents" not in body

    def tool(self, raw: bytes) -> bytes:
        """Return a function as `{"type":"function","name":…}`; any other tool as it is."""
        members, function = raw_members(raw) or {}, c.function_of(raw)
        if function is None or (members.get("type") == b'"function"' and "function" not in members):
            return raw
        function = replace(function, schema=function.schema or c.NO_SCHEMA)
        return b'{"type":"function",' + c.function_members(function, "parameters") + b"}"

    def system(self, members: dict[str, bytes]) -> list[Segment]:
        """Return `instructions` as one segment; none without."""
        text = members.get("instructions", b"null")
        return [] if text == b"null" else [Segment("system", "instructions", text, kind="text")]

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Return a unit's segments: an item for each message, call, output and piece of reasoning.

        A text that is not the model's is added to the last item before it, if that is a user's message or an output and
        the unit `joins` or has results; else it is a message of the system's or the user's.
        """
        writing = Writing(self.root, place)
        if unit.role == "assistant":
            self._answer(unit, writing)
            return writing.finish()
        for call in unit.calls if unit.role == "results" else ():
            is_custom = c.kind_of(raw_members(c.own_bytes(call.raw, self.name) or b"") or {}) == "custom_tool_call"
            kind = b'"custom_tool_call_output"' if is_custom else b'"function_call_output"'
            envelope = b'"type":' + kind + b',"call_id":' + encode(call.call_id)
            parts = self.writer.write_all(c.output_blocks(c.outcome_of(call)[0]), writing.omitted)
            writing.open("tool", envelope, parts or [self.writer.text(b'""')], "output")
        for block in filter(_is_item, unit.blocks):
            self._write_item(bytes(block.json), writing)
        blocks = self.writer.write_all((block for block in unit.blocks if not _is_item(block)), writing.omitted)
        joins = unit.joins or unit.role == "results"  # to the last item, if it is not the model's
        key = {"user": "content", "tool": "output"}.get(writing.place.role) if joins else None
        if blocks and key is not None:
            writing.extend(blocks, key)
        elif blocks:
            role = "system" if unit.role == "system" else "user"
            writing.open(role, f'"type":"message","role":"{role}"'.encode(), blocks)
        return writing.finish()

    def _answer(self, unit: Unit, writing: Writing) -> None:
        """Write a response: text goes to a message, which the next call or item of the API's own ends."""
        in_message = False
        for part_of_unit in unit.parts:
            item, part = None, None
            if isinstance(part_of_unit, ToolCall):
                item = c.own_bytes(part_of_unit.raw, self.name) or _call_item(part_of_unit)
            elif (item := _own_item(part_of_unit)) is None:
                part = _OUTPUT.write(part_of_unit, writing.omitted)
            if item is not None:
                self._write_item(item, writing)
                in_message = False
            elif part is not None and in_message:
                writing.extend([part])
            elif part is not None:
                writing.open("assistant", b'"type":"message","role":"assistant"', [part])
                in_message = True

    def _write_item(self, raw: bytes, writing: Writing) -> None:
        count = writing.place.messages
        writing.segments += self.message(raw, f"input[{count}]", "messages")
        writing.place = Spot(count + 1, "assistant")

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return whether a segment is a nonempty part of an `input_` type, also in the output of a call."""
        members = raw_members(segment.data) or {} if segment.kind == "block" else {}
        return members.get("type", b"").startswith(b'"input_') and members.get("text") != b'""'


def _is_item(block: Block) -> TypeGuard[RawBlock]:
    """Return whether a block that is not the model's is an item of its own, such as the output of a computer call."""
    if not isinstance(block, RawBlock) or block.dialect != _RESPONSES:
        return False
    return not c.kind_of(raw_members(bytes(block.json)) or {}).startswith("input_")


def _own_item(block: Block) -> bytes | None:
    """Return the item of this API that was recorded as a block; None for another block."""
    if isinstance(block, TextBlock):
        return c.own_bytes(block.raw, _RESPONSES)
    if not isinstance(block, RawBlock) or block.dialect not in (None, _RESPONSES):
        return None
    raw = bytes(block.json)
    if block.dialect is not None:
        return raw
    members = raw_members(raw) or {}
    kind = c.kind_of(members)
    is_reasoning = kind == "reasoning" and ("summary" in members or "encrypted_content" in members)
    return raw if is_reasoning or kind.endswith(("_call", "_call_output")) else None


def _call_item(call: ToolCall) -> bytes:
    start = b'{"type":"function_call","call_id":' + encode(call.call_id) + b',"name":' + encode(call.name)
    return start + b',"arguments":' + _arguments(call) + b"}"
