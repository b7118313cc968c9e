"""Sessions, messages and parts of OpenCode (and Kilo CLI), decoded as far as a timeline needs them.

In: a message with its parts, `{info, parts[]}`. Out: a struct. Rules: one decoding for a message with its parts;
content stays raw; what a record holds besides is passed over. A wrong type of a field that is read raises ValueError.

Sources: counts over 503 public exports, versions 1.2.16 to 1.18.21; OpenCode's message-v2.ts and compaction.ts.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.items import NULL


class Time(Struct, frozen=True, gc=False):
    """Times in ms since 1970; `compacted` is when an output was taken out of later prompts."""

    created: Raw = NULL
    completed: Raw = NULL
    start: Raw = NULL
    end: Raw = NULL
    compacted: Raw = NULL


class Cached(Struct, frozen=True, gc=False):
    """What was read from a cache, and written to one."""

    read: int | None = None
    write: int | None = None


class OpenCodeTokens(Struct, frozen=True, gc=False):
    """Counts of tokens: `input` leaves out what was cached; `output` holds reasoning, or leaves it out."""

    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    total: int | None = None
    cache: Cached = Cached()


class OpenCodeFailure(Struct, frozen=True, gc=False):
    """Why a message has no whole response."""

    name: str = ""


class OpenCodeModel(Struct, frozen=True, gc=False):
    """What a user's message asks of a model."""

    variant: str | None = None


class OpenCodeInfo(Struct, frozen=True, gc=False, rename={"provider": "providerID", "asked": "modelID"}):
    """A message without its parts; `summary` is true of the response that a compaction asked for."""

    id: str = ""
    role: str = ""
    provider: str = ""
    asked: str | None = None
    agent: str | None = None
    variant: str | None = None
    model: Raw = NULL
    time: Time = Time()
    tokens: OpenCodeTokens | None = None
    error: OpenCodeFailure | None = None
    summary: Raw = NULL
    tools: dict[str, Raw] | None = None
    system: Raw = NULL


class OpenCodeState(Struct, frozen=True, gc=False):
    """What became of a call."""

    status: str = ""
    input: Raw = NULL
    output: Raw = NULL
    error: Raw = NULL
    time: Time | None = None
    attachments: list[OpenCodePart] | None = None


class OpenCodePart(Struct, frozen=True, gc=False, rename={"call_id": "callID"}):
    """A part of a message; which fields there are depends on its type."""

    type: str = ""
    id: str = ""
    text: Raw = NULL
    ignored: bool | None = None
    synthetic: bool | None = None
    tool: str = ""
    call_id: str = ""
    state: OpenCodeState | None = None
    mime: str = ""
    url: Raw = NULL
    metadata: Raw = NULL
    tokens: OpenCodeTokens | None = None
    auto: bool | None = None
    tail_start_id: str | None = None


class OpenCodeRecord(Struct, frozen=True, gc=False):
    """A message with its parts."""

    info: OpenCodeInfo
    parts: list[OpenCodePart] = []


class Reverted(Struct, frozen=True, gc=False, rename={"message": "messageID"}):
    """Up to where a session was taken back."""

    message: str = ""


class OpenCodeSession(Struct, frozen=True, gc=False, rename={"parent": "parentID"}):
    """A session."""

    id: str = ""
    parent: str | None = None
    version: str = ""
    time: Time = Time()
    revert: Reverted | None = None


class OpenCodeHead(Struct, frozen=True, gc=False):
    """What stands before the messages of an export."""

    info: OpenCodeSession = OpenCodeSession()


decode = lenient.decoding(OpenCodeRecord)
_HEAD = msgspec.json.Decoder(OpenCodeHead)
_MODEL = msgspec.json.Decoder(OpenCodeModel)


def head_of(data: bytes) -> OpenCodeHead:
    """Decode what stands before the messages; nothing where it is of another shape."""
    try:
        return _HEAD.decode(data)
    except (ValueError, RecursionError):
        return OpenCodeHead()


def variant_of(info: OpenCodeInfo) -> str | None:
    """Return the variant of the model (its effort) that a user's message asks; None where it names none."""
    try:
        return _MODEL.decode(info.model).variant
    except (ValueError, RecursionError):
        return None
