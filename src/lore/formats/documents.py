"""JSON documents that list recorded calls in one array: the array cut out as its bytes arrive, and its readers.

In: the bytes of a document, in any pieces, and the paths at which the array may stand. Out: each element with its
place, as soon as it is whole; of these, exchanges and problems. Rules: what stands before the array is held, up to
4 MiB, what stands behind it is not read; an element longer than 24 MiB is given without its bytes, and no more of it
is kept; a damaged element is given as it is, and hides none that follow. Cost is O(bytes): an element that is not
whole yet is looked at again when twice as much of it has come.

An element's end is found by msgspec, which names the byte at which something follows a whole value; where it
refuses a value (lone surrogates, NaN, deep nesting) strings and brackets are counted instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.beginning import BOM, SPACE, array_at
from lore.formats.bounds import is_crowded, is_deep, too_many, too_much
from lore.formats.http import Http, Judged, exchanges_in
from lore.formats.lines import Line, fault
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern
from lore.model.jsonslice import TRAILING
from lore.model.limits import BEGINNING_BYTES, ENTRY_BYTES, SHORT_ENTRIES

_SHORT = 128  # bytes, which a call takes by its address and its headers alone
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_BARE = re.compile(rb'[^{\[\]"]*+')
_RAW = msgspec.json.Decoder(msgspec.Raw)

Phase: TypeAlias = Literal["before", "inside", "over"]


# The next brackets inside a value, and the next brackets or comma beside values, behind whatever else stands there.
# Brackets are taken many at a time: so they come where someone means harm.
_WITHIN = pattern(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{\[]++|[}\]]++)?', re.DOTALL)
_BESIDE = pattern(rb'(?:[^",{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{\[]++|[}\]]++|,)?', re.DOTALL)
_STRING = pattern(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class _Counter(Struct):
    """Find a value's end by counting brackets outside strings, piece by piece."""

    depth: int = 0
    inside: bool = False
    escaped: bool = False  # the last byte was a backslash in a string

    def end(self, data: bytes | memoryview, at: int) -> int:
        """Return where the value ends; -1 where more is needed, and the counter stands behind these bytes."""
        if self.escaped and at < len(data):
            self.escaped, at = False, at + 1
        size = len(data)
        while at < size:
            if self.inside:
                at = _STRING.match(data, at).end()  # pyright: ignore[reportOptionalMemberAccess]
                if at == size:
                    return -1
                if data[at] != 0x22:  # a backslash, and nothing behind it yet
                    self.escaped = True
                    return -1
                self.inside, at = False, at + 1
                continue
            match = (_WITHIN if self.depth else _BESIDE).match(data, at)
            start, end = match.span(1)  # pyright: ignore[reportOptionalMemberAccess]
            if start < 0:
                at = match.end()  # pyright: ignore[reportOptionalMemberAccess]
                if at < size:  # a string that has no end here
                    self.inside, at = True, at + 1
            elif data[start] in b"{[":
                self.depth, at = self.depth + end - start, end
            elif data[start] == 0x2C:
                return start
            elif self.depth <= end - start:
                return start + self.depth  # at depth 0 the end of the array around it
            else:
                self.depth, at = self.depth - end + start, end
        return -1


