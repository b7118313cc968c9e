"""Lines of Codex CLI's rollouts and their items: decoded, and as items of a timeline.

In: one line, `{timestamp, type, payload}`. Out: a record of its type; of an item of the Responses API an item of the
timeline, or what became of a call. Rules: a line is decoded once, into the struct of the type that its beginning names;
content stays raw; what a record holds besides is passed over, and a wrong type of a field that is read raises
ValueError. What Codex never sends (ids, its own metadata) is left out of items that stand for themselves; a message
that the client wrote by itself is `context_injection`, told by how its text begins.

Sources: counts over 89 public rollouts, versions 0.118 to 0.144; `codex-rs/history`, `codex-rs/protocol` and
`codex-rs/core/src/context` (October 2026) for newer records.
"""

from __future__ import annotations

import re
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.contents import object_of
from lore.formats.values import Kinds, blocks_in, text_in
from lore.model import lenient
from lore.model.canonical import encode, text_of
from lore.model.events import PatchToolCall
from lore.model.items import (
    NULL,
    AssistantMessage,
    Block,
    Item,
    RawBlock,
    TextBlock,
    ToolCall,
    UserMessage,
    is_absent,
    is_blank,
)
from lore.model.jsonslice import array, is_json, raw_members
from lore.model.state import Sign, bounded

# Lines that no model sees: what the screen showed, what the client notes for itself. Realtime items are presentation.
SILENT = frozenset((
    "event_msg", "world_state", "inter_agent_communication_metadata", "retained_context", "security_risk_score",
    "realtime_item",
))  # fmt: skip
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
    thread_name: Raw = NULL


class Meta(Struct, frozen=True, gc=False):
    """Who began a thread, with what; `source` is an object where a subagent did.

    `base_instructions` hold the system prompt as `text`; `history_base` says which log holds what came before, where
    this one does not repeat it; `subagent_history_start_ordinal` is the number of the first record that is no copy of
    the parent's.
    """

    id: str = ""
    timestamp: str | None = None
    cli_version: str = ""
    model_provider: str | None = None
    source: Raw = NULL
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    base_instructions: dict[str, Raw] | None = None
    dynamic_tools: tuple[Raw, ...] | None = None
    history_base: Raw = NULL
    subagent_history_start_ordinal: int | None = None


class CodexCompacted(Struct, frozen=True, gc=False):
    """A compaction: the history that stands in place of all before it, or (older) a summary alone."""

    message: Raw = NULL
    replacement_history: tuple[Raw, ...] | None = None


class UsageRecord(Struct, frozen=True, gc=False):
    """The bill of one response."""

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
payload_of = lenient.decoding(CodexPayload)  # of an item that stands by itself


# What stands for itself in a history, with the members that are sent again.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "reasoning": ("summary", "content", "encrypted_content"),
    "web_search_call": ("status", "action"),
    "image_generation_call": ("status", "result"),
    "compaction": ("encrypted_content",),
    "compaction_summary": ("encrypted_content",),
    "context_compaction": ("encrypted_content",),
}
_CALLS = {
    "function_call": "",
    "custom_tool_call": "",
    "local_shell_call": "local_shell",
    "tool_search_call": "tool_search",
}
OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output"))
MADE = frozenset((*_MEMBERS, *_CALLS))  # by the model, as its messages are
NEVER_SENT = frozenset(("ghost_snapshot", "compaction_trigger", "other"))
CONFIGURATION = "configuration_update"
_CLIENTS_OWN = frozenset(("additional_tools", CONFIGURATION))  # sent as they are, but for what is Codex's own
_UNSENT = frozenset(("id", "internal_chat_message_metadata_passthrough"))
_DIALECT = "openai-responses"
_SPACE = rb'"(?:\s|\\[nrt]){0,64}'
# How a message of the user's role begins that the client wrote.
_CLIENTS = re.compile(
    _SPACE + rb"(?:<(?:environment_context|user_instructions|skill|user_shell_command|turn_aborted|hook_prompt"
    rb"|subagent_notification|recommended_plugins|apps_instructions|plugins_instructions)\b"
    rb"|# AGENTS\.md instructions)"
)
_SUMMARY = re.compile(_SPACE + rb"Another language model started to solve this problem")
# How a developer's message begins that a rollback takes back with the prompt behind it.
_DEVELOPERS = re.compile(
    _SPACE + rb"<(?:permissions instructions|model_switch|collaboration_mode|multi_agent_mode|personality_spec"
    rb"|token_budget|skills_instructions|plugins_instructions|realtime_conversation|environments_instructions"
    rb"|context_window\w*|rollout_budget)>"
)


Made: TypeAlias = Item | PatchToolCall
_TEXT = msgspec.json.Decoder(str)
_RAW = msgspec.json.Decoder(Raw)


def made_of(payload: CodexPayload, raw: bytes, uuid: str, response: str | None, at: str | None) -> Made | None:
    """Return what an item says; `raw` is a line that ends with it, or itself. None where no reader knows its type."""
    kind = payload.type
    if kind in OUTPUTS:
        return _outcome(payload, at)
    if kind in _CALLS:
        name = payload.name or _CALLS[kind]
        return ToolCall(uuid, payload.call_id or uuid, name, _input(payload), response_id=response)
    if kind == "message":
        return _message(payload, uuid, response)
    if kind in _MEMBERS:
        return AssistantMessage(uuid, blocks=(_itself(payload),), response_id=response)
    if kind == "agent_message":
        return UserMessage(uuid, blocks=blocks_in(payload.content), source="context_injection")
    if kind in _CLIENTS_OWN:
        own = raw_members((raw_members(raw) or {}).get("payload", raw)) or {}
        sent = object_of({name: value for name, value in own.items() if name not in _UNSENT})
        return UserMessage(uuid, blocks=(RawBlock(Raw(sent), _DIALECT),), source="context_injection")
    return None


