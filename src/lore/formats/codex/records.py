"""Lines of Codex CLI's rollouts, decoded as far as a timeline needs them.

In: one line, `{timestamp, type, payload}`. Out: a record of its type. Rules: a line is decoded once, into the struct of
the type that its beginning names; content stays raw; what a record holds besides is passed over. A wrong type of a
field that is read raises ValueError.

Sources: counts over 89 public rollouts, versions 0.118 to 0.144; `codex-rs/history`, `codex-rs/protocol` and
`codex-rs/core/src/context_manager` of October 2026 for newer records.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.values import Kinds
from lore.model import lenient
from lore.model.items import NULL

# Lines that no model sees: what the screen showed, what the client notes for itself. Realtime items are presentation.
SILENT = frozenset(
    (
        "event_msg", "world_state", "inter_agent_communication_metadata", "retained_context", "security_risk_score",
        "realtime_item",
    )
)  # fmt: skip
TYPES = SILENT | {
    "session_meta", "response_item", "turn_context", "compacted", "token_usage_record", "inter_agent_communication",
}  # fmt: skip


P = TypeVar("P", covariant=True)


class CodexLine(Struct, Generic[P], frozen=True, gc=False, kw_only=True):
    """A line; `type` is that of the payload's family. `ordinal` is its number in newer logs."""

    type: str
    payload: P
    timestamp: str | None = None
    ordinal: int | None = None


class CodexOther(Struct, frozen=True, gc=False):
    """A line of another type; its payload may be anything."""

    type: str
    timestamp: str | None = None
    ordinal: int | None = None


class CodexPayload(Struct, frozen=True, gc=False):
    """An item of the Responses API. Which fields there are depends on its type."""

    type: str = ""
    role: str = ""
    name: str = ""
    call_id: str | None = None
    content: Raw = NULL
    arguments: Raw = NULL
    input: Raw = NULL
    output: Raw = NULL
    action: Raw = NULL
    status: Raw = NULL
    summary: Raw = NULL
    encrypted_content: Raw = NULL
    result: Raw = NULL
    tools: Raw = NULL


class CodexNoted(Struct, frozen=True, gc=False):
    """What Codex itself notes of an item.

    A message that was delivered by a tool is no item of the prompt; an update of the configuration is one where the
    client wrote it.
    """

    delivered_assistant_message: str | None = None
    harness_authored_configuration: bool | None = None


class ItemLine(CodexLine[CodexPayload], frozen=True, kw_only=True):
    """A line that is an item of the history."""

    metadata: CodexNoted | None = None


class CodexUsage(Struct, frozen=True, gc=False):
    """Counts of tokens: input includes what was cached, output includes reasoning."""

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class CodexInfo(Struct, frozen=True, gc=False):
    """What a `token_count` says: the sums so far, and the counts of the last response."""

    total_token_usage: CodexUsage | None = None
    last_token_usage: CodexUsage | None = None


class Happened(Struct, frozen=True, gc=False):
    """What the screen was told."""

    type: str = ""
    info: CodexInfo | None = None
    num_turns: Raw = NULL


class Instructions(Struct, frozen=True, gc=False):
    """The system prompt."""

    text: Raw = NULL


class Meta(Struct, frozen=True, gc=False):
    """Who began a thread, with what; `source` is an object where a subagent did.

    `history_base` says which log holds what came before, where this one does not repeat it;
    `subagent_history_start_ordinal` is the number of the first record that is no copy of the parent's.
    """

    id: str = ""
    timestamp: str | None = None
    cli_version: str = ""
    model_provider: str | None = None
    source: Raw = NULL
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    base_instructions: Instructions | None = None
    dynamic_tools: tuple[Raw, ...] | None = None
    history_base: Raw = NULL
    subagent_history_start_ordinal: int | None = None


class CodexCompacted(Struct, frozen=True, gc=False):
    """A compaction: the history that stands in place of all before it, or (older) a summary alone."""

    message: Raw = NULL
    replacement_history: tuple[Raw, ...] | None = None


class UsageRecord(Struct, frozen=True, gc=False):
    """The bill of one response."""

    thread_id: str = ""
    response_id: str | None = None
    usage: CodexUsage | None = None


class Communication(Struct, frozen=True, gc=False):
    """What one agent told another, as older logs keep it: `recipient` is the task's name."""

    author: str = ""
    recipient: str = ""
    content: Raw = NULL
    encrypted_content: Raw = NULL
    trigger_turn: bool = False


LINES: Kinds[CodexLine[object] | CodexOther] = Kinds(
    {
        "response_item": ItemLine,
        "event_msg": CodexLine[Happened],
        "session_meta": CodexLine[Meta],
        "turn_context": CodexLine[dict[str, Raw]],
        "compacted": CodexLine[CodexCompacted],
        "token_usage_record": CodexLine[UsageRecord],
        "inter_agent_communication": CodexLine[Communication],
    },
    CodexOther,
    SILENT,
)
_PAYLOAD = msgspec.json.Decoder(CodexPayload)


def payload_of(raw: bytes) -> CodexPayload:
    """Decode an item that stands by itself; ValueError where it is none."""
    try:
        return _PAYLOAD.decode(raw)
    except ValueError:
        return lenient.convert(raw, CodexPayload)
