"""`kill -9` of writers, and of their server, at random moments: 25 for each store here, 300 in `make soak`."""

from random import Random

import pytest

from store.killing import Tally, kills

COUNT = 25


@pytest.mark.parametrize("scheme", ["jsonl", "sqlite"])
def test_what_a_killed_writer_was_told_is_stored(scheme, tmp_path):
    tally = kills(f"{scheme}:{tmp_path / 'store'}", COUNT, Random(7))
    assert tally.writers == COUNT
    assert tally.acknowledged > COUNT


def test_what_a_writer_was_told_survives_it_and_its_server(postgres):
    tally: Tally = kills(postgres.database("kills"), COUNT, Random(7), postgres)
    assert tally.writers + tally.servers == COUNT
    assert tally.servers == COUNT // 5
    assert tally.acknowledged > COUNT
