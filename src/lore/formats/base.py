"""The protocol of readers.

A reader gets the bytes of a file and yields events (a session log), exchanges (recorded requests; an engine's log also
measurements of its cache) or turns (complete prompts), and problems. No reader raises on any input: a record that it
cannot model becomes an opaque event with a problem, one that it cannot read a problem with line and byte.

How to add one: `README.md` in this folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct

from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange, Turn

Yields: TypeAlias = Literal["events", "exchanges", "turns"]
Clock: TypeAlias = Literal["first_line", "end"]
HOLDS: dict[Yields, str] = {"events": "a session log", "exchanges": "request bodies", "turns": "assembled prompts"}


class Read(Struct, frozen=True, gc=False):
    """One thing that was read, with its place."""

    value: Event | Exchange | Turn | Measurement | Problem
    line: int  # from 1
    byte: int  # from 0: where the line starts
    file: str = ""  # the file in a folder that is read as one recording; empty if there is only one


class Reader(Protocol):
    """A recorded format."""

    name: ClassVar[str]
    yields: ClassVar[Yields]
    clock: ClassVar[Clock]  # what the time of `turn_completed` is: the response's first line, or its end

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Return whether a file that begins like this (whole lines, or all of it) is this format."""
        ...

    def read(self, data: Iterable[bytes]) -> Iterator[Read]:
        """Yield what a file holds, in its order; `data` are its bytes in pieces of any size. Cost is O(bytes)."""
        ...
