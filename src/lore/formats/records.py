"""Readers of files whose records are JSON values: one a line, or one that spans lines.

In: bytes, cut anywhere. Out: what a format makes of each value. The first line decides: a value by itself
means JSON Lines; else the file is held, up to the length that a line may have, and read as one value at its
end, or by lines after all where it is none. The elements of an array at the top are records of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain as chained
from typing import ClassVar, Self

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.lines import (
    BOM,
    LONGEST,
    Line,
    Lines,
    each,
    fault,
    is_crowded,
    split_joined,
    too_long,
    too_many,
    too_much,
)
from lore.model.codes import Code
from lore.model.exchange import Exchange
from lore.model.jsonslice import array, is_json
from lore.model.problems import Problem

_SPACE = b" \t\r\n"


class _State(Struct, frozen=True):
    number: int
    byte: int
    pending: bytes
    skipping: bool
    held: bytes | None
    whole: bool
    own: bytes


class RecordReader:
    """A reader of records; a format says in `_record` what one holds, and in `_rest` what is left at the end."""

    name: ClassVar[str]
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    largest: ClassVar[int] = LONGEST  # bytes of a record

    def __init__(self) -> None:
        self._lines = Lines()
        self._held: list[bytes] | None = []  # None: it is read by lines
        self._size = 0
        self._whole = False  # the first line was seen, and is no value by itself

    @classmethod
    def restore(cls, state: bytes) -> Self:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._lines = Lines(number=saved.number, byte=saved.byte, pending=saved.pending, skipping=saved.skipping)
        made._held = None if saved.held is None else [saved.held]
        made._size, made._whole = len(saved.held or b""), saved.whole
        made._own = saved.own
        return made

    @property
    def state(self) -> bytes:
        lines, held = self._lines, None if self._held is None else b"".join(self._held)
        return msgspec.msgpack.encode(
            _State(lines.number, lines.byte, lines.pending, lines.skipping, held, self._whole, self._own)
        )

    @property
    def _own(self) -> bytes:
        """What the format itself remembers from record to record."""
        return b""

    @_own.setter
    def _own(self, saved: bytes) -> None:
        del saved

    def feed(self, data: bytes) -> Iterable[Read]:
        if self._held is None:
            return self._read_all(self._lines.feed(data))
        self._held.append(data)
        self._size += len(data)
        if not self._whole and b"\n" in data:
            begun = b"".join(self._held)
            first = next(each(begun), None)
            if first is not None and b"\n" in begun.partition(first)[2]:
                self._whole = not _stands_alone(first)
                if not self._whole:
                    return self._by_lines()
        return self._by_lines() if self._size > Lines.limit else ()

    def finish(self) -> Iterable[Read]:
        if self._held is None:
            return chained(self._read_all(self._lines.finish(), torn=True), self._rest())
        whole = b"".join(self._held)
        start = len(whole) - len(whole.removeprefix(BOM))
        if self._whole and not is_json(whole[start:]):
            found = self._by_lines()
            return chained(found, self._read_all(self._lines.finish(), torn=True), self._rest())
        self._held = None
        text = whole[start:]
        return chained(self._read(Line(1, start, text), torn=False), self._rest()) if text.strip(_SPACE) else ()

    def _by_lines(self) -> Iterable[Read]:
        held, self._held = self._held or [], None
        return self._read_all(self._lines.feed(b"".join(held)))

    def _read_all(self, lines: Iterable[Line], *, torn: bool = False) -> Iterable[Read]:
        return chained.from_iterable([self._read(line, torn=torn) for line in lines])

    def _read(self, line: Line, *, torn: bool) -> Iterable[Read]:
        if not line.data:
            return [problem(Code.LINE_TOO_LONG, f"line passed over: {too_long()}", line)]
        data = line.data.strip(_SPACE)
        if len(data) > self.largest:
            return [problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {too_much(self.largest)}", line)]
        if is_crowded(data):
            return [problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {too_many()}", line)]
        if data[:1] in (b"{", b"[") and is_json(data):
            records = array(data) if data[:1] == b"[" else [data]
            found = chained.from_iterable([self._record(one, line) for one in records])
            return (placed(one, line) for one in found)
        joined = split_joined(data)
        if joined is None:
            return [
                problem(Code.TORN_LAST_LINE if torn else Code.UNREADABLE_LINE, f"unreadable line: {fault(data)}", line)
            ]
        said = problem(Code.JOINED_LINES, f"{len(joined)} records on one line; all were read", line)
        pieces = [Line(line.number, line.byte, piece) for piece in joined]
        return chained([said], self._read_all(pieces))

    def _record(self, data: bytes, line: Line) -> Iterable[Exchange | Problem | Read]:
        """Return what one JSON object holds; what is no read is placed at its line.

        Where it is made as it is asked for, it must leave the reader as it is.
        """
        raise NotImplementedError

    def _rest(self) -> list[Read]:
        """Return what was held back for records that did not come."""
        return []


def first_records(head: bytes) -> list[bytes]:
    """Return the records that a file begins with, whole ones of its first lines; for recognising it."""
    text = head.removeprefix(BOM).strip(_SPACE)
    if is_json(text):
        return array(text)[:8] if text[:1] == b"[" else [text]
    found: list[bytes] = []
    for line in each(head):
        piece = line.strip(_SPACE)
        if piece[:1] in (b"{", b"[") and is_json(piece):
            found += array(piece)[:8] if piece[:1] == b"[" else [piece]
        if len(found) >= 8:
            break
    return found


def placed(value: Exchange | Problem | Read, line: Line) -> Read:
    """Give a value the place of its line, if it has none."""
    if isinstance(value, Read):
        return value
    if isinstance(value, Problem) and value.line is None:
        value = msgspec.structs.replace(value, line=line.number, byte=line.byte)
    return Read(value, line.number, line.byte)


def problem(code: str, message: str, line: Line) -> Read:
    """Return a problem at a line."""
    return placed(Problem(code, message), line)


def _stands_alone(line: bytes) -> bool:
    piece = line.strip(_SPACE)
    return len(piece) > Lines.limit or is_json(piece) or split_joined(piece) is not None