def _message(payload: CodexPayload, uuid: str, response: str | None) -> Item | None:
    if payload.role == "assistant":
        return AssistantMessage(uuid, blocks=blocks_in(payload.content), response_id=response)
    if payload.role == "system":  # kept in the file, and never sent
        return None
    blocks = blocks_in(payload.content)
    own = payload.role == "user" and not is_clients(blocks) and not _begins(blocks, _SUMMARY)
    return UserMessage(uuid, blocks=blocks, source="user" if own else "context_injection")


def is_clients(blocks: tuple[Block, ...], *, developer: bool = False) -> bool:
    """Tell whether any part of a message of the user's or the `developer`'s role was written by the client."""
    return _begins(blocks, _DEVELOPERS if developer else _CLIENTS)


def _begins(blocks: tuple[Block, ...], pattern: re.Pattern[bytes]) -> bool:
    return any(type(block) is TextBlock and pattern.match(block.text) is not None for block in blocks)


def _input(payload: CodexPayload) -> Raw:
    """Return a call's arguments: those of a function are JSON inside a string."""
    if not is_absent(payload.arguments):
        try:
            inner = _TEXT.decode(payload.arguments).encode()
            _RAW.decode(inner)
            return Raw(inner)
        except ValueError:  # they are no text, no JSON, or hold lone surrogates
            raw = bytes(payload.arguments)
            inner = text_of(raw).encode("utf-8", "surrogatepass") if raw[:1] == b'"' else raw
            return Raw(inner) if is_json(inner) else Raw(raw)
    if not is_absent(payload.input):
        return payload.input
    return payload.action if not is_absent(payload.action) else Raw(b"{}")


def _outcome(payload: CodexPayload, at: str | None) -> PatchToolCall:
    output = payload.tools if payload.type == "tool_search_output" else payload.output
    raw = bytes(memoryview(output)[:1])
    if raw == b"[":
        output = Raw(msgspec.json.encode(blocks_in(output)))
    elif raw == b"{":  # older: the text, and whether it went well
        content = (raw_members(bytes(output)) or {}).get("content", b"")
        output = Raw(content if content[:1] == b'"' else encode(bytes(output).decode("utf-8", "replace")))
    elif raw != b'"':
        output = Raw(b'""')
    return PatchToolCall(call_id=payload.call_id or "", status="completed", output=output, at=at)


def _itself(payload: CodexPayload) -> RawBlock:
    """Return an item of the API's own with the members that are sent."""
    members = {"type": encode(payload.type)}
    members |= {name: bytes(getattr(payload, name)) for name in _MEMBERS[payload.type]}
    return RawBlock(Raw(object_of({name: raw for name, raw in members.items() if raw != b"null"})), _DIALECT)


def is_deferred(tool: Raw | bytes) -> bool:
    """Tell whether a tool that the client was given is in no prompt until a search finds it: of a namespace all."""
    own = raw_members(bytes(tool)) or {}
    inner = array(own["tools"]) if own.get("tools", b"")[:1] == b"[" else []
    if inner:
        return all(map(is_deferred, inner))
    late = own.get("deferLoading", own.get("defer_loading"))
    return late == b"true" or (late is None and own.get("exposeToContext") == b"false")


def message_of(told: Communication) -> CodexPayload:
    """Return what one agent told another as the item that the model gets of it."""
    parts = [{"type": "input_text", "text": told.content}]
    if not is_absent(told.encrypted_content):
        kind = "NEW_TASK" if told.trigger_turn else "MESSAGE"
        text = f"Message Type: {kind}\nTask name: {told.recipient}\nSender: {told.author}\nPayload:\n"
        sealed = {"type": "encrypted_content", "encrypted_content": told.encrypted_content}
        parts = [{"type": "input_text", "text": Raw(encode(text))}, sealed]
    return CodexPayload(type="agent_message", content=Raw(msgspec.json.encode(parts)))


def sign_of_search(payload: CodexPayload) -> Sign:
    """Return the tools that a search found, each with the namespace that it stands in."""
    found: list[str] = []
    for tool in array(bytes(payload.tools)) if bytes(memoryview(payload.tools)[:1]) == b"[" else ():
        own = raw_members(tool) or {}
        name = text_in(own.get("name", b""))
        inner = array(own["tools"]) if own.get("tools", b"")[:1] == b"[" else []
        names = filter(None, (text_in((raw_members(held) or {}).get("name", b"")) for held in inner))
        found += [f"{name}__{each}" for each in names] or [name]
    return Sign("tool-reference", bounded(found))


def parent_of(source: Raw) -> str | None:
    """Return the thread that spawned a subagent; None where the source says nothing of it."""
    spawned = (
        raw_members(
            (raw_members((raw_members(bytes(source)) or {}).get("subagent", b"")) or {}).get("thread_spawn", b"")
        )
        or {}
    )
    return text_in(spawned.get("parent_thread_id", b"")) or None


def is_empty(text: Raw) -> bool:
    """Tell whether a summary says nothing: newer compactions leave it empty."""
    return is_absent(text) or bytes(memoryview(text)[:1]) != b'"' or is_blank(text)
