"""Lines of Claude Code's logs, as far as lore reads them, and how they are decoded.

Two lanes: the second, slow one is for lone surrogates and for records that are spelled in snake_case, as the live
stream writes them. A message is decoded when it is asked for, its content in one pass, or block by block where some
have other shapes.

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
from msgspec.structs import replace

from lore.formats.bills import billed_of
from lore.formats.values import Other, Parts, opens, text_in
from lore.model import lenient
from lore.model.events import Usage
from lore.model.items import NULL, TextBlock, is_absent
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked
from lore.model.state import LONGEST

# Lines that say nothing to the model, by the types counted up to 2.1.219.
METADATA = frozenset((
    "progress", "file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt", "mode",
    "permission-mode", "custom-title", "ai-title", "agent-name", "pr-link", "bridge-session", "summary", "frame-link",
    "tag",
))  # fmt: skip
TITLES = frozenset(("custom-title", "ai-title", "summary"))
MODELLED = frozenset(("user", "assistant", "system", "attachment"))
MARKERS = (b'"sessionId"', b'"session_id"', b'"leafUuid"', b'"messageId"')


class ClaudeThinking(Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag="thinking"):
    """Reasoning; newer versions keep only its signature."""

    thinking: Raw
    signature: str | None = None


class ClaudeToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    """A call; what else versions to come may say of it (as `caller` today) is passed over."""

    id: str
    name: str
    input: Raw


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    """The result of a call: a text, a list of blocks, or nothing."""

    tool_use_id: str
    content: Raw = NULL
    is_error: bool | None = None


class ClaudeSource(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An image's bytes, in base64."""

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
    """`message` of a user or assistant line."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Raw = NULL
    diagnostics: Raw = NULL
    content: Raw = NULL


class ClaudeRecord(Struct, frozen=True, gc=False, rename="camel"):
    """One line."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    origin: Raw = NULL
    forked_from: Raw = NULL
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    compact_metadata: Raw = NULL
    microcompact_metadata: Raw = NULL
    version: Raw = NULL
    effort: Raw = NULL
    permission_mode: Raw = NULL
    thinking_metadata: Raw = NULL
    message: Raw = NULL


_MACHINES = (b"task-notification",)  # kinds of `origin` that are no person's; what has another is a person's


def source_of(record: ClaudeRecord) -> str:
    """Return whose a user's message is: put in by a harness beside others, sent by it by itself, or a person's."""
    if record.is_meta:
        return "context_injection"
    kind = b"" if record.origin == NULL else (raw_members(bytes(record.origin)) or {}).get("kind", b"")
    return "tick" if kind[1:-1] in _MACHINES else "user"


def fork_source(record: ClaudeRecord) -> str:
    """Return the session that a fork's line was copied from; empty if the line is the session's own."""
    return (
        ""
        if is_absent(record.forked_from)
        else text_in((raw_members(bytes(record.forked_from)) or {}).get("sessionId", b""))
    )


class Preserved(Struct, frozen=True, rename="camel"):
    """What a compaction kept, by uuid; None where it names none."""

    uuids: tuple[str, ...] | None = None


class PreservedSegment(Struct, frozen=True, rename="camel"):
    """What a compaction kept, as the first and the last line of a path of parents."""

    head_uuid: str | None = None
    tail_uuid: str | None = None


class Compact(Struct, frozen=True, rename="camel"):
    """`compactMetadata` and `microcompactMetadata`, in either spelling."""

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_ms: int | float | None = None
    preserved_messages: Preserved | None = None
    preserved_segment: PreservedSegment | None = None
    compacted_tool_ids: tuple[str, ...] | None = None


_PARTS = Parts[Known](
    Known,
    {TextBlock: attrgetter("text"), ClaudeThinking: attrgetter("thinking"), ClaudeImage: attrgetter("source.data")},
)
_RECORD = msgspec.json.Decoder(ClaudeRecord)
_MESSAGE = msgspec.json.Decoder(ClaudeMessage)
_COMPACT = msgspec.json.Decoder(Compact)
_UNDERSCORED = re.compile(rb'"[a-z]+_')
_SNAKE = re.compile(
    rb'"(?:parent_uuid|(?:micro)?compact_metadata|is_(?:sidechain|meta|compact_summary|visible_in_transcript_only))"'
)


def decode_record(data: bytes) -> ClaudeRecord | None:
    """Decode a line; None where it is no record, or a field has the wrong type."""
    try:
        if not data.isascii():
            data.decode("utf-8")  # msgspec does not look inside strings that it skips
        record = lenient.decoded(_RECORD, data)
        if record.parent_uuid is not None or record.uuid is None or _SNAKE.search(data) is None:
            return record
    except (ValueError, RecursionError):
        if _SNAKE.search(data) is None:
            return None
    try:
        data.decode("utf-8")
        return lenient.convert(data, ClaudeRecord)
    except (ValueError, RecursionError):
        return None


def compact_of(raw: bytes) -> Compact:
    """Decode a compaction's metadata, in either spelling; raises ValueError where it has wrong types."""
    if _UNDERSCORED.search(raw) is not None:
        return lenient.convert(raw, Compact)
    return Compact() if raw == b"null" else _COMPACT.decode(raw)


def message_of(record: ClaudeRecord) -> ClaudeMessage:
    """Decode the message of a line; ValueError where there is none."""
    if is_absent(record.message):
        raise ValueError("content is neither text nor blocks")
    return lenient.decoded(_MESSAGE, record.message)


def parts_in(message: ClaudeMessage) -> Sequence[Part]:
    """Return what a message is made of; ValueError where that is neither a text nor blocks."""
    match opens(message.content):
        case '"':
            return [Plain(message.content)]
        case "[":
            return _PARTS.decode(message.content)
        case _:
            raise ValueError("content is neither text nor blocks")


def parts_of(content: bytes) -> list[Part]:
    """Decode an array of content blocks; what has another shape stays verbatim."""
    return list(_PARTS.decode(content))


def billed(usage: Raw, version: Raw) -> Usage | None:
    """Read usage in lore's counts, as a version of Claude Code noted it."""
    bill = billed_of(bytes(usage))
    client = _client(bytes(version))
    return bill if bill is None or not client else replace(bill, client=client)


@lru_cache(64)
def _client(version: bytes) -> str:
    return f"claude-code {shown(Raw(version))}" if version[:1] == b'"' else ""


def shown(raw: Raw) -> str:
    """Return how a standing field is shown."""
    return cut_masked(bytes(raw).decode("utf-8", "replace").strip('"'), LONGEST)
