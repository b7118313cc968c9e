"""Lines of a JSON Lines file, cut at LF, from bytes that arrive in any pieces, and what their readers share.

Rules: only LF ends a line (never U+2028, U+0085 or CR); a BOM at the very start and a CR at a line's
end are white space; offsets are those of the file. Cost is O(bytes): what is pending is joined once.
A line longer than 12 MiB is given without its bytes, as soon as it has grown so long; the rest of it is
passed over as it arrives, so memory stays bounded whatever a file holds. Of short lines that are
no objects the first ones are given, the others counted: a million of `{` cost a look in all.

A line that is no record is kept as odd where a format says how; several JSON values on one line are read one after
another; else the line is unreadable, and torn where it is the last and has no end. Of a file whose records may also be
one value that spans lines (`RecordReader`) the first line decides: a value by itself means JSON Lines; else the file is
held, up to the length that a line may have, and read as one value at its end, or by lines after all where it is none.
The elements of an array at the top are records of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.beginning import BOM, SPACE
from lore.formats.bounds import is_crowded, is_deep, too_deep, too_long, too_many, too_much
from lore.model.canonical import decode
from lore.model.codes import Code, Problem
from lore.model.jsonslice import array, has_surrogate_escape, is_json
from lore.model.limits import RECORD_BYTES, RECORD_VALUES, SHORT_LINES, SHORT_OBJECTS
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange

_BLANK = re.compile(rb"(?:[ \t\r]{0,1024}+\n)++")  # a longer line may be too long
SHORTEST = 20  # bytes: a line that is shorter and no object with a member holds nothing that a reader takes
# An object that may have a member; runs of short lines: of those, of others, of any.
_OBJECT = rb"[ \t\r]{0,19}+\{[^\n]{0,19}\"[^\n]{0,19}\}[ \t\r]{0,19}+"
_IS_OBJECT = re.compile(_OBJECT)
_RUN = rb"(?:%s[^\n]{0,19}+\n)++"
_OBJECTS = re.compile(_RUN % (rb"(?=%s\n)" % _OBJECT))
_OTHERS = re.compile(_RUN % (rb"(?!%s\n)" % _OBJECT))
_ANY = re.compile(_RUN % b"")
_WRITTEN = bytes(byte if byte == 0x0A else 0x78 for byte in range(256))  # each byte but a line feed becomes an `x`
_VALUES = json.JSONDecoder()
_VALUE = msgspec.json.Decoder(msgspec.Raw)


class Line(Struct, frozen=True, gc=False):
    """One line without its end: its number from 1, the offset of its first byte, its bytes.

    A line that was too long to be kept has no bytes; blank lines are never given, so no other is empty.
    """

    number: int
    byte: int
    data: bytes


class ShortLines(Struct):
    """How many lines of a file were too short for a record and given; how many were not, and the first of those."""

    most: int
    given: int = 0
    passed: int = 0
    number: int = 0
    byte: int = 0
    objects: int = 0  # that were given

    def run(self) -> re.Pattern[bytes] | None:
        """Return what finds the lines that are not given any more; None while all are."""
        if self.given < self.most:
            return None if self.objects < SHORT_OBJECTS else _OBJECTS
        return _OTHERS if self.objects < SHORT_OBJECTS else _ANY

    def takes(self, piece: bytes) -> bool:
        """Tell whether a line is given; a short one is counted."""
        if len(piece) >= SHORTEST:
            return True
        if _IS_OBJECT.fullmatch(piece) is not None:
            taken = self.objects < SHORT_OBJECTS
            self.objects += taken
        else:
            taken = self.given < self.most
            self.given += taken
        return taken

    def pass_over(self, lines: int, number: int, byte: int) -> None:
        """Count lines that are not given, of which the first stands here."""
        if lines and not self.passed:
            self.number, self.byte = number, byte
        self.passed += lines


class Lines:
    """Cut bytes into lines.

    A line may have `times` as many bytes as usual. `short` counts the short lines among lines of records; None: any
    line may be of any length.
    """

    limit: ClassVar[int] = RECORD_BYTES

    def __init__(self, *, times: int = 1, short: ShortLines | None = None) -> None:
        self.most = self.limit * times
        self.short = short
        self._shortest = 0 if short is None else SHORTEST
        self.number = 0  # of lines that begin before `byte`
        self.byte = 0
        self.skipping = False  # whether the next bytes still belong to a line that was too long
        self._pending: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> bytes:
        """The beginning of a line whose end has not come."""
        if len(self._pending) > 1:
            self._pending = [b"".join(self._pending)]
        return self._pending[0] if self._pending else b""

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that these bytes complete; blank ones are counted and left out."""
        if self.skipping:
            end = data.find(b"\n") + 1
            self.skipping = not end
            self.byte += end or len(data)
            data = data[end:] if end else b""
        found: list[Line] = []
        at = 0
        end = data.find(b"\n")
        if end >= 0 and self._pending:
            self._add(b"".join([*self._pending, data[:end]]), found)
            self._pending, self._size, at = [], 0, end + 1
            end = data.find(b"\n", at)
        while end >= 0:  # not `split`, which looks at each byte: this is five times as fast
            if data[at] == 0x7B and self._shortest <= end - at <= self.most:  # nearly all begin with a brace
                self.number = number = self.number + 1
                found.append(Line(number, self.byte, data[at:end]))
                self.byte += end + 1 - at
            elif (several := self._passed(data, at, end)) > 0:
                end = at + several - 1
            else:
                self._add(data[at:end], found)
            at = end + 1
            end = data.find(b"\n", at)
        if at < len(data):
            self._pending.append(data[at:] if at else data)
            self._size += len(data) - at
        if self._size > self.most:  # what comes of it is passed over
            self.number += 1
            found.append(Line(self.number, self.byte, b""))
            self.byte += self._size
            self._pending, self._size, self.skipping = [], 0, True
        return found

    def finish(self) -> list[Line]:
        """Return the last line where it has no end."""
        rest = self.pending
        self._pending, self._size, self.skipping = [], 0, False
        line = self._line(rest, 0) if rest else None
        return [] if line is None else [line]

    def _passed(self, data: bytes, at: int, end: int) -> int:
        """Return how many bytes hold lines from here on that nobody is given, and count them."""
        match = _BLANK.match(data, at) if data[at] in SPACE else None
        if match is None and self.short is not None and end - at < SHORTEST and (run := self.short.run()) is not None:
            match = run.match(data, at)
        if match is None:
            return 0
        run = match.group()
        if self.short is not None:
            self.short.pass_over(run.translate(_WRITTEN, b" \t\r").count(b"x\n"), self.number + 1, self.byte)
        self.number += run.count(b"\n")
        self.byte += len(run)
        return len(run)

    def _add(self, piece: bytes, found: list[Line]) -> None:
        """Add the line that this is, if it is none of the blank ones."""
        if (line := self._line(piece, 1)) is not None:
            found.append(line)

    def _line(self, piece: bytes, end: int) -> Line | None:
        start = self.byte
        self.number += 1
        self.byte += len(piece) + end
        if len(piece) > self.most:
            return Line(self.number, start, b"")
        if start == 0 and piece.startswith(BOM):
            piece, start = piece[3:], 3
        if not piece.strip(SPACE):
            return None
        if self.short is not None and not self.short.takes(piece):
            self.short.pass_over(1, self.number, start)
            return None
        return Line(self.number, start, piece)


