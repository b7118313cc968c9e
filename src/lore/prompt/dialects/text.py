"""What dialects that end as text have in common: blocks and results as text, tools as functions.

Rules: what has no text is left out and named; half a surrogate pair, which no UTF-8 text can hold,
becomes U+FFFD.
"""

from __future__ import annotations

import re

from msgspec import Raw

from lore.model.canonical import text_of
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of, is_absent
from lore.model.jsonslice import table
from lore.model.prompt import NO_RESULT
from lore.prompt.dialects.content import described, function_of

_HALF = re.compile("[\ud800-\udfff]")


def whole(text: str) -> str:
    """Return text that UTF-8 can hold."""
    return _HALF.sub("\ufffd", text)


def decoded(raw: Raw | bytes) -> str:
    """Decode a JSON string to text that UTF-8 can hold."""
    return whole(text_of(bytes(raw)))


def texts(blocks: tuple[Block, ...], omitted: list[str], *, image: str = "image") -> list[str]:
    """Return the texts of blocks; names what was left out. Thinking is the caller's concern and passed over."""
    found: list[str] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                found.append(decoded(text))
            case ImageBlock():
                omitted.append(image)
            case RawBlock(json=raw):
                own = table(bytes(raw)) or {}
                if own.get("text", b"")[:1] == b'"':
                    found.append(decoded(own["text"]))
                else:
                    omitted.append(decoded(own.get("type", b'"block"')))
            case ThinkingBlock():
                pass
    return found


def thoughts(blocks: tuple[Block, ...]) -> list[str]:
    """Return the texts of thinking blocks."""
    return [decoded(block.text) for block in blocks if isinstance(block, ThinkingBlock)]


def result(call: ToolCall, omitted: list[str]) -> str:
    """Return a call's result as text: its output, else its error, else that there is none."""
    output = bytes(call.output)
    if output[:1] == b"[":
        return "\n".join(texts(blocks_of(output), omitted, image="image in a tool result"))
    if not is_absent(call.output):
        return decoded(output)
    if not is_absent(call.error):
        return decoded(call.error)
    return "" if call.status == "completed" else decoded(NO_RESULT)


def function(raw: bytes) -> bytes:
    """Return a tool as a function in Chat's shape; one in another's is wrapped, its schema as it was spelled."""
    own = function_of(raw)
    if own is None or "function" in (table(raw) or {}):
        return raw
    return b'{"type":"function","function":{' + described(own, "parameters") + b"}}"
