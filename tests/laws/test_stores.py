"""Laws of stores: a loaded session folds to the saved state, and every store answers like the one in memory.

A history is what a harness may do: events in any order, deltas of any length, removed items, saves that fail before or
after they are done, whole saves, other writers, restarts. At each moment the acknowledged events are in the store,
once and in order. Of two stores with the same calls, valid and invalid, one is closed and opened again in between.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from helpers.states import dump_state
from helpers.storing import opened, stored_session
from helpers.strategies import any_events
from lore.model.events import Remove, Saved, SessionStarted, encode
from lore.session import Session
from lore.store.base import ConflictError, Head, SessionDelta, Store, StoreError
from lore.store.lines import NOTHING, digest_lines
from lore.store.session import StoredSession
from lore.testing.stores import add, header, line, message
from store.harness import Faulty

HEADER = SessionStarted(session_id="s", project_id="p")
_DONE = ("save", "fail", "lose the answer", "save in full", "another writer", "restart")


def _without_saved(events):
    """Return events without `saved` records, which only a store of logs may write."""
    return [event for event in events if not isinstance(event, Saved)]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), any_events(max_size=4).map(_without_saved)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from(["u1", "u2", "u3"]), max_size=2, unique=True)),
        st.tuples(st.sampled_from(_DONE), st.none()),
    ),
    max_size=14,
)


def state_of(session: Session) -> bytes:
    return dump_state(session.state)


class History:
    """A harness with its store, all events (`log`), and the number of acknowledged ones (`acked`)."""

    def __init__(self, kind: str, place: Path) -> None:
        self._kind, self._place = kind, place
        self._open()
        self.kept = stored_session(self.faulty.store, HEADER)
        self.log, self.acked = [encode(HEADER)], 1
        self._others = 0
        self.leaves: set[str | None] = {"s", None}

    def _open(self) -> None:
        self.store = opened(self._kind, self._place)
        self.faulty = Faulty(self.store)

    def play(self, name: str, value: object) -> None:
        """Do one step, then assert that the store holds the acknowledged events."""
        getattr(self, "_" + name.replace(" ", "_"))(value)
        stored = list(self.store.load("s").events)
        assert stored == self.log[: len(stored)]
        assert len(stored) >= self.acked
        digest = digest_lines(bytes.fromhex(NOTHING.digest), stored)[-1].hex()
        assert (self.store.load("s").head.number, self.store.load("s").head.digest) == (len(stored), digest)

    def _apply(self, events) -> None:
        self.kept.apply(*events)
        self.log += map(encode, events)

    def _remove(self, uuids) -> None:
        self._apply([Remove(uuids=tuple(uuids))] if uuids else [])

    def _save(self, _) -> None:
        self._note_leaf()
        try:
            self.kept.save()
        except ConflictError:
            self._take_others()
            self.kept.save()
        if self.kept.head.number < self.store.load("s").head.number:  # nothing was sent, so no conflict was raised
            self._take_others()
        self.acked = len(self.log)
        assert state_of(Session.read(self.store.load("s").log)) == state_of(self.kept)
        assert self.kept.delta().new_events == ()
        data = self.store.load("s")
        assert data.leaf_id == self.kept.leaf_id
        self._note_leaf()  # the leaf of an earlier save remains if another writer added the last item
        assert data.leaf_id in self.leaves

    def _note_leaf(self) -> None:
        last = self.kept.state.main().entries.last()
        self.leaves.add("s" if last is None else last.item.uuid)

    def _take_others(self) -> None:
        """Append the waiting events to those that another writer stored."""
        self.kept.reload()
        self.log = [*self.store.load("s").events, *self.kept.delta().new_events]

    def _fail(self, _) -> None:
        self.faulty.before = 1
        self._try()

    def _lose_the_answer(self, _) -> None:
        self.faulty.after = 1
        self._try()

    def _try(self) -> None:
        head = self.kept.head
        self._note_leaf()
        try:
            self.kept.save()
        except StoreError:
            assert self.kept.head == head
        self.faulty.before = self.faulty.after = 0

    def _save_in_full(self, _) -> None:
        """Somebody saves for the harness, whole; its next delta finds its events there."""
        data = self.store.load("s")
        if data.head.number == self.kept.head.number:
            new = (*data.events, *self.kept.delta().new_events)
            assert self.store.save(msgspec.structs.replace(data, events=new)).number == len(new)

    def _another_writer(self, _) -> None:
        """Have another writer add an event, if this one has saved all of its own."""
        if self.store.load("s").head.number == len(self.log):
            self._others += 1
            self.log.append(message(f"other {self._others}"))
            add(self.store, self.log[-1])

    def _restart(self, _) -> None:
        """Kill the harness: only unsaved events are lost."""
        if self._kind != "memory":
            self.store.close()
            self._open()
        self.kept = StoredSession.open(self.faulty.store, "s")
        data = self.store.load("s")
        self.log = list(data.events)
        assert state_of(Session.read(self.store.load("s").log)) == state_of(self.kept)


def played(kind: str, steps) -> None:
    with tempfile.TemporaryDirectory() as place:
        history = History(kind, Path(place))
        for name, value in (*steps, ("save", None), ("restart", None)):
            history.play(name, value)
        assert history.store.verify().damage == ()
        history.store.close()


@given(_steps)
def test_memory_store_loads_saved_state(steps):
    played("memory", steps)


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
@given(_steps)
@settings(max_examples=12)
def test_other_stores_load_saved_state(kind, steps):
    played(kind, steps)


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
        value = call()
    except StoreError as error:
        return type(error), str(error), getattr(error, "base", None), getattr(error, "stored", None)
    return list(value) if isinstance(value, list) else value


class Alike(RuleBasedStateMachine):
    """Compares a store with the one in memory."""

    kind: ClassVar[str]

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

    def _record_head(self, value: Any) -> None:
        if isinstance(value, Head):
            self.heads.append(value)

    @initialize(name=_names)
    def begin(self, name):
        self._record_head(self.both(lambda store: store.create(header(name))))

    @rule(name=_names, parent=st.one_of(st.none(), _names), project=st.one_of(st.none(), _projects))
    def create(self, name, parent, project):
        more = {"parent_session_id": parent, "project_id": project}
        text = header(name, **{key: value for key, value in more.items() if value is not None})
        self._record_head(self.both(lambda store: store.create(text)))

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
            self._record_head(self.both(lambda store: store.save_delta(name, delta)))

    @rule(name=_names, after=st.integers(-1, 6))
    def load(self, name, after):
        self.both(lambda store: store.load(name, after=after))
        loaded = self.both(lambda store: store.load(name))
        if not isinstance(loaded, tuple):
            self.loaded.append(loaded)

    @rule(back=st.integers(1, 3), new=st.lists(_lines, max_size=2), metadata=_metadata, drop=st.booleans())
    def save(self, back, new, metadata, drop):
        """Save an earlier load, unchanged or with other events at its end."""
        if self.loaded:
            data = self.loaded[-min(back, len(self.loaded))]
            events = (*(data.events[:-1] if drop else data.events), *new)
            data = msgspec.structs.replace(data, events=events, metadata=metadata)
            self._record_head(self.both(lambda store: store.save(data)))

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
        self.subject.close()
        self.subject = opened(self.kind, self.place)

    @rule()
    def vacuum(self):
        assert self.subject.vacuum() >= 0

    @invariant()
    def they_hold_the_same(self):
        for summary in self.both(lambda store: store.list()):
            self.both(lambda store, name=summary.session_id: store.load(name))
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


TestJsonl = case_of(AlikeJsonl, 15)
TestSqlite = case_of(AlikeSqlite, 15)
