"""Lines of pi's session files and their messages: decoded, and as items of a timeline.

In: one line. Out: an entry, with its message where it has one; of a message items, named NAME, NAME:1 and on, results
of calls, bills. Rules: a line is decoded once; content, details and texts stay raw; what a line holds besides is passed
over, and a wrong type of a field that is read raises ValueError. What an extension or the client put in is
`context_injection`; summaries and commands that the user ran stand in the words that the client wraps them in; a
command with `excludeFromContext` is not in the prompt. A provider's own reasoning item, which stands where others have
a signature, is kept as that item.

Sources: pi's session-format.md, session-manager.ts, messages.ts and transform-messages.ts, oh-my-pi's session.md
(autumn 2026); counts over 44 public sessions of versions 1 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from lore.formats.bills import apart, recorded_dollars
from lore.formats.contents import unescaped
from lore.formats.values import Other, Parts, result_of, spoken, text_in
from lore.model import lenient
from lore.model.canonical import decode, encode, text_of
from lore.model.events import PatchToolCall, Usage
from lore.model.items import (
    NULL,
    Block,
    ImageBlock,
    Item,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    is_absent,
)
from lore.model.jsonslice import is_json, member_ranges, raw_members

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
    cost: Raw = NULL  # in US dollars, by the client's own prices


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
    title: Raw = NULL  # of the session, before its header, in it, or changed
    name: Raw = NULL  # pi's own member for a title
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
entry_of = lenient.decoding(PiEntry)
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


_PARTS = Parts[Known](
    Known, {PiText: attrgetter("text"), PiThinking: attrgetter("thinking"), PiImage: attrgetter("data")}
)


Made: TypeAlias = tuple[Item, ...] | PatchToolCall
STOPS = {"toolUse": "tool_use", "stop": "end_turn", "length": "max_tokens"}
# The wire that a message went over, by the beginning of its name -> the dialect of its body.
_DIALECTS = {
    "anthropic": "anthropic", "openai-completions": "openai-chat", "mistral": "openai-chat", "google": "gemini",
    "openai-responses": "openai-responses", "openai-codex-responses": "openai-responses",
    "azure-openai-responses": "openai-responses", "bedrock": "bedrock",
}  # fmt: skip
ROLES = frozenset((
    "user", "assistant", "toolResult", "custom", "hookMessage", "developer", "bashExecution", "pythonExecution",
    "branchSummary", "compactionSummary",
))  # fmt: skip
GIVEN_UP = ("error", "aborted")  # how a response ended that no later prompt holds
_INJECTED = "context_injection"
_COMPACTED = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)
BRANCH = ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>")
_REASONING = re.compile(rb'"type"\s*:\s*"reasoning"')
_NEAR = 200  # bytes in which a reasoning item should say what it is


def made_of(message: PiMessage, name: str, at: str | None) -> Made | None:
    """Return what a message is in a prompt; () where no prompt holds it, None where its role is not known."""
    match message.role:
        case "user":
            return (told(name, message.content, "user"),)
        case "assistant":
            return () if message.stop_reason in GIVEN_UP else _spoken(name, message)
        case "toolResult":
            return _result(message, at)
        case "custom" | "hookMessage" | "developer":
            return (told(name, message.content),)
        case "bashExecution" | "pythonExecution":
            if _is_true(message.exclude_from_context):
                return ()
            return (summed(name, Raw(encode(_ran(message)))),)
        case "branchSummary":
            return (summed(name, summary_of(message.summary, BRANCH)),)
        case "compactionSummary":
            return (summed(name, summary_of(message.summary)),)
        case _:
            return None


def summed(name: str, text: Raw) -> UserMessage:
    """Return a text of the client's own."""
    return UserMessage(name, text=text, source=_INJECTED)


def told(name: str, content: Raw, source: str = _INJECTED) -> UserMessage:
    """Return what no model said: an extension, or whom `source` names."""
    parts = parts_of(content)
    if len(parts) == 1 and isinstance(parts[0], PiText):
        return UserMessage(name, text=parts[0].text, source=source)
    return UserMessage(name, blocks=tuple(map(block_of, parts)), source=source)


