"""Split a large JSON document into the elements of one array while it is read, for `formats.builder.DocumentReader`.

Recordings of browsers and exports reach hundreds of megabytes, so only the current element and what precedes the array
(up to 4 MiB) are in memory. An element longer than 24 MiB is returned without its bytes. A damaged element is returned
as it is, and those after it are still read. If another document follows, in the same list or file, `find_next` goes to
its array.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from lore.formats.beginning import BOM, SPACE, array_at
from lore.model.deferred import pattern
from lore.model.lenient import DECODERS
from lore.model.limits import BEGINNING_BYTES, ENTRY_BYTES

_BETWEEN = pattern(rb"[ \t\r\n,]*")
_BETWEEN_ARRAYS = pattern(rb"(?:[ \t\r\n,]|\][ \t\r\n]{0,32}\[)*")
_NO_VALUE = pattern(rb"[ \t\r\n,\]]*")  # between values that are not in an array
_BARE = pattern(rb'[^{\[\]"]*+')  # numbers and words, or brackets that close nothing
_STRING = pattern(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_BETWEEN_OBJECTS = pattern(rb'(?:[^{}"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_TOKENS = pattern(rb'"(?:[^"\\]++|\\.)*+(")?|[{\[]++|[}\]]++|,', re.DOTALL)


_VALUE = DECODERS[msgspec.Raw]
_TRAILING = pattern(r"trailing characters \(byte (\d+)\)")  # msgspec: where something follows a whole value
_ENDS = SPACE + b","
_MARGIN = 64  # bytes of a line's beginning
_OTHERS = 64  # values with the name of such an array, but without one, that may precede the next document


class Line(Struct, frozen=True, gc=False):
    """One line without its end, or one record printed over several lines."""

    number: int  # from 1: the first line of the record
    byte: int  # offset of its first byte in the file
    data: bytes  # empty: the line was too long to be held
    is_torn: bool = False  # the file ends here, without a line feed


class ElementCutter:
    """Iterate over the elements of one array of a document, each of them a `Line`.

    It is the first array at one of `paths`, such as `.messages` (`""`: the document itself). Without paths the input is
    a sequence of JSON values. `start` is the offset of the document in the input. Call `find_next` after the last
    element to iterate over the array of the next document.
    """

    def __init__(
        self, data: Iterable[bytes], paths: tuple[str, ...], limit: int = ENTRY_BYTES, *, start: int = 0
    ) -> None:  # fmt: skip
        self.begin: bytes | None = None  # the bytes before the first element; None until the array was found
        self.is_whole = False  # the end of the array was reached
        self.is_empty = True  # the document has no bytes but white space
        self.is_cut = False  # the array was looked for in a part of the document only
        self.line = 1  # of the next byte that is not read
        self.byte = 0
        self._paths = paths
        self._names = [b'"%b"' % path.rpartition(".")[2].encode() for path in paths if path]  # of the arrays
        self._start = start
        self._limit = limit
        self._pieces = iter(data)
        self._data = b""
        self._at = 0  # of the next byte in `_data`
        self._between = (_BETWEEN_ARRAYS if "" in paths else _BETWEEN) if paths else _NO_VALUE

    def __iter__(self) -> Iterator[Line]:
        if self.begin is None and not self.find_array():
            return
        while self._skip_separators():
            line, byte = self.line, self.byte
            end = self._end_of_element()
            if end >= 0:
                whole = self._data[self._at : end].rstrip(_ENDS)
                self._move_to(end)
                yield Line(line, byte, whole if len(whole) <= self._limit else b"")
            elif len(self._data) - self._at > self._limit:
                yield Line(line, byte, b"")
                if not self._skip_element():
                    return
            else:
                return

    @property
    def place(self) -> Line:
        """The line number and offset of the next unread byte."""
        return Line(self.line, self.byte, b"")

    @property
    def remaining(self) -> bytes:
        return self._data[self._at :]

    def find_array(self) -> bool:
        """Read up to the first element; False if the document has no such array in its first 4 MiB."""
        while len(self._data) < self._start and self._read_more():
            pass
        self._move_to(self._start)
        self._data, self._at, self._start = self._data[self._start :], 0, 0
        while True:
            text, at = self._data.removeprefix(BOM).lstrip(SPACE), 0
            if text[:1] == b"[" and "" in self._paths:
                at = len(self._data) - len(text) + 1
            elif text and not self._paths:
                at = len(self._data) - len(text)
            else:
                at = array_at(self._data, self._paths)
            if at >= 0:
                self.begin = self._data[:at]
                self._move_to(at)
                return True
            _, end, is_over = _scan(text, 0, 0) if text[:1] == b"{" else (0, 0, False)
            self.is_cut = (end if is_over else len(self._data)) > BEGINNING_BYTES
            if is_over or self.is_cut or not self._read_more():
                self.is_empty = not self._data.strip()
                return False

    def find_next(self) -> bool:
        """Skip the rest of this document, go to the next one's first element; return False if no array follows."""
        begin = (self.begin or b"").removeprefix(BOM).lstrip(SPACE)
        if not self.is_whole or begin[:1] != b"{":
            return False
        depth, _, _ = _scan(begin, 0, 0)
        tried = 0
        while tried < _OTHERS and self._skip_element(depth) and self._skip_to_object():
            depth = 0
            _, end, is_over = _scan(self._data, self._at, 0)
            if is_over and not any(self._data.find(name, self._at, end) >= 0 for name in self._names):
                continue
            self._data, self._at, self.is_whole, tried = self._data[self._at :], 0, False, tried + 1
            if self.find_array():
                return True
        return False

    def read_tail(self) -> bytes:
        """Return the rest of the document, from the array's `]` on, without moving; empty if it is too long."""
        depth, _, _ = _scan(self.begin or b"", 0, 0)
        while self.is_whole:
            _, end, is_over = _scan(self._data, self._at, depth)
            if is_over:
                return self._data[self._at : end]
            if len(self._data) - self._at > BEGINNING_BYTES or not self._read_more():
                break
        return b""

    def _skip_to_object(self) -> bool:
        """Go to the next `{`; return False if a `}` precedes it, which ends an object around this document."""
        while True:
            self._move_to(_BETWEEN_OBJECTS.match(self._data, self._at).end())  # pyright: ignore[reportOptionalMemberAccess]
            following = self._data[self._at : self._at + 1]
            if following in (b"{", b"}"):
                return following == b"{"
            if len(self._data) - self._at > self._limit or not self._read_more():
                return False

    def _read_more(self) -> bool:
        """Double the unread bytes, so that a long element is parsed only a few times; return False at the end."""
        unread_size, begin = len(self._data) - self._at, max(0, self._at - _MARGIN)
        pieces, size = [self._data[begin:]], 0
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= max(1, unread_size):
                break
        self._data, self._at = b"".join(pieces), self._at - begin
        return size > 0

    def _move_to(self, end: int) -> None:
        self.line += self._data.count(b"\n", self._at, end)
        self.byte += end - self._at
        self._at = end

    def _skip_separators(self) -> bool:
        """Go to the next element; False at the end of the array or of the document."""
        while True:
            self._move_to(self._between.match(self._data, self._at).end())  # pyright: ignore[reportOptionalMemberAccess]
            if self._at < len(self._data):
                self.is_whole = self._data[self._at] == 0x5D
                is_end = self.is_whole and len(self._data) < self._at + _MARGIN
                if is_end and "" in self._paths and self._read_more():  # another array may follow
                    continue
                return not self.is_whole
            if not self._read_more():
                return False

    def _end_of_element(self) -> int:
        """Return where the next element ends; -1 if it is too long, or does not end."""
        while True:
            opening = self._data[self._at]
            if opening in b"{[" or (opening == 0x22 and self._paths):
                end = end_of_value(memoryview(self._data)[: self._at + self._limit + 1], self._at)
                end = self._end_of_damaged() if end is None else end
            elif self._paths:
                end = _BARE.match(self._data, self._at).end()  # pyright: ignore[reportOptionalMemberAccess]
                end = end if end < len(self._data) else -1
            else:  # the rest of a torn value
                end = self._end_of_damaged()
            if end >= 0 or len(self._data) - self._at > self._limit:
                return end
            if not self._read_more():
                return self._end_of_damaged()

    def _end_of_damaged(self) -> int:
        """Return where a damaged element ends: where brackets balance, or before a line indented like it; else -1."""
        feed = self._data.rfind(b"\n", max(0, self._at - _MARGIN), self._at) if self._paths else -1
        begin = self._data[feed : self._at + 1] if feed >= 0 else b"" if self._paths else b"\n{"
        is_alone = begin[-1:] in (b"{", b"[") and not begin[1:-1].strip(b" ")
        following = self._data.find(begin, self._at, self._at + self._limit + 1) if is_alone else -1
        if not self._paths and self._data[self._at] not in b"{[":
            return following
        view = memoryview(self._data)[: self._at + self._limit + 1 if following < 0 else following]
        _, end, is_over = _scan(view, self._at, 0)
        return end if is_over and end > self._at else following

    def _skip_element(self, depth: int = 0) -> bool:
        """Skip a value, or all up to the end of `depth` open brackets; return False if the input ends first."""
        is_over, is_in_string = False, False
        while True:
            if is_in_string:
                end = _STRING.match(self._data, self._at).end()  # pyright: ignore[reportOptionalMemberAccess]
                is_in_string = self._data[end : end + 1] != b'"'
                self._move_to(end if is_in_string else end + 1)
            if not is_in_string:
                depth, end, is_over = _scan(self._data, self._at, depth)
                is_in_string = self._data[end : end + 1] == b'"'
                self._move_to(end + 1 if is_in_string else end)
            if is_over:
                return True
            needs_more = not is_in_string or self._at == len(self._data) or self._data[self._at :] == b"\\"
            if needs_more and not self._read_more():
                return False


def end_of_value(data: memoryview, at: int) -> int | None:
    """Return where the JSON value at a byte ends; -1 if the data ends before, None if msgspec refuses the value."""
    try:
        _VALUE.decode(data[at:])
    except msgspec.DecodeError as error:
        following = _TRAILING.search(str(error))
        return at + int(following[1]) - 1 if following else -1 if "truncated" in str(error) else None
    except RecursionError:
        return None
    return len(data)


def _scan(data: bytes | memoryview, at: int, depth: int) -> tuple[int, int, bool]:
    """Count brackets outside strings, `depth` of which are open; return (depth, position, whether the value ended)."""
    for match in _TOKENS.finditer(data, at):
        opening = data[match.start()]
        if opening == 0x22:
            if match[1] is None:  # a string that has no end here
                return depth, match.start(), False
        elif opening in b"{[":
            depth += match.end() - match.start()
        elif opening == 0x2C:
            if depth == 0:
                return 0, match.start(), True
        else:
            closed = match.end() - match.start()
            if closed >= depth:
                return 0, match.start() + depth, True
            depth -= closed
    return depth, len(data), False
