"""JSON documents that hold their records in one array: the array cut into elements, and readers of such documents.

The array is never held as a whole, because recordings of browsers and exports reach hundreds of megabytes. What
precedes it is held, up to 4 MiB; what follows it is not read. An element longer than 24 MiB is given without its
bytes. A damaged element is given as it is, and hides none that follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lore.formats.beginning import BOM, SPACE, array_at
from lore.formats.lines import Line, end_of_value
from lore.model.deferred import pattern
from lore.model.limits import BEGINNING_BYTES, ENTRY_BYTES

_BETWEEN = pattern(rb"[ \t\r\n,]*")
_BARE = pattern(rb'[^{\[\]"]*+')  # numbers and words, or brackets that close nothing
_STRING = pattern(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_TOKENS = pattern(rb'"(?:[^"\\]++|\\.)*+(")?|[{\[]++|[}\]]++|,', re.DOTALL)


class ElementCutter:
    """Iterate over the elements of the first array at one of `paths` (`""`: the document itself) in a document."""

    def __init__(self, data: Iterable[bytes], paths: tuple[str, ...], limit: int = ENTRY_BYTES) -> None:
        self.begin: bytes | None = None  # the bytes before the first element; None until the array was found
        self.is_whole = False  # the end of the array was reached
        self.is_empty = True  # the document has no bytes but white space
        self.is_cut = False  # the array was looked for in a part of the document only
        self.line = 1  # of the next byte that is not read
        self.byte = 0
        self._paths = paths
        self._limit = limit
        self._pieces = iter(data)
        self._data = b""
        self._at = 0  # of the next byte in `_data`

    def __iter__(self) -> Iterator[Line]:
        if self.begin is None and not self.find_array():
            return
        while self._skip_separators():
            line, byte = self.line, self.byte
            end = self._end_of_element()
            if end >= 0:
                whole = self._data[self._at : end].rstrip(SPACE + b",")
                self._pass(end)
                yield Line(line, byte, whole if len(whole) <= self._limit else b"")
            elif len(self._data) - self._at > self._limit:
                yield Line(line, byte, b"")
                if not self._skip_element():
                    return
            else:
                return

    @property
    def place(self) -> Line:
        """Where the next byte is that is not read."""
        return Line(self.line, self.byte, b"")

    def find_array(self) -> bool:
        """Read up to the first element; False if the document has no such array in its first 4 MiB."""
        while True:
            text, at = self._data.removeprefix(BOM).lstrip(SPACE), 0
            if text[:1] == b"[" and "" in self._paths:
                at = len(self._data) - len(text) + 1
            else:
                at = array_at(self._data, self._paths)
            if at >= 0:
                self.begin = self._data[:at]
                self._pass(at)
                return True
            self.is_cut = len(self._data) > BEGINNING_BYTES
            if self.is_cut or not self._read_on():
                self.is_empty = not self._data.strip()
                return False

    def _read_on(self) -> bool:
        """Double the bytes that are held, so that a long element is parsed a few times only."""
        rest = self._data[self._at :] if self._at else self._data
        pieces, size = [rest], 0
        for piece in self._pieces:
            pieces.append(piece)
            size += len(piece)
            if size >= max(1, len(rest)):
                break
        self._data, self._at = b"".join(pieces), 0
        return size > 0

    def _pass(self, end: int) -> None:
        self.line += self._data.count(b"\n", self._at, end)
        self.byte += end - self._at
        self._at = end

    def _skip_separators(self) -> bool:
        """Go to the next element; False at the end of the array or of the document."""
        while True:
            self._pass(_BETWEEN.match(self._data, self._at).end())  # pyright: ignore[reportOptionalMemberAccess]
            if self._at < len(self._data):
                self.is_whole = self._data[self._at] == 0x5D
                return not self.is_whole
            if not self._read_on():
                return False

    def _end_of_element(self) -> int:
        """Return where the next element ends; -1 if it is too long, or does not end."""
        while True:
            if self._data[self._at] in b'{["':
                end = end_of_value(memoryview(self._data), self._at)
                if end is None:  # brackets are counted only then
                    _, scanned, is_over = _scan(self._data, self._at, 0)
                    end = scanned if is_over else -1
            else:
                end = _BARE.match(self._data, self._at).end()  # pyright: ignore[reportOptionalMemberAccess]
                end = end if end < len(self._data) else -1
            if end >= 0 or len(self._data) - self._at > self._limit:
                return end
            if not self._read_on():
                _, end, is_over = _scan(self._data, self._at, 0)
                return end if is_over and end > self._at else -1

    def _skip_element(self) -> bool:
        """Pass over an element that is too long to be held; False if the document ends inside it."""
        depth, is_over, is_in_string = 0, False, False
        while True:
            if is_in_string:
                end = _STRING.match(self._data, self._at).end()  # pyright: ignore[reportOptionalMemberAccess]
                is_in_string = self._data[end : end + 1] != b'"'
                self._pass(end if is_in_string else end + 1)
            if not is_in_string:
                depth, end, is_over = _scan(self._data, self._at, depth)
                is_in_string = self._data[end : end + 1] == b'"'
                self._pass(end + 1 if is_in_string else end)
            if is_over:
                return True
            needs_more = not is_in_string or self._at == len(self._data) or self._data[self._at :] == b"\\"
            if needs_more and not self._read_on():
                return False


def elements_on_lines(head: bytes) -> bytes:
    """Return the elements of the JSON array that a file begins with, each on a line; empty for another beginning."""
    return b"".join(element.data.translate(None, b"\r\n") + b"\n" for element in ElementCutter([head], ("",)))


def _scan(data: bytes | memoryview, at: int, depth: int) -> tuple[int, int, bool]:
    """Count brackets outside strings; return the depth, where the value ends or the scan stopped, and which it is."""
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
