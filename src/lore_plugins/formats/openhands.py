"""The reader of OpenHands' conversations (V1, `~/.openhands/conversations/ID/`): a state, and a file for each event.

The state comes first: it has the usage of each response by id, grouped by the use of the model (`agent`, `condenser`).
Events of the model name their response; several events of one response are one request. Input counts include cached
tokens, except those of agents over ACP. The first event has the system prompt, and the tools by name and description;
only MCP tools have schemas. A condensation removes events from the history and inserts its summary between the others:
the events after it are emitted again. Responses that no event names are requests of utility chains, as the condenser's
are; those of subagents are in their own folders (`subagents/`) and skipped here.

Event times are local without a zone and taken for UTC, so only their differences are right.

Sources: `event/`, `conversation/` and `context/` of the OpenHands software-agent-sdk (November 2026); its own samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import (
    Line,
    PackMember,
    PackReader,
    Read,
    SessionBuilder,
    Yields,
    blocks_in,
    call_item,
    fault,
    image_at,
    object_of,
    opens,
    result_of,
    stamp_at,
    text_at,
    text_in,
    usage_with_cached_input,
    usage_without_cached_input,
)
from lore.model import (
    NULL,
    UTILITY,
    AssistantMessage,
    Block,
    Code,
    Item,
    RawBlock,
    Sign,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    array,
    encode,
    is_absent,
    members_at,
)
from lore.model import events as e

_EMPTY = Raw(b'""')
_ERROR = "[An error occurred during execution.]\n"


class _Reasoning(Struct, frozen=True, gc=False):  # an item of the Responses API
    id: str | None = None
    summary: tuple[str, ...] = ()
    encrypted_content: str | None = None


class _OpenHandsMessage(Struct, frozen=True, gc=False):
    role: str = ""
    content: Raw = NULL
    reasoning_content: Raw = NULL
    thinking_blocks: tuple[Raw, ...] = ()
    responses_reasoning_item: _Reasoning | None = None


class _OpenHandsCall(Struct, frozen=True, gc=False):  # a call; arguments are JSON in a string
    id: str = ""
    name: str = ""
    arguments: Raw = NULL
    origin: str = ""


class _OpenHandsMetadata(Struct, frozen=True, gc=False):
    exit_code: int = -1
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    prefix: str = ""
    suffix: str = ""


class _Observation(Struct, frozen=True, gc=False):
    content: Raw = NULL
    is_error: bool = False
    metadata: Raw = NULL
    kind: str = ""


class _OpenHandsEvent(Struct, frozen=True, gc=False):  # one event; its fields depend on its kind
    kind: str
    id: str
    timestamp: str | None = None
    source: str = ""
    system_prompt: dict[str, Raw] | None = None  # a text block
    dynamic_context: dict[str, Raw] | None = None  # a text block
    tools: tuple[Raw, ...] | None = None
    llm_message: _OpenHandsMessage | None = None
    llm_response_id: str | None = None
    extended_content: Raw = NULL
    thought: Raw = NULL
    reasoning_content: Raw = NULL
    thinking_blocks: tuple[Raw, ...] = ()
    responses_reasoning_item: _Reasoning | None = None
    tool_call: _OpenHandsCall | None = None
    tool_call_id: str = ""
    observation: _Observation | None = None
    rejection_reason: str = "User rejected the action"
    error: Raw = NULL
    forgotten_event_ids: tuple[str, ...] = ()
    summary: Raw = NULL
    summary_offset: int | None = None
    reason: str | None = None
    code: str = ""


# The usage or the duration of one response; the prompt count includes cached tokens.
class _OpenHandsUsage(Struct, frozen=True, gc=False):
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    response_id: str = ""
    latency: float = 0.0  # seconds


class _OpenHandsMetrics(Struct, frozen=True, gc=False):  # the usage of all requests of one use of a model
    token_usages: tuple[_OpenHandsUsage, ...] = ()
    response_latencies: tuple[_OpenHandsUsage, ...] = ()


class _OpenHandsState(Struct, frozen=True, gc=False):
    id: str = ""
    agent: dict[str, Raw] | None = None  # its `kind`, and the configured model in `llm`
    stats: dict[str, dict[str, _OpenHandsMetrics]] | None = None  # usage by use of the model, as `usage_to_metrics`


def blocks_of(content: Raw) -> tuple[Block, ...]:
    """Return the blocks of a text or a list of parts, without empty texts; raise ValueError for anything else."""
    blocks: list[Block] = []
    for block in blocks_in(content):
        members = members_at(block.json) if isinstance(block, RawBlock) else {}
        if members.get("type") == b'"image"':  # images by URL
            for url in array(members.get("image_urls", b"")):
                image = RawBlock(Raw(b'{"type":"image_url","image_url":{"url":%b}}' % url), "openai-chat")
                blocks.append(image_at(url) or image)
        elif not isinstance(block, TextBlock) or block.text != _EMPTY:
            blocks.append(block)
    return tuple(blocks)


def thoughts_of(message: _OpenHandsMessage | _OpenHandsEvent) -> Iterator[Block]:
    """Yield a model's thinking: Anthropic's blocks, else a text; and an item of the Responses API."""
    text, item = message.reasoning_content, message.responses_reasoning_item
    for raw in message.thinking_blocks:
        members = members_at(raw)
        if members.get("type") == b'"thinking"' and members.get("thinking", b"")[:1] == b'"':
            yield ThinkingBlock(Raw(members["thinking"]), text_at(members, "signature") or None)
        else:
            yield RawBlock(Raw(bytes(raw)), "anthropic")
    if not message.thinking_blocks and opens(text) == '"' and text != _EMPTY:
        yield ThinkingBlock(text)
    if item is not None:
        summary = [{"type": "summary_text", "text": piece} for piece in item.summary]
        members = {"type": "reasoning", "id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}
        item_json = encode({name: value for name, value in members.items() if value is not None})
        yield RawBlock(Raw(item_json), "openai-responses")


def output_of(session: SessionBuilder, observation: _Observation, extended: Raw) -> Raw:
    """Return a result as the model gets it; a terminal's output is surrounded by its data about the command."""
    blocks: list[Block] = list(blocks_of(observation.content))
    if opens(observation.metadata) == "{":
        members = session.decode(_OpenHandsMetadata, observation.metadata)
        text = b"".join([bytes(block.text)[1:-1] for block in blocks if isinstance(block, TextBlock)])
        lines = (
            f"[Current working directory: {members.working_dir}]" if members.working_dir else "",
            f"[Python interpreter: {members.py_interpreter_path}]" if members.py_interpreter_path else "",
            f"[Command finished with exit code {members.exit_code}]" if members.exit_code != -1 else "",
        )
        end = encode("\n".join([members.suffix, *filter(None, lines)]))
        blocks = [TextBlock(Raw(encode(members.prefix)[:-1] + text + end[1:]))]
    if observation.is_error:
        blocks.insert(0, TextBlock(Raw(encode(_ERROR))))
    blocks += blocks_of(extended)
    return result_of(blocks)


