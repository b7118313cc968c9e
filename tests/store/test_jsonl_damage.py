"""Damaged, cut and incomplete logs: every loss is reported, and no event is silently wrong."""

import errno
import os
import resource

import pytest
from msgspec.structs import replace

from helpers.matrix import some
from lore.store.base import DamagedError, SessionDelta, StoreError
from store.logs import Logs, begin_store, header, message_line


@pytest.fixture
def unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fsync do nothing: thousands of files are written."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def original(tmp_path, unsynchronised):
    store = begin_store(tmp_path, "a", "b")
    store.say("c", "d", "e", leaf_id="e", metadata=b'{"n":1}')
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(message_line("f") + b"\n")  # by another program
    store.say("g")
    return store


def loaded(store, **more):
    """Return the loaded session, or None if it is damaged."""
    try:
        return store.load("s", **more)
    except DamagedError:
        return None


def is_noticed(store, session, before):
    """Return whether the loaded session is right, or its loss was reported."""
    if session is None or store.messages:
        return session is None or before.events[: len(session.events)] == session.events
    return (session.events, session.leaf_id, session.metadata) == (before.events, before.leaf_id, before.metadata)


@pytest.mark.parametrize("step", some([24, 4]))
@pytest.mark.parametrize("place", range(4))
def test_no_byte_of_an_event_changes_unnoticed(tmp_path, original, place, step):
    """One of four bits: 32 makes capitals, 8 other digits, 128 invalid UTF-8."""
    bit, path = (1, 8, 32, 128)[place], tmp_path / "s.jsonl"
    whole, before = path.read_bytes(), original.load("s")
    for at in range(place, len(whole), step):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        store = Logs(tmp_path)
        session = loaded(store)
        assert is_noticed(store, session, before), at
        assert session is not None or store.verify().damage, at
        for part in (4, 6):
            end = loaded(Logs(tmp_path), after=part)
            assert end is None or before.events[part:][: len(end.events)] == end.events, at


@pytest.mark.parametrize("step", some([7, 1]))
def test_log_cut_anywhere_holds_its_beginning(tmp_path, original, step):
    path = tmp_path / "s.jsonl"
    whole, before = path.read_bytes(), original.load("s")
    for cut in range(0, len(whole), step):
        path.write_bytes(whole[:cut])
        store = Logs(tmp_path)
        session, damage = loaded(store), store.verify().damage
        if session is None:
            assert cut < len(header()), cut
            assert damage, cut
            continue
        assert before.events[: len(session.events)] == session.events, cut
        is_whole = whole[:cut].endswith(b"\n") or whole[cut : cut + 1] == b"\n"
        assert is_whole or (store.messages and "may have been acknowledged" in damage[0].message), cut


def test_bytes_missing_inside_are_noticed(tmp_path, original):
    path = tmp_path / "s.jsonl"
    whole, before = path.read_bytes(), original.load("s")
    for start in range(0, len(whole) - 300, 23):
        for size in (1, 40, 300):
            path.write_bytes(whole[:start] + whole[start + size :])
            store = Logs(tmp_path)
            assert is_noticed(store, loaded(store), before), (start, size)


def test_first_damaged_save_is_named(tmp_path, original):
    path = tmp_path / "s.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(message_line("d"), message_line("X")).replace(message_line("g"), message_line("Y")))
    store = Logs(tmp_path)
    (damage,) = store.verify("s").damage
    byte = data.rindex(b'{"kind":"saved"', 0, data.index(message_line("c")))
    assert (damage.session_id, damage.number, damage.place) == ("s", None, f"{path}, byte {byte}")
    assert damage.recoverable == "every event before it; at least one of them was changed"
    with pytest.raises(DamagedError, match="the events of this save do not match its record") as caught:
        store.load("s")
    assert caught.value.hint.startswith(f"`lore store verify --store jsonl:{tmp_path}` names")
    assert caught.value.where.byte == byte


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (message_line("c") + b"\n", message_line("c") + b" ", "the events of this save do not match its record"),
        (b'"leaf_id":"e"', b'"leaf_id":"x"', "a saved record cannot be read"),
        (message_line("f"), message_line("x"), "the events before this byte do not match the saved record here"),
        (message_line("f"), b"garbage", "a line cannot be read"),
        (b'"session_id": "s"', b'"session_id": "t"', "the header is that of session 't', whose file is t.jsonl"),
    ],
)  # fmt: skip
def test_damage_is_named_by_verify(tmp_path, original, old, new, message):
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    (damage,) = original.verify().damage
    assert message in damage.message
    for act in (lambda: original.load("s"), lambda: original.say("h")):
        with pytest.raises(DamagedError):
            act()


def test_damaged_session_does_not_hide_the_others(tmp_path, original):
    original.create(header("t"))
    (tmp_path / "s.jsonl").write_bytes(b"x" + (tmp_path / "s.jsonl").read_bytes())
    store = Logs(tmp_path)
    assert [info.session_id for info in store.list()] == ["t"]
    assert "s.jsonl" in store.messages[0]
    assert store.verify("t").damage == ()
    assert store.delete("s") == ("s",)
    assert not (tmp_path / "s.jsonl").exists()


