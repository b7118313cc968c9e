"""What flue's save by delta promised (its pull request 95): the test plan, and the contract that was hardened after it.

What its stores of today are held to is in `test_flue_stores.py`.
"""

from __future__ import annotations

import msgspec
import pytest

from helpers.storing import Hiding, embedded, opened
from lore.session import Session, event
from lore.store.base import StoreError
from lore.store.deltas import save_delta
from lore.store.session import StoredSession
from lore.testing.scenarios import add, begin, events, header, line, message
from store.harness import HEADER, Faulty, say

pytestmark = embedded


@pytest.fixture
def store(kind, tmp_path):
    with_files = opened(kind, tmp_path)
    yield with_files
    assert with_files.verify().damage == ()
    with_files.close()


def again(kind, tmp_path, store):
    """The store as another process finds it; in memory it is the same one."""
    return store if kind.startswith("memory") else opened(kind, tmp_path)


def items(log):
    return [entry.item.uuid for entry in Session.read(log).state.main().entries]


# 4.1, the pull request: its test plan


def test_the_first_save_creates_and_later_ones_append(store):
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1")
    kept.save()
    first = events(store)
    say(kept, "a1")
    kept.save()
    assert events(store)[: len(first)] == first
    assert len(events(store)) == 3


def test_an_adapter_without_save_delta_is_saved_in_full(store):
    hidden = Hiding(store)
    kept = StoredSession.begin(hidden.store, HEADER)
    for turn in range(3):
        say(kept, f"u{turn}")
        kept.save()
    assert [len(data.events) for data in hidden.saves] == [2, 3, 4]
    assert items(store.load("s").log) == ["u0", "u1", "u2"]


def test_dispatch_is_by_type_at_each_call(store):
    """`typeof store.saveDelta === "function"`, not a class, a flag, or what was true at the beginning."""
    hidden = Hiding(store)
    kept = StoredSession.begin(hidden.store, HEADER)
    hidden.save_delta = "no function"
    say(kept, "u1")
    kept.save()
    assert len(hidden.saves) == 1
    hidden.save_delta = lambda session_id, delta: save_delta(store, session_id, delta)
    say(kept, "u2")
    kept.save()
    assert len(hidden.saves) == 1
    assert items(store.load("s").log) == ["u1", "u2"]


def test_a_delta_holds_only_new_entries(store):
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    for turn in range(4):
        say(kept, f"u{turn}", f"a{turn}")
        kept.save()
    assert [len(delta.new_events) for delta in faulty.sent] == [2, 2, 2, 2]


def test_a_save_that_finds_nothing_new_calls_nobody(store):
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    say(kept, "u1")
    assert kept.save() == kept.save()
    assert len(faulty.sent) == 1


def test_a_compaction_is_saved_as_its_entry_alone(store):
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    say(kept, "u1", "a1", "u2")
    kept.save()
    kept.apply(event("compact_applied", uuid="d", trigger="overflow", preserved_uuids=["u2"], summary="short"))
    kept.save()
    (only,) = faulty.sent[-1].new_events
    assert b'"compact_applied"' in only
    assert (faulty.sent[-1].removed_ids, len(events(store))) == ((), 5)
    assert items(store.load("s").log) == ["d", "u2"]


def test_what_a_compaction_dropped_is_still_in_the_log(store):
    """#499 and #658 are about what must be kept in memory, not about what may be thrown away on disk."""
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1", "a1", "u2")
    kept.save()
    before = events(store)
    kept.apply(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2"], summary="short"))
    kept.save()
    assert events(store)[:-1] == before


def test_a_compaction_whose_first_kept_entry_is_missing_leaves_only_what_follows_it(store):
    """There only what follows is left; here a list of which nothing is found prunes nothing, and says so."""
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1", "a1")
    kept.apply(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["never seen"], summary="short"))
    say(kept, "u2")
    kept.save()
    found = Session.read(store.load("s").log)
    assert [entry.item.uuid for entry in found.state.main().entries][-1] == "u2"
    assert "u1" in [entry.item.uuid for entry in found.state.main().entries]
    assert found.problems


def test_the_leaf_and_metadata_travel_with_each_delta(store):
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1")
    kept.note({"title": "tea"}, leaf_id="u1")
    kept.save(at="2026-01-01T00:00:00Z")
    say(kept, "a1")
    kept.note({"turns": 1}, leaf_id="a1")
    kept.save(at="2026-01-01T00:00:01Z")
    data = store.load("s")
    assert (data.leaf_id, data.metadata, data.updated_at) == (
        "a1",
        b'{"title":"tea","turns":1}',
        "2026-01-01T00:00:01Z",
    )


# 4.1: the hardened contract


