"""Stores: what saving a delta and loading cost in a long session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import orjson

from bench import clock, generate
from lore.store.base import Head, SessionDelta, Store
from lore.store.deltas import save_delta
from lore.store.registry import open_store
from plugins.postgres.server import Server, binaries

BATCH = 4_000_000  # bytes of events that are saved at once where only the session's length counts
Lines = tuple[bytes, ...]
Figures = tuple[str, str, str, bool | None]


class Side(NamedTuple):
    """A session that is saved turn by turn: the store, its id, how far it is, and the turns that come."""

    store: Store
    session_id: str
    turns: Iterator[Lines]

    def save(self, head: Head) -> Head:
        """Save its next turn."""
        return save_delta(self.store, self.session_id, SessionDelta(base=head, new_events=next(self.turns)))


class _Saved:
    """A side that remembers its head, so that a save can be timed alone."""

    def __init__(self, side: Side, head: Head) -> None:
        self._side, self._head = side, head

    def __call__(self) -> None:
        self._head = self._side.save(self._head)


def urls(folder: Path, stack: ExitStack) -> dict[str, str]:
    """Return a URL of each kind of store; PostgreSQL's where it is installed."""
    place = tempfile.mkdtemp(dir=folder)
    found = {"memory": "memory:", "jsonl": f"jsonl:{place}/jsonl", "sqlite": f"sqlite:{place}/store.db"}
    installed = binaries()
    if installed is not None:
        found["postgresql"] = stack.enter_context(Server(installed)).database()
    return found


def growth(folder: Path, turns: int, pairs: int) -> Figures:
    """One turn more of a long session against one of a session of a hundredth."""
    few = max(2, turns // 100)
    measure = f"`save_delta` of one turn at turn {turns:,} against turn {few:,}, per store"
    said: list[str] = []
    worst = 0.0
    with ExitStack() as stack:
        for name, url in urls(folder, stack).items():
            store = open_store(url)
            long, short = _begun(store, "long", turns), _begun(store, "short", few)
            for side in (long, short):  # once, so that both are as warm as they get
                side()
            found = clock.alternate(long, short, pairs, clock.WALL)
            ratio = found.left_seconds / found.right_seconds  # of medians: one fsync differs from the next by far
            times = f"{found.left_seconds * 1e3:.2f} ms against {found.right_seconds * 1e3:.2f}"
            said.append(f"{name} {ratio:.2f} ({times})")
            worst = max(worst, ratio)
            store.close()
    return measure, "at most 1.2 times", "; ".join(said), worst <= 1.2


def _begun(store: Store, session_id: str, turns: int) -> _Saved:
    """Store a session of so many turns, and give what saves the next ones."""
    every = _turns(session_id, turns + 1_000)
    head = Head(0, "", "")
    for lines in _batches(islice(every, turns)):
        if not head.number:
            head = store.create(lines[0])
            lines = lines[1:]
        head = save_delta(store, session_id, SessionDelta(base=head, new_events=lines))
    return _Saved(Side(store, session_id, every), head)


def _turns(session_id: str, turns: int) -> Iterator[Lines]:
    """Yield the lines of each turn; the first turn's begin with the header."""
    for data in generate.by_turn(turns):
        lines = tuple(data.replace(b'"bench"', b'"%b"' % session_id.encode(), 1).splitlines())
        if lines:
            yield lines


def _batches(turns: Iterator[Lines]) -> Iterator[Lines]:
    waiting: list[bytes] = []
    size = 0
    for lines in turns:
        waiting += lines
        size += sum(map(len, lines))
        if size >= BATCH:
            yield tuple(waiting)
            waiting, size = [], 0
    if waiting:
        yield tuple(waiting)


def loaded(folder: Path, turns: int, pairs: int) -> Figures:
    """Loading a long session against parsing it."""
    url = f"sqlite:{folder}/load.db"
    store = open_store(url)
    _begun(store, "load", turns)
    lines = store.load("load").events
    size = sum(map(len, lines))
    found = clock.alternate(
        lambda: store.load("load"), lambda: [orjson.loads(line) for line in lines], pairs, clock.WALL
    )
    store.close()
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s for {size / 1e6:,.1f} MB"
    return (
        f"load of a {size / 1e6:,.0f} MB session from sqlite against `orjson.loads` over its lines",
        "at most 2 times",
        said,
        found.median <= 2,
    )
