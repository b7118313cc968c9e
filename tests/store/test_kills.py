"""`kill -9` of writers at random moments: 5 for each store, 25 and 300 in `make soak`."""

from random import Random

import pytest

from helpers.matrix import some
from store.killing import kills

COUNTS = some([5, 25])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("scheme", ["jsonl", "sqlite"])
def test_what_a_killed_writer_was_told_is_stored(scheme, count, tmp_path):
    tally = kills(f"{scheme}:{tmp_path / 'store'}", count, Random(7))
    assert tally.writers == count
    assert tally.acknowledged > count
