"""Files that other programs, newer lores, older lores and dead processes left: refused untouched, or brought up."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from lore.store import sqlite as module
from lore.store.base import EMPTY, DamagedError, FormatError, SessionDelta, StoreError
from lore.store.sql_tables import LATEST, STEPS
from lore.store.sqlite import Sqlite
from lore.testing.stores.scenarios import message
from store.old_schemas import FOLDER, FORK, PARENT, make
from store.sqlite_files import asked, half_done, opened, picture

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
        head = store.save_delta("s1", SessionDelta(base=data.head, new_events=(again, message("u3"))))
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


def test_a_step_that_was_cut_off_is_done_and_none_is_left_out(tmp_path):
    """A process was killed between the second step and the end of its journal: the file said 2, and meant 1."""
    make(tmp_path / "s.db", 1)
    half_done(tmp_path / "s.db", "CREATE TABLE more (x)", "PRAGMA user_version = 2")
    assert int.from_bytes((tmp_path / "s.db").read_bytes()[60:64], "big") == 2
    told = []
    with opened(tmp_path / "s.db", told.append) as store:
        assert told == [f"{store.url}: brought from schema version 1 to {LATEST}"]
        assert store.load("s1").events == PARENT
        assert len(store.prompt_deltas("s1")) == 1
        assert store.verify().damage == ()
