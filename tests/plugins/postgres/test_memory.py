"""Memory in PostgreSQL: two writers, a dream, and wiping."""

import threading

import pytest

from lore.store.registry import open_store
from lore_plugins.memory.buckets import read_bucket, wipe
from plugins.memory.remembering import ANN, SAID, contents, entries, forget, learn, memory


@pytest.mark.usefixtures("state")
def test_memory_has_two_writers_and_is_wiped(database):
    stores = [open_store(database) for _ in range(2)]

    stores[0].create(b'{"kind":"session_started","session_id":"s1"}')

    def write(number):
        for turn in range(3):
            learn(stores[number], f"{number}.{turn}", purge=turn == 1)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(read_bucket(stores[0], ANN).texts["facts"]) == {f"{one}.{turn}" for one in range(2) for turn in range(3)}
    mine = memory(stores[1])
    mine.learn(entries(SAID), again=True)
    assert (*mine.consolidate().topics,) == ("known_facts", "open_tasks", "user_preferences")
    forget(stores[0], "My name is Ann.")
    assert not any(b'"text":"My name is Ann."' in one for one in contents(stores[1]))
    assert wipe(stores[1], "ann").counts["facts"] == 6
    assert not any(wipe(stores[0], "ann").counts.values())
    assert stores[0].verify().damage == ()
    for one in stores:
        one.close()
