"""Records of Codex CLI's rollouts: their schema, and the items of the Responses API as items of a timeline.

Items for which a timeline has no type are kept as recorded, without the members that Codex never sends (ids, its
metadata). Messages that the client wrote itself are recognised by how their text begins. If a field differs between the
contexts of two turns (`turn_context`), Codex appends the new value to the history, so that the prefix seldom changes. A
field that a context lacks has not changed.

Sources: counts over 89 public rollouts, versions 0.118 to 0.144; `codex-rs/history`, `codex-rs/protocol` and
`codex-rs/core/src/context` (October 2026) for newer records.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.formats.contents import object_of
from lore.formats.values import blocks_in, text_at
from lore.model import items
from lore.model.canonical import encode, text_of
from lore.model.items import NULL, Block, Item, RawBlock, TextBlock, is_absent
from lore.model.jsonslice import array, is_json, members_at, raw_members
from lore.model.state import LONGEST, Sign, bounded_names

_SIGNALS = {  # by signal: the fields of a context that it reports
    "effort": ("effort", "summary"),
    "date": ("current_date", "timezone"),
    "permission-mode": ("approval_policy", "sandbox_policy", "permission_profile"),
    "instructions": ("cwd", "personality", "collaboration_mode", "multi_agent_mode", "developer_instructions"),
    "memory": ("user_instructions",),
}


class ContextField(NamedTuple):
    """A field of a turn's context."""

    text: bytes  # JSON
    content: bytes  # the part of it whose change is signalled
    label: str  # for a signal: a short text itself, an object's `mode` or `type`; empty for a long text


def signals_of_context(fields: dict[str, ContextField], context: dict[str, Raw]) -> list[Sign]:
    """Compare a turn's context with `fields`, the latest values, and update these; return signals of the changes."""
    signals: list[Sign] = []
    for signal, names in _SIGNALS.items():
        changes: list[tuple[str, str, str]] = []
        for name in names:
            value, before = context.get(name, NULL), fields.get(name)
            if is_absent(value) or (before is not None and value == before.text):
                continue
            after = fields[name] = _context_field(name, bytes(value))
            if before is not None and before.content != after.content:
                is_shown = before.label != after.label
                changes.append((name, before.label if is_shown else "", after.label if is_shown else ""))
        if changes:
            changed_names, befores, afters = zip(*changes, strict=True)
            before_text, after_text = (", ".join(filter(None, labels)) for labels in (befores, afters))
            signals.append(Sign(signal, changed_names, before=before_text, after=after_text))
    return signals


def _context_field(name: str, text: bytes) -> ContextField:
    content, members = text, raw_members(text) if text[:1] == b"{" else None
    if members is None:
        label = text_of(text) if text[:1] == b'"' else text.decode("utf-8", "replace")
    else:
        title = next((members[key] for key in ("mode", "type") if members.get(key, b"")[:1] == b'"'), b'""')
        settings = raw_members(members.get("settings", b"")) if name == "collaboration_mode" else None
        if settings is not None:  # its other settings, as the model, are fields of the context
            content = title + settings.get("developer_instructions", b"")
        label = text_of(title)
    return ContextField(text, content, "" if len(label) > LONGEST or "\n" in label else label)


# Types of records that no model sees: what the screen shows, notes of the client, realtime items.
SILENT = frozenset((
    "event_msg", "world_state", "inter_agent_communication_metadata", "retained_context", "security_risk_score",
    "realtime_item",
))  # fmt: skip
# All known types of records.
TYPES = SILENT | {
    "session_meta", "response_item", "turn_context", "compacted", "token_usage_record", "inter_agent_communication",
}  # fmt: skip


class CodexPayload(Struct, frozen=True, gc=False):
    """An item of the Responses API; its fields depend on the type."""

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


class CodexNotes(Struct, frozen=True, gc=False):
    """The client's notes on an item."""

    delivered_assistant_message: str | None = None  # a tool delivered it: it is not in the prompt
    harness_authored_configuration: bool | None = None  # the client wrote it: it is in the prompt


class CodexCommunication(Struct, frozen=True, gc=False):
    """A message of one agent to another, in older logs."""

    author: str = ""
    recipient: str = ""  # the name of the task
    content: Raw = NULL
    encrypted_content: Raw = NULL
    trigger_turn: bool = False


# Items that are kept as they are, with the members that are sent again.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "reasoning": ("summary", "content", "encrypted_content"), "web_search_call": ("status", "action"),
    "image_generation_call": ("status", "result"), "compaction": ("encrypted_content",),
    "compaction_summary": ("encrypted_content",), "context_compaction": ("encrypted_content",),
}  # fmt: skip
_CALLS = {  # by the type of a call: its tool, if the item does not name it
    "function_call": "", "custom_tool_call": "", "local_shell_call": "local_shell",
    "tool_search_call": "tool_search",
}  # fmt: skip
RESULTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output"))
MADE_BY_MODEL = frozenset((*_MEMBERS, *_CALLS))  # types of its items, except messages
NEVER_SENT = frozenset(("ghost_snapshot", "compaction_trigger", "other"))  # types of items that no prompt holds
CONFIGURATION = "configuration_update"
_CLIENT_ITEMS = frozenset(("additional_tools", CONFIGURATION))  # sent as they are, without `_UNSENT`
_UNSENT = frozenset(("id", "internal_chat_message_metadata_passthrough"))  # members of client items
_DIALECT = "openai-responses"
_START = rb'"(?:\s|\\[nrt]){0,64}'
# Beginnings of messages of the user's role that the client wrote, not the user.
CLIENT_TEXT = re.compile(
    _START + rb"(?:<(?:environment_context|user_instructions|skill|user_shell_command|turn_aborted|hook_prompt"
    rb"|subagent_notification|recommended_plugins|apps_instructions|plugins_instructions)\b"
    rb"|# AGENTS\.md instructions)"
)
# Beginning of a compaction's summary.
_SUMMARY = re.compile(_START + rb"Another language model started to solve this problem")
# Beginnings of developer messages that a rollback removes with the prompt after them.
DEVELOPER_TEXT = re.compile(
    _START + rb"<(?:permissions instructions|model_switch|collaboration_mode|multi_agent_mode|personality_spec"
    rb"|token_budget|skills_instructions|plugins_instructions|realtime_conversation|environments_instructions"
    rb"|context_window\w*|rollout_budget)>"
)


