"""The promises to several processes and threads, of every store that outlives its process."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from lore.store.base import Store, StoreError
from lore.store.registry import open_store
from lore.testing.stores import StoreScenarios, add, begin, events, header, ids, message

WRITE = """
import sys
from lore.store.base import ConflictError
from lore.store.registry import open_store
from lore.testing.stores import add, message
store, name = open_store(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(30):
    while True:
        try:
            add(store, message(f"{name}-{number}"))
            break
        except ConflictError:
            pass
store.close()
"""
READ = """
import sys
from lore.store.registry import open_store
messages = []
store = open_store(sys.argv[1], messages.append)
print("ready", flush=True)
sizes = [store.load("s").head.number for _ in range(100)]
damage = [store.verify().damage for _ in range(10)]
print(sizes == sorted(sizes), set(size % 2 for size in sizes), messages, any(damage))
"""
FORK = """
import os, sys
from lore.store.registry import open_store
from lore.testing.stores import add, message
store = open_store(sys.argv[1])
store.load("s")
child = os.fork()
if not child:
    add(store, message("child"))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
add(store, message("parent"))
store.close()
"""


def started(script: str, *words: str) -> subprocess.Popen[str]:
    """Start a process that runs a script."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


class ProcessScenarios(StoreScenarios):
    """The promises of a store with a URL."""

    def url(self, place: Path) -> str:
        """Return the URL of the store at a place."""
        raise NotImplementedError

    def test_two_processes_lose_and_double_nothing(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begin(store)
            writers = [started(WRITE, self.url(tmp_path), name) for name in "pq"]
            for writer in writers:
                assert writer.stdout is not None
                assert writer.stdout.readline() == "ready\n"
            for writer in writers:
                writer.communicate("go\n")
                assert writer.returncode == 0
            stored = events(store)[1:]
            for name in "pq":
                written = [writer for writer in stored if b'"%b-' % name.encode() in writer]
                assert written == [message(f"{name}-{number}") for number in range(30)]
            assert len(stored) == 60

    def test_reader_beside_a_writer_sees_whole_saves(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begin(store)
            with started(READ, self.url(tmp_path)) as reader:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "ready\n"
                while reader.poll() is None:
                    head = add(store, message("u", "x" * 20_000), message("v"), base=head)
                assert reader.stdout.read() == "True {1} [] False\n"

    def test_many_that_open_a_new_store_agree(self, tmp_path: Path) -> None:
        url, together = self.url(tmp_path), Barrier(6)

        def create(number: int) -> int:
            together.wait()
            with closing(open_store(url)) as store:
                store.create(header(f"s{number}"))
                return store.create(header("same")).number

        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(create, range(6))) == [1] * 6
        with self.opened(tmp_path) as store:
            assert ids(store) == [f"s{number}" for number in range(6)] + ["same"]

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a fork may not use what its parent loaded")
    def test_child_of_a_fork_can_save(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begin(store)
            subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, self.url(tmp_path)], check=True)
            assert events(store)[1:] == (message("child"), message("parent"))

    def test_closed_store_says_so(self, tmp_path: Path) -> None:
        store: Store = open_store(self.url(tmp_path))
        begin(store)
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.list()
