"""What the scenarios of stores share: opening, lines of logs, adding, errors that are expected.

Each store that a scenario opens is verified when the scenario is through, closed, and opened again: what it held is
there as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pytest

from lore.model.canonical import encode
from lore.store.base import Head, SessionData, SessionDelta, Store, StoreError
from lore.store.deltas import save_delta

Error = TypeVar("Error", bound=StoreError)

AT = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:05:00Z"


class Scenarios:
    """What a store's contract is given."""

    restarts: ClassVar[bool] = True
    """Whether a store that is opened at the same place again holds what was stored there."""

    def make(self, place: Path) -> Store:
        """Open the store that lives at `place`, a folder of the test's own; again, it is the store after a restart."""
        raise NotImplementedError

    def stamp(self, place: Path, version: int) -> int | None:
        """Write a format version into the closed store at `place` and return the one that stood there.

        None where the store keeps none: what is about versions is then skipped.
        """
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> Generator[Store]:
        """Give a scenario a store of its own."""
        with self.opened(tmp_path) as store:
            yield store

    @contextmanager
    def opened(self, place: Path) -> Generator[Store]:
        """Open a store for a scenario; when it is through, what is stored verifies and is there after a restart."""
        place.mkdir(parents=True, exist_ok=True)
        with closing(self.make(place)) as store:
            yield store
            verified, listed, before = store.verify(), store.list(), stored(store)
            assert verified.damage == ()
            assert verified.sessions == len(listed)
            assert verified.events == sum(summary.head.number for summary in listed)
        if self.restarts:
            with closing(self.make(place)) as store:
                assert stored(store) == before

    @contextmanager
    def several(self, place: Path, count: int) -> Generator[Sequence[Store]]:
        """Open so many stores at one place; one that lives in its process alone is given several times."""
        with ExitStack() as stack:
            if not self.restarts:
                yield [stack.enter_context(self.opened(place))] * count
            else:
                yield [stack.enter_context(self.opened(place)) for _ in range(count)]

    def needs_restarts(self) -> None:
        """Skip a scenario that opens a store twice, where that gives another store."""
        if not self.restarts:
            pytest.skip("what is stored ends with the store's object")


def raised(kind: type[Error], call: Callable[[], object]) -> Error:
    """Return the error that a call raises; anything else is a failure."""
    try:
        found = call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected; the call gave {found!r:.200}")


def header(session_id: str = "s", **more: object) -> bytes:
    """Return a header's line."""
    return line("session_started", v=1, session_id=session_id, at=AT, **more)


def line(kind: str, **fields: object) -> bytes:
    """Return an event's line."""
    return encode({"kind": kind, **fields})


def message(uuid: str, text: str = "hello") -> bytes:
    """Return the line of a user's message."""
    return line("append", item={"type": "user_message", "uuid": uuid, "text": text})


def begun(store: Store, *lines: bytes, session_id: str = "s", **more: object) -> Head:
    """Begin a session, with events behind its header."""
    head = store.create(header(session_id, **more))
    return add(store, *lines, session_id=session_id, base=head) if lines else head


def add(store: Store, *lines: bytes, session_id: str = "s", base: Head | None = None, **more: Any) -> Head:
    """Add lines behind a base, or behind what is stored; the delta arrives twice, and has the same answer."""
    base = store.load(session_id).head if base is None else base
    delta = SessionDelta(base=base, new_events=lines, **more)
    head = save_delta(store, session_id, delta)
    assert save_delta(store, session_id, delta) == head
    return head


def adding(store: Store, *lines: bytes, session_id: str = "s", **more: Any) -> Callable[[], Head]:
    """Return a call of `add`."""
    return lambda: add(store, *lines, session_id=session_id, **more)


def events(store: Store, session_id: str = "s") -> tuple[bytes, ...]:
    """Return the lines of a session."""
    return store.load(session_id).events


def ids(store: Store, project_id: str | None = None) -> list[str]:
    """Return the ids of the sessions, as they are listed."""
    return [summary.session_id for summary in store.list(project_id)]


def stored(store: Store) -> list[tuple[object, ...]]:
    """Return all that a store holds of its sessions, its clients apart."""
    return [
        (summary, store.load(name), list(store.prompt_deltas(name)))
        for name, summary in zip(ids(store), store.list(), strict=True)
    ]


class Hiding:
    """A store whose `save_delta` is not there until `able` says so."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.able = False
        self.saves: list[SessionData] = []

    def save(self, data: SessionData) -> Head:
        """Save in full, and remember it."""
        self.saves.append(data)
        return self.inner.save(data)

    def __getattr__(self, name: str) -> object:
        if name == "save_delta" and not self.able:
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def store(self) -> Store:
        """The same as a store."""
        return cast("Store", self)
