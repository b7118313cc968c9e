"""Generated sequences: the same everywhere, and covering the differences of engines."""

from __future__ import annotations

import hashlib

import pytest

from plugins.engines.oracle.sequences import Sequence, sequence

DIGEST = "b3e5e85f5d5affd9"


@pytest.fixture(scope="module")
def drawn() -> list[Sequence]:
    return [sequence(seed) for seed in range(200)]


def test_seed_gives_the_same_sequence_everywhere(drawn):
    assert hashlib.sha256(repr(drawn[:20]).encode()).hexdigest()[:16] == DIGEST


def test_sequences_cover_all_differences_of_engines(drawn):
    operations = [each for one in drawn for each in one.operations]
    assert {each.tenant for each in operations} == {"", "a", "b"}
    assert {each.adapter for each in operations} == {"", "x"}
    assert any(piece.image for each in operations for piece in each.pieces)
    assert any(piece.edited and piece.edit for each in operations for piece in each.pieces)
    assert {one.room is None for one in drawn} == {True, False}
    following = [
        (before, after) for one in drawn for before, after in zip(one.operations, one.operations[1:], strict=False)
    ]
    assert any(before.at == after.at for before, after in following)
    assert any(before.at < after.at < before.ended for before, after in following)
