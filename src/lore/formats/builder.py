"""Build the events of one session from the records of an agent's log.

Every agent logs the same few things: messages, tool results, requests with their usage, compactions, rewinds, settings.
A reader decodes a record and reports these to its `SessionBuilder`; the builder numbers the turns of each chain,
remembers the items of each message (so that compactions and rewinds can name them) and emits the events. An emitted
event is kept, with the place of its record, until `take` returns it.

How to write a reader: a subclass of `LogReader` (a record a line, printed, or in an array) or `DocumentReader` (the
records are the elements of one array) with `handle(data)`, which decodes one record, sets `session.at` (and `chain`,
`agent`), and calls the builder. A record that `handle` refuses with ValueError is kept as opaque, with a problem.

A turn is one model request. It starts with the first record that the model made, and ends when its usage is known; the
items that the model made in between have the same `response_id`. `session.counter.asked_at` is when the next request
was asked for: set it to `session.at` at each prompt and result. A subagent is a chain: set `session.chain` to a name of
your own for each of its records (and `agent`, if it has a name); it has turns and a `history` of its own. Files of
subagents are found by `recording/agents/companions.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from lore.formats.base import Read, Yields
from lore.formats.beginning import BOM, SPACE
from lore.formats.documents import ElementCutter
from lore.formats.lines import FEW_BYTES, Line, LineReader, fault, problem
from lore.model import events as e
from lore.model import lenient
from lore.model.codes import Code, Problem
from lore.model.items import NULL, Item
from lore.model.jsonslice import is_json, raw_members
from lore.model.lenient import DECODERS
from lore.model.limits import ENTRY_BYTES, RECORD_BYTES
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign

T = TypeVar("T")
STAND_IN = "line-"  # how the ids begin that records get from their place


class Message(Struct, eq=False):
    """One message of a chain's history."""

    items: list[str] = field(default_factory=list[str])  # uuids of its items in the timeline
    is_prompt: bool = False  # the user wrote it; some rewinds are numbers of prompts
    name: str = ""  # the log's own id, if compactions or rewinds give it


class TurnCounter(Struct):
    """The turns of one chain."""

    number: int = 0  # of the latest turn
    model: str | None = None  # of the latest turn
    asked_at: str | None = None  # when the next request was asked for; None: when its first record was written