def test_removed_entry_ids_are_applied_before_new_entries(store):
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1", "a1")
    kept.save()
    kept.remove("a1")
    say(kept, "a1")  # the same id again: removed after it, the new entry would be gone
    assert (kept.delta().removed_ids, len(kept.delta().new_events)) == (("a1",), 1)
    kept.save()
    assert events(store)[3] == line("remove", uuids=["a1"])
    assert items(store.load("s").log) == ["u1", "a1"]


def test_empty_new_entries_never_means_delete(store):
    base = begin(store, message("u1"), message("u2"))
    assert add(store, base=base) == base
    noted = add(store, base=base, leaf_id="u2", metadata=b"{}")
    assert noted.number == base.number
    assert items(store.load("s").log) == ["u1", "u2"]


def test_an_empty_set_of_removed_ids_removes_nothing(store):
    base = begin(store, message("u1"))
    add(store, message("u2"), base=base, removed_ids=())
    assert events(store) == (header(), message("u1"), message("u2"))


def test_save_stays_required_for_the_first_empty_session(store):
    store.create(header())
    data = store.load("s")
    assert data.events == (header(),)
    assert store.save(data) == data.head


def test_save_in_full_is_possible_at_any_time_between_deltas(store):
    head = begin(store, message("u1"))
    data = store.load("s")
    full = store.save(msgspec.structs.replace(data, events=(*data.events, message("u2"))))
    assert add(store, message("u3"), base=full).number == head.number + 2
    assert items(store.load("s").log) == ["u1", "u2", "u3"]


def test_a_resumed_session_emits_only_changes_after_load(kind, tmp_path, store):
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1", "a1")
    kept.save()
    other = again(kind, tmp_path, store)
    faulty = Faulty(other)
    resumed = StoredSession.open(faulty.store, "s")
    resumed.save()
    say(resumed, "u2")
    resumed.save()
    assert [len(delta.new_events) for delta in faulty.sent] == [1]
    assert items(other.load("s").log) == ["u1", "a1", "u2"]


def test_the_saved_set_advances_only_after_success(store):
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    say(kept, "u1")
    faulty.before = 1
    with pytest.raises(StoreError):
        kept.save()
    assert kept.saved == {1}
    kept.save()
    assert kept.saved == {1, 2}
    assert faulty.sent[0].new_events == faulty.sent[1].new_events


def test_a_delta_that_is_emitted_again_is_idempotent(store):
    """Hence the adapter must be idempotent by id: its first try may have been stored."""
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    say(kept, "u1", "a1")
    faulty.after = 1
    with pytest.raises(StoreError):
        kept.save()
    kept.save()
    assert len(events(store)) == 3
    assert kept.saved == {1, 2, 3}


def test_overflow_recovery_removes_the_failed_assistant_leaf_by_a_tombstone(store):
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    say(kept, "u1", "failed")
    kept.save()
    kept.remove("failed")
    kept.save()
    assert (faulty.sent[-1].removed_ids, faulty.sent[-1].new_events) == (("failed",), ())
    assert items(store.load("s").log) == ["u1"]
    assert message("failed").split(b'"uuid"')[0] in b"\n".join(events(store))


def test_a_count_cannot_express_what_a_set_can(store):
    """Two were saved, one taken back, one added: by count nothing is new, and the store would keep what failed."""
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1", "failed")
    kept.save()
    count = len(kept.session.state.main().entries)
    kept.remove("failed")
    say(kept, "a1")
    assert len(kept.session.state.main().entries) == count
    assert kept.delta().new_events != ()
    kept.save()
    assert items(store.load("s").log) == ["u1", "a1"]


def test_a_tombstone_for_what_was_never_saved_does_not_bring_it_back(store):
    kept = StoredSession.begin(store, HEADER)
    say(kept, "u1", "failed")
    kept.remove("failed")
    say(kept, "a1")
    kept.save()
    assert items(store.load("s").log) == ["u1", "a1"]


# law 8: tombstones before appends, idempotent by id, advance only after success, fallback to a full save


def test_every_order_of_failures_ends_with_one_copy_of_each_event(store):
    faulty = Faulty(store)
    kept = StoredSession.begin(faulty.store, HEADER)
    for turn, (before, after) in enumerate([(1, 0), (0, 1), (1, 1), (0, 2), (2, 0), (0, 0)]):
        say(kept, f"u{turn}", f"failed{turn}")
        kept.remove(f"failed{turn}")
        say(kept, f"a{turn}")
        faulty.before, faulty.after = before, after
        for _ in range(before + after):
            with pytest.raises(StoreError):
                kept.save()
        kept.save()
    assert items(store.load("s").log) == [name for turn in range(6) for name in (f"u{turn}", f"a{turn}")]
    assert len(events(store)) == 1 + 6 * 4
