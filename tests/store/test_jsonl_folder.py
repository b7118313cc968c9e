"""Where a folder of logs keeps what, who may read it, and what it refuses."""

from __future__ import annotations

import json
import os

import pytest

from lore.store.base import ConflictError, FormatError, StoreError, UnknownSessionError
from lore.store.jsonl import Jsonl
from lore.store.jsonl_folder import name_of
from store.logs import Logs, begun, header, said

ODD = ("../x", "..", ".", "/etc/x", "a/b", "a\\b", "A", "a", "é", "e\u0301", "ß", "SS", "ss", "CON", "con", "bindings",
       "x.jsonl", "x.torn", "~", "%41", "a b", "'; DROP TABLE x; --", "lore-store.json", "-rf", "*", "\u212a", "k",
       "x" * 512, "x" * 511 + "y", "\U0001f600" * 512)  # fmt: skip


def test_ids_that_differ_by_anything_have_files_of_their_own_and_none_leaves_the_folder(tmp_path):
    store = Logs(tmp_path / "store")
    for one in ODD:
        store.create(header(one))
        store.say(one[:20].replace("\\", "/"), session_id=one)
    files = [path.name for path in (tmp_path / "store").iterdir() if path.name != "lore-store.json"]
    assert len({name.lower() for name in files}) == len(files) == len(ODD)
    assert all(name.isascii() and len(name) < 230 and not name.startswith(".") for name in files)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    again = Logs(tmp_path / "store")
    assert [one.session_id for one in again.list()] == sorted(ODD)
    for one in ODD:
        assert again.events(one) == (header(one), said(one[:20].replace("\\", "/")))
    assert not again.verify().damage


def test_plain_ids_are_their_names():
    assert name_of("0b9f-4c_a.1") == "0b9f-4c_a.1"
    assert name_of("Run 1/é") == "%52un%201%2F%C3%A9"


@pytest.mark.parametrize("wrong", ["a\0b", "", "a\nb", "x" * 513, "\ud83d"], ids=ascii)
def test_ids_that_no_file_can_carry_are_refused_and_unknown(tmp_path, wrong):
    store = begun(tmp_path)
    with pytest.raises(StoreError):
        store.create(header(wrong))
    with pytest.raises(UnknownSessionError):
        store.load(wrong)
    assert store.resolve(wrong) is None


# who may read it


def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        store = begun(tmp_path / "a" / "b", "a")
        store.bind("k", "s")
        with (tmp_path / "a" / "b" / "s.jsonl").open("ab") as file:
            file.write(b"torn")
        store.say("b")
        store.save(store.load("s"))
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        "a": 0o700, "b": 0o700, "s.jsonl": 0o600, "lore-store.json": 0o600, "bindings.jsonl": 0o600, "s.torn": 0o600
    }  # fmt: skip
    assert not [note for note in store.verify().notes if "may be read" in note]


def test_a_folder_that_others_can_read_is_left_as_it_is_and_said(tmp_path):
    tmp_path.chmod(0o755)
    store = begun(tmp_path)
    (tmp_path / "s.jsonl").chmod(0o640)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert store.verify().notes == (
        f"{tmp_path} may be read by its group and everybody", f"{tmp_path / 's.jsonl'} may be read by its group"
    )  # fmt: skip


def test_what_a_closed_folder_keeps_from_others_is_not_said_to_be_read_by_them(tmp_path):
    """Logs that somebody copied there: their own modes let others read them, the folder does not."""
    tmp_path.chmod(0o700)
    store = begun(tmp_path)
    (tmp_path / "s.jsonl").chmod(0o644)
    assert store.verify().notes == ()


