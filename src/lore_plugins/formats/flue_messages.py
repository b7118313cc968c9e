"""Convert entries of flue sessions to lore's items, results of calls, and usage.

Texts keep their bytes. Messages have the shapes of the model library that flue uses: roles `user`, `assistant`,
`toolResult`; blocks `text`, `thinking`, `toolCall`, `image`; any other is opaque. Source: flue's session history,
versions of 2026; counts over 44 public sessions of the same library.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from lore.formats import billed_of
from lore.formats import pi_messages as pi
from lore.model import (
    NULL,
    AssistantMessage,
    Block,
    Item,
    OpaqueItem,
    Status,
    TextBlock,
    ToolCall,
    UserMessage,
    raw_members,
    text_of,
)
from lore.model import events as e

Members: TypeAlias = dict[str, bytes]

ENTRIES = ("message", "compaction", "branch_summary")
ROLES = ("user", "assistant", "toolResult")
_INJECTED = "context_injection"
_BRANCH = b"[Branch Summary]"  # the heading that flue writes into a prompt


class FlueAnswer(NamedTuple):
    """The request data of an assistant's message."""

    model: str | None
    dialect: str | None  # None: an unsupported API
    usage: e.Usage | None
    response_id: str | None
    stop: str
    error: str


def kind_of(members: Members) -> str:
    """Return an entry's kind: a message's role, else its type; "" if unknown."""
    kind = word(members, "type")
    if kind != "message":
        return kind if kind in ENTRIES else ""
    role = word(raw_members(members.get("message", b"null")) or {}, "role")
    return role if role in ROLES else ""


def word(members: Members, key: str) -> str:
    """Return a text member without lone surrogates, "" for any other."""
    text = text_of(members[key]) if members.get(key, b"")[:1] == b'"' else ""
    return text if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text) else ""


def items_of(name: str, raw: bytes) -> tuple[Item, ...]:
    """Return the items of an entry; a tool's result or a compaction has none."""
    members = raw_members(raw) or {}
    kind = kind_of(members)
    message = raw_members(members.get("message", b"null")) or {}
    content = message.get("content", b"null")
    match kind:
        case "user":
            if content[:1] == b'"':
                return (UserMessage(name, text=Raw(content)),)
            return (UserMessage(name, blocks=_blocks(content)),) if content[:1] == b"[" else _opaque(name, raw)
        case "assistant":
            return _spoken(name, message) if content[:1] == b"[" else _opaque(name, raw)
        case "toolResult" | "compaction":
            return ()
        case "branch_summary":
            text = summary_of(members, _BRANCH)
            return _opaque(name, raw) if text == NULL else (UserMessage(name, text=text, source=_INJECTED),)
        case _:
            return _opaque(name, raw)


def _opaque(name: str, raw: bytes) -> tuple[Item, ...]:
    return (OpaqueItem(name, Raw(raw)),)


def summary_of(members: Members, heading: bytes = b"[Context Summary]") -> Raw:
    """Return a summary with its heading, as flue puts it into the prompt; NULL if there is none."""
    text = members.get("summary", b"")
    if text[:1] != b'"':
        return NULL
    return Raw(text if text[1:].startswith(heading) else b'"' + heading + b"\\n\\n" + text[1:])


def _spoken(name: str, message: Members) -> tuple[Item, ...]:
    """Return the items of a response: one message with all blocks, then the calls."""
    response = word(message, "responseId") or name
    stop = word(message, "stopReason")
    blocks: list[Block] = []
    calls: list[ToolCall] = []
    for number, part in enumerate(pi.parts_of(Raw(message["content"]))):
        if type(part) is pi.PiCall:
            calls.append(ToolCall(f"{name}:{number}", part.id, part.name, part.arguments, response_id=response))
        else:
            blocks.append(pi.block_of(part))
    if not blocks:
        return tuple(calls)
    said = AssistantMessage(
        name, blocks=tuple(blocks), stop_reason=pi.STOP_REASONS.get(stop, stop) or None, response_id=response
    )
    return (said, *calls)


def _blocks(content: bytes) -> tuple[Block, ...]:
    return tuple(map(pi.block_of, pi.parts_of(Raw(content))))


def call_of(members: Members) -> str:
    """Return the id of the call of a result entry, "" for any other entry."""
    return word(raw_members(members.get("message", b"null")) or {}, "toolCallId")


def result_of(members: Members) -> e.PatchToolCall:
    """Return a tool's result as the change of its call."""
    message = raw_members(members.get("message", b"null")) or {}
    status: Status = "failed" if message.get("isError") == b"true" else "completed"
    content = message.get("content", b'""')
    if content[:1] == b"[":
        blocks = _blocks(content)
        alone = blocks[0] if len(blocks) == 1 else None
        content = bytes(alone.text) if isinstance(alone, TextBlock) else msgspec.json.encode(blocks)
    elif content[:1] != b'"':
        content = b'[{"type":"raw","json":' + content + b"}]"
    detail = Raw(message["details"]) if message.get("details", b"null") != b"null" else NULL
    return e.PatchToolCall(call_id=word(message, "toolCallId"), status=status, output=Raw(content), detail=detail)


def answer_of(members: Members) -> FlueAnswer:
    """Return the request data of an assistant's entry."""
    message = raw_members(members.get("message", b"null")) or {}
    stop = word(message, "stopReason")
    usage = billed_of(message.get("usage", b"null"))
    counts = (
        () if usage is None else (usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.output_tokens)
    )
    if stop in ("error", "aborted") and not any(counts):
        usage = None  # a failed request has zeros for unknown counts
    wire = word(message, "api")
    return FlueAnswer(
        word(message, "model") or None, pi.dialect_of(wire), usage, word(message, "responseId") or None, stop,
        word(message, "errorMessage"),
    )  # fmt: skip
