"""Session events of Anthropic's Managed Agents: JSON Lines of events, or the list that the API returns.

`GET /v1/sessions/SESSION/events` lists events in the order in which they were processed. A model request begins with
`span.model_request_start` and ends with `span.model_request_end`, whose `model_usage` counts its tokens as the Messages
API does. The events do not name the model: it is known if the file also holds the session object
(`GET /v1/sessions/SESSION`) or a `session.updated` event with the agent. The harness adds to the agent's system prompt,
and thinking is only announced. Events with a `session_thread_id` are copies from a subagent's thread, which has a list
of its own.

Source: https://platform.claude.com/docs/en/managed-agents/events-and-streaming and the types of Anthropic's Python SDK
2.14 (November 2026); no public recording was found.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.beginning import SPACE, array_at
from lore.formats.bills import decode_usage
from lore.formats.builder import DocumentReader, LogReader
from lore.formats.lines import Line, nonblank_lines
from lore.formats.values import arguments_of, blocks_in, result_of, split_content, text_in
from lore.model import events as e
from lore.model.items import NULL, AssistantMessage, ToolCall, UserMessage, is_absent
from lore.model.jsonslice import array, members_at, raw_members
from lore.model.state import Sign

MESSAGES = {"user.message": "user", "system.message": "context_injection"} | dict.fromkeys(
    ("user.define_outcome", "agent.thread_message_received"), "context_injection"
)
CALLS = frozenset(("agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"))
RESULTS = frozenset(("agent.tool_result", "agent.mcp_tool_result", "user.custom_tool_result", "user.tool_result"))
SIGNALS = {"user.interrupt": "interrupt", "session.error": "api-error"}
# Events that are no part of a prompt. The last two preview a message that follows whole.
IGNORED = (
    "session.", "span.", "workflow_run.", "agent.thinking", "agent.thread_message_sent", "user.tool_confirmation",
    "event_start", "event_delta",
)  # fmt: skip
GRADER = "utility-outcome"  # chain of the requests that grade an outcome


class _ManagedAgent(Struct, frozen=True, gc=False):
    model: Raw = NULL  # an object with an `id`
    system: Raw = NULL


# An event, the session object, or a page of events; its type decides which fields it has.
class _ManagedEvent(Struct, frozen=True, gc=False):
    type: str = ""
    id: str = ""
    processed_at: str | None = None  # null while a user's event is queued
    created_at: str | None = None  # of a session object
    agent: _ManagedAgent | None = None
    content: Raw = NULL
    description: Raw = NULL  # of an outcome
    name: str = ""
    input: Raw = NULL
    tool_use_id: str = ""
    mcp_tool_use_id: str = ""
    custom_tool_use_id: str = ""
    is_error: bool | None = None
    model_request_start_id: str = ""
    model_usage: Raw = NULL
    usage: Raw = NULL  # of an evaluation
    session_thread_id: str | None = None  # the subagent's thread that the event was copied from or sent to
    data: tuple[Raw, ...] | None = None  # of a page


_FIRST = 8  # records: one may be the session, others may be damaged
_EVENT = re.compile(rb'"type"\s*:\s*"(?:user|system|agent|session|span)\.[a-z_.]+"')


class ManagedAgents(LogReader):
    """Reader of session events, one a line; a line may also be a page of the list."""

    name: ClassVar[str] = "managed-agents"
    unseen: ClassVar[str] = "the schemas of tools, and what the harness adds to the system prompt"

    def __init__(self) -> None:
        super().__init__()
        self._model: str | None = None
        self._open: dict[str, int] = {}  # turns without an end, by the id of their start
        self._request: str | None = None  # id of the latest start: what the model makes belongs to it
        self._queued: dict[str, UserMessage] = {}  # messages that wait for the next request
        self._processed: set[str] = set()  # ids of events: a stream that was resumed repeats some

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        records = (record for line in islice(nonblank_lines(head), _FIRST) if (record := raw_members(line)) is not None)
        first = next((record for record in records if record.get("type") != b'"session"'), dict[str, bytes]())
        if first.keys() & {"type", "data"} == {"data"}:
            first = members_at(next(iter(array(first["data"])), b""))
        return "processed_at" in first and _EVENT.match(b'"type":' + first.get("type", b"")) is not None

    def handle(self, data: bytes) -> None:
        event = self.session.decode(_ManagedEvent, data)
        if event.data is not None and not event.type:
            page = self.session.line
            for piece in map(bytes, event.data):
                self.session.line = Line(page.number, page.byte, piece)
                try:
                    self._read_event(self.session.decode(_ManagedEvent, piece))
                except ValueError as error:
                    self.session.keep_malformed(error)
        else:
            self._read_event(event)

    def _read_event(self, event: _ManagedEvent) -> None:
        session, kind = self.session, event.type
        session.at, session.chain = event.processed_at or event.created_at, e.MAIN
        session.start_session(event.id if kind == "session" else "", at=session.at, dialect="anthropic")
        if event.agent is not None:
            agent = event.agent
            model = text_in(members_at(agent.model).get("id", bytes(agent.model)))
            self._model = model or self._model
            if not is_absent(agent.system):
                session.emit(e.SessionChanged(system=agent.system, at=session.at))
        if event.session_thread_id is not None or kind == "session" or event.id in self._processed:
            return
        if event.processed_at is not None and event.id:  # interrupts may have no id
            self._processed.add(event.id)
        if kind in MESSAGES:
            self._add_message(event)
        elif kind == "agent.message":
            if blocks := blocks_in(event.content):
                session.append(AssistantMessage(event.id, blocks=blocks, response_id=self._request))
        elif kind in CALLS:
            arguments = arguments_of(event.input)
            session.append(ToolCall(event.id, event.id, event.name, arguments, response_id=self._request))
        elif kind in RESULTS:
            call = event.tool_use_id or event.mcp_tool_use_id or event.custom_tool_use_id
            session.add_result(call, result_of(split_content(event.content).blocks), failed=bool(event.is_error))
        elif kind == "span.model_request_start":
            self._start_request(event.id)
        elif kind in ("span.model_request_end", "model_request_end"):
            self._end_request(event)
        elif kind == "span.outcome_evaluation_end":
            session.chain = GRADER
            session.start_turn(None)
            session.end_turn(decode_usage(bytes(event.usage)), event.id)
        elif kind == "agent.thread_context_compacted":
            session.prune(event.id, None)
        elif kind in SIGNALS:
            session.signal(Sign(SIGNALS[kind]))
        elif not kind.startswith(IGNORED):
            session.keep_unknown("unknown event type", kind)

    def _add_message(self, event: _ManagedEvent) -> None:
        """Append a message to the next request; one that is queued comes again when it is processed."""
        content = event.content if is_absent(event.description) else event.description
        if not (blocks := tuple(split_content(content).blocks)):
            return
        message = UserMessage(event.id, blocks=blocks, source=MESSAGES[event.type])
        if event.processed_at is None:
            self._queued[event.id] = message
        else:
            self._queued.pop(event.id, None)
            self.session.append(message)

    def _start_request(self, start_id: str) -> None:
        for message in self._queued.values():
            self.session.append(message)
        self._queued.clear()
        self._open[start_id], self._request = self.session.start_turn(self._model), start_id

    def _end_request(self, event: _ManagedEvent) -> None:
        """End a turn; a list that was filtered by type has ends without their starts."""
        start_id = event.model_request_start_id or event.id
        if start_id not in self._open:
            self._start_request(start_id)
        usage = decode_usage(bytes(event.model_usage))
        if event.is_error:
            self.session.signal(Sign("api-error"))
            usage = None if usage is not None and not any(msgspec.structs.astuple(usage)[:4]) else usage
        self.session.end_turn(usage, start_id, number=self._open.pop(start_id))


class ManagedAgentsList(DocumentReader, ManagedAgents):
    """Reader of the list that the API returns, or of an array of events, over several lines."""

    name: ClassVar[str] = "managed-agents-list"
    paths: ClassVar[tuple[str, ...]] = ("", ".data")

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        text = head.lstrip(SPACE)
        begin = 1 if text[:1] == b"[" else array_at(head, (".data",))
        is_one_line = raw_members(next(nonblank_lines(head), b"")) is not None
        return begin > 0 and not is_one_line and b'"processed_at"' in head and _EVENT.search(head, begin) is not None