def item_of(payload: CodexPayload, raw: bytes, uuid: str, response: str | None) -> Item | None:
    """Return the item of a payload that is not a result; None for a system message, which is never sent.

    `raw` is the whole record, or the payload alone; it becomes the `OpaqueItem` of a payload of an unknown type.
    """
    kind = payload.type
    if kind == "message":
        if payload.role == "system":  # kept in the file, and never sent
            return None
        blocks = blocks_in(payload.content)
        if payload.role == "assistant":
            return items.AssistantMessage(uuid, blocks=blocks, response_id=response)
        is_own = payload.role == "user" and not any(has_text_like(blocks, text) for text in (CLIENT_TEXT, _SUMMARY))
        return items.UserMessage(uuid, blocks=blocks, source="user" if is_own else "context_injection")
    if kind in _CALLS:
        name = payload.name or _CALLS[kind]
        return items.ToolCall(uuid, payload.call_id or uuid, name, _input_of(payload), response_id=response)
    if kind in _MEMBERS:
        members = {"type": encode(kind)} | {name: bytes(getattr(payload, name)) for name in _MEMBERS[kind]}
        whole = Raw(object_of({name: value for name, value in members.items() if value != b"null"}))
        return items.AssistantMessage(uuid, blocks=(RawBlock(whole, _DIALECT),), response_id=response)
    if kind == "agent_message":
        return items.UserMessage(uuid, blocks=blocks_in(payload.content), source="context_injection")
    if kind in _CLIENT_ITEMS:
        members = members_at(members_at(raw).get("payload", raw))
        item = object_of({name: value for name, value in members.items() if name not in _UNSENT})
        return items.UserMessage(uuid, blocks=(RawBlock(Raw(item), _DIALECT),), source="context_injection")
    return items.OpaqueItem(uuid, Raw(raw))


def has_text_like(blocks: tuple[Block, ...], beginning: re.Pattern[bytes]) -> bool:
    """Return whether a text block of a message matches `beginning`; the pattern begins at the JSON string's quote."""
    return any(type(block) is TextBlock and beginning.match(block.text) is not None for block in blocks)


def _input_of(payload: CodexPayload) -> Raw:
    """Return a call's arguments as JSON; those of a function, which are JSON in a string, as that JSON."""
    arguments = payload.arguments
    if is_absent(arguments):
        value = payload.action if is_absent(payload.input) else payload.input
        return Raw(b"{}") if is_absent(value) else value
    raw = bytes(arguments)
    inner = text_of(raw).encode("utf-8", "surrogatepass") if raw[:1] == b'"' else raw
    return Raw(inner if is_json(inner) else raw)


def output_of(payload: CodexPayload) -> Raw:
    """Return the output of a result as a JSON string or a list of blocks; an empty string without one."""
    output = payload.tools if payload.type == "tool_search_output" else payload.output
    match bytes(memoryview(output)[:1]):
        case b'"':
            return output
        case b"[":
            return Raw(msgspec.json.encode(blocks_in(output)))
        case b"{":  # older: the text as `content`, and whether the tool succeeded
            content = members_at(output).get("content", b"")
            return Raw(content if content[:1] == b'"' else encode(bytes(output).decode("utf-8", "replace")))
        case _:
            return Raw(b'""')


def is_deferred(tool: Raw | bytes) -> bool:
    """Return whether the prompt lacks a tool, or all tools of a namespace, until a tool search finds it."""
    members = members_at(tool)
    inner = _tools_in(members)
    if inner:
        return all(map(is_deferred, inner))
    late = members.get("deferLoading", members.get("defer_loading"))
    return late == b"true" or (late is None and members.get("exposeToContext") == b"false")


def _tools_in(namespace: dict[str, bytes]) -> list[bytes]:  # JSON of each; empty for a tool
    tools = namespace.get("tools", b"")
    return array(tools) if tools[:1] == b"[" else []


def agent_message_of(message: CodexCommunication) -> CodexPayload:
    """Return the `agent_message` item that Codex sends for a record of another agent."""
    parts = [{"type": "input_text", "text": message.content}]
    if not is_absent(message.encrypted_content):
        kind = "NEW_TASK" if message.trigger_turn else "MESSAGE"
        text = f"Message Type: {kind}\nTask name: {message.recipient}\nSender: {message.author}\nPayload:\n"
        sealed = {"type": "encrypted_content", "encrypted_content": message.encrypted_content}
        parts = [{"type": "input_text", "text": Raw(encode(text))}, sealed]
    return CodexPayload(type="agent_message", content=Raw(msgspec.json.encode(parts)))


def signal_of_search(payload: CodexPayload) -> Sign:
    """Return the `tool-reference` signal of a tool search's result, with the names of the tools that it found."""
    tool_names: list[str] = []
    for tool in _tools_in({"tools": bytes(payload.tools)}):
        members = members_at(tool)
        name = text_at(members, "name")
        names = [text_at(members_at(inner), "name") for inner in _tools_in(members)]
        tool_names += [f"{name}__{inner}" for inner in names if inner] or [name]
    return Sign("tool-reference", bounded_names(tool_names))
