"""openfang: there is one lock for each agent and user; a held lock is skipped and never waited for."""

from __future__ import annotations

import threading

import pytest

from lore.store.locks import trylock

URL = "sqlite:sessions.db"


def try_all(folder, *pairs):
    """Return which pairs could be locked, each tried in its own thread."""
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


def test_each_agent_and_user_has_a_lock(tmp_path):
    pairs = ("a", "u"), ("a", "v"), ("b", "u")
    with trylock(URL, "a", "u", folder=tmp_path) as held:
        assert held
        assert try_all(tmp_path, *pairs) == {pairs[0]: False, pairs[1]: True, pairs[2]: True}


@pytest.mark.parametrize("tries", [1, 3])
def test_held_lock_is_skipped(tmp_path, tries):
    with trylock(URL, "a", "u", folder=tmp_path):
        for _ in range(tries):
            assert try_all(tmp_path, ("a", "u")) == {("a", "u"): False}
    assert try_all(tmp_path, ("a", "u")) == {("a", "u"): True}
