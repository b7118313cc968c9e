"""The base class of recordings, and the plug-ins that help to read and judge them.

A recording is one opened input that yields turns. There are three kinds: a session log (`events.py`), recorded
requests, and assembled prompts (`requests.py`); `opening.py` chooses one for an input.

Plug-ins are published by other packages under lore's entry-point groups: readers, dialects, rules, caches, stores,
reports. They are loaded once, when a command begins to read. A plug-in never replaces a part of lore of the same name;
one that cannot be loaded is an error that names it.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from lore.errors import LoreError
from lore.formats.base import Read, Reader
from lore.formats.registry import add_format
from lore.model.codes import Code, Problem
from lore.model.deferred import Registry
from lore.model.results.measured import Measurement
from lore.model.state import FoldedSession
from lore.model.turn import Turn
from lore.plugins import entry_points, register_plugins
from lore.recording import corpus

if TYPE_CHECKING:
    from lore.recording.opening import Options

HINT_FORMATS = "`lore formats` lists what lore reads; --format NAME reads the file as that"
HINT_MEASURED = "logs of vllm, sglang and llama-server, and scrapes of their /metrics: `lore guide formats`"
KEPT = 20  # problems of each code in each file: a million bad lines must not cost a million records
SELDOM = (200_000, 50, 1_000)  # thresholds of the garbage collector


class UnrecognisedError(LoreError):
    """The input can be read, but no reader recognises it."""

    is_damaged = False  # it is empty, or its beginning is cut off, and its name is that of a recording


class Template(Struct, frozen=True):
    """A chat template."""

    source: str  # its text
    file: str  # the name of its file


class Problems:
    """The problems of one run: all are counted, a bounded number of each code and file is kept."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self._taken = 0
        self.counts: Counter[tuple[str, str | None]] = Counter()

    def add(self, problem: Problem, file: str | None, line: int | None = None, byte: int | None = None) -> None:
        """Count a problem and keep it, with the given place if it has none."""
        self.counts[problem.code, file] += 1
        if self.counts[problem.code, file] <= KEPT:
            placed = msgspec.structs.replace(
                problem,
                file=problem.file or file,
                line=line if problem.line is None else problem.line,
                byte=byte if problem.byte is None else problem.byte,
            )
            self.kept.append(placed)

    def take(self) -> list[Problem]:
        """Return the problems kept since the last call."""
        start, self._taken = self._taken, len(self.kept)
        return self.kept[start:]

    @property
    def total(self) -> int:
        """How many there were, kept or not."""
        return sum(self.counts.values())


class Recording:
    """A reader with the bytes of its input. Iterate `turns()` once; then the other values are final."""

    def __init__(self, path: str, reader: Reader, data: Iterable[bytes], problems: Problems, options: Options) -> None:
        self.path = path
        self.shown = corpus.show(path)
        self.reader = reader
        self.problems = problems
        self.options = options
        self.companions: tuple[str, ...] = ()  # files with more chains of the session, read after it
        self.boundaries: list[tuple[str, str | None]] = []  # uuid and time of each compaction
        self.measures: list[Measurement] = []  # what an engine's log measured of its cache
        self._data = self.until_torn(data, self.shown)

    @property
    def events(self) -> bool:
        """Whether this is a session log, not a list of requests."""
        return self.reader.yields == "events"

    @property
    def state(self) -> FoldedSession:
        """The session so far; recorded requests alone make none."""
        return FoldedSession(format=self.reader.name)

    @property
    def measures_nothing(self) -> str:
        """The message about an engine's log that measures nothing, with the first of its problems."""
        text = f"{self.shown} ({self.reader.name}) measures nothing of a cache"
        first = next((problem for problem in self.problems.kept if problem.file == self.shown), None)
        return text if first is None else f"{text}; line {first.line}: {first.message}"

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all chains."""
        raise NotImplementedError

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        return []

    def until_torn(self, data: Iterable[bytes], shown: str) -> Iterator[bytes]:
        """Yield the pieces of a file; that it ends in the middle of compressed data is a problem."""
        try:
            yield from data
        except corpus.TornFileError as error:
            self.problems.add(Problem(Code.TORN_LAST_LINE, error.message), shown)

    def reads(self) -> Iterator[Read]:
        """Yield what the reader finds; problems are collected and left out."""
        for read in self.every_read():
            if type(read.value) is Problem:
                self.problems.add(read.value, self.shown)
            elif type(read.value) is Measurement:
                self.measures.append(read.value)
            else:
                yield read

    def every_read(self) -> Iterator[Read]:
        """Yield what the reader finds, problems included."""
        return self.reader.read(self._data)


@contextmanager
def collected_seldom() -> Generator[None]:
    """Raise the garbage collector's thresholds while recordings are read; not for several threads at once.

    Events live as long as their session and hold no cycles. Searching for cycles took a fifth of the time (10,000
    turns) and found none.
    """
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


# Cache models are published as classes, dialects and rules as functions that make one. Stores are loaded by
# `lore.store.registry`, when a URL has their scheme.
PLUGIN_GROUPS = Registry[MutableMapping[str, Any]](
    {
        "lore.formats": "lore.formats.registry:READERS",
        "lore.dialects": "lore.prompt.dialects:DIALECTS",
        "lore.rules": "lore.judge.base:RULES",
        "lore.caches": "lore.cache.registry:CACHES",
    }
)
CALLED = frozenset(("lore.dialects", "lore.rules"))


@cache
def load_plugins() -> None:
    """Fill the registries; raises LoreError for a plug-in that cannot be loaded."""
    for group in PLUGIN_GROUPS:
        if entry_points(group):
            add = add_format if group == "lore.formats" else None
            register_plugins(group, PLUGIN_GROUPS[group], call=group in CALLED, add=add)
