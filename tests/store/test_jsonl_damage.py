"""Whatever byte of a log is damaged: the load fails or is told, verify names it, and nothing is silently wrong."""

from __future__ import annotations

import os

import pytest

from helpers.matrix import some
from lore.store.base import DamagedError
from store.logs import Logs, begun, header, said


@pytest.fixture(autouse=True)
def unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fsync do nothing: what is tested is reading."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def kept(tmp_path):
    store = begun(tmp_path, "a", "b")
    store.say("c", "d", "e", leaf_id="e", metadata=b'{"n":1}')
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(said("f") + b"\n")  # by another program
    store.say("g", session_id="s")
    return store


def state(store):
    """Return what is loaded, or None where it is damaged."""
    try:
        data = store.load("s")
    except DamagedError:
        return None
    return data


@pytest.mark.parametrize("step", some([12, 4]))
@pytest.mark.parametrize("place", range(4))
def test_no_byte_can_change_unseen(tmp_path, kept, place, step):
    """A byte in one of four bits, all bytes in a soak: 32 makes capitals, 8 other digits, 128 what is no UTF-8."""
    bit = (1, 8, 32, 128)[place]
    path = tmp_path / "s.jsonl"
    whole, before = path.read_bytes(), kept.load("s")
    for at in range(place, len(whole), step):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        store = Logs(tmp_path)
        found = state(store)
        assert found is None or (store.told and before.events[: len(found.events)] == found.events), at
        verified = store.verify()
        assert verified.damage or len(verified.notes) > 1, at
        assert found is not None or verified.damage, at
        for part in (4, 6):
            try:
                some = Logs(tmp_path).load("s", after=part)
            except DamagedError:
                continue
            assert before.events[part:][: len(some.events)] == some.events, at


def test_a_log_that_is_cut_anywhere_is_what_it_was_before_or_told(tmp_path, kept):
    path = tmp_path / "s.jsonl"
    whole, before = path.read_bytes(), kept.load("s")
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        store = Logs(tmp_path)
        found = state(store)
        if found is None:
            assert cut < len(header()), cut
            assert store.verify().damage, cut
            continue
        assert before.events[: len(found.events)] == found.events, cut
        is_whole = whole[:cut].endswith(b"\n") or whole[cut : cut + 1] == b"\n"
        assert store.told or is_whole, cut


def test_a_piece_that_is_missing_from_the_middle_is_seen(tmp_path, kept):
    path = tmp_path / "s.jsonl"
    whole, before = path.read_bytes(), kept.load("s")
    for start in range(0, len(whole) - 300, 11):
        for size in (1, 40, 300):
            path.write_bytes(whole[:start] + whole[start + size :])
            store = Logs(tmp_path)
            found = state(store)
            assert found is None or (store.told and before.events[: len(found.events)] == found.events), (start, size)


def test_each_event_that_is_damaged_is_named_and_the_others_can_be_recovered(tmp_path, kept):
    path = tmp_path / "s.jsonl"
    data = path.read_bytes()
    changed = data.replace(said("c"), said("X")).replace(said("e"), said("e")[:-1] + b"]").replace(said("g"), said("Y"))
    path.write_bytes(changed)
    store = Logs(tmp_path)
    damage = store.verify("s").damage
    assert [(one.session_id, one.number) for one in damage] == [("s", 4), ("s", 6), ("s", 8)]
    assert [one.place for one in damage] == [f"{path}, byte {data.index(said(text))}" for text in "ceg"]
    assert [one.recoverable for one in damage] == [
        "the line is whole JSON, what it says may be wrong; every other event",
        "every other event",
        "the line is whole JSON, what it says may be wrong; every other event",
    ]
    with pytest.raises(DamagedError, match="event 4: the event is not what was stored") as caught:
        store.load("s")
    assert "verify" in caught.value.hint
    assert caught.value.where.byte == data.index(said("c"))


def test_an_event_whose_line_lost_its_end_is_named_with_the_one_behind_it(tmp_path, kept):
    path = tmp_path / "s.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(said("c") + b"\n", said("c") + b" "))
    assert [one.number for one in Logs(tmp_path).verify().damage] == [4, 5]
    path.write_bytes(data.replace(said("d"), said("d").replace(b",", b"\n", 1)))
    assert [one.number for one in Logs(tmp_path).verify().damage] == [5]


def test_a_record_that_is_damaged_is_named(tmp_path, kept):
    path = tmp_path / "s.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"leaf_id":"e"', b'"leaf_id":"x"', 1))
    (found,) = Logs(tmp_path).verify().damage
    assert (found.number, found.message) == (None, "a saved record is damaged")


def test_a_line_of_another_program_that_is_no_json_is_named(tmp_path, kept):
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(b"garbage\n" + said("h") + b"\n")
    (found,) = kept.verify().damage
    assert found.number == 9
    assert "unreadable line" in found.message
    with pytest.raises(DamagedError):
        kept.load("s")
    with pytest.raises(DamagedError):
        kept.say("i")


def test_a_damaged_session_is_told_by_a_list_and_does_not_hide_the_others(tmp_path, kept):
    kept.create(header("t"))
    (tmp_path / "s.jsonl").write_bytes(b"x" + (tmp_path / "s.jsonl").read_bytes())
    store = Logs(tmp_path)
    assert [one.session_id for one in store.list()] == ["t"]
    assert "s.jsonl" in store.told[0]
    assert store.verify("t").damage == ()


def test_a_damaged_session_can_be_deleted(tmp_path, kept):
    (tmp_path / "s.jsonl").write_bytes(b"x")
    assert Logs(tmp_path).delete("s") == ("s",)
    assert not (tmp_path / "s.jsonl").exists()


def test_a_log_under_another_sessions_name_is_said(tmp_path, kept):
    (tmp_path / "s.jsonl").rename(tmp_path / "t.jsonl")
    store = Logs(tmp_path)
    (found,) = store.verify().damage
    assert "session 's', whose file is s.jsonl" in found.message
    assert found.recoverable == "all events: give the file that name"
    with pytest.raises(DamagedError, match=r"whose file is s\.jsonl"):
        store.load("t")
    assert not store.list()
