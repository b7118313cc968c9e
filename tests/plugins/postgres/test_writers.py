"""Several writers of one PostgreSQL store: threads, processes, and a stuck writer."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier, Event, Thread

import psycopg
import pytest

from lore.store.base import ConflictError, Head, StoreError
from lore.store.locks import trylock
from lore.store.registry import ignore, open_store
from lore.testing.stores import add, begin, events, header, message
from lore_plugins.postgres.store import Postgres

FORKED = pytest.mark.skipif(sys.platform != "linux", reason="a fork here may not use what its parent loaded")
QUIET = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")  # it is about threads, as is the test


def forking(test):
    return FORKED(QUIET(test))


@pytest.fixture
def opening(database):
    """Return a function that opens a store of one database; all are closed at the end."""
    opened = []

    def another(more=""):
        opened.append(Postgres.open(database + more, ignore))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


def test_lock_of_a_user_holds_for_all_machines(opening, monkeypatch, tmp_path):
    held = []
    with ExitStack() as stack:
        for machine in "ab":
            monkeypatch.setenv("LORE_STATE", str(tmp_path / machine))
            held.append(stack.enter_context(trylock(opening(), "agent", "ada")))
        held.append(stack.enter_context(trylock(opening(), "agent", "bob")))
    with trylock(opening(), "agent", "ada") as is_free:
        assert [*held, is_free] == [True, False, True, True]


def test_both_writers_of_a_new_session_succeed(opening, monkeypatch):
    """Regression: the second looked for the session before it existed, and was refused."""
    memory, first, second = open_store("memory:"), opening(), opening()
    begin(memory, message("u1"))
    data, find, found = memory.load("s"), second._find, []

    def late(tx, session_id, *, write=False):
        if not found:
            found.append(first.save(data))
            return None
        return find(tx, session_id, write=write)

    monkeypatch.setattr(second, "_find", late)
    assert second.save(data) == found[0]
    assert events(first) == data.events


def test_second_save_on_one_base_waits_then_fails(opening, monkeypatch):
    one, other = opening(), opening()
    base = begin(one)
    written, go_on = Event(), Event()
    commit = one.link.commit

    def slow(connection):
        written.set()
        assert go_on.wait(120)
        commit(connection)

    monkeypatch.setattr(one.link, "commit", slow)
    with ThreadPoolExecutor(2) as pool:
        winner = pool.submit(add, one, message("u1"), base=base)
        assert written.wait(120)
        loser = pool.submit(add, other, message("u2"), base=base)
        waits_for_a_lock(opening())
        go_on.set()
        assert isinstance(winner.result(30), Head)
        with pytest.raises(ConflictError):
            loser.result(30)
    assert events(other) == (header(), message("u1"))


def waits_for_a_lock(store):
    """Wait until a client of the database waits for a lock."""
    with store.transaction(write=False) as tx:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = ? AND datname = current_database()"
        while tx.execute(sql, ("Lock",)) == [(0,)]:
            tx.execute("SELECT pg_stat_clear_snapshot()")


def test_stuck_writer_blocks_others_briefly(database, opening):
    store = opening("&options=-clock_timeout%3D50")
    base = begin(store)
    with psycopg.connect(database) as stuck:
        stuck.execute("SELECT 1 FROM lore.sessions WHERE session_id = 's' FOR UPDATE")
        for call in (
            lambda: add(store, message("u1"), base=base), lambda: store.move("s", "p"),
            lambda: store.delete("s"), lambda: store.bind("c", "s"), lambda: store.save(store.load("s")),
        ):  # fmt: skip
            with pytest.raises(StoreError, match="another writer") as caught:
                call()
            assert "pg_stat_activity" in caught.value.hint
        assert add(store, message("u1"), session_id="t", base=begin(store, session_id="t")).number == 2
    assert add(store, message("u1"), base=base).number == 2


def test_saves_are_synchronous_whatever_the_server_default(database, opening):
    store = opening("&options=-csynchronous_commit%3Doff")
    with store.transaction(write=True) as tx:
        assert tx.execute("SHOW synchronous_commit") == [("on",)]
        assert tx.execute("SHOW lock_timeout") == [("30s",)]
        assert tx.execute("SHOW idle_in_transaction_session_timeout") == [("1min",)]
    with opening("&options=-csynchronous_commit%3Dremote_apply").transaction(write=True) as tx:
        assert tx.execute("SHOW synchronous_commit") == [("remote_apply",)]


def test_deadlocked_deletes_both_succeed(opening):
    """Each session is the parent of the other, so that deletes lock their rows in opposite order."""
    one, other, third = (opening("&options=-cdeadlock_timeout%3D10") for _ in range(3))
    gate = Barrier(2)
    for number in range(5):
        names = (f"a{number}", f"b{number}")
        begin(third, session_id=names[0], parent_session_id=names[1])
        begin(third, session_id=names[1], parent_session_id=names[0])

        def delete(store, name):
            gate.wait()
            try:
                return set(store.delete(name))
            except StoreError:  # the other has deleted both
                return set()

        with ThreadPoolExecutor(2) as pool:
            gone = list(pool.map(delete, (one, other), names))
        assert set(names) in gone
        assert third.list() == []


@forking
def test_child_forked_during_a_call_can_read(opening):
    """The lock of a call belongs to its process, so that the child does not wait for ever."""
    store = opening()
    head = begin(store)
    inside, go_on = Event(), Event()

    def hold():
        with store.transaction(write=False):
            inside.set()
            go_on.wait(120)

    holding = Thread(target=hold)
    holding.start()
    assert inside.wait(120)
    copy = Postgres(store.link)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"%d" % copy.load("s").head.number)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b"%d" % head.number
    go_on.set()
    holding.join()
