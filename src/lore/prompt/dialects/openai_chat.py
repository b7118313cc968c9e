"""OpenAI Chat Completions: `tools`, then `messages`, whose leading system messages are the system part.

Source: OpenAI's Chat reference; that tools render before the system message is measured (see the facts
that the README names). Calls stand in `tool_calls` of the assistant's message, each result in a `tool`
message of its own. There is no place for a model's reasoning: it is left out, and said to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from msgspec import Raw

from lore.model.canonical import encode
from lore.model.items import ToolCall
from lore.model.jsonslice import table
from lore.model.prompt import Fidelity, Prompt, Segment
from lore.model.providers import has_exact_breakpoints
from lore.prompt.base import Breakpoint, Capability, Memo, Place, Rendered, Unit, can, cannot
from lore.prompt.dialects.content import Words, apart, data_url, described, function_of, kind_of, outcome, output_blocks
from lore.prompt.dialects.shared import (
    BREAKPOINT,
    CACHE_CONTROL,
    Shape,
    Writing,
    breakpoint_key,
    message,
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

_OWN = ("model", "tools", "messages")
_BREAKPOINT_KEYS = (CACHE_CONTROL, BREAKPOINT)
_SHAPE: Shape = {"content": b"null", "tool_calls": b""}
_MESSAGE = partial(message, shape=_SHAPE, keys=_BREAKPOINT_KEYS)
_SYSTEM = ("system", "developer")


def _text(text: bytes) -> bytes:
    return b'{"type":"text","text":' + text + b"}"


_WORDS = Words(
    text=_text,
    own=lambda own: kind_of(own) in ("image_url", "input_audio", "file", "refusal"),
    image=lambda media, data: b'{"type":"image_url","image_url":{"url":' + data_url(media, data) + b"}}",
)
_RESULT = Words(text=_text, own=lambda _: False, unsaid="image in a tool result")


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
        "tools of another provider": can(
            "functions are rewritten, their schema as spelled; a provider's own as recorded: the API may refuse them"
        ),
        "parameters of another provider": cannot("written as recorded: the session's params must be the API's own"),
        "cache breakpoints": can("prompt_cache_breakpoint on input parts, on models with exact breakpoints"),
    }

    def recognises(self, body: dict[str, bytes]) -> bool:
        return "messages" in body

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        members = table(body) or {}
        found = sliced(members.get("messages", b""), "messages", memo, _MESSAGE, _SYSTEM)
        head = [*tools(members.get("tools", b"")), *found.system]
        return prompt_of(self.name, fidelity, members, head, found.messages, _OWN)

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        found = [
            Segment("tools", f"tools[{number}]", _tool(tool), kind="tool") for number, tool in enumerate(apart(tools))
        ]
        if system:
            found.append(Segment("system", "messages[0]", b'"role":"system"', kind="envelope"))
        for number, text in enumerate(system):
            found.append(Segment("system", f"messages[0].content[{number}]", _text(text)))
        return tuple(found)

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place(1, "system") if any(one.kind == "envelope" for one in head) else Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        writing = Writing("messages", place)
        if unit.role == "results":
            for call in unit.calls:
                envelope = b'"role":"tool","tool_call_id":' + encode(call.call_id)
                parts = _RESULT.all(output_blocks(outcome(call).output), writing.omitted)
                writing.open("tool", envelope, parts or [_text(b'""')])
        blocks = _WORDS.all(unit.blocks, writing.omitted)
        results = unit.role == "results"
        if blocks and (unit.joins or results) and writing.place.role in ("user", "tool"):
            writing.extend(blocks)
        elif blocks or (unit.calls and not results):
            role = "user" if results else unit.role
            writing.open(role, f'"role":"{role}"'.encode(), blocks)
        if not results:
            path = f"messages[{place.messages}].tool_calls"
            writing.segments += [Segment("messages", f"{path}[{n}]", _call(call)) for n, call in enumerate(unit.calls)]
        return writing.done()

    def breakpoint(self, model: str | None, ttl: str) -> Breakpoint | None:
        return Breakpoint(b'{"mode":"explicit"}', on_head=False) if has_exact_breakpoints(model) else None

    def takes_breakpoint(self, segment: Segment) -> bool:
        if ".content[" not in segment.path or segment.data.endswith(b'"text":""}'):
            return False
        return segment.origin not in ("assistant", "tool")

    def write(self, prompt: Prompt) -> bytes:
        segments = with_breakpoints(prompt, breakpoint_key)
        head, messages = segments[: len(prompt.head)], segments[len(prompt.head) :]
        system = [one for one in head if one.section == "system"]
        members = [*opening(prompt, _OWN), *tool_list(head)]
        members.append(("messages", write_messages([*system, *messages, *prompt.tail], "messages", _SHAPE)))
        return write_body(members)


def _tool(raw: bytes) -> bytes:
    """A tool in Chat's shape; a function in another's is wrapped, its schema as it was spelled."""
    own = function_of(raw)
    if own is None or "function" in (table(raw) or {}):
        return strip_breakpoints(raw).data
    return b'{"type":"function","function":{' + described(own, "parameters") + b"}}"


def _call(call: ToolCall) -> bytes:
    arguments = encode(bytes(call.input).decode("utf-8", "backslashreplace"))
    function = b'{"name":' + encode(call.name) + b',"arguments":' + arguments + b"}"
    return b'{"id":' + encode(call.call_id) + b',"type":"function","function":' + function + b"}"