class Elements(Struct):
    """Cut the elements of the first array that stands at one of these paths (`""`: the document itself).

    `phase` says where it stands: before the array, inside it, behind it; `line` and `byte` are those of the first
    byte that is pending; `wanted` bytes have to be there before it is worth looking again; `start` is where the array's
    first element may stand, -1 before it was met; `short` counts elements for their reader.
    """

    paths: tuple[str, ...]
    limit: int = ENTRY_BYTES
    phase: Phase = "before"
    line: int = 1
    byte: int = 0
    pending: list[bytes] = []
    size: int = 0
    wanted: int = 0
    start: int = -1
    short: int = 0
    skipping: bool = False
    counter: _Counter = msgspec.field(default_factory=_Counter)

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes; return the elements that they complete."""
        return [*self.cut(data)]

    def finish(self) -> list[Line]:
        """Return what is left where no bytes come any more; `rest` says what could not be read."""
        return [*self.cut(last=True)]

    def cut(self, data: bytes = b"", *, last: bool = False) -> Iterator[Line]:
        """Take the next or the `last` bytes, element by element; who does not ask for all of them has to `stop`."""
        if self.phase == "over":
            return
        if data:
            self.pending.append(data)
            self.size += len(data)
        if self.size >= self.wanted or self.skipping or last:
            yield from self._look(last=last)

    def stop(self) -> None:
        """Read no more of the document."""
        self.phase, self.pending, self.size, self.wanted = "over", [], 0, 0

    @property
    def rest(self) -> bytes:
        """What is pending: after `finish`, the beginning of an element that has no end."""
        if len(self.pending) > 1:
            self.pending = [b"".join(self.pending)]
        return self.pending[0] if self.pending else b""

    def _look(self, *, last: bool = False) -> Iterator[Line]:
        data = self.rest
        at = 0
        if self.phase == "before":
            at = self._begin(data)
            if at < 0:
                self._keep(data, data, 0, wanted=2 * len(data))
                return
            self.phase, self.start = "inside", at
            self._pass(data, 0, at)
        yield from self._elements(data, at, last=last)

    def _keep(self, rest: bytes, data: bytes, at: int, *, wanted: int) -> None:
        rest = b"" if self.phase == "over" else rest
        self.pending = [rest] if rest else []
        self.size, self.wanted = len(rest), wanted
        if not rest:
            self._pass(data, at, len(data))

    def _pass(self, data: bytes, start: int, end: int) -> None:
        """Count what is behind."""
        self.line += data.count(b"\n", start, end)
        self.byte += end - start

    def _begin(self, data: bytes) -> int:
        """Return where the array's first element may stand; -1 where it has not been met."""
        if "" in self.paths:
            start = len(data) - len(data.removeprefix(BOM).lstrip(SPACE))
            if start < len(data):
                if data[start] == 0x5B:
                    return start + 1
                self.phase = "over" if len(self.paths) == 1 else self.phase
        found = array_at(data, self.paths)
        if found < 0 and len(data) > BEGINNING_BYTES:
            self.phase = "over"
        return found

    def _elements(self, data: bytes, at: int, *, last: bool) -> Iterator[Line]:
        view = memoryview(data)
        passed = at  # what is behind is counted where an element begins
        while True:
            start = at
            if not self.skipping:
                start = at = _BETWEEN.match(data, at).end()  # pyright: ignore[reportOptionalMemberAccess]
                self._pass(data, passed, at)
                passed = at
                if data[at : at + 1] == b"]":
                    self.phase = "over"
                if at == len(data) or self.phase == "over":
                    self._keep(b"", data, at, wanted=0)
                    return
            if self.skipping:
                end = self.counter.end(data, at)
            elif data[at] in b'{["':
                end = _end(view, at, last=last)
            else:  # numbers, or brackets that close nothing, are one element however many there are, damaged
                end = _BARE.match(data, at).end()  # pyright: ignore[reportOptionalMemberAccess]
                end = end if end < len(data) else -1
            if end < 0:
                yield from self._wait(data, at)
                return
            at = end
            if self.skipping:
                self.skipping, self.counter = False, _Counter()
            else:
                whole = data[start:at].rstrip(SPACE + b",")
                yield Line(self.line, self.byte, whole if len(whole) <= self.limit else b"")

    def _wait(self, data: bytes, at: int) -> Iterator[Line]:
        """Keep an element that is not whole; one that is too long is given up."""
        if self.skipping:
            self._keep(b"", data, at, wanted=0)
        elif len(data) - at > self.limit:
            yield Line(self.line, self.byte, b"")
            self.skipping = True
            self.counter = _Counter()
            self.counter.end(data, at)
            self._keep(b"", data, at, wanted=0)
        else:
            self._keep(data[at:], data, at, wanted=min(2 * (len(data) - at), self.limit + 1))