def test_empty_log_says_that_it_is_empty(tmp_path):
    store = begin_store(tmp_path)
    (tmp_path / "s.jsonl").write_bytes(b"")
    (damage,) = store.verify().damage
    assert (damage.message.partition(":")[0], damage.recoverable) == ("the log is empty", "nothing")
    with pytest.raises(DamagedError, match="the log is empty"):
        store.load("s")
    with pytest.raises(DamagedError, match="the log is empty"):
        store.say("a")


# incomplete saves


@pytest.mark.usefixtures("unsynchronised")
@pytest.mark.parametrize("tail", [b"", b"\0" * 5000], ids=["cut", "zeros, as after a loss of power"])
def test_incomplete_save_is_left_out_and_sent_again(tmp_path, tail):
    store = begin_store(tmp_path, "a")
    path = tmp_path / "s.jsonl"
    before, base = path.read_bytes(), store.load("s").head
    delta = SessionDelta(base=base, new_events=(message_line("b"), message_line("c")), leaf_id="c", metadata=b'{"n":1}')
    after = store.save_delta("s", delta)
    whole = path.read_bytes()
    for cut in range(len(before), len(whole), 1 if not tail else 7):
        path.write_bytes(whole[:cut] + tail)
        again, extra = Logs(tmp_path), cut - len(before) + len(tail)
        data = again.load("s")
        assert (data.head, data.events, data.leaf_id) == (base, (header(), message_line("a")), None)
        assert [f"the last {extra:,} bytes are an incomplete save" in message for message in again.messages] == [
            True
        ] * bool(extra)
        assert len(again.verify().damage) == bool(extra)
        again = Logs(tmp_path)
        assert again.save_delta("s", delta) == after
        assert ["and were removed" in message for message in again.messages] == [True] * bool(extra)
        assert path.read_bytes() == whole
        assert not again.verify().damage
    path.write_bytes(whole + tail)
    assert Logs(tmp_path).load("s").head == after


# a disk that refuses


def refusing(monkeypatch, name: str, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, refuse)


def short(monkeypatch, *, most: int) -> None:
    """Make the disk accept only this many bytes of a write, as a full one does."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:most]))


FAULTS = {
    "a full disk": lambda patched: refusing(patched, "write", errno.ENOSPC),
    "a disk that is nearly full": lambda patched: short(patched, most=50),
    "an fsync that fails": lambda patched: refusing(patched, "fsync", errno.EIO),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_failed_save_leaves_the_log_as_it_was(tmp_path, monkeypatch, fault):
    store = begin_store(tmp_path, "a")
    data, path = store.load("s"), tmp_path / "s.jsonl"
    before = path.read_bytes()
    delta = SessionDelta(base=data.head, new_events=(message_line("b"),))
    for act in (
        lambda: store.save_delta("s", delta),
        lambda: store.save(replace(data, events=(*data.events, message_line("b")))),
        lambda: store.move("s", "p"),
    ):
        with monkeypatch.context() as patched:
            fault(patched)
            with pytest.raises(StoreError, match="cannot write to") as caught:
                act()
            assert "nothing was saved" in caught.value.hint
        assert path.read_bytes() == before
        assert [info.session_id for info in store.list()] == ["s"]
    assert store.save_delta("s", delta).number == 3
    assert Logs(tmp_path).events() == (header(), message_line("a"), message_line("b"))


def file_limit(monkeypatch) -> None:
    """Let files have 50 bytes: a larger one is written as on a full disk."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))


@pytest.mark.parametrize("fault", [file_limit, FAULTS["an fsync that fails"]])
def test_failed_creation_leaves_no_file(tmp_path, monkeypatch, fault):
    store, limit = begin_store(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    before = sorted(path for path in tmp_path.iterdir() if path.suffix != ".lock")
    try:
        with monkeypatch.context() as patched:
            fault(patched)
            with pytest.raises(StoreError, match="cannot write to") as caught:
                store.create(header("t"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert "nothing was saved" in caught.value.hint
    assert sorted(path for path in tmp_path.iterdir() if path.suffix != ".lock") == before
    assert store.create(header("t")).number == 1


def test_write_that_could_not_be_undone_is_repaired(tmp_path, monkeypatch):
    store = begin_store(tmp_path, "a")
    with monkeypatch.context() as patched:
        short(patched, most=50)
        refusing(patched, "ftruncate", errno.EIO)
        with pytest.raises(StoreError):
            store.say("b")
    assert store.say("c").number == 3
    assert store.events() == (header(), message_line("a"), message_line("c"))


def test_save_that_was_not_synchronised_is_synchronised_later(tmp_path, monkeypatch):
    """Its writer died between write and fsync: the retry must not acknowledge it before it is durable."""
    store = begin_store(tmp_path, "a")
    base = store.load("s").head
    with monkeypatch.context() as patched:
        refusing(patched, "fsync", errno.EIO)
        refusing(patched, "ftruncate", errno.EIO)
        with pytest.raises(StoreError):
            store.say("b", base=base)
        with pytest.raises(StoreError, match="cannot write to"):
            Logs(tmp_path).say("b", base=base)
    assert Logs(tmp_path).say("b", base=base).number == 3
