"""Items of the timeline and the blocks of their content: what `append` carries and the fold keeps.

Rules: immutable; content is JSON text as it was recorded (`Raw`, a slice of its line), so that what a
writer spelled is what an assembler writes again; only what must be compared (ids, kinds, names) is
decoded. `NULL` stands for content that is absent. None can be part of a cycle: the garbage collector is
told to leave them alone, for there are many.

Shapes: lore's session log, version 1 (the README of this package names the contract).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.canonical import text_of

NULL = Raw(b"null")


class _Tagged(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="type"):
    """What items and blocks have in common: told apart by `type`, and strict about their fields."""


class RawBlock(_Tagged, frozen=True, omit_defaults=True, tag="raw"):
    """A block of a provider's own shape, verbatim; `dialect` is whose, None: its shape tells."""

    json: Raw
    dialect: str | None = None


class TextBlock(_Tagged, frozen=True, omit_defaults=True, tag="text"):
    """Text; `text` is a JSON string. `raw` is the block as its provider gave it, where that says more."""

    text: Raw
    raw: RawBlock | None = None


class ThinkingBlock(_Tagged, frozen=True, omit_defaults=True, tag="thinking"):
    """A model's reasoning, with the provider's signature where it gave one."""

    text: Raw
    signature: str | None = None


class ImageBlock(_Tagged, frozen=True, tag="image"):
    """An image in base64; `data` is a JSON string."""

    media_type: str
    data: Raw


Block: TypeAlias = TextBlock | ThinkingBlock | ImageBlock | RawBlock
Status: TypeAlias = Literal["running", "completed", "failed"]


class UserMessage(_Tagged, frozen=True, omit_defaults=True, tag="user_message"):
    """What a user, or a harness in the user's place (`source`), said. Either `text` or `blocks`."""

    uuid: str
    text: Raw = NULL
    blocks: tuple[Block, ...] | None = None
    source: str = "user"


class AssistantMessage(_Tagged, frozen=True, omit_defaults=True, tag="assistant_message"):
    """What the model said. Either `text` or `blocks`. Items of one `response_id` are one response."""

    uuid: str
    text: Raw = NULL
    blocks: tuple[Block, ...] | None = None
    stop_reason: str | None = None
    response_id: str | None = None


class ToolCall(_Tagged, frozen=True, omit_defaults=True, tag="tool_call"):
    """A tool call together with its result; `output` is a JSON string or an array of blocks, `error` a string.

    `raw` is the call as its provider gave it, where that says more than name and input.
    """

    uuid: str
    call_id: str
    name: str
    input: Raw
    status: Status = "running"
    output: Raw = NULL
    error: Raw = NULL
    detail: Raw = NULL
    response_id: str | None = None
    raw: RawBlock | None = None


class CompactDivider(_Tagged, frozen=True, omit_defaults=True, tag="compact_divider"):
    """Where a compaction pruned `pruned` items; `summary` is a JSON string, `trigger` the word that was recorded."""

    uuid: str
    trigger: str
    pre_tokens: int | None = None
    post_tokens: int | None = None
    summary: Raw = NULL
    pruned: int = 0
    duration_ms: int | float | None = None


class OpaqueItem(_Tagged, frozen=True, tag="opaque"):
    """A record that stands in the timeline though lore cannot model it, verbatim."""

    uuid: str
    record: Raw


Item: TypeAlias = UserMessage | AssistantMessage | ToolCall | CompactDivider | OpaqueItem


def is_absent(raw: Raw) -> bool:
    """Tell whether optional content is missing (or an explicit null)."""
    return raw == NULL  # compares lengths first, and copies nothing


def is_blank(text: Raw | bytes) -> bool:
    """Tell whether a JSON string says nothing but white space: providers refuse such a text. O(1) for long ones."""
    start = bytes(memoryview(text)[1:65]).lstrip(b" ")[:1]
    if start and start not in b'\\"':
        return False
    return not text_of(bytes(text)).strip(" \t\r\n\f\v")


def blocks_of(raw: bytes) -> tuple[Block, ...]:
    """Decode an array of blocks; raises ValueError where it is none."""
    try:
        return _BLOCKS.decode(raw)
    except msgspec.DecodeError:
        return lenient.convert(raw, tuple[Block, ...])


_BLOCKS = msgspec.json.Decoder(tuple[Block, ...])