def tool_of(raw: Raw) -> Raw:
    """Return a tool as a function with name, description and, for MCP tools, schema."""
    members = members_at(raw)
    mcp = members_at(members, "mcp_tool")
    name = mcp.get("name") or members.get("name") or members.get("title") or members.get("kind", b'""')
    description = members.get("description") or mcp.get("description") or b"null"
    fields = {"name": name, "description": description, "parameters": mcp.get("inputSchema", b"null")}
    members = {key: value for key, value in fields.items() if key == "name" or value != b"null"}
    return Raw(b'{"type":"function","function":%b}' % object_of(members))


CLIENT, STATE = "openhands", "base_state.json"
_SUBAGENTS = ("task:", "delegate:")  # uses of a model whose requests are in their own folders
_PARALLEL = 1_000  # most events between a call and its result
_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
_TRIGGERS = {"manual": "manual", "context_limit": "overflow"}
# Events for the client or the screen, which no model sees.
_SILENT = frozenset((
    "PauseEvent", "ConversationStateUpdateEvent", "TokenEvent", "LLMCompletionLogEvent", "HookExecutionEvent",
    "ACPToolCallEvent", "StreamingDeltaEvent", "StreamingEvent", "ConversationIterationLimitEvent", "WarningEvent",
    "AskUserEvent", "SecurityAnalyzerEvent", "SecurityEvent", "CondensationSummaryEvent", "ResumeTranscriptEvent",
))  # fmt: skip


