"""The records of OpenCode and Kilo CLI: messages with their parts, what a part is in a prompt, and usage.

Content stays raw JSON. An ignored text is in no prompt; a text file that was read is in the prompt as the text that
the client made of it.

Sources: counts over 503 public exports, versions 1.2.16 to 1.18.21; OpenCode's message-v2.ts and compaction.ts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.bills import recorded_dollars, usage_without_cached_input
from lore.formats.http import visible_value
from lore.formats.values import opens, text_in
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.events import Usage
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
    """Times in ms since 1970."""

    created: Raw = NULL
    completed: Raw = NULL
    end: Raw = NULL
    compacted: Raw = NULL  # when an output was removed from later prompts


class Cached(Struct, frozen=True, gc=False):
    """Tokens of a cache."""

    read: int | None = None
    write: int | None = None


class OpenCodeTokens(Struct, frozen=True, gc=False):
    """Token counts of a request."""

    input: int | None = None  # neither read from a cache nor written to one
    output: int | None = None  # with reasoning or without: the total shows which
    reasoning: int | None = None
    total: int | None = None
    cache: Cached = Cached()

    @property
    def prompt(self) -> int:
        """All input."""
        return (self.input or 0) + (self.cache.read or 0) + (self.cache.write or 0)


class OpenCodeFailure(Struct, frozen=True, gc=False):
    """Why a response is not whole."""

    name: str = ""


class OpenCodeInfo(Struct, frozen=True, gc=False, rename={"provider": "providerID", "asked": "modelID"}):
    """A message without its parts."""

    id: str = ""
    role: str = ""
    provider: str = ""  # of a response
    asked: str | None = None  # the model of a response
    agent: str | None = None
    model: Raw = NULL  # of a prompt: the model and its variant, which is the effort
    time: Time = Time()
    tokens: OpenCodeTokens | None = None
    cost: Raw = NULL  # of all steps, in US dollars, by the client's own prices
    error: OpenCodeFailure | None = None
    summary: Raw = NULL  # true: a compaction asked for the response
    tools: dict[str, Raw] | None = None
    system: Raw = NULL


class OpenCodeState(Struct, frozen=True, gc=False):
    """The state of a tool call."""

    status: str = ""
    input: Raw = NULL
    output: Raw = NULL
    error: Raw = NULL
    time: Time | None = None
    attachments: list[OpenCodePart] | None = None


class OpenCodePart(Struct, frozen=True, gc=False, rename={"call_id": "callID"}):
    """A part of a message; its type decides which fields it has."""

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

    @property
    def is_image(self) -> bool:
        return self.type == "file" and self.mime.startswith("image/")


class OpenCodeRecord(Struct, frozen=True, gc=False):
    """A message."""

    info: OpenCodeInfo
    parts: list[OpenCodePart] = []

    @property
    def steps(self) -> list[list[OpenCodePart]]:
        """The parts of each request. Without steps a message is one request if it counts tokens or failed."""
        starts = [index for index, part in enumerate(self.parts) if part.type == "step-start"]
        if not starts:
            return [self.parts] if usage_of(self.info.tokens, NULL) is not None or self.info.error else []
        starts[0] = 0
        ends = [*starts[1:], len(self.parts)]
        return [self.parts[start:end] for start, end in zip(starts, ends, strict=True)]


class Reverted(Struct, frozen=True, gc=False, rename={"message": "messageID"}):
    """A revert of a session."""

    message: str = ""  # the first message that was taken back


class OpenCodeSession(Struct, frozen=True, gc=False, rename={"parent": "parentID"}):
    """A session."""

    id: str = ""
    parent: str | None = None
    version: str = ""
    title: Raw = NULL
    time: Time = Time()
    revert: Reverted | None = None


decode_record = lenient.decoding(OpenCodeRecord)
_SESSION = msgspec.json.Decoder(OpenCodeSession)
DEFAULT_TITLES = ("New session - ", "Child session - ")  # until the model has named the session
SILENT = frozenset(("step-start", "step-finish", "patch", "snapshot", "retry", "agent"))  # parts that no model sees
_URL_KEPT = 2_000  # characters of a file's address
_READ_AS_TEXT = frozenset(("text/plain", "application/x-directory"))
_TEXTS = {
    "compaction": Raw(b'"What did we do so far?"'), "subtask": Raw(b'"The following tool was executed by the user"'),
}  # fmt: skip
_SIGNATURES = frozenset(  # members of reasoning in which providers sign it
    ("signature", "reasoningOpaque", "reasoningEncryptedContent", "thoughtSignature", "redactedData")
)
# The dialects of providers. Others are gateways, whose SDKs send OpenAI's chat completions.
_DIALECTS = {
    "anthropic": "anthropic", "google-vertex-anthropic": "anthropic", "minimax": "anthropic",
    "openai": "openai-responses", "azure": "openai-responses", "google": "gemini", "google-vertex": "gemini",
    "amazon-bedrock": "bedrock",
}  # fmt: skip
_BY_MODEL = frozenset(("opencode", "opencode-go", "github-copilot", "kilo"))  # gateways with a dialect for each model
_MODELS = (("claude", "anthropic"), ("gpt-", "openai-responses"), ("gemini", "gemini"))


_OWN_ID = re.compile(r"(?:msg|prt)_[0-9a-f]{10}")  # as OpenCode makes them: the search for placeholders is slow


def with_own_ids(record: OpenCodeRecord, line_id: str, seen: set[str]) -> OpenCodeRecord:
    """Return a message without ids that identify nothing: a redactor's placeholders, and ids that records share.

    Those of calls become unique, the others empty. `seen` has the ids of earlier messages; this one's is added.
    """
    ids = [record.info.id, *(name for part in record.parts for name in (part.id, part.call_id))]
    ids = list(filter(None, ids))
    shared = {name for name in ids if ids.count(name) > 1} if len({*ids}) < len(ids) else set[str]()
    if record.info.id:
        shared |= {record.info.id} & seen
        seen.add(record.info.id)
    if not shared and all(_OWN_ID.match(name) or visible_value(name) for name in ids):
        return record

    def own(name: str) -> str:
        return "" if name in shared else visible_value(name)

    parts = [
        replace(part, id=own(part.id), call_id=own(part.call_id) or (part.call_id and f"{line_id}:{number}:call"))
        for number, part in enumerate(record.parts)
    ]
    return OpenCodeRecord(replace(record.info, id=own(record.info.id)), parts)


def decode_session(data: bytes) -> OpenCodeSession:
    """Decode a session; an empty one if the data has another shape."""
    try:
        return _SESSION.decode(data)
    except (ValueError, RecursionError):
        return OpenCodeSession()


# parts in a prompt


def prompt_blocks(parts: Iterable[OpenCodePart]) -> tuple[tuple[Block, ...], list[str]]:
    """Return what a message of the user is in a prompt, and the types of unknown parts."""
    blocks: list[Block] = []
    unknown: list[str] = []
    for part in parts:
        if part.type == "text":
            if not part.ignored and opens(part.text) == '"' and bytes(part.text) != b'""':
                blocks.append(TextBlock(part.text))
        elif part.type == "file":
            if part.mime not in _READ_AS_TEXT:
                blocks.append(_file(part))
        elif part.type in _TEXTS:
            blocks.append(TextBlock(_TEXTS[part.type]))
        elif part.type not in SILENT:
            unknown.append(part.type)
    return tuple(blocks), unknown


def _file(part: OpenCodePart) -> Block:
    begin, comma, data = bytes(part.url).partition(b",")
    if part.is_image and comma and begin.startswith(b'"data:') and begin.endswith(b";base64"):
        return ImageBlock(part.mime, Raw(b'"' + data))
    return RawBlock(Raw(encode({"type": "file", "mime": part.mime, "url": text_in(part.url)[:_URL_KEPT]})))


def item_of(part: OpenCodePart, uuid: str, response: str) -> AssistantMessage | ToolCall | None:
    """Return the item of a part of a response; None if it has none."""
    if part.type == "text" and opens(part.text) == '"':
        return AssistantMessage(uuid, blocks=(TextBlock(part.text),), response_id=response)
    if part.type == "reasoning" and opens(part.text) == '"':
        providers = (raw_members(own) or {} for own in (raw_members(bytes(part.metadata)) or {}).values())
        signatures = (text_in(value) for own in providers for name, value in own.items() if name in _SIGNATURES)
        thinking = ThinkingBlock(part.text, next(filter(None, signatures), None))
        return AssistantMessage(uuid, blocks=(thinking,), response_id=response)
    if part.type == "tool":
        arguments = part.state.input if part.state is not None and opens(part.state.input) == "{" else Raw(b"{}")
        return ToolCall(uuid, part.call_id or uuid, part.tool, arguments, response_id=response)
    return None


def result_of(state: OpenCodeState) -> tuple[Literal["failed", "completed"], Raw] | None:
    """Return status and output of a tool call; None while it runs."""
    if state.status not in ("error", "completed"):
        return None
    has_failed = state.status == "error"
    text = state.error if has_failed else state.output
    output = text if opens(text) == '"' else Raw(b'""')
    files = [_file(file) for file in state.attachments or () if file.type == "file" and file.mime not in _READ_AS_TEXT]
    if files and not has_failed:
        output = Raw(msgspec.json.encode([TextBlock(output), *files]))
    return "failed" if has_failed else "completed", output


def text_of_parts(parts: Iterable[OpenCodePart]) -> Raw:
    """Return the text of a response; NULL if it has none."""
    texts = [text_in(part.text).strip() for part in parts if part.type == "text"]
    text = "\n\n".join(filter(None, texts))
    return Raw(encode(text)) if text else NULL


# usage


def counted(parts: list[OpenCodePart]) -> tuple[OpenCodeTokens | None, Raw]:
    """Return tokens and cost of a step, which its end states."""
    ends = (part for part in reversed(parts) if part.type == "step-finish" and part.tokens is not None)
    end = next(ends, OpenCodePart())
    return end.tokens, end.cost


def usage_of(tokens: OpenCodeTokens | None, cost: Raw, client: str = "", dialect: str | None = None) -> Usage | None:
    """Return the usage of a request; None if all counts are 0, as of one that was given up."""
    if tokens is None:
        return None
    output, reasoning, total = tokens.output, tokens.reasoning, tokens.total
    counts = tokens.input, tokens.cache.read, tokens.cache.write
    if not (any(counts) or output):
        return None
    if total and output is not None and reasoning and total == tokens.prompt + output + reasoning:
        output += reasoning
    recorded = recorded_dollars(bytes(cost))
    return usage_without_cached_input(*counts, output, client=client, dialect=dialect, total=total, recorded=recorded)


def dialect_of(provider: str, model: str) -> str:
    """Return the dialect of a provider's requests to a model."""
    if provider in _BY_MODEL:
        name = model.rpartition("/")[2].lower()
        found = next((dialect for begin, dialect in _MODELS if name.startswith(begin)), "openai-chat")
        return "openai-chat" if provider == "github-copilot" and found != "openai-responses" else found
    return _DIALECTS.get(provider, "openai-chat")
