"""OpenAI Chat Completions: `tools`, then `messages`, whose leading system messages are the system part.

Source: OpenAI's Chat reference; that tools render before the system message is measured (see the facts
that the README names). Calls stand in `tool_calls` of the assistant's message, each result in a `tool`
message of its own. There is no place for a model's reasoning: it is left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import ClassVar

from msgspec import Raw

from lore.model.canonical import encode, printable, text_of
from lore.model.exchange import Fidelity
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of, is_absent
from lore.model.jsonslice import array, table
from lore.model.prompt import NO_RESULT, Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import Capability, Mark, Memo, Place, Rendered, Unit, can, cannot
from lore.prompt.dialects.shared import (
    BREAKPOINT,
    MARK,
    marks_of,
    message,
    opening,
    role_of,
    tools,
    with_marks,
    write_body,
    write_messages,
)
from lore.prompt.models import has_exact_breakpoints

_OWN = ("model", "tools", "messages")
_MARKS = (MARK, BREAKPOINT)
_LISTED = ("content", "tool_calls")
_SYSTEM = ("system", "developer")


class OpenAIChat:
    """Dialect of the Chat Completions API."""

    name: ClassVar[str] = "openai-chat"
    capabilities: ClassVar[Mapping[str, Capability]] = {
        "system messages in mid-conversation": can("on models with a dated row; else in the user's role"),
        "thinking": cannot("left out: the API has no place for it"),
        "images": can("as data URLs"),
        "images in tool results": cannot("left out: a tool message holds text"),
        "messages of one role in a row": can("the API takes them"),
        "blocks of another provider": cannot("their text where they have one, else left out"),
        "cache marks": can("prompt_cache_breakpoint on input parts, on models with exact breakpoints"),
    }

    def recognises(self, body: dict[str, bytes]) -> bool:
        return "messages" in body

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        members = table(body) or {}
        raws = array(members.get("messages", b"[]"))
        leading = sum(1 for _ in takewhile(lambda raw: role_of(raw) in _SYSTEM, raws))
        head = tools(members.get("tools", b""))
        segments: list[Segment] = []
        for index, raw in enumerate(raws):
            system = index < leading
            section = "system" if system else "messages"
            parsed = memo.get(
                index, raw, lambda i=index, r=raw, s=section: message(r, f"messages[{i}]", s, _LISTED, _MARKS)
            )
            (head if system else segments).extend(parsed)
        marks = marks_of(head, segments)
        return Prompt(
            dialect=self.name, fidelity=fidelity, head=tuple(head), messages=Vector(segments),
            model=printable(text_of(members["model"])) if "model" in members else None,
            marks=marks.positions, mark_values=marks.values, auto_mark=members.get(MARK, b"null") != b"null",
            params={key: value for key, value in members.items() if key not in _OWN},
        )  # fmt: skip

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        found = [
            Segment("tools", f"tools[{number}]", _tool(bytes(tool)), kind="tool") for number, tool in enumerate(tools)
        ]
        if system:
            found.append(Segment("system", "messages[0]", b'"role":"system"', kind="envelope"))
        for number, text in enumerate(system):
            data = b'{"type":"text","text":' + text + b"}"
            found.append(Segment("system", f"messages[0].content[{number}]", data))
        return tuple(found)

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place(1, "system") if any(one.kind == "envelope" for one in head) else Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        if unit.role == "results":
            return _results(unit.calls, place)
        omitted: list[str] = []
        blocks = [data for block in unit.blocks if (data := _block(block, omitted)) is not None]
        if not blocks and not unit.calls:
            return Rendered((), place, tuple(omitted))
        if unit.joins and place.role in ("user", "tool"):
            path = f"messages[{place.messages - 1}].content"
            content = [Segment("messages", f"{path}[{n}]", data) for n, data in enumerate(blocks, place.blocks)]
            return Rendered(tuple(content), Place(place.messages, place.role, place.blocks + len(blocks)))
        path = f"messages[{place.messages}]"
        envelope = Segment("messages", path, f'"role":"{unit.role}"'.encode(), kind="envelope")
        content = [Segment("messages", f"{path}.content[{n}]", data) for n, data in enumerate(blocks)]
        calls = [Segment("messages", f"{path}.tool_calls[{n}]", _call(call)) for n, call in enumerate(unit.calls)]
        after = Place(place.messages + 1, unit.role, len(blocks))
        return Rendered((envelope, *content, *calls), after, tuple(omitted))

    def mark(self, model: str | None, ttl: str) -> Mark | None:
        return Mark(b'{"mode":"explicit"}', on_head=False) if has_exact_breakpoints(model) else None

    def may_mark(self, segment: Segment) -> bool:
        if ".content[" not in segment.path or segment.data.endswith(b'"text":""}'):
            return False
        return segment.origin not in ("assistant", "tool")

    def write(self, prompt: Prompt) -> bytes:
        segments = with_marks(prompt, _mark_key)
        head, messages = segments[: len(prompt.head)], segments[len(prompt.head) :]
        system = [one for one in head if one.section == "system"]
        members = opening(prompt, head)
        members.append(("messages", write_messages([*system, *messages, *prompt.tail], _LISTED)))
        return write_body(members)


def _mark_key(value: bytes) -> str:
    return BREAKPOINT if b'"mode"' in value else MARK


def _tool(raw: bytes) -> bytes:
    """A tool in Chat's shape; one in Anthropic's is wrapped, its schema as it was spelled."""
    own = table(raw) or {}
    if "function" in own or "input_schema" not in own:
        return raw
    parts = [b'"name":' + own.get("name", b'""')]
    if "description" in own:
        parts.append(b'"description":' + own["description"])
    parts.append(b'"parameters":' + own["input_schema"])
    return b'{"type":"function","function":{' + b",".join(parts) + b"}}"


def _block(block: Block, omitted: list[str]) -> bytes | None:
    match block:
        case TextBlock(text=text):
            return b'{"type":"text","text":' + bytes(text) + b"}"
        case ImageBlock(media_type=media, data=data):
            url = encode(f"data:{media};base64,")[:-1] + bytes(data)[1:]
            return b'{"type":"image_url","image_url":{"url":' + url + b"}}"
        case ThinkingBlock():
            omitted.append("thinking")
            return None
        case RawBlock(json=raw):
            return _raw(bytes(raw), omitted)


def _raw(raw: bytes, omitted: list[str]) -> bytes | None:
    """A provider's own block: its text if it has one, or the block itself if it is a Chat part."""
    own = table(raw) or {}
    kind = text_of(own.get("type", b'"block"'))
    if kind in ("image_url", "input_audio", "file", "refusal"):
        return raw
    if kind == "text" and own.get("text", b"")[:1] == b'"':
        return b'{"type":"text","text":' + own["text"] + b"}"
    omitted.append(kind)
    return None


