"""Claude Code's session logs (`~/.claude/projects/*/SESSION.jsonl`), versions 1.0 to 2.1.

One response is several lines, one content block each, grouped by `message.id`; input counts are the
same on all of them and the last line has the output count, so usage is taken once, from the last.
Order is the file's, never the clock's. Sidechain lines are chains of their own: by `agentId`, else by
the root that their parents lead to. A boundary (`compact_boundary`, parent null) and the summary line
after it are one compaction. A second prompt under one parent is a rewind. System prompt and tools are
not in the file: what is built from it is `reconstructed`.

Source: counts over 769 public sessions; attachments reach the model in a form the file does not show
and stand in the timeline as opaque items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats.base import Clock, Read, Yields
from lore.formats.claude_content import (
    Message,
    Piece,
    billed,
    block_of,
    message_of,
    output_of,
    pieces_of,
    verdict_of,
)  # fmt: skip
from lore.formats.claude_records import (
    MARKERS,
    METADATA,
    MODELLED,
    ChainMemory,
    Compact,
    Held,
    Memory,
    Record,
    decode_record,
)
from lore.formats.lines import Line, Lines, fault, split_joined
from lore.model import events as e
from lore.model.canonical import encode, text_of
from lore.model.items import (
    AssistantMessage,
    Block,
    Item,
    OpaqueItem,
    TextBlock,
    ToolCall,
    UserMessage,
    is_absent,
)  # fmt: skip
from lore.model.problems import Problem

_SYNTHETIC = "<synthetic>"


class ClaudeCode:
    """Reader of Claude Code's session logs."""

    name: ClassVar[str] = "claude-code"
    yields: ClassVar[Yields] = "events"
    clock: ClassVar[Clock] = "first_line"

    def __init__(self) -> None:
        self._state = Memory()
        self._lines = Lines()
        self._found: list[Read] = []
        self._line = Line(0, 0, b"")

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in Lines().feed(head.rstrip(b"\n") + b"\n"):
            record = decode_record(line.data)
            if record is None:
                continue
            if record.type in METADATA | MODELLED and any(marker in line.data for marker in MARKERS):
                return True
        return False

    @classmethod
    def restore(cls, state: bytes) -> ClaudeCode:
        made = cls()
        made._state = msgspec.json.decode(state, type=Memory)
        saved = made._state
        made._lines = Lines(number=saved.number, byte=saved.byte, pending=saved.pending)
        made._line = Line(*saved.last, b"")
        saved.chains = {e.MAIN if name == e.MAIN else name: chain for name, chain in saved.chains.items()}
        return made

    @property
    def state(self) -> bytes:
        lines, state = self._lines, self._state
        state.number, state.byte, state.pending = lines.number, lines.byte, lines.pending
        state.last = (self._line.number, self._line.byte)
        return msgspec.json.encode(state)

    def feed(self, data: bytes) -> list[Read]:
        for line in self._lines.feed(data):
            self._read(line, torn=False)
        return self._taken()

    def finish(self) -> list[Read]:
        for line in self._lines.finish():
            self._read(line, torn=True)
        for name, chain in self._state.chains.items():
            self._flush_boundary(name, chain)
            self._close(name, chain)
        return self._taken()

    def _taken(self) -> list[Read]:
        found, self._found = self._found, []
        return found

    def _emit(self, event: e.Event) -> None:
        self._found.append(Read(event, self._line.number, self._line.byte))

    def _problem(self, code: str, message: str) -> None:
        place = self._line
        problem = Problem(code, message, line=place.number, byte=place.byte)
        self._found.append(Read(problem, place.number, place.byte))

    def _read(self, line: Line, *, torn: bool) -> None:
        self._line = line
        record = decode_record(line.data)
        if record is not None:
            self._take(record)
            return
        reason = fault(line.data)
        if not reason:
            self._opaque("LORE207", "record has no type, or a field of the wrong type; kept as opaque")
            return
        joined = split_joined(line.data)
        if joined is None:
            self._problem("LORE202" if torn else "LORE201", f"unreadable line: {reason}")
            return
        self._problem("LORE209", f"{len(joined)} records on one line; all were read")
        for piece in joined:
            self._read(Line(line.number, line.byte, piece), torn=False)

    def _opaque(self, code: str, message: str) -> None:
        self._problem(code, message)
        self._emit(e.OpaqueEvent(record=Raw(self._line.data)))

    def _take(self, record: Record) -> None:
        state = self._state
        if record.uuid is not None:
            parent = record.parent_uuid
            if parent is not None and parent not in state.parents:
                self._problem("LORE206", f"parent {parent!r} is not in the file; file order carries on")
            state.parents.setdefault(record.uuid, parent)
        handle = _HANDLERS.get(record.type)
        if handle is None:
            if record.type not in METADATA:
                self._opaque("LORE203", f"unknown record type {record.type[:60]!r}; kept as opaque")
            return
        name = self._chain_name(record)
        if state.session is None:
            state.session = record.session_id or ""
            self._emit(e.SessionStarted(session_id=state.session, at=record.timestamp, dialect="anthropic", chain=name))
        chain = state.chains.setdefault(name, ChainMemory())
        if record.uuid is not None and record.type != "assistant":
            chain.order.append(record.uuid)
        try:
            handle(self, record, name, chain)
        except (ValueError, RecursionError) as error:
            self._opaque("LORE207", f"{record.type} record: {_short(error)}; kept as opaque")

    def _chain_name(self, record: Record) -> str:
        if not record.is_sidechain:
            return e.MAIN
        if record.agent_id:
            return record.agent_id
        state, uuid = self._state, record.uuid or ""
        known = state.side.get(uuid) or state.side.get(record.parent_uuid or "")
        if known is None:
            state.sides += 1
            known = f"sidechain-{state.sides}"
        if uuid:
            state.side[uuid] = known
        return known

    # lines, by type

    def _user(self, record: Record, name: str, chain: ChainMemory) -> None:
        message = message_of(bytes(record.message))
        if record.is_compact_summary and chain.boundary is not None:
            chain.boundary = msgspec.structs.replace(chain.boundary, summary=_summary(message))
            self._flush_boundary(name, chain)
            return
        self._flush_boundary(name, chain)
        if record.is_visible_in_transcript_only and not record.is_compact_summary:
            return
        chain.asked_at = record.timestamp or chain.asked_at
        uuid, content = _uuid(record, self._line), _content_of(message)
        if content[:1] == b'"':
            item = UserMessage(uuid, text=message.content, source=_source(record))
            self._prompt(record, name, chain, item)
            return
        others: list[Block] = []
        for piece in pieces_of(content):
            if piece.part.type != "tool_result":
                others.append(block_of(piece))
                continue
            status = "failed" if piece.part.is_error else "completed"
            output = output_of(piece.part.content)
            self._emit(
                e.PatchToolCall(
                    call_id=piece.part.tool_use_id or "", status=status, chain=name, at=record.timestamp,
                    output=Raw(b'""') if is_absent(output) else output,
                )
            )  # fmt: skip
        if others:
            item = UserMessage(uuid, blocks=tuple(others), source=_source(record))
            self._prompt(record, name, chain, item)

    def _prompt(self, record: Record, name: str, chain: ChainMemory, item: Item) -> None:
        """Append a user's message; a second prompt under one parent takes the first one back."""
        parent, uuid = record.parent_uuid, item.uuid
        if parent is not None and not record.is_meta:
            before = chain.prompts.get(parent)
            if before is not None and before != uuid:
                self._rewind(name, chain, before, uuid)
            chain.prompts[parent] = uuid
        self._append(record, name, item)

    def _rewind(self, name: str, chain: ChainMemory, prompt: str, new: str) -> None:
        parents, gone, taken = self._state.parents, {prompt}, list[str]()
        begin = chain.order.index(prompt) if prompt in chain.order else len(chain.order)
        for uuid in chain.order[begin:]:
            if uuid != new and (uuid == prompt or parents.get(uuid) in gone):
                gone.add(uuid)
                taken.extend(self._state.items.get(uuid, ()))
        chain.order = [uuid for uuid in chain.order if uuid not in gone]
        if taken:
            self._close(name, chain)
            self._emit(e.Remove(uuids=tuple(taken), chain=name))

    def _assistant(self, record: Record, name: str, chain: ChainMemory) -> None:
        message = message_of(bytes(record.message))
        uuid = _uuid(record, self._line)
        self._flush_boundary(name, chain)
        if message.model == _SYNTHETIC:  # an error or interrupt shown to the user; never a request
            self._append(record, name, OpaqueItem(uuid, Raw(self._line.data)))
            return
        response = message.id or uuid
        content = _content_of(message)
        items: list[Item] = []
        if content[:1] == b'"':
            items.append(AssistantMessage(uuid, text=message.content, response_id=response))
        else:
            for number, piece in enumerate(pieces_of(content)):
                own = f"{uuid}:{number}" if number else uuid
                items.append(_spoken(own, piece, message.stop_reason, response))
        self._respond(record, name, chain, response, message)
        if record.uuid is not None:
            chain.order.append(record.uuid)
        for item in items:
            self._append(record, name, item)

    def _respond(self, record: Record, name: str, chain: ChainMemory, response: str, message: Message) -> None:
        """Open a turn at the first line of a response; keep the usage of its latest line."""
        if chain.response != response and response not in chain.seen:
            self._close(name, chain)
            chain.turn += 1
            chain.seen[response] = chain.turn
            chain.response, chain.answered_at = response, record.timestamp
            if message.model is not None and message.model != chain.model:
                chain.model = message.model
                self._emit(e.SessionChanged(model=message.model, chain=name))
            at = chain.asked_at or record.timestamp
            self._emit(e.TurnStarted(turn=chain.turn, at=at, chain=name, agent_id=record.agent_id))
        if chain.response == response:
            chain.usage = billed(message.usage) or chain.usage
            chain.verdict = verdict_of(message.diagnostics) or chain.verdict

    def _close(self, name: str, chain: ChainMemory) -> None:
        if chain.response is None:
            return
        self._emit(
            e.TurnCompleted(
                turn=chain.turn, at=chain.answered_at, chain=name, usage=chain.usage, verdict=chain.verdict,
                response_id=chain.response,
            )
        )  # fmt: skip
        chain.response = chain.usage = chain.verdict = None

    def _system(self, record: Record, name: str, chain: ChainMemory) -> None:
        self._flush_boundary(name, chain)
        meta = record.compact_metadata or record.microcompact_metadata or Compact()
        if record.subtype == "compact_boundary":
            self._close(name, chain)
            chain.boundary = self._boundary(record, name, meta)
            chain.order, chain.prompts = [], {}
        elif record.subtype == "microcompact_boundary" and meta.compacted_tool_ids:
            self._close(name, chain)
            self._emit(e.ToolResultCleared(call_ids=meta.compacted_tool_ids, chain=name, at=record.timestamp))

    def _boundary(self, record: Record, name: str, meta: Compact) -> e.CompactApplied:
        kept: list[str] | None = None
        if meta.preserved_messages is not None:
            known = [uuid for uuid in meta.preserved_messages.uuids if uuid in self._state.parents]
            unknown = [uuid for uuid in meta.preserved_messages.uuids if uuid not in self._state.parents]
            kept = [item for uuid in known for item in self._state.items.get(uuid, ())] + unknown
        return e.CompactApplied(
            uuid=_uuid(record, self._line), trigger=meta.trigger, chain=name, at=record.timestamp,
            pre_tokens=meta.pre_tokens, post_tokens=meta.post_tokens,
            preserved_uuids=None if kept is None else tuple(kept),
        )  # fmt: skip

    def _flush_boundary(self, name: str, chain: ChainMemory) -> None:
        """Emit a compaction once its summary has come, or cannot come any more."""
        if chain.boundary is not None:
            self._emit(e.CompactStarted(trigger=chain.boundary.trigger, chain=name))
            self._emit(chain.boundary)
            chain.boundary = None
            self._found.extend(Read(one.event, one.line, one.byte) for one in chain.held)
            chain.held = []

    def _attachment(self, record: Record, name: str, chain: ChainMemory) -> None:
        """Keep an attachment as it is; one between a boundary and its summary comes after both."""
        self._append(record, name, OpaqueItem(_uuid(record, self._line), Raw(self._line.data)))
        if chain.boundary is not None:
            read = self._found.pop()
            chain.held.append(Held(read.line, read.byte, read.value))  # pyright: ignore[reportArgumentType]

    def _append(self, record: Record, name: str, item: Item) -> None:
        self._emit(e.Append(item=item, chain=name, at=record.timestamp, agent_id=record.agent_id))
        if record.uuid is not None:
            had = self._state.items.get(record.uuid, ())
            self._state.items[record.uuid] = (*had, item.uuid)


