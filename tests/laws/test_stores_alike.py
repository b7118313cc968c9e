"""Law of stores: every store answers like the one in memory, with the same values and errors.

Two stores get the same calls, valid and invalid; one of them is closed and opened again in between.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from helpers.storing import WITHOUT, opened
from lore.store.base import Head, SessionDelta, Store, StoreError
from lore.store.deltas import save_delta
from lore.store.lines import NOTHING
from lore.testing.scenarios import header, line, message

_names = st.sampled_from(["a", "A", "é", "e\u0301", "../x"])
_projects = st.sampled_from(["p", "q", "%"])
_clients = st.sampled_from(["c", "C", "nobody"])
_lines = st.one_of(
    st.builds(message, st.sampled_from(["u1", "u2"]), st.sampled_from(["", "text", "\ud83d"])),
    st.builds(
        lambda seq, at, text: line("prompt_delta", seq=seq, selector={"insert_at": at}, content=text),
        st.sampled_from([1, 2, 10**30]), st.integers(0, 3), st.sampled_from([None, "one", "two"]),
    ),
    st.sampled_from([b"{}", b'{"kind":"own" , "n":1.0}', b"no line", b'{"a":\n1}', line("saved", size=3)]),
)  # fmt: skip
_metadata = st.sampled_from([b"{}", b'{"a":1}', b'{"a": 1.0, "b":[]}', b'{"b":null}', b"[]"])
_leaves = st.sampled_from([None, None, "u1", "u2", ""])
_times = st.sampled_from([None, "2026-01-01T00:00:00Z", "1999-01-01T00:00:00Z"])


def answer(call: Callable[[], Any]) -> Any:
    """Return the value of a call, or its error with the heads that it names."""
    try:
        found = call()
    except StoreError as error:
        return type(error), str(error), getattr(error, "base", None), getattr(error, "stored", None)
    return list(found) if isinstance(found, list) else found


class Alike(RuleBasedStateMachine):
    """Compares a store with the one in memory."""

    kind: ClassVar[str] = WITHOUT

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.place = Path(self._folder.name)
        self.model, self.subject = opened("memory", self.place), opened(self.kind, self.place)
        self.heads: list[Head] = [NOTHING]
        self.loaded: list[Any] = []

    def teardown(self) -> None:
        self.subject.close()
        self._folder.cleanup()

    def both(self, call: Callable[[Store], Any]) -> Any:
        """Call both stores, and assert that they answer equally."""
        expected = answer(lambda: call(self.model))
        assert answer(lambda: call(self.subject)) == expected
        return expected

    def _known(self, found: Any) -> None:
        if isinstance(found, Head):
            self.heads.append(found)

    @initialize(name=_names)
    def begin(self, name):
        self._known(self.both(lambda store: store.create(header(name))))

    @rule(name=_names, parent=st.one_of(st.none(), _names), project=st.one_of(st.none(), _projects))
    def create(self, name, parent, project):
        more = {"parent_session_id": parent, "project_id": project}
        text = header(name, **{key: value for key, value in more.items() if value is not None})
        self._known(self.both(lambda store: store.create(text)))

    @rule(
        name=_names, back=st.integers(0, 3), new=st.lists(_lines, max_size=3), leaf=_leaves, metadata=_metadata,
        removed=st.lists(st.sampled_from(["u1", "u2"]), max_size=2), at=_times, twice=st.booleans(),
    )  # fmt: skip
    def add(self, name, back, new, leaf, metadata, removed, at, twice):
        """Save a delta on the stored head, or on a head that any session once had."""
        data = answer(lambda: self.model.load(name))
        base = self.heads[-min(back, len(self.heads))] if back or isinstance(data, tuple) else data.head
        delta = SessionDelta(
            base=base, new_events=tuple(new), removed_ids=tuple(removed), leaf_id=leaf, metadata=metadata,
            updated_at=at,
        )  # fmt: skip
        for _ in range(1 + twice):
            self._known(self.both(lambda store: save_delta(store, name, delta)))

    @rule(name=_names, after=st.integers(-1, 6))
    def load(self, name, after):
        self.both(lambda store: store.load(name, after=after))
        found = self.both(lambda store: store.load(name))
        if not isinstance(found, tuple):
            self.loaded.append(found)

    @rule(back=st.integers(1, 3), new=st.lists(_lines, max_size=2), metadata=_metadata, drop=st.booleans())
    def save(self, back, new, metadata, drop):
        """Save an earlier load, unchanged or with other events at its end."""
        if self.loaded:
            data = self.loaded[-min(back, len(self.loaded))]
            events = (*(data.events[:-1] if drop else data.events), *new)
            data = msgspec.structs.replace(data, events=events, metadata=metadata)
            self._known(self.both(lambda store: store.save(data)))

    @rule(name=_names)
    def delete(self, name):
        self.both(lambda store: store.delete(name))

    @rule(name=_names, project=st.one_of(_projects, st.just("")))
    def move(self, name, project):
        self.both(lambda store: store.move(name, project))

    @rule(key=_clients, name=_names, replace=st.booleans())
    def bind(self, key, name, replace):
        self.both(lambda store: store.bind(key, name, replace=replace))

    @rule()
    def restart(self):
        if self.kind != WITHOUT:
            self.subject.close()
            self.subject = opened(self.kind, self.place)

    @rule()
    def vacuum(self):
        assert self.subject.vacuum() >= 0

    @invariant()
    def they_hold_the_same(self):
        names = [one.session_id for one in self.both(lambda store: store.list())]
        for name in names:
            self.both(lambda store, name=name: store.prompt_deltas(name))
        self.both(lambda store: [store.resolve(key) for key in ("c", "C", "nobody")])
        self.both(lambda store: store.list("p"))
        assert self.subject.verify().damage == ()


class AlikeJsonl(Alike):
    kind = "jsonl"


class AlikeSqlite(Alike):
    kind = "sqlite"


def case_of(machine: type[Alike], examples: int) -> Any:
    """Return the test case of a machine."""
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=20)
    return case


TestWithoutDeltas = case_of(Alike, 40)
TestJsonl = case_of(AlikeJsonl, 15)
TestSqlite = case_of(AlikeSqlite, 15)