def _spoken(name: str, message: PiMessage) -> tuple[Item, ...]:
    stop = STOPS.get(message.stop_reason, message.stop_reason) or None
    parts = (
        ToolCall("", part.id, part.name, part.arguments) if type(part) is PiCall else block_of(part)
        for part in parts_of(message.content)
    )
    return tuple(spoken(parts, name, message.response_id or name, stop))


def calls_of(message: PiMessage) -> list[str]:
    """Return the ids of the calls that a response makes; none where its content is no list of blocks."""
    try:
        return [part.id for part in parts_of(message.content) if type(part) is PiCall]
    except ValueError:
        return []


def block_of(part: Part) -> Block:
    """Convert a block; a call in a place where none belongs is kept as the block that it is."""
    match part:
        case PiText():
            return TextBlock(part.text)
        case PiThinking():
            return _thinking(part)
        case PiImage():
            return ImageBlock(part.mime_type, part.data)
        case Other():
            return RawBlock(part.json)
        case PiCall():
            return RawBlock(Raw(msgspec.json.encode(part)))


def _thinking(part: PiThinking) -> Block:
    signature = bytes(part.thinking_signature)
    if signature[:2] == b'"{':
        item = unescaped(signature)
        if is_json(item):  # a reasoning item, which says first what it is
            if _REASONING.search(item, 0, _NEAR) is None:
                others = [b"," + item[own.start : own.end] for own in member_ranges(item) if own.key != "type"]
                item = b'{"type":"reasoning"' + b"".join(others) + b"}"
            return RawBlock(Raw(item))
    if part.redacted and signature[:1] == b'"':
        return RawBlock(Raw(b'{"type":"redacted_thinking","data":' + signature + b"}"))
    return ThinkingBlock(part.thinking, text_of(signature) if signature[:1] == b'"' else None)


def _result(message: PiMessage, at: str | None) -> PatchToolCall:
    parts: Sequence[Part] = () if is_absent(message.content) else parts_of(message.content)
    output = result_of(tuple(map(block_of, parts)))
    status = "failed" if _is_true(message.is_error) else "completed"
    return PatchToolCall(call_id=message.tool_call_id, status=status, output=output, detail=message.details, at=at)


def has_image(made: Made) -> bool:
    """Tell whether an image is among what a message put into the prompt."""
    if isinstance(made, PatchToolCall):
        return memoryview(made.output)[0] == _LIST and b'"type":"image"' in bytes(made.output)
    blocks = made[0].blocks if made and isinstance(made[0], UserMessage) else None
    return blocks is not None and any(isinstance(block, ImageBlock) for block in blocks)


def _ran(message: PiMessage) -> str:
    """Say what a command of the user did, as the client tells the model."""
    command, output = text_in(message.command) or text_in(message.code), text_in(message.output)
    lines = f"Ran `{command}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code: object = decode(bytes(message.exit_code))
    if _is_true(message.cancelled):
        lines += "\n\n(command cancelled)"
    elif code is not None and code != 0:
        lines += f"\n\nCommand exited with code {code}"
    path = text_in(message.full_output_path)
    return lines + (f"\n\n[Output truncated. Full output: {path}]" if _is_true(message.truncated) and path else "")


def _is_true(raw: Raw) -> bool:
    return bytes(raw) == b"true"


def summary_of(summary: Raw, words: tuple[str, str] = _COMPACTED) -> Raw:
    """Return a compaction's summary in the words in which it stands in the prompt; NULL where there is none."""
    raw, (begin, end) = bytes(summary), words
    return Raw(encode(begin)[:-1] + raw[1:-1] + encode(end)[1:]) if raw[:1] == b'"' else NULL


def billed(usage: PiUsage | None, dialect: str | None) -> Usage | None:
    """Return a bill; None where there is no usage, or nothing but zeros: what was given up says nothing else."""
    counts = () if usage is None else (usage.input, usage.cache_read, usage.cache_write, usage.output)
    if usage is None or not any(counts):
        return None
    bill = apart(*counts, client="pi", dialect=dialect, total=usage.total_tokens, hour=usage.cache_write_1h)
    return replace(bill, recorded=recorded_dollars((raw_members(bytes(usage.cost)) or {}).get("total", b"")))


def dialect_of(wire: str) -> str | None:
    """Return the dialect of what went over a wire of this name; None where it is none of lore's."""
    return next((dialect for begin, dialect in _DIALECTS.items() if wire.startswith(begin)), None)
