"""Sessions in one sqlite file: the contract, the file itself, and what older and other programs left there."""

import os
import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

from lore.store import sqlite as module
from lore.store.base import StoreError
from lore.store.registry import open_store
from lore.store.sqlite import Sqlite
from lore.testing import StoreContract
from lore.testing.stores.scenarios import add, begun, header, message
from store.harness import HarnessScenarios
from store.processes import ProcessScenarios
from store.sqlite_files import asked, half_done, locked_down, opened, picture


class TestSqlite(StoreContract, HarnessScenarios, ProcessScenarios):
    def make(self, place):
        return Sqlite(str(place / "sessions.db"))

    def url(self, place):
        return f"sqlite:{place}/sessions.db"

    def stamp(self, place, version):
        with closing(sqlite3.connect(place / "sessions.db", isolation_level=None)) as connection:
            before = connection.execute("PRAGMA user_version").fetchone()[0]
            connection.execute(f"PRAGMA user_version = {version}")
        return before


# the file


def test_first_write_makes_private_file_and_folders(tmp_path):
    file = tmp_path / "one" / "two" / "sessions.db"
    with opened(file) as store:
        assert store.list() == []
        assert store.resolve("client") is None
        assert not (tmp_path / "one").exists()
        begun(store, message("u1"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
        assert modes == {"sessions.db": 0o600, "sessions.db-wal": 0o600, "sessions.db-shm": 0o600}
        assert [folder.stat().st_mode & 0o777 for folder in (file.parent, file.parent.parent)] == [0o700, 0o700]
        assert store.verify().notes == ()
    assert [path.name for path in file.parent.iterdir()] == ["sessions.db"]


@pytest.mark.parametrize(
    "name", ["a b.db", "a?b=c&mode=ro", "100%41.db", "ä日本.db", "-x.db", "a;b'c\".db", "file:x", "a\\b"]
)
def test_file_has_the_name_in_the_url(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with closing(open_store(f"sqlite:{name}")) as store:
        begun(store, message("u1"))
        assert store.url == f"sqlite:{name}"
    assert os.listdir(tmp_path) == [name]
    with closing(open_store(f"sqlite:{tmp_path}/{name}")) as store:
        assert len(store.load("s").events) == 2


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:///x.db", "sqlite://host/x.db", "sqlite::memory:", "sqlite:a\0b"])
def test_ambiguous_url_is_refused(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as error:
        open_store(url)
    assert error.value.hint
    assert os.listdir(tmp_path) == []


def test_path_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    for name in ("pipe", ".", "file/x.db"):
        with pytest.raises(StoreError) as error, opened(tmp_path / name) as store:
            store.create(header())
        assert error.value.hint


def test_store_stays_in_place_after_chdir(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with opened("s.db") as store:
        monkeypatch.chdir(tmp_path / "b")
        begun(store)
    assert os.listdir(tmp_path / "a") == ["s.db"]
    assert os.listdir(tmp_path / "b") == []


PRAGMAS = {
    "journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "trusted_schema": 0, "cell_size_check": 1,
    "fullfsync": 1, "checkpoint_fullfsync": 1,
}  # fmt: skip


def test_file_is_opened_durably_and_without_trust(tmp_path):
    with opened(tmp_path / "s.db") as reader, opened(tmp_path / "s.db") as store:
        assert reader.list() == []
        begun(store)
        assert [one.session_id for one in reader.list()] == ["s"]
        with store.transaction(write=False) as tx:
            assert {name: tx.execute(f"PRAGMA {name}")[0][0] for name in PRAGMAS} == PRAGMAS


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="which folder is meant is asked of /proc")
def test_new_file_and_folder_names_are_durable(tmp_path, monkeypatch):
    """Both could be left out, and no test failed: the store would be gone with the power, acknowledged events in it."""
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    with opened(tmp_path / "new" / "s.db") as store:
        begun(store)
    assert synced == [str(tmp_path), str(tmp_path / "new")]


def test_verify_notes_a_file_others_may_read(tmp_path):
    (tmp_path / "s.db").write_bytes(b"")
    (tmp_path / "s.db").chmod(0o644)
    with opened(tmp_path / "s.db") as store:
        begun(store)
        assert "0644" in store.verify().notes[0]
    assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o644


def test_old_sqlite_library_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module.sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(StoreError, match=r"3\.37"):
        Sqlite(str(tmp_path / "s.db"))


# who may not write


def test_read_only_file_can_be_read(tmp_path, monkeypatch):
    with opened(tmp_path / "s.db") as store:
        begun(store, message("u1"))
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


def test_read_only_file_is_read_with_its_wal(tmp_path, monkeypatch):
    with opened(tmp_path / "s.db") as writer:
        begun(writer, message("u1"))
        with monkeypatch.context() as patch:
            locked_down(tmp_path, patch)
            with opened(tmp_path / "s.db") as reader:
                assert len(reader.load("s").events) == 2


def test_read_only_file_with_a_journal_is_refused(tmp_path, monkeypatch):
    """A journal beside it says that the file is half written; to take that back it would have to be written."""
    with opened(tmp_path / "s.db") as store:
        begun(store, message("u1"))
    half_done(tmp_path / "s.db", "CREATE TABLE more (x)")
    before = picture(tmp_path)
    locked_down(tmp_path, monkeypatch)
    with pytest.raises(StoreError, match="cannot be written") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert error.value.hint
    assert picture(tmp_path) == before


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


def test_save_costs_the_same_in_long_sessions(tmp_path):
    with opened(tmp_path / "s.db") as store:
        head = begun(store, message("u1"))
        short = work(store, lambda: add(store, message("u2"), base=head))
        head = add(store, *(message(f"u{number}") for number in range(3, 3000)))
        long = work(store, lambda: add(store, message("u3000"), base=head))
    assert short == long


def test_session_saved_in_full_adds_only_new_rows(tmp_path):
    """All of its rows were deleted and written anew each time."""
    file = tmp_path / "s.db"
    with opened(file) as store:
        begun(store, message("u1"))
        data = store.load("s")
        rows = asked(file, "SELECT rowid, line FROM events ORDER BY number")
        assert store.save(data) == data.head
        more = replace(data, events=(*data.events, message("u2")), project_id="p", metadata=b'{"k":1}')
        store.save(more)
        assert asked(file, "SELECT rowid, line FROM events ORDER BY number")[:-1] == rows
        assert store.load("s").events == more.events
        assert (store.list("p")[0].turns, store.load("s").metadata) == (0, b'{"k":1}')
        assert store.verify().damage == ()
