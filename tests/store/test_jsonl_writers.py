"""Several writers of one folder: processes and threads wait for each other, and nothing is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from lore.store.base import ConflictError, Head, SessionDelta, StoreError, UnknownSessionError
from lore.store.deltas import settle
from store.logs import Logs, begun, header, said, visible

HOLD = """
import filelock, sys
with filelock.FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
WRITE = """
import sys
from lore.store.base import ConflictError, SessionDelta
from lore.store.registry import open_store
store, name = open_store(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
head, lost = store.load("s").head, 0
for number in range(60):
    event = b'{"a":"%b-%d"}' % (name.encode(), number)
    while True:
        try:
            head = store.save_delta("s", SessionDelta(base=head, new_events=(event,)))
            break
        except ConflictError:
            head, lost = store.load("s").head, lost + 1
print(lost)
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


def test_two_processes_lose_and_double_nothing(tmp_path):
    store = begun(tmp_path)
    writers = [started(WRITE, store.url, name) for name in ("one", "two")]
    for one in writers:
        assert one.stdout.readline() == "ready\n"
    for one in writers:
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in writers:
        one.communicate()
        assert one.returncode == 0
    events = store.events()[1:]
    for name in (b"one", b"two"):
        assert [one for one in events if name in one] == [b'{"a":"%b-%d"}' % (name, number) for number in range(60)]
    assert len(events) == 120
    assert not store.verify().damage


@pytest.mark.parametrize("is_shared", [True, False], ids=["one store", "a store each"])
def test_eight_threads_lose_and_double_nothing(tmp_path, is_shared):
    shared = begun(tmp_path)
    together = Barrier(8)

    def write(name: int) -> int:
        store, lost = shared if is_shared else Logs(tmp_path), 0
        head = store.load("s").head
        together.wait()
        for number in range(8):
            while True:
                delta = SessionDelta(base=head, new_events=(said(f"{name}-{number}"),))
                try:
                    head = store.save_delta("s", delta)
                    break
                except ConflictError as error:
                    head, lost = error.stored, lost + 1
        return lost

    with ThreadPoolExecutor(8) as pool:
        lost = list(pool.map(write, range(8)))
    events = shared.events()[1:]
    assert sorted(events) == sorted(said(f"{name}-{number}") for name in range(8) for number in range(8))
    assert sum(lost) > 0
    assert not shared.verify().damage


def test_second_save_on_one_base_is_refused(tmp_path):
    one = begun(tmp_path, "a")
    two, base = Logs(tmp_path), one.load("s").head
    assert two.load("s").head == base
    head = one.say("b", base=base)
    with pytest.raises(ConflictError) as caught:
        two.say("c", base=base)
    assert (caught.value.base, caught.value.stored) == (base, head)
    assert two.say("c", base=head).number == 4


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


def test_save_follows_a_log_that_was_replaced(tmp_path, monkeypatch):
    """A save of very many events replaces the file: the old one has no name any more."""
    monkeypatch.setattr("lore.store.jsonl.MOST", 1)
    one = begun(tmp_path, "a")
    two = Logs(tmp_path)
    head = two.load("s").head
    head = one.say("b", "c", base=head)
    assert two.say("d", base=head).number == 5
    assert one.events() == (header(), *map(said, "abcd"))


def test_session_deleted_meanwhile_is_unknown(tmp_path):
    one = begun(tmp_path, "a")
    two = Logs(tmp_path)
    head = two.load("s").head
    one.delete("s")
    with pytest.raises(UnknownSessionError):
        two.say("b", base=head)
    assert not (tmp_path / "s.jsonl").exists()


def test_many_creators_of_a_session_agree(tmp_path):
    stores = [Logs(tmp_path / "new" / "store") for _ in range(8)]
    together = Barrier(8)

    def create(store: Logs) -> Head:
        together.wait()
        return store.create(header())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, stores))) == 1
    assert visible(tmp_path / "new" / "store") == ["lore-store.json", "s.jsonl"]
    with pytest.raises(ConflictError):
        stores[0].create(header(model="another"))


READ = """
import sys
from lore.store.registry import open_store
told = []
store = open_store(sys.argv[1], told.append)
print("ready", flush=True)
sizes = [store.load("s").head.number for _ in range(200)]
print(sizes == sorted(sizes), told)
"""


def test_reader_beside_a_writer_sees_whole_saves(tmp_path):
    store = begun(tmp_path)
    with started(READ, store.url) as reader:
        assert reader.stdout.readline() == "ready\n"
        while reader.poll() is None:
            store.say("x" * 20_000, "y")
        assert reader.stdout.read() == "True []\n"
