"""The lines of GitHub Copilot CLI's `events.jsonl`: `{type, data, id, timestamp, parentId, agentId?}`.

The type of a line says what its data is. Content stays raw JSON; a field that is read and has another type raises
ValueError.

Sources: counts over 17 public sessions, versions 0.0.354 to 1.0.74; the event types that public readers of
`@github/copilot` list, versions up to 1.0.91 (October 2026).
"""

from __future__ import annotations

from msgspec import Raw, Struct

from lore.formats.values import text_in
from lore.model import lenient
from lore.model.items import NULL
from lore.model.jsonslice import raw_members

# Beginnings of the types of lines about the screen, hooks, permissions and the client's own state. The text of a skill
# comes again as a message, name and arguments of a call with the message that made it.
SILENT = (
    "hook.", "tool.execution_start", "tool.execution_partial_result", "tool.execution_progress", "tool.user_requested",
    "assistant.message_", "assistant.turn_end", "assistant.intent", "assistant.idle", "assistant.reasoning",
    "assistant.streaming_", "assistant.usage", "prompt_cache_break", "permission.", "user_input.", "elicitation.",
    "external_tool.", "command", "exit_plan_mode.", "auto_mode_switch.", "mcp.", "sampling.", "pending_messages.",
    "subagent.completed", "subagent.failed", "subagent.selected", "subagent.deselected", "capabilities.", "result",
    "session.info", "session.warning", "session.idle", "session.handoff", "session.plan_", "session.workspace_",
    "session.context_changed", "session.usage_info", "session.task_", "session.background_", "session.remote_",
    "session.schedule_", "session.custom_", "session.extensions_", "session.import_", "session.skills_",
    "session.mcp_", "session.tools_", "session.binary_", "session.autopilot_",
)  # fmt: skip


class CopilotLine(Struct, frozen=True, gc=False, rename="camel"):
    """A line; its type says what the data is."""

    type: str
    data: Raw = NULL
    id: str | None = None
    timestamp: str | None = None
    agent_id: str | None = None  # the subagent that wrote it
    ephemeral: bool = False  # it was written for a screen, and is not in the client's own log


class CopilotChange(Struct, frozen=True, gc=False, rename="camel"):
    """A change of the session, or a start of it or of a subagent; the type of the line decides which fields it has."""

    session_id: str = ""
    copilot_version: str = ""
    start_time: str | None = None
    selected_model: str | None = None
    new_model: str | None = None
    chosen_model: str | None = None  # by the client, which was asked to choose one
    previous_reasoning_effort: str | None = None
    reasoning_effort: str | None = None
    title: Raw = NULL
    previous_mode: str = ""
    new_mode: str = ""
    previous_allow_all_permission_mode: str = ""
    allow_all_permission_mode: str = ""
    up_to_event_id: str = ""  # the first event that a rewind removes
    tool_call_id: str = ""  # that started a subagent
    model: str | None = None  # of a subagent


class CopilotMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message that no model made."""

    content: Raw = NULL
    transformed_content: Raw = NULL  # what the model gets in place of `content`
    source: str | None = None  # who wrote it, if not the user
    attachments: Raw = NULL


class _CopilotRequest(Struct, frozen=True, gc=False, rename="camel"):
    tool_call_id: str = ""
    name: str = ""
    arguments: Raw = NULL


class CopilotAnswer(Struct, frozen=True, gc=False, rename="camel"):
    """A response, or a part of one."""

    message_id: str | None = None
    api_call_id: str | None = None  # the provider's id of the response
    request_id: str | None = None
    service_request_id: str | None = None
    model: str | None = None
    content: Raw = NULL
    tool_requests: tuple[_CopilotRequest, ...] | None = None
    reasoning_text: Raw = NULL
    reasoning_opaque: Raw = NULL
    encrypted_content: Raw = NULL
    output_tokens: int | None = None
    parent_tool_call_id: str | None = None  # the call that started the subagent, in older versions


class CopilotResult(Struct, frozen=True, gc=False, rename="camel"):
    """A tool call ended."""

    tool_call_id: str = ""
    success: bool | None = None
    result: dict[str, Raw] | None = None  # with the output in `content`
    error: dict[str, Raw] | None = None  # with the reason in `message`
    parent_tool_call_id: str | None = None


class _BilledCount(Struct, frozen=True, gc=False, rename="camel"):
    token_type: str = ""  # `input` (without cached tokens), `cache_read`, `cache_write` or `output`
    token_count: int = 0


class BilledCounts(Struct, frozen=True, gc=False, rename="camel"):
    """What a request is charged for."""

    token_details: tuple[_BilledCount, ...] = ()


class CopilotUsage(Struct, frozen=True, gc=False, rename="camel"):
    """Token counts."""

    input_tokens: int | None = None  # with cached tokens
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    duration: int | float | None = None  # in ms
    model: str | None = None
    copilot_usage: BilledCounts | None = None  # its own counts may lack the written tokens


class CopilotCompaction(Struct, frozen=True, gc=False, rename="camel"):
    """A compaction ended."""

    success: bool | None = None
    pre_compaction_tokens: int | None = None
    post_compaction_tokens: int | None = None
    summary_content: Raw = NULL
    compaction_tokens_used: CopilotUsage | None = None  # by the request for the summary
    request_id: str | None = None


# How long what a model writes to its cache lives, as the client knows it.
class _CacheState(Struct, frozen=True, gc=False, rename="camel"):
    model_id: str = ""
    cache_ttl_seconds: int | float | None = None


class _CopilotMetrics(Struct, frozen=True, gc=False):  # sums of the requests to a model since the client began to count
    requests: dict[str, Raw] = {}  # their `count`
    usage: CopilotUsage | None = None


class CopilotTotals(Struct, frozen=True, gc=False, rename="camel"):
    """A checkpoint, written when the session goes idle, or the end of the client. Totals are of the whole session."""

    total_nano_aiu: int | float | None = None
    total_premium_requests: int | float | None = None
    model_cache_state: tuple[_CacheState, ...] | None = None
    prompt_cache_break_state: Raw = NULL
    model_metrics: dict[str, _CopilotMetrics] | None = None


_LINE = lenient.decoding(CopilotLine)


def decode_line(data: bytes) -> CopilotLine:
    """Decode a line; raise ValueError if a field has the wrong type, unless nothing of such a line is read."""
    try:
        return _LINE(data)
    except ValueError:
        kind = text_in((raw_members(data) or {}).get("type", b""))
        if kind.startswith(SILENT):
            return CopilotLine(kind)
        raise
