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
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import ClassVar

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats import (
    Emitting,
    Line,
    PackMember,
    PackReader,
    Read,
    TranscriptTurns,
    apart,
    called,
    fault,
    opens,
    split,
    stamp_at,
)
from lore.model import (
    NULL,
    UTILITY,
    AssistantMessage,
    Block,
    Code,
    Item,
    Sign,
    ToolCall,
    UserMessage,
    cut_masked,
    encode,
    is_absent,
    mask_credentials,
)
from lore.model import events as e
from lore_plugins.formats import openhands_records as records
from lore_plugins.formats.openhands_records import OpenHandsEvent, OpenHandsUsage

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


class Bill(Struct, gc=False):
    """The usage of a response."""

    use: str  # of the model
    usage: OpenHandsUsage
    latency: float = 0.0  # seconds


class Viewed(Struct, gc=False):
    """An event in the history."""

    id: str
    items: list[Item] = []
    result: str = ""  # id of the event with its call's result


class OpenHandsMemory(Struct):
    """The state of the reader."""

    started: bool = False
    session: str = ""
    model: str | None = None
    separate: bool = False  # whether input counts exclude cached tokens
    dialect: str = ""
    bills: dict[str, list[Bill]] = {}  # of responses without events so far, by id
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    utilities: dict[str, TranscriptTurns] = {}
    view: list[Viewed] = []  # the history
    response: str | None = None  # the response of the open turn
    responded: str | None = None  # its time
    bill: Bill | None = None  # its usage
    condensed: int = 0  # number of condensations
    trigger: str | None = None  # of the next condensation


