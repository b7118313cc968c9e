"""Records of Cline, Roo Code and Kilo Code: messages of the prompt, what the screen was shown, bills.

In: elements of `api_conversation_history.json` (Anthropic's messages, with times and what hides them) and of
`ui_messages.json` (`say` or `ask`). Out: typed records, blocks, a `Usage`. Rules: content stays a slice.

What `tokensIn` counts, by who wrote it: Roo (since 3.29.5 of 2025-11-01; Kilo since 2025-11-12) all of the prompt;
before that all of it for the protocol "openai", and what was neither read nor written for "anthropic". Cline, which
notes no protocol, leaves out what was cached but for providers whose count it passes on; its command line counts all.
A count that is less than what was cached leaves that out.

Sources: 10 public task folders; the sources of Roo Code (April 2026) and Cline (3.89, November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct, field

from lore.formats.bills import split
from lore.formats.values import count_in, said_in, text_in
from lore.model.canonical import encode
from lore.model.events import Usage
from lore.model.items import NULL, Block, TextBlock

_WHOLE_SINCE = 1_761_955_200_000  # milliseconds: 2025-11-01, from when on Roo counts all of the prompt
_WHOLE_PROVIDERS = frozenset(
    ("openai", "litellm", "doubao", "fireworks", "hicap", "lmstudio", "qwen", "xai", "zai")
)  # whose count Cline passes on
_MODEL = re.compile(rb"<model>([^<\\\"]{1,200})</model>")
_ENVIRONMENT = re.compile(rb'"(?:\\[nrt]|\s)*<environment_details>')
_OWN = re.compile(rb'"(?:\\[nrt]|\s)*<(?:task|feedback|answer|user_message)>')
_OWN_WORDS = (rb"\n<feedback>\n", b"New instructions for task continuation:")
_RESULT = re.compile(rb'"(?:\\[nrt]|\s)*(?:\[[^\]]{1,2000}\] Result:|\[ERROR\]|The tool execution failed)')


class ClineRecord(Struct, frozen=True, gc=False, rename="camel"):
    """A message of the prompt (`role`), or one of the screen (`type`)."""

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
    metadata: ClineNoted | None = None


class ClineNoted(Struct, frozen=True, gc=False, rename="camel"):
    """What Cline's command line notes of a message."""

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
    """Who answered, by Cline."""

    model_id: str | None = None
    provider_id: str | None = None
    id: str | None = None
    provider: str | None = None


class ApiRequest(Struct, frozen=True, gc=False, rename="camel"):
    """What the screen notes of a request: what was sent, and its bill when it came."""

    request: Raw = NULL
    api_protocol: str | None = None
    tokens_in: Raw = NULL
    tokens_out: Raw = NULL
    cache_writes: Raw = NULL
    cache_reads: Raw = NULL
    cancel_reason: str | None = None


class ClineUsage(Struct, frozen=True, gc=False):
    """Why one set of a model in `task_metadata.json` holds: from when on, whose."""

    ts: float = 0
    model_id: str = ""
    model_provider_id: str | None = None


class ClineMetadata(Struct, frozen=True, gc=False):
    """`task_metadata.json`, as far as it is read."""

    model_usage: list[ClineUsage] = field(default_factory=list)


class HistoryItem(Struct, frozen=True, gc=False, rename="camel"):
    """`history_item.json`, as far as it is read."""

    id: str | None = None
    parent_task_id: str | None = None


RECORD = msgspec.json.Decoder(ClineRecord)
_API_REQUEST = msgspec.json.Decoder(ApiRequest)


def is_environment(block: Block) -> bool:
    """Tell whether a block is details of the moment."""
    return isinstance(block, TextBlock) and _ENVIRONMENT.match(block.text) is not None


def text_joined(content: Raw) -> Raw:
    """Return the texts of a message, but for details of the moment, as one JSON text."""
    blocks = (block for block in said_in(content).blocks if not is_environment(block))
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    return texts[0] if len(texts) == 1 else Raw(encode("\n\n".join(text_in(text) for text in texts)))


def is_users(texts: list[Raw]) -> bool:
    """Tell whether a message of the user's role holds what a person wrote, and not results of tools alone."""
    if any(_OWN.match(text) is not None or any(word in bytes(text) for word in _OWN_WORDS) for text in texts):
        return True
    return not any(_RESULT.match(text) for text in texts)


def model_in(text: Raw) -> str:
    """Return the model that details of the environment name; empty where they name none."""
    found = _MODEL.findall(text)
    return found[-1].decode("utf-8", "replace").strip() if found else ""


def bill_of(request: ApiRequest, provider: str | None, model: str | None, at: float) -> Usage | None:
    """Return the bill of a request; `at` is when it began, in milliseconds. None where nothing was counted.

    A write of 0 tokens is unknown where the protocol has no such count.
    """
    tokens = (request.tokens_in, request.cache_reads, request.cache_writes, request.tokens_out)
    (whole, read, write, output), protocol = map(count_in, tokens), request.api_protocol
    if whole is None and output is None:
        return None
    cached = (read or 0) + (write or 0)
    includes = at >= _WHOLE_SINCE or protocol != "anthropic" if protocol is not None else provider in _WHOLE_PROVIDERS
    if not write and protocol != "anthropic" and (protocol is not None or "claude" not in (model or "")):
        write = None
    if whole is None or not includes or (cached > whole and protocol != "openai"):
        return Usage(whole, read, write, output)
    return split(whole, read, write, output)


def request_in(text: Raw) -> ApiRequest:
    """Read what the screen notes of a request, JSON in a text; ValueError where it is none."""
    return _API_REQUEST.decode(text_in(text) or "{}")


def metered(metrics: Mapping[str, Raw]) -> Usage:
    """Return the bill of a message of the command line, whose input counts all of the prompt."""
    names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
    return split(*(count_in(metrics.get(name, NULL)) for name in names))
