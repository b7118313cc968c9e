"""A harness that keeps its session in a store: what a `StoredSession` is promised, over every store that lore has."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from msgspec import Raw

from helpers.states import dump_state
from lore.model.events import Append
from lore.model.items import UserMessage
from lore.session import Session, event
from lore.store.base import Head, SessionDelta, Store, StoreError
from lore.store.deltas import save_delta
from lore.store.session import StoredSession
from lore.testing.scenarios import StoreScenarios

HEADER = event("session_started", session_id="s", system="You help.", tools=[])


class Faulty:
    """A store whose next saves by delta fail: before anything is stored, or when all is and the answer is lost."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.before = self.after = 0
        self.sent: list[SessionDelta] = []

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        """Save, or fail."""
        self.sent.append(delta)
        if self.before:
            self.before -= 1
            raise StoreError("no room")
        head = save_delta(self.inner, session_id, delta)
        if self.after:
            self.after -= 1
            raise StoreError("the answer was lost")
        return head

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    @property
    def store(self) -> Store:
        """The same as a store."""
        return cast("Store", self)


def _harness(store: Store) -> tuple[Faulty, StoredSession]:
    """Begin a session in a store that can fail."""
    faulty = Faulty(store)
    return faulty, StoredSession.begin(faulty.store, HEADER)


def say(stored: StoredSession, *uuids: str) -> StoredSession:
    """Apply messages, of the user where the name begins with a `u`, and return the session."""
    for uuid in uuids:
        who = "user" if uuid.startswith("u") else "assistant"
        stored.apply(event("append", item={"type": f"{who}_message", "uuid": uuid, "text": f"this is {uuid}"}))
    return stored


def items(session: Session) -> list[str]:
    """Return the names of the items of a session's timeline."""
    return [entry.item.uuid for entry in session.state.main().entries]


def assert_stored(stored: StoredSession) -> None:
    """Hold that folding what the store has gives the state that the harness has."""
    folded = Session.read(stored.store.load("s").log)
    assert dump_state(folded.state) == dump_state(stored.session.state)


class HarnessScenarios(StoreScenarios):
    """What a `StoredSession` is promised."""

    def test_the_saved_set_stays_after_a_save_that_failed(self, store: Store) -> None:
        faulty, stored = _harness(store)
        say(stored, "u1", "a1")
        saved, head = set(stored.saved), stored.head
        faulty.before = 2
        for _ in range(2):
            with pytest.raises(StoreError, match="no room"):
                stored.save()
            assert (stored.saved, stored.head) == (saved, head)
        assert store.load("s").head == head
        say(stored, "u2").save()
        assert stored.saved == {1, 2, 3, 4}
        assert [len(delta.new_events) for delta in faulty.sent] == [2, 2, 3]
        assert_stored(stored)

    def test_an_answer_that_was_lost_doubles_nothing(self, store: Store) -> None:
        faulty, stored = _harness(store)
        say(stored, "u1").save()
        stored.remove("u1")
        say(stored, "u2")
        stored.note({"a": 1}, leaf_id="u2")
        faulty.after = 1
        with pytest.raises(StoreError, match="the answer was lost"):
            stored.save()
        assert stored.saved == {1, 2}
        say(stored, "a2").save()
        assert store.load("s").head.number == 5
        assert items(stored.session) == ["u2", "a2"]
        assert_stored(stored)

    def test_what_no_store_takes_is_refused_at_once_and_stops_no_later_save(self, store: Store) -> None:
        """Held for the next save, it made that fail, and each one after it."""
        huge = Append(item=UserMessage("huge", Raw(b'"' + b"x" * (12 * 1024 * 1024) + b'"')))
        stored = StoredSession.begin(store, HEADER)
        say(stored, "u1")
        with pytest.raises(StoreError):
            stored.apply(huge)
        with pytest.raises(StoreError):
            stored.note({"a": 1}, leaf_id="\0")
        say(stored, "a1")
        assert stored.save().number == 3
        assert items(stored.session) == ["u1", "a1"]
        assert_stored(stored)

    def test_a_resumed_session_emits_only_what_came_after_load(self, store: Store) -> None:
        faulty, first = _harness(store)
        say(first, "u1", "a1").save()
        again = StoredSession.begin(faulty.store, HEADER)
        assert again.delta().new_events == ()
        say(again, "u2").save()
        assert [len(delta.new_events) for delta in faulty.sent] == [2, 1]
        assert items(again.session) == ["u1", "a1", "u2"]
        assert_stored(again)

    def test_a_session_is_resumed_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            stored = StoredSession.begin(store, HEADER)
            say(stored, "u1", "a1").save()
            say(stored, "u2")  # never saved: as if the harness had been killed
        with self.opened(tmp_path) as store:
            stored = StoredSession.begin(store, HEADER)
            assert items(stored.session) == ["u1", "a1"]
            say(stored, "u2")
            assert stored.save().number == 4
            assert_stored(stored)

    def test_the_delta_after_a_compaction_carries_its_event_and_nothing_again(self, store: Store) -> None:
        faulty, stored = _harness(store)
        say(stored, "u1", "a1", "u2", "a2").save()
        before = store.load("s").events
        compacted = event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2", "a2"], summary="x")
        stored.apply(compacted)
        say(stored, "u3").save()
        assert [len(delta.new_events) for delta in faulty.sent] == [4, 2]
        assert faulty.sent[-1].removed_ids == ()
        assert b'"compact_applied"' in faulty.sent[-1].new_events[0]
        assert store.load("s").events[: len(before)] == before
        assert items(stored.session) == ["d", "u2", "a2", "u3"]
        assert_stored(stored)

    def test_an_overflow_is_recovered_from_by_a_tombstone(self, store: Store) -> None:
        faulty, stored = _harness(store)
        say(stored, "u1", "failed").save()
        stored.remove("failed")
        stored.save()
        assert (faulty.sent[-1].removed_ids, faulty.sent[-1].new_events) == (("failed",), ())
        say(stored, "a1").save()
        assert items(Session.read(store.load("s").log)) == ["u1", "a1"]
        assert len(store.load("s").events) == 5
        assert_stored(stored)
