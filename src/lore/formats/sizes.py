"""Items and events without their content: each text becomes white space of the same size.

That is enough for sums of usage and for finding requests that read less than was cached: usage, models, times, ids,
names and signals stay, and the size of every message. White space is not a JSON value, so that nothing can take it for
content. What counts apart from its size keeps the word that shows it: images in results, and reasoning.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.values import opens
from lore.model import events as e
from lore.model import items
from lore.model.items import NULL

T = TypeVar("T", bound=Struct)
_BEGINNING = 256  # bytes in which a block or a result shows its kind
_WORDS = (b'"type":"image"', b'"type":"reasoning"', b'"type":"redacted_thinking"')
_CONTENT: dict[type, tuple[str, ...]] = {  # fields that hold content, or blocks and items with such fields
    items.TextBlock: ("text",),
    items.ThinkingBlock: ("text", "signature"),
    items.ImageBlock: ("data",),
    items.RawBlock: ("json",),
    items.UserMessage: ("text", "blocks"),
    items.AssistantMessage: ("text", "blocks"),
    items.ToolCall: ("input", "output", "error", "detail"),
    items.OpaqueItem: ("record",),
    e.Append: ("item",),
    e.PatchToolCall: ("output", "error", "detail"),
    e.CompactApplied: ("summary",),
    e.OpaqueEvent: ("record",),
}


def sized(value: T) -> T:
    """Return an event or an item whose content is white space of the same size; settings stay as they are."""
    fields = {name: _sized(getattr(value, name)) for name in _CONTENT.get(type(value), ())}
    return replace(value, **fields) if fields else value


def _sized(content: Any) -> Any:
    match content:
        case Raw():
            return _blank(content)
        case str():
            return " " * len(content)
        case tuple():
            return tuple(map(sized, cast("tuple[Struct, ...]", content)))
        case Struct():
            return sized(content)
        case _:
            return content


def _blank(raw: Raw) -> Raw:
    """Return white space of a value's size, after the word that shows an image or reasoning; absent content stays."""
    if raw is NULL or raw == NULL:
        return raw
    begin = bytes(memoryview(raw)[:_BEGINNING]) if opens(raw) in ("{", "[") else b""
    word = next((word for word in _WORDS if word in begin), b"")
    return Raw(word.ljust(len(raw)))
