"""What a reader is.

A reader is fed bytes, cut anywhere, and gives back what each whole line held: events (a session log),
exchanges (recorded requests; an engine's log also what it measured of its cache) or turns (prompts that stand ready),
and problems. Rules: no reader raises on any input; what it cannot model becomes an opaque event with a problem; what it
cannot read, a problem with line and byte.

How to add one: write a class with the members of `Reader` in its own file, add a row to `FORMATS` (or
publish it under the entry-point group `lore.formats`), and run `lore.testing.ReaderContract` on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange, Turn

Yields: TypeAlias = Literal["events", "exchanges", "turns"]
Clock: TypeAlias = Literal["first_line", "end"]
HOLDS: dict[Yields, str] = {
    "events": "a session log",
    "exchanges": "request bodies",
    "turns": "assembled prompts",
}


class Read(Struct, frozen=True, gc=False):
    """One thing read, with its place: `line` from 1, `byte` from 0 (where its line starts).

    `file` names the file below a folder that is read as one recording; empty: there is only one. A problem may have
    been met `times` over, its place is that of the first.
    """

    value: Event | Exchange | Turn | Measurement | Problem
    line: int
    byte: int
    file: str = ""
    times: int = 1


class Reader(Protocol):
    """A recorded format."""

    name: ClassVar[str]
    yields: ClassVar[Yields]
    clock: ClassVar[Clock]  # what the time of `turn_completed` is: the response's first line, or its end

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Tell from the first bytes of a file (whole lines, or all there is) whether it is this format."""
        ...

    def feed(self, data: bytes) -> Iterable[Read]:
        """Take the next bytes; cost O(bytes). What is read may be made as it is asked for, once."""
        ...

    def finish(self) -> Iterable[Read]:
        """Take what is left after the last byte."""
        ...
