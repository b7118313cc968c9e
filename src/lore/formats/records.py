"""Readers of files whose records are JSON values: one a line, or one that spans lines.

In: bytes, cut anywhere. Out: what a format makes of each value. The first line decides: a value by itself
means JSON Lines; else the file is held, up to the length that a line may have, and read as one value at its
end, or by lines after all where it is none. The elements of an array at the top are records of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats import lines
from lore.formats.base import Read
from lore.formats.lines import BOM, SPACE, Line, LineReader, Lines
from lore.model.codes import Code, Problem
from lore.model.jsonslice import array, is_json
from lore.model.turn import Exchange


class _RecordState(Struct, frozen=True):
    held: bytes | None
    whole: bool


class RecordReader(LineReader):
    """A reader of records; a format says in `_values` what one holds."""

    largest: ClassVar[int] = lines.LONGEST  # bytes of a record
    most: ClassVar[int] = lines.MOST_VALUES  # of a record

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] | None = []  # None: it is read by lines
        self._size = 0
        self._probe = Lines(times=self.times)  # the lines of what is held
        self._whole = False  # the first line was seen, and is no value by itself

    def _save(self) -> bytes:
        held = None if self._held is None else b"".join(self._held)
        return msgspec.msgpack.encode(_RecordState(held, self._whole))

    def _load(self, saved: bytes) -> None:
        state = msgspec.msgpack.decode(saved, type=_RecordState)
        self._held = None if state.held is None else [state.held]
        self._size, self._whole = len(state.held or b""), state.whole
        self._probe.feed(state.held or b"")

    def feed(self, data: bytes) -> list[Read]:
        if self._held is None:
            return super().feed(data)
        self._held.append(data)
        self._size += len(data)
        if any(self._stands_alone(line) for line in self._probe.feed(data)) or self._size > self._probe.most:
            return self._by_lines()
        return []

    def finish(self) -> list[Read]:
        if self._held is None:
            return super().finish()
        whole = b"".join(self._held)
        text = whole.removeprefix(BOM)
        if self._has_lines(text):
            return [*self._by_lines(), *super().finish()]
        self._held = None
        return [*self._read([Line(1, len(whole) - len(text), text)]), *self._rest()] if text.strip(SPACE) else []

    def _by_lines(self) -> list[Read]:
        held, self._held, self._probe = self._held or [], None, Lines()
        return self._read(self._lines.feed(b"".join(held)))

    def _stands_alone(self, line: Line) -> bool:
        """Tell whether a line that is whole shows that the file is read line by line: here the first one decides."""
        piece = line.data.strip(SPACE)
        alone = not self._whole and (not piece or is_json(piece) or lines.split_joined(piece) is not None)
        self._whole = not alone
        return alone

    def _has_lines(self, text: bytes) -> bool:
        """Tell whether a file that was held to its end is read line by line after all."""
        return self._whole and not is_json(text)

    def _record(self, line: Line) -> list[Read] | None:
        data = line.data.strip(SPACE)
        if len(data) > self.largest:
            reason = lines.too_much(self.largest)
        elif lines.is_crowded(data, self.most):
            reason = lines.too_many(self.most)
        elif data[:1] not in (b"{", b"[") or not is_json(data):
            return None
        else:
            values = array(data) if data[:1] == b"[" else [data]
            return [lines.placed(value, line) for record in values for value in self._values(record, line)]
        return [lines.problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {reason}", line)]

    def _values(self, data: bytes, line: Line) -> Sequence[Exchange | Problem | Read]:
        """Return what one JSON object holds; what is no read is placed at its line."""
        raise NotImplementedError


def first_records(head: bytes) -> list[bytes]:
    """Return the records that a file begins with, whole ones of its first lines; for recognising it."""
    text = head.removeprefix(BOM).strip(SPACE)
    if is_json(text):
        return array(text)[:8] if text[:1] == b"[" else [text]
    found: list[bytes] = []
    for line in lines.each(head):
        piece = line.strip(SPACE)
        if piece[:1] in (b"{", b"[") and is_json(piece):
            found += array(piece)[:8] if piece[:1] == b"[" else [piece]
        if len(found) >= 8:
            break
    return found
