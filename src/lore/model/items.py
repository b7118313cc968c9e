"""Items of the timeline and the blocks of their content, as lore's session log (version 1) writes them.

Items are immutable. Content is JSON as it was recorded (`Raw`, a slice of its line), so that an assembler writes the
same bytes again; only ids, kinds and names are decoded. Absent content is `NULL`. No item can be part of a reference
cycle: the garbage collector need not look at them, and there are many.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.canonical import text_of

NULL = Raw(b"null")


class _Tagged(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="type"):
    """The base of items and blocks: `type` says which one it is; unknown fields are refused."""


class RawBlock(_Tagged, frozen=True, omit_defaults=True, tag="raw"):
    """A block in the shape of a provider's API, verbatim."""

    json: Raw  # the block as it was recorded
    dialect: str | None = None  # whose API; None: the shape shows it


class TextBlock(_Tagged, frozen=True, omit_defaults=True, tag="text"):
    """Text."""

    text: Raw  # a JSON string
    raw: RawBlock | None = None  # the block as the provider wrote it, if it has more than the text


class ThinkingBlock(_Tagged, frozen=True, omit_defaults=True, tag="thinking"):
    """A model's reasoning."""

    text: Raw  # a JSON string
    signature: str | None = None  # the provider's, which it wants back


class ImageBlock(_Tagged, frozen=True, tag="image"):
    """An image."""

    media_type: str  # such as `image/png`
    data: Raw  # base64 in a JSON string


Block: TypeAlias = TextBlock | ThinkingBlock | ImageBlock | RawBlock
Status: TypeAlias = Literal["running", "completed", "failed"]


class UserMessage(_Tagged, frozen=True, omit_defaults=True, tag="user_message"):
    """A message in the user's role, with either `text` or `blocks`."""

    uuid: str  # names the item in the session
    text: Raw = NULL  # a JSON string
    blocks: tuple[Block, ...] | None = None  # None: the content is in `text`
    source: str = "user"  # or `context_injection` (added by lore or a harness), or `tick` (scheduled)


class AssistantMessage(_Tagged, frozen=True, omit_defaults=True, tag="assistant_message"):
    """A message of the model, with either `text` or `blocks`."""

    uuid: str  # names the item in the session
    text: Raw = NULL  # a JSON string
    blocks: tuple[Block, ...] | None = None  # None: the content is in `text`
    stop_reason: str | None = None  # why the model stopped, in the provider's word
    response_id: str | None = None  # items of one response have the same


class ToolCall(_Tagged, frozen=True, omit_defaults=True, tag="tool_call"):
    """A tool call together with its result."""

    uuid: str  # names the item in the session
    call_id: str  # the provider's id of the call
    name: str  # of the tool
    input: Raw  # its arguments as JSON
    status: Status = "running"  # completed or failed once the result is known
    output: Raw = NULL  # a JSON string or an array of blocks
    error: Raw = NULL  # a JSON string
    detail: Raw = NULL  # what the client noted of the result, in any shape
    response_id: str | None = None  # items of one response have the same
    raw: RawBlock | None = None  # the call as the provider wrote it, if it has more than name and input


class CompactDivider(_Tagged, frozen=True, omit_defaults=True, tag="compact_divider"):
    """The place where a compaction pruned items."""

    uuid: str  # names the item in the session
    trigger: str  # the recorded word
    pre_tokens: int | None = None  # tokens of the context before the compaction
    post_tokens: int | None = None  # and after it
    summary: Raw = NULL  # a JSON string
    pruned: int = 0  # number of items that were pruned
    duration_ms: int | float | None = None  # how long the compaction took


class OpaqueItem(_Tagged, frozen=True, tag="opaque"):
    """A record of the timeline that lore does not understand, verbatim."""

    uuid: str  # names the item in the session
    record: Raw  # JSON as it was read


Item: TypeAlias = UserMessage | AssistantMessage | ToolCall | CompactDivider | OpaqueItem


def is_absent(raw: Raw) -> bool:
    """Return whether optional content is missing or null."""
    return raw == NULL  # compares lengths first, and copies nothing


def is_blank(text: Raw | bytes) -> bool:
    """Return whether a JSON string holds only white space, which providers refuse. Costs O(1) for a long text."""
    start = bytes(memoryview(text)[1:65]).lstrip(b" ")[:1]
    if start and start not in b'\\"':
        return False
    return not text_of(bytes(text)).strip(" \t\r\n\f\v")


def blocks_of(raw: bytes) -> tuple[Block, ...]:
    """Decode an array of blocks; raises ValueError for anything else."""
    try:
        return _BLOCKS.decode(raw)
    except msgspec.DecodeError:
        return lenient.convert(raw, tuple[Block, ...])


_BLOCKS = msgspec.json.Decoder(tuple[Block, ...])


def text_in(item: Item) -> str:
    """Return the text of a message, the error or else the output of a call, or the summary of a compaction.

    Of blocks only texts count; of an output that is another JSON value its JSON is returned, of an opaque item nothing.
    """
    blocks: tuple[Block, ...] | None = None
    match item:
        case UserMessage() | AssistantMessage():
            raw, blocks = bytes(item.text), item.blocks
        case ToolCall():
            raw = bytes(item.output if is_absent(item.error) else item.error)
            with suppress(ValueError, RecursionError):
                blocks = blocks_of(raw) if raw[:1] == b"[" else None
        case CompactDivider():
            raw = bytes(item.summary)
        case OpaqueItem():
            return ""
    if blocks is not None:
        return "\n".join(text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock))
    return "" if raw == b"null" else text_of(raw)
