"""Content that Kimi Code and Kimi CLI log alike: parts of messages, calls, results, usage.

Texts are slices of the log, and parts of an unknown type are kept verbatim.

Sources: kosong's `message.py` and `chat_provider.py` (kimi-cli 1.10, July 2026); `@moonshot-ai/kosong` (kimi-code,
October 2026).
"""

from __future__ import annotations

from msgspec import Raw, Struct

from lore.formats.bills import usage_without_cached_input
from lore.formats.values import CalledFunction, blocks_in, called, image_at, opens, result_of, text_in
from lore.model import events as e
from lore.model.items import NULL, Block, RawBlock, TextBlock, ThinkingBlock, ToolCall, is_absent
from lore.model.jsonslice import raw_members

_EMPTY, _NO_INPUT = Raw(b'""'), Raw(b'"{}"')


class KimiCall(Struct, frozen=True, gc=False):
    """A call. Its name and arguments are in `function`, or (newer) in the call itself."""

    id: str = ""
    name: str = ""
    arguments: Raw = NULL
    function: CalledFunction | None = None


class KimiUsage(Struct, frozen=True, gc=False):
    """Usage as Kimi CLI spells it; `input_other` leaves out what the cache read and wrote."""

    input_other: int | None = None
    input_cache_read: int | None = None
    input_cache_creation: int | None = None
    output: int | None = None


class CamelUsage(Struct, frozen=True, gc=False, rename="camel"):
    """Usage as Kimi Code spells it."""

    input_other: int | None = None
    input_cache_read: int | None = None
    input_cache_creation: int | None = None
    output: int | None = None


def blocks_of(content: Raw) -> tuple[Block, ...]:
    """Return the blocks of a text, a part or a list of parts; raise ValueError for any other content."""
    listed = Raw(b"[%b]" % bytes(content)) if opens(content) == "{" else content
    return tuple([_known(block) for block in blocks_in(listed)])


def _known(block: Block) -> Block:
    """Return a raw block as a thought or an image, if it is one."""
    own = (raw_members(bytes(block.json)) or {}) if isinstance(block, RawBlock) else {}
    kind, thought = own.get("type"), own.get("think", b"")
    if kind == b'"think"' and thought[:1] == b'"':
        return ThinkingBlock(Raw(thought), text_in(own.get("encrypted", b"")) or None)
    url = (raw_members(own.get("image_url", own.get("imageUrl", b"null"))) or {}).get("url", b"")
    return (image_at(url) if kind == b'"image_url"' else None) or block


def call_of(call: KimiCall, uuid: str, response: str) -> ToolCall:
    """Return the item of a call; without arguments it has an empty object."""
    function = call.function or CalledFunction(call.name, call.arguments)
    given = function.arguments
    given = _NO_INPUT if is_absent(given) or given == _EMPTY else given
    return called(uuid, call.id or uuid, function.name, given, response)


def output_of(content: Raw, note: Raw = NULL) -> Raw:
    """Return a result as the model sees it, a text or blocks; the client's note for the model follows it."""
    has_note = opens(note) == '"' and note != _EMPTY
    if opens(content) == '"':
        return Raw(bytes(content)[:-1] + b"\\n" + bytes(note)[1:]) if has_note else content
    blocks = (*blocks_of(content), *((TextBlock(note),) if has_note else ()))
    return result_of(blocks)


def billed(usage: KimiUsage | CamelUsage, client: str, dialect: str) -> e.Usage:
    """Return usage in lore's counts."""
    counts = usage.input_other, usage.input_cache_read, usage.input_cache_creation, usage.output
    return usage_without_cached_input(*counts, client=client, dialect=dialect)
