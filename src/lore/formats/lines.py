"""Records of JSON Lines files, and the base classes of readers of lines.

A record is usually one line. A file whose first line is not a whole JSON value may hold records that are printed over
several lines, one after another; they are read as records too. Only LF ends a line (never U+2028, U+0085 or CR). A
line longer than 12 MiB is passed over without being held.

A line that is not a record is searched for records, in this order: several values side by side, a whole record next
to the stub of a torn one (or to NUL bytes, which a crash leaves), and a record that raw line feeds inside a string cut
into several lines. Each of these is read, with a problem; any other line is reported as unreadable.

A `Read` is a value with its place. `read_line` calls `_record` for each line, and the rescue only if that returns None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from itertools import chain as chained
from typing import ClassVar

import msgspec

from lore.formats.base import Clock, Read, Yields
from lore.formats.beginning import BOM, SPACE, peek
from lore.formats.documents import ElementCutter, Line, end_of_value
from lore.model.canonical import decode
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern
from lore.model.jsonslice import array, is_deep, is_json, raw_members
from lore.model.lenient import DECODERS
from lore.model.limits import BEGINNING_BYTES, RECORD_BYTES, RECORD_LEVELS, RECORD_VALUES
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange

FEW_BYTES = 1024 * 1024  # a shorter record cannot hold too many values
TOO_DEEP = f"nested more than {RECORD_LEVELS:,} levels deep"  # why a record is refused
_TOKENS = pattern(rb'"(?:[^"\\]++|\\.)*+"?|,++', re.DOTALL)
_VALUES = json.JSONDecoder()  # finds the end of a value with lone surrogates
_BLANK_LINES = pattern(rb"(?:[ \t\r]{0,1024}+\n)++")
_OPENING = pattern(rb'\{[ \t\r\n]*+"')
_LIST = pattern(rb"\[[ \t\r\n]*+\{")
_CONTROLS = pattern(rb"\r\n|[\x01-\x1f]")
_ESCAPES = {b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t"}
_RECORD_OR_END = pattern(rb"[ \t\r\n\0]*+(?:\{|\Z)")
_PADDING = SPACE + b"\0"
_RAW = DECODERS[msgspec.Raw]
_MALFORMED = pattern(r"\(byte (\d+)\)$")  # the end of msgspec's messages
_NEAR = 3  # bytes after a record's brace: a stub that ends in a string is JSON up to the record's first quote
_FEW_KEYS = 2  # an object inside a torn record may have up to this number of keys, all of them a record's
_STUBS = 32  # objects without an end after which the search in a damaged line is given up
_PRINTED = pattern(rb'\{[ \t\r]?\n[ \t\r\n]*"')  # a record that is printed over several lines
_BLANKS = 1024  # bytes at the end of a piece in which a brace that ends it is looked for
_HELD = 2 * 1024 * 1024  # a piece that ends with a brace is extended up to this length
_BROKEN_BYTES = 1024 * 1024  # of a record that raw line feeds cut into lines
_BROKEN_ENDS = 100  # lines that may end such a record
_QUOTE = pattern(rb'(?<!\\)(?:\\\\)*+"')  # not escaped: the other lines of a text have none
_FIRST = 64  # records by which a file is recognised
_DAMAGED = 1_000  # problems after which the search for them ends
_PIECE = 16 * 1024  # bytes that are read at a time in this search


def is_crowded(data: bytes, most: int = RECORD_VALUES) -> bool:
    """Return whether a record holds more values than lore reads: 16 MiB of `{},{},` would take gigabytes."""
    if len(data) < FEW_BYTES or data.count(b",") <= most:
        return False
    commas = (match.end() - match.start() for match in _TOKENS.finditer(data) if data[match.start()] == 0x2C)
    return any(total > most for total in accumulate(commas))


def too_many(most: int = RECORD_VALUES) -> str:
    """Return the reason, for a message, why a record with more than `most` values is refused."""
    return f"it holds more than {most:,} values"


def _escape_controls(token: re.Match[bytes]) -> bytes:
    """Return a text with its control characters escaped, a line end of Windows as a line feed; other tokens as is."""
    return _CONTROLS.sub(lambda match: _ESCAPES.get(match[0][-1:], b"\\u%04x" % match[0][-1]), token[0])


def too_much(limit: int = RECORD_BYTES) -> str:
    """Return the reason, for a message, why something longer than `limit` bytes is refused."""
    return f"longer than {limit // 1024 // 1024} MiB"


class LineCutter:
    """Cut bytes that arrive in pieces into lines; blank ones are left out, lines that are too long have no bytes."""

    limit: ClassVar[int] = RECORD_BYTES

    def __init__(self, *, times: int = 1) -> None:
        """Make a cutter for lines of at most `times` the usual length."""
        self.longest = self.limit * times
        self.number = 0  # lines that begin before `byte`
        self.byte: int = 0  # offset of the first line that was not returned
        self._is_skipping = False  # the next bytes belong to a line that was too long
        self._pending: list[bytes] = []  # pieces of a line whose end has not come
        self._size = 0  # bytes of these

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that these bytes complete."""
        if self._is_skipping:
            end = data.find(b"\n") + 1
            self._is_skipping = not end
            self.byte += end or len(data)
            data = data[end:] if end else b""
        cut: list[Line] = []
        at = 0
        end = data.find(b"\n")
        if end >= 0 and self._pending:
            self._append_line(b"".join([*self._pending, data[:end]]), cut)
            self._pending, self._size, at = [], 0, end + 1
            end = data.find(b"\n", at)
        number, begin, longest = self.number, self.byte - at, self.longest
        while end >= 0:  # not `split`, which looks at each byte: this is five times as fast
            if data[at] == 0x7B and end - at <= longest:  # most lines begin with a brace
                number += 1
                cut.append(Line(number, begin + at, data[at:end]))
            elif data[at] in SPACE and (blank := _BLANK_LINES.match(data, at)) is not None:
                number += blank.group().count(b"\n")
                end = blank.end() - 1
            else:
                self.number, self.byte = number, begin + at
                self._append_line(data[at:end], cut)
                number += 1
            at = end + 1
            end = data.find(b"\n", at)
        self.number, self.byte = number, begin + at
        if at < len(data):
            self._pending.append(data[at:] if at else data)
            self._size += len(data) - at
        if self._size > self.longest:
            self.number += 1
            cut.append(Line(self.number, self.byte, b""))
            self.byte += self._size
            self._pending, self._size, self._is_skipping = [], 0, True
        return cut

    def finish(self) -> list[Line]:
        """Return the last line as torn if no line feed ends it, else nothing."""
        cut: list[Line] = []
        if last_line := b"".join(self._pending):
            self._append_line(last_line, cut, is_torn=True)
        self._pending, self._size, self._is_skipping = [], 0, False
        return cut

    def _append_line(self, data: bytes, cut: list[Line], *, is_torn: bool = False) -> None:
        """Append the next line to `cut`, unless it is blank; advance `number` and `byte`."""
        start = self.byte
        self.number += 1
        self.byte += len(data) + (not is_torn)
        if len(data) > self.longest:
            cut.append(Line(self.number, start, b""))
            return
        if start == 0 and data.startswith(BOM):
            data, start = data[len(BOM) :], len(BOM)
        if data.strip(SPACE):
            cut.append(Line(self.number, start, data, is_torn))


