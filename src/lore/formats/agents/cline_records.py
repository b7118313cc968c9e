"""Records of Cline, Roo Code and Kilo Code: messages that were sent, records of the screen, usage.

`api_conversation_history.json` has Anthropic's messages, with times and with the ids of cuts that hide them;
`ui_messages.json` has records of the screen (`say` or `ask`).

What `tokensIn` counts depends on the client. Roo (since 3.29.5 of 2025-11-01; Kilo since 2025-11-12) counts the whole
prompt; before that the whole prompt for the protocol "openai", and only uncached tokens for "anthropic".
Cline, which notes no protocol, leaves out cached tokens, except for providers whose count it passes on; its command
line counts the whole prompt. A count that is less than the cached tokens leaves these out.

Sources: 10 public task folders; the sources of Roo Code (April 2026) and Cline (3.89, November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct, field

from lore.formats.bills import usage_with_cached_input
from lore.formats.values import count_in, said_in, text_in
from lore.model.canonical import encode
from lore.model.events import Usage
from lore.model.items import NULL, Block, TextBlock

_WHOLE_SINCE = 1_761_955_200_000  # milliseconds: since 2025-11-01 Roo counts the whole prompt
_WHOLE_PROVIDERS = frozenset(
    ("openai", "litellm", "doubao", "fireworks", "hicap", "lmstudio", "qwen", "xai", "zai")
)  # whose count Cline passes on
_MODEL = re.compile(rb"<model>([^<\\\"]{1,200})</model>")
_ENVIRONMENT = re.compile(rb'"(?:\\[nrt]|\s)*<environment_details>')
_PROMPT = re.compile(rb'"(?:\\[nrt]|\s)*<(?:task|feedback|answer|user_message)>')
_PROMPT_WORDS = (rb"\n<feedback>\n", b"New instructions for task continuation:")
_RESULT = re.compile(rb'"(?:\\[nrt]|\s)*(?:\[[^\]]{1,2000}\] Result:|\[ERROR\]|The tool execution failed)')


class ClineRecord(Struct, frozen=True, gc=False, rename="camel"):
    """A message that was sent (it has a `role`), or a record of the screen (it has a `type`)."""

    ts: Raw = NULL
    role: str = ""
    content: Raw = NULL
    type: str = ""
    say: str | None = None
    ask: str | None = None
    text: Raw = NULL
    partial: bool | None = None
    is_summary: bool | None = None
    is_truncation_marker: bool | None = None
    condense_id: str | None = None
    condense_parent: str | None = None
    truncation_id: str | None = None
    truncation_parent: str | None = None
    context_condense: Condense | None = None
    context_truncation: Condense | None = None
    conversation_history_deleted_range: list[int] | None = None
    model_info: ModelInfo | None = None
    metrics: dict[str, Raw] | None = None
    metadata: ClineNotes | None = None


class ClineNotes(Struct, frozen=True, gc=False, rename="camel"):
    """Notes of Cline's command line about a message."""

    kind: str | None = None
    tokens_before: Raw = NULL
    display_only: bool | None = None


class Condense(Struct, frozen=True, gc=False, rename="camel"):
    """A condensation or a truncation, as the screen shows it."""

    summary: Raw = NULL
    prev_context_tokens: Raw = NULL
    new_context_tokens: Raw = NULL
    condense_id: str | None = None
    truncation_id: str | None = None


class ModelInfo(Struct, frozen=True, gc=False, rename="camel"):
    """Who answered, as Cline notes it."""

    model_id: str | None = None
    provider_id: str | None = None
    id: str | None = None
    provider: str | None = None


class ApiRequest(Struct, frozen=True, gc=False, rename="camel"):
    """The `text` of an `api_req_started`: the text that was sent, and its counts once the answer has come."""

    request: Raw = NULL
    api_protocol: str | None = None
    tokens_in: Raw = NULL
    tokens_out: Raw = NULL
    cache_writes: Raw = NULL
    cache_reads: Raw = NULL
    cancel_reason: str | None = None


class ClineUsage(Struct, frozen=True, gc=False):
    """A model of `task_metadata.json`, and since when it was used."""

    ts: float = 0
    model_id: str = ""
    model_provider_id: str | None = None


class ClineMetadata(Struct, frozen=True, gc=False):
    """The part of `task_metadata.json` that is read."""

    model_usage: list[ClineUsage] = field(default_factory=list)


class HistoryItem(Struct, frozen=True, gc=False, rename="camel"):
    """The part of `history_item.json` that is read."""

    id: str | None = None
    parent_task_id: str | None = None


RECORD = msgspec.json.Decoder(ClineRecord)
_API_REQUEST = msgspec.json.Decoder(ApiRequest)


def is_environment(block: Block) -> bool:
    """Return whether a block is the details of the environment."""
    return isinstance(block, TextBlock) and _ENVIRONMENT.match(block.text) is not None


def text_joined(content: Raw) -> Raw:
    """Return the texts of a message as one JSON text, without the details of the environment."""
    blocks = (block for block in said_in(content).blocks if not is_environment(block))
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    return texts[0] if len(texts) == 1 else Raw(encode("\n\n".join(text_in(text) for text in texts)))


def has_prompt(texts: list[Raw]) -> bool:
    """Return whether a message in the user's role has text that a person wrote, not only results of tools."""
    if any(_PROMPT.match(text) is not None or any(word in bytes(text) for word in _PROMPT_WORDS) for text in texts):
        return True
    return not any(_RESULT.match(text) for text in texts)


def model_in(text: Raw) -> str:
    """Return the model that the details of the environment name; empty if they name none."""
    models = _MODEL.findall(text)
    return models[-1].decode("utf-8", "replace").strip() if models else ""


def request_in(text: Raw) -> ApiRequest:
    """Read the JSON in the text of an `api_req_started`; ValueError if it is malformed."""
    return _API_REQUEST.decode(text_in(text) or "{}")


def usage_of(request: ApiRequest, provider: str | None, model: str | None, at: float) -> Usage | None:
    """Return the counts of a request that began `at` this time in milliseconds; None if nothing was counted.

    A write count of 0 is unknown if the protocol has no such count.
    """
    tokens = (request.tokens_in, request.cache_reads, request.cache_writes, request.tokens_out)
    (whole, read, write, output), protocol = map(count_in, tokens), request.api_protocol
    if whole is None and output is None:
        return None
    if not write and protocol != "anthropic" and (protocol is not None or "claude" not in (model or "")):
        write = None
    is_whole = at >= _WHOLE_SINCE or protocol != "anthropic" if protocol is not None else provider in _WHOLE_PROVIDERS
    cached = (read or 0) + (write or 0)
    if whole is None or not is_whole or (cached > whole and protocol != "openai"):
        return Usage(whole, read, write, output)
    return usage_with_cached_input(whole, read, write, output)


def usage_in(metrics: Mapping[str, Raw]) -> Usage:
    """Return the counts of a message of the command line, whose input is the whole prompt."""
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
    return usage_with_cached_input(*(count_in(metrics.get(name, NULL)) for name in names))
