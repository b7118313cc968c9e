"""Durable deltas and persisted context in the fold: their places, and when they end."""

import json

import pytest

from model.making import Fold, append, event, said, started, user


@pytest.fixture
def fold():
    return Fold(started(), append(user("u1")), append(said("a1")), append(user("u2")))


def delta(seq, insert_at=1, text="d", **fields):
    selector = {"target": "messages", "insert_at": insert_at, **fields}
    return event("prompt_delta", seq=seq, selector=selector, content=[{"role": "user", "text": text}])


def persisted(turn, insert_at, content, **fields):
    return event("context_persisted", turn=turn, insert_at=insert_at, content=content, **fields)


def outside(turn=1, insert_at=1, content="x"):
    return persisted(turn, insert_at, content, outside=True)


def contexts(fold):
    return [(one.place, one.number, bytes(one.content)) for one in fold.state.main().outside]


def test_repeated_delta_replaces_the_selector_not_the_content():
    fold = Fold(started(), delta(1, 0, "one", x=1), delta(2, 0, "two"), delta(1, 0, "other", y=2))
    first, second = fold.state.main().deltas.values()
    assert (first.number, json.loads(bytes(first.content)), second.number) == (1, [{"role": "user", "text": "one"}], 2)
    assert json.loads(bytes(first.selector)) == {"target": "messages", "insert_at": 0, "y": 2}
    assert fold.codes == ["LORE214"]


@pytest.mark.parametrize("selector", [
    "x", {}, {"target": "system", "insert_at": 1}, {"target": "messages"}, {"target": "messages", "insert_at": -1},
])  # fmt: skip
def test_unreadable_selector_is_a_problem(selector):
    fold = Fold(started(), event("prompt_delta", seq=1, selector=selector, content="c"))
    assert (fold.codes, fold.state.main().deltas) == (["LORE214"], {})


def test_camel_case_selector_is_read():
    fold = Fold(started(), event("prompt_delta", seq=1, selector={"target": "messages", "insertAt": 0}, content="c"))
    assert (fold.codes, len(fold.state.main().deltas)) == ([], 1)


def test_reset_ends_deltas_and_is_noted_once():
    fold = Fold(started(), delta(1), event("cache_reset", reason="a"), event("cache_reset", reason="block cap"))
    chain = fold.state.main()
    assert (chain.deltas, [(change.cause, change.detail) for change in chain.since]) == ({}, [("LORE144", "block cap")])


def test_context_of_turns_is_kept_in_order(fold):
    fold.take(persisted(1, 1, "t1"), persisted(2, 2, "t2"), persisted(1, 3, "again"))
    assert [bytes(one.content) for one in fold.state.main().persisted] == [b'"t1"', b'"t2"']


def test_outside_context_stands_beside_the_turns_own(fold):
    fold.take(outside(1, 2, "mail"), persisted(1, 2, "own"))
    assert (contexts(fold), len(fold.state.main().persisted), fold.codes) == ([(2, 1, b'"mail"')], 1, [])


def test_outside_context_leaves_waiting_context_alone(fold):
    """The number of a later turn ended what waited, and the place that it waited for was never filled."""
    fold.take(event("turn_started", turn=1, context={"extra": ["e"]}), outside(2, 3), persisted(1, 3, "late"))
    assert (len(fold.state.main().persisted), fold.codes) == (1, [])


@pytest.mark.parametrize(("second", "numbers"), [("x", [2]), ("y", [2, 3])])
def test_second_outside_context_gets_next_number(fold, second, numbers):
    fold.take(outside(2, 2, "x"), outside(2, 2, second))
    assert ([number for _, number, _ in contexts(fold)], fold.codes) == (numbers, [])


def test_outside_context_of_later_turn_may_repeat_one(fold):
    fold.take(outside(2, 2, "x"), outside(2, 2, "y"), outside(3, 2, "y"))
    assert [number for _, number, _ in contexts(fold)] == [2, 3, 4]


def test_repeated_delta_before_sent_items_is_a_problem(fold):
    fold.take(delta(1, 3), event("turn_started", turn=1), delta(1, 1))
    assert (fold.state.main().deltas[1].place, fold.codes) == (3, ["LORE214"])


def test_insert_is_never_put_before_what_was_sent(fold):
    fold.take(event("turn_started", turn=1), outside(2, 1), delta(1, 1))
    assert (contexts(fold)[0][0], fold.state.main().deltas[1].place, fold.codes) == (3, 3, ["LORE214", "LORE214"])


@pytest.mark.parametrize(("at", "content"), [(1, {"role": "robot", "text": "x"}), (1, ""), (-1, "x")])
def test_unreadable_context_is_a_problem(fold, at, content):
    fold.take(outside(1, at, content), persisted(1, at, content))
    assert (contexts(fold), len(fold.state.main().persisted), fold.codes) == ([], 0, ["LORE214", "LORE214"])


def test_context_moves_and_goes_with_next_item(fold):
    assert contexts(fold.take(outside(1, 2), event("remove", uuids=["u1"]))) == [(1, 1, b'"x"')]
    assert contexts(fold.take(event("remove", uuids=["u2"]))) == []


def test_compaction_keeps_the_context_of_kept_items(fold):
    fold.take(outside(1, 0, "old"), outside(2, 2, "new"))
    fold.take(event("compact_applied", uuid="d", trigger="gap", preserved_uuids=["u2"]))
    assert contexts(fold) == [(1, 2, b'"new"')]
