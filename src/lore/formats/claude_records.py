"""Lines of Claude Code's logs as far as lore reads them, and what its reader remembers between lines."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from lore.model import events as e
from lore.model import lenient
from lore.model.items import NULL

# Lines that say nothing to the model, by the types counted up to 2.1.219.
METADATA = frozenset(
    [
        "progress",
        "file-history-snapshot",
        "file-history-delta",
        "queue-operation",
        "last-prompt",
        "mode",
        "permission-mode",
        "custom-title",
        "ai-title",
        "agent-name",
        "pr-link",
        "bridge-session",
        "summary",
        "frame-link",
        "tag",
    ]
)
MODELLED = frozenset(("user", "assistant", "system", "attachment"))
MARKERS = (b'"sessionId"', b'"session_id"', b'"leafUuid"', b'"messageId"')


class Preserved(Struct, frozen=True, rename="camel"):
    """What a compaction kept, by uuid."""

    uuids: tuple[str, ...] = ()


class Compact(Struct, frozen=True, rename="camel"):
    """`compactMetadata` and `microcompactMetadata`."""

    trigger: str = "manual"
    pre_tokens: int | None = None
    post_tokens: int | None = None
    preserved_messages: Preserved | None = None
    compacted_tool_ids: tuple[str, ...] = ()


class Record(Struct, frozen=True, rename="camel"):
    """One line, as far as lore reads it."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    message: Raw = NULL
    compact_metadata: Compact | None = None
    microcompact_metadata: Compact | None = None


class Held(Struct, frozen=True):
    """An event that waits, with the place where it was read."""

    line: int
    byte: int
    event: e.Append


class ChainMemory(Struct):
    """What the reader remembers of one chain."""

    response: str | None = None
    turn: int = 0
    model: str | None = None
    usage: e.Billed | None = None
    verdict: e.Verdict | None = None
    answered_at: str | None = None
    asked_at: str | None = None
    seen: dict[str, int] = {}
    boundary: e.CompactApplied | None = None
    held: list[Held] = []
    order: list[str] = []
    prompts: dict[str, str] = {}


class Memory(Struct):
    """All that the reader remembers."""

    number: int = 0
    byte: int = 0
    pending: bytes = b""
    last: tuple[int, int] = (0, 0)
    session: str | None = None
    parents: dict[str, str | None] = {}
    items: dict[str, tuple[str, ...]] = {}
    side: dict[str, str] = {}
    sides: int = 0
    chains: dict[str, ChainMemory] = {}


_RECORD = msgspec.json.Decoder(Record)


def decode_record(data: bytes) -> Record | None:
    """Decode a line; None where it is no record, or a field has the wrong type."""
    try:
        record = _RECORD.decode(data)
        if not data.isascii():
            data.decode("utf-8")
        return record
    except msgspec.ValidationError:
        return None
    except (ValueError, RecursionError):
        try:
            return lenient.convert(data, Record)
        except (ValueError, RecursionError):
            return None
