"""Damaged and hostile databases and folders of OpenCode: reported, and left unchanged."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from formats.opencode import Export, plain
from lore.commands.fold import fold
from lore.errors import LoreError
from lore.recording import corpus
from lore.recording.agents import databases, opencode_store
from lore.recording.agents.sessions import newest
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.checking.check import check
from recording.test_opencode_store import SCHEMA, fill, listing, stored, usage, written

ENDLESS = """
create view session (id, parent_id, time_created) as
with recursive endless (number) as (select 1 union all select number + 1 from endless)
select number, null, 1 from endless
"""


@pytest.fixture
def two():
    """Two sessions."""
    return plain(), Export("ses_2").user("task").answer("done", bill=(40, 8, 2))


def run(sql, path):
    """Change a database."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def test_storage_folder_stays_unchanged(tmp_path, two):
    """The home of a client that crashed: a database with its log of changes, and a folder of an older version."""
    home, running = tmp_path / "home", tmp_path / "running.db"
    home.mkdir()
    with closing(sqlite3.connect(running)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.executescript(SCHEMA)
        fill(connection, *two)
        for ending in ("", "-wal", "-shm"):
            shutil.copyfile(f"{running}{ending}", home / f"opencode.db{ending}")
    storage = stored(home, *two)
    path = home / "opencode.db"
    (home / "opencode-link.db").symlink_to(path)
    (home / "opencode-dangling.db").symlink_to(home / "gone.db")
    before = listing(home)
    for folder in (home, path, f"{path}#ses_1", storage, storage / "session" / "p" / "ses_1.json"):
        result = check([str(folder)]).result
        assert result.summary.turns == 2 + (not str(folder).endswith(("#ses_1", "ses_1.json")))
        assert listing(home) == before, folder
    assert newest([str(home)], None)
    assert fold(f"{home}/opencode-link.db#ses_2", Options()).result.usage.turns == 1
    assert listing(home) == before


def test_unfinished_transaction_is_not_read(tmp_path, two):
    path = written(tmp_path / "opencode.db", two[0])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma cache_size = 1")  # so that its pages are written before it ends
        connection.execute("begin immediate")
        connection.execute("update part set data = '{}'")
        connection.execute("create table more (data)")
        connection.executemany("insert into more values (zeroblob(4000))", [() for _ in range(50)])
        assert (tmp_path / "opencode.db-journal").stat().st_size
        before = listing(tmp_path)
        assert usage(f"{path}#ses_1")[1].turns == 2
        assert listing(tmp_path) == before


def test_view_instead_of_table_is_not_queried(tmp_path, two):
    path = written(tmp_path / "opencode.db", *two)
    run(f"drop table session; {ENDLESS}", path)
    assert [file.path for file in inputs([str(path)])] == [str(path)]
    with pytest.raises(LoreError, match="its table session has no id"):
        fold(f"{path}#ses_1", Options())


def test_query_steps_are_bounded_by_file_size(tmp_path, two, monkeypatch):
    path = written(tmp_path / "opencode.db", *two)
    for name, value in (("_STEPS", 10), ("QUERY_STEPS", 0), ("QUERY_STEPS_PER_BYTE", 0)):
        monkeypatch.setattr(databases, name, value)
    with pytest.raises(LoreError, match="it holds more than its size explains"):
        fold(f"{path}#ses_1", Options())


def test_too_long_value_ends_only_its_session(tmp_path, two, monkeypatch):
    path = written(tmp_path / "opencode.db", *two)
    run(
        "update part set data = json_object('type', 'text', 'text', hex(zeroblob(50000))) where session_id = 'ses_2'",
        path,
    )
    monkeypatch.setattr(databases, "COLUMN_BYTES", 50_000)
    assert [file.path for file in inputs([str(path)])] == [f"{path}#ses_1", f"{path}#ses_2"]
    assert usage(f"{path}#ses_1")[1].turns == 2
    with pytest.raises(LoreError, match="too big"):
        fold(f"{path}#ses_2", Options())
    checked = check([str(path)])
    assert (checked.result.summary.turns, checked.incomplete) == (2, True)


def test_values_of_other_types_are_none(tmp_path, two):
    path = written(tmp_path / "opencode.db", *two)
    run("update session set slug = x'ff00', version = 7, parent_id = x'00', directory = 1.5, revert = 'NaN{'", path)
    run("update session set time_created = 'soon', title = null", path)
    assert usage(f"{path}#ses_1")[1].turns == 2
    run("update session set revert = '[1]', time_created = 9e999", path)
    assert usage(f"{path}#ses_1")[1].turns == 2
    run("update message set time_created = x'01', data = cast(x'ff' as text) where session_id = 'ses_2'", path)
    with pytest.raises(LoreError, match="cannot read"):
        fold(f"{path}#ses_2", Options())
    run("insert into session (id) values (null); insert into session (id) values (cast(x'ff' as text))", path)
    run("insert into message (id, session_id, data) values ('a', cast(x'ff' as text), '{}')", path)
    assert [file.path for file in inputs([str(path)])] == [str(path)]


def test_pipes_are_not_waited_for(tmp_path, two):
    folder = stored(tmp_path, two[0])
    os.mkfifo(tmp_path / "x.db")
    os.mkfifo(folder / "message" / "ses_1" / "msg_zzz.json")
    os.mkfifo(next(iter((folder / "part").iterdir())) / "prt_zzz.json")
    assert not opencode_store.is_sqlite(str(tmp_path / "x.db"))
    assert opencode_store.session_in(f"{tmp_path}/x.db#ses_1") is None
    assert not corpus.is_in_database(f"{tmp_path}/x.db#ses_1")
    assert fold(str(folder / "session" / "p" / "ses_1.json"), Options()).result.usage.turns == 2


def test_database_that_changes_while_copied_is_an_error(tmp_path, two, monkeypatch):
    path = written(tmp_path / "opencode.db", *two)
    changes = iter(range(1_000))
    monkeypatch.setattr(databases, "_state", lambda _: next(changes))
    with pytest.raises(LoreError, match="faster than it can be copied"):
        fold(f"{path}#ses_1", Options())


def test_message_of_many_parts_comes_in_pieces(tmp_path, two):
    path = written(tmp_path / "opencode.db", *two)
    pieces = list(opencode_store.database_stream(str(path), "ses_1"))
    assert len(pieces) > 10
    assert max(map(len, pieces)) < 1_000


@pytest.mark.parametrize(("damage", "reason"), [
    (lambda path: path.write_bytes(path.read_bytes()[:5000]), "database disk image is malformed"),
    (lambda path: path.write_bytes(path.read_bytes()[:100] + b"\xff" * 9000), "database disk image is malformed"),
    (lambda path: run("alter table message drop column data", path), "its table message has no data"),
    (lambda path: run("delete from message", path), "it holds no session with messages"),
    (lambda path: run("alter table session rename to other", path), None),
])  # fmt: skip
def test_database_without_sessions_names_the_reason(tmp_path, two, damage, reason):
    path = written(tmp_path / "opencode.db", *two)
    damage(path)
    before = listing(tmp_path)
    with pytest.raises(LoreError) as raised:
        check([str(path)])
    assert ";" not in raised.value.message if reason is None else raised.value.message.endswith(f"; {reason}")
    assert listing(tmp_path) == before
