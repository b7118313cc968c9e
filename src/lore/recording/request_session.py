"""Recorded requests as a session log: new messages, changes since the previous request, usage.

Messages that the chain's previous request did not have become items. Messages that are missing are a compaction if a
summary takes their place, else a removal. Other tools, system prompt, model or parameters are a `session_changed`.
These changes were not announced: they are `observed`, so that the session is judged as the requests are. White space
and the order of members of a body are not kept: turns are assembled in the layout of their dialect.
Cost: O(bytes of new messages) a request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from lore.errors import LoreError
from lore.formats.base import Read
from lore.model import events as e
from lore.model.canonical import printable
from lore.model.codes import Code, Problem
from lore.model.items import AssistantMessage, Block, TextBlock, ToolCall, UserMessage
from lore.model.jsonslice import array, members_at, object_of, raw_members
from lore.model.turn import Call, Exchange, Memo, Prompt, Segment, Turn
from lore.model.vector import Vector
from lore.prefix.purpose import is_summary
from lore.prompt.dialects import DIALECTS
from lore.prompt.dialects.content import result_of, text_in
from lore.prompt.dialects.messages import Body, group_messages, write_object
from lore.prompt.layout import INJECTED
from lore.recording.base import Recording
from lore.recording.events import EventRecording, session_log
from lore.recording.overrides import HINT_COMPLETE
from lore.recording.requests import RequestRecording
from lore.sdk.replies import READERS, items_of

_SEARCHED = 64  # segments after a divergence that are searched for a summary
_FAILED = 400  # the lowest HTTP status of a request that was not answered


class RequestSession(EventRecording):
    """Recorded requests as a session log, each read in the dialect that it was sent in, whatever is asked for."""

    def __init__(self, requests: RequestRecording) -> None:
        requests.dialect = None
        super().__init__(requests.path, requests.reader, (), requests.problems, requests.options)
        self._requests = requests

    @property
    def events(self) -> bool:
        """Whether the recording is a log of events: always, as these are made from the requests."""
        return True

    def every_read(self) -> Iterator[Read]:
        chains: dict[str, _RequestChain] = {}
        is_first = True
        for exchange, turn in self._requests.exchanges():
            dialect = None if turn is None else DIALECTS.get(turn.prompt.dialect)
            if turn is not None and isinstance(dialect, Body) and dialect.name in READERS:
                chain = chains.setdefault(turn.chain, _RequestChain(turn.chain))
                for event in chain.read_request(exchange, turn, dialect, is_first=is_first):
                    yield Read(event, turn.line or 1, turn.byte or 0)
                is_first = False
            elif turn is not None:
                problem = Problem(Code.REQUEST_NOT_JUDGED, "a prompt that is text: a session log cannot hold it")
                yield Read(problem, turn.line or 1, turn.byte or 0)
            over = [chains.pop(name) for name in self._requests.forgotten() if name in chains]
            yield from (Read(event, 1, 0) for chain in over for event in chain.read_response())
        yield from (Read(event, 1, 0) for chain in chains.values() for event in chain.read_response())


def session_of(recording: Recording, instead: str, *, hint: str) -> EventRecording:
    """Return a recording as a session log, requests as the session that they make; raises LoreError without one."""
    if not isinstance(recording, RequestRecording):
        return session_log(recording, instead, hint=hint)
    if recording.options.completion is not None:
        raise LoreError(f"{recording.shown} holds whole prompts: nothing is missing", hint=HINT_COMPLETE)
    return RequestSession(recording)


@dataclass(slots=True)
class _SentMessage:
    """A message of a chain's latest request."""

    size: int  # its segments
    end: int  # segments of the request's messages up to its end
    start: int  # index of the first message that goes with it: of the call that it answers, else its own
    uuids: list[str] = field(default_factory=list[str])  # of the items that it became
    results: int = 0  # of its segments, those that results of calls take up


