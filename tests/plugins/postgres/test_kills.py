"""`kill -9` of writers and of their server at random moments."""

from random import Random

import pytest

from helpers.matrix import some
from store.killing import kills


@pytest.mark.parametrize("count", some([5, 300]))
def test_acknowledged_saves_survive_kills(postgres, count):
    tally = kills(postgres.database(f"kills{count}"), count, Random(7), postgres)
    assert tally.writers + tally.servers == count
    assert tally.servers == count // 5
    assert tally.acknowledged > count
