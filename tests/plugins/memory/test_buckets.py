"""Buckets in stores: transactions, concurrent writers, interrupted processes, deletion."""

import json
import threading

import msgspec
import pytest

from helpers.storing import URLS, opened
from lore.model.events import SessionStarted, encode
from lore.store.base import SessionDelta, StoreError
from lore_plugins.memory.audit import AuditRecord, append_audit, last_failure, read_audit_log
from lore_plugins.memory.buckets import KnownMemory, Topic, change_bucket, read_bucket, wipe
from lore_plugins.memory.identities import anchor_id, bucket
from plugins.memory.remembering import ANN, AT, add_texts, contents, forget, learn

two = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@pytest.fixture
def store(kind, tmp_path):
    new_store = opened(kind, tmp_path)
    yield new_store
    assert new_store.verify().damage == ()
    new_store.close()


def facts(store, whose=ANN):
    return read_bucket(store, whose).texts["facts"]


def volume(store):
    return ANN.volume(json.loads(store.load(ANN.anchor).metadata)["volume"])


def sessions(store):
    return [summary.session_id for summary in store.list()]


@pytest.mark.parametrize("kind", URLS)
def test_every_store_keeps_memory(kind, tmp_path, store):
    learn(store, "one", "two")
    topic = Topic(topic="t", summary="s", content="c")
    change_bucket(store, ANN, lambda old: old.with_topics({"t": topic}, (), is_whole=True), at=AT)
    again = store if kind == "memory" else opened(kind, tmp_path)
    assert facts(again) == ("one", "two")
    assert [topic.topic for topic in read_bucket(again, ANN).visible_topics(AT)] == ["t"]
    assert sessions(again)[:2] == ["lore.memory/ann", "lore.memory/ann/main"]
    assert sessions(again)[2:] == [volume(again)]


@two
def test_empty_change_writes_nothing(store):
    learn(store, "one")
    before = store.list()
    assert change_bucket(store, ANN, lambda old: old, at=AT).texts["facts"] == ("one",)
    assert store.list() == before


@two
def test_change_keeps_a_due_dream(store):
    learn(store, "x")
    assert read_bucket(store, ANN).is_fresh
    assert forget(store, "x").is_fresh


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_concurrent_writers_lose_nothing(kind, tmp_path):
    """Each writer has its own connection; some changes move the bucket.

    With predictable names of volumes a late writer created the first one again, and a second one's change was lost.
    """
    stores = [opened(kind, tmp_path) for _ in range(3)]
    stores[0].create(encode(SessionStarted(session_id="s1")))
    barrier = threading.Barrier(3)

    def write(number):
        barrier.wait()
        for turn in range(5):
            learn(stores[number], f"{number}.{turn}", purge=turn % 2 == 0)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(facts(stores[0])) == {f"{number}.{turn}" for number in range(3) for turn in range(5)}
    learn(stores[0], "last")
    assert len(sessions(stores[0])) == 4
    for store in stores:
        store.close()


def test_change_is_repeated_after_another_writer(tmp_path):
    store = opened("memory", tmp_path)
    memories = []

    def change(old_memory):
        memories.append(old_memory.texts["facts"])
        if len(memories) == 1:
            learn(store, "theirs")
        return add_texts(old_memory, "mine")

    change_bucket(store, ANN, change, at=AT)
    assert memories == [(), ("theirs",)]
    assert facts(store) == ("theirs", "mine")


class DiedError(Exception):
    """The process is gone."""


class Dying:
    """A store that raises DiedError before the write with a given number."""

    def __init__(self, store, calls):
        self._store, self.left = store, calls

    def __getattr__(self, name):
        call = getattr(self._store, name)
        if name not in ("create", "save", "save_delta", "delete"):
            return call

        def guarded(*args, **fields):
            if self.left == 0:
                raise DiedError
            self.left -= 1
            return call(*args, **fields)

        return guarded


def die_everywhere(make, act):
    """Yield a store for each write of `act` at which it may die."""
    for calls in range(20):
        store = make(calls)
        try:
            act(Dying(store, calls))
        except DiedError:
            yield store
        else:
            store.close()
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("kind", URLS)
def test_interrupted_forget_is_finished_by_next_change(kind, tmp_path):
    def make(calls):
        store = opened(kind, tmp_path / str(calls))
        learn(store, "a secret", "one")
        return store

    (tmp_path / "0").mkdir()
    deaths = 0
    for calls, store in enumerate(
        die_everywhere(lambda n: _make_in_folder(make, tmp_path, n), lambda dying: forget(dying, "a secret"))
    ):
        deaths += 1
        assert facts(store) == (("a secret", "one") if calls < 2 else ("one",))
        forget(store, "a secret")
        learn(store, "two")
        assert facts(store) == ("one", "two")
        assert not any(b"a secret" in dying for dying in contents(store))
        store.close()
    assert deaths == 3


