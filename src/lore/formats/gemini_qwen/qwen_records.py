"""Records of Qwen Code's chats, decoded as far as a timeline needs them.

In: a line. Out: a `QwenRecord`. Rules: a line is decoded once; content stays raw; a wrong type of a field that is read
raises ValueError.

Source: `chatRecordingService.ts` and `agent-transcript.ts` of qwen-code, October 2026.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.items import NULL

TYPES = frozenset(("user", "assistant", "tool_result", "system"))


class QwenMessage(Struct, frozen=True, gc=False):
    """A `Content`: what was sent or answered, as the API has it."""

    role: str = ""
    parts: Raw = NULL


class QwenUsage(Struct, frozen=True, gc=False, rename="camel"):
    """A bill in Gemini's words: the prompt includes what was cached."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class CallResult(Struct, frozen=True, gc=False, rename="camel"):
    """What the screen was told of a result."""

    status: str = ""


class QwenOrigin(Struct, frozen=True, gc=False, rename="camel"):
    """Where a record of a branched session was copied from."""

    session_id: str | None = None


class QwenRecord(Struct, frozen=True, gc=False, rename="camel"):
    """One line."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    subtype: str | None = None
    version: str | None = None
    message: QwenMessage | None = None
    usage_metadata: QwenUsage | None = None
    model: str | None = None
    tool_call_result: CallResult | None = None
    system_payload: Raw = NULL
    agent_id: str | None = None
    is_sidechain: bool | None = None
    forked_from: QwenOrigin | None = None


class Compression(Struct, frozen=True, gc=False, rename="camel"):
    """Sizes of a history before and after, in tokens."""

    original_token_count: int | None = None
    new_token_count: int | None = None


class QwenPayload(Struct, frozen=True, gc=False, rename="camel"):
    """What a system record says; which fields there are depends on its subtype."""

    info: Compression | None = None
    compressed_history: tuple[QwenMessage, ...] | None = None
    phase: str = ""
    raw_command: str = ""
    sent_to_model: bool | None = None
    history: tuple[QwenMessage, ...] = ()
    system_instruction: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    auth_type: str = ""
    mode: str = ""
    hook_context: str = ""


decode = lenient.decoding(QwenRecord)
_PAYLOAD = msgspec.json.Decoder(QwenPayload)


def payload_of(record: QwenRecord) -> QwenPayload:
    """Decode what a system record says; ValueError where it is none."""
    raw = bytes(record.system_payload)
    if raw == b"null":
        return QwenPayload()
    return lenient.decoded(_PAYLOAD, raw)
