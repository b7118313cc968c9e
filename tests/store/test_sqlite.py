"""Sessions in one sqlite file: the contract, the file itself, and what older and other programs left there."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from lore.store import sqlite as module
from lore.store.base import EMPTY, DamagedError, FormatError, SessionDelta, StoreError
from lore.store.registry import open_store
from lore.store.schema import LATEST, STEPS
from lore.store.sqlite import Sqlite
from lore.testing import StoreContract
from lore.testing.stores.making import add, begun, header, said
from store.old_schemas import FOLDER, FORK, PARENT, make


class TestSqlite(StoreContract):
    def make(self, place):
        return Sqlite(str(place / "sessions.db"))

    def stamp(self, place, version):
        with closing(sqlite3.connect(place / "sessions.db", isolation_level=None)) as connection:
            before = connection.execute("PRAGMA user_version").fetchone()[0]
            connection.execute(f"PRAGMA user_version = {version}")
        return before


def opened(path, tell=lambda _: None, patience=10.0):
    return closing(Sqlite(str(path), tell, patience=patience))


def asked(path, *statements):
    """Run statements on a file by other means, and return the rows of the last."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(one).fetchall() for one in statements][-1]


def picture(folder):
    """Return all that could be seen to change in a folder."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) for path in folder.iterdir()}


# the file


def test_a_store_is_made_by_the_first_write_in_folders_and_files_of_ones_own(tmp_path):
    file = tmp_path / "one" / "two" / "sessions.db"
    with opened(file) as store:
        assert store.list() == []
        assert store.resolve("client") is None
        assert not (tmp_path / "one").exists()
        begun(store, said("u1"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
        assert modes == {"sessions.db": 0o600, "sessions.db-wal": 0o600, "sessions.db-shm": 0o600}
        assert [folder.stat().st_mode & 0o777 for folder in (file.parent, file.parent.parent)] == [0o700, 0o700]
        assert store.verify().notes == ()
    assert [path.name for path in file.parent.iterdir()] == ["sessions.db"]


def test_a_store_that_was_read_while_it_was_missing_sees_it_when_it_is_there(tmp_path):
    with opened(tmp_path / "s.db") as reader, opened(tmp_path / "s.db") as writer:
        assert reader.list() == []
        begun(writer, said("u1"))
        assert [one.session_id for one in reader.list()] == ["s"]


@pytest.mark.parametrize(
    "name", ["a b.db", "a?b=c&mode=ro", "100%41.db", "ä日本.db", "-x.db", "a;b'c\".db", "file:x", "a\\b"]
)
def test_a_file_is_named_as_it_is_written(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with closing(open_store(f"sqlite:{name}")) as store:
        begun(store, said("u1"))
        assert store.url == f"sqlite:{name}"
    assert os.listdir(tmp_path) == [name]
    with closing(open_store(f"sqlite:{tmp_path}/{name}")) as store:
        assert len(store.load("s").events) == 2


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:///x.db", "sqlite://host/x.db", "sqlite::memory:", "sqlite:a\0b"])
def test_a_url_that_may_mean_something_else_is_refused(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as error:
        open_store(url)
    assert error.value.hint
    assert os.listdir(tmp_path) == []


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    for name in ("pipe", ".", "file/x.db"):
        with pytest.raises(StoreError) as error, opened(tmp_path / name) as store:
            store.create(header())
        assert error.value.hint


def test_a_store_stays_where_it_was_opened_when_the_process_goes_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with opened("s.db") as store:
        monkeypatch.chdir(tmp_path / "b")
        begun(store)
    assert os.listdir(tmp_path / "a") == ["s.db"]
    assert os.listdir(tmp_path / "b") == []


def test_what_is_acknowledged_is_synced_in_a_write_ahead_log(tmp_path):
    with opened(tmp_path / "s.db") as store:
        begun(store)
        with store.transaction(write=False) as tx:
            found = [tx.execute(f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert found == [[("wal",)], [(2,)], [(1,)]]


def test_vacuum_gives_back_what_a_deleted_session_took(tmp_path):
    with opened(tmp_path / "s.db") as store:
        assert store.vacuum() == 0
        begun(store, *(said(f"u{number}", "x" * 10_000) for number in range(100)))
        begun(store, said("u1"), session_id="t")
        store.delete("s")
        assert store.vacuum() > 1_000_000
        assert len(store.load("t").events) == 2
    assert (tmp_path / "s.db").stat().st_size < 100_000


def test_a_file_that_others_may_read_is_noted_and_left_so(tmp_path):
    (tmp_path / "s.db").write_bytes(b"")
    (tmp_path / "s.db").chmod(0o644)
    with opened(tmp_path / "s.db") as store:
        begun(store)
        assert "0644" in store.verify().notes[0]
    assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o644


def test_a_closed_store_says_so(tmp_path):
    store = Sqlite(str(tmp_path / "s.db"))
    begun(store)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.list()


def test_a_library_of_sqlite_that_is_too_old_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module.sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(StoreError, match=r"3\.37"):
        Sqlite(str(tmp_path / "s.db"))


# who may not write


def locked_down(folder, monkeypatch):
    """Make a folder and its files unwritable, for the superuser, too."""
    real = os.access

    def access(path, mode, **more):
        return real(path, mode, **more) and not (mode & os.W_OK and str(path).startswith(str(folder)))

    monkeypatch.setattr(os, "access", access)


def test_a_file_that_cannot_be_written_is_read_and_nothing_is_put_beside_it(tmp_path, monkeypatch):
    with opened(tmp_path / "s.db") as store:
        begun(store, said("u1"))
    before = picture(tmp_path)
    locked_down(tmp_path, monkeypatch)
    with opened(tmp_path / "s.db") as store:
        assert len(store.load("s").events) == 2
        assert store.verify().damage == ()
        for write in (lambda: store.create(header("t")), lambda: store.delete("s"), store.vacuum):
            with pytest.raises(StoreError, match="cannot be written") as error:
                write()
            assert error.value.hint
    assert picture(tmp_path) == before


def test_a_file_that_cannot_be_written_is_read_with_what_its_writer_has_not_put_into_it_yet(tmp_path, monkeypatch):
    with opened(tmp_path / "s.db") as writer:
        begun(writer, said("u1"))
        with monkeypatch.context() as patch:
            locked_down(tmp_path, patch)
            with opened(tmp_path / "s.db") as reader:
                assert len(reader.load("s").events) == 2


def test_an_older_file_that_cannot_be_written_says_what_to_do(tmp_path, monkeypatch):
    make(tmp_path / "s.db", 1)
    locked_down(tmp_path, monkeypatch)
    with pytest.raises(StoreError, match="schema version 1") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert "copy" in error.value.hint


# what others left


OTHERS = {
    "a database of another program": ("CREATE TABLE notes (text)",),
    "an application id of another program": ("PRAGMA application_id = 7", "CREATE TABLE sessions (session_id)"),
    "a version of another program": ("PRAGMA user_version = 3", "CREATE TABLE sessions (session_id)"),
}


@pytest.mark.parametrize("statements", OTHERS.values(), ids=OTHERS)
def test_another_programs_database_is_refused_and_not_touched(tmp_path, statements):
    asked(tmp_path / "s.db", *statements)
    before = picture(tmp_path)
    with pytest.raises(FormatError, match="another program") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert error.value.hint
    assert picture(tmp_path) == before


@pytest.mark.parametrize(
    "content", [b"hello", b'{"kind":"session_started"}\n' * 100, b"SQLite format 3\0", bytes(4096)]
)
def test_what_is_no_database_is_refused_and_not_touched(tmp_path, content):
    (tmp_path / "s.db").write_bytes(content)
    before = picture(tmp_path)
    with pytest.raises((FormatError, DamagedError)) as error:
        Sqlite(str(tmp_path / "s.db"))
    assert error.value.hint
    assert picture(tmp_path) == before


@pytest.mark.parametrize("statement", [
    "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TABLE other (x)",
])  # fmt: skip
def test_a_database_that_does_things_by_itself_is_refused(tmp_path, statement):
    make(tmp_path / "s.db", LATEST)
    asked(tmp_path / "s.db", statement)
    with pytest.raises(FormatError, match="not lore's"):
        Sqlite(str(tmp_path / "s.db"))


def newer(path):
    make(path, LATEST)
    asked(path, f"PRAGMA user_version = {LATEST + 1}")


def test_a_newer_database_is_refused_and_not_touched(tmp_path):
    newer(tmp_path / "s.db")
    before = picture(tmp_path)
    with pytest.raises(FormatError, match=f"version {LATEST + 1}: this lore knows {LATEST}") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert "newer lore" in error.value.hint
    assert picture(tmp_path) == before


def test_a_version_that_stands_only_in_the_log_beside_the_file_is_seen(tmp_path):
    """A newer lore that was killed after its upgrade leaves the old version in the file."""
    made = tmp_path / "made"
    made.mkdir()
    make(made / "s.db", LATEST)
    with closing(sqlite3.connect(made / "s.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {LATEST + 1}")
        shutil.copytree(made, tmp_path / "left")  # as a process that is killed leaves it
    (tmp_path / "left" / "s.db-shm").unlink()
    before = picture(tmp_path / "left")
    assert set(before) == {"s.db", "s.db-wal"}
    assert int.from_bytes(before["s.db"][0][60:64], "big") == LATEST
    with pytest.raises(FormatError, match=f"version {LATEST + 1}"):
        Sqlite(str(tmp_path / "left" / "s.db"))
    assert picture(tmp_path / "left") == before


# older schemas


@pytest.fixture(params=range(1, LATEST + 1), ids=lambda version: f"v{version}")
def older(request, tmp_path):
    """Return a copy of the database that a version left, and the version."""
    copy = tmp_path / "old.db"
    shutil.copy(FOLDER / f"sqlite-v{request.param}.db", copy)
    return copy, request.param


def test_an_older_database_is_brought_up_with_its_rows_and_takes_new_ones(older):
    file, version = older
    told = []
    with opened(file, told.append) as store:
        assert told == ([f"{store.url}: brought from schema version {version} to {LATEST}"] if version < LATEST else [])
        data, fork = store.load("s1"), store.load("s2")
        assert (data.events, fork.events) == (PARENT, FORK)
        assert (data.project_id, data.leaf_id, data.metadata) == ("p2", "u2", b'{"title":"two"}')
        assert (data.created_at, fork.created_at, fork.metadata) == ("2026-01-02T03:04:05Z", None, EMPTY)
        rows = [(row.session_id, row.seq, row.project_id, row.selector, row.content)
                for name in ("s1", "s2") for row in store.prompt_deltas(name)]  # fmt: skip
        assert rows == [
            ("s1", 0, "p2", b'{"target":"messages","insert_at":2}', b'[{"role":"user","text":"first"}]'),
            ("s2", 7, None, b'{"target":"messages","insert_at":0}', b"[]"),
        ]
        assert store.resolve("client") == ("s2" if version > 1 else None)
        assert (store.checkpoint("s1") is not None) == (version > 2)
        assert store.verify().damage == ()
        again = b'{"kind":"prompt_delta","seq":0,"selector":{"target":"messages","insert_at":3}}'
        head = store.save_delta("s1", SessionDelta(base=data.head, new_events=(again, said("u3"))))
        store.bind("another", "s1")
        assert head.number == len(PARENT) + 2
    with opened(file) as store:
        assert store.load("s1").head == head
        assert store.prompt_deltas("s1")[0].selector == b'{"target":"messages","insert_at":3}'
        assert store.verify().damage == ()
        assert store.delete("s1") == ("s2", "s1")
    assert asked(file, "PRAGMA user_version") == [(LATEST,)]


def test_a_step_that_was_released_is_never_changed(tmp_path):
    """The fixtures hold what each step made when it was new; the steps must make it still."""
    everything = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    for step in STEPS:
        kept, made = tmp_path / f"kept{step.version}.db", tmp_path / f"made{step.version}.db"
        shutil.copy(FOLDER / f"sqlite-v{step.version}.db", kept)
        make(made, step.version)
        assert asked(kept, everything) == asked(made, everything)


def test_an_upgrade_that_fails_leaves_the_older_database(tmp_path, monkeypatch):
    make(tmp_path / "s.db", 1)
    before = asked(tmp_path / "s.db", "SELECT sql FROM sqlite_schema")

    def no_room(step, tx, types):
        tx.execute(step.statements[0].format_map(types))
        raise StoreError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(module, "take", no_room)
        with pytest.raises(StoreError, match="no room"):
            Sqlite(str(tmp_path / "s.db"))
    assert asked(tmp_path / "s.db", "SELECT sql FROM sqlite_schema") == before
    assert asked(tmp_path / "s.db", "PRAGMA user_version") == [(1,)]
    with opened(tmp_path / "s.db") as store:
        assert store.load("s1").events == PARENT


# what a delta costs


def work(store, call):
    """Count the statements and the steps of sqlite's machine that a call takes."""
    statements, steps = [], []
    store._connection.set_trace_callback(statements.append)
    store._connection.set_progress_handler(lambda: steps.append(1), 1)
    call()
    store._connection.set_progress_handler(None, 0)
    store._connection.set_trace_callback(None)
    return len(statements), len(steps)


def test_a_delta_asks_the_same_of_a_long_session_as_of_a_short_one(tmp_path):
    with opened(tmp_path / "s.db") as store:
        head = begun(store, said("u1"))
        short = work(store, lambda: add(store, said("u2"), base=head))
        head = add(store, *(said(f"u{number}") for number in range(3, 3000)))
        long = work(store, lambda: add(store, said("u3000"), base=head))
    assert short == long