def _end(view: memoryview, at: int, *, last: bool) -> int:
    """Return where the text, object or array at a byte ends; -1 where it is not whole; `last`: no more bytes come."""
    try:
        _RAW.decode(view[at:])
    except msgspec.DecodeError as error:
        text = str(error)
        if "truncated" in text and not last:  # a lone surrogate at the very end is called so, too
            return -1
        behind = TRAILING.search(text)
        if behind is not None:
            return at + int(behind[1]) - 1
    except RecursionError:
        pass
    else:
        return len(view)
    return _Counter().end(view, at)


class Documents:
    """A reader of documents; a format names `paths` and the words that its beginning must hold."""

    name: ClassVar[str]
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    paths: ClassVar[tuple[str, ...]]
    words: ClassVar[tuple[bytes, ...]]
    longest: ClassVar[int] = ENTRY_BYTES  # bytes of an element

    def __init__(self) -> None:
        self._elements = Elements(self.paths, self.longest)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if not all(word in head for word in cls.words):
            return False
        begin = head.removeprefix(BOM).lstrip(b" \t\r\n")
        return (begin[:1] == b"{" and array_at(head, cls.paths) >= 0) or (begin[:1] == b"[" and "" in cls.paths)

    def feed(self, data: bytes) -> Iterable[Read]:
        return self._read_all(self._cut(self._elements.cut(data)))

    def finish(self) -> Iterable[Read]:
        return [*self._read_all(self._cut(self._elements.cut(last=True))), *self._ending()]

    def _cut(self, lines: Iterable[Line]) -> list[Line]:
        """Take elements as they are cut; where too many entries are short, what is behind them is not read."""
        found: list[Line] = []
        elements = self._elements
        for line in lines:
            found.append(line)
            if 0 < len(line.data) < _SHORT:
                elements.short += 1
                if elements.short == SHORT_ENTRIES:
                    elements.stop()
                    break
        return found

    def _ending(self) -> list[Read]:
        """Say what of the document was not read, and where that begins."""
        elements = self._elements
        if elements.short == SHORT_ENTRIES:
            reason = f"{SHORT_ENTRIES:,} of its entries are shorter than {_SHORT} bytes"
            return [self._read(Problem(Code.CAPTURE_TOO_LARGE, f"the rest of the document is passed over: {reason}"))]
        if elements.phase == "inside":
            return [self._read(Problem(Code.TORN_LAST_LINE, "the document ends before its list does"))]
        if elements.start >= 0 or not (elements.phase == "over" or elements.rest.strip()):
            return []
        where = " or ".join(path[1:] or "a list" for path in self.paths)
        within = (
            f" within {BEGINNING_BYTES // 1024 // 1024} MiB" if elements.phase == "over" and where != "a list" else ""
        )
        return [Read(Problem(Code.UNREADABLE_LINE, f"a document without {where}{within}"), 1, 0)]

    def _read(self, value: Problem) -> Read:
        return Read(value, self._elements.line, self._elements.byte)

    def _read_all(self, elements: list[Line]) -> list[Read]:
        return [Read(value, line.number, line.byte) for line in elements for value in self._judged(line)]

    def _judged(self, element: Line) -> list[Judged]:
        if not element.data:
            return [Problem(Code.CAPTURE_TOO_LARGE, f"an entry is passed over: {too_much(self.longest)}")]
        if is_crowded(element.data):
            return [Problem(Code.CAPTURE_TOO_LARGE, f"an entry is passed over: {too_many()}")]
        found = None if is_deep(element.data) else exchanges_in(element.data, self.call)
        return [Problem(Code.UNREADABLE_LINE, f"unreadable entry: {fault(element.data)}")] if found is None else found

    def call(self, data: bytes) -> Http | None:
        """Read one element, None where it is no object; what is missing or of another type is unknown."""
        raise NotImplementedError
