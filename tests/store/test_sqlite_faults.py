"""A sqlite file that is full, busy, killed over, replaced, or has odd writers: nothing acknowledged is lost."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from lore.store import sqlite
from lore.store.base import SessionDelta, StoreError
from lore.store.registry import open_store, open_there
from lore.store.sqlite import stamp_of
from lore.testing.stores.scenarios import add, begun, message
from store.sqlite_files import opened

# no room, no disk


def test_full_disk_changes_nothing(tmp_path):
    with opened(tmp_path / "s.db") as store:
        head = begun(store, message("u1"))
        before = store.load("s")
        store._connection.execute("PRAGMA max_page_count = 20")
        delta = SessionDelta(base=head, new_events=tuple(message(f"u{n}", "x" * 5000) for n in range(2, 40)))
        with pytest.raises(StoreError, match="the disk is full") as error:
            store.save_delta("s", delta)
        assert "same again" in error.value.hint
        assert store.load("s") == before
        assert store.verify().damage == ()
        store._connection.execute("PRAGMA max_page_count = 10000")
        assert store.save_delta("s", delta).number == 40
        assert store.verify().damage == ()


class FailingCommit:
    """A connection whose disk fails as the log is synced."""

    def __init__(self, connection):
        self.connection = connection

    def execute(self, sql, *values):
        if sql == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return self.connection.execute(sql, *values)

    def __getattr__(self, name):
        return getattr(self.connection, name)


def test_failed_sync_is_not_acknowledged(tmp_path):
    with opened(tmp_path / "s.db") as store:
        head = begun(store)
        delta, real = SessionDelta(base=head, new_events=(message("u1"),)), store._connection
        store._connection = FailingCommit(real)
        with pytest.raises(StoreError, match="the disk failed") as error:
            store.save_delta("s", delta)
        assert "same again" in error.value.hint
        store._connection = real
        assert store.load("s").head == head
        assert store.save_delta("s", delta).number == 2


# processes that die


def test_file_whose_first_transaction_died_is_usable(tmp_path):
    """The first transaction writes the file before its journal is gone: what it leaves is no database yet."""
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE sessions (x)")
        connection.execute("INSERT INTO sessions VALUES (zeroblob(100000))")
        shutil.copytree(tmp_path, tmp_path / "left")
        connection.execute("ROLLBACK")
    assert (tmp_path / "left" / "s.db").stat().st_size > 0
    with opened(tmp_path / "left" / "s.db") as store:
        begun(store, message("u1"))
        assert store.verify().damage == ()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_replaced_file_takes_no_save(tmp_path, is_replaced):
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other" / "s.db") as store:
        begun(store, message("u1"))
    with opened(tmp_path / "s.db") as store:
        head = begun(store)
        if is_replaced:
            (tmp_path / "other" / "s.db").replace(tmp_path / "s.db")
        else:
            (tmp_path / "s.db").unlink()
        with pytest.raises(StoreError, match="replaced or removed") as error:
            add(store, message("u2"), base=head)
        assert "put the file back" in error.value.hint


def test_wal_of_a_replacing_file_is_left_alone(tmp_path):
    """sqlite removes a log by its name when the last connection is closed, whosever it is by then."""
    with opened(tmp_path / "s.db") as first:
        head = begun(first, message("u1"))
        for end in ("", "-wal", "-shm"):
            (tmp_path / f"s.db{end}").rename(tmp_path / f"old{end}")
        with opened(tmp_path / "s.db") as second:
            begun(second, message("u2"), message("u3"))
            with pytest.raises(StoreError, match="replaced or removed"):
                add(first, message("u4"), base=head)
            assert (tmp_path / "s.db-wal").stat().st_size > 0
            assert len(second.load("s").events) == 3
    with opened(tmp_path / "s.db") as store:
        assert len(store.load("s").events) == 3
    with opened(tmp_path / "old") as store:
        assert store.load("s").head == head


# several at once


def test_busy_store_is_an_error_but_readable(tmp_path):
    with opened(tmp_path / "s.db") as store, opened(tmp_path / "s.db", patience=0.02) as other:
        head = begun(store)
        with store.transaction(write=True):
            with pytest.raises(StoreError, match="busy") as error:
                add(other, message("u1"), base=head)
            assert error.value.hint
            assert other.load("s").head == head
        assert add(other, message("u1"), base=head).number == 2


LOOK = "import sys; from lore.store.sqlite import Sqlite; store = Sqlite(sys.argv[1]); store.list(); store.close()"


def test_second_store_keeps_the_locks_of_the_first(tmp_path):
    """To open and close a file drops the locks that the process has on it, and others would remove the log."""
    with opened(tmp_path / "s.db") as first:
        begun(first)
        with opened(tmp_path / "s.db") as second:
            second.list()
        subprocess.run([sys.executable, "-c", LOOK, str(tmp_path / "s.db")], check=True)
        assert (tmp_path / "s.db-wal").exists()
        add(first, message("u1"))
    with opened(tmp_path / "s.db") as store:
        assert len(store.load("s").events) == 2


# odd writers


@pytest.mark.parametrize("end", ["-wal", "-journal", "-shm"])
def test_named_pipe_beside_the_file_is_refused(tmp_path, end):
    """Whoever could write to the folder stopped every reader for ever, who waited for somebody to write to it."""
    with opened(tmp_path / "s.db") as store:
        begun(store, message("u1"))
    os.mkfifo(tmp_path / f"s.db{end}")
    with pytest.raises(StoreError, match="is not a regular file"):
        opened(tmp_path / "s.db")


def test_wal_is_found_through_a_link(tmp_path):
    """sqlite keeps its log beside what a link leads to: beside the link, a newer version in it was overlooked."""
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    with opened(tmp_path / "s.db") as store:
        begun(store, message("u1"))
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
            other.execute("PRAGMA wal_autocheckpoint = 0")
            other.execute("PRAGMA user_version = 99")
            assert stamp_of(str(tmp_path / "link.db"), 1.0).version == 99


def test_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """`sqlite:~/s.db` made a folder that is called `~`, whose removal by hand may be that of the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with closing(open_store("sqlite:~/s.db")) as store:
        begun(store, message("u1"))
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    with closing(open_there("sqlite:~/s.db")) as store:
        assert store.list()


def test_file_damaged_for_a_moment_is_read_again(tmp_path, monkeypatch):
    path, seen = str(tmp_path / "s.db"), []
    open_store(f"sqlite:{path}").create(b'{"kind":"session_started","session_id":"a"}')
    numbers = sqlite._numbers

    def torn(path):
        seen.append(path)
        if len(seen) < 3:
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return numbers(path)

    monkeypatch.setattr(sqlite, "_numbers", torn)
    assert len(open_store(f"sqlite:{path}").list()) == 1
    assert len(seen) == 3