_HANDLERS: dict[str, Callable[[ClaudeCode, Record, str, ChainMemory], None]] = {
    "user": ClaudeCode._user,  # pyright: ignore[reportPrivateUsage]
    "assistant": ClaudeCode._assistant,  # pyright: ignore[reportPrivateUsage]
    "system": ClaudeCode._system,  # pyright: ignore[reportPrivateUsage]
    "attachment": ClaudeCode._attachment,  # pyright: ignore[reportPrivateUsage]
}


def _content_of(message: Message) -> bytes:
    content = bytes(message.content)
    if content[:1] not in (b'"', b"["):
        raise ValueError("content is neither text nor blocks")
    return content


def _spoken(uuid: str, piece: Piece, stop_reason: str | None, response: str) -> Item:
    part = piece.part
    if part.type == "tool_use" and part.id is not None:
        return ToolCall(uuid, part.id, part.name or "", part.input, response_id=response)
    return AssistantMessage(uuid, blocks=(block_of(piece),), stop_reason=stop_reason, response_id=response)


def _uuid(record: Record, line: Line) -> str:
    return record.uuid or f"line-{line.number}"


def _source(record: Record) -> str:
    return "context_injection" if record.is_meta else "user"


def _short(error: BaseException) -> str:
    return str(error).partition("\n")[0][:120]


def _summary(message: Message) -> Raw:
    """The summary's text, from a string or from the text blocks of a list."""
    content = bytes(message.content)
    if content[:1] == b'"':
        return message.content
    blocks = [block_of(piece) for piece in pieces_of(content)]
    texts = [text_of(bytes(one.text)) for one in blocks if isinstance(one, TextBlock)]
    return Raw(encode("\n\n".join(texts)))
