"""Context from outside in the fold: beside a turn's own, in its place, and gone with what it stands before."""

from __future__ import annotations

import pytest

from model.making import Fold, append, event, said, started, user


def outside(turn=1, at=1, content="x"):
    return event("context_persisted", turn=turn, insert_at=at, content=content, outside=True)


def of(fold):
    return [(one.place, one.number, bytes(one.content)) for one in fold.state.main().outside]


@pytest.fixture
def fold():
    return Fold(started(), append(user("u1")), append(said("a1")), append(user("u2")))


def test_it_stands_beside_the_context_of_its_turn(fold):
    fold.take(outside(1, 2, "mail"), event("context_persisted", turn=1, insert_at=2, content="own"))
    assert (of(fold), len(fold.state.main().persisted), fold.codes) == ([(2, 1, b'"mail"')], 1, [])


def test_it_leaves_the_context_of_an_earlier_turn_waiting(fold):
    """A later turn's number ended what waited, and the place that it waited for was never filled."""
    fold.take(event("turn_started", turn=1, context={"extra": ["e"]}), outside(2, 3))
    fold.take(event("context_persisted", turn=1, insert_at=3, content="late"))
    assert (len(fold.state.main().persisted), fold.codes) == (1, [])


def test_what_comes_again_changes_nothing(fold):
    assert of(fold.take(outside(1, 2), outside(1, 2))) == [(2, 1, b'"x"')]
    assert fold.codes == []


def test_a_second_one_for_a_turn_has_the_next_number(fold):
    assert of(fold.take(outside(2, 2, "x"), outside(2, 2, "y"))) == [(2, 2, b'"x"'), (2, 3, b'"y"')]


def test_it_is_never_put_before_what_was_sent(fold):
    fold.take(event("turn_started", turn=1), outside(2, 1))
    assert (of(fold)[0][0], fold.codes) == (3, ["LORE214"])


@pytest.mark.parametrize(("at", "content"), [(1, {"role": "robot", "text": "x"}), (1, ""), (-1, "x")])
def test_one_that_cannot_be_read_is_told_and_passed_over(fold, at, content):
    assert (of(fold.take(outside(1, at, content))), fold.codes) == ([], ["LORE214"])


def test_it_goes_where_its_item_goes(fold):
    assert of(fold.take(outside(1, 2), event("remove", uuids=["u1"]))) == [(1, 1, b'"x"')]
    assert of(fold.take(event("remove", uuids=["u2"]))) == []


def test_a_compaction_keeps_it_with_its_item(fold):
    fold.take(outside(1, 0, "old"), outside(2, 2, "new"))
    fold.take(event("compact_applied", uuid="d", trigger="gap", preserved_uuids=["u2"]))
    assert of(fold) == [(1, 2, b'"new"')]
