"""What a segment is: text, a tool's result, a call, an image, thinking; in every provider's shape.

In: a segment and the envelope of its message. Out: its kind, its text, what it is known by. Rules: a block's own
type says it; in OpenAI's shapes the message around it does. Cost: one look at a segment's own members.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lore.model.canonical import text_of
from lore.model.differences import BlockKind
from lore.model.jsonslice import array, table
from lore.model.prompt import Segment

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
_ID = re.compile(rb'"(?:tool_use_id|tool_call_id|call_id|toolUseId|id)"\s*:\s*"([^"\\]{1,256})"')


class Block(NamedTuple):
    """A segment's kind, its members (none where it is a text), and its text where it has one."""

    kind: BlockKind
    own: dict[str, bytes]
    text: str | None


def block_of(segment: Segment, envelope: bytes) -> Block:
    """Look at a segment that stands in a message with this envelope."""
    data = segment.data
    if segment.kind == "envelope":
        return Block("envelope", table(b"{" + data + b"}") or {}, None)
    around = envelope[:4096]
    if data[:1] == b'"':
        return Block(_around(around) or "text", {}, text_of(data))
    own = table(data) or {}
    kind = _own_kind(own)
    if kind in ("text", "other") and (outer := _around(around)) is not None:
        kind = outer
    return Block(kind, own, text_in(own))


_KIND = re.compile(
    rb'"type"\s*:\s*"(\w{1,40})"|"(toolUse|toolResult|reasoningContent|functionCall|functionResponse|inlineData)"'
)


def kind_of(segment: Segment, envelope: bytes) -> str:
    """Name roughly what a segment is, without looking into it: its own type, or what its message is."""
    if segment.kind == "envelope":
        return "envelope"
    found = _KIND.search(segment.data, 0, 96) or _KIND.search(segment.data, max(0, len(segment.data) - 96))
    own = b"" if found is None else found[1] or found[2]
    return f"{own.decode()} {_around(envelope[:4096]) or by_model(envelope)}"


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
            return "\n".join([text_of(one) for one in map(_text, parts(raw)) if one])
    for key in _RESULTS.intersection(own):
        inner = table(own[key]) or {}
        raw = inner.get("content") or inner.get("response") or b""
        if raw[:1] == b"[":
            return "\n".join([text_of(one) for one in map(_text, parts(raw)) if one])
        said = table(raw) or {}
        only = next(iter(said.values())) if len(said) == 1 else b""
        return text_of(only) if only[:1] == b'"' else raw.decode("utf-8", "replace")
    return None


def _text(own: dict[str, bytes]) -> bytes:
    return own.get("text", b"")


def parts(raw: bytes) -> list[dict[str, bytes]]:
    """Return the members of the blocks that an array holds."""
    return [table(one) or {} for one in array(raw)]


def holds_image(block: Block) -> bool:
    """Tell whether a result holds an image."""
    inner = next((table(block.own[key]) or {} for key in _RESULTS if key in block.own), block.own)
    content = inner.get("content") or inner.get("output") or b""
    return any(_own_kind(one) == "image" for one in parts(content))


def images_in(block: Block) -> list[bytes]:
    """Return the images that a result holds, as they stand."""
    inner = next((table(block.own[key]) or {} for key in _RESULTS if key in block.own), block.own)
    content = inner.get("content") or inner.get("output") or b""
    return [one for one in array(content) if _own_kind(table(one) or {}) == "image"]


def known_by(segment: Segment, envelope: bytes) -> bytes | None:
    """Return the id of the call that a block is or answers; None where it has none."""
    found = _ID.search(segment.data, 0, 4096) if segment.kind != "envelope" or b"call_id" in segment.data else None
    if found is None and segment.kind != "envelope":
        found = _ID.search(envelope, 0, 4096) if b"call_id" in envelope else None
    return None if found is None else found.group(1)


def by_model(envelope: bytes) -> bool:
    """Tell whether a message is the model's own."""
    return _MODEL_ENVELOPE.search(envelope, 0, 4096) is not None
