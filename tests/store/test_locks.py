"""Locks by agent and user: tried, never waited for, and gone with their process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from lore.errors import LoreError
from lore.store.locks import lock_name, trylock

URL = "postgresql://me:secret@host/db"
HOLD = """
import sys
from pathlib import Path
from lore.store.locks import trylock
with trylock(sys.argv[1], "a", "u", folder=Path(sys.argv[2])) as held:
    print(held, flush=True)
    sys.stdin.read()
"""

posix = pytest.mark.skipif(os.name != "posix", reason="flock")


@pytest.fixture
def held_elsewhere(tmp_path):
    """Another process that holds the lock of agent `a` and user `u`."""
    run = [sys.executable, "-c", HOLD, URL, str(tmp_path)]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"True\n"
        yield process
        process.kill()


def test_the_lock_of_a_pair_is_held_once(tmp_path):
    with trylock(URL, "a", "u", folder=tmp_path) as first, trylock(URL, "a", "u", folder=tmp_path) as second:
        assert (first, second) == (True, False)


def test_a_lock_that_was_let_go_can_be_had_again(tmp_path):
    for _ in range(2):
        with trylock(URL, "a", "u", folder=tmp_path) as held:
            assert held
    with pytest.raises(KeyError), trylock(URL, "a", "u", folder=tmp_path):
        raise KeyError
    with trylock(URL, "a", "u", folder=tmp_path) as held:
        assert held


@posix
def test_of_two_processes_one_holds_it_and_a_dead_one_holds_nothing(tmp_path, held_elsewhere):
    with trylock(URL, "a", "u", folder=tmp_path) as held:
        assert not held
    held_elsewhere.kill()
    held_elsewhere.wait()
    with trylock(URL, "a", "u", folder=tmp_path) as held:
        assert held


def test_no_name_and_no_password_can_be_read_from_a_lock(tmp_path):
    with trylock(URL, "agent-x", "ada", folder=tmp_path):
        (name,) = os.listdir(tmp_path)
    assert len(name) == 64 + len(".lock")
    assert lock_name(URL, "a", "u") == lock_name(URL.replace("secret", "other"), "a", "u")


def test_every_spelling_of_a_place_is_one_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spelled = {lock_name(url, "a", "u") for url in ("sqlite:s.db", "sqlite:./s.db", f"sqlite:{tmp_path}/s.db")}
    assert len(spelled) == 1
    assert lock_name("jsonl:s.db", "a", "u") not in spelled


@posix
def test_a_folder_that_others_can_write_keeps_no_locks(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(LoreError, match="can be written by others"), trylock(URL, "a", "u", folder=tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LoreError, match="cannot keep locks"), trylock(URL, "a", "u", folder=tmp_path / "file" / "x"):
        pass


def test_the_environment_says_where_locks_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("LORE_STATE", str(tmp_path / "here"))
    with trylock(URL, "a", "u"):
        assert os.listdir(tmp_path / "here" / "locks")
    monkeypatch.delenv("LORE_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with trylock(URL, "a", "u"):
        assert os.listdir(tmp_path / "state" / "lore" / "locks")


@posix
def test_a_lock_that_is_a_link_elsewhere_is_refused_and_what_it_leads_to_stays(tmp_path):
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("kept")
    folder = tmp_path / "locks"
    folder.mkdir(mode=0o700)
    (folder / lock_name(URL, "a", "u")).symlink_to(elsewhere)
    with pytest.raises(LoreError, match="cannot keep locks"), trylock(URL, "a", "u", folder=folder):
        pass
    assert elsewhere.read_text() == "kept"


@posix
def test_a_file_system_without_locks_is_an_error_that_names_the_variable(tmp_path, monkeypatch):
    """Such a lock was taken as held: two compactions of one session could run at once."""
    import fcntl

    def without(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(LoreError, match="no locks available") as refused, trylock(URL, "a", "u", folder=tmp_path):
        pass
    assert "$LORE_STATE" in (refused.value.hint or "")
