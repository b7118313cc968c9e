"""Content of Claude Code's messages, in lore's blocks.

Shapes counted over 769 sessions, versions 1.0 to 2.1: text, thinking (text often empty, with a
signature), tool_use, tool_result (string or list), image (base64), and blocks to come, kept verbatim.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.canonical import text_of
from lore.model.events import Billed, Verdict
from lore.model.items import NULL, Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, is_absent
from lore.model.jsonslice import array, members


class Part(Struct, frozen=True):
    """One content block as Claude Code writes it; only what lore reads."""

    type: str
    text: Raw = NULL
    thinking: Raw = NULL
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NULL
    tool_use_id: str | None = None
    content: Raw = NULL
    is_error: bool | None = None


class _Creation(Struct, frozen=True):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class Usage(Struct, frozen=True):
    """`message.usage`: input counts exclude what was read from or written to the cache."""

    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation: _Creation | None = None


class _Miss(Struct, frozen=True):
    type: str | None = None
    cache_missed_input_tokens: int | None = None


class Diagnostics(Struct, frozen=True):
    """`message.diagnostics`: the provider's own verdict on a cache miss."""

    cache_miss_reason: _Miss | str | None = None


class Message(Struct, frozen=True):
    """`message` of a user or assistant line."""

    content: Raw = NULL
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    diagnostics: Diagnostics | None = None


class Piece(NamedTuple):
    """A content block and the bytes it was read from."""

    part: Part
    raw: bytes


def message_of(raw: bytes) -> Message:
    """Decode a message; raises ValueError where it has the wrong types."""
    try:
        return _MESSAGE.decode(raw)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return lenient.convert(raw, Message)


_MESSAGE = msgspec.json.Decoder(Message)
_PART = msgspec.json.Decoder(Part)


def pieces_of(content: bytes) -> list[Piece]:
    """Decode an array of content blocks; raises ValueError where one has the wrong types."""
    return [Piece(_part(raw), raw) for raw in array(content)]


def _part(raw: bytes) -> Part:
    try:
        return _PART.decode(raw)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return lenient.convert(raw, Part)


def block_of(piece: Piece) -> Block:
    """Convert a block; what lore has no shape for stays verbatim."""
    part, raw = piece
    if part.type == "text" and bytes(part.text)[:1] == b'"':
        return TextBlock(part.text) if len(members(raw)) == 2 else RawBlock(Raw(raw))
    if part.type == "thinking" and bytes(part.thinking)[:1] == b'"':
        return ThinkingBlock(part.thinking, part.signature)
    return (_image(raw) if part.type == "image" else None) or RawBlock(Raw(raw))


def _image(raw: bytes) -> ImageBlock | None:
    table = {m.key: raw[m.value : m.end] for m in members(raw)}
    source = table.get("source", b"")
    inner = {m.key: source[m.value : m.end] for m in members(source)}
    kind, media, data = inner.get("type"), inner.get("media_type", b""), inner.get("data", b"")
    if kind != b'"base64"' or media[:1] != b'"' or data[:1] != b'"':
        return None
    return ImageBlock(text_of(media), Raw(data))


def output_of(content: Raw) -> Raw:
    """Convert a tool_result's content: a string stays, a list becomes lore's blocks."""
    text = bytes(content)
    if text[:1] == b'"' or is_absent(content):
        return content
    if text[:1] != b"[":
        return Raw(b'[{"type":"raw","json":' + text + b"}]")
    return Raw(b"[" + b",".join(encode_block(block_of(piece)) for piece in pieces_of(text)) + b"]")


def encode_block(block: Block) -> bytes:
    """Write one of lore's blocks, its content as it was spelled."""
    return msgspec.json.encode(block)


def billed(usage: Usage | None) -> Billed | None:
    """Read usage in lore's counts."""
    if usage is None:
        return None
    split = usage.cache_creation or _Creation()
    return Billed(
        fresh_tokens=usage.input_tokens,
        read_tokens=usage.cache_read_input_tokens,
        write_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
        write_5m_tokens=split.ephemeral_5m_input_tokens,
        write_1h_tokens=split.ephemeral_1h_input_tokens,
    )


def verdict_of(diagnostics: Diagnostics | None) -> Verdict | None:
    """Read the provider's verdict."""
    reason = None if diagnostics is None else diagnostics.cache_miss_reason
    if reason is None or reason == "":
        return None
    if isinstance(reason, str):
        return Verdict(reason, source="diagnostics")
    if reason.type is None:
        return None
    return Verdict(reason.type, reason.cache_missed_input_tokens, "diagnostics")