def read_lines(data: Iterable[bytes], *, times: int = 1) -> Iterator[Line]:
    """Yield the lines of a file that are not blank; `data` are its bytes in pieces of any size."""
    cutter = LineCutter(times=times)
    for piece in data:
        yield from cutter.feed(piece)
    yield from cutter.finish()


def read_records(data: Iterable[bytes], *, times: int = 1) -> Iterator[list[Line]]:
    """Yield the records of a file in lists: its lines, or the values that are printed over several lines.

    Printed values may follow lines: from a lone brace before a line with a member's name. Each list has the lines of
    one piece of the file: yielding them one by one cost a quarter of the reading time.
    """
    pieces, begin, first, end = filter(None, data), b"", b"", 0
    cutter, longest, start = LineCutter(times=times), LineCutter.limit * times, 0
    while not first and len(begin) <= longest and (piece := next(pieces, b"")):
        begin += piece
        text = begin.removeprefix(BOM).lstrip(SPACE)
        first = text[: text.find(b"\n") + 1]
        end = len(begin) - len(text) + len(first)
    text = first.strip(SPACE)
    is_part = text[:1] in (b"{", b"[") and (len(text) == 1 or text[-1:] not in (b"}", b"]"))  # of a longer value
    if is_part and end <= longest:
        yield from _read_values(ElementCutter(chained((begin,), pieces), (), longest))
        return
    for piece in chained((begin,), pieces):
        while piece[-_BLANKS:].rstrip(SPACE)[-1:] == b"{" and len(piece) < _HELD and (more := next(pieces, b"")):
            piece += more  # noqa: PLW2901 - what follows the brace shows whether a record begins there
        lines = cutter.feed(piece)
        braces = (number for number, line in enumerate(lines) if len(line.data) < 3 and line.byte >= start)
        printed = next((number for number in braces if _PRINTED.match(piece, lines[number].byte - start)), None)
        yield lines[:printed]
        if printed is not None:
            first_line = lines[printed]
            values = ElementCutter(chained((piece[first_line.byte - start :],), pieces), (), longest)
            values.line, values.byte = first_line.number, first_line.byte
            yield from _read_values(values)
            return
        start += len(piece)
    yield cutter.finish()


