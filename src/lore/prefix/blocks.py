"""What a segment is (text, result, call, image, thinking, in any provider's shape), and whether it says anything.

In: a segment and the envelope of its message. Out: its kind, its text, what it is known by; whether two segments say
the same. Rules: a block's own type says what it is; in OpenAI's shapes the message around it does. A member that holds
nothing (null, an empty text or list, what is made of such alone, a call's good end) is as good as one that is left out,
since nothing of it reaches a prompt; what a program or the model wrote as a value of its own (a schema, a call's
arguments, a result's object) is shown as it stands, so there nothing is left out; and an empty object may be a choice
by its name (`{"any": {}}`, `{"googleSearch": {}}`), so it is nothing only beside what a block of a message says.

Where providers differ: the Claude API, OpenAI, Gemini and Bedrock read such members as absent, or refuse them. An
open model's chat template sees them, and may print what stands for nothing (`None`, an empty thought).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

from lore.model.canonical import canonical, decode, encode, text_of
from lore.model.differences import BlockKind
from lore.model.jsonslice import array, table
from lore.model.limits import ENVELOPE_BYTES
from lore.model.turn import Prompt, Segment

_THINKING = frozenset((b'"thinking"', b'"redacted_thinking"', b'"reasoning"'))
_IMAGES = frozenset((b'"image"', b'"image_url"', b'"input_image"', b'"document"', b'"input_file"', b'"file"',
                     b'"input_audio"'))  # fmt: skip
_CALLS = frozenset((b'"tool_use"', b'"server_tool_use"', b'"function"', b'"custom"'))
_RESULTS = frozenset(("functionResponse", "function_response", "toolResult"))
_CALL_MEMBERS = frozenset(("functionCall", "function_call", "toolUse"))
_IMAGE_MEMBERS = frozenset(("inlineData", "inline_data", "fileData", "file_data", "image", "document", "video"))
_RESULT_ENVELOPE = re.compile(rb'"role"\s*:\s*"(?:tool|function)"|"type"\s*:\s*"\w{1,64}_output"')
_THINKING_ENVELOPE = re.compile(rb'"type"\s*:\s*"reasoning"')
_MODEL_ENVELOPE = re.compile(rb'"role"\s*:\s*"(?:assistant|model)"|"type"\s*:\s*"\w{1,64}_call"')
_CALL_ENVELOPE = re.compile(rb'"type"\s*:\s*"\w{1,64}_call"')
_KIND = re.compile(
    rb'"type"\s*:\s*"(\w{1,40})"|"(toolUse|toolResult|reasoningContent|functionCall|functionResponse|inlineData)"'
)
_ID = re.compile(rb'"(?:tool_use_id|tool_call_id|call_id|toolUseId|id)"\s*:\s*"([^"\\]{1,256})"')


class BlockParts(NamedTuple):
    """A segment's kind, its members (none where it is a text), and its text where it has one."""

    kind: BlockKind
    own: dict[str, bytes]
    text: str | None


def block_of(segment: Segment, envelope: bytes = b"") -> BlockParts:
    """Look at a segment that stands in a message with this envelope."""
    data = segment.data
    if segment.kind == "envelope":
        return BlockParts("envelope", table(segment.json) or {}, None)
    around = envelope[:ENVELOPE_BYTES]
    if data[:1] == b'"':
        return BlockParts(_around(around) or "text", {}, text_of(data))
    own = table(data) or {}
    kind = _own_kind(own)
    if kind in ("text", "other") and (outer := _around(around)) is not None:
        kind = outer
    return BlockParts(kind, own, text_in(own))


def kind_of(segment: Segment, envelope: bytes) -> str:
    """Name roughly what a segment is, without looking into it: its own type, or what its message is."""
    if segment.kind == "envelope":
        return "envelope"
    found = _KIND.search(segment.data, 0, 96) or _KIND.search(segment.data, max(0, len(segment.data) - 96))
    own = b"" if found is None else found[1] or found[2]
    return f"{own.decode()} {_around(envelope[:ENVELOPE_BYTES]) or by_model(envelope)}"


def _around(envelope: bytes) -> BlockKind | None:
    if _RESULT_ENVELOPE.search(envelope):
        return "result"
    if _THINKING_ENVELOPE.search(envelope):
        return "thinking"
    return "call" if _CALL_ENVELOPE.search(envelope) else None


def _own_kind(own: dict[str, bytes]) -> BlockKind:
    kind = own.get("type", b"")
    if kind in _THINKING or "reasoningContent" in own or own.get("thought") == b"true":
        return "thinking"
    if kind.endswith(b'_result"') or not _RESULTS.isdisjoint(own):
        return "result"
    if kind in _IMAGES or (not kind and not _IMAGE_MEMBERS.isdisjoint(own)):
        return "image"
    if kind in _CALLS or kind.endswith(b'_use"') or not _CALL_MEMBERS.isdisjoint(own):
        return "call"
    return "text" if "text" in own else "other"


