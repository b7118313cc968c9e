"""Codex CLI's rollouts (`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions/`), since 2025.

A response is a run of items that the model made; a request is billed by a change of `total_token_usage`, or since
autumn 2026 by a `token_usage_record`, whose copy for the screen then counts nothing. A bill comes behind its response,
and often behind the first results: so what a response made is held until it is billed. One that is given up before
that (an interrupt, an error) is a request only if the sums grow by more than the next bill: by its own. Where a log
bills nothing at all, every response is one. What else the screen was told is no part of a prompt.

A compaction gives the history that stands in place of all before it; its summary is often encrypted. A rollback takes
the last prompts of the user back, with what the client wrote before each. A log that was forked begins with a copy of
the other: the sums tell which of its requests the other file has, too.

The system prompt and the history are in the file, as are tools that the client was given; the schemas of built-in tools
are not.

Sources: counts over 89 public rollouts, versions 0.118 to 0.144; `codex-rs` of October 2026 for newer records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from msgspec import Raw, Struct, field

from lore.formats import codex_items as made
from lore.formats import codex_records as records
from lore.formats.base import Clock, Read
from lore.formats.codex_context import Noted, signs_of_context
from lore.formats.lines import each
from lore.formats.transcripts import TranscriptLines, TranscriptMemory, TranscriptTurns
from lore.model import events as e
from lore.model.canonical import decode
from lore.model.codes import Code
from lore.model.items import NULL, Item, UserMessage
from lore.model.jsonslice import table
from lore.model.state import Sign

Counts: TypeAlias = tuple[int, int, int]
MOST_HELD = 1_000  # events of a response that wait for its bill
MOST_BYTES = 4 * 1024 * 1024


class Held(Struct, gc=False):
    """An event that waits for the bill of its response, and its place."""

    event: e.Event
    line: int
    byte: int


class Response(Struct):
    """A response that is not billed yet: when it was asked for and when it began, and what it and its tools made.

    `results` came behind it, or it is `over`: something else did. It was `given_up` where an interrupt or an error did.
    `turn` is its number where it has begun already, since too much waited.
    """

    asked: str | None
    at: str | None
    model: str | None
    line: int
    byte: int
    held: list[Held] = []
    size: int = 0
    results: bool = False
    over: bool = False
    given_up: bool = False
    turn: int = 0


class Boundary(Struct, gc=False):
    """A prompt of the user: the number of its item, and of the first that goes with it when it is taken back."""

    item: int
    cut: int


class CodexMemory(TranscriptMemory):
    """All that the reader remembers.

    `thread` is the session's id, `root` the thread that its sums began in; `waiting` are the responses since the last
    bill, the one under way last; `totals` the sums so far; `billed` says that
    a response was, `recorded` that records bill them. Items are numbered: `items` were made, `live` are the ranges of
    those that stand in the history, `boundaries` the prompts among them, `contextual` counts what the client wrote
    since the last of other items.
    """

    thread: str | None = None
    root: str = ""
    version: str = ""
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    waiting: list[Response] = []
    asked_at: str | None = None
    model: str | None = None
    totals: Counts | None = None
    tokens: int | None = None
    billed: bool = False
    recorded: str | None = None
    context: dict[str, Noted] = {}
    items: int = 0
    live: list[tuple[int, int]] = []
    boundaries: list[Boundary] = []
    contextual: int = 0


class Codex(TranscriptLines[CodexMemory]):
    """Reader of Codex CLI's rollouts."""

    name: ClassVar[str] = "codex"
    clock: ClassVar[Clock] = "first_line"
    memory = CodexMemory
    unseen: ClassVar[str] = "the schemas of built-in tools"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in each(head):
            own = table(line) or {}
            if own.keys() >= {"type", "payload"} and own["payload"][:1] == b"{":
                return own["type"].strip(b'"').decode("utf-8", "replace") in records.TYPES
            return False
        return False

    def _take(self, data: bytes) -> None:
        record = records.decode(data)
        handle = _HANDLERS.get(type(record))
        if handle is not None:
            handle(self, record)
        elif record.type not in records.SILENT:
            self._opaque(Code.UNKNOWN_RECORD, f"unknown record type {record.type[:60]!r}; kept as opaque")

    def _last(self) -> None:
        self._settle()

    # what waits for a bill

    @property
    def _response(self) -> Response | None:
        """The response under way."""
        return self._memory.waiting[-1] if self._memory.waiting else None

    def _emit(self, event: e.Event) -> None:
        response = self._response
        if response is None or response.turn:
            super()._emit(event)
            return
        response.held.append(Held(event, self._line.number, self._line.byte))
        response.size += len(self._line.data)
        if len(response.held) > MOST_HELD or response.size > MOST_BYTES:
            for before in self._memory.waiting[:-1]:
                self._let_go(before)
            self._memory.waiting = [response]
            self._start(response)

    def _start(self, response: Response) -> None:
        """Start the turn of a response at its first line, and let go of what waited."""
        turns, place = self._memory.turns, (response.line, response.byte)
        turns.turn = response.turn = turns.turn + 1
        if response.model is not None and response.model != turns.model:
            turns.model = response.model
            self._found.append(Read(e.SessionChanged(model=response.model), *place))
        self._found.append(Read(e.TurnStarted(turn=response.turn, at=response.asked or response.at), *place))
        self._let_go(response)

    def _let_go(self, response: Response) -> None:
        self._found += [Read(held.event, held.line, held.byte) for held in response.held]
        response.held = []

    def _end(self, response: Response, usage: e.Billed | None, name: str | None = None) -> None:
        """End a response as a request."""
        if not response.turn:
            self._start(response)
        end = e.TurnCompleted(turn=response.turn, at=response.at, usage=usage, response_id=name)
        self._found.append(Read(end, self._line.number, self._line.byte))

    def _settle(self) -> None:
        """End the responses that no bill came for: requests where the log bills none and they were not given up."""
        memory = self._memory
        waiting, memory.waiting = memory.waiting, []
        for response in waiting:
            if response.turn or not (memory.billed or response.given_up):
                self._end(response, None)
            else:
                self._let_go(response)

    # lines, by type

    def _session(self, record: records.MetaLine) -> None:
        memory, meta = self._memory, record.payload
        if memory.thread is None:
            memory.thread, memory.version = meta.id, meta.cli_version
            memory.root = meta.forked_from_id or meta.id
            base = meta.base_instructions
            parent = meta.forked_from_id or meta.parent_thread_id or made.parent_of(meta.source)
            self._emit(
                e.SessionStarted(
                    session_id=meta.id,
                    at=meta.timestamp or record.timestamp,
                    dialect="openai-responses",
                    system=NULL if base is None else base.text,
                    tools=meta.dynamic_tools or None,
                    parent_session_id=parent,
                )  # fmt: skip
            )
        elif meta.id != memory.thread:  # a fork's copy of the log that it was forked from
            if not memory.billed:
                memory.root = meta.forked_from_id or meta.id
        else:
            signs = [Sign("resume")]
            if meta.cli_version != memory.version:
                signs.append(Sign("client-version", before=memory.version, after=meta.cli_version))
                memory.version = meta.cli_version
            self._observe(signs, e.MAIN, record.timestamp, memory.version)

    def _context(self, record: records.ContextLine) -> None:
        memory = self._memory
        signs = signs_of_context(memory.context, record.payload)
        model = record.payload.get("model", NULL)
        if bytes(model)[:1] == b'"':
            memory.model = decode(bytes(model))
        self._observe(signs, e.MAIN, record.timestamp, memory.version)

    def _item(self, record: records.ItemLine) -> None:
        memory, payload, noted = self._memory, record.payload, record.metadata
        if payload.type in made.NEVER_SENT or (noted is not None and noted.delivered_assistant_message is not None):
            return
        if made.is_made(payload):
            self._respond(record.timestamp)
        elif self._response is not None:
            self._response.results = True
            self._response.over = self._response.over or payload.type not in made.OUTPUTS
        self._append_item(payload, record.timestamp)
        if not made.is_made(payload):
            memory.asked_at = record.timestamp

    def _respond(self, at: str | None) -> None:
        """Begin a response, where this is not more of the one under way."""
        memory, response = self._memory, self._response
        if response is not None and not memory.billed and (response.over or response.results):
            self._settle()
        elif response is not None and not response.over:
            return
        line = self._line
        memory.waiting.append(Response(memory.asked_at, at, memory.model, line.number, line.byte))

    def _append_item(self, payload: records.Payload, at: str | None) -> None:
        """Emit what an item says, and number it."""
        memory = self._memory
        uuid = f"item-{memory.items + 1}"
        under_way = self._response if made.is_made(payload) else None
        response = None if under_way is None else f"line-{under_way.line}"
        found = made.made_of(payload, uuid, response, e.MAIN, at)
        if isinstance(found, e.PatchToolCall):
            self._emit(found)
            if payload.type == "tool_search_output":
                self._observe(made.signs_of_search(payload), e.MAIN, at, memory.version)
            return
        if found is None and payload.type == "message":
            return
        if found is None:
            self._problem(Code.UNKNOWN_RECORD, f"unknown item type {payload.type[:60]!r}; kept as opaque")
            found = made.opaque_of(self._line.data, uuid)
        self._append(found, e.MAIN, at)
        self._number(found, payload)

    def _number(self, item: Item, payload: records.Payload) -> None:
        """Remember an item's number, and where the user's prompts stand."""
        memory = self._memory
        memory.items += 1
        number = memory.items
        if memory.live and memory.live[-1][1] == number - 1:
            memory.live[-1] = (memory.live[-1][0], number)
        else:
            memory.live.append((number, number))
        if made.is_contextual(item, payload):
            memory.contextual += 1
            return
        if isinstance(item, UserMessage) and payload.role != "developer":
            first = not memory.boundaries
            memory.boundaries.append(Boundary(number, number if first else number - memory.contextual))
        memory.contextual = 0

    def _compacted(self, record: records.CompactedLine) -> None:
        memory, compacted = self._memory, record.payload
        self._settle()
        uuid = f"compaction-{memory.items + 1}"
        kept, summary = (), compacted.message
        if compacted.replacement_history is None:
            kept = tuple([f"item-{boundary.item}" for boundary in memory.boundaries])
        self._emit(
            e.CompactApplied(
                uuid=uuid,
                trigger="auto",
                pre_tokens=memory.tokens,
                preserved_uuids=kept,
                summary=NULL if made.is_empty(summary) else summary,
                at=record.timestamp,
            )  # fmt: skip
        )
        memory.live, memory.contextual = [], 0
        if compacted.replacement_history is not None:
            memory.boundaries = []
        else:
            memory.live = [(boundary.item, boundary.item) for boundary in memory.boundaries]
        for raw in compacted.replacement_history or ():
            self._append_item(records.payload_of(bytes(raw)), record.timestamp)

    def _rolled_back(self, record: records.EventLine) -> None:
        memory, count = self._memory, _whole(record.payload.num_turns)
        self._settle()
        if not count or not memory.boundaries:
            return
        gone = memory.boundaries[-count:]
        del memory.boundaries[-count:]
        cut = gone[0].cut
        taken = [f"item-{number}" for first, last in memory.live for number in range(max(first, cut), last + 1)]
        memory.live = [(first, min(last, cut - 1)) for first, last in memory.live if first < cut]
        memory.contextual = 0
        self._emit(e.Remove(uuids=tuple(taken), at=record.timestamp))

    def _stopped(self, record: records.EventLine) -> None:
        """Note an interrupt or an error: what is not billed by then is given up."""
        memory = self._memory
        if self._response is not None:
            self._response.over = self._response.given_up = True
        sign = Sign("interrupt" if record.payload.type == "turn_aborted" else "api-error")
        self._observe((sign,), e.MAIN, record.timestamp, memory.version)

    def _counted(self, record: records.EventLine) -> None:
        """Take the sums that the screen shows: where they changed, the last response is billed."""
        memory, info = self._memory, records.info_of(bytes(record.payload.info))
        if info is None or info.total_token_usage is None:
            return
        last, totals = info.last_token_usage, counts_of(info.total_token_usage)
        before, memory.totals = memory.totals, totals
        if totals == before or not any(totals) or last is None or memory.recorded is not None:
            return
        name = f"{memory.root}:{'-'.join(map(str, totals))}"
        self._bill_before(before, counts_of(last), totals, name)
        self._bill(last, name, record.timestamp)

    def _bill_before(self, before: Counts | None, last: Counts, totals: Counts, name: str) -> None:
        """Bill a response that was given up: the sums grew by more than the last one."""
        if before is None:
            return
        whole, read, output = (now - had - own for had, own, now in zip(before, last, totals, strict=True))
        if not (whole or read or output):
            return
        lost = self._memory.waiting[:-1]
        if lost and 0 <= read <= whole and output >= 0:
            for response in lost[:-1]:
                self._let_go(response)
            self._end(lost[-1], self._billed(records.Usage(whole, read, None, output)), f"{name}:before")
            self._memory.waiting = self._memory.waiting[-1:]
            return
        detail = f"the sums grew by {whole:,} input tokens more than the last response was billed"
        self._problem(Code.UNKNOWN_ID, f"{detail}: a bill is not in the log")

    def _record_bill(self, record: records.UsageLine) -> None:
        memory, bill = self._memory, record.payload
        name = bill.response_id or f"line {self._line.number}"
        if bill.usage is not None and name != memory.recorded:
            memory.recorded = name
            self._bill(bill.usage, name, record.timestamp)

    def _bill(self, usage: records.Usage, name: str, at: str | None) -> None:
        """Bill the response under way; one that made nothing is a request all the same."""
        memory, line = self._memory, self._line
        memory.billed, memory.tokens = True, usage.total_tokens
        waiting, memory.waiting = memory.waiting, []
        for response in waiting[:-1]:
            self._let_go(response)
        last = waiting[-1] if waiting else Response(memory.asked_at, at, memory.model, line.number, line.byte)
        self._end(last, self._billed(usage), name)

    def _billed(self, usage: records.Usage) -> e.Billed:
        whole, read, write = usage.input_tokens, usage.cached_input_tokens, usage.cache_write_input_tokens
        cached = (read or 0) + (write or 0)
        uncached = None if whole is None else whole - cached
        client = f"codex {self._memory.version}" if self._memory.version else "codex"
        if uncached is not None and uncached < 0:
            odd = f"{cached} cached tokens are more than all {whole} of the input"
            return e.OddBill(None, read, write, usage.output_tokens, client=client, odd=odd)
        return e.Billed(uncached, read, write, usage.output_tokens, client=client)


def counts_of(usage: records.Usage) -> Counts:
    """Return what sums are compared by: input, cached input, output; 0 where it is not said."""
    return usage.input_tokens or 0, usage.cached_input_tokens or 0, usage.output_tokens or 0


def _whole(raw: Raw) -> int:
    value = decode(bytes(raw))
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _happened(reader: Codex, record: records.EventLine) -> None:
    handle = _EVENTS.get(record.payload.type)
    if handle is not None:
        handle(reader, record)


_EVENTS: dict[str, Callable[[Codex, records.EventLine], None]] = {
    "token_count": Codex._counted,
    "turn_aborted": Codex._stopped,
    "error": Codex._stopped,
    "stream_error": Codex._stopped,
    "thread_rolled_back": Codex._rolled_back,
}
_HANDLERS: dict[type, Callable[[Codex, Any], None]] = {
    records.ItemLine: Codex._item,
    records.EventLine: _happened,
    records.MetaLine: Codex._session,
    records.ContextLine: Codex._context,
    records.CompactedLine: Codex._compacted,
    records.UsageLine: Codex._record_bill,
}
