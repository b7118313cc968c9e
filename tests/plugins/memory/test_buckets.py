"""Memory in stores: transactions, writers that come between, processes that die, what is gone."""

from __future__ import annotations

import json
import threading

import msgspec
import pytest

from helpers.storing import URLS, embedded, opened
from lore.model.events import SessionStarted, encode
from lore.store.base import SessionDelta, StoreError
from lore.store.deltas import save_delta
from lore_plugins.memory.audit import AuditRecord, audit_log, last_failure, note_audit
from lore_plugins.memory.buckets import (
    FEW,
    Extracted,
    Forgotten,
    KnownMemory,
    Remembered,
    Topic,
    change,
    owners,
    read,
    wipe,
)
from lore_plugins.memory.identities import anchor_of, bucket
from plugins.memory.remembering import ANN, AT, contents

two = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@pytest.fixture
def store(kind, tmp_path):
    one = opened(kind, tmp_path)
    yield one
    assert one.verify().damage == ()
    one.close()


def learn(store, *texts, whose=ANN, section="facts", purge=False):
    records = [Remembered(section=section, text=text) for text in texts]
    return change(store, whose, lambda known: records, at=AT, purge=purge)


def forget(store, *texts, whose=ANN):
    return change(
        store, whose, lambda known: [Forgotten(section="facts", text=one) for one in texts], at=AT, purge=True
    )


def facts(store, whose=ANN):
    return read(store, whose).structure.facts


def volume(store):
    """The session that the anchor names."""
    return ANN.volume(json.loads(store.load(ANN.anchor).metadata)["volume"])


def sessions(store):
    return [one.session_id for one in store.list()]


@embedded
def test_what_is_remembered_is_read_again_in_every_kind_of_store(kind, tmp_path, store):
    learn(store, "one", "two")
    change(store, ANN, lambda known: [Topic(topic="t", summary="s", content="c")], at=AT)
    again = store if kind.startswith("memory") else opened(kind, tmp_path)
    assert facts(again) == ("one", "two")
    assert [one.topic for one in read(again, ANN).visible(AT)] == ["t"]
    assert sessions(again)[:2] == ["lore.memory/ann", "lore.memory/ann/main"]
    assert sessions(again)[2:] == [volume(again)]


@embedded
def test_users_and_agents_are_kept_apart(store):
    for whose in (ANN, bucket("ann", "helper"), bucket("Ann"), bucket("../ann")):
        learn(store, f"of {whose}", whose=whose)
    assert [len(facts(store, bucket(*one))) for one in (("ann",), ("ann", "helper"), ("Ann",), ("../ann",))] == [1] * 4
    assert owners(store) == {"../ann": ("main",), "Ann": ("main",), "ann": ("helper", "main")}


@two
def test_a_change_that_changes_nothing_writes_nothing(store):
    learn(store, "one")
    before = store.list()
    assert change(store, ANN, lambda known: (), at=AT).structure.facts == ("one",)
    assert store.list() == before


@two
def test_nothing_is_read_where_nothing_was_written(store):
    assert read(store, ANN) == KnownMemory()
    assert wipe(store, "ann").agents == {}
    assert sessions(store) == []


@embedded
def test_what_is_forgotten_stays_nowhere_in_the_store(store):
    learn(store, "a secret", "one")
    before = volume(store)
    forget(store, "a secret")
    assert facts(store) == ("one",)
    assert not any(b"a secret" in one for one in contents(store))
    assert sessions(store)[2:] == [volume(store)] != [before]


@two
def test_a_volume_does_not_grow_with_its_past(store):
    for number in range(FEW * 2):
        change(
            store, ANN,
            lambda known, number=number: [
                *(Forgotten(section="facts", text=one) for one in known.structure.facts),
                Remembered(section="facts", text=f"{number}"),
            ],
            at=AT,
        )  # fmt: skip
    assert facts(store) == (f"{FEW * 2 - 1}",)
    assert sum(one.head.number for one in store.list()) < FEW * 2


@two
def test_what_was_extracted_and_not_dreamt_over_is_known_in_the_next_volume(store):
    change(store, ANN, lambda known: [Remembered(section="facts", text="x"), Extracted()], at=AT, purge=True)
    assert read(store, ANN).is_fresh
    assert not learn(store, "one", whose=bucket("bob"), purge=True).is_fresh


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_writers_at_once_lose_nothing_of_each_other(kind, tmp_path):
    """Each has a connection of its own; some of what they write moves the bucket to its next volume.

    Volumes were numbered, and named by a digest after that: one who was late made the first one anew, another who was
    late, too, wrote his change there, and it was lost.
    """
    stores = [opened(kind, tmp_path) for _ in range(3)]
    stores[0].create(encode(SessionStarted(session_id="s1")))
    barrier = threading.Barrier(3)

    def write(number):
        barrier.wait()
        for turn in range(5):
            learn(stores[number], f"{number}.{turn}", purge=turn % 2 == 0)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(facts(stores[0])) == {f"{number}.{turn}" for number in range(3) for turn in range(5)}
    learn(stores[0], "last")
    assert len(sessions(stores[0])) == 4
    for one in stores:
        one.close()


def test_a_writer_that_comes_between_is_built_upon(tmp_path):
    store = opened("memory", tmp_path)
    asked = []

    def make(known):
        asked.append(known.structure.facts)
        if len(asked) == 1:
            learn(store, "theirs")
        return [Remembered(section="facts", text="mine")]

    change(store, ANN, make, at=AT)
    assert asked == [(), ("theirs",)]
    assert facts(store) == ("theirs", "mine")


