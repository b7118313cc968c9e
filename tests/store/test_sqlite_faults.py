"""A sqlite file that is full, busy, killed over, replaced, or has odd writers: nothing acknowledged is lost."""

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest

from lore.store import sqlite
from lore.store.base import ConflictError, SessionDelta, StoreError
from lore.store.registry import open_store, open_there
from lore.store.sqlite import stamp_of
from lore.testing.stores.scenarios import LATER, add, begun, message
from store.sqlite_files import opened

DELTA = (
    b'{"kind":"prompt_delta","seq":3,"selector":{"target":"messages","insert_at":1},'
    b'"content":[{"role":"user","text":"known"}]}'
)


# no room, no disk


def test_a_full_disk_changes_nothing_and_the_same_delta_goes_through_later(tmp_path):
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


def test_a_sync_that_fails_is_no_acknowledgement(tmp_path):
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


WRITER = """
import sys
from lore.store.base import StoreError
from lore.store.sqlite import Sqlite
from lore.testing.stores.scenarios import add, header, message
store = Sqlite(sys.argv[1])
head = store.create(header())
if store.load("s").head.number > 1:
    head = store.load("s").head
try:
    for number in range(int(sys.argv[2])):
        head = add(store, message(f"u{head.number + 1}", "x" * int(sys.argv[3])), base=head)
        print(head.number, flush=True)
except StoreError as error:
    print(error.message, error.hint, file=sys.stderr)
"""


def writer(file, count, size=10, **more):
    """Start a process that adds events and says each number when it is durable."""
    command = [sys.executable, "-c", WRITER, str(file), str(count), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def test_a_limit_of_the_process_loses_nothing_acknowledged(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    out, err = writer(tmp_path / "s.db", 1000, 5000, preexec_fn=limit).communicate()
    acknowledged = int(out.split()[-1])
    assert b"a limit was met" in err or b"disk is full" in err
    with opened(tmp_path / "s.db") as store:
        assert 2 <= acknowledged <= store.load("s").head.number
        assert store.verify().damage == ()
        add(store, message("more"))


# processes that die


def test_what_a_killed_process_acknowledged_is_there_once_and_in_order(tmp_path):
    chance, acknowledged = random.Random(7), 0
    for _ in range(4):
        with writer(tmp_path / "s.db", 10_000) as process:
            for _ in range(chance.randrange(1, 30)):
                acknowledged = int(process.stdout.readline())
            process.kill()
            acknowledged = int([acknowledged, *process.stdout.read().split()][-1])
        assert (tmp_path / "s.db-wal").stat().st_size > 0
        with opened(tmp_path / "s.db") as store:
            events = store.load("s").events
            assert events[1:] == tuple(message(f"u{number}", "x" * 10) for number in range(2, len(events) + 1))
            assert acknowledged <= len(events) <= acknowledged + 1
            assert store.verify().damage == ()


def test_a_file_whose_making_was_killed_is_made_anew(tmp_path):
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
def test_a_file_that_was_replaced_or_removed_takes_nothing_that_would_be_lost(tmp_path, is_replaced):
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


def test_the_log_of_the_file_that_came_in_its_place_is_left_alone(tmp_path):
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

MANY = """
import sys
from threading import Thread
from lore.store.base import ConflictError
from lore.store.sqlite import Sqlite
from lore.testing.stores.scenarios import add, header, message
conflicts = []
def work(store, name):
    for number in range(3):
        while True:
            try:
                add(store, message(f"{name}-{number}"))
                break
            except ConflictError as error:
                conflicts.append(error)
shared = Sqlite(sys.argv[1])
shared.create(header())
stores = [shared] * 4 + [Sqlite(sys.argv[1]) for _ in range(4)]
threads = [Thread(target=work, args=(store, f"{sys.argv[2]}-{at}")) for at, store in enumerate(stores)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for store in stores: store.close()
"""


def test_two_processes_of_eight_threads_make_a_store_and_lose_and_double_nothing(tmp_path):
    command = [sys.executable, "-c", MANY, str(tmp_path / "new" / "s.db")]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in "ab"]
    assert [process.communicate()[1] for process in both] == [b"", b""]
    with opened(tmp_path / "new" / "s.db") as store:
        found = sorted(store.load("s").events[1:])
        assert found == sorted(message(f"{name}-{at}-{n}") for name in "ab" for at in range(8) for n in range(3))
        assert store.verify().damage == ()


def test_of_two_with_the_same_base_one_wins_and_the_other_can_retry(tmp_path):
    with opened(tmp_path / "s.db") as one, opened(tmp_path / "s.db") as other:
        base = begun(one)
        add(one, message("u1"), base=base)
        with pytest.raises(ConflictError) as error:
            add(other, message("u2"), base=base)
        assert (error.value.base, error.value.stored) == (base, one.load("s").head)
        assert add(other, message("u2"), base=error.value.stored).number == 3


def test_a_store_that_others_keep_busy_is_an_error_after_a_while_and_can_be_read(tmp_path):
    with opened(tmp_path / "s.db") as store, opened(tmp_path / "s.db", patience=0.02) as other:
        head = begun(store)
        with store.transaction(write=True):
            with pytest.raises(StoreError, match="busy") as error:
                add(other, message("u1"), base=head)
            assert error.value.hint
            assert other.load("s").head == head
        assert add(other, message("u1"), base=head).number == 2


LOOK = "import sys; from lore.store.sqlite import Sqlite; store = Sqlite(sys.argv[1]); store.list(); store.close()"


def test_another_store_on_the_same_file_takes_no_lock_away_from_the_first(tmp_path):
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


FORKED = """
import os, sys
from lore.store.sqlite import Sqlite
from lore.testing.stores.scenarios import add, header, message
store = Sqlite(sys.argv[1])
store.create(header())
inherited = store._connection
child = os.fork()
if not child:
    add(store, message("child"))
    os._exit(store._connection is inherited)
assert os.waitpid(child, 0)[1] == 0
add(store, message("parent"))
store.close()
"""


def test_a_child_of_a_fork_writes_by_a_connection_of_its_own(tmp_path):
    subprocess.run([sys.executable, "-c", FORKED, str(tmp_path / "s.db")], check=True)
    with opened(tmp_path / "s.db") as store:
        assert store.load("s").events[1:] == (message("child"), message("parent"))
        assert store.verify().damage == ()


# odd writers


def test_a_clock_that_goes_back_is_kept_as_it_is_said(tmp_path):
    with opened(tmp_path / "s.db") as store:
        head = add(store, message("u1"), base=begun(store), updated_at=LATER)
        add(store, message("u2"), base=head, updated_at="1970-01-01T00:00:00Z")
        assert store.load("s").updated_at == "1970-01-01T00:00:00Z"
        assert len(store.load("s").events) == 3
        assert store.verify().damage == ()


def test_statements_in_names_are_names(tmp_path):
    names = [
        "'; DROP TABLE events; --",
        '"',
        "s' OR '1'='1",
        "%",
        "?",
        "S",
        "s",
        "\u00e9",
        "e\u0301",
        "$1",
        ":a",
        "{key}",
    ]
    with opened(tmp_path / "s.db") as store:
        for name in names:
            begun(store, DELTA, session_id=name, project_id=name)
            store.bind(name, name)
        assert [one.session_id for one in store.list()] == sorted(names)
        for name in names:
            assert [one.session_id for one in store.list(name)] == [name]
            assert store.resolve(name) == name
            assert store.prompt_deltas(name)[0].project_id == name
        assert store.delete("s' OR '1'='1") == ("s' OR '1'='1",)
        assert store.delete("%") == ("%",)
        assert len(store.list()) == len(names) - 2
        assert store.verify().damage == ()
    assert os.listdir(tmp_path) == ["s.db"]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "", "x" * 513])