class SessionBuilder:
    """Emits the events of one session in the order of its records."""

    def __init__(self) -> None:
        self._histories = defaultdict[str, list[Message]](list)  # by chain
        self.turns: dict[str, TurnCounter] = {}  # by chain
        self.settings: dict[tuple[str, str], str] = {}  # by chain and name: the latest value
        self.version = ""  # of the agent, for signals
        self.line = Line(0, 0, b"")  # the record that is read
        self._first_on_line = self.line  # the first record of its line that needed an id
        self.file = ""  # its file, if a folder is read as one recording
        self.at: str | None = None  # when the record was written; the reader sets it
        self.chain = e.MAIN  # the chain that it belongs to; the reader sets it
        self.agent: str | None = None  # the subagent that wrote it; the reader sets it
        self.is_started = False  # the header was emitted
        self.misfits = set[str]()  # members of the record that `decode` left out
        self._reads: list[Read] = []  # emitted since the last `take`

    # records

    def start_record(self, line: Line) -> None:
        """Set the record that events get their place from; reset its time, chain and agent."""
        self.line = line
        self.at, self.chain, self.agent = None, e.MAIN, None

    def read_record(self, line: Line, handle: Callable[[bytes], None]) -> list[Read] | None:
        """Call `handle` with a record and return the reads it emits; None and no reads if it is no JSON object.

        An object for which `handle` raises ValueError is kept as opaque.
        """
        self.line, self.at, self.chain, self.agent = line, None, e.MAIN, None  # `start_record`, which costs a call
        data = line.data
        try:
            if not data.isascii():
                data.decode("utf-8")  # msgspec's Raw does not look inside strings
            handle(data)
        except (ValueError, RecursionError) as error:
            if fault(data):
                self._reads = []
                return None
            self.keep_malformed(error)
        if self.misfits:
            return self.take()
        reads, self._reads = self._reads, []  # `take`, which costs a call
        return reads

    def decode(self, kind: type[T], data: bytes | Raw) -> T:
        """Decode the record, or a part of it; raise ValueError if that is impossible.

        An optional member of another type than `kind` has counts as missing, with a problem: agents change their logs.
        """
        try:
            return DECODERS[kind].decode(data)
        except (msgspec.DecodeError, RecursionError):
            return lenient.convert(bytes(data), kind, self.misfits)

    def take(self) -> list[Read]:
        """Return the reads emitted since the last call, and forget them; report misfits."""
        if self.misfits:
            self.problem(Code.MALFORMED_RECORD, self.take_misfits())
        reads, self._reads = self._reads, []
        return reads

    def take_misfits(self) -> str:
        """Return a description of the record's misfits, empty without any, and forget them."""
        description = lenient.describe_misfits(self.misfits) if self.misfits else ""
        self.misfits.clear()
        return description

    def emit(self, event: e.Event) -> None:
        """Emit an event at the place of the record."""
        self._reads.append(Read(event, self.line.number, self.line.byte, self.file))

    def problem(self, code: str, message: str) -> None:
        """Report a problem at the record."""
        line, byte = self.line.number, self.line.byte
        self._reads.append(Read(Problem(code, message, line=line, byte=byte), line, byte, self.file))

    def keep_opaque(self, code: str, reason: str) -> None:
        """Emit the whole record as an opaque event, and a problem with the reason, which may be its misfits."""
        if self.misfits:
            code, reason = Code.MALFORMED_RECORD, self.take_misfits()
        self.problem(code, f"{reason}; kept as opaque")
        self.emit(e.OpaqueEvent(record=Raw(self.line.data)))

    def keep_unknown(self, what: str, name: str) -> None:
        """Keep a record as opaque for an unknown `name`, which `what` describes: "unknown record type"."""
        self.keep_opaque(Code.UNKNOWN_RECORD, f"{what} {mask(name)[:60]!r}")

    def keep_malformed(self, error: Exception) -> None:
        """Keep a record as opaque that a reader refused with this error."""
        self.keep_opaque(Code.MALFORMED_RECORD, cut_masked(str(error).partition("\n")[0], 120))

    @property
    def line_id(self) -> str:
        """A unique id of the record, from its line and, if others are on the line, its byte; for one without an id."""
        line = self.line
        if self._first_on_line.number != line.number:
            self._first_on_line = line
        same = self._first_on_line.byte == line.byte
        return f"{STAND_IN}{line.number}" if same else f"{STAND_IN}{line.number}.{line.byte}"

    def start_session(self, session_id: str = "", **header: Any) -> None:
        """Emit the session's header; later calls do nothing. `header` are fields of `SessionStarted`.

        `dialect` is that of its requests: `anthropic`, `openai-chat`, `openai-responses`, `gemini` or `bedrock`; also
        `system`, `tools`, `title`. What changes later is a `SessionChanged`, which `emit` takes.
        """
        if not self.is_started:
            self.is_started = True
            self.emit(e.SessionStarted(session_id=session_id, **header))

    # history

    @property
    def history(self) -> list[Message]:
        """The messages of the record's chain that its next prompt holds; readers may change the list."""
        return self._histories[self.chain]

    def append(self, item: Item) -> None:
        """Emit an item, as `ToolCall(uuid, call_id, name, Raw(arguments), response_id=…)`; leave `history` as it is."""
        event = e.Append(item=item, chain=self.chain, at=self.at, agent_id=self.agent)
        self._reads.append(Read(event, self.line.number, self.line.byte, self.file))  # not `emit`: there are many

    def add_message(self, *items: Item, is_prompt: bool = False, name: str = "") -> Message:
        """Add a message to `history`, emit its items, and return it; `add_item` adds more items to it."""
        message = Message(is_prompt=is_prompt, name=name)
        self.history.append(message)
        for item in items:
            self.add_item(message, item)
        return message

    def add_item(self, message: Message, item: Item) -> None:
        """Emit an item and add it to a message of `history`."""
        message.items.append(item.uuid)
        self.append(item)

    def add_result(self, call_id: str, output: Raw, *, failed: bool, error: Raw = NULL) -> None:
        """Emit the result of a call; `output` and `error` are JSON texts, or lists of blocks (`values.result_of`)."""
        status = "failed" if failed else "completed"
        chain, at = self.chain, self.at
        self.emit(e.PatchToolCall(call_id=call_id, status=status, output=output, error=error, chain=chain, at=at))

    def remove(self, uuids: Iterable[str]) -> None:
        """Emit the removal of items, if there are any; `history` keeps them."""
        removed = tuple(uuids)
        if removed:
            self.emit(e.Remove(uuids=removed, chain=self.chain, at=self.at))

    def rewind_to(self, index: int) -> None:
        """Remove the message at `index` of `history` and all that follow, and emit the removal of their items."""
        removed = [uuid for message in self.history[index:] for uuid in message.items]
        del self.history[index:]
        self.remove(removed)

    def compact(self, uuid: str, remaining: Sequence[Message], **details: Any) -> None:
        """Replace `history` by the `remaining` messages of it, and emit a `CompactApplied` with the fields `details`.

        `uuid` is the item that replaces removed messages, `summary` its text as JSON; also `pre_tokens`, the size of
        the prompt before, and `trigger`, `auto` or `manual`.
        """
        self._histories[self.chain] = list(remaining)
        self.prune(uuid, [item for message in remaining for item in message.items], **details)

    def prune(self, uuid: str, remaining: Iterable[str] | None, *, trigger: str = "auto", **details: Any) -> None:
        """Emit a compaction that kept these items (None: unknown which), without changing `history`; see `compact`."""
        preserved = None if remaining is None else tuple(remaining)
        chain, at = self.chain, self.at
        self.emit(
            e.CompactApplied(uuid=uuid, trigger=trigger, preserved_uuids=preserved, chain=chain, at=at, **details)
        )

    # turns, signals and settings

    @property
    def counter(self) -> TurnCounter:
        """The turns of the record's chain."""
        counter = self.turns.get(self.chain)
        if counter is None:
            counter = self.turns[self.chain] = TurnCounter()
        return counter

    def start_turn(self, model: str | None, call: e.Call | None = None, continues: int | None = None) -> int:
        """Emit the start of the chain's next turn and return its number; before it, a change of the model.

        `continues` is the turn that it continues, if that is not the previous one.
        """
        counter = self.counter
        counter.number += 1
        if model is not None and model != counter.model:
            counter.model = model
            self.emit(e.SessionChanged(model=model, chain=self.chain))
        at = counter.asked_at or self.at
        self.emit(e.TurnStarted(
            turn=counter.number, at=at, chain=self.chain, agent_id=self.agent, call=call, continues=continues,
        ))  # fmt: skip
        return counter.number

    def end_turn(
        self, usage: e.Usage | None, response_id: str | None = None, *, number: int | None = None, **details: Any
    ) -> None:  # fmt: skip
        """Emit the end of a turn of the chain (the latest without `number`); `details` as in `TurnCompleted`.

        Requests with equal response ids are copies of one: pass the provider's id, or None if it is not recorded. A
        request that failed or was cancelled ends with `emit(TurnFailed(…))` or `TurnCanceled`, with its `turn`.
        """
        details = {"at": self.at, "chain": self.chain, "agent_id": self.agent, **details}
        turn = number or self.counter.number
        self.emit(e.TurnCompleted(turn=turn, usage=usage, response_id=response_id, **details))

    def signal(self, *signs: Sign) -> None:
        """Emit signals: events outside the messages that may change a prompt or a cache; `SIGNS` has their names."""
        for sign in signs:
            fields = msgspec.structs.asdict(sign)
            del fields["line"]  # the recording knows it
            fields["version"] = self.version
            self.emit(e.Observed(**fields, chain=self.chain, at=self.at))

    def fail(self, said: str) -> None:
        """Signal that the API answered with an error; report what it said, unless clients send such requests again."""
        from lore.formats.http import failure_in_text  # noqa: PLC0415 - few sessions have an error

        self.signal(Sign("api-error"))
        if said and (failure := failure_in_text(said)) is not None:
            self.problem(failure.code, failure.message)

    def setting(self, name: str, value: str | None) -> None:
        """Keep a setting of the chain, and signal a change of it. None and an empty value change nothing."""
        if value:
            before, self.settings[self.chain, name] = self.settings.get((self.chain, name)), value
            if before and before != value:
                self.signal(Sign(name, before=before, after=value))


