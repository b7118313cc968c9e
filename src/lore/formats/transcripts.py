"""What readers of agents' session logs share: events as records make them, at their places, and turns of chains.

In: records of a log, one a line or the elements of one array of a document. Out: the events of a session. Rules: a
record that a reader cannot model is an opaque event with a problem, and so is one that makes its handler raise; order
is the file's; a turn is one model request, opened by the first record that the model made.

How to write one: a subclass of `TranscriptLines` or `TranscriptDocument` with a `memory` (a msgspec struct: what the
reader remembers from record to record) and `_take`, which notes whose the record is and when it was written (`_chain`,
`_at`, `_agent`): what is emitted then says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.beginning import BOM, SPACE
from lore.formats.bounds import is_crowded, is_deep, too_many, too_much
from lore.formats.documents import ElementCutter
from lore.formats.lines import Line, LineReader, fault, problem
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import NULL, Item
from lore.model.jsonslice import is_json
from lore.model.limits import ENTRY_BYTES
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign

M = TypeVar("M", bound=Struct)


class TranscriptTurns(Struct):
    """What is remembered of a chain's turns: how many there were, whose the last was, when it was asked for."""

    turn: int = 0
    model: str | None = None
    asked_at: str | None = None


class Emitting(Generic[M]):
    """Events and problems of the record that is being read: at its place and time, of its chain and agent."""

    yields: ClassVar[Yields] = "events"
    clock: ClassVar[Clock] = "end"
    memory: type[M]  # of a class: what its instances remember in `_memory`
    _chain: str
    _at: str | None
    _agent: str | None

    def _begin(self) -> None:
        self._memory = self.memory()
        self._found: list[Read] = []
        self._line: Line = Line(0, 0, b"")
        self._file = ""  # of those of a folder
        self._at_record(self._line)

    def _at_record(self, line: Line) -> None:
        """Begin a record: nothing is known of it."""
        self._line = line
        self._chain, self._at, self._agent = e.MAIN, None, None

    def _taken(self) -> list[Read]:
        found, self._found = self._found, []
        return found

    def _emit(self, event: e.Event) -> None:
        self._found.append(Read(event, self._line.number, self._line.byte, self._file))

    def _problem(self, code: str, message: str) -> None:
        line, byte = self._line.number, self._line.byte
        self._found.append(Read(Problem(code, message, line=line, byte=byte), line, byte, self._file))

    def _opaque(self, code: str, message: str) -> None:
        """Keep the record as it stands, and say why."""
        self._problem(code, message)
        self._emit(e.OpaqueEvent(record=Raw(self._line.data)))

    def _unknown(self, what: str, name: str, most: int = 60) -> None:
        """Keep a record of a kind that nobody knows, and say which, in so many characters."""
        self._opaque(Code.UNKNOWN_RECORD, f"{what} {mask(name)[:most]!r}; kept as opaque")

    def _malformed(self, error: Exception) -> None:
        """Keep a record that could not be taken, for this reason."""
        reason = cut_masked(str(error).partition("\n")[0], 120)
        self._opaque(Code.MALFORMED_RECORD, f"{reason}; kept as opaque")

    def _append(self, item: Item) -> None:
        event = e.Append(item=item, chain=self._chain, at=self._at, agent_id=self._agent)
        self._found.append(Read(event, self._line.number, self._line.byte, self._file))

    def _patch(self, call: str, output: Raw, *, failed: bool, error: Raw = NULL) -> None:
        """Give a call its result."""
        status = "failed" if failed else "completed"
        chain, at = self._chain, self._at
        self._emit(e.PatchToolCall(call_id=call, status=status, output=output, error=error, chain=chain, at=at))

    def _remove(self, uuids: Iterable[str]) -> None:
        """Take items back, if there are any."""
        gone = tuple(uuids)
        if gone:
            self._emit(e.Remove(uuids=gone, chain=self._chain, at=self._at))

    def _prune(
        self, uuid: str, kept: Iterable[str] | None, *, trigger: str = "auto", pre: int | None = None,
        post: int | None = None, summary: Raw = NULL,
    ) -> None:  # fmt: skip
        """Prune the timeline to what a compaction kept; None: it does not say it."""
        stay = None if kept is None else tuple(kept)
        self._emit(
            e.CompactApplied(
                uuid=uuid, trigger=trigger, pre_tokens=pre, post_tokens=post, preserved_uuids=stay, summary=summary,
                chain=self._chain, at=self._at,
            )
        )  # fmt: skip

    def _observe(self, *signs: Sign, version: str = "") -> None:
        for sign in signs:
            fields = msgspec.structs.asdict(sign)
            fields["version"] = version
            self._emit(e.Observed(**fields, chain=self._chain, at=self._at))

    def _changed(self, name: str, before: str | None, after: str | None, version: str = "") -> None:
        """Note that a setting is another than before, where it was known."""
        if before and before != after:
            self._observe(Sign(name, before=before, after=after or ""), version=version)

    def _start_turn(self, turns: TranscriptTurns, model: str | None) -> None:
        """Open the next turn of a chain; another model than that of the turn before is a change of the session."""
        turns.turn += 1
        if model is not None and model != turns.model:
            turns.model = model
            self._emit(e.SessionChanged(model=model, chain=self._chain))
        at = turns.asked_at or self._at
        self._emit(e.TurnStarted(turn=turns.turn, at=at, chain=self._chain, agent_id=self._agent))

    def _end_turn(self, turns: TranscriptTurns, usage: e.Usage | None, name: str | None = None) -> None:
        """End the latest turn of a chain; `name` is the provider's of the response."""
        self._emit(
            e.TurnCompleted(
                turn=turns.turn, at=self._at, usage=usage, response_id=name, chain=self._chain, agent_id=self._agent
            )
        )

    def _modelled(self, line: Line) -> bool:
        """Emit what a record makes; one that no handler can take is kept as it is. False where it is no object."""
        self._at_record(line)
        data, before = line.data, len(self._found)
        try:
            if not data.isascii():
                data.decode("utf-8")  # msgspec's Raw does not look inside strings
            self._take(data)
        except (ValueError, RecursionError) as error:
            if fault(data):
                del self._found[before:]
                return False
            self._malformed(error)
        return True

    def _take(self, data: bytes) -> None:
        """Emit what a record holds, a JSON object; ValueError (msgspec's errors are some) where it is malformed."""
        raise NotImplementedError

    def _last(self) -> None:
        """Emit what was held back for records that did not come."""