def test_what_cannot_be_a_name_is_unknown(tmp_path, name):
    with opened(tmp_path / "s.db") as store:
        begun(store)
        assert store.resolve(name) is None
        assert store.list(name) == []
        for call in (lambda: store.load(name), lambda: store.delete(name), lambda: store.bind(name, "s")):
            with pytest.raises(StoreError):
                call()


@pytest.mark.parametrize("end", ["-wal", "-journal", "-shm"])
def test_a_named_pipe_beside_the_file_is_refused_and_not_waited_for(tmp_path, end):
    """Whoever could write to the folder stopped every reader for ever, who waited for somebody to write to it."""
    with opened(tmp_path / "s.db") as store:
        begun(store, message("u1"))
    os.mkfifo(tmp_path / f"s.db{end}")
    with pytest.raises(StoreError, match="is not a regular file"):
        opened(tmp_path / "s.db")


def test_what_lies_beside_the_file_is_found_through_a_link(tmp_path):
    """sqlite keeps its log beside what a link leads to: beside the link, a newer version in it was overlooked."""
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    with opened(tmp_path / "s.db") as store:
        begun(store, message("u1"))
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
            other.execute("PRAGMA wal_autocheckpoint = 0")
            other.execute("PRAGMA user_version = 99")
            assert stamp_of(str(tmp_path / "link.db"), 1.0).version == 99


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """`sqlite:~/s.db` made a folder that is called `~`, whose removal by hand may be that of the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with closing(open_store("sqlite:~/s.db")) as store:
        begun(store, message("u1"))
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    with closing(open_there("sqlite:~/s.db")) as store:
        assert store.list()


def test_many_that_open_a_new_file_at_once_are_no_damage_to_each_other(tmp_path):
    """A file that another thread was writing looked malformed, and its journal was gone when it was looked at."""
    for number in range(12):
        url, start = f"sqlite:{tmp_path / f'{number}.db'}", Barrier(6)

        def begin(name, url=url, start=start):
            start.wait()
            store = open_store(url)
            store.create(b'{"kind":"session_started","session_id":"%d"}' % name)
            store.close()

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(begin, range(6)))
        store = open_store(url)
        found = store.verify()
        assert (found.sessions, found.damage) == (6, ())
        store.close()


def test_what_looks_damaged_for_a_moment_is_looked_at_again(tmp_path, monkeypatch):
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
