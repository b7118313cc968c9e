"""Generated sequences: the same everywhere, hold what engines differ in, and are alike where their pieces are."""

from __future__ import annotations

import hashlib

import pytest

from plugins.engines.oracle.sequences import Sequence, events, sequence

DIGEST = "b3e5e85f5d5affd9"


@pytest.fixture(scope="module")
def drawn() -> list[Sequence]:
    return [sequence(seed) for seed in range(200)]


def test_a_seed_gives_the_same_sequence_on_every_machine(drawn):
    assert hashlib.sha256(repr(drawn[:20]).encode()).hexdigest()[:16] == DIGEST


def test_everything_occurs_that_engines_differ_in(drawn):
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


def test_tokens_are_alike_exactly_where_pieces_are(drawn):
    for one in drawn[:60]:
        left, right = one.operations[0], one.operations[-1]
        shared = 0
        for mine, other in zip(left.pieces, right.pieces, strict=False):
            if mine.tokens != other.tokens or mine.image != other.image:
                break
            shared += mine.length
        assert left.tokens[:shared] == right.tokens[:shared]
        assert all(0 < token < 75_000 for token in (*left.tokens, *left.output))


def test_events_are_in_the_order_of_an_engine_and_whole(drawn):
    for one in drawn[:60]:
        live: list[int] = []
        tokens = [0] * len(one.operations)
        for event in events(one):
            if event.what == "begin":
                live.append(event.number)
            elif event.what == "token":
                assert event.number in live
                tokens[event.number] += 1
            else:
                live.remove(event.number)
        assert not live
        assert tokens == [max(0, len(each.output) - 1) for each in one.operations]


def test_memory_holds_what_runs_at_once(drawn):
    for one in drawn:
        capacity = one.capacity(16)
        assert capacity is None or capacity * 16 >= max(len(each.tokens) + len(each.output) for each in one.operations)