class TranscriptLines(Emitting[M], LineReader):
    """A reader of a log with a record a line."""

    def __init__(self) -> None:
        LineReader.__init__(self)
        self._begin()

    def _record(self, line: Line) -> list[Read] | None:
        if is_crowded(line.data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {too_many()}", line)]
        return self._taken() if line.data and self._modelled(line) else None

    def _rest(self) -> list[Read]:
        self._at_record(self._line)
        self._last()
        return self._taken()


class TranscriptDocument(Emitting[M]):
    """A reader of one JSON document whose records are the elements of an array at one of `paths`.

    What precedes the array in the document (up to 4 MiB) goes to `_head` first; what follows it is not read.
    """

    name: ClassVar[str]
    paths: ClassVar[tuple[str, ...]]
    longest: ClassVar[int] = ENTRY_BYTES  # bytes of a record

    def __init__(self) -> None:
        self._begin()

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        """Yield what a document holds."""
        self._elements = records = ElementCutter(data, self.paths, self.longest)
        if records.find_array():
            self._headed(records.begin or b"")
            yield from self._taken()
            for record in records:
                yield from self._every(record)
            if not records.is_whole:
                place = Line(records.line, records.byte, b"")
                yield problem(Code.TORN_LAST_LINE, "the document ends before its list does", place)
        elif not records.is_empty:
            yield problem(Code.UNREADABLE_LINE, "a document without its list of messages", Line(1, 0, b""))
        self._at_record(self._line)
        self._last()
        yield from self._taken()

    def _headed(self, begin: bytes) -> None:
        begun = begin.removeprefix(BOM).lstrip(SPACE)
        closed = (begun + b"]" + b"}" * depth for depth in (1, 2, 3)) if begun[:1] == b"{" else ()
        self._at_record(Line(1, 0, next(filter(is_json, closed), b"{}")))
        try:
            self._head(self._line.data)
        except (ValueError, RecursionError) as error:
            self._malformed(error)

    def _head(self, data: bytes) -> None:
        """Emit what precedes the records: a JSON object, whose list is empty; ValueError if it is malformed."""

    def _every(self, record: Line) -> list[Read]:
        large = too_many() if is_crowded(record.data) else "" if record.data else too_much(self.longest)
        if large:
            return [problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {large}", record)]
        if is_deep(record.data) or not self._modelled(record):
            return [problem(Code.UNREADABLE_LINE, f"unreadable record: {fault(record.data)}", record)]
        return self._taken()
