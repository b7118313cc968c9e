"""Watching a store: only what changed is read, conflicts are left for the next look, cold caches are waited for."""

import os
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from compaction.programs import program
from helpers.storing import opened
from helpers.waiting import Script
from lore.commands.compact import watch
from lore.compaction.settings import Compaction, ContextSource
from lore.compaction.store_watch import Hands, Watch
from lore.model.items import CompactDivider
from lore.run.rules import packaged
from lore.session import event
from lore.store.base import ConflictError, StoreError
from lore.store.locks import trylock
from lore.store.registry import open_store
from lore.store.session import StoredSession
from lore.store.sqlite import Memory
from model.making import said, user

pytestmark = pytest.mark.usefixtures("state")

BEGUN = 1_788_220_800.0  # 2026-09-01T00:00:00Z
CADENCE = Compaction(continuous_interval=2, keep_recent=2)


class Counting(Memory):
    """A store that records its loads."""

    def __init__(self):
        super().__init__()
        self.loads = []

    def load(self, session_id, *, after=0):
        self.loads.append((session_id, after))
        return super().load(session_id, after=after)


class Refusing(Counting):
    """A store to which somebody else writes first, once."""

    refuse = True

    def save_delta(self, session_id, delta):
        if self.refuse and b"compact_applied" in b"".join(delta.new_events):
            self.refuse = False
            raise ConflictError("somebody was here")
        return super().save_delta(session_id, delta)


def begun(store, name="s1"):
    return StoredSession.begin(
        store, event("session_started", session_id=name, user_id="ada", model="claude-sonnet-4-5")
    )


def exchange(kept, number, *, answered=True):
    at = f"2026-09-01T00:00:{number:02}Z"
    kept.apply(event("append", item=user(f"u{number}", "x" * 4000), at=at))
    kept.begin_turn(at=at)
    if answered:
        kept.apply(
            event("append", item=said(f"a{number}", "y" * 4000)), event("turn_completed", turn=kept.turn_count, at=at)
        )
    kept.save()


def talked(exchanges, kind=Counting):
    """Return a store with a session of this number of exchanges."""
    store = kind()
    kept = begun(store)
    for number in range(1, exchanges + 1):
        exchange(kept, number)
    return store, kept


def watched(store, *actions, settings=CADENCE, now=BEGUN + 60):
    said_, told = [], []
    Watch(store, settings, packaged(), Hands(Script(*actions), said_.append, told.append, lambda: now)).run()
    return said_, told


def dividers(store, name="s1"):
    entries = StoredSession.open(store, name).state.main().entries
    return sum(isinstance(one.item, CompactDivider) for one in entries)


def test_due_session_is_compacted():
    store, kept = talked(3)
    said_, _ = watched(store, lambda: exchange(kept, 4), lambda: None)
    assert said_ == ["s1: cadence: 6 messages pruned, 2 kept"]
    assert dividers(store) == 1


def test_locked_session_is_looked_at_again():
    store, kept = talked(4)
    held = trylock(store.url, "", "ada")
    held.__enter__()
    said_, told = watched(store, lambda: held.__exit__(None, None, None), lambda: None)
    assert ["another compaction is at work" in one for one in told] == [True]
    assert (len(said_), dividers(store)) == (1, 1)


def test_untimed_session_is_reported_once():
    store = Counting()
    kept = begun(store)
    settings = Compaction(gap_secs=10, keep_recent=2)

    def speak():
        kept.apply(event("append", item=user(f"u{kept.turn_count}")))
        kept.save()

    def answer():
        kept.begin_turn()
        kept.apply(event("append", item=said(f"a{kept.turn_count}")), event("turn_completed", turn=kept.turn_count))
        kept.save()

    _, told = watched(store, speak, answer, speak, answer, speak, settings=settings)
    assert told == ["s1: gap triggers cannot be judged: the session holds no times"]


def test_only_changed_sessions_are_read():
    store = Counting()
    kept, other = begun(store), begun(store, "s2")
    exchange(kept, 1)
    exchange(other, 1)
    store.loads.clear()
    watched(store, lambda: None, lambda: None)
    assert [after for _, after in store.loads if after < 2**50] == [0, 0]
    store.loads.clear()
    watched(store, lambda: exchange(kept, 2))
    assert [one for one in store.loads if one[1] < 2**50][2:] == [("s1", 0)]


def test_open_turn_is_not_compacted():
    store, kept = talked(3)
    exchange(kept, 4, answered=False)
    assert watched(store)[0] == []
    assert watched(store, settings=Compaction(window=4000))[0] == []
    kept.apply(event("append", item=said("a4", "y" * 4000)), event("turn_completed", turn=kept.turn_count))
    kept.save()
    assert watched(store, settings=Compaction(window=4000))[0] == ["s1: overflow: 4 messages pruned, 4 kept"]


