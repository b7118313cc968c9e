"""What flue's stores of today are held to, over lore's: the cases of its contract tests that have a meaning here.

A producer's fence is the base that a delta names, an offset the head that answers it.
"""

from __future__ import annotations

import contextlib

import pytest

from helpers.storing import STAMPS, embedded, opened
from lore.store.base import ConflictError, FormatError, Head, SessionDelta, StoreError
from lore.store.deltas import save_delta
from lore.testing.scenarios import add, begin, call_at_once, events, header, message

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


# 4.2 and 4.3, the store


def test_create_is_idempotent(store):
    assert store.create(header()) == store.create(header())


def test_create_race(store):
    assert call_at_once(store.create, [header()] * 4) == [store.load("s").head] * 4


def test_conflicting_create_race(store):
    answers = call_at_once(store.create, [header(model=model) for model in "abcd"])
    assert [type(answer) for answer in answers].count(Head) == 1
    assert [type(answer) for answer in answers].count(ConflictError) == 3
    (stored,) = events(store)
    assert stored in [header(model=model) for model in "abcd"]


def test_conflicting_identity_is_rejected(store):
    head = store.create(header(project_id="p"))
    with pytest.raises(ConflictError):
        store.create(header(project_id="q"))
    assert store.load("s").head == head


def test_an_ordered_batch_has_one_indivisible_position(store):
    base = store.create(header())
    head = add(store, *(message(f"u{number}") for number in range(20)), base=base)
    assert head.number == base.number + 20
    with pytest.raises(StoreError):
        add(store, message("u21"), b"broken", message("u22"), base=head)
    assert store.load("s").head == head


def test_an_exact_retry_returns_the_original_answer(store):
    base = store.create(header())
    head = add(store, message("u1"), base=base)
    add(store, message("u2"), base=head)
    assert add(store, message("u1"), base=base) == head


def test_an_exact_retry_by_another_process_returns_the_original_answer(kind, tmp_path, store):
    """There a retry after re-acquisition is rejected; here a head says the same in every process."""
    base = store.create(header())
    head = add(store, message("u1"), base=base)
    assert add(again(kind, tmp_path, store), message("u1"), base=base) == head


def test_the_same_place_with_other_content_is_rejected_and_the_log_not_advanced(store):
    base = store.create(header())
    head = add(store, message("u1"), base=base)
    with pytest.raises(ConflictError) as caught:
        add(store, message("other"), base=base)
    assert (caught.value.base, caught.value.stored, store.load("s").head) == (base, head, head)


def test_a_stale_fence_is_rejected(store):
    old = store.create(header())
    now = add(store, message("u1"), message("u2"), base=old)
    with pytest.raises(ConflictError):
        add(store, message("u3"), base=old)
    with pytest.raises(ConflictError):
        add(store, message("u3"), base=Head(now.number, old.digest, now.note))
    assert store.load("s").head == now


def test_an_empty_batch_is_nothing(store):
    """There it is rejected; here it says that nothing is new, and is refused only on a base that is not stored."""
    base = store.create(header())
    assert add(store, base=base) == base
    add(store, message("u1"), base=base)
    with pytest.raises(ConflictError):
        add(store, base=base)


def test_a_batch_above_the_size_of_a_cell_comes_back_whole(store):
    text = "🎉" * 700_000  # 2.8 MB: there it is cut into pieces that never split a surrogate pair
    base = store.create(header())
    head = add(store, message("u1", text), base=base)
    assert add(store, message("u1", text), base=base) == head
    with pytest.raises(ConflictError):
        add(store, message("u1", text + "!"), base=base)
    assert events(store)[1] == message("u1", text)


def test_an_event_above_the_limit_is_rejected(store):
    base = store.create(header())
    with pytest.raises(StoreError, match="MiB"):
        add(store, message("u1", "x" * (12 * 1024 * 1024)), base=base)
    assert store.load("s").head == base


def test_replay_is_strictly_after_a_number(store):
    begin(store, message("u1"), message("u2"))
    assert store.load("s", after=2).events == (message("u2"),)
    assert store.load("s", after=2).first == 3
    assert store.load("s", after=3).events == ()


def test_replaying_from_the_beginning_gives_the_log(store):
    begin(store, message("u1"))
    assert store.load("s", after=0) == store.load("s")


# 4.3: versions, copies


def test_a_fresh_store_is_stamped_and_one_that_is_known_adopted(kind, tmp_path):
    stamp = stamp_of(kind)
    head = closed_with_one(kind, tmp_path)
    version = stamp(tmp_path, 0)
    assert version > 0
    stamp(tmp_path, version)
    with contextlib.closing(opened(kind, tmp_path)) as other:
        assert other.load("s").head == head


@pytest.mark.parametrize("version", [2**30, 0, -1])
def test_a_store_of_an_unknown_version_is_rejected_without_adopting_it(kind, tmp_path, version):
    stamp = stamp_of(kind)
    head = closed_with_one(kind, tmp_path)
    known = stamp(tmp_path, version)
    before = bytes_of(tmp_path)
    with pytest.raises(FormatError):
        opened(kind, tmp_path).load("s")
    assert bytes_of(tmp_path) == before
    assert stamp(tmp_path, known) == version
    with contextlib.closing(opened(kind, tmp_path)) as other:
        assert other.load("s").head == head


def closed_with_one(kind, tmp_path):
    with contextlib.closing(opened(kind, tmp_path)) as store:
        return begin(store, message("u1"))


def stamp_of(kind):
    if kind not in STAMPS:
        pytest.skip("what is in memory has no version that could be another's")
    return STAMPS[kind]


def bytes_of(folder):
    return {one.name: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_a_delta_of_an_unknown_version_is_rejected_without_adopting_it(store):
    base = store.create(header())
    with pytest.raises(FormatError, match="version 2"):
        save_delta(store, "s", SessionDelta(base=base, new_events=(message("u1"),), version=2))
    assert store.load("s").head == base


def test_returned_values_are_copies(store):
    begin(store, message("u1"))
    data = store.load("s")
    with pytest.raises(AttributeError):
        data.events = ()
    listed = store.list()
    if isinstance(listed, list):
        listed.clear()
    assert (store.load("s"), len(store.list())) == (data, 1)