class LogReader(LineReader):
    """A reader of an agent's log. A format implements `recognises`, `handle`, and `finish` if records wait for others.

    `recognises` gets the beginning of a file, each record on a line. `unseen` names the parts of prompts that the logs
    lack. `clock = "first_line"` says that turns end when their response begins, as `turn_completed` is written.
    """

    yields: ClassVar[Yields] = "events"
    ends_late: ClassVar[bool] = False  # a turn may end after the next ones of its chain have started
    has_unique_records: ClassVar[bool] = False  # a record equal to the one before it is a copy: each has its own id

    def __init__(self) -> None:
        super().__init__()
        self.session = SessionBuilder()

    def read_line(self, line: Line) -> Sequence[Read]:
        if self.has_unique_records and line.data and line.data == self._latest:
            return [problem(Code.DUPLICATE_UUID, "a record equal to the one before it; passed over", line)]
        # Most lines are records within the limits. Decoding refuses values that are nested too deep.
        is_usual = not self._broken and 0 < len(line.data) < FEW_BYTES
        reads = self.session.read_record(line, self.handle) if is_usual else None
        if reads is None:
            return super().read_line(line)
        self._latest = line.data
        return reads

    def _record(self, line: Line) -> list[Read] | None:
        return self.session.read_record(line, self.handle) if line.data else None

    def _read_following(self, records: ElementCutter) -> Iterator[Read]:
        """Yield the reads of the documents after the first one, each with chains of its own in the session."""
        for number in count(2):
            if not records.find_next():
                return
            for read in type(self)()._read_array(records):  # noqa: SLF001 - a reader of one session
                event: Any = read.value
                if isinstance(event, Problem):
                    yield read
                elif not isinstance(event, e.SessionStarted):
                    chain_event = msgspec.structs.replace(event, chain=f"{event.chain}-{number}")
                    yield msgspec.structs.replace(read, value=chain_event)

    def _flush(self) -> list[Read]:
        self.session.start_record(self.session.line)
        self.finish()
        return self.session.take()

    def handle(self, data: bytes) -> None:
        """Report a record to the session, a JSON object; raise ValueError (as msgspec does) if it is malformed."""
        raise NotImplementedError

    def finish(self) -> None:
        """Report at the end of the log what waited for further records."""