def _read_values(values: ElementCutter) -> Iterator[list[Line]]:
    """Yield each value in a list of its own, at last one that the file's end cuts."""
    yield from ([value] for value in values)
    if torn := values.remaining.strip(SPACE):
        yield [Line(values.line, values.byte, torn, is_torn=True)]


def nonblank_lines(head: bytes) -> Iterator[bytes]:
    """Yield the lines of a file's beginning that are not blank."""
    at = len(BOM) if head.startswith(BOM) else 0
    while at < len(head):
        blank = _BLANK_LINES.match(head, at)
        at = at if blank is None else blank.end()
        end = head.find(b"\n", at)
        end = len(head) if end < 0 else end
        piece = head[at:end]
        if piece.strip(SPACE):
            yield piece
        at = end + 1


def split_joined(line: bytes) -> list[bytes] | None:
    """Return two or more JSON values side by side in a line, lists of objects as elements; None for another line."""
    values, at = list[bytes](), 0
    try:
        text = line.decode("utf-8").strip(" \t\r\n")
        while at < len(text):
            _, end = _VALUES.raw_decode(text, at)
            value = text[at:end].encode("utf-8")
            values += array(value) if _LIST.match(value) else [value]
            at = end + len(text[end:]) - len(text[end:].lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return None
    return values if len(values) > 1 else None


def find_whole_records(line: bytes, keys: Iterable[str]) -> list[bytes]:
    """Return the whole records in a damaged line: before or after the stub of a torn one, or between NUL bytes.

    An object is accepted if it begins where the stub stops being JSON, if it has at least half of `keys` (those of a
    record before it) or only such keys, or if only NUL bytes are between it and the start of the line or an accepted
    one. The end of the line or another object must follow it, so that an object inside the torn record is not accepted.
    """
    known_keys, view, cut = set(keys), memoryview(line), -_NEAR
    records, begin, failed, last_end = list[bytes](), _OPENING.search(line), 0, 0
    while begin is not None and failed < _STUBS:
        at = begin.start()
        end = end_of_value(view, at)
        if end is None or end < 0:
            cut = at + _malformed_at(view[at:]) if end is None else cut
            failed, begin = failed + 1, _OPENING.search(line, at + 1)
            continue
        members = raw_members(line[at:end]) if _RECORD_OR_END.match(line, end) else None
        if members is not None:
            alike = len(known_keys & members.keys())
            is_alike = 2 * alike >= max(2, len(known_keys)) or alike == len(members) > _FEW_KEYS
            if is_alike or abs(cut - at) < _NEAR or not line[last_end:at].strip(_PADDING + b"{"):
                records.append(line[at:end])
                last_end = end
        begin = _OPENING.search(line, end)
    return records


def _malformed_at(data: memoryview) -> int:
    """Return the offset at which a value stops being JSON, by msgspec's message; 0 if it names none."""
    try:
        _RAW.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        match = _MALFORMED.search(str(error))
        return int(match[1]) if match else 0
    return 0


def fault(line: bytes) -> str:
    """Return why a line is not a JSON object, in a few words; empty if it is one. An empty line was too long."""
    if not line:
        return too_much()
    if is_deep(line):
        return TOO_DEEP
    try:
        line.decode("utf-8")
        value = decode(line)
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"
    except RecursionError:  # of one value
        return TOO_DEEP
    except ValueError as error:
        return str(error).partition(": line")[0]
    return "" if isinstance(value, dict) else "not a JSON object"


def placed(value: Exchange | Measurement | Problem | Read, line: Line) -> Read:
    """Return a value as a `Read` at the line; a `Read` is returned as it is, a problem with a line keeps that."""
    if isinstance(value, Read):
        return value
    if isinstance(value, Problem) and value.line is None:
        value = msgspec.structs.replace(value, line=line.number, byte=line.byte)
    return Read(value, line.number, line.byte)


def problem(code: str, message: str, line: Line) -> Read:
    """Return a problem at a line."""
    return Read(Problem(code, message, line=line.number, byte=line.byte), line.number, line.byte)


class TextReader:
    """A reader of lines of any text. A format implements `read_line`, and `_flush` if it holds reads back."""

    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    line_limit_factor: ClassVar[int] = 1  # a line may have this many times `RECORD_BYTES`

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        for line in read_lines(data, times=self.line_limit_factor):
            yield from self.read_line(line)
        yield from self.end()

    def read_line(self, line: Line) -> Sequence[Read]:
        """Return the reads of the next line; before them, reads of earlier lines that waited for it."""
        raise NotImplementedError

    def end(self) -> Sequence[Read]:
        """Return the reads that waited for further lines: `read` calls it after the last line."""
        return self._flush()

    def _flush(self) -> Sequence[Read]:
        return ()


class LineReader(TextReader):
    """A reader of JSON records: one on each line, or the elements of an array.

    A format implements `_record`; also `_read_other`, if it reads objects for which `_record` returns None.
    """

    reads_arrays: ClassVar[bool] = True  # a file that does not begin with `[` has a record on each line
    paths: ClassVar[tuple[str, ...]] = ("",)  # where the array may be in a document; "": it is the document
    max_values: ClassVar[int] = RECORD_VALUES  # JSON values that a record may hold
    longest: ClassVar[int] = RECORD_BYTES  # bytes that an element of an array may have

    def __init__(self) -> None:
        self.array = ""  # set by the registry: path of the array in this document, in place of `paths`
        self.start = 0  # offset of the document, if it is part of another one
        self.is_whole = False  # the end of an array was read
        self._latest = b""  # the latest whole record, until `_keys` is made of it
        self._keys: Iterable[str] = ()  # of a whole record before the damaged line
        self._broken: list[Line] = []  # damaged lines that may be the parts of one record
        self._ends = 0  # of them, those that could have ended it

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        start, data = peek(data) if self.reads_arrays else (b"", data)
        if self.reads_arrays and start != b"[" and not self.array:
            read_line = self.read_line
            for lines in read_records(data, times=self.line_limit_factor):
                reads: list[Read] = []
                for line in lines:
                    reads += read_line(line)
                yield from reads
            yield from self.end()
            return
        records = ElementCutter(data, (self.array,) if self.array else self.paths, self.longest, start=self.start)
        if records.find_array():
            yield from self._read_array(records)
            yield from self._read_following(records)
        else:
            yield from self._report_missing_array(records)
            yield from self.end()

    def _read_following(self, records: ElementCutter) -> Iterator[Read]:
        """Yield the reads of the documents that follow the first one in the file."""
        while records.find_next():
            yield from self._read_array(records)

    def _report_missing_array(self, records: ElementCutter) -> Iterator[Read]:
        if not records.is_empty:
            where = " or ".join(path[1:] or "a list" for path in self.paths)
            within = f" within {BEGINNING_BYTES >> 20} MiB" if records.is_cut else ""
            yield problem(Code.UNREADABLE_LINE, f"a document without {where}{within}", Line(1, 0, b""))

    def _read_array(self, records: ElementCutter) -> Iterator[Read]:
        for record in records:
            yield from self.read_line(record)
        self.is_whole = records.is_whole
        yield from self.end()
        if not records.is_whole:
            yield problem(Code.TORN_LAST_LINE, "the document ends before its list does", records.place)

    def read_line(self, line: Line) -> Sequence[Read]:
        is_text = bool(self._broken) and b'"' not in line.data  # `{}` in the text of a broken record is none
        reads = None if is_text else self._read_whole(line)
        if reads is None:
            return self._join_broken(line) if self._broken else self._read_damaged(line)
        self._latest = line.data
        return [*self._give_up_broken(), *reads] if self._broken else reads

    def end(self) -> Sequence[Read]:
        return [*self._give_up_broken(), *self._flush()]

    def _read_damaged(self, line: Line) -> Sequence[Read]:
        """Return the reads of the records in a line that is not one itself; none if the line is held in `_broken`."""
        if not line.data:
            return self._unreadable(line)
        reason = fault(line.data)
        if not reason and (other := self._read_other(line)) is not None:
            return other
        has_controls = _CONTROLS.search(line.data) is not None  # in a text, or between the parts of a printed value
        if has_controls and (reads := self._read_cut(line, line.data, line.data.count(b"\n") + 1)) is not None:
            return reads
        if (records := split_joined(line.data)) is not None:
            several = problem(Code.JOINED_LINES, f"{len(records)} records on one line; all were read", line)
            return [several, *self._read_parts(line, records)]
        if whole := self._find_whole(line):
            lost = len(line.data) - sum(map(len, whole))
            text = f"{lost:,} bytes beside a whole record are not a record: {reason}"
            damage = problem(Code.UNREADABLE_LINE, text, line)
            return [damage, *self._read_parts(line, whole)]
        if line.data[:2] == b'{"' and not line.is_torn:
            self._broken = [line]
            return ()
        return self._unreadable(line, reason)

    def _find_whole(self, line: Line) -> list[bytes]:
        """Return the whole records in a damaged line, judged by the keys of the latest whole record."""
        if self._latest:
            self._keys, self._latest = raw_members(self._latest) or (), b""
        return find_whole_records(line.data, self._keys)

    def _read_parts(self, line: Line, parts: list[bytes]) -> Iterator[Read]:
        """Yield the reads of these parts of a line, each at its own byte."""
        end = 0
        for data in parts:
            at = line.data.index(data, end)
            part, end = Line(line.number, line.byte + at, data, line.is_torn), at + len(data)
            reads = self._read_whole(part)
            if reads is None and not fault(data):
                reads = self._read_other(part)
            yield from self._unreadable(part) if reads is None else reads

    def _read_whole(self, line: Line) -> Sequence[Read] | None:
        """Return the reads of a line that is one record, or the problem that it has too many values; else None."""
        if is_crowded(line.data, self.max_values):
            return (problem(Code.CAPTURE_TOO_LARGE, f"a record is passed over: {too_many(self.max_values)}", line),)
        return None if is_deep(line.data) else self._record(line)

    def _join_broken(self, line: Line) -> Sequence[Read]:
        """Return the reads of the broken record that a line ends; add a line that may continue it to `_broken`.

        Before the reads of any other line, the lines in `_broken` are reported as unreadable.
        """
        first = self._broken[0]
        if not line.data or line.byte + len(line.data) - first.byte > _BROKEN_BYTES or self._ends > _BROKEN_ENDS:
            return [*self._give_up_broken(), *self._read_damaged(line)]
        if line.data.rstrip(SPACE).endswith(b"}") and _QUOTE.search(line.data) is not None:
            self._ends += 1
            lines = [*self._broken, line]
            later_lines = (b"\n" * (after.number - before.number) + after.data for before, after in pairwise(lines))
            whole = first.data + b"".join(later_lines)  # also with the feeds of blank lines
            if (reads := self._read_cut(first, whole, len(lines))) is not None:
                self._broken, self._ends = [], 0
                return reads
        if _OPENING.match(line.data) is None and not line.is_torn and not self._find_whole(line):
            self._broken.append(line)
            return ()
        return [*self._give_up_broken(), *self._read_damaged(line)]

    def _read_cut(self, first: Line, whole: bytes, lines: int) -> Sequence[Read] | None:
        """Return the reads of a record after the control characters in its texts are escaped; None if it is none."""
        whole = _TOKENS.sub(_escape_controls, whole)
        reads = self._record(Line(first.number, first.byte, whole)) if is_json(whole) else None
        if reads is None:
            return None
        self._latest = whole
        damage = f"cut into {lines} lines by line feeds" if lines > 1 else "with control characters"
        text = f"a record {damage} inside a text; it was read whole"
        return [problem(Code.JOINED_LINES, text, first), *reads]

    def _give_up_broken(self) -> list[Read]:
        """Empty `_broken`; return the problems of its lines."""
        lines, self._broken, self._ends = self._broken, [], 0
        return [read for line in lines for read in self._unreadable(line)]

    def _unreadable(self, line: Line, reason: str = "") -> Sequence[Read]:
        if not line.data:
            reason = too_much(LineCutter.limit * self.line_limit_factor)
            return (problem(Code.LINE_TOO_LONG, f"line passed over: {reason}", line),)
        code = Code.TORN_LAST_LINE if line.is_torn else Code.UNREADABLE_LINE
        return (problem(code, f"unreadable line: {reason or fault(line.data)}", line),)

    def _record(self, line: Line) -> Sequence[Read] | None:
        """Return the reads of a line; None if it is not a record, as a line that was too long, which has no bytes."""
        raise NotImplementedError

    def _read_other(self, line: Line) -> Sequence[Read] | None:
        """Return the reads of a JSON object that `_record` refused; None to report it as unreadable."""
        del line


class RecordReader(LineReader):
    """A reader whose records are any JSON objects. A format implements `_values`."""

    def _record(self, line: Line) -> list[Read] | None:
        members = raw_members(line.data.strip(SPACE))
        return None if members is None else [placed(value, line) for value in self._values(members, line)]

    def _values(self, members: dict[str, bytes], line: Line) -> Sequence[Exchange | Problem | Read]:
        """Return the values in an object with these members; one without a place gets that of the line."""
        raise NotImplementedError


class _RecordFinder(RecordReader):
    """A reader that collects the objects of one document in `found`, each on one line; its reads are problems only."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[bytes] = []

    def read_line(self, line: Line) -> Sequence[Read]:
        return () if line.is_torn and len(line.data) > FEW_BYTES else super().read_line(line)

    def _values(self, members: dict[str, bytes], line: Line) -> Sequence[Exchange | Problem | Read]:
        del members
        self.found.append(line.data.strip(SPACE).translate(None, b"\r\n") + b"\n")
        return ()

    def _read_following(self, records: ElementCutter) -> Iterator[Read]:
        del records
        return iter(())


def begins_with_records(head: bytes) -> bool:
    """Return whether each of a file's first lines begins and ends with a brace, and the first one is an object."""
    lines = (line.strip(SPACE) for line in islice(nonblank_lines(head), _FIRST))
    is_usual = all(line[:1] == b"{" and line[-1:] == b"}" for line in lines)
    return is_usual and raw_members(next(nonblank_lines(head), b"").strip(SPACE)) is not None


def records_on_lines(head: bytes, array: str = "") -> bytes:
    """Return a file's beginning if it is JSON Lines, else its first objects, each on a line; empty without any.

    Objects may be printed over several lines, in an array (at the path `array` of a document) or next to damaged text.
    """
    if not array and begins_with_records(head):
        return head
    finder = _RecordFinder()
    finder.array = array
    problems = finder.read(head[at : at + _PIECE] for at in range(0, len(head), _PIECE))
    for number, _ in enumerate(problems):
        if number == _DAMAGED or len(finder.found) > _FIRST:
            break
    return b"".join(finder.found)


def first_records(head: bytes) -> list[bytes]:
    """Return the lines of the first records of a file, at most eight, to recognise it by."""
    return list(islice(nonblank_lines(records_on_lines(head)), 8))
