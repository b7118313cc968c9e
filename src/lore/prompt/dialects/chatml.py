"""ChatML: text between `<|im_start|>role` and `<|im_end|>`, as many open models read it.

Tools stand as JSON in the system message, before the system's texts, which may change; calls as JSON in
the assistant's message; results in a user message. Rules: a segment is the exact UTF-8 text; a message is
closed by what opens the next one, so that one can be extended while it is last and nothing before the
extension changes; `write` closes the last message and opens the assistant's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Raw
from msgspec.structs import replace

from lore.model.canonical import encode
from lore.model.items import ToolCall
from lore.model.prompt import Fidelity, Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import Breakpoint, Capability, Memo, Place, Rendered, Role, Unit, can, cannot
from lore.prompt.dialects.content import apart
from lore.prompt.dialects.text import decoded, function, result, texts, thoughts, whole

_START, _END = "<|im_start|>", "<|im_end|>"
_TOOLS = "# Tools\n\nThese functions can be called. Each line is the JSON schema of one:\n<tools>"
_HOW = """
</tools>

To call a function, write one JSON object with its name and its arguments between these tags, once for each call:
<tool_call>
{"name": "FUNCTION", "arguments": {"PARAMETER": "VALUE"}}
</tool_call>"""
_ROLES: dict[Role, str] = {"user": "user", "results": "tool", "assistant": "assistant", "system": "system"}


class ChatML:
    """Dialect of text in ChatML.

    Text that looks like a control token (`<|im_end|>` said by a user) cannot be escaped in ChatML: it is
    written as it stands, and a capability says so.
    """

    name: ClassVar[str] = "template"
    capabilities: ClassVar[Mapping[str, Capability]] = {
        "system messages in mid-conversation": cannot(
            "the context of a turn goes in the user's role: models of this kind have no row"
        ),
        "thinking": cannot("left out: ChatML has no agreed place for it, and templates drop it from earlier turns"),
        "images": cannot("left out: this is text"),
        "images in tool results": cannot("left out: this is text"),
        "messages of one role in a row": can("each is a message of its own"),
        "blocks of another provider": cannot("their text where they have one, else left out"),
        "tools of another provider": can(
            "functions are rewritten, their schema as spelled; a provider's own as recorded: a model may not know them"
        ),
        "parameters of another provider": cannot("left out: text carries none"),
        "cache breakpoints": cannot("text carries none: engines reuse the longest common prefix"),
        "control text in content": cannot("kept as it stands: ChatML has no way to escape <|im_end|>"),
    }

    def recognises(self, body: dict[str, bytes]) -> bool:
        return False  # text has no members to be recognised by

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        return parsed(self.name, body)

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        found: list[Segment] = []
        if tools:
            found.append(Segment("tools", "messages[0]", _utf8(f"{_START}system\n{_TOOLS}"), kind="envelope"))
            for number, tool in enumerate(apart(tools)):
                text = whole(function(tool).decode("utf-8", "replace"))
                found.append(Segment("tools", f"tools[{number}]", _utf8(f"\n{text}"), kind="tool"))
            found.append(Segment("tools", "messages[0].tools", _utf8(_HOW), kind="envelope"))
        elif system:
            found.append(Segment("system", "messages[0]", _utf8(f"{_START}system\n"), kind="envelope"))
        for number, raw in enumerate(system):
            space = "\n\n" if number or tools else ""
            found.append(Segment("system", f"system[{number}]", _utf8(space + decoded(raw)), kind="text"))
        return tuple(found)

    def first(self, head: tuple[Segment, ...]) -> Place:
        return Place(1, "system") if head else Place()

    def render(self, unit: Unit, place: Place) -> Rendered:
        omitted = ["thinking"] * len(thoughts(unit.blocks))
        parts = texts(unit.blocks, omitted)
        if unit.role == "results":
            parts[:0] = [f"<tool_response>\n{result(call, omitted)}\n</tool_response>" for call in unit.calls]
        else:
            parts += map(_call, unit.calls)
        return Rendered(*_placed(parts, unit, place), tuple(omitted)) if parts else Rendered((), place, tuple(omitted))

    def breakpoint(self, model: str | None, ttl: str) -> Breakpoint | None:
        return None

    def takes_breakpoint(self, segment: Segment) -> bool:
        return False

    def finish(self, prompt: Prompt) -> Prompt:
        """Return the prompt as what it is: rendered text."""
        return replace(prompt, fidelity="rendered")

    def write(self, prompt: Prompt) -> bytes:
        text = b"".join([segment.data for segment in prompt])
        if is_text(prompt):
            return text
        end = f"{_END}\n" if text else ""
        return text + _utf8(f"{end}{_START}assistant\n")


def parsed(name: str, body: bytes) -> Prompt:
    """Return text as a prompt of one opaque segment."""
    text = Segment("messages", "text", body, kind="opaque")
    return Prompt(dialect=name, fidelity="rendered", messages=Vector([text]))


def is_text(prompt: Prompt) -> bool:
    """Tell whether a prompt was read from text, which is whole as it stands."""
    return len(prompt) == 1 and len(prompt.messages) == 1 and prompt.messages[0].kind == "opaque"


def _placed(parts: list[str], unit: Unit, place: Place) -> tuple[tuple[Segment, ...], Place]:
    """Put parts into the last message, or into one of their own; a line end stands between parts."""
    role = _ROLES[unit.role]
    joined = unit.joins and place.role in ("user", "tool")
    number, first = (place.messages - 1, place.blocks) if joined else (place.messages, 0)
    role = place.role if joined else role
    path = f"messages[{number}].content"
    content = [
        Segment("messages", f"{path}[{n}]", _utf8(f"\n{part}" if n else part)) for n, part in enumerate(parts, first)
    ]
    after = Place(number + 1, role, first + len(parts))
    if joined:
        return tuple(content), after
    spoken = "user" if role == "tool" else role
    opening = f"{_END}\n{_START}{spoken}\n" if number else f"{_START}{spoken}\n"
    return (Segment("messages", f"messages[{number}]", _utf8(opening), kind="envelope"), *content), after


def _call(call: ToolCall) -> str:
    arguments = whole(bytes(call.input).decode("utf-8", "replace"))
    return f'<tool_call>\n{{"name": {encode(call.name).decode()}, "arguments": {arguments}}}\n</tool_call>'


def _utf8(text: str) -> bytes:
    return text.encode()
