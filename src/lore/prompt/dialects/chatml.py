"""Rendered text: the base of its dialects, and ChatML (`<|im_start|>role` … `<|im_end|>`), which many open models read.

Tools are JSON in the system message. They precede the system prompt's texts, so that a changed text leaves the tools
cached. Calls are JSON in the assistant's message, results are in a user message. A segment is the exact UTF-8 text. A
message is closed by the opening of the next one, so that the last one can be extended without a change before the
extension; `write` closes it and opens the assistant's. Blocks without text are left out and named. Half a surrogate
pair, which UTF-8 cannot hold, becomes U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Raw
from msgspec.structs import replace

from lore.model.canonical import encode, text_of
from lore.model.deferred import pattern
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall
from lore.model.jsonslice import array, raw_members
from lore.model.turn import Fidelity, Memo, Prompt, Segment
from lore.model.vector import Vector
from lore.prompt import base
from lore.prompt.dialects.content import as_function, outcome_of, output_blocks, single_tools

# Text is cut into segments at line ends and around the tokens that separate messages in the usual templates. A longer
# text is cut at the same places, so that stable text stays in the same segments.
PIECE = pattern(
    r"\n|.+?(?:\Z|\n|\|>|｜>|</s>|\[/INST\]|<end_of_turn>|(?=<\||<｜|</s>|\[INST\]|<end_of_turn>))", re.DOTALL
)
_HALF = pattern("[\ud800-\udfff]")
_START, _END = "<|im_start|>", "<|im_end|>"
_TOOLS = "# Tools\n\nThese functions can be called. Each line is the JSON schema of one:\n<tools>"
_HOW = """
</tools>

To call a function, write one JSON object with its name and its arguments between these tags, once for each call:
<tool_call>
{"name": "FUNCTION", "arguments": {"PARAMETER": "VALUE"}}
</tool_call>"""


TEXT_ANSWERS = {
    "parameters of another provider": base.cannot("left out: text carries none"),
    "cache breakpoints": base.cannot("text carries none: engines reuse the longest common prefix"),
}


class RenderedText:
    """A dialect of text, without breakpoints: text itself, or a body whose `prompt` is text or tokens.

    Such bodies are sent to `/v1/completions` and to llama.cpp's `/completion` (OpenAI's and llama.cpp's references).
    """

    name: ClassVar[str] = "template"  # of the dialect
    # which features it can express, by feature
    capabilities: ClassVar[Mapping[str, base.Capability]] = {**base.USUAL, **TEXT_ANSWERS}

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body has a `prompt`, and no messages."""
        return "prompt" in body and body.keys().isdisjoint(("messages", "input", "contents"))

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Return a prompt of the pieces of a body's `prompt`, else of the whole text; its fidelity is `rendered`."""
        members = (raw_members(body) or {}) if body[:1] == b"{" else {}
        if not self.recognises(members):
            return Prompt(self.name, "rendered", messages=Vector([Segment("messages", "text", body, kind="opaque")]))
        raw, model = members["prompt"], members.get("model", b"")
        pieces = [piece for part in (array(raw) if raw[:1] == b"[" else [raw]) for piece in _pieces_of(part)]
        return Prompt(
            self.name, "rendered", text_of(model) if model[:1] == b'"' else None,
            messages=Vector([Segment("messages", f"prompt[{n}]", piece, "text") for n, piece in enumerate(pieces)]),
            params={name: value for name, value in members.items() if name not in ("model", "prompt")},
        )  # fmt: skip

    def breakpoint(self, model: str | None, ttl: str) -> base.CacheMark | None:
        """Return None: text holds no breakpoints."""
        return None

    def takes_breakpoint(self, segment: Segment) -> bool:
        """Return False: text holds no breakpoints."""
        return False


def _pieces_of(part: bytes) -> list[bytes]:
    """Return the pieces of a text (JSON), the tokens of a list, or any other value itself."""
    if part[:1] == b'"':
        return [piece[0].encode() for piece in PIECE.finditer(decode_text(part))]
    return array(part) if part[:1] == b"[" else [part]


