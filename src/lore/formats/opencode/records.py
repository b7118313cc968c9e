"""Sessions, messages and parts of OpenCode (and Kilo CLI): decoded, and as items of a timeline and bills.

In: a message with its parts, `{info, parts[]}`. Out: a struct; of its parts blocks, items, what became of a call.
Rules: one decoding for a message with its parts; content stays raw; what a record holds besides is passed over, and a
wrong type of a field that is read raises ValueError. A text that is ignored is in no prompt, a file that was read
stands there as the text that the client wrote of it; what a part says of its provider is the signature of reasoning.

Sources: counts over 503 public exports, versions 1.2.16 to 1.18.21; OpenCode's message-v2.ts and compaction.ts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from lore.formats.bills import apart
from lore.formats.values import opens, text_in
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.events import PatchToolCall, Usage
from lore.model.items import (
    NULL,
    AssistantMessage,
    Block,
    ImageBlock,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
)
from lore.model.jsonslice import raw_members


class Time(Struct, frozen=True, gc=False):
    """Times in ms since 1970; `compacted` is when an output was taken out of later prompts."""

    created: Raw = NULL
    completed: Raw = NULL
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


class OpenCodeInfo(Struct, frozen=True, gc=False, rename={"provider": "providerID", "asked": "modelID"}):
    """A message without its parts; `summary` is true of the response that a compaction asked for."""

    id: str = ""
    role: str = ""
    provider: str = ""
    asked: str | None = None
    agent: str | None = None
    model: Raw = NULL
    time: Time = Time()
    tokens: OpenCodeTokens | None = None
    cost: Raw = NULL  # of all steps, in US dollars, by the client's own prices
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
    cost: Raw = NULL  # of the step
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
    title: Raw = NULL
    time: Time = Time()
    revert: Reverted | None = None


decode = lenient.decoding(OpenCodeRecord)
DEFAULT_TITLES = ("New session - ", "Child session - ")  # until the model has named the session
_SESSION = msgspec.json.Decoder(OpenCodeSession)


def session_of(data: bytes) -> OpenCodeSession:
    """Decode what an export says of its session; nothing where it is of another shape."""
    try:
        return _SESSION.decode(data)
    except (ValueError, RecursionError):
        return OpenCodeSession()


# Parts that no model sees.
SILENT = frozenset(("step-start", "step-finish", "patch", "snapshot", "retry", "agent"))
_MOST_URL = 2_000  # characters of a file's address that are kept
_READ = frozenset(("text/plain", "application/x-directory"))  # files that stand in the prompt as the client's text
_MARKER = Raw(b'"What did we do so far?"')
_SUBTASK = Raw(b'"The following tool was executed by the user"')
_SIGNATURES = frozenset(
    ("signature", "reasoningOpaque", "reasoningEncryptedContent", "thoughtSignature", "redactedData")
)
# Whose requests a provider's are shaped like; gateways not named take OpenAI's older ones, as their SDKs send them.
_DIALECTS = {
    "anthropic": "anthropic", "google-vertex-anthropic": "anthropic", "minimax": "anthropic",
    "openai": "openai-responses", "azure": "openai-responses", "google": "gemini", "google-vertex": "gemini",
    "amazon-bedrock": "bedrock",
}  # fmt: skip
_BY_MODEL = frozenset(("opencode", "opencode-go", "github-copilot", "kilo"))  # gateways that speak each model's own
_MODELS = (("claude", "anthropic"), ("gpt-", "openai-responses"), ("gemini", "gemini"))


def given(parts: Iterable[OpenCodePart]) -> tuple[tuple[Block, ...], list[str]]:
    """Return what a user's message puts into the prompt, and the types of parts that nobody knows."""
    blocks: list[Block] = []
    unknown: list[str] = []
    for part in parts:
        if part.type == "text":
            if not part.ignored and opens(part.text) == '"' and bytes(part.text) != b'""':
                blocks.append(TextBlock(part.text))
        elif part.type == "file":
            if part.mime not in _READ:
                blocks.append(_file(part))
        elif part.type in _WORDS:
            blocks.append(TextBlock(_WORDS[part.type]))
        elif part.type not in SILENT:
            unknown.append(part.type)
    return tuple(blocks), unknown


