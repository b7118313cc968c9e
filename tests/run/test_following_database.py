"""`lore fold --follow` of a session in a database, which is only read."""

import hashlib
import json
import sqlite3
from contextlib import closing
from itertools import count
from types import NoneType

import pytest
from msgspec import UNSET

from formats.opencode import Export
from helpers.waiting import Script
from lore.commands import fold as command
from lore.commands.fold import fold, follow_events, follow_timeline, number_of
from lore.errors import LoreError
from lore.model.items import ToolCall
from lore.model.results.store import InjectedResult, TurnResult
from lore.recording.opening import Options
from recording.test_opencode_store import fill, written

NAME = "ses_1"


def grown(turns):
    made = Export(NAME)
    for number in range(turns):
        made.user(f"question {number}").answer(f"answer {number}")
    return made


@pytest.fixture
def database(tmp_path):
    return written(tmp_path / "oc.db", grown(1), Export("ses_2").user("other").answer("one"), mode="wal")


def grow(path, turns):
    """Write the session with this number of turns; rows that exist keep their content."""

    def act():
        with closing(sqlite3.connect(path)) as connection:
            for table, column in (("part", "session_id"), ("message", "session_id"), ("session", "id")):
                connection.execute(f"delete from {table} where {column} = ?", (NAME,))
            fill(connection, grown(turns))

    return act


def change(path, query, *values):
    def act():
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(query, values)
            connection.commit()

    return act


def shown(path, *actions, heard=None, clock=None):
    said = (heard if heard is not None else []).append
    clock = clock or (lambda: 1.0)
    found = follow_timeline(f"{path}#{NAME}", Options(), said, wait=Script(*actions), clock=clock)
    return [word(row) for row in found if not isinstance(row, NoneType | InjectedResult)]


def word(row):
    match row:
        case str(text):
            return text
        case TurnResult(turn=turn):
            return f"turn {turn}"
        case ToolCall(status=status):
            return status
        case _:
            return json.loads(bytes(row.blocks[0].text if row.blocks else row.text))


def test_added_rows_are_shown_once(database):
    assert shown(database, lambda: None, grow(database, 2), lambda: None, grow(database, 3)) == [
        "question 0", "turn 1", "answer 0", "question 1", "turn 2", "answer 1", "question 2", "turn 3", "answer 2",
    ]  # fmt: skip


def test_changed_rows_are_shown_and_removed_ones_noted(database):
    part = "update part set data = json_set(data, '$.text', 'changed') where data like '%answer 0%'"
    assert shown(database, grow(database, 2), change(database, part)) == [
        "question 0", "turn 1", "answer 0", "question 1", "turn 2", "answer 1", "changed",
    ]  # fmt: skip
    assert shown(database, grow(database, 1)) == [
        "question 0", "turn 1", "changed", "question 1", "turn 2", "answer 1", "2 items removed", "answer 0",
    ]  # fmt: skip


def test_unchanged_database_is_read_once(database, monkeypatch):
    looked = []
    look = command._look
    monkeypatch.setattr(command, "_look", lambda *args, **more: looked.append(1) or look(*args, **more))
    shown(database, *[lambda: None] * 9)
    assert len(looked) == 1


def test_long_look_is_followed_by_a_rest(database):
    """The clock advances a second with each call: a look takes one, the rest after it ten."""
    seconds = count()
    waits = [grow(database, 2), *[lambda: None] * 20]
    at = []
    found = follow_timeline(f"{database}#{NAME}", Options(), print, wait=Script(*waits), clock=lambda: next(seconds))
    for row in found:
        at += [next(seconds)] if row is None else []
    assert len(at) == 2
    assert at[1] - at[0] >= command.REST


def test_follow_changes_no_database(database):
    before = hashlib.sha256(database.read_bytes()).digest()
    names = sorted(path.name for path in database.parent.iterdir())
    shown(database, lambda: None)
    assert hashlib.sha256(database.read_bytes()).digest() == before
    assert sorted(path.name for path in database.parent.iterdir()) == names


def test_missing_database_is_waited_for(database):
    data, heard = database.read_bytes(), []

    def back():
        database.write_bytes(data)

    assert shown(database, database.unlink, lambda: None, back, grow(database, 2), heard=heard)[-1] == "answer 1"
    assert len([text for text in heard if text.endswith("is gone; waiting for it")]) == 1


@pytest.mark.parametrize("name", [NAME + "x", "", "ses_2#1"])
def test_missing_session_is_an_error(database, name):
    with pytest.raises(LoreError):
        next(follow_timeline(f"{database}#{name}" if name else str(database), Options(), print))


def events(path, *actions, since=None):
    wait = Script(*actions)
    found = follow_events(f"{path}#{NAME}", Options(), print, since=since, wait=wait, clock=lambda: 1.0)
    return [line for line in found if line is not None]


def test_events_after_snapshot_give_the_folded_state(database):
    first, *more = events(database, grow(database, 2))
    assert first.snapshot is not UNSET
    assert more
    assert all(line.snapshot is UNSET for line in more)
    numbers = [number_of(line.cursor) for line in (first, *more)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert events(database)[0].snapshot.turns == fold(f"{database}#{NAME}", Options()).result.turns
    assert events(database)[0].cursor == more[-1].cursor


def test_cursor_continues_the_events(database):
    (first,) = events(database)
    grow(database, 2)()
    more = events(database, since=first.cursor)
    assert more
    assert all(line.event is not UNSET for line in more)
    assert events(database, since="00000000:3")[0].snapshot is not UNSET
    assert events(database, since=more[-1].cursor) == []


def test_changed_event_gives_a_snapshot(database):
    part = "update part set data = json_set(data, '$.text', 'changed') where data like '%question 0%'"
    first, second = events(database, change(database, part))
    assert first.snapshot is not UNSET
    assert b"changed" in b"".join(map(bytes, second.snapshot.timeline))
