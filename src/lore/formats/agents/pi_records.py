"""Records of pi's logs, and the items and usage that they make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from lore.formats.bills import recorded_dollars, usage_without_cached_input
from lore.formats.contents import unescape
from lore.formats.values import Parts, opens, result_of, split_response, text_in
from lore.model.canonical import decode, encode, text_of
from lore.model.events import PatchToolCall, Usage
from lore.model.items import NULL, Block, ImageBlock, Item, RawBlock, TextBlock, ThinkingBlock, ToolCall, UserMessage
from lore.model.jsonslice import is_json, member_ranges, members_at

# records


class PiUsage(Struct, frozen=True, gc=False, rename="camel"):
    """Token counts of a response."""

    input: int | None = None  # neither read from a cache nor written to one
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = msgspec.field(default=None, name="cacheWrite1h")
    total_tokens: int | None = None
    cost: Raw = NULL  # in US dollars, by the client's own prices


class PiMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message; its role decides which fields it has."""

    role: str = ""
    content: Raw = NULL
    api: str = ""  # over which a response came
    provider: str = ""  # that answered, as the client names it
    model: str | None = None
    response_id: str | None = None
    stop_reason: str = ""
    error_message: Raw = NULL
    timestamp: int | float | str | None = None  # when a response was asked for, in ms
    usage: PiUsage | None = None
    tool_call_id: str = ""
    is_error: Raw = NULL
    details: Raw = NULL
    command: Raw = NULL
    code: Raw = NULL
    output: Raw = NULL
    exit_code: Raw = NULL
    cancelled: Raw = NULL
    truncated: Raw = NULL
    full_output_path: Raw = NULL
    exclude_from_context: Raw = NULL


class PiEntry(Struct, frozen=True, gc=False, rename="camel"):
    """A line; its type decides which fields it has."""

    type: str
    id: str | None = None  # version 1 of the format has none
    parent_id: str | None | UnsetType = UNSET  # unset: the previous entry
    timestamp: str | None = None
    message: PiMessage | None = None
    thinking_level: str | None = None
    mode: str = "none"  # of oh-my-pi: plan, goal, vibe; each has tools and instructions of its own
    summary: Raw = NULL
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | None = None  # of all lines of the file: the header's is 0
    tokens_before: Raw = NULL
    retained_tail: list[Raw] | None = None
    content: Raw = NULL
    system_prompt: Raw = NULL
    usage: PiUsage | None = None  # of the request for a summary
    title: Raw = NULL
    name: Raw = NULL  # pi's name for a title
    parent_session: str | None = None
    branched_from: str | None = None


class PiText(Struct, frozen=True, gc=False, tag="text"):
    """Text."""

    text: Raw


class PiThinking(Struct, frozen=True, gc=False, tag="thinking", rename="camel"):
    """Reasoning."""

    thinking: Raw
    thinking_signature: Raw = NULL  # the provider's signature, or its own reasoning item as JSON text
    redacted: bool = False


class PiCall(Struct, frozen=True, gc=False, tag="toolCall"):
    """A tool call."""

    id: str
    name: str = ""
    arguments: Raw = Raw(b"{}")


class PiImage(Struct, frozen=True, gc=False, tag="image", rename="camel"):
    """An image."""

    data: Raw
    mime_type: str


PiPart: TypeAlias = PiText | PiThinking | PiCall | PiImage
_PARTS = Parts[PiPart](
    PiPart, {PiText: attrgetter("text"), PiThinking: attrgetter("thinking"), PiImage: attrgetter("data")}
)

# Entries that no prompt holds.
SILENT = frozenset((
    "custom", "label", "session_info", "title_change", "credential_pin", "ttsr_injection", "service_tier_change",
    "model_change",
))  # fmt: skip
# Lines that `pi --mode json` prints as well: their content is in a `message_end`, or is for the screen.
PRINTED = frozenset((
    "agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update", "tool_execution_start",
    "tool_execution_update", "tool_execution_end", "auto_retry_start", "auto_retry_end", "queue_update",
))  # fmt: skip
UNFINISHED = ("error", "aborted")  # stop reasons of responses that no later prompt holds
STOP_REASONS = {"toolUse": "tool_use", "stop": "end_turn", "length": "max_tokens"}
# By the beginning of an API's name: the dialect of its requests.
_DIALECTS = {
    "anthropic": "anthropic", "openai-completions": "openai-chat", "mistral": "openai-chat", "google": "gemini",
    "openai-responses": "openai-responses", "openai-codex-responses": "openai-responses",
    "azure-openai-responses": "openai-responses", "bedrock": "bedrock",
}  # fmt: skip
_INJECTED = "context_injection"
_COMPACTED = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)
BRANCH = ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>")
_REASONING = re.compile(rb'"type"\s*:\s*"reasoning"')
_NEAR = 200  # bytes in which a reasoning item should name its type

# messages as items

PromptContent: TypeAlias = tuple[Item, ...] | PatchToolCall


