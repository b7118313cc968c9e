"""Google's Gemini API (generateContent): `tools`, `systemInstruction`, `contents`.

Contents alternate between the user and the model, so consecutive ones are joined; results of calls are the user's.
Members are read in both spellings (`systemInstruction`, `system_instruction`) and written as they were read. The API
caches by itself: there are no breakpoints. The model is part of the request's path; lore keeps it as a member. Source:
the Gemini API reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import ClassVar

from msgspec import Raw

from lore.model.canonical import encode
from lore.model.items import ToolCall
from lore.model.jsonslice import array, object_of, raw_members
from lore.model.turn import Fidelity, Memo, Prompt, Segment
from lore.prompt.base import IN_CONVERSATION, IN_LOOPS, USUAL, Rendered, Spot, Unit, can, cannot
from lore.prompt.dialects import content as c
from lore.prompt.dialects.messages import Body, Lists, Writing, slice_object, write_object

_SYSTEM = ("systemInstruction", "system_instruction")
_DECLARED: Lists = {"functionDeclarations": None, "function_declarations": None}
# What a part may be, in either spelling.
_PART = frozenset((
    "text", "thought", "inlineData", "inline_data", "fileData", "file_data", "functionCall", "function_call",
    "functionResponse", "function_response", "executableCode", "executable_code", "codeExecutionResult",
    "code_execution_result",
))  # fmt: skip
_CALLS = ("functionCall", "function_call")
_RESULT = c.BlockWriter(text=lambda text: text, is_own=lambda _: False, image_name="image in a tool result")


class Gemini(Body):
    """Dialect of the generateContent API."""

    name: ClassVar = "gemini"  # as sessions and options name it
    capabilities: ClassVar = {
        **USUAL,
        IN_LOOPS: can("a text part after the function responses, in their content"),
        IN_CONVERSATION: cannot("written in the user's role"),
        "thinking": cannot("left out, except the API's own thought parts, which are written as recorded"),
        "images": can("as inlineData"),
        "images in tool results": cannot("left out: a function's response is an object of text"),
        "messages of one role in a row": cannot("joined to one content: roles alternate"),
        "cache breakpoints": cannot("the API caches by itself"),
    }  # fmt: skip
    prompt_members = ("model", "tools", "contents", *_SYSTEM)
    root = "contents"
    lists = {"parts": None}
    writer = c.BlockWriter(
        text=lambda text: b'{"text":' + text + b"}",
        is_own=lambda block: "type" not in block and not _PART.isdisjoint(block),
        image=lambda media, data: b'{"inlineData":{"mimeType":' + encode(media) + b',"data":' + data + b"}}",
        name=name,
    )

    def recognises(self, body: dict[str, bytes]) -> bool:
        """Return whether a body has `contents` and no `messages`."""
        return "contents" in body and "messages" not in body

    def parse(self, body: bytes, fidelity: Fidelity, memo: Memo) -> Prompt:
        """Parse a request body; each declared function is a segment, the instruction the system part.

        Empty for a body that is no JSON object.
        """
        members = raw_members(body) or {}
        head = _tools(members.get("tools", b"null"))
        for key in _SYSTEM:
            head += self._instruction(members.get(key, b"null"), key)
        return self.prompt_of(fidelity, members, head, memo)

    def _instruction(self, raw: bytes, key: str) -> list[Segment]:
        if raw[:1] == b"{":
            return _drop_empty(self.message(raw, key, "system"))
        return [] if raw == b"null" else [Segment("system", key, raw, "text")]

    def head(self, tools: tuple[Raw, ...], system: tuple[bytes, ...]) -> tuple[Segment, ...]:
        """Return the segments of tools (functions declared in groups), and of the texts as one `systemInstruction`."""
        entries = [_tool(bytes(tool)) for tool in tools]
        grouped: list[bytes] = []
        for declares, some in groupby(entries, lambda entry: entry[0]):
            group = [data for _, data in some]
            grouped += [b'{"functionDeclarations":[' + b",".join(group) + b"]}"] if declares else group
        declared = _tools(b"[" + b",".join(grouped) + b"]")
        texts = b",".join([self.writer.text(text) for text in system])
        instruction = b'{"parts":[' + texts + b"]}" if system else b"null"
        return (*declared, *self._instruction(instruction, _SYSTEM[0]))

    def render(self, unit: Unit, place: Spot) -> Rendered:
        """Return a unit's segments; they join the last content if it has the same role, since roles alternate."""
        writing = Writing(self.root, place)
        if unit.role == "results":
            parts = [_result(call, writing.omitted) for call in unit.calls]
            parts += self.writer.write_all(unit.blocks, writing.omitted)
        else:
            parts = self.writer.write_answer(unit, _call, writing.omitted)
        writing.merge("model" if unit.role == "assistant" else "user", parts, "parts")
        return writing.finish()

    def write(self, prompt: Prompt) -> bytes:
        """Return the request body; declarations of functions go back to the entries of `tools` that held them."""
        members = self.opening(prompt)
        entries = [segment for segment in prompt.head if segment.section == "tools"]
        if entries and entries[0].path == "tools":
            members.append(("tools", entries[0].data))
        elif entries:
            written = [_write_entry(list(some), _DECLARED) for _, some in groupby(entries, _root)]
            members.append(("tools", b"[" + b",".join(written) + b"]"))
        for key, some in groupby((segment for segment in prompt.head if segment.section == "system"), _root):
            members.append((key, _write_entry(list(some), self.lists)))
        members.append((self.root, self.write_messages([*prompt.messages, *prompt.tail])))
        return object_of(dict(members))