class OpenHands(Emitting[OpenHandsMemory], PackReader):
    """Reader of a conversation's folder."""

    name: ClassVar[str] = CLIENT
    memory = OpenHandsMemory
    own_tools: ClassVar[bool] = False  # of the client: their schemas are not in the files
    unseen: ClassVar[str] = "the schemas of built-in tools"

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _member(self, member: PackMember) -> list[Read]:
        line, self._file = Line(1, 0, member.data), member.header.name
        if not self._modelled(line):
            reason = fault(line.data) if line.data.strip() else "an empty file"
            self._problem(Code.UNREADABLE_LINE, f"unreadable file: {reason}")
        return self._taken()

    def _rest(self) -> list[Read]:
        self._at_record(self._line)
        self._file = STATE
        self._close()
        bills, self._memory.bills = self._memory.bills, {}
        for bill in (bill for found in bills.values() for bill in found):  # without events
            self._utility(bill)
        return self._taken()

    def _take(self, data: bytes) -> None:
        if self._file == STATE:
            self._state(records.state_of(data))
            return
        event = records.event_of(data)
        stamp = event.timestamp  # a time without a zone is taken for UTC
        self._at = None if not stamp else stamp if _ZONE.search(stamp) else f"{stamp}Z"
        handle = _HANDLERS.get(event.kind)
        if handle is None and event.kind in _SILENT:
            return
        self._start_session(event)
        if handle is not None:
            handle(self, event)
        else:
            self._unknown("unknown event kind", event.kind)

    def _state(self, state: records.OpenHandsState) -> None:
        memory, agent = self._memory, state.agent or records.OpenHandsAgent()
        memory.session, memory.separate = state.id, agent.kind.startswith("ACP")
        memory.model = None if agent.llm is None else agent.llm.model
        for use, raw in (state.stats or records.Stats()).usage_to_metrics.items():
            if use.startswith(_SUBAGENTS):
                continue
            try:
                metrics = records.metrics_of(raw)
            except ValueError as error:
                reason = cut_masked(str(error), 120)
                self._problem(Code.MALFORMED_RECORD, f"usage of {mask_credentials(use)[:40]!r} is skipped: {reason}")
                continue
            latencies = {entry.response_id: entry.latency for entry in metrics.response_latencies}
            for usage in metrics.token_usages:
                bill = Bill(use, usage, latencies.get(usage.response_id, 0.0))
                memory.bills.setdefault(usage.response_id, []).append(bill)

    def _start_session(self, event: OpenHandsEvent) -> None:
        """Start the session with the system prompt and tools of its first event."""
        memory, at = self._memory, self._at
        if not memory.started:
            served = (memory.model or "").rpartition("/")[2].lower()  # LiteLLM's names are PROVIDER/MODEL
            shape = "gemini" if served.startswith("gemini") else "openai-chat"
            memory.dialect = "anthropic" if "claude" in served else shape
            memory.started, memory.turns.model = True, memory.model
            system, tools = _head_of(event)
            name, model, dialect = memory.session, memory.model, memory.dialect
            self._emit(
                e.SessionStarted(session_id=name, at=at, model=model, dialect=dialect, system=system, tools=tools)
            )
        elif event.system_prompt is not None:
            system, tools = _head_of(event)
            self._emit(e.SessionChanged(system=system, tools=tools, at=at))

    def _prompted(self, event: OpenHandsEvent) -> None:
        if event.kind == "SystemPromptEvent":  # later updates are not part of the history
            self._memory.view.append(Viewed(event.id))

    def _message(self, event: OpenHandsEvent) -> None:
        message = event.llm_message
        if message is None:
            raise ValueError("an event without its message")
        blocks = [*records.blocks_of(message.content), *records.blocks_of(event.extended_content)]
        if message.role == "assistant":
            thoughts = records.thoughts_of(
                message.thinking_blocks, message.reasoning_content, message.responses_reasoning_item
            )
            self._respond(event.llm_response_id or event.id)
            self._say(event, [*thoughts, *blocks])
            return
        self._close()
        source = "user" if event.source == "user" else "context_injection"
        items: list[Item] = [UserMessage(event.id, blocks=tuple(blocks), source=source)] if blocks else []
        self._show(event.id, items)

    def _action(self, event: OpenHandsEvent) -> None:
        call = event.tool_call or records.OpenHandsCall()
        self._respond(event.llm_response_id or event.id)
        if call.origin == "responses" and self._memory.dialect == "openai-chat":
            self._memory.dialect = "openai-responses"
            self._emit(e.SessionChanged(dialect=self._memory.dialect))
        thoughts = records.thoughts_of(event.thinking_blocks, event.reasoning_content, event.responses_reasoning_item)
        name = event.tool_call_id or call.id or event.id
        made = called(f"{event.id}/call", name, call.name, call.arguments, self._memory.response or event.id)
        self._say(event, [*thoughts, *records.blocks_of(event.thought)], made)

    def _say(self, event: OpenHandsEvent, blocks: list[Block], *calls: Item) -> None:
        """Append the model's message and calls of an event."""
        response = self._memory.response
        message = [AssistantMessage(event.id, blocks=tuple(blocks), response_id=response)] if blocks else []
        self._show(event.id, [*message, *calls])

    def _show(self, name: str, items: list[Item]) -> None:
        self._memory.view.append(Viewed(name, items))
        for item in items:
            self._append(item)

    def _observed(self, event: OpenHandsEvent) -> None:
        self._result(event, records.output_of(event.observation or records.Observation(), event.extended_content))

    def _refused(self, event: OpenHandsEvent) -> None:
        reason = event.error if opens(event.error) == '"' else Raw(encode(f"Action rejected: {event.rejection_reason}"))
        self._result(event, reason)

    def _result(self, event: OpenHandsEvent, output: Raw) -> None:
        failed = event.observation is None or event.observation.is_error
        call, status = event.tool_call_id, "failed" if failed else "completed"
        view = self._memory.view
        for viewed in islice(reversed(view), _PARALLEL):
            calls = ((n, item.call_id) for n, item in enumerate(viewed.items) if isinstance(item, ToolCall))
            place = next((n for n, name in calls if name == call), -1)
            if place >= 0:
                viewed.items[place] = replace(viewed.items[place], status=status, output=output)
                viewed.result = event.id
                break
        view.append(Viewed(event.id))
        self._patch(call, output, failed=failed)

    def _respond(self, response: str) -> None:
        """Open the turn of a response with its first event."""
        memory = self._memory
        if response == memory.response:
            return
        self._close()
        bill = self._bill_of(response)
        memory.response, memory.responded, memory.bill = response, self._at, bill
        memory.turns.asked_at = _before(self._at, 0.0 if bill is None else bill.latency)
        self._start_turn(memory.turns, (bill.usage.model or None) if bill is not None else None)

    def _bill_of(self, response: str) -> Bill | None:
        """Return and remove a response's usage; of several with one id the first of the state."""
        bills = self._memory.bills.pop(response, [])
        if len(bills) > 1:
            self._memory.bills[response] = bills[1:]
        return bills[0] if bills else None

    def _close(self) -> None:
        """End the open turn."""
        memory = self._memory
        response, memory.response = memory.response, None
        if response is None:
            return
        usage = None if memory.bill is None else self._billed(memory.bill.usage)
        self._emit(e.TurnCompleted(turn=memory.turns.turn, at=memory.responded, usage=usage, response_id=response))

    def _utility(self, bill: Bill) -> None:
        """Emit a request outside the conversation."""
        self._chain = UTILITY + bill.use
        turns = self._memory.utilities.setdefault(self._chain, TranscriptTurns())
        turns.asked_at = _before(self._at, bill.latency)
        self._start_turn(turns, bill.usage.model or None)
        self._end_turn(turns, self._billed(bill.usage), bill.usage.response_id or None)
        self._chain = e.MAIN

    def _billed(self, usage: OpenHandsUsage) -> e.Usage:
        whole, read, write = usage.prompt_tokens, usage.cache_read_tokens, usage.cache_write_tokens
        bill = apart(whole, read, write, usage.completion_tokens, client=CLIENT, dialect=self._memory.dialect)
        if self._memory.separate:
            return bill
        if min(whole, read, write, usage.completion_tokens) < 0:
            odd = f"{read + write} cached tokens are more than all {whole} of the input"
            return e.Usage(None, read, bill.write_tokens, usage.completion_tokens, client=CLIENT, contradiction=odd)
        return split(whole, read, bill.write_tokens, usage.completion_tokens, client=CLIENT)

    def _asked(self, event: OpenHandsEvent) -> None:
        self._memory.trigger = _TRIGGERS.get(event.reason or "", "auto")
        self._close()
        self._emit(e.CompactStarted(trigger=self._memory.trigger, at=self._at))

    def _condensed(self, event: OpenHandsEvent) -> None:
        memory, forgotten = self._memory, frozenset(event.forgotten_event_ids)
        self._close()
        bill = self._bill_of(event.llm_response_id or "")
        if bill is not None:
            self._utility(bill)
        trigger, memory.trigger = memory.trigger or "auto", None
        remaining = [viewed for viewed in memory.view if not forgotten & {viewed.id, viewed.result}]
        summed = not is_absent(event.summary) and event.summary_offset is not None
        place = max(0, event.summary_offset or 0) if summed else len(remaining)
        head, tail = remaining[:place], remaining[place:]
        kept = tuple(item.uuid for viewed in head for item in viewed.items)
        self._prune(event.id, kept, trigger=trigger)
        memory.view, memory.condensed = head, memory.condensed + 1
        if summed:
            blocks = records.blocks_of(event.summary)
            name = f"{event.id}-summary"
            self._show(name, [UserMessage(name, blocks=blocks, source="context_injection")])
        for viewed in tail:
            again = [replace(item, uuid=f"{item.uuid.partition('~')[0]}~{memory.condensed}") for item in viewed.items]
            self._show(viewed.id, again)
            memory.view[-1].result = viewed.result

    def _stopped(self, event: OpenHandsEvent) -> None:
        name = "interrupt" if event.kind == "InterruptEvent" else "api-error" if "LLM" in event.code else ""
        if name:
            self._observe(Sign(name))