def _call(call: ToolCall) -> bytes:
    arguments = encode(bytes(call.input).decode("utf-8", "backslashreplace"))
    function = b'{"name":' + encode(call.name) + b',"arguments":' + arguments + b"}"
    return b'{"id":' + encode(call.call_id) + b',"type":"function","function":' + function + b"}"


def _results(calls: tuple[ToolCall, ...], place: Place) -> Rendered:
    segments: list[Segment] = []
    omitted: list[str] = []
    blocks: list[bytes] = []
    for number, call in enumerate(calls, place.messages):
        path = f"messages[{number}]"
        role = b'"role":"tool","tool_call_id":' + encode(call.call_id)
        segments.append(Segment("messages", path, role, kind="envelope"))
        blocks = _output(call, omitted)
        segments += [Segment("messages", f"{path}.content[{n}]", data) for n, data in enumerate(blocks)]
    return Rendered(tuple(segments), Place(place.messages + len(calls), "tool", len(blocks)), tuple(omitted))


def _output(call: ToolCall, omitted: list[str]) -> list[bytes]:
    output = bytes(call.output)
    if output[:1] == b"[":
        found: list[bytes] = []
        for block in blocks_of(output):
            data = _block(block, omitted)
            if data is not None and b'"image_url"' in data[:20]:
                omitted.append("image in a tool result")
            elif data is not None:
                found.append(data)
        return found or [b'{"type":"text","text":""}']
    if is_absent(call.output):
        output = NO_RESULT if is_absent(call.error) else bytes(call.error)
        if call.status == "completed" and is_absent(call.error):
            output = b'""'
    return [b'{"type":"text","text":' + output + b"}"]
