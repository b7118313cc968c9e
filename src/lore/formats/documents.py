"""Readers of JSON documents that list recorded calls in one array.

In: the bytes of a document. Out: exchanges, and problems with line and byte. What a format adds is where its array
stands, how its beginning looks, and how an element is read. Memory: one element and what it is cut into.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from lore.formats.base import Clock, Read, Yields
from lore.formats.elements import LONGEST, Elements, ElementsState, array_at
from lore.formats.http import Http, Judged, exchanges_of
from lore.formats.lines import BOM, Line, fault, is_crowded, too_many, too_much
from lore.formats.pairs import call_at
from lore.model.codes import Code, Problem


class Documents:
    """What these readers share; a subclass names `paths` and the words that its beginning must hold."""

    name: ClassVar[str]
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"
    paths: ClassVar[tuple[str, ...]]
    words: ClassVar[tuple[bytes, ...]]
    longest: ClassVar[int] = LONGEST  # bytes of an element

    def __init__(self, state: ElementsState | None = None) -> None:
        self._elements = Elements(self.paths, state, limit=self.longest)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if not all(word in head for word in cls.words):
            return False
        begin = head.removeprefix(BOM).lstrip(b" \t\r\n")
        return (begin[:1] == b"{" and array_at(head, cls.paths) >= 0) or (begin[:1] == b"[" and "" in cls.paths)

    @classmethod
    def restore(cls, state: bytes) -> Documents:
        return cls(msgspec.msgpack.decode(state, type=ElementsState))

    @property
    def state(self) -> bytes:
        return msgspec.msgpack.encode(self._elements.state)

    def feed(self, data: bytes) -> Iterable[Read]:
        return self._read_all(self._elements.feed(data))

    def finish(self) -> Iterable[Read]:
        found = self._read_all(self._elements.finish())
        elements = self._elements
        if elements.phase == "inside":
            found.append(self._read(Problem(Code.TORN_LAST_LINE, "the document ends before its list does")))
        elif elements.phase == "before" and elements.rest.strip():
            where = " or ".join(path[1:] or "a list" for path in self.paths)
            found.append(self._read(Problem(Code.UNREADABLE_LINE, f"a document without {where}")))
        return found

    def _read(self, value: Problem) -> Read:
        return Read(value, self._elements.line, self._elements.byte)

    def _read_all(self, elements: list[Line]) -> list[Read]:
        return [Read(one, line.number, line.byte) for line in elements for one in self._judged(line)]

    def _judged(self, element: Line) -> list[Judged]:
        if not element.data:
            return [Problem(Code.CAPTURE_TOO_LARGE, f"an entry is passed over: {too_much(self.longest)}")]
        if is_crowded(element.data):
            return [Problem(Code.CAPTURE_TOO_LARGE, f"an entry is passed over: {too_many()}")]
        call = self.call(element.data)
        if call is None:
            return [Problem(Code.UNREADABLE_LINE, f"unreadable entry: {fault(element.data)}")]
        return exchanges_of(call)

    def call(self, data: bytes) -> Http | None:
        """Read one element; None where it is no object."""
        return call_at(data)