class DocumentReader(LogReader):
    """A reader of one JSON document whose records are the elements of an array at one of `paths`, such as `.messages`.

    Its `recognises` gets the beginning of the file as it is.
    """

    title_follows: ClassVar[bool] = False  # the session's title may be after the array, for `handle_tail`
    reads_arrays: ClassVar[bool] = False
    line_limit_factor: ClassVar[int] = ENTRY_BYTES // RECORD_BYTES
    longest: ClassVar[int] = ENTRY_BYTES

    def _read_array(self, records: ElementCutter) -> Iterator[Read]:
        begin = (records.begin or b"").removeprefix(BOM).lstrip(SPACE)
        closed = (begin + b"]" + b"}" * depth for depth in (1, 2, 3)) if begin[:1] == b"{" else ()
        self.session.start_record(Line(1, 0, next(filter(is_json, closed), b"{}")))
        try:
            self.handle_head(self.session.line.data)
        except (ValueError, RecursionError) as error:
            self.session.keep_malformed(error)
        yield from self.session.take()
        yield from super()._read_array(records)
        tail = records.read_tail().lstrip(b"]" + SPACE).removeprefix(b",") if self.title_follows else b""
        if begin[:1] == b"{" and is_json(b"{" + tail):
            yield from self.session.read_record(Line(1, 0, b"{" + tail), self.handle_tail) or ()

    @classmethod
    def first_members(cls, head: bytes) -> dict[str, bytes]:
        """Return the members of the first record in a file's beginning; empty without a whole one."""
        first = next(iter(ElementCutter([head], cls.paths)), None)
        return (raw_members(first.data) if first is not None else None) or {}

    def handle_head(self, data: bytes) -> None:
        """Report the document up to its records, a JSON object whose list is empty; ValueError if it is malformed."""

    def handle_tail(self, data: bytes) -> None:
        """Report the members after the records, a JSON object; ValueError if it is malformed."""
