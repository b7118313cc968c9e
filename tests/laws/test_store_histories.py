"""Law of stores: a loaded session folds to the saved state, after any history of saves.

A history is what a harness may do: events in any order, deltas of any length, removed items, saves that fail before or
after they are done, whole saves, other writers, restarts. At each moment the acknowledged events are in the store,
once and in order.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.states import dump_state
from helpers.storing import WITHOUT, opened
from helpers.strategies import any_events
from lore.model.canonical import canonical
from lore.model.events import Remove, Saved, SessionStarted, encode
from lore.session import Session
from lore.store.base import ConflictError, StoreError
from lore.store.deltas import lines_of
from lore.store.lines import NOTHING, digest_lines
from lore.store.session import StoredSession
from lore.testing.scenarios import add, message
from store.harness import Faulty

HEADER = SessionStarted(session_id="s", project_id="p")
_DONE = ("save", "fail", "lose the answer", "save in full", "another writer", "restart", "note")


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
        self.kept = StoredSession.begin(self.faulty.store, HEADER)
        self.log, self.acked = [encode(HEADER)], 1
        self._others = self._notes = 0
        self.leaves: set[str | None] = {"s", None}
        self.noted: tuple[bytes, str | None] = (b"{}", None)

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
        self.kept.remove(*uuids)
        self.log += [encode(Remove(uuids=tuple(uuids)))] if uuids else []

    def _note(self, _) -> None:
        """Set metadata and a leaf that differ from all earlier ones."""
        self._notes += 1
        self.kept.note({"note": self._notes}, leaf_id=f"leaf {self._notes}")
        self.noted = b'{"note":%d}' % self._notes, f"leaf {self._notes}"

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
        assert state_of(Session.read(self.store.load("s").log)) == state_of(self.kept.session)
        assert self.kept.delta().new_events == ()
        data = self.store.load("s")
        assert (canonical(data.metadata), data.leaf_id) == (canonical(self.kept.metadata), self.kept.leaf_id)
        assert data.metadata == self.noted[0]
        self._note_leaf()  # the leaf of an earlier save remains if another writer added the last item
        assert data.leaf_id in (self.noted[1], *self.leaves), "the noted leaf, or the last item"

    def _note_leaf(self) -> None:
        last = self.kept.session.state.main().entries.last()
        self.leaves.add("s" if last is None else last.item.uuid)

    def _take_others(self) -> None:
        """Append the waiting events to those that another writer stored."""
        self.kept.reload()
        self.log = [*self.store.load("s").events, *lines_of(self.kept.delta())]

    def _fail(self, _) -> None:
        self.faulty.before = 1
        self._try()

    def _lose_the_answer(self, _) -> None:
        self.faulty.after = 1
        self._try()

    def _try(self) -> None:
        saved = set(self.kept.saved)
        self._note_leaf()
        try:
            self.kept.save()
        except StoreError:
            assert self.kept.saved == saved
        self.faulty.before = self.faulty.after = 0

    def _save_in_full(self, _) -> None:
        """Somebody saves for the harness, whole; its next delta finds its events there."""
        data = self.store.load("s")
        if data.head.number == self.kept.head.number:
            new = (*data.events, *lines_of(self.kept.delta()))
            assert self.store.save(msgspec.structs.replace(data, events=new)).number == len(new)

    def _another_writer(self, _) -> None:
        """Let another writer add an event, if this one has saved all of its own."""
        if self.store.load("s").head.number == len(self.log):
            self._others += 1
            self.log.append(message(f"other {self._others}"))
            add(self.store, self.log[-1])

    def _restart(self, _) -> None:
        """Kill the harness: only unsaved events are lost."""
        if self._kind not in ("memory", WITHOUT):
            self.store.close()
            self._open()
        self.kept = StoredSession.open(self.faulty.store, "s")
        data = self.store.load("s")
        self.log, self.noted = list(data.events), (data.metadata, data.leaf_id)
        assert state_of(Session.read(self.store.load("s").log)) == state_of(self.kept.session)


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


@pytest.mark.parametrize("kind", [WITHOUT, "jsonl", "sqlite"])
@given(_steps)
@settings(max_examples=12)
def test_other_stores_load_saved_state(kind, steps):
    played(kind, steps)