def each(head: bytes) -> Iterator[bytes]:
    """Yield the lines of a file's beginning that are not blank, as far as they are asked for."""
    at = len(BOM) if head.startswith(BOM) else 0
    while at < len(head):
        end = head.find(b"\n", at)
        end = len(head) if end < 0 else end
        piece = head[at:end]
        if piece.strip(SPACE):
            yield piece
        at = end + 1


def split_joined(line: bytes) -> list[bytes] | None:
    """Cut a line that holds several JSON values side by side; None where it is anything else."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    found, at = list[bytes](), 0
    text = text.strip(" \t\r\n")
    while at < len(text):
        try:
            _, end = _VALUES.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append(text[at:end].encode("utf-8"))
        at = end
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
    return found if len(found) > 1 else None


def _holds_more(line: bytes) -> bool:
    """Tell whether something stands behind the first value of a line, as far as a parser can tell at once."""
    try:
        _VALUE.decode(line)
    except msgspec.DecodeError as error:
        return "trailing" in str(error) or has_surrogate_escape(line) or b"NaN" in line or b"Infinity" in line
    except RecursionError:
        return True
    return False


def fault(line: bytes) -> str:
    """Say in a few words why a line is no JSON object; empty where it is one."""
    if not line:
        return too_long()
    if is_deep(line):
        return too_deep()
    try:
        line.decode("utf-8")
        value = decode(line)
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"
    except RecursionError:  # of one value
        return too_deep()
    except ValueError as error:
        return str(error).partition(": line")[0]
    return "" if isinstance(value, dict) else "not a JSON object"


class TextReader:
    """A reader of lines of any text.

    A format says in `_read` what lines hold, and in `_rest` what is left at the end.
    """

    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    times: ClassVar[int] = 1  # how much longer than usual a line may be
    records: ClassVar[bool] = False  # whether lines are records of JSON, of which none is very short

    def __init__(self) -> None:
        self._lines = Lines(times=self.times, short=ShortLines(SHORT_LINES) if self.records else None)

    def feed(self, data: bytes) -> list[Read]:
        return self._read(self._lines.feed(data))

    def finish(self) -> list[Read]:
        return [*self._read(self._lines.finish(), torn=True), *self._unread(), *self._rest()]

    def _unread(self) -> Sequence[Read]:
        """Say how many lines were passed over for being short."""
        short = self._lines.short
        if short is None or not short.passed:
            return ()
        text = f"lines shorter than {SHORTEST} bytes passed over: there are too many"
        place = Problem(Code.UNREADABLE_LINE, text, line=short.number, byte=short.byte)
        return (Read(place, short.number, short.byte, times=short.passed),)

    def _read(self, lines: Iterable[Line], *, torn: bool = False) -> list[Read]:
        """Return what lines hold; `torn` says that they end where the file does, without a line feed."""
        raise NotImplementedError

    def _rest(self) -> Sequence[Read]:
        """Return what was held back for records that did not come."""
        return ()


class LineReader(TextReader):
    """A reader of lines of JSON.

    A format says in `_record` what a line holds, in `_odd` what becomes of an object that is no record of its, and in
    `_lose` what an unreadable line changes.
    """

    records: ClassVar[bool] = True

    def _read(self, lines: Iterable[Line], *, torn: bool = False) -> list[Read]:
        found: list[Read] = []
        for line in lines:
            reads = None if is_deep(line.data) else self._record(line)
            found += self._damaged(line, torn=torn) if reads is None else reads
        return found

    def _damaged(self, line: Line, *, torn: bool) -> Sequence[Read]:
        """Return what there is to read in a line that is no record."""
        if not line.data:
            self._lose()
            return (problem(Code.LINE_TOO_LONG, f"line passed over: {too_much(self._lines.most)}", line),)
        reason = fault(line.data)
        if not reason and (odd := self._odd(line)) is not None:
            return odd
        joined = split_joined(line.data) if _holds_more(line.data) else None
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


def placed(value: Exchange | Measurement | Problem | Read, line: Line) -> Read:
    """Give a value the place of its line, if it has none."""
    if isinstance(value, Read):
        return value
    if isinstance(value, Problem) and value.line is None:
        value = msgspec.structs.replace(value, line=line.number, byte=line.byte)
    return Read(value, line.number, line.byte)


def problem(code: str, message: str, line: Line) -> Read:
    """Return a problem at a line."""
    return Read(Problem(code, message, line=line.number, byte=line.byte), line.number, line.byte)


class RecordReader(LineReader):
    """A reader of records; a format says in `_values` what one holds."""

    largest: ClassVar[int] = RECORD_BYTES  # bytes of a record
    most: ClassVar[int] = RECORD_VALUES  # of a record

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] | None = []  # None: it is read by lines
        self._size = 0
        self._probe = Lines(times=self.times, short=ShortLines(SHORT_LINES))  # the lines of what is held
        self._whole = False  # the first line was seen, and is no value by itself

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
        alone = not self._whole and (not piece or is_json(piece) or split_joined(piece) is not None)
        self._whole = not alone
        return alone

    def _has_lines(self, text: bytes) -> bool:
        """Tell whether a file that was held to its end is read line by line after all."""
        return self._whole and not is_json(text)

    def _record(self, line: Line) -> list[Read] | None:
        data = line.data.strip(SPACE)
        if len(data) > self.largest:
            reason = too_much(self.largest)
        elif is_crowded(data, self.most):
            reason = too_many(self.most)
        elif data[:1] not in (b"{", b"[") or not is_json(data):
            return None
        else:
            values = array(data) if data[:1] == b"[" else [data]
            return [placed(value, line) for record in values for value in self._values(record, line)]
        return [problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {reason}", line)]

    def _values(self, data: bytes, line: Line) -> Sequence[Exchange | Problem | Read]:
        """Return what one JSON object holds; what is no read is placed at its line."""
        raise NotImplementedError


def first_records(head: bytes) -> list[bytes]:
    """Return the records that a file begins with, whole ones of its first lines; for recognising it."""
    text = head.removeprefix(BOM).strip(SPACE)
    if is_json(text):
        return array(text)[:8] if text[:1] == b"[" else [text]
    found: list[bytes] = []
    for line in each(head):
        piece = line.strip(SPACE)
        if len(piece) >= SHORTEST and piece[:1] in (b"{", b"[") and is_json(piece):
            found += array(piece)[:8] if piece[:1] == b"[" else [piece]
        if len(found) >= 8:
            break
    return found