class DiedError(Exception):
    """The process is gone."""


class Dying:
    """A store whose process dies before the call of a number that writes."""

    def __init__(self, store, calls):
        self._store, self.left = store, calls

    def __getattr__(self, name):
        call = getattr(self._store, name)
        if name not in ("create", "save", "save_delta", "delete"):
            return call

        def counted(*args, **fields):
            if self.left == 0:
                raise DiedError
            self.left -= 1
            return call(*args, **fields)

        return counted


def die_everywhere(make, act):
    """Yield a store for each place at which `act` may die, until it does not any more."""
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


@pytest.mark.parametrize("kind", list(URLS))
def test_wherever_a_process_dies_what_is_forgotten_is_known_or_gone_and_goes_with_the_next_change(kind, tmp_path):
    def make(calls):
        store = opened(kind, tmp_path / str(calls))
        learn(store, "a secret", "one")
        return store

    (tmp_path / "0").mkdir()
    deaths = 0
    for calls, store in enumerate(
        die_everywhere(lambda n: _made(make, tmp_path, n), lambda one: forget(one, "a secret"))
    ):
        deaths += 1
        assert facts(store) == (("a secret", "one") if calls == 0 else ("one",))
        forget(store, "a secret")
        learn(store, "two")
        assert facts(store) == ("one", "two")
        assert not any(b"a secret" in one for one in contents(store))
        store.close()
    assert deaths == 5


def _made(make, place, number):
    (place / str(number)).mkdir(exist_ok=True)
    return make(number)


@pytest.mark.parametrize("agent", [None, "main"])
@pytest.mark.parametrize("kind", list(URLS))
def test_wherever_a_wipe_dies_all_is_there_or_nothing_is_and_the_next_finishes_it(kind, agent, tmp_path):
    def make(calls):
        store = opened(kind, tmp_path / str(calls))
        learn(store, "one")
        learn(store, "other", whose=bucket("ann", "helper"))
        return store

    deaths = 0
    for calls, store in enumerate(
        die_everywhere(lambda n: _made(make, tmp_path, n), lambda one: wipe(one, "ann", agent))
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


@embedded
def test_a_wipe_takes_a_user_or_one_agent_and_counts_by_kind(store):
    learn(store, "one", "two")
    learn(store, "three", section="tasks", whose=bucket("ann", "helper"))
    learn(store, "four", whose=bucket("bob"))
    assert wipe(store, "ann", "helper").agents == {"helper": {**KnownMemory().counts(), "tasks": 1}}
    assert facts(store) == ("one", "two")
    assert wipe(store, "ann").counts == {**KnownMemory().counts(), "facts": 2}
    assert sum(wipe(store, "ann").counts.values()) == 0
    assert (read(store, ANN), facts(store, bucket("bob"))) == (KnownMemory(), ("four",))
    assert not any("/ann" in one for one in sessions(store))


@two
def test_a_volume_without_its_anchor_is_not_read_and_goes_with_a_wipe(store):
    """A writer that was under way during a wipe may leave one behind, if it dies then."""
    learn(store, "one")
    store.create(encode(SessionStarted(session_id=ANN.volume("2"), parent_session_id=ANN.anchor)))
    assert facts(store) == ("one",)
    forget(store, "one")
    learn(store, "two")
    assert facts(store) == ("two",)
    store.delete(anchor_of("ann"))
    store.create(encode(SessionStarted(session_id=ANN.volume("3"))))
    assert read(store, ANN) == KnownMemory()
    wipe(store, "ann")
    assert sessions(store) == []


@two
def test_lines_and_notes_of_others_are_counted_or_refused(store):
    learn(store, "one")
    odd = (
        b'{"kind":"remembered","section":"odd","text":"x"}',
        b'{"kind":"remembered"}',
        b'{"kind":"cache_reset"}',
        b"{}",
    )
    save_delta(store, volume(store), SessionDelta(base=store.load(volume(store)).head, new_events=odd))
    assert (facts(store), read(store, ANN).odd) == (("one",), 4)
    save_delta(store, ANN.anchor, SessionDelta(base=store.load(ANN.anchor).head, metadata=b'{"volume":3}'))
    with pytest.raises(StoreError, match="notes no memory"):
        read(store, ANN)
    save_delta(store, ANN.anchor, SessionDelta(base=store.load(ANN.anchor).head, metadata=b'{"volume":"x"}'))
    for act in (lambda: read(store, ANN), lambda: learn(store, "two")):
        with pytest.raises(StoreError, match="what was remembered is lost"):
            act()
    wipe(store, "ann")
    assert sessions(store) == []


@embedded
def test_the_audit_log_outlives_a_wipe_and_keeps_no_secret(store):
    learn(store, "one")
    entry = AuditRecord(
        at=AT, op="extract", agent="main", session_id="s1", failure="said sk-abcdefghijklmnopqrstuvwxyz\n"
    )
    note_audit(store, "ann", entry, pytest.fail)
    note_audit(store, "ann", msgspec.structs.replace(entry, op="wipe", agent=None, failure=None), pytest.fail)
    wipe(store, "ann")
    log = audit_log(store, "ann")
    assert [one.op for one in log.entries] == ["extract", "wipe"]
    assert log.entries[0].failure == "said sk-a" + "*" * 25
    assert last_failure(log, "main") == log.entries[0]
    assert last_failure(log, "helper") is None
    assert audit_log(store, "bob") == ((), 0)
