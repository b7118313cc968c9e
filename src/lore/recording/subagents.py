"""Read the files that hold a session's other chains: subagents beside it, or in a folder of its own.

Rules: each file has a fresh reader, and its header is dropped, for the session's own holds; a chain whose
name is taken (or is `main`) goes by its file's name, so that chains of two files are never mixed up; a
file that cannot be read is a problem, not the end.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from lore.errors import LoreError
from lore.formats.base import Read
from lore.formats.registry import recognise
from lore.model.codes import Code, Problem
from lore.model.events import MAIN, Event, OpaqueEvent, SessionStarted
from lore.model.measured import Measurement
from lore.model.turn import Exchange, Turn
from lore.recording import corpus
from lore.recording.base import Problems


class SessionChains:
    """The chains of one session, its own file's and those of its companions."""

    def __init__(self, paths: Sequence[str], problems: Problems, known: Collection[str] = ()) -> None:
        self._paths = paths
        self._problems = problems
        self._taken = {MAIN, *known}
        self._started = bool(known)

    def noted(self, reads: Iterator[Read]) -> Iterator[Read]:
        """Pass on the session's own reads, and remember its chains."""
        for read in reads:
            self._started = self._started or isinstance(read.value, SessionStarted)
            self._taken.add(MAIN if isinstance(read.value, Problem | Exchange | Measurement) else read.value.chain)
            yield read

    def reads(self) -> Iterator[tuple[str, Read]]:
        """Yield what the companions hold, each read with the name of its file."""
        for path in self._paths:
            shown = corpus.show(path)
            try:
                for read in self._file(path, shown):
                    yield shown, read
            except LoreError as error:
                self._problems.add(Problem(Code.UNREADABLE_FILE, error.message), shown)

    def _file(self, path: str, shown: str) -> Iterator[Read]:
        opened = corpus.open_head(path)
        kind = recognise(opened.head)
        if kind is None or kind.yields != "events":
            raise LoreError(f"{shown} is no session log")
        reader = kind()
        stored = corpus.is_in_database(path)
        stem = shown.rpartition("#")[2] if stored else os.path.splitext(os.path.basename(shown))[0]
        names: dict[str, str] = {}
        for data in opened.data:
            yield from self._renamed(reader.feed(data), names, stem, shown)
        yield from self._renamed(reader.finish(), names, stem, shown)

    def _renamed(self, found: Iterable[Read], names: dict[str, str], stem: str, shown: str) -> Iterator[Read]:
        for read in found:
            event = read.value
            if isinstance(event, Problem):
                self._problems.add(event, shown)
                continue
            if isinstance(event, Exchange | Measurement | Turn) or (
                isinstance(event, SessionStarted) and self._started
            ):
                continue
            if not isinstance(event, OpaqueEvent):
                read = Read(self._named(event, names, stem), read.line, read.byte)
            yield read

    def _named(self, event: Event, names: dict[str, str], stem: str) -> Event:
        self._started = self._started or isinstance(event, SessionStarted)
        name = names.get(event.chain)
        if name is None:
            name = names[event.chain] = self._free(event.chain, stem)
        return event if name == event.chain else msgspec.structs.replace(event, chain=name)

    def _free(self, chain: str, stem: str) -> str:
        """Choose a name that no other chain has: the chain's own, else its file's, else that with a number."""
        name, number = chain, 1
        while name in self._taken:
            name = stem if number == 1 else f"{stem}-{number}"
            number += 1
        self._taken.add(name)
        return name