_WORDS = {"compaction": _MARKER, "subtask": _SUBTASK}


def is_image(part: OpenCodePart) -> bool:
    """Tell whether a part is an image."""
    return part.type == "file" and part.mime.startswith("image/")


def _file(part: OpenCodePart) -> Block:
    url = bytes(part.url)
    begin, comma, data = url.partition(b",")
    if is_image(part) and comma and begin.startswith(b'"data:') and begin.endswith(b";base64"):
        return ImageBlock(part.mime, Raw(b'"' + data))
    return RawBlock(Raw(encode({"type": "file", "mime": part.mime, "url": text_in(part.url)[:_MOST_URL]})))


def said(part: OpenCodePart, name: str, response: str) -> AssistantMessage | ToolCall | None:
    """Return what a part of a response says or calls; None where it does neither."""
    if part.type == "text" and opens(part.text) == '"':
        return AssistantMessage(name, blocks=(TextBlock(part.text),), response_id=response)
    if part.type == "reasoning" and opens(part.text) == '"':
        return AssistantMessage(name, blocks=(_reasoning(part),), response_id=response)
    if part.type == "tool":
        given = part.state.input if part.state is not None and opens(part.state.input) == "{" else Raw(b"{}")
        return ToolCall(name, part.call_id or name, part.tool, given, response_id=response)
    return None


def _reasoning(part: OpenCodePart) -> ThinkingBlock:
    """Return reasoning with what its provider signed it with, by whatever name."""
    providers = (raw_members(own) or {} for own in (raw_members(bytes(part.metadata)) or {}).values())
    signed = (text_in(value) for own in providers for name, value in own.items() if name in _SIGNATURES)
    return ThinkingBlock(part.text, next(filter(None, signed), None))


def text_of_parts(parts: Iterable[OpenCodePart]) -> Raw:
    """Return the text of a response; NULL where it says nothing."""
    texts = [text_in(part.text).strip() for part in parts if part.type == "text"]
    whole = "\n\n".join(text for text in texts if text)
    return Raw(encode(whole)) if whole else NULL


def outcome(state: OpenCodeState) -> PatchToolCall | None:
    """Return what became of a call, which has no name yet; None while it runs."""
    failed = state.status == "error"
    if not failed and state.status != "completed":
        return None
    told = state.error if failed else state.output
    output = told if opens(told) == '"' else Raw(b'""')
    files = [_file(file) for file in state.attachments or () if file.type == "file" and file.mime not in _READ]
    if files and not failed:
        output = Raw(msgspec.json.encode([TextBlock(output), *files]))
    return PatchToolCall(call_id="", status="failed" if failed else "completed", output=output)


def dialect_of(provider: str, model: str) -> str:
    """Return the dialect in which a provider is asked for a model."""
    if provider in _BY_MODEL:
        name = model.rpartition("/")[2].lower()
        found = next((dialect for begin, dialect in _MODELS if name.startswith(begin)), "openai-chat")
        return "openai-chat" if provider == "github-copilot" and found != "openai-responses" else found
    return _DIALECTS.get(provider, "openai-chat")


def billed(tokens: OpenCodeTokens | None, client: str, dialect: str | None = None) -> Usage | None:
    """Return a bill; None where there are no counts, or nothing but zeros.

    Reasoning is part of the output, or comes beside it: the total tells which.
    """
    if tokens is None:
        return None
    output, reasoning, total = tokens.output, tokens.reasoning, tokens.total
    counts = tokens.input, tokens.cache.read, tokens.cache.write
    if not (any(counts) or output):
        return None
    if total and output is not None and reasoning and total == size_of(tokens) + output + reasoning:
        output += reasoning
    return apart(*counts, output, client=client, dialect=dialect, total=total)


def size_of(tokens: OpenCodeTokens) -> int:
    """Return all of the input, in tokens."""
    return (tokens.input or 0) + (tokens.cache.read or 0) + (tokens.cache.write or 0)