def _root(segment: Segment) -> str:
    return segment.path.partition(".")[0]


def _write_entry(segments: list[Segment], lists: Lists) -> bytes:
    first = segments[0]
    return first.data if first.kind != "envelope" and "." not in first.path else write_object(segments, lists)


def _tools(raw: bytes) -> list[Segment]:
    """Return a segment for each declaration of a function, and for each other entry of `tools`."""
    if raw[:1] != b"[":
        return [] if raw == b"null" else [Segment("tools", "tools", raw, kind="opaque")]
    declarations: list[Segment] = []
    for number, entry in enumerate(array(raw)):
        path = f"tools[{number}]"
        segments = slice_object(entry, path, "tools", _DECLARED, ())
        if len(segments) == 1:
            declarations.append(Segment("tools", path, entry, kind="tool"))
        else:
            for segment in _drop_empty(segments):
                segment.kind = "envelope" if segment.kind == "envelope" else "tool"
                declarations.append(segment)
    return declarations


def _drop_empty(segments: Iterable[Segment]) -> list[Segment]:
    """Drop an envelope without members."""
    return [segment for segment in segments if segment.data]


def _tool(raw: bytes) -> tuple[bool, bytes]:
    """Return whether a tool is a function, and its declaration, or the entry of `tools` as it is."""
    members, function = raw_members(raw) or {}, c.function_of(raw)
    if function is None:
        return False, raw
    if "type" not in members and ("parameters" in members or "parametersJsonSchema" in members):
        return True, raw
    return True, b"{" + c.function_members(function, "parametersJsonSchema") + b"}"


def _call(call: ToolCall) -> bytes:
    return b'{"functionCall":{' + _identity(call) + b',"args":' + c.arguments(call) + b"}}"


def _result(call: ToolCall, omitted: list[str]) -> bytes:
    output, failed = c.outcome_of(call)
    texts = _RESULT.write_all(c.output_blocks(output), omitted) or [b'""']
    text = texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]"
    key = b"error" if failed else b"result"
    return b'{"functionResponse":{' + _identity(call) + b',"response":{"' + key + b'":' + text + b"}}}"


def _identity(call: ToolCall) -> bytes:
    """Write a call's name and its id. Some servers give no id; then the result has none either."""
    name = b'"name":' + encode(call.name)
    block = raw_members(c.own_bytes(call.raw, Gemini.name) or b"") or {}
    lacks_id = bool(block) and all("id" not in (raw_members(block[key]) or {}) for key in _CALLS if key in block)
    return name if lacks_id or not call.call_id else b'"id":' + encode(call.call_id) + b"," + name