def text_in(own: dict[str, bytes]) -> str | None:
    """Return the text of a block or of a result, joined; None where it has none."""
    for key in ("text", "thinking", "content", "output"):
        raw = own.get(key, b"")
        if raw[:1] == b'"':
            return text_of(raw)
        if raw[:1] == b"[":
            return _joined(raw)
    for key in _RESULTS.intersection(own):
        inner = table(own[key]) or {}
        raw = inner.get("content") or inner.get("response") or b""
        if raw[:1] == b"[":
            return _joined(raw)
        members = table(raw) or {}
        only = next(iter(members.values())) if len(members) == 1 else b""
        return text_of(only) if only[:1] == b'"' else raw.decode("utf-8", "replace")
    return None


def _joined(raw: bytes) -> str:
    return "\n".join([text_of(part["text"]) for part in parts(raw) if part.get("text")])


def parts(raw: bytes) -> list[dict[str, bytes]]:
    """Return the members of the blocks that an array holds."""
    return [table(block) or {} for block in array(raw)]


def images_in(block: BlockParts) -> list[bytes]:
    """Return the images that a result holds, as they stand."""
    inner = next((table(block.own[key]) or {} for key in _RESULTS if key in block.own), block.own)
    content = inner.get("content") or inner.get("output") or b""
    return [block for block in array(content) if _own_kind(table(block) or {}) == "image"]


def known_by(segment: Segment, envelope: bytes) -> bytes | None:
    """Return the id of the call that a block is or answers; None where it has none."""
    is_block = segment.kind != "envelope"
    found = _ID.search(segment.data, 0, 4096) if is_block or b"call_id" in segment.data else None
    if found is None and is_block and b"call_id" in envelope:
        found = _ID.search(envelope, 0, 4096)
    return None if found is None else found.group(1)


def by_model(envelope: bytes) -> bool:
    """Tell whether a message is the model's own."""
    return _MODEL_ENVELOPE.search(envelope, 0, 4096) is not None


def message_start(prompt: Prompt, place: int) -> int:
    """Return where the message begins that a place of the messages is in; 0 where none begins before it."""
    place = min(place, len(prompt.messages) - 1)
    while place > 0 and prompt.messages[place].kind not in ("envelope", "opaque"):
        place -= 1
    return max(0, place)


HEADER = b"x-anthropic-billing-header:"  # a line of Claude Code's own, another one with every request


def is_header(segment: Segment) -> bool:
    """Tell whether a segment is a billing header that a client put into its system prompt."""
    return segment.section == "system" and HEADER in segment.data[: _WITHIN + len(HEADER)]


_WITHIN = 64  # bytes of JSON before a block's text


_AS_WRITTEN = frozenset((
    "input_schema", "inputSchema", "parameters", "parametersJsonSchema", "schema", "input", "arguments", "args",
    "response", "output", "format", "json",
))  # fmt: skip
_TEXTS = ("text", "input_text", "output_text")  # no set: a type may be anything
_SIGN = re.compile(rb'null|""|\[\s*\]|\{\s*\}|false|"success"')
_MOST = 4096  # bytes that empty members may take
_ROOTS = ("messages[", "input[", "contents[")


def says_nothing(segment: Segment) -> bool:
    """Tell whether a block, a tool or a system prompt holds nothing at all."""
    if len(segment.data) > _MOST:
        return False
    try:
        return not _kept(decode(segment.json))
    except (ValueError, RecursionError):
        return False


def is_message(segment: Segment) -> bool:
    """Tell whether a segment stands in a message, which has a role even where it is empty."""
    return segment.path.startswith(_ROOTS)


def say_the_same(left: Segment, right: Segment) -> bool:
    """Tell whether two segments differ in nothing but members that hold nothing."""
    raw = left.json, right.json
    if abs(len(raw[0]) - len(raw[1])) > _MOST or not any(map(_SIGN.search, raw)):
        return False
    try:
        kept = [encode(_kept(decode(side), blocks=left.section != "tools")) for side in raw]
    except (ValueError, RecursionError):
        return False
    return canonical(kept[0]) == canonical(kept[1])


def without_empty(raw: bytes) -> bytes:
    """Return a field's JSON without members that hold nothing; empty where nothing is left."""
    if _SIGN.search(raw) is None:
        return raw
    try:
        kept = _kept(decode(raw))
    except (ValueError, RecursionError):
        return raw
    return encode(kept) if kept or isinstance(kept, bool | int | float) else b""


def _kept(value: Any, *, blocks: bool = False) -> Any:
    """Return what a value says; None where it says nothing. `blocks`: it is a message's."""
    match value:
        case dict():
            members = {
                key: member if member == {} or (key in _AS_WRITTEN and member) else _kept(member, blocks=blocks)
                for key, member in cast("dict[str, Any]", value).items()
            }
            kept = {
                key: member
                for key, member in members.items()
                if member is not None and not _is_default(key, member, members)
            }
            if blocks and any(member != {} for member in kept.values()):
                kept = {key: member for key, member in kept.items() if member != {}}
            lost_its_text = kept.keys() <= {"type", "role"} and kept.get("type") in _TEXTS
            return None if lost_its_text or kept.keys() <= {"role"} else kept
        case list():
            parts = [_kept(element, blocks=blocks) for element in cast("list[Any]", value)]
            return [part for part in parts if part is not None] or None
        case "":
            return None
        case _:
            return value


def _is_default(key: str, value: Any, members: dict[str, Any]) -> bool:
    """Tell whether a result says no more than that its call went well, which it does without a word, too."""
    return (key == "is_error" and value is False) or (key == "status" and value == "success" and "toolUseId" in members)
