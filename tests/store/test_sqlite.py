"""Sessions in one sqlite file: the file, other programs' files, full disks, killed processes."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import resources

import pytest

from lore.store.base import FormatError, SessionDelta, StoreError
from lore.store.registry import open_existing, open_store
from lore.store.sql import SCHEMA_VERSION
from lore.store.sqlite import Sqlite
from lore.testing.stores import add, begin, header, message
from store.sqlite_files import half_done, locked_down, opened, picture, run_sql

# the file


def test_first_write_makes_private_file_and_folders(tmp_path):
    file = tmp_path / "one" / "two" / "sessions.db"
    with opened(file) as store:
        assert store.list() == []
        assert store.resolve("client") is None
        assert not (tmp_path / "one").exists()
        begin(store, message("u1"))
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
        begin(store, message("u1"))
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


PRAGMAS = {
    "journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "trusted_schema": 0, "cell_size_check": 1,
    "fullfsync": 1, "checkpoint_fullfsync": 1,
}  # fmt: skip


def test_file_is_opened_durably_and_without_trust(tmp_path):
    with opened(tmp_path / "s.db") as reader, opened(tmp_path / "s.db") as store:
        assert reader.list() == []
        begin(store)
        assert [info.session_id for info in reader.list()] == ["s"]
        with store.transaction(write=False) as tx:
            assert {name: tx.execute(f"PRAGMA {name}")[0][0] for name in PRAGMAS} == PRAGMAS


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="which folder is meant is asked of /proc")
def test_new_file_and_folder_names_are_durable(tmp_path, monkeypatch):
    """Both could be left out, and no test failed: the store would be gone with the power, acknowledged events in it."""
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    with opened(tmp_path / "new" / "s.db") as store:
        begin(store)
    assert synced == [str(tmp_path), str(tmp_path / "new")]


def test_verify_notes_a_file_others_may_read(tmp_path):
    (tmp_path / "s.db").write_bytes(b"")
    (tmp_path / "s.db").chmod(0o644)
    with opened(tmp_path / "s.db") as store:
        begin(store)
        assert "0644" in store.verify().notes[0]
    assert (tmp_path / "s.db").stat().st_mode & 0o777 == 0o644


# who may not write


def test_read_only_file_can_be_read(tmp_path, monkeypatch):
    with opened(tmp_path / "s.db") as store:
        begin(store, message("u1"))
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
        begin(writer, message("u1"))
        with monkeypatch.context() as patch:
            locked_down(tmp_path, patch)
            with opened(tmp_path / "s.db") as reader:
                assert len(reader.load("s").events) == 2


def test_read_only_file_with_a_journal_is_refused(tmp_path, monkeypatch):
    """A journal means that the file is half written, and undoing that would write to it."""
    with opened(tmp_path / "s.db") as store:
        begin(store, message("u1"))
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
        head = begin(store, message("u1"))
        short = work(store, lambda: add(store, message("u2"), base=head))
        head = add(store, *(message(f"u{number}") for number in range(3, 3000)))
        long = work(store, lambda: add(store, message("u3000"), base=head))
    assert short == long


# what others left


OTHERS = {
    "a database of another program": ("CREATE TABLE notes (text)",),
    "an application id of another program": ("PRAGMA application_id = 7", "CREATE TABLE sessions (session_id)"),
    "a version of another program": ("PRAGMA user_version = 3", "CREATE TABLE sessions (session_id)"),
}


@pytest.mark.parametrize("statements", OTHERS.values(), ids=OTHERS)
def test_database_of_another_program_is_refused(tmp_path, statements):
    run_sql(tmp_path / "s.db", *statements)
    before = picture(tmp_path)
    with pytest.raises(FormatError, match="another program") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert error.value.hint
    assert picture(tmp_path) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"hello" * 30, "not an sqlite database"), (bytes(4096), "not an sqlite database"), (b"S", "it has 1 byte, less"),
     (b"SQLite format 3\0", "it has 16 bytes, less than the beginning of one")],
)  # fmt: skip
def test_file_that_is_not_a_database_is_refused(tmp_path, content, message):
    (tmp_path / "s.db").write_bytes(content)
    before = picture(tmp_path)
    with pytest.raises(FormatError, match=message) as error:
        Sqlite(str(tmp_path / "s.db"))
    assert error.value.hint
    assert picture(tmp_path) == before


@pytest.mark.parametrize("statement", [
    "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TABLE other (x)",
])  # fmt: skip
def test_database_with_triggers_or_views_is_refused(tmp_path, statement):
    make(tmp_path / "s.db")
    run_sql(tmp_path / "s.db", statement)
    with pytest.raises(FormatError, match="not lore's"):
        Sqlite(str(tmp_path / "s.db"))


def test_schema_is_that_of_its_version():
    """If it changes, stores in use cannot be read: it needs another version."""
    schema = resources.files("lore.store").joinpath("schema.sql").read_text("utf-8").partition("\n\n")[2]
    digest = hashlib.sha256(schema.encode()).hexdigest()
    assert (SCHEMA_VERSION, digest[:16]) == (7, "6679956346ee4b53")


def make(path, version=SCHEMA_VERSION):
    """Make a store with one session, and write a version of the schema into it."""
    with opened(path) as store:
        store.create(header())
    run_sql(path, f"PRAGMA user_version = {version}")


@pytest.mark.parametrize(
    ("version", "hint"), [(SCHEMA_VERSION + 1, "newer lore"), (SCHEMA_VERSION - 1, "make a new store")]
)
def test_database_of_another_version_is_refused(tmp_path, version, hint):
    make(tmp_path / "s.db", version)
    before = picture(tmp_path)
    with pytest.raises(FormatError, match=f"version {version}: this lore knows {SCHEMA_VERSION}") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert hint in error.value.hint
    assert picture(tmp_path) == before


# no room, no disk


def test_full_disk_changes_nothing(tmp_path):
    with opened(tmp_path / "s.db") as store:
        head = begin(store, message("u1"))
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
        head = begin(store)
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
    """The first transaction writes the file before it removes its journal: the file is not a database yet."""
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE sessions (x)")
        connection.execute("INSERT INTO sessions VALUES (zeroblob(100000))")
        shutil.copytree(tmp_path, tmp_path / "left")
        connection.execute("ROLLBACK")
    assert (tmp_path / "left" / "s.db").stat().st_size > 0
    with opened(tmp_path / "left" / "s.db") as store:
        begin(store, message("u1"))
        assert store.verify().damage == ()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_replaced_file_takes_no_save(tmp_path, is_replaced):
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other" / "s.db") as store:
        begin(store, message("u1"))
    with opened(tmp_path / "s.db") as store:
        head = begin(store)
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
        head = begin(first, message("u1"))
        for end in ("", "-wal", "-shm"):
            (tmp_path / f"s.db{end}").rename(tmp_path / f"old{end}")
        with opened(tmp_path / "s.db") as second:
            begin(second, message("u2"), message("u3"))
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
        head = begin(store)
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
        begin(first)
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
        begin(store, message("u1"))
    os.mkfifo(tmp_path / f"s.db{end}")
    with pytest.raises(StoreError, match="is not a regular file"):
        opened(tmp_path / "s.db")


def test_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """`sqlite:~/s.db` made a folder that is called `~`, whose removal by hand may be that of the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with closing(open_store("sqlite:~/s.db")) as store:
        begin(store, message("u1"))
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    with closing(open_existing("sqlite:~/s.db")) as store:
        assert store.list()
