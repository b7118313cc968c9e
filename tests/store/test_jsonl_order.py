"""In which order names and bytes of a folder of logs reach the disk: when its machine stops, no change is halved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lore.store.jsonl_folder import Folder
from store.logs import Logs, begun, header

NAMING = ("link", "replace", "unlink", "mkdir", "ftruncate")


@contextmanager
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Yield the calls that name, cut and synchronise files, with the name of the file or folder, as they come."""
    found: list[tuple[str, str]] = []

    def patched(name: str) -> None:
        call = getattr(os, name)

        def noting(*words: object) -> object:
            what = (
                os.readlink(f"/proc/self/fd/{words[0]}")
                if isinstance(words[0], int)
                else str(words[0] if name == "mkdir" else words[-1])
            )
            found.append((name, os.path.basename(what)))
            return call(*words)

        monkeypatch.setattr(os, name, noting)

    with monkeypatch.context() as monkeypatch:
        for name in (*NAMING, "fsync"):
            patched(name)
        yield found


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="which file is meant is asked of /proc")


def test_a_session_that_is_created_again_has_a_durable_name(tmp_path, monkeypatch):
    """Its writer died between giving the name and synchronising the folder; the next one acknowledged a session that
    a loss of power would take away."""
    begun(tmp_path / "s")
    with traced(monkeypatch) as calls:
        Logs(tmp_path / "s").create(header())
    assert calls == [("fsync", "s.jsonl"), ("fsync", "s")]


def test_a_fork_is_gone_for_good_before_its_parent_goes(tmp_path, monkeypatch):
    store = begun(tmp_path / "folder")
    store.create(header("fork", parent_session_id="s"))
    with traced(monkeypatch) as calls:
        store.delete("s")
    kept = [one for one in calls if one[1].endswith((".jsonl", "folder"))]
    assert kept == [("unlink", "fork.jsonl"), ("fsync", "folder"), ("unlink", "s.jsonl"), ("fsync", "folder")]


def test_what_is_torn_is_durable_beside_the_log_before_it_is_cut_off(tmp_path, monkeypatch):
    store = begun(tmp_path / "folder", "a")
    with (tmp_path / "folder" / "s.jsonl").open("ab") as file:
        file.write(b'{"kind":"app')
    with traced(monkeypatch) as calls:
        store.say("b")
    assert calls[:3] == [("fsync", "s.torn"), ("fsync", "folder"), ("ftruncate", "s.jsonl")]


def test_every_folder_that_is_made_is_durable_in_the_one_above(tmp_path, monkeypatch):
    with traced(monkeypatch) as calls:
        Logs(tmp_path / "a" / "b").create(header())
    assert calls[:4] == [("mkdir", "a"), ("fsync", tmp_path.name), ("mkdir", "b"), ("fsync", "a")]


def test_the_first_binding_makes_its_file_durable(tmp_path, monkeypatch):
    store = begun(tmp_path / "folder")
    with traced(monkeypatch) as calls:
        store.bind("client", "s")
        store.bind("other", "s")
    assert calls == [("fsync", "bindings.jsonl"), ("fsync", "folder"), ("fsync", "bindings.jsonl")]


def test_what_is_being_written_is_nothing_that_a_dead_writer_left(tmp_path):
    store = begun(tmp_path / "folder")

    def pieces() -> Iterator[bytes]:
        yield b"one "
        assert store.vacuum() == 0
        yield b"two"

    Folder(str(tmp_path / "folder")).write_whole("s.torn", pieces(), replace=True)
    assert (tmp_path / "folder" / "s.torn").read_bytes() == b"one two"


@pytest.mark.parametrize("held", [Folder.reading, Folder.writing])
def test_who_waited_for_a_file_that_was_replaced_has_the_one_that_took_its_place(tmp_path, monkeypatch, held):
    """A whole session is written under another name: a delta that waited for the old file would go nowhere."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"old")
    stat, times = os.stat, iter(range(100))

    def replaced_first(*words: object, **more: object) -> os.stat_result:
        if next(times) == 0:
            (tmp_path / "new").write_bytes(b"new")
            os.replace(tmp_path / "new", path)
        return stat(*words, **more)

    monkeypatch.setattr(os, "stat", replaced_first)
    with held(Folder(str(tmp_path), 1.0), str(path)) as descriptor:
        assert os.fstat(descriptor).st_ino == stat(path).st_ino
