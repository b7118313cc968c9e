"""Compaction: prune to what was preserved, leave one divider."""

from __future__ import annotations

import pytest

from lore.model.items import CompactDivider
from model.making import Fold, append, call, event, said, started, user


@pytest.fixture
def fold():
    made = Fold(started(), append(user("u1")), append(said("a1")), append(user("u2")), append(call("t1", "c1")))
    return made.take(append(said("a2")))


def compact(**fields):
    return event("compact_applied", **{"uuid": "d", "trigger": "overflow", "summary": "S", **fields})


def test_what_is_kept_keeps_its_order_behind_the_divider(fold):
    assert fold.take(compact(preserved_uuids=["a2", "u2"])).uuids == ["d", "u2", "a2"]


@pytest.mark.parametrize(
    "fields", [{}, {"preserved_uuids": []}, {"preserved_uuids": None}], ids=["missing", "empty", "null"]
)
def test_where_nothing_is_named_nothing_is_kept(fold, fields):
    assert fold.take(compact(**fields)).uuids == ["d"]


def test_unknown_items_among_the_kept_are_a_problem(fold):
    fold.take(compact(preserved_uuids=["u2", "x"]))
    assert (fold.uuids, fold.codes) == (["d", "u2"], ["LORE208"])


def test_where_no_kept_item_is_known_nothing_is_pruned_and_the_divider_stands_at_the_end(fold):
    fold.take(compact(preserved_uuids=["x", "y"]))
    assert fold.uuids == ["u1", "a1", "u2", "t1", "a2", "d"]
    assert (fold.codes, "nothing was pruned" in fold.problems[0].message) == (["LORE208"], True)


def test_the_divider_tells_what_happened(fold):
    fold.take(compact(preserved_uuids=["u2"], pre_tokens=10, post_tokens=3))
    divider = fold.item(0)
    assert isinstance(divider, CompactDivider)
    assert (divider.trigger, divider.pruned, divider.pre_tokens, divider.post_tokens) == ("overflow", 4, 10, 3)
    assert bytes(divider.summary) == b'"S"'


def test_a_divider_keeps_the_trigger_and_the_duration_as_they_were_recorded(fold):
    divider = fold.take(compact(trigger="auto", duration_ms=37_000)).item(0)
    assert (divider.trigger, divider.duration_ms) == ("auto", 37_000)


def test_a_second_compaction_prunes_the_first_divider(fold):
    fold.take(compact(preserved_uuids=["a2"]), compact(uuid="e", preserved_uuids=["a2"]))
    assert (fold.uuids, fold.item(0).pruned) == (["e", "a2"], 1)


def test_a_kept_call_can_still_get_its_result(fold):
    fold.take(compact(preserved_uuids=["t1"]), event("patch_tool_call", call_id="c1", status="completed", output="o"))
    assert (bytes(fold.item(1).output), fold.problems) == (b'"o"', [])


def test_a_pruned_call_is_unknown(fold):
    fold.take(compact(), event("patch_tool_call", call_id="c1", status="completed", output="o"))
    assert fold.codes == ["LORE204"]


def test_it_entitles_the_next_prompt_to_differ_and_ends_the_deltas(fold):
    delta = event("prompt_delta", seq=1, selector={"target": "messages", "insert_at": 1}, content="c")
    fold.take(delta, event("context_persisted", turn=1, insert_at=1, content="c"), compact(preserved_uuids=["u2"]))
    chain = fold.state.main()
    assert [one.cause for one in chain.since] == ["LORE125"]
    assert (chain.deltas, len(chain.persisted), chain.pinned) == ({}, 0, None)


def test_another_chain_is_not_compacted(fold):
    assert fold.take(compact(chain="side")).uuids == ["u1", "a1", "u2", "t1", "a2"]


def test_a_compaction_of_which_nothing_is_found_costs_nothing_of_the_timeline(fold):
    """Each one built the timeline anew: a log of 1.8 MB with 10,000 of them took minutes."""
    before = fold.state.main().index
    fold.take(compact(uuid="d", preserved_uuids=["x"])).take(append(user("u3"))).take(append(user("d", "again")))
    assert fold.state.main().index is before
    assert fold.uuids == ["u1", "a1", "u2", "t1", "a2", "d", "u3"]


def test_persisted_context_that_waits_at_the_end_waits_behind_what_is_kept(fold):
    fold.take(event("context_persisted", turn=1, insert_at=5, content="c"), compact(preserved_uuids=["u2"]))
    chain = fold.state.main()
    assert [one.place for one in chain.persisted] == [len(chain.entries)] == [2]
