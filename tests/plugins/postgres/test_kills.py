"""`kill -9` of writers and of their server at random moments."""

from random import Random

import pytest

import lore
from helpers.matrix import some
from store.killing import kills


@pytest.mark.parametrize("count", some([5, 300]))
def test_acknowledged_saves_survive_kills(postgres, count):
    tally = kills(postgres.database(f"kills{count}"), count, Random(7), postgres)
    assert tally.writers + tally.servers == count
    assert tally.servers == count // 5
    assert tally.acknowledged > count


def test_session_saves_again_after_a_crash(postgres):
    url = postgres.database("crash")
    with lore.open(url, "demo", model="claude-opus-5") as session:
        session.user("Any news?")
        postgres.kill()
        with pytest.raises(lore.StoreError, match="no connection"):
            session.request()
        postgres.start()
        assert session.request()["messages"][0]["content"][0]["text"] == "Any news?"
    with lore.open(url, "demo") as session:
        assert (session.waits_for(), session.turn_count) == ("model", 1)
