"""Lines of GitHub Copilot CLI's `events.jsonl`, decoded as far as a timeline needs them.

In: one line, `{type, data, id, timestamp, parentId, agentId?}`. Out: a record of its type. Rules: a line is decoded
once, into the struct of the type that its beginning names; content stays raw; what a record holds besides is passed
over. A wrong type of a field that is read raises ValueError.

Sources: counts over 17 public sessions, versions 0.0.354 to 1.0.74; the event types of `@github/copilot` as public
readers of them list these, versions up to 1.0.91 (October 2026).
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Raw, Struct

from lore.model.items import NULL

# Lines that no model sees: what the screen showed, what hooks, permissions and the client's own bookkeeping noted. A
# skill's text comes as a message of the user's role, a call's name and arguments with the message that made it.
SILENT = frozenset((
    "hook.start", "hook.end", "hook.progress", "tool.execution_start", "tool.execution_partial_result",
    "tool.execution_progress", "tool.user_requested", "assistant.turn_end", "assistant.intent", "assistant.idle",
    "assistant.reasoning", "assistant.reasoning_delta", "assistant.message_delta", "assistant.message_start",
    "assistant.streaming_delta", "assistant.usage", "prompt_cache_break", "permission.requested",
    "permission.completed", "user_input.requested", "user_input.completed", "elicitation.requested",
    "elicitation.completed", "external_tool.requested", "external_tool.completed", "command.queued",
    "command.execute", "command.completed", "commands.changed", "exit_plan_mode.requested",
    "exit_plan_mode.completed", "auto_mode_switch.requested", "auto_mode_switch.completed", "mcp.oauth_required",
    "mcp.oauth_completed", "sampling.requested", "sampling.completed", "pending_messages.modified",
    "session.info", "session.warning", "session.idle", "session.handoff",
    "session.plan_changed", "session.workspace_file_changed", "session.context_changed", "session.usage_info",
    "session.task_complete", "session.background_tasks_changed", "session.remote_steerable_changed",
    "session.schedule_created", "session.schedule_cancelled", "session.custom_agents_updated",
    "session.extensions_loaded", "session.custom_notification", "session.import_legacy", "session.skills_loaded",
    "session.mcp_servers_loaded", "session.mcp_server_status_changed", "session.tools_updated",
    "session.binary_asset", "session.autopilot_objective_changed", "subagent.completed", "subagent.failed",
    "subagent.selected", "subagent.deselected", "capabilities.changed", "result",
))  # fmt: skip


D = TypeVar("D", covariant=True)


class CopilotLine(Struct, Generic[D], frozen=True, gc=False, kw_only=True, rename="camel"):
    """A line; one of an agent of its own names it."""

    type: str
    data: D
    id: str | None = None
    timestamp: str | None = None
    agent_id: str | None = None


class CopilotOther(CopilotLine[Raw], frozen=True, gc=False, kw_only=True):
    """A line of a type that nobody knows; Copilot's have data. One that is `ephemeral` is for who looks on."""

    data: Raw = NULL
    ephemeral: bool = False


class CopilotPassed(Struct, frozen=True, gc=False):
    """A line of a silent type that says something odd."""

    type: str


class Start(Struct, frozen=True, gc=False, rename="camel"):
    """Who began a session, or goes on with it, with what."""

    session_id: str = ""
    copilot_version: str = ""
    start_time: str | None = None
    selected_model: str | None = None
    reasoning_effort: str | None = None


class CopilotModel(Struct, frozen=True, gc=False, rename="camel"):
    """Another model, or another effort of it."""

    new_model: str | None = None
    previous_reasoning_effort: str | None = None
    reasoning_effort: str | None = None


class Title(Struct, frozen=True, gc=False):
    """A title of the session, which a model or the user gave it."""

    title: Raw = NULL


class Mode(Struct, frozen=True, gc=False, rename="camel"):
    """What the agent may do; a mode, or permissions that are on or off."""

    previous_mode: str = ""
    new_mode: str = ""
    previous_allow_all_permission_mode: str = ""
    allow_all_permission_mode: str = ""


class CopilotMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message that the model did not make.

    `transformed_content` is what the model sees in place of `content`; `source` names who wrote it, where no user did.
    """

    content: Raw = NULL
    transformed_content: Raw = NULL
    source: str | None = None
    attachments: Raw = NULL


class CopilotRequest(Struct, frozen=True, gc=False, rename="camel"):
    """A tool call."""

    tool_call_id: str = ""
    name: str = ""
    arguments: Raw = NULL


class CopilotAnswer(Struct, frozen=True, gc=False, rename="camel"):
    """What the model made; `api_call_id` is the provider's name of the response, the others those of its request."""

    message_id: str | None = None
    api_call_id: str | None = None
    request_id: str | None = None
    service_request_id: str | None = None
    model: str | None = None
    content: Raw = NULL
    tool_requests: tuple[CopilotRequest, ...] | None = None
    reasoning_text: Raw = NULL
    reasoning_opaque: Raw = NULL
    encrypted_content: Raw = NULL
    output_tokens: int | None = None
    parent_tool_call_id: str | None = None


class CopilotResult(Struct, frozen=True, gc=False, rename="camel"):
    """The end of a call: the `content` of its result, or the `message` that says why it failed."""

    tool_call_id: str = ""
    success: bool | None = None
    result: dict[str, Raw] | None = None
    error: dict[str, Raw] | None = None
    parent_tool_call_id: str | None = None


class Subagent(Struct, frozen=True, gc=False, rename="camel"):
    """An agent that a call began."""

    tool_call_id: str = ""
    model: str | None = None


class CopilotUsage(Struct, frozen=True, gc=False, rename="camel"):
    """Counts of tokens: input includes what was read from a cache or written to one."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    duration: int | float | None = None
    model: str | None = None


class CopilotCompaction(Struct, frozen=True, gc=False, rename="camel"):
    """A compaction, begun or done: what it sums up, and what its own request was billed."""

    success: bool | None = None
    pre_compaction_tokens: int | None = None
    post_compaction_tokens: int | None = None
    summary_content: Raw = NULL
    compaction_tokens_used: CopilotUsage | None = None
    request_id: str | None = None


class Rewind(Struct, frozen=True, gc=False, rename="camel"):
    """Where a session was taken back to: this event and all behind it are gone."""

    up_to_event_id: str = ""


class CacheState(Struct, frozen=True, gc=False, rename="camel"):
    """How long what a model wrote to its cache lives, as the client reckons."""

    model_id: str = ""
    cache_ttl_seconds: int | float | None = None


class CopilotCheckpoint(Struct, frozen=True, gc=False, rename="camel"):
    """What the client notes when a session goes idle; what it knows of prompts by hash stays raw."""

    total_nano_aiu: int | float | None = None
    total_premium_requests: int | float | None = None
    model_cache_state: tuple[CacheState, ...] | None = None
    prompt_cache_break_state: Raw = NULL


class Requests(Struct, frozen=True, gc=False):
    """How many requests a model answered."""

    count: int | None = None


class CopilotMetrics(Struct, frozen=True, gc=False):
    """What a model answered and was billed, since the session began or was resumed."""

    requests: Requests | None = None
    usage: CopilotUsage | None = None


class Shutdown(Struct, frozen=True, gc=False, rename="camel"):
    """What a client sums up at its end."""

    total_nano_aiu: int | float | None = None
    total_premium_requests: int | float | None = None
    model_metrics: dict[str, CopilotMetrics] | None = None
