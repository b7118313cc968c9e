"""Messages of Kimi's agents: parts to blocks, bills.

In: what a log holds of a message, as JSON. Out: blocks, outcomes, counts. Rules: text is an exact slice; a part that
nobody knows is kept verbatim; counts leave out what the cache read and wrote.

Sources: kosong's `message.py` and `chat_provider.py` (kimi-cli 1.10, July 2026); `@moonshot-ai/kosong` (kimi-code,
October 2026).
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from lore.formats.bills import apart
from lore.formats.values import CalledFunction, called, image_at, result_of
from lore.model import events as e
from lore.model import lenient
from lore.model.items import NULL, Block, RawBlock, TextBlock, ThinkingBlock, ToolCall, is_absent
from lore.model.jsonslice import array, table

_QUOTE, _OBJECT, _LIST = b'"{['
_EMPTY, _NO_INPUT = Raw(b'""'), Raw(b'"{}"')


class KimiPart(Struct, frozen=True, gc=False):
    """A part of a message: its type says which member it has."""

    type: str = ""
    text: Raw = NULL
    think: Raw = NULL
    encrypted: str | None = None


class KimiCall(Struct, frozen=True, gc=False):
    """A call: what it names stands in its function, or (newer) in the call itself."""

    id: str = ""
    name: str = ""
    arguments: Raw = NULL
    function: CalledFunction | None = None


class KimiUsage(Struct, frozen=True, gc=False):
    """A bill, in the spelling of kimi-cli."""

    input_other: int | None = None
    input_cache_read: int | None = None
    input_cache_creation: int | None = None
    output: int | None = None


class CamelUsage(Struct, frozen=True, gc=False, rename="camel"):
    """A bill, in the spelling of Kimi Code."""

    input_other: int | None = None
    input_cache_read: int | None = None
    input_cache_creation: int | None = None
    output: int | None = None


_PART = msgspec.json.Decoder(KimiPart)
_PARTS = msgspec.json.Decoder(tuple[KimiPart, ...])


def blocks_of(content: Raw) -> tuple[Block, ...]:
    """Read a text, a part, or a list of parts; ValueError where it is none of them."""
    if is_absent(content):
        return ()
    first = memoryview(content)[0]
    if first == _QUOTE:
        return (TextBlock(content),) if content != _EMPTY else ()
    if first == _OBJECT:
        part = lenient.decoded(_PART, content)
        return (_plain(part) or _odd(part, bytes(content)),)
    if first != _LIST:
        raise ValueError("content is neither text nor parts")
    parts = lenient.decoded(_PARTS, content)
    blocks = [block for part in parts if (block := _plain(part)) is not None]
    if len(blocks) < len(parts):
        pieces = zip(parts, array(bytes(content)), strict=True)
        return tuple([_plain(part) or _odd(part, raw) for part, raw in pieces])
    return tuple(blocks)


def _plain(part: KimiPart) -> Block | None:
    """Return a text or a thought; None for any other part."""
    if part.type == "text" and memoryview(part.text)[0] == _QUOTE:
        return TextBlock(part.text)
    if part.type == "think" and memoryview(part.think)[0] == _QUOTE:
        return ThinkingBlock(part.think, part.encrypted)
    return None


def _odd(part: KimiPart, raw: bytes) -> Block:
    own = table(raw) or {}
    url = (table(own.get("image_url", own.get("imageUrl", b"null"))) or {}).get("url", b"")
    return (image_at(url) if part.type == "image_url" else None) or RawBlock(Raw(raw))


def call_of(call: KimiCall, uuid: str, response: str) -> ToolCall:
    """Return a call as an item; one without arguments has an empty object of them."""
    function = call.function or CalledFunction(call.name, call.arguments)
    given = function.arguments
    given = _NO_INPUT if is_absent(given) or given == _EMPTY else given
    return called(uuid, call.id or uuid, function.name, given, response)


def output_of(content: Raw, note: Raw = NULL) -> Raw:
    """Return a result as the model sees it: a text, or blocks; a note for the model stands behind it."""
    noted = note is not NULL and memoryview(note)[0] == _QUOTE and note != _EMPTY
    if memoryview(content)[0] == _QUOTE:
        return Raw(bytes(content)[:-1] + b"\\n" + bytes(note)[1:]) if noted else content
    blocks = (*blocks_of(content), *((TextBlock(note),) if noted else ()))
    return result_of(blocks)


def billed(usage: KimiUsage | CamelUsage, client: str, dialect: str) -> e.Billed:
    """Return a bill."""
    counts = usage.input_other, usage.input_cache_read, usage.input_cache_creation, usage.output
    return apart(*counts, client=client, dialect=dialect)
