"""Records of Claude Code's logs: their schema, how they are decoded, and the items that content becomes.

The live stream of the SDK writes the same records in snake_case. Content is decoded in one pass, or block by block if
some blocks have an unknown shape; those are kept verbatim.

Source: counts over 769 public sessions, versions 1.0 to 2.1; the types of Anthropic's SDK.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.formats.bills import billed_of
from lore.formats.values import Other, Parts, opens, text_in
from lore.model import items, lenient
from lore.model.canonical import encode, text_of
from lore.model.events import Usage
from lore.model.items import NULL, TextBlock, is_absent
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked
from lore.model.state import LONGEST

TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}  # types of records, and the field
# Types of records that the model never sees, counted up to 2.1.219.
METADATA = frozenset((
    *TITLES, "progress", "file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt", "mode",
    "permission-mode", "agent-name", "pr-link", "bridge-session", "frame-link", "tag",
))  # fmt: skip
MODELLED = frozenset(("user", "assistant", "system", "attachment"))
_MESSAGES = frozenset(("user", "assistant"))
_TYPES = METADATA | MODELLED
MARKERS = (b'"sessionId"', b'"session_id"', b'"leafUuid"', b'"messageId"')  # one of them is in every record


class ClaudeThinking(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="thinking"):
    """Reasoning; newer versions keep only its signature."""

    thinking: Raw
    signature: str | None = None


class ClaudeToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    """A tool call. Unknown members, as `caller`, are ignored."""

    id: str
    name: str
    input: Raw


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    """The result of a call."""

    tool_use_id: str
    content: Raw = NULL  # a text, a list of blocks, or absent
    is_error: bool | None = None


class ClaudeSource(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The bytes of an image."""

    type: Literal["base64"]
    media_type: str
    data: Raw


class ClaudeImage(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="image"):
    """An image."""

    source: ClaudeSource


class Plain(Struct, frozen=True, gc=False):
    """Content that is a text, not a list of blocks."""

    text: Raw


Known: TypeAlias = TextBlock | ClaudeThinking | ClaudeToolUse | ToolResult | ClaudeImage
Part: TypeAlias = Known | Plain | Other


class ClaudeMessage(Struct, frozen=True, gc=False):
    """`message` of a user or assistant record."""

    id: str | None = None  # of the response
    model: str | None = None
    stop_reason: str | None = None
    usage: Raw = NULL
    diagnostics: Raw = NULL  # the provider's verdict about a cache miss
    content: Raw = NULL


class ClaudeEnvelope(Struct, frozen=True, gc=False, rename="camel"):
    """One line, without its message."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool | None = None  # of a subagent
    agent_id: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    origin: Raw = NULL
    forked_from: Raw = NULL  # the record that a fork copied
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    compact_metadata: Raw = NULL
    microcompact_metadata: Raw = NULL
    version: Raw = NULL
    effort: Raw = NULL
    permission_mode: Raw = NULL
    thinking_metadata: Raw = NULL
    plan_content: Raw = NULL  # the accepted plan that a new conversation begins with


class ClaudeRecord(ClaudeEnvelope, frozen=True, rename="camel"):
    """One line."""

    message: ClaudeMessage | None = None


class Preserved(Struct, frozen=True, rename="camel"):
    """What a compaction kept, by uuid."""

    uuids: tuple[str, ...] | None = None


class PreservedSegment(Struct, frozen=True, rename="camel"):
    """What a compaction kept, as the first and the last record of a path of parents."""

    head_uuid: str | None = None
    tail_uuid: str | None = None


class Compact(Struct, frozen=True, rename="camel"):
    """`compactMetadata` and `microcompactMetadata`."""

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_ms: int | float | None = None
    preserved_messages: Preserved | None = None
    preserved_segment: PreservedSegment | None = None
    compacted_tool_ids: tuple[str, ...] | None = None  # calls whose results were cleared


_PARTS = Parts[Known](
    Known,
    {TextBlock: attrgetter("text"), ClaudeThinking: attrgetter("thinking"), ClaudeImage: attrgetter("source.data")},
)
_RECORD = msgspec.json.Decoder(ClaudeRecord)
_ENVELOPE = msgspec.json.Decoder(ClaudeEnvelope)
_COMPACT = msgspec.json.Decoder(Compact)
_UNDERSCORED = re.compile(rb'"[a-z]+_')
_SNAKE = re.compile(
    rb'"(?:parent_uuid|(?:micro)?compact_metadata|is_(?:sidechain|meta|compact_summary|visible_in_transcript_only))"'
)


# decoding


def decode_record(data: bytes) -> ClaudeRecord:
    """Decode a line in either spelling; raise ValueError if it is not a record or a field has the wrong type.

    In a record that is not a message, `message` may be anything.
    """
    try:
        record = lenient.decoded(_RECORD, data)
        if record.parent_uuid is not None or record.uuid is None or _SNAKE.search(data) is None:
            return record
    except (ValueError, RecursionError):
        if _SNAKE.search(data) is None:
            envelope = lenient.decoded(_ENVELOPE, data)
            if envelope.type in _MESSAGES:
                raise
            return ClaudeRecord(**msgspec.structs.asdict(envelope))
    return lenient.convert(data, ClaudeRecord)


def is_record(line: bytes) -> bool:
    """Return whether a line is a record of a known type."""
    if not any(marker in line for marker in MARKERS):
        return False
    try:
        line.decode("utf-8")
        return decode_record(line).type in _TYPES
    except (ValueError, RecursionError):
        return False


def compaction_of(metadata: Raw) -> Compact:
    """Decode a compaction's metadata in either spelling; raise ValueError if a field has the wrong type."""
    if is_absent(metadata):
        return Compact()
    raw = bytes(metadata)
    return _COMPACT.decode(raw) if _UNDERSCORED.search(raw) is None else lenient.convert(raw, Compact)