def test_conflicting_session_waits_for_the_next_look():
    store, kept = talked(4, Refusing)
    said_, told = watched(store, lambda: None, lambda: exchange(kept, 5), lambda: exchange(kept, 6))
    assert any("another writer changed it meanwhile" in one for one in told)
    assert len(said_) == 1


def test_missing_source_does_not_end_the_watch(tmp_path):
    path = program(tmp_path, "news", "print('news')")
    store, kept = talked(3)
    settings = Compaction(continuous_interval=2, keep_recent=2, context_sources=(ContextSource("news", (path,)),))

    def replaced():
        os.unlink(path)
        exchange(kept, 4)

    def back():
        program(tmp_path, "news", "print('news')")
        exchange(kept, 5)

    said_, told = watched(store, replaced, back, lambda: exchange(kept, 6), settings=settings)
    assert [one for one in told if "no such file" in one]
    assert (len(said_), dividers(store)) == (1, 1)
    assert said_[0].endswith(" tokens of outside context")


def test_waiting_cadence_fires_in_a_cold_cache():
    store, kept = talked(4)
    settings = Compaction(continuous_interval=2, keep_recent=2, when="cheapest", summary_tokens=5_000)
    assert watched(store, settings=settings, now=BEGUN + 10)[0] == []
    assert len(watched(store, settings=settings, now=BEGUN + 1_000)[0]) == 1


def test_session_begun_again_is_another_session():
    store = Counting()
    kept = begun(store)
    kept.apply(event("append", item=user("secret", "remember: the code is 7351")))
    for number in (1, 2, 3):
        exchange(kept, number)

    def anew():
        store.delete("s1")
        other = begun(store)
        for number in range(11, 17):
            exchange(other, number)

    said_, told = watched(store, anew, settings=Compaction(continuous_interval=6, keep_recent=2))
    assert (said_, told) == (["s1: cadence: 10 messages pruned, 2 kept"], [])
    assert b"7351" not in store.load("s1").log


def test_missing_store_does_not_end_the_watch():
    store, kept = talked(3)
    listed = store.list

    def gone(project_id=None):
        store.list = listed
        raise StoreError("the server is away")

    def away():
        store.list = gone

    said_, told = watched(store, away, lambda: exchange(kept, 4))
    assert said_ == ["s1: cadence: 6 messages pruned, 2 kept"]
    assert [one for one in told if "the server is away" in one]


def test_damaged_session_is_reported_once(tmp_path):
    url = f"jsonl:{tmp_path / 'store'}"
    with closing(open_store(url)) as store:
        for name in ("s1", "s2"):
            kept = begun(store, name)
            for number in range(1, 5):
                exchange(kept, number)
    log = next(one for one in (tmp_path / "store").iterdir() if one.name.startswith("s1"))
    log.write_bytes(bytes(log.stat().st_size))
    said_, told = [], []
    hands = Hands(Script(*[lambda: None] * 3), said_.append, told.append, lambda: BEGUN + 60)
    watch(url, CADENCE, packaged(), hands)
    assert said_ == ["s2: cadence: 6 messages pruned, 2 kept"]
    assert len([one for one in told if "s1" in one]) == 1


POLICY = """[compaction]
continuous_interval = {interval}
keep_recent = 2
summarizer = "command"
command = ["./ask"]
timeout_secs = 600
"""
SCRIPT = """#!/bin/sh
echo asked > asked
exec sleep 600
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_sigterm_ends_a_wait_for_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = opened("sqlite", tmp_path)
    kept = begun(store)
    for number in range(1, 5):
        exchange(kept, number)
    before = [one.head for one in store.list()]
    stop_while_asking(store.url, POLICY.format(interval=1))
    assert [one.head for one in store.list()] == before
    store.close()


def stop_while_asking(url, settings):
    """Watch a store, and end the watch while its summariser is asked."""
    Path("lore.toml").write_text(settings)
    Path("ask").write_text(SCRIPT)
    Path("ask").chmod(0o755)
    os.mkfifo("asked")
    fifo = os.open("asked", os.O_RDWR)  # so that the other end does not wait
    run = [sys.executable, "-m", "lore", "compact", url, "--watch", "--interval", "60", "--config", "lore.toml"]
    environ = {**os.environ, "LORE_STATE": os.path.abspath("state")}
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as watch:
        try:
            assert select.select([fifo], [], [], 60)[0], watch.poll()
            watch.send_signal(signal.SIGTERM)
            said, told = watch.communicate(timeout=60)
        finally:
            watch.kill()
            os.close(fifo)
    assert (watch.returncode, said) == (0, b"")
    assert b"Traceback" not in told
