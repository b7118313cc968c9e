"""A watched store remembers: what a compaction drops, and what is left once nobody speaks; scripted clocks."""

from __future__ import annotations

import os

import pytest

from helpers.storing import opened
from helpers.waiting import Script
from lore.compaction.settings import Compaction
from lore.compaction.store_watch import Hands, Watch
from lore.config import MemorySettings, Sessions, Settings
from lore.errors import LoreError
from lore.run.rules import packaged
from lore.run.stored.compaction import memory_maker, watch
from lore.session import event
from lore.store.locks import trylock
from lore.store.session import StoredSession
from lore_plugins.memory.actions import wiped
from lore_plugins.memory.agent import StoreMemories
from lore_plugins.memory.audit import audit_log
from lore_plugins.memory.buckets import read
from lore_plugins.memory.identities import bucket
from model.making import ANSWER, said, user
from plugins.memory.remembering import SAID
from run.test_compacting_watch import BEGUN, CADENCE, Counting
from run.test_stopping_watch import POLICY, stopped_while_asking

pytestmark = pytest.mark.usefixtures("state")

OFF = Settings()
ON = Settings(memory=MemorySettings(system="structured"))
IDLE = "idle: 3 remembered, 0 taken away, 3 topics dreamt"


def begun(store, name="s1", user_id="ann", **fields):
    return StoredSession.begin(store, event("session_started", session_id=name, user_id=user_id, model="m", **fields))


def exchange(kept, number, text="hi"):
    at = f"2026-09-01T00:{number // 60:02}:{number % 60:02}Z"
    kept.apply(event("append", item=user(f"u{number}", text), at=at))
    kept.begin_turn(at=at)
    kept.apply(event("append", item=said(f"a{number}", ANSWER), at=at), event("turn_completed", turn=kept.turns, at=at))
    kept.save()


class Clock:
    """A clock that stands until it is set, in seconds since the sessions began."""

    now = 0.0

    def __call__(self):
        return BEGUN + self.now

    def at(self, now, act=lambda: None):
        """Return what does a thing at a time."""

        def step():
            self.now = now
            act()

        return step


def watched(store, *steps, settings=None, remembered=ON, clock=None):
    said_, told = [], []
    hands = Hands(Script(*steps), said_.append, told.append, clock or Clock())
    Watch(store, settings, packaged(), hands, memory_of(store, hands, remembered, settings)).run()
    return said_, told


def memory_of(store, hands, remembered=ON, compaction=None):
    if not remembered.memory.is_on:
        return None
    return StoreMemories(store, remembered, compaction, tell=hands.tell, clock=hands.clock, waiting=hands.waiting)


def known(store, user_id="ann", agent=None):
    return read(store, bucket(user_id, agent))


def test_a_session_is_learnt_from_and_dreamt_over_once_for_each_time_that_nobody_speaks():
    store, clock = Counting(), Clock()
    kept = begun(store)
    exchange(kept, 1, SAID)
    steps = [clock.at(300), clock.at(301), clock.at(302), clock.at(1_000)]
    steps += [clock.at(1_000, lambda: exchange(kept, 1_000, "[SCHEDULED TICK] wake")), clock.at(2_000)]
    steps += [clock.at(2_000, lambda: exchange(kept, 2_000, "My name is Bob.")), clock.at(2_299), clock.at(2_300)]
    said_, told = watched(store, *steps, clock=clock)
    assert said_ == [f"s1: {IDLE}", "s1: idle: 1 remembered, 0 taken away, 3 topics dreamt"]
    assert told == []
    assert known(store).structure.facts == ("My name is Ann.", "My name is Bob.")
    assert [one.op for one in audit_log(store, "ann").entries] == ["extract", "dream"] * 2


def test_a_session_that_was_looked_through_is_not_read_again_while_nobody_speaks():
    store, clock = Counting(), Clock()
    exchange(begun(store), 1, SAID)
    looks = [clock.at(400), clock.at(401, store.loads.clear), clock.at(402), clock.at(10_000)]
    watched(store, *looks, clock=clock)
    assert [name for name, after in store.loads if name == "s1" and after < 2**50] == []


def test_what_was_wiped_stays_so_when_a_watch_begins_anew():
    store, clock = Counting(), Clock()
    kept = begun(store)
    exchange(kept, 1, SAID)
    watched(store, clock.at(400), clock=clock)
    wiped(store, "ann", None, now="2026-09-01T00:07:00Z", tell=print)
    assert watched(store, clock.at(500), clock=clock) == ([], [])
    assert not any(known(store).counts().values())
    learns = clock.at(1_000, lambda: exchange(kept, 600, "We run on Linux."))
    assert watched(store, learns, clock.at(2_000), clock=clock)[0] == [f"s1: {IDLE.replace('3', '4', 1)}"]


