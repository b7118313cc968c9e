"""openfang: the lock is per (agent, user); it is tried, and what is taken is skipped, never queued for."""

from __future__ import annotations

import threading

import pytest

from lore.store.locks import trylock

URL = "sqlite:sessions.db"


def try_all(folder, *pairs):
    """Try the lock of each pair from a thread of its own, while this one goes on; none of them waits."""
    found = {}

    def attempt(pair):
        with trylock(URL, *pair, folder=folder) as held:
            found[pair] = held

    threads = [threading.Thread(target=attempt, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_locks_are_per_pair(tmp_path):
    pairs = ("a", "u"), ("a", "v"), ("b", "u")
    with trylock(URL, "a", "u", folder=tmp_path) as held:
        assert held
        assert try_all(tmp_path, *pairs) == {pairs[0]: False, pairs[1]: True, pairs[2]: True}


@pytest.mark.parametrize("tries", [1, 3])
def test_a_lock_that_is_taken_is_skipped_and_not_queued_for(tmp_path, tries):
    with trylock(URL, "a", "u", folder=tmp_path):
        for _ in range(tries):
            assert try_all(tmp_path, ("a", "u")) == {("a", "u"): False}
    assert try_all(tmp_path, ("a", "u")) == {("a", "u"): True}
