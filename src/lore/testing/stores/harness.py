"""A harness that keeps its session in the store: what it sends, when it counts as saved, what it finds again."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from msgspec import Raw

from lore.model import checkpoint
from lore.model.events import Append
from lore.model.items import UserMessage
from lore.session import Session, event
from lore.store.base import Checkpoint, Head, SessionDelta, Store, StoreError
from lore.store.keeping import Kept
from lore.store.saving import save_delta
from lore.testing.stores.making import Scenarios, raised

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


def say(kept: Kept, *uuids: str) -> None:
    """Apply messages: of the user where the name begins with a `u`."""
    for uuid in uuids:
        who = "user" if uuid.startswith("u") else "assistant"
        kept.apply(event("append", item={"type": f"{who}_message", "uuid": uuid, "text": f"this is {uuid}"}))


def items(session: Session) -> list[str]:
    """Return the names of the items of a session's timeline."""
    return [entry.item.uuid for entry in session.state.main().entries]


def assert_stored(kept: Kept) -> None:
    """Hold that folding what the store has gives the state that the harness has."""
    stored = Session.read(kept.store.load("s").log)
    assert checkpoint.dump(stored.state) == checkpoint.dump(kept.session.state)


class HarnessScenarios(Scenarios):
    """What a harness with a `Kept` is promised."""

    def test_a_harness_sends_only_what_is_new(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            kept = Kept.begin(faulty.store, HEADER)
            for turn in range(3):
                say(kept, f"u{turn}", f"a{turn}")
                kept.save()
            kept.save()
            assert [len(delta.new_events) for delta in faulty.sent] == [2, 2, 2]
            assert_stored(kept)

    def test_the_saved_set_stays_after_a_save_that_failed(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            kept = Kept.begin(faulty.store, HEADER)
            say(kept, "u1", "a1")
            saved, head = set(kept.saved), kept.head
            faulty.before = 2
            for _ in range(2):
                assert str(raised(StoreError, kept.save)) == "no room"
                assert (kept.saved, kept.head) == (saved, head)
            assert inner.load("s").head == head
            say(kept, "u2")
            kept.save()
            assert kept.saved == {1, 2, 3, 4}
            assert [len(delta.new_events) for delta in faulty.sent] == [2, 2, 3]
            assert_stored(kept)

    def test_an_answer_that_was_lost_doubles_nothing(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            kept = Kept.begin(faulty.store, HEADER)
            say(kept, "u1")
            kept.save()
            kept.remove("u1")
            say(kept, "u2")
            kept.note({"a": 1}, leaf_id="u2")
            faulty.after = 1
            assert str(raised(StoreError, kept.save)) == "the answer was lost"
            assert kept.saved == {1, 2}
            say(kept, "a2")
            kept.save()
            assert inner.load("s").head.number == 5
            assert items(kept.session) == ["u2", "a2"]
            assert_stored(kept)

    def test_what_is_noted_after_an_answer_was_lost_is_stored(self, tmp_path: Path) -> None:
        """The events are there already, the note is not: to take it all for a retry lost the note, acknowledged."""
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            kept = Kept.begin(faulty.store, HEADER)
            say(kept, "u1")
            faulty.after = 1
            raised(StoreError, kept.save)
            kept.note({"a": 1}, leaf_id="u1")
            kept.save()
            data = inner.load("s")
            assert (data.metadata, data.leaf_id, data.head) == (b'{"a":1}', "u1", kept.head)
            assert data.head.number == 2

    def test_what_no_store_takes_is_refused_at_once_and_stops_no_later_save(self, tmp_path: Path) -> None:
        """Held for the next save, it made that fail, and each one after it."""
        huge = Append(item=UserMessage("huge", Raw(b'"' + b"x" * (12 * 1024 * 1024) + b'"')))
        with self.opened(tmp_path) as store:
            kept = Kept.begin(store, HEADER)
            say(kept, "u1")
            raised(StoreError, lambda: kept.apply(huge))
            raised(StoreError, lambda: kept.note({"a": 1}, leaf_id="\0"))
            say(kept, "a1")
            assert kept.save().number == 3
            assert items(kept.session) == ["u1", "a1"]
            assert_stored(kept)

    def test_a_resumed_session_emits_only_what_came_after_load(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            first = Kept.begin(faulty.store, HEADER)
            say(first, "u1", "a1")
            first.save()
            again = Kept.begin(faulty.store, HEADER)
            assert again.delta().new_events == ()
            say(again, "u2")
            again.save()
            assert [len(delta.new_events) for delta in faulty.sent] == [2, 1]
            assert items(again.session) == ["u1", "a1", "u2"]
            assert_stored(again)

    def test_a_session_is_resumed_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            kept = Kept.begin(store, HEADER)
            say(kept, "u1", "a1")
            kept.save()
            say(kept, "u2")  # never saved: as if the harness had been killed
        with self.opened(tmp_path) as store:
            kept = Kept.begin(store, HEADER)
            assert items(kept.session) == ["u1", "a1"]
            say(kept, "u2")
            assert kept.save().number == 4
            assert_stored(kept)

    def test_the_delta_after_a_compaction_carries_its_event_and_nothing_again(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            kept = Kept.begin(faulty.store, HEADER)
            say(kept, "u1", "a1", "u2", "a2")
            kept.save()
            before = inner.load("s").events
            compacted = event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2", "a2"], summary="x")
            kept.apply(compacted)
            say(kept, "u3")
            kept.save()
            assert [len(delta.new_events) for delta in faulty.sent] == [4, 2]
            assert faulty.sent[-1].removed_ids == ()
            assert b'"compact_applied"' in faulty.sent[-1].new_events[0]
            assert inner.load("s").events[: len(before)] == before
            assert items(kept.session) == ["d", "u2", "a2", "u3"]
            assert_stored(kept)

    def test_an_overflow_is_recovered_from_by_a_tombstone(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as inner:
            faulty = Faulty(inner)
            kept = Kept.begin(faulty.store, HEADER)
            say(kept, "u1", "failed")
            kept.save()
            kept.remove("failed")
            kept.save()
            assert (faulty.sent[-1].removed_ids, faulty.sent[-1].new_events) == (("failed",), ())
            say(kept, "a1")
            kept.save()
            assert items(Session.read(inner.load("s").log)) == ["u1", "a1"]
            assert len(inner.load("s").events) == 5
            assert_stored(kept)

    def test_a_checkpoint_is_gone_on_from(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            kept, told = Kept.begin(store, HEADER), list[str]()
            say(kept, "u1", "a1")
            kept.save()
            kept.checkpoint()
            say(kept, "u2")
            kept.save()
            again = Kept.open(store, "s", tell=told.append)
            assert (items(again.session), told) == (["u1", "a1", "u2"], [])
            say(again, "a2")
            assert again.save().number == 5
            assert_stored(again)

    def test_a_checkpoint_that_does_not_fit_is_passed_over_and_told(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            kept = Kept.begin(store, HEADER)
            say(kept, "u1", "a1")
            kept.save()
            kept.checkpoint()
            good = store.checkpoint("s")
            assert good is not None
            for wrong in (
                Checkpoint(good.number, "0" * 64, good.format, good.data),
                Checkpoint(good.number, "no digest", good.format, good.data),
                Checkpoint(good.number - 1, good.digest, good.format, good.data),
                Checkpoint(good.number + 7, good.digest, good.format, good.data),
                Checkpoint(good.number, good.digest, "another reader", good.data),
                Checkpoint(good.number, good.digest, good.format, good.data[:-5]),
                Checkpoint(good.number, good.digest, good.format, b""),
            ):
                told = list[str]()
                store.save_checkpoint("s", wrong)
                again = Kept.open(store, "s", tell=told.append)
                assert (items(again.session), len(told)) == (["u1", "a1"], 1), wrong
                assert_stored(again)
