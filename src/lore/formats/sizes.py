"""Items and events without their content: each text becomes white space of the same size.

That is enough for sums of usage and for finding requests that read less than was cached: usage, models, times, ids,
names and signals stay, and the size of every message. White space is not a JSON value, so that nothing can take it for
content. What counts apart from its size keeps the word that shows it: images in results, and reasoning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from lore.formats.values import opens
from lore.model import events as e
from lore.model.items import (
    NULL,
    AssistantMessage,
    Block,
    ImageBlock,
    Item,
    OpaqueItem,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)

_SHORT = 4096  # bytes: sizes that many texts have
_BEGINNING = 256  # bytes in which a block or a result shows what it is
_WORDS = (b'"type":"image"', b'"type":"reasoning"', b'"type":"redacted_thinking"')


class _Blanks(dict[int, Raw]):
    """White space by its size. All of it is part of one text, which doubles when a longer one is needed."""

    spaces = memoryview(b" " * _SHORT)

    def __missing__(self, size: int) -> Raw:
        while size > len(self.spaces):
            self.spaces = memoryview(b" " * (2 * len(self.spaces)))
        found = Raw(self.spaces[:size])
        if size <= _SHORT:
            self[size] = found
        return found


_BLANKS = _Blanks()


def blank(raw: Raw) -> Raw:
    """Return white space of the size of a JSON value; absent content stays absent."""
    if raw is NULL:
        return raw
    size = len(raw)
    return raw if size == len(b"null") and raw == NULL else _BLANKS[size]


def _blank_blocks(raw: Raw) -> Raw:
    """Return white space of the same size, after the word that shows an image or reasoning."""
    if raw is not NULL and opens(raw) in ("{", "["):
        begin = bytes(memoryview(raw)[:_BEGINNING])
        for word in _WORDS:
            if word in begin:
                return Raw(word.ljust(len(raw)))
    return blank(raw)


def _blank_block(block: Block) -> Block:
    match block:
        case TextBlock():
            return TextBlock(blank(block.text))
        case ThinkingBlock(signature=signature):
            return ThinkingBlock(blank(block.text), signature and " " * len(signature))
        case ImageBlock():
            return ImageBlock(block.media_type, blank(block.data))
        case RawBlock():
            return RawBlock(_blank_blocks(block.json), block.dialect)


def _blank_list(blocks: tuple[Block, ...] | None) -> tuple[Block, ...] | None:
    return None if blocks is None else tuple([_blank_block(block) for block in blocks])


def sized_item(item: Item) -> Item:
    """Return an item whose content is white space of the same size."""
    match item:
        case AssistantMessage():
            blocks = _blank_list(item.blocks)
            return AssistantMessage(item.uuid, blank(item.text), blocks, item.stop_reason, item.response_id)
        case ToolCall():
            return ToolCall(
                item.uuid, item.call_id, item.name, blank(item.input), item.status, _blank_blocks(item.output),
                blank(item.error), blank(item.detail), item.response_id,
            )  # fmt: skip
        case UserMessage():
            return UserMessage(item.uuid, blank(item.text), _blank_list(item.blocks), item.source)
        case OpaqueItem():
            return OpaqueItem(item.uuid, blank(item.record))
        case _:
            return item


def sized_event(event: e.Event) -> e.Event:
    """Return an event whose content is white space of the same size; settings such as the system prompt stay."""
    sized = _SIZED.get(type(event))
    return event if sized is None else sized(event)


def _sized_result(event: e.PatchToolCall) -> e.Event:
    return e.PatchToolCall(
        call_id=event.call_id, status=event.status, output=_blank_blocks(event.output), error=blank(event.error),
        detail=blank(event.detail), chain=event.chain, at=event.at, agent_id=event.agent_id,
    )  # fmt: skip


_SIZED: dict[type, Callable[[Any], e.Event]] = {
    e.Append: lambda event: replace(event, item=sized_item(event.item)),
    e.PatchToolCall: _sized_result,
    e.CompactApplied: lambda event: replace(event, summary=blank(event.summary)),
    e.OpaqueEvent: lambda event: replace(event, record=blank(event.record)),
}
