"""DeepSeek Harness's logs (`~/.dsh/sessions/--PROJECT--/SESSION/session.jsonl.zstd`), versions 0 to 5 of the format.

The first line is the header, each other one an event. A model request is a step; its `assistant/message` has its usage,
whose input excludes cached tokens. A `surfaceOp` marks the events whose messages are in prompts: they are appended, or
replace a range of earlier ones (a compaction, a result that was shortened). All other events are notes of the client,
pieces of streams among them. System prompt and tools are in `request/header`; since version 2 the system prompt is a
message. A fork's log begins with a copy of its parent's events (`seedLength`); each subagent has a log of its own.

Sources: the types, notes and recorded test sessions of `deepseek-ai/deepseek-harness`, August 2026, and a public log of
123 requests; for versions 1 to 5 public readers and forks, October 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec import Raw, Struct

from lore.formats import values
from lore.formats.bills import usage_without_cached_input
from lore.formats.builder import LogReader, Message
from lore.formats.contents import build_array
from lore.formats.lines import nonblank_lines
from lore.formats.values import count_in, text_at, text_in
from lore.model import events as e
from lore.model.items import NULL, Block, RawBlock, TextBlock, ThinkingBlock, ToolCall, UserMessage, is_absent
from lore.model.jsonslice import array, members_at
from lore.model.state import Sign


class _DshRecord(Struct, frozen=True, gc=False, rename="camel"):  # the header or an event
    type: str
    seq: int = -1
    time: float | None = None
    data: Raw = NULL
    surface_op: Raw = NULL  # "append", or an object with the replaced range
    id: str = ""  # of the session; this field and the next ones are in the header
    created_at: float | None = None
    parent_session: str | None = None
    seed_length: int = 0  # events that a fork copied


class _DshMessage(Struct, frozen=True, gc=False, rename="camel"):  # or an event's data around one
    message: Raw = NULL
    id: str = ""
    content: Raw = NULL
    source: dict[str, Raw] | None = None  # who made it; of a response, provider and model
    usage: Raw = NULL
    stream: tuple[Raw, ...] = ()  # of a response, since version 2
    interrupted: bool | None = None
    call_id: str = ""  # of a result
    tool_call_id: str = ""  # its newer name
    is_error: bool | None = None


_ENDS = {"error": "api-error", "aborted": "interrupt"}  # signals, by the reason of a turn's end


class DeepSeekHarness(LogReader):
    """Reader of DeepSeek Harness's logs."""

    name: ClassVar[str] = "deepseek-harness"
    has_unique_records: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._parent = ""  # the session that a fork copied
        self._copied = 0  # events at the log's beginning that the parent wrote
        self._provider = self._model = ""  # of the next request
        self._trigger = "auto"  # of the latest compaction
        self._streamed = NULL  # usage of a response whose message has not come
        self._systems: list[bytes] = []  # texts of the system prompt
        self._header = (b"", b"")  # system prompt and tools of the latest header

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        record = members_at(next(nonblank_lines(head), b""))
        if record.get("type") == b'"session"':
            return record.keys() >= {"version", "createdAt"}
        return record.keys() >= {"type", "seq", "time", "data"} and "/" in text_at(record, "type")

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_DshRecord, data), self.session
        session.at = values.stamp_at(record.created_at if record.time is None else record.time)
        parent = record.parent_session
        session.start_session(record.id, at=session.at, dialect="openai-chat", parent_session_id=parent)
        if record.type == "session":
            self._parent, self._copied = parent or "", record.seed_length
        elif not is_absent(record.surface_op):
            self._read_surface(record)
        elif record.type == "assistant/chunk":  # there are many of these
            self._keep_usage((data,))
        elif not record.type.endswith("-chunks"):  # pieces of text of a stream
            self._read_note(record, members_at(record.data))

    def _read_surface(self, record: _DshRecord) -> None:
        outer = self.session.decode(_DshMessage, record.data)
        is_plain = is_absent(outer.message)  # since the first release
        message = outer if is_plain else self.session.decode(_DshMessage, outer.message)
        place = self._place(record)
        if record.type in ("user/message", "developer/message"):
            self._read_message(record, message, place)
        elif record.type == "assistant/message":
            self._read_response(record, outer, message)
        elif record.type == "tool/result":
            self._read_result(record, message, place)
        elif record.type == "system/message":  # it replaces all earlier ones if it is not appended
            texts = [bytes(part.text) for part in _parts(message.content) if isinstance(part, TextBlock)]
            self._systems = texts if place is not None else [*self._systems, *texts]
            if self._systems:
                self.session.emit(e.SessionChanged(system=Raw(build_array(self._systems)), at=self.session.at))
            self.session.add_message(name=str(record.seq))
        else:
            self.session.keep_unknown("unknown type of a message", record.type)

    def _read_note(self, record: _DshRecord, data: dict[str, bytes]) -> None:
        session, kind = self.session, record.type
        if kind == "request/header":
            self._read_header(members_at(data, "header"))
        elif kind == "step/start":
            session.counter.asked_at = session.at
        elif kind == "session/title":
            session.emit(e.SessionChanged(title=text_at(data, "title") or None, at=session.at))
        elif kind in ("assistant/attempt", "llm/retry", "step/end"):  # an attempt is a response without a message
            self._keep_usage(array(data.get("stream", b"")))
            usage, self._streamed = self._usage_of(self._streamed), NULL
            if usage is not None and not usage.is_empty:  # its response did not come
                session.emit(e.TurnFailed(turn=self._start_request(record), at=session.at, usage=usage))
            session.signal(*[Sign("api-error")] * (kind == "llm/retry"))
        elif kind == "turn/end" and (sign := _ENDS.get(text_at(members_at(data, "reason"), "kind"))):
            session.signal(Sign(sign))
        elif kind == "compaction/start":
            self._trigger = "manual" if data.get("turn") == b"null" else "auto"
        elif kind == "compaction/summary" and (usage := self._usage_of(Raw(data.get("usage", b"null")))):
            session.chain = "utility-compaction"  # the summary follows as a message
            self._start_request(record, text_at(data, "model"))
            session.end_turn(usage, text_at(data, "compactionId") or None)

    def _place(self, record: _DshRecord) -> slice | None:
        """Return the part of `history` that an event's message replaces; None if it is appended."""
        place = members_at(record.surface_op)
        if not place:
            return None
        names = [message.name for message in self.session.history]
        ends = [str(count_in(place.get(name, place.get(f"{name}Seq", b"")))) for name in ("start", "end")]
        if not set(ends) <= set(names):
            raise ValueError("a message replaces messages that the log does not have")
        return slice(names.index(ends[0]), names.index(ends[1]) + 1)

    def _read_message(self, record: _DshRecord, message: _DshMessage, place: slice | None) -> None:
        session, uuid, name = self.session, message.id or self.session.line_id, str(record.seq)
        session.counter.asked_at = session.at
        blocks = tuple([part for part in _parts(message.content) if not isinstance(part, ToolCall)])
        if place is not None:  # a summary, or a newer version of a context
            history, start = session.history, place.start
            remaining, summary = [*history[:start], *history[place.stop :]], values.result_of(blocks)
            session.compact(uuid, remaining, trigger=self._trigger, summary=summary)
            session.history.insert(start, Message([uuid], name=name))
            return
        is_prompt = text_in((message.source or {}).get("kind", NULL)) == "user" and record.type == "user/message"
        item = UserMessage(uuid, blocks=blocks, source="user" if is_prompt else "context_injection")
        session.add_message(*[item] * bool(blocks), is_prompt=is_prompt, name=name)

    def _read_response(self, record: _DshRecord, outer: _DshMessage, message: _DshMessage) -> None:
        session, source, uuid = self.session, message.source or {}, message.id or self.session.line_id
        self._provider = text_in(source.get("provider", NULL)) or self._provider
        turn = self._start_request(record, text_in(source.get("model", NULL)))
        session.add_message(*values.split_response(_parts(message.content), uuid, uuid), name=str(record.seq))
        if is_absent(outer.usage):
            self._keep_usage(map(bytes, outer.stream))
        usage = self._usage_of(self._streamed if is_absent(outer.usage) else outer.usage)
        self._streamed = NULL
        if outer.interrupted:
            session.emit(e.TurnCanceled(turn=turn, at=session.at, usage=usage))
        else:
            session.end_turn(usage, message.id or None)

    def _read_result(self, record: _DshRecord, message: _DshMessage, place: slice | None) -> None:
        session, content, failed = self.session, message.content, bool(message.is_error)
        session.counter.asked_at = session.at
        call_id, block = message.tool_call_id or message.call_id, members_at(next(iter(array(bytes(content))), b""))
        if block.get("type") == b'"tool-result"':  # up to version 3
            call_id, content = text_at(block, "toolCallId"), Raw(block.get("content", b"null"))
            failed = block.get("isError") == b"true"
        output = values.result_of(values.blocks_in(content))
        if place is None:
            session.add_result(call_id, output, failed=failed)
            session.add_message(name=str(record.seq))
        else:
            session.emit(e.ToolResultCleared(call_ids=(call_id,), placeholder=output, at=session.at))
            session.history[place] = [Message(name=str(record.seq))]

    def _start_request(self, record: _DshRecord, model: str = "") -> int:
        call = e.Call(inherited_from=self._parent) if self._parent and record.seq < self._copied else None
        return self.session.start_turn(model or self._model or None, call=call)

    def _keep_usage(self, pieces: Iterable[bytes]) -> None:
        """Keep the latest usage of a stream until the message of the response comes."""
        for piece in pieces:
            if b'"usage"' in piece:
                members = members_at(piece)
                chunk = members_at(members_at(members.get("data", piece)), "chunk")
                self._streamed = Raw(chunk["usage"]) if "usage" in chunk else self._streamed

    def _usage_of(self, usage: Raw) -> e.Usage | None:
        """Return a usage; the library for providers other than DeepSeek leaves out counts of 0."""
        if not (stated := members_at(usage)):
            return None
        names, client = ("input", "cacheRead", "cacheWrite", "output", "total"), self.name
        *counts, total = (count_in(stated.get(f"{name}Tokens", b"")) for name in names)
        if counts[1] is None and not self._provider.startswith("deepseek"):
            counts[1] = 0
        return usage_without_cached_input(*counts, client=client, dialect="openai-chat", total=total)

    def _read_header(self, header: dict[str, bytes]) -> None:
        session, config = self.session, members_at(header, "config")
        self._provider = text_at(config, "provider") or self._provider
        self._model = text_at(config, "model") or self._model
        session.setting("provider", self._provider)
        session.setting("effort", text_at(config, "reasoningEffort"))
        before, self._header = self._header, (header.get("system", b""), header.get("tools", b""))
        system, tools = self._header
        is_text, is_list = system[:1] == b'"' and system != before[0], tools[:1] == b"[" and tools != before[1]
        if is_text or is_list:
            definitions = tuple(map(Raw, array(tools))) if is_list else None
            session.emit(e.SessionChanged(system=Raw(system) if is_text else NULL, tools=definitions, at=session.at))


def _parts(content: Raw) -> Iterator[Block | ToolCall]:
    """Yield the blocks and calls of a message; calls have no uuids yet."""
    for block in values.blocks_in(content):
        members = members_at(block.json) if isinstance(block, RawBlock) else {}
        kind = members.get("type", b"")
        if kind == b'"reasoning"' and members.get("text", b"")[:1] == b'"':
            yield ThinkingBlock(Raw(members["text"]))
        elif kind == b'"tool-call"':
            arguments = Raw(members.get("arguments", b"null"))
            yield values.call_item("", text_at(members, "id"), text_at(members, "name"), arguments, "")
        else:
            yield block
