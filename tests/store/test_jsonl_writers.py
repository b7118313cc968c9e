"""Several writers of one folder: processes and threads wait for each other, and nothing is lost or doubled."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lore.store.base import StoreError
from lore.store.deltas import settle
from store.logs import Logs, begun, header, said

HOLD = """
import filelock, sys
with filelock.FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def started(script, *words):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_held_session_is_waited_for_then_refused(tmp_path):
    begun(tmp_path, "a")
    with started(HOLD, tmp_path / ".s.jsonl.lock") as other:
        assert other.stdout.readline() == "held\n"
        store = Logs(tmp_path, patience=0.05)
        assert store.events() == (header(), said("a"))  # readers do not wait
        for act in (lambda: store.say("b"), lambda: store.create(header()), lambda: store.move("s", "p")):
            with pytest.raises(StoreError, match="another writer holds") as caught:
                act()
            assert "try again" in caught.value.hint
        store.create(header("t"))
        assert store.say("x", session_id="t").number == 2
        other.kill()
        other.wait()
        assert store.say("b").number == 3  # what a dead process held is free


def test_line_written_without_the_lock_is_kept(tmp_path, monkeypatch):
    """`echo … >> s.jsonl` asks for no lock: the delta's record would stand elsewhere than it says."""
    store = begun(tmp_path, "a")

    def meanwhile(delta, stored):
        settled = settle(delta, stored)
        with (tmp_path / "s.jsonl").open("ab") as file:
            file.write(said("b") + b"\n")
        return settled

    with monkeypatch.context() as patched:
        patched.setattr("lore.store.deltas.settle", meanwhile)
        with pytest.raises(StoreError, match="without asking for its lock"):
            store.say("c")
    store.say("c")
    assert store.events() == (header(), *map(said, "abc"))
    assert not store.verify().damage