def _make_in_folder(make, place, number):
    (place / str(number)).mkdir(exist_ok=True)
    return make(number)


@pytest.mark.parametrize("agent", [None, "main"])
@pytest.mark.parametrize("kind", URLS)
def test_interrupted_wipe_is_finished_by_next_wipe(kind, agent, tmp_path):
    def make(calls):
        store = opened(kind, tmp_path / str(calls))
        learn(store, "one")
        learn(store, "other", whose=bucket("ann", "helper"))
        return store

    deaths = 0
    for calls, store in enumerate(
        die_everywhere(lambda n: _make_in_folder(make, tmp_path, n), lambda dying: wipe(dying, "ann", agent))
    ):
        deaths += 1
        assert facts(store) == (("one",) if calls == 0 else ())
        if calls:
            with pytest.raises(StoreError, match="a wipe was interrupted"):
                learn(store, "two")
        assert wipe(store, "ann", agent).counts["facts"] == (2 if agent is None else 1)
        assert sum(wipe(store, "ann", agent).counts.values()) == 0
        assert facts(store, bucket("ann", "helper")) == (() if agent is None else ("other",))
        learn(store, "two")
        assert facts(store) == ("two",)
        store.close()
    assert deaths == 2


@two
def test_orphaned_volume_is_ignored_and_wiped(store):
    """A writer that dies during a wipe may leave such a volume."""
    learn(store, "one")
    store.create(encode(SessionStarted(session_id=ANN.volume("2"), parent_session_id=ANN.anchor)))
    assert facts(store) == ("one",)
    forget(store, "one")
    assert ANN.volume("2") not in sessions(store)
    learn(store, "two")
    assert facts(store) == ("two",)
    store.delete(anchor_id("ann"))
    store.create(encode(SessionStarted(session_id=ANN.volume("3"))))
    assert read_bucket(store, ANN) == KnownMemory()
    wipe(store, "ann")
    assert sessions(store) == []


@two
def test_foreign_lines_and_notes_are_reported(store):
    learn(store, "one")
    odd = (
        b'{"kind":"remembered","section":"odd","text":"x"}',
        b'{"kind":"remembered"}',
        b'{"kind":"cache_reset"}',
        b"{}",
    )
    store.save_delta(volume(store), SessionDelta(base=store.load(volume(store)).head, new_events=odd))
    assert (facts(store), read_bucket(store, ANN).unreadable) == (("one",), 4)
    store.save_delta(ANN.anchor, SessionDelta(base=store.load(ANN.anchor).head, metadata=b'{"volume":3}'))
    with pytest.raises(StoreError, match="are not those of a memory"):
        read_bucket(store, ANN)
    store.save_delta(ANN.anchor, SessionDelta(base=store.load(ANN.anchor).head, metadata=b'{"volume":"x"}'))
    for act in (lambda: read_bucket(store, ANN), lambda: learn(store, "two")):
        with pytest.raises(StoreError, match="its memory is lost"):
            act()
    wipe(store, "ann")
    assert sessions(store) == []


@pytest.mark.parametrize("kind", URLS)
def test_audit_log_survives_wipe_and_masks_credentials(store):
    learn(store, "one")
    entry = AuditRecord(
        at=AT, op="extract", agent="main", session_id="s1", failure="said sk-abcdefghijklmnopqrstuvwxyz\n"
    )
    append_audit(store, "ann", entry, pytest.fail)
    append_audit(store, "ann", msgspec.structs.replace(entry, op="wipe", agent=None, failure=None), pytest.fail)
    wipe(store, "ann")
    log = read_audit_log(store, "ann")
    assert [record.op for record in log.entries] == ["extract", "wipe"]
    assert log.entries[0].failure == "said sk-a" + "*" * 25
    assert last_failure(log, "main") == log.entries[0]
    assert last_failure(log, "helper") is None
    assert read_audit_log(store, "bob") == ((), 0)
