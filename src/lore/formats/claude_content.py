"""Content of Claude Code's messages, in lore's items and blocks, and its bills in lore's counts.

Shapes counted over 769 sessions, versions 1.0 to 2.1: text, thinking (text often empty, with a
signature), tool_use, tool_result (text or list), image (base64), and blocks to come, kept verbatim.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from lore.formats.claude_records import (
    Creation,
    Diagnostics,
    Image,
    Other,
    Part,
    Plain,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    is_text,
    parts_of,
)  # fmt: skip
from lore.model.canonical import encode, text_of
from lore.model.events import Billed, Verdict
from lore.model.items import (
    AssistantMessage,
    Block,
    ImageBlock,
    Item,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
)

_EMPTY = Raw(b'""')


def prompt_of(uuid: str, parts: Sequence[Part], source: str) -> UserMessage:
    """Convert a user's message, which is one text or several parts."""
    whole = parts[0] if len(parts) == 1 else None
    if type(whole) is Plain:
        return UserMessage(uuid, text=whole.text, source=source)
    return UserMessage(uuid, blocks=tuple(map(block_of, parts)), source=source)


def block_of(part: Part) -> Block:
    """Convert a block; a call or result in a place where none belongs is kept as the block that it is."""
    if type(part) is Text:
        return TextBlock(part.text)
    match part:
        case Text(text=text) | Plain(text=text):
            return TextBlock(text)
        case Thinking(thinking=text, signature=signature):
            return ThinkingBlock(text, signature)
        case Image(source=source):
            return ImageBlock(source.media_type, source.data)
        case Other(json=raw):
            return RawBlock(raw)
        case ToolUse() | ToolResult():
            return RawBlock(Raw(msgspec.json.encode(part)))


def spoken(uuid: str, part: Part, stop_reason: str | None, response: str) -> Item:
    """Convert a part of a response: a call, or something said."""
    if type(part) is ToolUse:
        return ToolCall(uuid, part.id, part.name, part.input, response_id=response)
    if type(part) is Plain:
        return AssistantMessage(uuid, text=part.text, response_id=response)
    return AssistantMessage(uuid, blocks=(block_of(part),), stop_reason=stop_reason, response_id=response)


def output_of(content: Raw) -> Raw:
    """Convert a result's content: a text stays, a list becomes lore's blocks, nothing an empty text."""
    if is_text(content):
        return content
    text = bytes(content)
    if text[:1] == b"[":
        return Raw(b"[" + b",".join([msgspec.json.encode(block_of(part)) for part in parts_of(text)]) + b"]")
    return _EMPTY if text == b"null" else Raw(b'[{"type":"raw","json":' + text + b"}]")


def summary_of(parts: Sequence[Part]) -> Raw:
    """Return a summary's text, from a text or from the text blocks of a list."""
    if len(parts) == 1 and isinstance(parts[0], Plain):
        return parts[0].text
    return Raw(encode("\n\n".join([text_of(bytes(part.text)) for part in parts if isinstance(part, Text)])))


def billed(usage: Usage | None) -> Billed | None:
    """Read usage in lore's counts."""
    if usage is None:
        return None
    split = usage.cache_creation or Creation()
    return Billed(
        uncached_tokens=usage.input_tokens,
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
