"""What a recording is: a Protocol, and what all recordings share.

A recording is one opened input that gives turns, as soon as they are whole. There are three: a session log
(`events.py`), recorded requests, and prompts that stand ready (`requests.py`); `opening.py` says which an input is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from lore.errors import LoreError
from lore.formats.base import Read, Reader
from lore.formats.registry import READERS
from lore.model.codes import Problem
from lore.model.state import Session
from lore.model.turn import Turn
from lore.recording import corpus
from lore.recording.problems import Problems

HINT_FORMATS = "lore reads: " + ", ".join(READERS) + "; say which with --format"


class UnrecognisedError(LoreError):
    """The input can be read, and is no recording that lore knows."""


class Recording(Protocol):
    """One opened recording. Iterate `turns()` once; then `state`, `boundaries`, `problems` are final.

    `events` tells a session log; `boundaries` are the uuids and times of its compactions, `companions` files with
    more chains of the session, read after it.
    """

    path: str
    shown: str
    reader: Reader
    problems: Problems
    companions: tuple[str, ...]
    boundaries: list[tuple[str, str | None]]

    @property
    def events(self) -> bool:
        """Whether this is a session log, not a list of requests."""
        ...

    @property
    def state(self) -> Session:
        """The session after what was read so far."""
        ...

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all chains."""
        ...

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        ...


class RecordedInput:
    """A reader with the bytes of its input: what it finds, problems apart."""

    def __init__(self, path: str, reader: Reader, data: Iterable[bytes], problems: Problems) -> None:
        self.path = path
        self.shown = corpus.show(path)
        self.reader = reader
        self.problems = problems
        self.companions: tuple[str, ...] = ()
        self.boundaries: list[tuple[str, str | None]] = []
        self._data = data

    @property
    def events(self) -> bool:
        """Whether this is a session log, not a list of requests."""
        return self.reader.yields == "events"

    @property
    def state(self) -> Session:
        """The session after what was read so far: requests alone make none."""
        return Session(format=self.reader.name)

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        return []

    def reads(self) -> Iterator[Read]:
        """Yield what the reader finds; problems are collected and left out."""
        for found in self.lists():
            yield from self._without_problems(found)

    def lists(self) -> Iterator[Iterable[Read]]:
        """Yield what the reader finds in each piece of the input, problems among it."""
        for data in self._data:
            yield self.reader.feed(data)
        yield self.reader.finish()

    def take(self, data: bytes) -> Iterator[Read]:
        """Yield what the next bytes complete, where a caller reads them itself; then `finish`."""
        return self._without_problems(self.reader.feed(data))

    def finish(self) -> Iterator[Read]:
        """Yield what is left when no bytes come any more; the reader has closed what was open."""
        return self._without_problems(self.reader.finish())

    def _without_problems(self, found: Iterable[Read]) -> Iterator[Read]:
        for read in found:
            if type(read.value) is Problem:
                self.problems.add(read.value, self.shown)
            else:
                yield read