def test_a_watch_that_is_to_end_begins_no_other_session():
    store, clock, said_ = Counting(), Clock(), []
    for name in ("s1", "s2", "s3"):
        exchange(begun(store, name, name), 1, SAID)
    clock.now = 400
    hands = Hands(Script(), said_.append, said_.append, clock, lambda: len(said_) == 2)
    Watch(store, None, packaged(), hands, memory_of(store, hands)).run()
    assert said_ == [f"s1: {IDLE}", f"s2: {IDLE}"]


def test_what_a_watch_prunes_is_remembered_first():
    store, clock = Counting(), Clock()
    kept = begun(store)
    exchange(kept, 1, SAID)
    for number in (2, 3, 4):
        exchange(kept, number)
    said_, _ = watched(store, settings=CADENCE, clock=clock)
    assert said_ == ["s1: cadence: 6 messages pruned, 2 kept"]
    assert known(store).structure.preferences == ("I prefer tabs over spaces.",)
    assert known(store).topics == {}


def test_sessions_that_keep_memory_are_neither_read_nor_compacted():
    store, clock = Counting(), Clock()
    exchange(begun(store), 1, SAID)
    watched(store, clock.at(400), clock=clock)
    store.loads.clear()
    watched(store, clock.at(400), remembered=OFF, settings=CADENCE, clock=clock)
    assert {name for name, _ in store.loads} == {"s1"}


@pytest.mark.parametrize(
    ("remembered", "fields"),
    [
        (OFF, {}), (Settings(memory=MemorySettings(system="structured"), sessions=Sessions(0)), {}),
        (ON, {"agent_id": "other"}), (ON, {"parent_session_id": "s0"}),
    ],
)  # fmt: skip
def test_who_is_not_opted_in_is_not_remembered(remembered, fields):
    store, clock = Counting(), Clock()
    if "parent_session_id" in fields:
        begun(store, "s0")
    exchange(begun(store, **fields), 1, SAID)
    assert watched(store, clock.at(5_000), remembered=remembered, clock=clock) == ([], [])
    assert all(not one.session_id.startswith("lore.memory") for one in store.list())


def test_while_another_pass_is_at_work_for_the_agent_and_its_user_it_is_skipped_until_the_next_look():
    store, clock = Counting(), Clock()
    exchange(begun(store), 1, SAID)
    lock = trylock(f"memory:{id(store)}", "rest/main", "ann")
    lock.__enter__()
    let_go = clock.at(401, lambda: lock.__exit__(None, None, None))
    said_, told = watched(store, clock.at(400), let_go, clock.at(402), clock=clock)
    assert told == ["s1: another pass is at work for this agent and user, skipped until the next look"]
    assert said_ == [f"s1: {IDLE}"]


def test_compactions_of_two_agents_do_not_lock_each_other_out():
    """The lock once named no agent, so that one agent's compaction held up all others of a user."""
    store = Counting()
    kept = begun(store, agent_id="coder")
    for number in range(1, 5):
        exchange(kept, number)
    with trylock("memory:", "coder", "ann"):
        assert "another compaction is at work" in watched(store, settings=CADENCE)[1][0]
    with trylock("memory:", "", "ann"):
        assert len(watched(store, settings=CADENCE)[0]) == 1


def test_a_watch_without_any_trigger_is_refused():
    hands = Hands(Script(), print, print)
    with pytest.raises(LoreError, match="nothing is configured"):
        watch(
            "sqlite:none.db",
            None,
            packaged(),
            hands,
            Settings(memory=MemorySettings(system="structured"), sessions=Sessions(0)),
        )
    with pytest.raises(LoreError, match="switches no trigger on"):
        watch("sqlite:none.db", Compaction(), packaged(), hands)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_sigterm_while_memory_asks_a_model_learns_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = opened("sqlite", tmp_path)
    exchange(begun(store), 1, SAID)
    settings = POLICY.format(interval=0) + '[memory]\nsystem = "structured"\n'
    assert b"stopped while a model or a command was asked" in stopped_while_asking(store.url, settings)
    assert (known(store).learnt, audit_log(store, "ann").entries) == ({}, ())
    store.close()


def test_policy_with_memory_names_the_missing_plugin(monkeypatch):
    """A settings file that switches memory on was once ignored in silence where nothing could remember."""
    monkeypatch.setattr("lore.run.stored.compaction.published", lambda group: [])
    hands = Hands(Script(), print, print)
    with pytest.raises(LoreError, match="needs lore's plug-in 'memory', which this installation lacks"):
        watch("sqlite:none.db", None, packaged(), hands, ON)


def test_memory_settings_reach_a_plugin_by_its_entry_point():
    assert memory_maker(ON) is StoreMemories
    assert memory_maker(OFF) is None