def message_of(record: ClaudeRecord) -> ClaudeMessage:
    """Return the message of a record; raise ValueError if it has none."""
    if record.message is None:
        raise ValueError("content is neither text nor blocks")
    return record.message


def parts_of(content: Raw) -> Sequence[Part]:
    """Return the parts of a message; raise ValueError if the content is neither a text nor a list of blocks."""
    match opens(content):
        case '"':
            return [Plain(content)]
        case "[":
            return _PARTS.decode(content)
        case _:
            raise ValueError("content is neither text nor blocks")


def source_of(record: ClaudeRecord) -> str:
    """Return who wrote a user message: a person, the scheduler (`tick`) or the client (`context_injection`)."""
    if record.is_meta:
        return "context_injection"
    kind = b"" if is_absent(record.origin) else (raw_members(bytes(record.origin)) or {}).get("kind", b"")
    return "tick" if kind == b'"task-notification"' else "user"


def fork_source(record: ClaudeRecord) -> str:
    """Return the session that a fork copied the record from; empty if the session wrote it itself."""
    fork = record.forked_from
    return "" if is_absent(fork) else text_in((raw_members(bytes(fork)) or {}).get("sessionId", b""))


def billed(usage: Raw, version: Raw) -> Usage | None:
    """Return usage as a version of Claude Code noted it."""
    return billed_of(usage, client=_client(bytes(version)))


@lru_cache(64)
def _client(version: bytes) -> str:
    return f"claude-code {shown(Raw(version))}" if version[:1] == b'"' else ""


def shown(raw: Raw) -> str:
    """Return the value of a setting as it is shown."""
    return cut_masked(bytes(raw).decode("utf-8", "replace").strip('"'), LONGEST)


# items


def prompt_item(uuid: str, parts: Sequence[Part], source: str) -> items.UserMessage:
    """Return a user's message of one text or of several parts."""
    if len(parts) == 1 and isinstance(parts[0], Plain):
        return items.UserMessage(uuid, text=parts[0].text, source=source)
    return items.UserMessage(uuid, blocks=tuple(map(_block_of, parts)), source=source)


def response_item(uuid: str, part: Part, stop_reason: str | None, response: str) -> items.Item:
    """Return a part of a response: a call, or something that the model said."""
    if type(part) is ClaudeToolUse:
        return items.ToolCall(uuid, part.id, part.name, part.input, response_id=response)
    if type(part) is Plain:
        return items.AssistantMessage(uuid, text=part.text, response_id=response)
    return items.AssistantMessage(uuid, blocks=(_block_of(part),), stop_reason=stop_reason, response_id=response)


def _block_of(part: Part) -> items.Block:
    match part:
        case TextBlock():
            return part
        case Plain(text=text):
            return TextBlock(text)
        case ClaudeThinking(thinking=text, signature=signature):
            return items.ThinkingBlock(text, signature)
        case ClaudeImage(source=source):
            return items.ImageBlock(source.media_type, source.data)
        case Other(json=raw):
            return items.RawBlock(raw)
        case ClaudeToolUse() | ToolResult():  # in a place where it does not belong
            return items.RawBlock(Raw(msgspec.json.encode(part)))


def output_of(content: Raw) -> Raw:
    """Return a result as lore keeps it: a text as it is, a list as blocks, nothing as an empty text."""
    match opens(content):
        case '"':
            return content
        case "[":
            return Raw(b"[%b]" % b",".join([msgspec.json.encode(_block_of(part)) for part in parts_of(content)]))
        case "n":
            return Raw(b'""')
        case _:
            return Raw(b'[{"type":"raw","json":%b}]' % bytes(content))


def summary_of(parts: Sequence[Part]) -> Raw:
    """Return the text of a summary that is one text or a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], Plain):
        return parts[0].text
    return Raw(encode("\n\n".join([text_of(bytes(part.text)) for part in parts if isinstance(part, TextBlock)])))