@dataclass(slots=True)
class _HistoryEvent:  # an event in the history
    id: str
    items: list[Item] = field(default_factory=list[Item])
    result: str = ""  # id of the event with its call's result


class OpenHands(PackReader):
    """Reader of a conversation's folder."""

    name: ClassVar[str] = CLIENT
    yields: ClassVar[Yields] = "events"
    records_builtin_tools: ClassVar[bool] = False  # of the client: their schemas are not in the files
    unseen: ClassVar[str] = "the schemas of built-in tools"

    def __init__(self) -> None:
        super().__init__()
        self.session = SessionBuilder()
        self._session_id = ""
        self._model: str | None = None
        self._dialect = ""
        self._counts_cached = True  # input counts include cached tokens
        # Of responses without events so far, by id: the use of the model, and the usage.
        self._usages: dict[str, list[tuple[str, _OpenHandsUsage]]] = {}
        self._history: list[_HistoryEvent] = []
        # The request whose events arrive: its response, when that began, its usage.
        self._turn: tuple[str, str | None, _OpenHandsUsage | None] | None = None
        self._condensations = 0
        self._trigger = "auto"  # of the next condensation

    def _read_member(self, member: PackMember) -> list[Read]:
        session, self.session.file = self.session, member.header.name
        reads = session.read_record(Line(1, 0, member.data), self._handle)
        if reads is None:
            reason = fault(member.data) if member.data.strip() else "an empty file"
            session.problem(Code.UNREADABLE_LINE, f"unreadable file: {reason}")
        return reads or session.take()

    def _flush(self) -> list[Read]:
        session = self.session
        session.start_record(session.line)
        session.file = STATE
        self._end_turn()
        for usages in self._usages.values():
            for use, usage in usages:
                self._add_utility(use, usage)
        return session.take()

    def _handle(self, data: bytes) -> None:
        if self.session.file == STATE:
            self._read_state(self.session.decode(_OpenHandsState, data))
            return
        event, session = self.session.decode(_OpenHandsEvent, data), self.session
        stamp = event.timestamp
        session.at = None if not stamp else stamp if _ZONE.search(stamp) else f"{stamp}Z"
        if event.kind in _SILENT:
            return
        self._start_session(event)
        match event.kind:
            case "SystemPromptEvent":
                self._history.append(_HistoryEvent(event.id))
            case "MessageEvent":
                self._read_message(event)
            case "ActionEvent":
                self._start_turn(event.llm_response_id or event.id)  # also if its thoughts are malformed
                blocks = [*thoughts_of(event), *blocks_of(event.thought)]
                self._read_answer(event, blocks, event.tool_call or _OpenHandsCall())
            case "ObservationEvent":
                observation = event.observation or _Observation()
                self._add_result(event, output_of(session, observation, event.extended_content))
            case "UserRejectObservation" | "AgentErrorEvent":
                rejection = Raw(encode(f"Action rejected: {event.rejection_reason}"))
                self._add_result(event, event.error if opens(event.error) == '"' else rejection)
            case "Condensation":
                self._condense(event)
            case "CondensationRequest":
                self._end_turn()
                self._trigger = _TRIGGERS.get(event.reason or "", "auto")
                session.emit(e.CompactStarted(trigger=self._trigger, at=session.at))
            case "InterruptEvent":
                session.signal(Sign("interrupt"))
            case "ConversationErrorEvent":
                session.signal(*[Sign("api-error")] if "LLM" in event.code else ())
            case "SystemPromptUpdateEvent":  # not part of the history
                pass
            case kind:
                session.keep_unknown("unknown event kind", kind)

    def _read_state(self, state: _OpenHandsState) -> None:
        agent = state.agent or {}
        self._session_id, self._counts_cached = state.id, not text_in(agent.get("kind", NULL)).startswith("ACP")
        self._model = text_at(members_at(agent, "llm"), "model") or None
        for use, metrics in (state.stats or {}).get("usage_to_metrics", {}).items():
            if use.startswith(_SUBAGENTS):
                continue
            latencies = {entry.response_id: entry.latency for entry in metrics.response_latencies}
            for usage in metrics.token_usages:
                logged = replace(usage, latency=latencies.get(usage.response_id, 0.0))
                self._usages.setdefault(usage.response_id, []).append((use, logged))

    def _start_session(self, event: _OpenHandsEvent) -> None:
        """Start the session with the system prompt and tools of its first event; later ones change them."""
        session = self.session
        if session.is_started and event.system_prompt is None:
            return
        fixed, dynamic = ((part or {}).get("text", NULL) for part in (event.system_prompt, event.dynamic_context))
        system = fixed if opens(fixed) == '"' else NULL
        if opens(fixed) == opens(dynamic) == '"':
            system = Raw(b"[%b,%b]" % (bytes(fixed), bytes(dynamic)))
        tools = None if event.tools is None else tuple([tool_of(tool) for tool in event.tools])
        if not session.is_started:
            model = (self._model or "").rpartition("/")[2].lower()  # LiteLLM's names are PROVIDER/MODEL
            fallback = "gemini" if model.startswith("gemini") else "openai-chat"
            self._dialect = "anthropic" if "claude" in model else fallback
            session.counter.model = self._model
            session.start_session(
                self._session_id, at=session.at, model=self._model, dialect=self._dialect, system=system, tools=tools
            )
        else:
            session.emit(e.SessionChanged(system=system, tools=tools, at=session.at))

    # the history

    def _read_message(self, event: _OpenHandsEvent) -> None:
        message = event.llm_message
        if message is None:
            raise ValueError("an event without its message")
        blocks = [*blocks_of(message.content), *blocks_of(event.extended_content)]
        if message.role == "assistant":
            self._read_answer(event, [*thoughts_of(message), *blocks])
            return
        self._end_turn()
        source = "user" if event.source == "user" else "context_injection"
        self._add_event(event.id, [UserMessage(event.id, blocks=tuple(blocks), source=source)] if blocks else [])

    def _read_answer(self, event: _OpenHandsEvent, blocks: list[Block], call: _OpenHandsCall | None = None) -> None:
        """Read what the model made: a message, or a call with the thoughts before it."""
        response = event.llm_response_id or event.id
        self._start_turn(response)
        items: list[Item] = []
        if blocks:
            items.append(AssistantMessage(event.id, blocks=tuple(blocks), response_id=response))
        if call is not None:
            if call.origin == "responses" and self._dialect == "openai-chat":
                self._dialect = "openai-responses"
                self.session.emit(e.SessionChanged(dialect=self._dialect))
            call_id = event.tool_call_id or call.id or event.id
            items.append(call_item(f"{event.id}/call", call_id, call.name, call.arguments, response))
        self._add_event(event.id, items)

    def _add_event(self, event_id: str, items: list[Item], result: str = "") -> None:
        self._history.append(_HistoryEvent(event_id, items, result))
        for item in items:
            self.session.append(item)

    def _add_result(self, event: _OpenHandsEvent, output: Raw) -> None:
        is_failed, call_id = event.observation is None or event.observation.is_error, event.tool_call_id
        for earlier in islice(reversed(self._history), _PARALLEL):
            call = earlier.items[-1] if earlier.items else None  # an event has at most one
            if isinstance(call, ToolCall) and call.call_id == call_id:
                earlier.items[-1] = replace(call, status="failed" if is_failed else "completed", output=output)
                earlier.result = event.id
                break
        self._history.append(_HistoryEvent(event.id))
        self.session.add_result(call_id, output, failed=is_failed)

    def _condense(self, event: _OpenHandsEvent) -> None:
        """Remove events from the history, and insert the summary, after which the others are emitted again."""
        forgotten_ids, session = frozenset(event.forgotten_event_ids), self.session
        self._end_turn()
        for use, usage in self._take_usage(event.llm_response_id or ""):
            self._add_utility(use, usage)
        remaining = [entry for entry in self._history if not forgotten_ids & {entry.id, entry.result}]
        offset = None if is_absent(event.summary) else event.summary_offset
        place = len(remaining) if offset is None else max(0, offset)
        self._history, tail = remaining[:place], remaining[place:]
        session.prune(event.id, [item.uuid for entry in self._history for item in entry.items], trigger=self._trigger)
        self._trigger, self._condensations = "auto", self._condensations + 1
        if offset is not None:
            uuid, blocks = f"{event.id}-summary", blocks_of(event.summary)
            self._add_event(uuid, [UserMessage(uuid, blocks=blocks, source="context_injection")])
        for entry in tail:
            uuids = [f"{item.uuid.partition('~')[0]}~{self._condensations}" for item in entry.items]
            items = [replace(item, uuid=uuid) for item, uuid in zip(entry.items, uuids, strict=True)]
            self._add_event(entry.id, items, entry.result)

    # turns

    def _start_turn(self, response: str) -> None:
        """Open the turn of a response with its first event."""
        if self._turn is None or response != self._turn[0]:
            self._end_turn()
            session, usage = self.session, next((usage for _, usage in self._take_usage(response)), None)
            self._turn = response, session.at, usage
            session.counter.asked_at = _before(session.at, 0.0 if usage is None else usage.latency)
            session.start_turn(None if usage is None else usage.model or None)

    def _end_turn(self) -> None:
        session, turn, self._turn = self.session, self._turn, None
        if turn is not None:
            response, at, logged = turn
            usage, number = None if logged is None else self._usage_of(logged), session.counter.number
            session.emit(e.TurnCompleted(turn=number, at=at, usage=usage, response_id=response))

    def _take_usage(self, response: str) -> list[tuple[str, _OpenHandsUsage]]:
        """Remove and return a response's usage, if there is one; of several with one id the first of the state."""
        usages = self._usages.pop(response, [])
        if len(usages) > 1:
            self._usages[response] = usages[1:]
        return usages[:1]

    def _add_utility(self, use: str, usage: _OpenHandsUsage) -> None:
        """Emit a request outside the conversation."""
        session = self.session
        session.chain = UTILITY + use
        session.counter.asked_at = _before(session.at, usage.latency)
        session.start_turn(usage.model or None)
        session.end_turn(self._usage_of(usage), usage.response_id or None)
        session.chain = e.MAIN

    def _usage_of(self, usage: _OpenHandsUsage) -> e.Usage:
        whole, read, write, output = (
            usage.prompt_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.completion_tokens
        )  # fmt: skip
        separate = usage_without_cached_input(whole, read, write, output, client=CLIENT, dialect=self._dialect)
        if not self._counts_cached:
            return separate
        if min(whole, read, write, output) < 0:
            fault = f"{read + write} cached tokens are more than all {whole} of the input"
            return e.Usage(None, read, separate.write_tokens, output, client=CLIENT, contradiction=fault)
        return usage_with_cached_input(whole, read, separate.write_tokens, output, client=CLIENT)


def _before(at: str | None, seconds: float) -> str | None:
    try:
        return at if at is None or seconds <= 0 else stamp_at(datetime.fromisoformat(at).timestamp() - seconds)
    except (ValueError, OverflowError, OSError):
        return at
