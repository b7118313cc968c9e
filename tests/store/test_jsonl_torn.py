"""Whenever a writer dies, and whatever a disk refuses: what was acknowledged is there, once, and the rest is told."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from lore.store.base import Head, SessionDelta, StoreError
from store.logs import Logs, begun, header, said


@pytest.fixture
def unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fsync do nothing, where thousands of files are cut."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.usefixtures("unsynchronised")
@pytest.mark.parametrize("rest", [b"", b"\0" * 5000], ids=["cut", "zeros, as after a loss of power"])
def test_a_delta_that_was_cut_anywhere_is_left_out_told_kept_and_can_be_sent_again(tmp_path, rest):
    store = begun(tmp_path, "a")
    path = tmp_path / "s.jsonl"
    before, base = path.read_bytes(), store.load("s").head
    delta = SessionDelta(base=base, new_events=(said("b"), said("c")), leaf_id="c", metadata=b'{"n":1}')
    after = store.save_delta("s", delta)
    whole = path.read_bytes()
    for cut in range(len(before), len(whole), 1 if not rest else 7):
        path.write_bytes(whole[:cut] + rest)
        again = Logs(tmp_path)
        data = again.load("s")
        assert (data.head, data.events, data.leaf_id) == (base, (header(), said("a")), None)
        left = cut - len(before) + len(rest)
        assert again.told == [one for one in again.told if f"the last {left:,} bytes" in one]
        assert len(again.told) == bool(left)
        assert Logs(tmp_path).save_delta("s", delta) == after
        assert path.read_bytes() == whole
        if left:
            assert (tmp_path / "s.torn").read_bytes() == whole[len(before) : cut] + rest
            (tmp_path / "s.torn").unlink()
    path.write_bytes(whole + rest)
    assert Logs(tmp_path).load("s").head == after


def test_a_repair_says_where_the_torn_bytes_are_and_verify_what_is_in_them(tmp_path):
    store = begun(tmp_path, "a")
    store.say("b", "c")
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes()[:-3])
    (note,) = store.verify().notes
    assert "never acknowledged" in note
    assert "1 whole event can be recovered" in note
    assert not store.verify().damage
    store.say("d")
    assert "s.torn" in store.told[-1]
    (note,) = store.verify().notes
    assert "s.torn" in note
    assert "1 whole event can be recovered" in note
    assert store.events() == (header(), said("a"), said("d"))


def test_torn_tails_are_kept_behind_each_other(tmp_path):
    store = begun(tmp_path)
    for text in ("a", "b"):
        with (tmp_path / "s.jsonl").open("ab") as file:
            file.write(text.encode())
        store.say(text)
    assert (tmp_path / "s.torn").read_bytes() == b"ab"
    assert store.events() == (header(), said("a"), said("b"))


def test_bytes_that_cannot_be_put_aside_are_not_cut_off(tmp_path):
    store = begun(tmp_path, "a")
    with (tmp_path / "s.jsonl").open("ab") as file:
        file.write(b'{"torn')
    (tmp_path / "s.torn").mkdir()
    before = (tmp_path / "s.jsonl").read_bytes()
    with pytest.raises(StoreError, match=r"s\.torn"):
        store.say("b")
    assert (tmp_path / "s.jsonl").read_bytes() == before


# a disk that refuses


def refusing(monkeypatch, name: str, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, refuse)


def short(monkeypatch, *, most: int) -> None:
    """Let the disk take so many bytes of a write, as a full one does."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:most]))


FAULTS = {
    "a full disk": lambda patched: refusing(patched, "write", errno.ENOSPC),
    "a disk that is nearly full": lambda patched: short(patched, most=50),
    "an fsync that fails": lambda patched: refusing(patched, "fsync", errno.EIO),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_the_disk_refuses_is_not_saved_and_the_log_is_as_it_was(tmp_path, monkeypatch, fault):
    store = begun(tmp_path, "a")
    data = store.load("s")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    delta = SessionDelta(base=data.head, new_events=(said("b"),))
    for act in (
        lambda: store.save_delta("s", delta),
        lambda: store.save(replace(data, events=(*data.events, said("b")))),
        lambda: store.create(header("t")),
        lambda: store.move("s", "p"),
    ):
        with monkeypatch.context() as patched:
            fault(patched)
            with pytest.raises(StoreError, match="cannot write to") as caught:
                act()
            assert "nothing was saved" in caught.value.hint
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert store.save_delta("s", delta).number == 3
    assert Logs(tmp_path).events() == (header(), said("a"), said("b"))


def test_a_write_that_could_not_be_taken_back_is_repaired_by_the_next(tmp_path, monkeypatch):
    store = begun(tmp_path, "a")
    with monkeypatch.context() as patched:
        short(patched, most=50)
        refusing(patched, "ftruncate", errno.EIO)
        with pytest.raises(StoreError):
            store.say("b")
    assert store.say("c").number == 3
    assert store.events() == (header(), said("a"), said("c"))
    assert len((tmp_path / "s.torn").read_bytes()) == 50


def test_a_delta_that_was_written_but_never_synchronised_is_synchronised_before_it_is_acknowledged(
    tmp_path, monkeypatch
):
    """Its writer died between write and fsync: the one that sends it again would lose it with the power."""
    store = begun(tmp_path, "a")
    base = store.load("s").head
    with monkeypatch.context() as patched:
        refusing(patched, "fsync", errno.EIO)
        refusing(patched, "ftruncate", errno.EIO)
        with pytest.raises(StoreError):
            store.say("b", base=base)
        with pytest.raises(StoreError, match="cannot write to"):
            Logs(tmp_path).say("b", base=base)
    assert Logs(tmp_path).say("b", base=base).number == 3


LIMITED = """
import resource, sys
from lore.store.base import StoreError
from lore.store.registry import open_store
from lore.store.base import SessionDelta
store = open_store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
base = store.load("s").head
try:
    store.save_delta("s", SessionDelta(base=base, new_events=(b'{"a":"' + b"x" * 5000 + b'"}',)))
except StoreError as error:
    print(error.message)
print(store.save_delta("s", SessionDelta(base=base, new_events=(b'{"a":1}',))).number)
"""


def test_a_limit_on_the_size_of_files_loses_nothing(tmp_path):
    store = begun(tmp_path, "a")
    limit = (tmp_path / "s.jsonl").stat().st_size + 2000
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, store.url, str(limit)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0].startswith("cannot write to")
    assert done.stdout.splitlines()[1] == "3"
    assert store.events() == (header(), said("a"), b'{"a":1}')


def test_what_stands_after_a_failed_write_is_never_taken_from_memory(tmp_path, monkeypatch):
    store = begun(tmp_path, "a")
    with monkeypatch.context() as patched:
        short(patched, most=50)
        with pytest.raises(StoreError):
            store.say("b")
    assert isinstance(store.load("s").head, Head)
    assert store.load("s").head == Logs(tmp_path).load("s").head
