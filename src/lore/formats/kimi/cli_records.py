"""Records of Kimi CLI's two files of a session, decoded as far as a timeline needs them.

In: a line of `wire.jsonl` (what the screen was told) or of `context.jsonl` (what the model is sent). Out: a record.
Rules: a line is decoded once, what an event of the screen says when it is wanted; content stays raw; a wrong type of a
field that is read raises ValueError.

Source: `wire/types.py`, `wire/file.py`, `soul/context.py` and kosong's `message.py` of kimi-cli, wire protocol 1.10 and
before (July 2026).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.kimi.content import KimiCall, KimiUsage
from lore.model import lenient
from lore.model.items import NULL

T = TypeVar("T", bound=Struct)


class KimiCliEnvelope(Struct, frozen=True, gc=False):
    """An event: its type says what its payload is."""

    type: str
    payload: Raw = NULL


class KimiCliRecord(Struct, frozen=True, gc=False):
    """One line of either file: a line of `context.jsonl` has a role."""

    role: str | None = None
    content: Raw = NULL
    tool_calls: tuple[KimiCall, ...] | None = None
    tool_call_id: str | None = None
    token_count: int | None = None
    type: str | None = None
    timestamp: Raw = NULL
    message: KimiCliEnvelope | None = None


class Value(Struct, frozen=True, gc=False):
    """What a tool returned: what it put out, and what the client says of it to the model."""

    is_error: bool = False
    output: Raw = NULL
    message: Raw = NULL


class KimiCliPayload(Struct, frozen=True, gc=False):
    """What an event says; which fields there are depends on its type. Older clients said `task_tool_call_id`."""

    user_input: Raw = NULL
    token_usage: KimiUsage | None = None
    message_id: str | None = None
    plan_mode: bool | None = None
    tool_call_id: str = ""
    return_value: Value | None = None
    agent_id: str | None = None
    parent_tool_call_id: str | None = None
    task_tool_call_id: str | None = None
    event: KimiCliEnvelope | None = None


decode = lenient.decoding(KimiCliRecord)
PAYLOAD = msgspec.json.Decoder(KimiCliPayload)
CALL = msgspec.json.Decoder(KimiCall)


def said(envelope: KimiCliEnvelope, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode what an event says; ValueError where it is none."""
    return lenient.decoded(decoder, envelope.payload)
