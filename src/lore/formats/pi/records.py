"""Lines of pi's session files, decoded as far as a timeline needs them.

In: one line. Out: an entry, with its message where it has one. Rules: a line is decoded once; content, details and
texts stay raw; what a line holds besides is passed over. A wrong type of a field that is read raises ValueError.

Sources: pi's session-format.md and session-manager.ts, oh-my-pi's session.md (autumn 2026); counts over 44 public
sessions of versions 1 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from lore.formats.values import Other, Parts
from lore.model import lenient
from lore.model.items import NULL

# Entries that no model sees and that change nothing of a prompt.
SILENT = frozenset((
    "custom", "label", "session_info", "title_change", "credential_pin", "mode_change", "ttsr_injection",
    "service_tier_change", "model_change",
))  # fmt: skip


class PiUsage(Struct, frozen=True, gc=False, rename="camel"):
    """Counts of tokens: `input` leaves out what was read from or written to a cache."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = msgspec.field(default=None, name="cacheWrite1h")
    total_tokens: int | None = None


class PiMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message; which fields there are depends on its role. `timestamp` is when it was asked for, in ms."""

    role: str = ""
    content: Raw = NULL
    api: str = ""
    model: str | None = None
    response_id: str | None = None
    stop_reason: str = ""
    error_message: Raw = NULL
    timestamp: int | float | str | None = None
    usage: PiUsage | None = None
    tool_call_id: str = ""
    is_error: Raw = NULL
    details: Raw = NULL
    summary: Raw = NULL
    command: Raw = NULL
    code: Raw = NULL
    output: Raw = NULL
    exit_code: Raw = NULL
    cancelled: Raw = NULL
    truncated: Raw = NULL
    full_output_path: Raw = NULL
    exclude_from_context: Raw = NULL


class PiEntry(Struct, frozen=True, gc=False, rename="camel"):
    """A line. The first version of the format has neither `id` nor `parentId`: each follows the one before it.

    `usage` is what a summary was billed.
    """

    type: str
    id: str | None = None
    parent_id: str | None | UnsetType = UNSET
    timestamp: str | None = None
    message: PiMessage | None = None
    thinking_level: str | None = None
    summary: Raw = NULL
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | None = None
    tokens_before: Raw = NULL
    retained_tail: list[Raw] | None = None
    content: Raw = NULL
    system_prompt: Raw = NULL
    usage: PiUsage | None = None
    parent_session: str | None = None
    branched_from: str | None = None


class PiThinking(Struct, frozen=True, gc=False, tag="thinking", rename="camel"):
    """Reasoning; the signature is the provider's, or its own item as JSON text."""

    thinking: Raw
    thinking_signature: Raw = NULL
    redacted: bool = False


class PiCall(Struct, frozen=True, gc=False, tag="toolCall"):
    """A call of a tool."""

    id: str
    name: str = ""
    arguments: Raw = Raw(b"{}")


class PiImage(Struct, frozen=True, gc=False, tag="image", rename="camel"):
    """An image."""

    data: Raw
    mime_type: str


class PiText(Struct, frozen=True, gc=False, tag="text"):
    """Text; what the provider signed it with is passed over."""

    text: Raw


Known: TypeAlias = PiText | PiThinking | PiCall | PiImage
Part: TypeAlias = Known | Other
decode = lenient.decoding(PiEntry)
message_of = lenient.decoding(PiMessage)
_QUOTE, _LIST = 0x22, 0x5B


def parts_of(content: Raw) -> Sequence[Part]:
    """Decode content: a text, or blocks; ValueError where it is neither."""
    first = memoryview(content)[0]
    if first == _QUOTE:
        return [PiText(content)]
    if first != _LIST:
        raise ValueError("content is neither text nor blocks")
    return _PARTS.decode(content)


def _are_sound(parts: Sequence[Part]) -> bool:
    for part in parts:
        if type(part) is PiText:
            text = part.text
        elif type(part) is PiThinking:
            text = part.thinking
        elif type(part) is PiImage:
            text = part.data
        else:
            continue
        if memoryview(text)[0] != _QUOTE:
            return False
    return True


_PARTS = Parts[Known](Known, _are_sound)