def without_surrogates(text: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def decode_text(raw: Raw | bytes) -> str:
    """Decode a JSON string to text that UTF-8 can hold."""
    return without_surrogates(text_of(bytes(raw)))


def texts(blocks: tuple[Block, ...], omitted: list[str], *, image: str = "image") -> list[str]:
    """Return the texts of text blocks and of raw blocks with a `text`; `omitted` gets the types of the others.

    A `ThinkingBlock` is in neither; an `ImageBlock` is called `image`.
    """
    strings: list[str] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                strings.append(decode_text(text))
            case ImageBlock():
                omitted.append(image)
            case RawBlock(json=raw):
                members = raw_members(bytes(raw)) or {}
                if members.get("text", b"")[:1] == b'"':
                    strings.append(decode_text(members["text"]))
                else:
                    omitted.append(decode_text(members.get("type", b'"block"')))
            case ThinkingBlock():
                pass
    return strings


def thoughts(blocks: tuple[Block, ...]) -> list[str]:
    """Return the decoded texts of the thinking blocks, in order."""
    return [decode_text(block.text) for block in blocks if isinstance(block, ThinkingBlock)]


def result(call: ToolCall, omitted: list[str]) -> str:
    """Return a call's result as text: its output, else its error, else a note if it has not completed.

    `omitted` gets the names of blocks without text.
    """
    return "\n".join(texts(output_blocks(outcome_of(call)[0]), omitted, image="image in a tool result"))


class ChatML(RenderedText):
    """Dialect of text in ChatML. A control token in content (`<|im_end|>`) cannot be escaped and stays as it is."""

    capabilities: ClassVar = {
        **base.USUAL,
        **TEXT_ANSWERS,
        base.IN_LOOPS: base.cannot(
            "it waits: results have the user's role, so text after them would be the user's"
        ),
        base.SEVERAL_LEADING: base.cannot("joined to one message by blank lines"),
        base.IN_CONVERSATION: base.can("on models named by system_in_conversation; else in the user's role"),
        "thinking": base.cannot(
            "left out: ChatML has no agreed place for it, and templates drop it from earlier turns"
        ),
        "images": base.cannot("left out: this is text"),
        "images in tool results": base.cannot("left out: this is text"),
        "messages of one role in a row": base.can("each is a message of its own"),
        "tools of another provider": base.can(
            "functions are rewritten with their schema; a provider's own tools stay: models may not know them"
        ),
        "control text in content": base.cannot("kept as it is: ChatML has no way to escape <|im_end|>"),
    }  # fmt: skip

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Return the system message in pieces: its opening, the tools, the system prompt's texts (JSON strings)."""
        segments: list[Segment] = []
        if tools:
            segments.append(Segment("tools", "messages[0]", f"{_START}system\n{_TOOLS}".encode(), kind="envelope"))
            for number, tool in enumerate(single_tools(tools)):
                text = without_surrogates(as_function(tool).decode("utf-8", "replace"))
                segments.append(Segment("tools", f"tools[{number}]", f"\n{text}".encode(), kind="tool"))
            segments.append(Segment("tools", "messages[0].tools", _HOW.encode(), kind="envelope"))
        elif system:
            segments.append(Segment("system", "messages[0]", f"{_START}system\n".encode(), kind="envelope"))
        for number, raw in enumerate(system):
            space = "\n\n" if number or tools else ""
            segments.append(Segment("system", f"system[{number}]", (space + decode_text(raw)).encode(), kind="text"))
        return tuple(segments)

    def first(self, head: tuple[Segment, ...]) -> base.Spot:
        """Return the end of the messages before any unit: after the system message, if `head` has one."""
        return base.Spot(1, "system") if head else base.Spot()

    def render(self, unit: base.Unit, place: base.Spot) -> base.Rendered:
        """Return a unit's segments: the opening of its message, then one for each text, call or result.

        There is no opening if the unit joins the user's or tool's message before it, and nothing of a unit that has
        nothing to say; thinking is omitted.
        """
        omitted = ["thinking"] * len(thoughts(unit.blocks))
        parts = texts(unit.blocks, omitted)
        if unit.role == "results":
            parts[:0] = [f"<tool_response>\n{result(call, omitted)}\n</tool_response>" for call in unit.calls]
        else:
            parts += map(_call, unit.calls)
        if not parts:
            return base.Rendered((), place, tuple(omitted))
        joins = unit.joins and place.role in ("user", "tool")
        role = place.role if joins else "tool" if unit.role == "results" else unit.role
        number, first = (place.messages - 1, place.blocks) if joins else (place.messages, 0)
        segments = [
            Segment("messages", f"messages[{number}].content[{n}]", (f"\n{part}" if n else part).encode())
            for n, part in enumerate(parts, first)
        ]
        if not joins:
            end = f"{_END}\n" if number else ""
            opening = f"{end}{_START}{'user' if role == 'tool' else role}\n"
            segments.insert(0, Segment("messages", f"messages[{number}]", opening.encode(), kind="envelope"))
        return base.Rendered(tuple(segments), base.Spot(number + 1, role, first + len(parts)), tuple(omitted))

    def finish(self, prompt: Prompt) -> Prompt:
        """Return the prompt, marked as rendered text (`fidelity`)."""
        return replace(prompt, fidelity="rendered")

    def write(self, prompt: Prompt) -> bytes:
        """Return the text that the segments make, and the opening of the answer unless it was parsed from text."""
        text = b"".join([segment.data for segment in prompt])
        if len(prompt.messages) == len(prompt) and all(part.kind in ("opaque", "text") for part in prompt.messages):
            return text  # it was parsed from text
        end = f"{_END}\n" if text else ""
        return text + f"{end}{_START}assistant\n".encode()


def _call(call: ToolCall) -> str:
    arguments = without_surrogates(bytes(call.input).decode("utf-8", "replace"))
    return f'<tool_call>\n{{"name": {encode(call.name).decode()}, "arguments": {arguments}}}\n</tool_call>'