class _RequestChain:
    """The requests of a chain, each as what it changes in the session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers = count(1)  # in the names of items and responses
        self._messages: list[_SentMessage] = []
        self._segments: Vector[Segment] = Vector()  # of the latest request's messages
        self._dividers = 0  # items of the timeline that belong to no message
        self._calls: dict[str, int] = {}  # id of an open call -> index of its message
        self._head: dict[str, Any] = {}
        self._generated: Callable[[], Iterable[Segment]] | None = None  # what the latest response said
        self._response_id = ""

    def read_request(self, exchange: Exchange, turn: Turn, dialect: Body, *, is_first: bool) -> Iterator[e.Event]:
        """Yield the new messages and changes, then the turn; before the session's first turn the header."""
        prompt, at = turn.prompt, _format_time(exchange.at)
        if self._head.get("dialect") != dialect.name:
            self._dialect, self._reader = dialect, READERS[dialect.name](dialect.name, f"{dialect.name}-call")
        if prompt.dropped or prompt.deferred:  # the provider does not render them, but the request has them
            prompt = dialect.parse(exchange.body, exchange.fidelity, Memo())
        head = _head_of(prompt)
        if is_first:
            self._head = head
            yield e.SessionStarted(session_id=exchange.call.session, at=at, chain=self._name, **head)
        yield from self._update_messages(turn.prompt.messages)
        changed = {name: value for name, value in head.items() if self._head.get(name) != value}
        if changed:
            yield e.SessionChanged(chain=self._name, observed=True, **changed)
        self._head, self._generated, self._response_id = head, turn.generated, exchange.response_id
        marks, call = tuple(self._breakpoints(prompt)), None if exchange.call == Call() else exchange.call
        yield e.TurnStarted(
            turn=turn.number, chain=self._name, at=at, breakpoints=marks, call=call, given_up=turn.given_up
        )
        status, usage, verdict = exchange.call.status, exchange.usage, exchange.verdict
        end: dict[str, Any] = {"turn": turn.number, "chain": turn.chain, "at": _format_time(exchange.answered)}
        if status is not None and status >= _FAILED:
            yield e.TurnFailed(**end, usage=usage, verdict=verdict, error=f"HTTP status {status}")
        elif status is not None or exchange.output or exchange.response_id or usage or verdict or end["at"]:
            yield e.TurnCompleted(**end, usage=usage, verdict=verdict, response_id=exchange.response_id or None)

    def read_response(self) -> Iterator[e.Event]:
        """Yield the recorded items of the latest response."""
        if self._generated is not None:
            yield from self._read_messages(group_messages(self._generated()), self._response_id)

    def _update_messages(self, segments: Vector[Segment]) -> Iterator[e.Event]:
        """Yield the changes of the messages since the previous request."""
        before, common = self._messages, self._segments.common(segments)
        same = bisect_right(before, common, key=lambda message: message.end)
        if same and before[same - 1].end == common < len(segments) and segments[common].kind == "block":
            same -= 1  # that message has more blocks now
        is_cut = same < len(before)
        while same < len(before) and (start := min(message.start for message in before[same:])) < same:
            same = start
        new = group_messages(segments.since(before[same - 1].end if same else 0))
        first = raw_members(write_object(new[0], self._dialect.lists)) if new else None
        is_answered = not is_cut and self._reader.is_reply(first or {})
        if not is_answered:
            yield from self.read_response()  # the recorded answer, which is not in this request
        removed_uuids = [uuid for message in before[same:] for uuid in message.uuids]
        del before[same:]
        self._calls = {name: at for name, at in self._calls.items() if at < same}
        self._segments = segments
        if removed_uuids and is_cut and any(map(is_summary, islice(segments.since(common), _SEARCHED))):
            kept_uuids, self._dividers = tuple([uuid for message in before for uuid in message.uuids]) or None, 1
            uuid = f"m{next(self._numbers)}"
            yield e.CompactApplied(uuid=uuid, trigger="auto", preserved_uuids=kept_uuids, chain=self._name)
        elif removed_uuids:
            yield e.Remove(uuids=tuple(removed_uuids), chain=self._name, observed=True)
        yield from self._read_messages(new, self._response_id if is_answered else "")

    def _read_messages(self, messages: Iterable[list[Segment]], response: str) -> Iterator[e.Event]:
        """Read messages; `response` names the response that the first of them belong to, if they are of one."""
        for segments in messages:
            raw, at = write_object(segments, self._dialect.lists), len(self._messages)
            members = members_at(raw)
            end = len(segments) + (self._messages[-1].end if at else 0)
            self._messages.append(_SentMessage(len(segments), end, at))
            if not self._reader.is_reply(members):
                response = ""
                yield from self._read_user_message(raw, members)
                continue
            response = response or f"r{next(self._numbers)}"
            for item in items_of(self._reader.parts(raw, members), response):
                if isinstance(item, ToolCall):
                    item = replace(item, call_id=printable(item.call_id), name=printable(item.name))
                    self._calls[item.call_id] = len(self._messages) - 1
                yield self._append_item(item)
            response = response if self._dialect.name == "openai-responses" else ""

    def _read_user_message(self, raw: bytes, members: dict[str, bytes]) -> Iterator[e.Event]:
        """Yield the results of calls in a message, then its other blocks."""
        blocks, message = list[Block](), self._messages[-1]
        for piece in self._reader.split_message(raw, members):
            result = result_of(members_at(piece))
            call_id = "" if result is None else printable(result.call_id) or next(iter(self._calls), "")
            if result is None or call_id not in self._calls:
                blocks.append(self._reader.read_block(piece))
                continue
            message.start, message.results = min(message.start, self._calls.pop(call_id)), (message.results or 1) + 1
            output, status = result.output, "failed" if result.failed else "completed"
            if output[:1] == b"[":
                output = msgspec.json.encode([self._reader.read_block(block) for block in array(output)])
            yield e.PatchToolCall(call_id=call_id, status=status, output=Raw(output), chain=self._name)
        if blocks:
            by_user = members.get("role") == b'"user"' or ("role" not in members and isinstance(blocks[0], TextBlock))
            source = "user" if by_user else INJECTED
            yield self._append_item(UserMessage("", blocks=tuple(blocks), source=source))

    def _append_item(self, item: AssistantMessage | ToolCall | UserMessage) -> e.Append:
        uuid = f"m{next(self._numbers)}"
        self._messages[-1].uuids.append(uuid)
        return e.Append(item=replace(item, uuid=uuid), chain=self._name)

    def _breakpoints(self, prompt: Prompt) -> Iterator[e.Mark]:
        """Yield the request's cache breakpoints, each with its place."""
        for at, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=True):
            if at < len(prompt.head):
                section = prompt.head[at].section
                before = sum(part.section == section and part.kind != "envelope" for part in prompt.head[:at])
                yield e.Mark(section, before, Raw(value))
                continue
            place = at - len(prompt.head)
            number = bisect_right(self._messages, place, key=lambda message: message.end)
            message, items = self._messages[number], sum(len(other.uuids) for other in self._messages[: number + 1])
            after = message.end - 1 - place
            if message.results and message.uuids and after >= message.size - message.results:
                after += 1  # blocks after results become a separate message
            after += sum(other.results for other in self._messages[number + 1 :] if other.start <= number)
            yield e.Mark("messages", self._dividers + items, Raw(value), after)


def _format_time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def _head_of(prompt: Prompt) -> dict[str, Any]:
    """Return what a session's header says of a prompt."""
    pieces = [segment for segment in prompt.head if segment.kind != "envelope"]
    system = [text_in(members_at(part.data)) or part.data for part in pieces if part.section == "system"]
    params = {name: value for name, value in prompt.params.items() if prompt.partial or name != "previous_response_id"}
    tools = tuple([Raw(part.data) for part in pieces if part.section == "tools"])
    texts, fields = Raw(b"[" + b",".join(system) + b"]"), Raw(object_of(params))
    return {"dialect": prompt.dialect, "model": prompt.model, "system": texts, "tools": tools, "params": fields}
