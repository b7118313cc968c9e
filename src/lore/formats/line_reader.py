"""What readers of JSON Lines share: their lines, their state, and what becomes of a line that is no record.

In: bytes, cut anywhere. Out: what a format makes of each record. A line without bytes was too long to be kept. One
that is no record is kept as odd where a format says how; several JSON values on one line are read one after
another; else the line is unreadable, and torn where it is the last and has no end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.lines import Line, Lines, fault, split_joined, too_long
from lore.model.codes import Code, Problem
from lore.model.exchange import Exchange


class _State(Struct, frozen=True):
    number: int
    byte: int
    pending: bytes
    skipping: bool
    own: bytes


class LineReader:
    """A reader of lines.

    A format says in `_record` what a line holds, in `_odd` what becomes of an object that is no record of its, in
    `_lose` what an unreadable line changes, in `_save` and `_load` what it remembers from record to record, and in
    `_rest` what is left at the end.
    """

    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._lines = Lines()

    @classmethod
    def restore(cls, state: bytes) -> Self:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._lines = Lines(number=saved.number, byte=saved.byte, pending=saved.pending, skipping=saved.skipping)
        made._load(saved.own)
        return made

    @property
    def state(self) -> bytes:
        lines = self._lines
        return msgspec.msgpack.encode(_State(lines.number, lines.byte, lines.pending, lines.skipping, self._save()))

    def feed(self, data: bytes) -> list[Read]:
        return self._read(self._lines.feed(data))

    def finish(self) -> list[Read]:
        return [*self._read(self._lines.finish(), torn=True), *self._rest()]

    def _read(self, lines: Iterable[Line], *, torn: bool = False) -> list[Read]:
        found: list[Read] = []
        for line in lines:
            reads = self._record(line)
            found += self._damaged(line, torn=torn) if reads is None else reads
        return found

    def _damaged(self, line: Line, *, torn: bool) -> Sequence[Read]:
        """Return what there is to read in a line that is no record."""
        if not line.data:
            self._lose()
            return (problem(Code.LINE_TOO_LONG, f"line passed over: {too_long()}", line),)
        reason = fault(line.data)
        if not reason and (odd := self._odd(line)) is not None:
            return odd
        joined = split_joined(line.data)
        if joined is None:
            self._lose()
            return (problem(Code.TORN_LAST_LINE if torn else Code.UNREADABLE_LINE, f"unreadable line: {reason}", line),)
        several = problem(Code.JOINED_LINES, f"{len(joined)} records on one line; all were read", line)
        return [several, *self._read([Line(line.number, line.byte, piece) for piece in joined])]

    def _record(self, line: Line) -> Sequence[Read] | None:
        """Return what a line holds; None where it is no record, as a line without bytes never is."""
        raise NotImplementedError

    def _odd(self, line: Line) -> Sequence[Read] | None:
        """Return what an object that is no record is read as; None where that is as good as unreadable."""
        del line

    def _lose(self) -> None:
        """Take notice that a line could not be read."""

    def _save(self) -> bytes:
        """Return what the format itself remembers from record to record."""
        return b""

    def _load(self, saved: bytes) -> None:
        """Take what `_save` returned; raises ValueError where it is nothing of the kind."""

    def _rest(self) -> Sequence[Read]:
        """Return what was held back for records that did not come."""
        return ()


def placed(value: Exchange | Problem | Read, line: Line) -> Read:
    """Give a value the place of its line, if it has none."""
    if isinstance(value, Read):
        return value
    if isinstance(value, Problem) and value.line is None:
        value = msgspec.structs.replace(value, line=line.number, byte=line.byte)
    return Read(value, line.number, line.byte)


def problem(code: str, message: str, line: Line) -> Read:
    """Return a problem at a line."""
    return Read(Problem(code, message, line=line.number, byte=line.byte), line.number, line.byte)
