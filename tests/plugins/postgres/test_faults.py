"""Servers that stop, crash and restart, and damaged files: no acknowledged data is lost."""

import psycopg
import pytest

from lore.store.base import DamagedError, StoreError
from lore.store.registry import ignore
from lore.testing.stores import add, begin, events, header, message
from lore_plugins.postgres.link import DELAYS, Cursor
from lore_plugins.postgres.store import Postgres


@pytest.fixture
def told():
    return []


@pytest.fixture
def store(bare, told):
    store = Postgres.open(bare, told.append)
    yield store
    store.close()


@pytest.fixture
def pauses(store, monkeypatch):
    asked = []
    monkeypatch.setattr(store.link, "_pause", asked.append)
    return asked


def restart(server):
    server.kill()
    server.start()


def once(monkeypatch, place, name, action):
    """Do something before the next call of a method."""
    method = getattr(place, name)

    def first(*args, **kwargs):
        monkeypatch.setattr(place, name, method)
        action()
        return method(*args, **kwargs)

    monkeypatch.setattr(place, name, first)


def once_after(monkeypatch, store, action):
    """Do something after the next COMMIT, and lose its answer."""
    commit = store.link.commit

    def first(connection):
        monkeypatch.setattr(store.link, "commit", commit)
        commit(connection)
        action()
        raise (
            psycopg.OperationalError("server closed the connection unexpectedly")
            if connection.closed
            else (_broken(connection))
        )

    monkeypatch.setattr(store.link, "commit", first)


def _broken(connection):
    try:
        connection.execute("SELECT 1")
    except psycopg.Error as error:
        return error
    raise AssertionError("the connection holds")


def test_call_is_repeated_after_a_server_crash(store, pauses, postgres, monkeypatch):
    head = begin(store)
    once(monkeypatch, Cursor, "executemany", lambda: restart(postgres))
    assert add(store, message("u1"), message("u2"), base=head).number == 3
    assert events(store) == (header(), message("u1"), message("u2"))
    assert store.verify().damage == ()


@pytest.mark.parametrize("when", ["before", "after"])
def test_every_write_is_done_once_if_commit_breaks(store, pauses, postgres, monkeypatch, when):
    def cut():
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lore'")

    def arm():
        once(monkeypatch, store.link, "commit", cut) if when == "before" else once_after(monkeypatch, store, cut)

    arm()
    head = store.create(header())
    arm()
    assert add(store, message("u1"), base=head).number == 2
    data = store.load("s")
    arm()
    assert store.save(data) == data.head
    arm()
    store.move("s", "p")
    arm()
    store.bind("client", "s")
    store.create(header("fork", parent_session_id="s"))
    assert (store.load("s").project_id, store.resolve("client"), events(store)) == ("p", "s", (header(), message("u1")))
    arm()
    assert store.delete("s") == ("fork", "s")
    assert store.list() == []
    assert len(pauses) == 6


def test_stopped_server_is_an_error(store, pauses, postgres):
    head = begin(store)
    postgres.stop()
    with pytest.raises(StoreError) as caught:
        add(store, message("u1"), base=head)
    assert "nothing was changed" in caught.value.message or "no connection" in caught.value.message
    assert "server runs" in caught.value.hint
    assert pauses == list(DELAYS)
    with pytest.raises(StoreError, match="no connection"):
        store.list()
    assert pauses == list(DELAYS)
    postgres.start()
    assert add(store, message("u1"), base=head).number == 2


def test_commit_without_answer_is_reported_as_unknown(store, pauses, postgres, monkeypatch):
    head = begin(store)
    once_after(monkeypatch, store, postgres.kill)
    with pytest.raises(StoreError, match="or nothing") as caught:
        add(store, message("u1"), base=head)
    assert "nothing is stored twice" in caught.value.hint
    postgres.start()
    assert add(store, message("u1"), base=head).number == 2
    assert events(store) == (header(), message("u1"))


def test_starting_server_is_waited_for(bare, monkeypatch):
    connect, answers = psycopg.connect, ["starting up", "in recovery mode"]

    def slowly(*args, **kwargs):
        if answers:
            raise psycopg.OperationalError(f"connection failed: FATAL:  the database system is {answers.pop(0)}")
        return connect(*args, **kwargs)

    monkeypatch.setattr(psycopg, "connect", slowly)
    store = Postgres.open(bare, ignore)
    assert store.list() == []
    store.close()
    assert not answers


def test_interrupt_leaves_no_transaction_open(store, monkeypatch):
    head = begin(store)

    def interrupt():
        raise KeyboardInterrupt

    for place, name in ((Cursor, "executemany"), (store.link, "commit")):
        once(monkeypatch, place, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            add(store, message("u1"), base=head)
    assert add(store, message("u2"), base=head).number == 2
    assert events(store) == (header(), message("u2"))


def test_commit_answered_by_rollback_is_an_error(store):
    """PostgreSQL answers COMMIT of a failed transaction with ROLLBACK, not with an error."""
    begin(store)
    with pytest.raises(StoreError, match="nothing is stored"), store.transaction(write=True) as tx:  # noqa: PT012
        tx.execute("UPDATE sessions SET size = 7")
        with pytest.raises(psycopg.Error):
            tx.execute("SELECT 1 / 0")
    assert store.verify().damage == ()


def test_unreadable_page_is_damage_of_its_session(store, postgres, bare):
    begin(store, *(message(f"u{number}", "x" * 500) for number in range(60)))
    begin(store, message("u1"), session_id="t")
    ((path,),) = postgres.run("SELECT pg_relation_filepath('lore.events')", bare)
    postgres.stop()
    with open(postgres.folder / "data" / path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 8192)
    postgres.start()
    with pytest.raises(DamagedError):
        store.load("s")
    assert store.load("t").head.number == 2
    (session,) = store.verify().damage
    assert session.session_id == "s"
    assert "cannot read" in session.message
    assert add(store, message("u2"), session_id="t").number == 3


def test_verify_notes_a_server_without_fsync(store, postgres):
    assert store.verify().notes == ()
    postgres.run("ALTER SYSTEM SET fsync = off")
    try:
        restart(postgres)
        (note,) = store.verify().notes
        assert "fsync" in note
    finally:
        postgres.run("ALTER SYSTEM RESET fsync")
        restart(postgres)


def test_vacuum_without_permission_is_reported(bare, postgres, store, told):
    postgres.run("CREATE ROLE helper LOGIN")
    try:
        postgres.run("GRANT USAGE ON SCHEMA lore TO helper", bare)
        postgres.run("GRANT ALL ON ALL TABLES IN SCHEMA lore TO helper", bare)
        other = Postgres.open(bare.replace("//lore@", "//helper@"), told.append)
        assert other.vacuum() == 0
        other.close()
        assert any("permission denied" in one or "skipping" in one for one in told)
    finally:
        postgres.run("DROP OWNED BY helper", bare)
        postgres.run("DROP ROLE helper")
