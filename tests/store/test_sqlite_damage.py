"""Damaged rows and files: each place is named, and no damaged event is loaded or built on."""

import random
import sqlite3
from contextlib import closing

import pytest

from helpers.matrix import some
from lore.store.base import DamagedError, StoreError
from lore.store.sqlite import Sqlite
from lore.testing.stores import add, begin, header, message
from store.sqlite_files import opened

DELTA = (
    b'{"kind":"prompt_delta","seq":3,"selector":{"target":"messages","insert_at":1},'
    b'"content":[{"role":"user","text":"known"}]}'
)


def changed(path, *statements):
    """Change a closed store's rows by other means."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def forty(tmp_path):
    """Return the file of a store with session `s` of 40 events, the last a prompt delta, and session `t` of 2."""
    file = tmp_path / "s.db"
    with opened(file) as store:
        begin(store, *(message(f"u{number}") for number in range(2, 40)), DELTA)
        begin(store, message("u1"), session_id="t")
    return file


# rows that another program changed

_SWAP = ((17, 50), (18, 17), (50, 18))
CHANGES = {
    "a line": ("UPDATE events SET line = x'7b7d' WHERE session = 1 AND number = 17", 17),
    "a missing row": ("DELETE FROM events WHERE session = 1 AND number = 17", 17),
    "missing rows": ("DELETE FROM events WHERE session = 1 AND number IN (17, 18, 30)", 17),
    "a missing header": ("DELETE FROM events WHERE session = 1 AND number = 1", 1),
    "a missing end": ("DELETE FROM events WHERE session = 1 AND number > 38", 39),
    "no rows": ("DELETE FROM events WHERE session = 1", 1),
    "rows too many": (
        "INSERT INTO events SELECT session, 41, line, digest FROM events WHERE session = 1 AND number = 40", 41,
    ),
    "another order": (
        "; ".join(f"UPDATE events SET number = {to} WHERE session = 1 AND number = {one}" for one, to in _SWAP), 17,
    ),
    "the head": ("UPDATE sessions SET head_digest = zeroblob(32) WHERE session = 1", None),
    "the metadata": ("UPDATE sessions SET metadata = x'7b2261223a317d' WHERE session = 1", None),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_row_is_named_and_not_loaded(forty, change):
    statement, number = change
    place = "sessions row" if number is None else f"events row {number}"
    message = "it does not match its events" if number is None else "the event is missing, or not as it was written"
    changed(forty, *statement.split("; "))
    with opened(forty) as store:
        verified = store.verify()
        (damage,) = verified.damage
        assert (damage.session_id, damage.number, damage.place, damage.message) == ("s", number, place, message)
        assert store.verify("s").damage == verified.damage
        with pytest.raises(DamagedError, match=f"{place}: {message}") as error:
            store.load("s")
        assert "verify" in error.value.hint
        assert len(store.load("t").events) == 2


def test_session_with_a_damaged_digest_is_loaded(forty):
    """The events follow from one another and lead to the head: they are loaded."""
    changed(forty, "UPDATE events SET digest = zeroblob(32) WHERE session = 1 AND number = 17")
    with opened(forty) as store:
        assert len(store.load("s").events) == 40
        (damage,) = store.verify().damage
    assert damage.number == 17


def test_events_after_a_changed_line_can_be_loaded(forty):
    changed(forty, "UPDATE events SET line = x'7b7d' WHERE session = 1 AND number = 17")
    with opened(forty) as store:
        assert len(store.load("s", after=17).events) == 23
        with pytest.raises(DamagedError, match="events row 17"):
            store.load("s", after=16)


BUILT_ON = {
    "the last row is gone": "DELETE FROM events WHERE session = 1 AND number = 40",
    "the last digest": "UPDATE events SET digest = zeroblob(32) WHERE session = 1 AND number = 40",
    "the notes": "UPDATE sessions SET metadata = x'7b2261223a317d' WHERE session = 1",
    "a row after the head": "INSERT INTO events SELECT session, 41, line, digest FROM events "
                             "WHERE session = 1 AND number = 40",
}  # fmt: skip


@pytest.mark.parametrize("statement", BUILT_ON.values(), ids=BUILT_ON)
def test_save_after_a_damaged_end_is_refused(forty, statement):
    with opened(forty) as store:
        head = store.load("s").head
    changed(forty, statement)
    with opened(forty) as store:
        with pytest.raises(DamagedError) as error:
            add(store, message("more"), base=head)
        assert "verify" in error.value.hint
        assert store.list()[0].head == head


def test_rows_without_a_session_are_found(forty):
    changed(forty, "DELETE FROM sessions WHERE session_id = 't'")
    with opened(forty) as store:
        verification = store.verify()
    assert [(damage.session_id, damage.place, damage.message) for damage in verification.damage] == [
        (None, f"file {forty}", "2 rows of events belong to no session")
    ]
    assert (verification.sessions, verification.events) == (1, 40)


def test_renamed_session_is_found_by_its_header(forty):
    changed(forty, "UPDATE sessions SET session_id = 'other' WHERE session_id = 't'")
    with opened(forty) as store:
        assert [damage.place for damage in store.verify("other").damage] == ["sessions row"]


# a file that is not as it was written


def flipped(data, chance):
    """Return a file with some bits flipped, its end cut off, or a page of it empty."""
    data = bytearray(data)
    match chance.randrange(4):
        case 0:
            del data[chance.randrange(1, len(data)) :]
        case 1:
            at = chance.randrange(0, len(data), 4096)
            data[at : at + 4096] = bytes(4096)
        case _:
            for _ in range(chance.choice((1, 1, 4))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("seed", some(range(40), 20))
def test_damaged_file_gives_right_events_or_errors(forty, seed):
    with opened(forty) as store:
        before = {name: store.load(name) for name in "st"}
    whole = forty.read_bytes()
    forty.write_bytes(flipped(whole, random.Random(seed)))
    said_why = []

    def tried(call):
        try:
            return call()
        except StoreError as error:
            said_why.append(error)
            return None

    store = tried(lambda: Sqlite(str(forty)))
    if store is not None:
        with closing(store):
            verified = tried(store.verify)
            for name, data in before.items():
                session = tried(lambda name=name: store.load(name))
                assert session is None or session.events == data.events
                assert session is not None or (verified is not None and verified.damage)
            for call in (store.list, store.vacuum, lambda: store.resolve("client"),
                         lambda: add(store, message("more")), lambda: store.create(header("u")),
                         lambda: store.move("s", "q"), lambda: store.delete("s")):  # fmt: skip
                tried(call)
    assert all(error.hint for error in said_why)


def test_cut_file_is_reported_as_damaged(forty):
    forty.write_bytes(forty.read_bytes()[:-9000])
    with pytest.raises(DamagedError, match=r"s\.db is damaged") as error, opened(forty) as store:
        store.load("s")
    assert "backup" in error.value.hint