def convert(message: PiMessage, id: str, at: str | None) -> PromptContent | None:
    """Return what a message adds to prompts: items or a result, () if it is never sent, None if its role is unknown."""
    match message.role:
        case "user":
            return (user_message(id, message.content, "user"),)
        case "assistant":
            if message.stop_reason in UNFINISHED:
                return ()
            stop = STOP_REASONS.get(message.stop_reason, message.stop_reason) or None
            answer_parts = (
                ToolCall("", part.id, part.name, part.arguments) if type(part) is PiCall else block_of(part)
                for part in parts_of(message.content)
            )
            return tuple(split_response(answer_parts, id, message.response_id or id, stop))
        case "toolResult":
            parts: Sequence[PiPart | RawBlock] = () if opens(message.content) == "n" else parts_of(message.content)
            status = "failed" if _is_true(message.is_error) else "completed"
            output, call = result_of(tuple(map(block_of, parts))), message.tool_call_id
            return PatchToolCall(call_id=call, status=status, output=output, detail=message.details, at=at)
        case "custom" | "hookMessage" | "developer":
            return (user_message(id, message.content),)
        case "bashExecution" | "pythonExecution":
            if _is_true(message.exclude_from_context):
                return ()
            return (UserMessage(id, text=Raw(encode(_describe_execution(message))), source=_INJECTED),)
        case _:
            return None


def user_message(id: str, content: Raw, source: str = _INJECTED) -> UserMessage:
    """Return content of the user's role."""
    parts = parts_of(content)
    if len(parts) == 1 and isinstance(parts[0], PiText):
        return UserMessage(id, text=parts[0].text, source=source)
    return UserMessage(id, blocks=tuple(map(block_of, parts)), source=source)


def wrap_summary(summary: Raw, words: tuple[str, str] = _COMPACTED) -> Raw:
    """Return a summary between the words that the prompt has around it; NULL without a summary."""
    raw, (begin, end) = bytes(summary), words
    return Raw(encode(begin)[:-1] + raw[1:-1] + encode(end)[1:]) if raw[:1] == b'"' else NULL


def call_ids(message: PiMessage) -> list[str]:
    """Return the ids of the calls in a response."""
    parts = parts_of(message.content) if opens(message.content) == "[" else ()
    return [part.id for part in parts if type(part) is PiCall]


def has_image(content: PromptContent) -> bool:
    """Return whether a message has an image."""
    if isinstance(content, PatchToolCall):
        return opens(content.output) == "[" and b'"type":"image"' in bytes(content.output)
    blocks = content[0].blocks if content and isinstance(content[0], UserMessage) else None
    return blocks is not None and any(isinstance(block, ImageBlock) for block in blocks)


def parts_of(content: Raw) -> Sequence[PiPart | RawBlock]:
    """Decode content, a text or blocks; ValueError if it is neither."""
    match opens(content):
        case '"':
            return [PiText(content)]
        case "[":
            return _PARTS.decode(content)
        case _:
            raise ValueError("content is neither text nor blocks")


def block_of(part: PiPart | RawBlock) -> Block:
    """Convert a block of content."""
    match part:
        case PiText():
            return TextBlock(part.text)
        case PiThinking():
            return _block_of_thinking(part)
        case PiImage():
            return ImageBlock(part.mime_type, part.data)
        case RawBlock():
            return part
        case PiCall():  # not in a response
            return RawBlock(Raw(msgspec.json.encode(part)))


def _block_of_thinking(part: PiThinking) -> Block:
    signature = bytes(part.thinking_signature)
    if signature[:2] == b'"{' and is_json(item := unescape(signature)):  # a provider's own reasoning item
        if _REASONING.search(item, 0, _NEAR) is None:
            others = [b"," + item[member.start : member.end] for member in member_ranges(item) if member.key != "type"]
            item = b'{"type":"reasoning"' + b"".join(others) + b"}"
        return RawBlock(Raw(item))
    if part.redacted and signature[:1] == b'"':
        return RawBlock(Raw(b'{"type":"redacted_thinking","data":' + signature + b"}"))
    return ThinkingBlock(part.thinking, text_of(signature) if signature[:1] == b'"' else None)


def _describe_execution(message: PiMessage) -> str:
    """Return the client's text for the model about a command that the user ran."""
    command, output = text_in(message.command) or text_in(message.code), text_in(message.output)
    text = f"Ran `{command}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code: object = decode(bytes(message.exit_code))
    if _is_true(message.cancelled):
        text += "\n\n(command cancelled)"
    elif code is not None and code != 0:
        text += f"\n\nCommand exited with code {code}"
    path = text_in(message.full_output_path)
    return text + (f"\n\n[Output truncated. Full output: {path}]" if _is_true(message.truncated) and path else "")


def _is_true(raw: Raw) -> bool:
    return bytes(raw) == b"true"


# usage


def usage_of(usage: PiUsage | None, dialect: str | None) -> Usage | None:
    """Return the usage of a response; None if all counts are 0, as they are of one that was not finished."""
    counts = () if usage is None else (usage.input, usage.cache_read, usage.cache_write, usage.output)
    if usage is None or not any(counts):
        return None
    recorded = recorded_dollars(members_at(usage.cost).get("total", b""))
    return usage_without_cached_input(
        *counts, client="pi", dialect=dialect, total=usage.total_tokens, hour=usage.cache_write_1h, recorded=recorded
    )


def dialect_of(api: str) -> str | None:
    """Return the dialect of an API's requests; None if it is unknown."""
    return next((dialect for begin, dialect in _DIALECTS.items() if api.startswith(begin)), None)
