"""Files that other programs, other versions of lore and dead processes left."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from lore.store.base import DamagedError, FormatError
from lore.store.sql_tables import SCHEMA_VERSION
from lore.store.sqlite import Sqlite
from lore.testing.stores.scenarios import header
from store.sqlite_files import asked, opened, picture

# what others left


OTHERS = {
    "a database of another program": ("CREATE TABLE notes (text)",),
    "an application id of another program": ("PRAGMA application_id = 7", "CREATE TABLE sessions (session_id)"),
    "a version of another program": ("PRAGMA user_version = 3", "CREATE TABLE sessions (session_id)"),
}


@pytest.mark.parametrize("statements", OTHERS.values(), ids=OTHERS)
def test_database_of_another_program_is_refused(tmp_path, statements):
    asked(tmp_path / "s.db", *statements)
    before = picture(tmp_path)
    with pytest.raises(FormatError, match="another program") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert error.value.hint
    assert picture(tmp_path) == before


@pytest.mark.parametrize(
    "content", [b"hello" * 30, b'{"kind":"session_started"}\n' * 100, b"SQLite format 3\0", bytes(4096)]
)
def test_file_that_is_no_database_is_refused(tmp_path, content):
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
def test_database_with_triggers_or_views_is_refused(tmp_path, statement):
    make(tmp_path / "s.db")
    asked(tmp_path / "s.db", statement)
    with pytest.raises(FormatError, match="not lore's"):
        Sqlite(str(tmp_path / "s.db"))


def make(path, version=SCHEMA_VERSION):
    """Make a store with one session, and write a version of the schema into it."""
    with opened(path) as store:
        store.create(header())
    asked(path, f"PRAGMA user_version = {version}")


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


def test_newer_version_in_the_wal_is_seen(tmp_path):
    """A newer lore that was killed after its upgrade leaves the old version in the file."""
    made = tmp_path / "made"
    made.mkdir()
    make(made / "s.db")
    with closing(sqlite3.connect(made / "s.db", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        shutil.copytree(made, tmp_path / "left")  # as a process that is killed leaves it
    (tmp_path / "left" / "s.db-shm").unlink()
    before = picture(tmp_path / "left")
    assert set(before) == {"s.db", "s.db-wal"}
    assert int.from_bytes(before["s.db"][0][60:64], "big") == SCHEMA_VERSION
    with pytest.raises(FormatError, match=f"version {SCHEMA_VERSION + 1}"):
        Sqlite(str(tmp_path / "left" / "s.db"))
    assert picture(tmp_path / "left") == before


@pytest.mark.parametrize(("content", "size"), [(b"S", "1 byte"), (b"SQLite format 3\0", "16 bytes")])
def test_database_of_a_few_bytes_is_said_to_be_cut(tmp_path, content, size):
    (tmp_path / "s.db").write_bytes(content)
    before = picture(tmp_path)
    with pytest.raises(FormatError, match=f"it has {size}, less than the beginning of one") as error:
        Sqlite(str(tmp_path / "s.db"))
    assert "backup" in error.value.hint
    assert picture(tmp_path) == before