_HANDLERS: dict[str, Callable[[OpenHands, OpenHandsEvent], None]] = {
    "SystemPromptEvent": OpenHands._prompted,  # pyright: ignore[reportPrivateUsage]
    "SystemPromptUpdateEvent": OpenHands._prompted,  # pyright: ignore[reportPrivateUsage]
    "MessageEvent": OpenHands._message,  # pyright: ignore[reportPrivateUsage]
    "ActionEvent": OpenHands._action,  # pyright: ignore[reportPrivateUsage]
    "ObservationEvent": OpenHands._observed,  # pyright: ignore[reportPrivateUsage]
    "UserRejectObservation": OpenHands._refused,  # pyright: ignore[reportPrivateUsage]
    "AgentErrorEvent": OpenHands._refused,  # pyright: ignore[reportPrivateUsage]
    "Condensation": OpenHands._condensed,  # pyright: ignore[reportPrivateUsage]
    "CondensationRequest": OpenHands._asked,  # pyright: ignore[reportPrivateUsage]
    "InterruptEvent": OpenHands._stopped,  # pyright: ignore[reportPrivateUsage]
    "ConversationErrorEvent": OpenHands._stopped,  # pyright: ignore[reportPrivateUsage]
}


def _head_of(event: OpenHandsEvent) -> tuple[Raw, tuple[Raw, ...] | None]:
    """Return the system prompt, a list of texts if it has a dynamic part, and the tools."""
    own, more = ((part or {}).get("text", NULL) for part in (event.system_prompt, event.dynamic_context))
    both = opens(own) == opens(more) == '"'
    system = Raw(b"[%b,%b]" % (bytes(own), bytes(more))) if both else own
    tools = None if event.tools is None else tuple([records.tool_of(tool) for tool in event.tools])
    return (system if opens(own) == '"' else NULL), tools


def _before(at: str | None, seconds: float) -> str | None:
    """Return a time some seconds before another."""
    try:
        return at if at is None or seconds <= 0 else stamp_at(datetime.fromisoformat(at).timestamp() - seconds)
    except (ValueError, OverflowError, OSError):
        return at