def test_a_symbolic_link_is_never_followed(tmp_path):
    victim = tmp_path / "victim.jsonl"
    victim.write_bytes(header() + b"\n")
    store = Logs(tmp_path / "store")
    store.create(header("t"))
    folder = tmp_path / "store"
    for name in ("s.jsonl", "bindings.jsonl", "t.torn", "t.checkpoint"):
        (folder / name).symlink_to(victim)
    with (folder / "t.jsonl").open("ab") as file:
        file.write(b"torn")
    for act in (
        lambda: store.create(header()),
        lambda: store.say("a"),
        lambda: store.load("s"),
        lambda: store.save(begun(tmp_path / "other").load("s")),
        lambda: store.bind("k", "t"),
        lambda: store.say("a", session_id="t"),
        lambda: store.checkpoint("t"),
    ):
        with pytest.raises(StoreError, match="is a symbolic link"):
            act()
    assert victim.read_bytes() == header() + b"\n"
    assert [one.session_id for one in store.list()] == ["t"]
    assert [one.place for one in store.verify().damage] == [
        str(folder / name) for name in ("s.jsonl", "t.torn", "bindings.jsonl")
    ]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_nobody_waits_for_it(tmp_path, make):
    store = begun(tmp_path)
    make(tmp_path / "t.jsonl")
    for act in (lambda: store.create(header("t")), lambda: store.load("t"), lambda: store.say("a", session_id="t")):
        with pytest.raises(StoreError):
            act()
    assert [one.session_id for one in store.list()] == ["s"]
    assert len(store.verify().damage) == 1


# whose folder it is


def test_a_store_is_stamped_with_its_version(tmp_path):
    begun(tmp_path)
    assert json.loads((tmp_path / "lore-store.json").read_bytes()) == {"kind": "lore-store", "version": 2}


@pytest.mark.parametrize(
    ("stamp", "hint"),
    [
        (b'{"kind":"lore-store","version":3}', "newer lore"),
        (b'{"kind":"something","version":1}', "another folder"),
        (b'{"kind":"lore-store","version":0}', "another folder"),
        (b"not JSON", "another folder"),
    ],
)
def test_a_folder_of_a_newer_lore_or_of_something_else_is_refused_and_not_touched(tmp_path, stamp, hint):
    store = begun(tmp_path)
    (tmp_path / "lore-store.json").write_bytes(stamp)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    with pytest.raises(FormatError) as caught:
        Jsonl.open(f"jsonl:{tmp_path}", print)
    assert hint in caught.value.hint
    for act in (lambda: store.load("s"), lambda: store.create(header("t")), store.list, store.verify, store.vacuum):
        with pytest.raises(FormatError):
            act()
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_a_folder_of_logs_is_adopted_with_the_first_write(tmp_path):
    (tmp_path / "s.jsonl").write_bytes(header() + b"\n")
    (tmp_path / "notes.txt").write_text("mine")
    store = Logs(tmp_path)
    assert [one.session_id for one in store.list()] == ["s"]
    assert not (tmp_path / "lore-store.json").exists()
    store.say("a")
    assert (tmp_path / "lore-store.json").exists()


def test_a_folder_of_other_things_is_not_made_a_store(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "data.jsonl").write_text('{"a":1}\n')
    with pytest.raises(FormatError, match="holds other files"):
        Logs(tmp_path).create(header())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "thesis.txt"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="is no folder"):
        Jsonl.open(f"jsonl:{tmp_path / 'file'}", print)
    with pytest.raises(StoreError, match="names no folder"):
        Jsonl.open("jsonl:", print)


def test_vacuum_takes_what_dead_writers_left_and_nothing_that_is_held(tmp_path):
    import fcntl  # noqa: PLC0415

    store = begun(tmp_path, "a")
    for name in (".s.jsonl.1.new", ".s.jsonl.2.new"):
        (tmp_path / name).write_bytes(b"x" * 100)
    os.link(tmp_path / "s.jsonl", tmp_path / ".s.jsonl.3.new")  # died between the two names of a new session
    with (tmp_path / ".s.jsonl.2.new").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "3 files are being written, or were left by writers that died" in store.verify().notes[0]
        assert store.vacuum() == 100
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [".s.jsonl.2.new"]
    assert store.vacuum() == 100
    assert store.events() == (header(), said("a"))


def test_a_client_of_another_session_is_refused(tmp_path):
    store = begun(tmp_path)
    store.create(header("t"))
    store.bind("k", "s")
    with pytest.raises(ConflictError):
        store.bind("k", "t")
    with pytest.raises(UnknownSessionError):
        store.bind("k2", "unknown")
