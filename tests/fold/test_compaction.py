"""A compaction prunes the timeline to the preserved items and a divider."""

from __future__ import annotations

import pytest

from model.making import Fold, append, call, event, said, started, user


@pytest.fixture
def fold():
    fold = Fold(started(), append(user("u1")), append(said("a1")), append(user("u2")), append(call("t1", "c1")))
    return fold.take(append(said("a2")))


def compact(**fields):
    return event("compact_applied", **{"uuid": "d", "trigger": "overflow", "summary": "S", **fields})


def test_kept_items_follow_the_divider_in_their_order(fold):
    assert fold.take(compact(preserved_uuids=["a2", "u2"])).uuids == ["d", "u2", "a2"]


@pytest.mark.parametrize("fields", [{}, {"preserved_uuids": []}, {"preserved_uuids": None}])
def test_compaction_without_preserved_items_keeps_none(fold, fields):
    assert fold.take(compact(**fields)).uuids == ["d"]


def test_unknown_preserved_item_is_a_problem(fold):
    fold.take(compact(preserved_uuids=["u2", "x"]))
    assert (fold.uuids, fold.codes) == (["d", "u2"], ["LORE208"])


def test_only_unknown_preserved_items_prune_nothing(fold):
    """Each such compaction built the timeline again: a log of 1.8 MB with 10,000 of them took minutes."""
    before = fold.state.main().index
    fold.take(compact(preserved_uuids=["x", "y"]), append(user("u3")))
    assert fold.uuids == ["u1", "a1", "u2", "t1", "a2", "d", "u3"]
    assert (fold.codes, "nothing was pruned" in fold.problems[0].message) == (["LORE208"], True)
    assert fold.state.main().index is before


def test_divider_records_the_compaction(fold):
    fold.take(compact(trigger="auto", duration_ms=37_000, preserved_uuids=["u2"], pre_tokens=10, post_tokens=3))
    divider = fold.item(0)
    assert (divider.trigger, divider.pruned, divider.duration_ms) == ("auto", 4, 37_000)
    assert (divider.pre_tokens, divider.post_tokens, bytes(divider.summary)) == (10, 3, b'"S"')


def test_second_compaction_prunes_the_first_divider(fold):
    fold.take(compact(preserved_uuids=["a2"]), compact(uuid="e", preserved_uuids=["a2"]))
    assert (fold.uuids, fold.item(0).pruned) == (["e", "a2"], 1)


@pytest.mark.parametrize(("kept", "codes"), [(["t1"], []), ([], ["LORE204"])])
def test_result_reaches_a_call_that_was_kept(fold, kept, codes):
    fold.take(compact(preserved_uuids=kept), event("patch_tool_call", call_id="c1", status="completed", output="o"))
    assert fold.codes == codes
    assert not kept or bytes(fold.item(1).output) == b'"o"'


def test_compaction_is_noted_and_ends_deltas(fold):
    delta = event("prompt_delta", seq=1, selector={"target": "messages", "insert_at": 1}, content="c")
    fold.take(delta, event("context_persisted", turn=1, insert_at=1, content="c"), compact(preserved_uuids=["u2"]))
    chain = fold.state.main()
    assert [change.cause for change in chain.since] == ["LORE125"]
    assert (chain.deltas, len(chain.persisted), chain.pinned) == ({}, 0, None)


def test_compaction_of_a_subagent_leaves_the_main_chain(fold):
    assert fold.take(compact(chain="side")).uuids == ["u1", "a1", "u2", "t1", "a2"]


def test_context_waiting_at_the_end_still_waits_there(fold):
    fold.take(event("context_persisted", turn=1, insert_at=5, content="c"), compact(preserved_uuids=["u2"]))
    chain = fold.state.main()
    assert [insert.place for insert in chain.persisted] == [len(chain.entries)] == [2]
