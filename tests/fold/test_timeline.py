"""Append, patches, cleared results, tombstones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from helpers.states import dump_state
from lore.fold import timeline
from lore.model import events as e
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.state import Chain, Index
from model.making import Fold, append, call, event, said, started, user


def groups(fold):
    return [entry.group for entry in fold.state.main().entries]


def test_items_stand_in_the_order_in_which_they_came():
    assert Fold(started(), append(user("b")), append(said("a"))).uuids == ["b", "a"]


def test_of_a_duplicated_uuid_the_first_place_and_the_last_content_hold():
    fold = Fold(started(), append(user("u", "1")), append(user("v")), append(user("u", "2")))
    assert (fold.uuids, bytes(fold.item(0).text), fold.codes) == (["u", "v"], b'"2"', ["LORE205"])


def test_a_duplicate_with_the_same_content_leaves_the_state_as_it_was():
    fold = Fold(started(), append(user("u")))
    chain = fold.state.main()
    assert fold.take(append(user("u"))).state.main().entries is chain.entries
    assert fold.codes == ["LORE205"]


def test_a_call_that_comes_again_keeps_its_outcome():
    """A copied line of a call took its result away, and the prompt seemed to have been rewritten."""
    fold = Fold(started(), append(call("t", "c")))
    fold.take(event("patch_tool_call", call_id="c", status="failed", output="o", error="e"))
    before = fold.item(0)
    fold.take(append(call("t", "c")))
    assert (fold.item(0), fold.codes) == (before, ["LORE205"])


@pytest.mark.parametrize("again", [call("t", "d"), call("t", "c", output="p"), call("t", "c", status="failed")])
def test_a_call_that_comes_again_with_an_outcome_or_another_id_is_taken_as_it_is(again):
    fold = Fold(started(), append(call("t", "c")))
    fold.take(event("patch_tool_call", call_id="c", status="completed", output="o"), append(again))
    assert b"o" not in bytes(fold.item(0).output)


# groups: what one response said


def test_text_and_parallel_calls_of_one_response_are_one_group():
    fold = Fold(started(), event("turn_started", turn=1))
    fold.take(
        append(said("a", response_id="r")),
        append(call("t", "c", response_id="r")),
        append(call("v", "d", response_id="r")),
    )
    assert len(set(groups(fold))) == 1


def test_another_response_begins_another_group():
    fold = Fold(started(), append(said("a", response_id="r")), append(said("b", response_id="q")))
    assert len(set(groups(fold))) == 2


def test_a_response_without_an_id_is_what_came_within_a_turn():
    fold = Fold(started(), event("turn_started", turn=1), append(said("a")), append(call("t", "c")))
    fold.take(event("turn_started", turn=2), append(said("b")))
    assert groups(fold) == [1, 1, 2]


def test_without_turns_a_finished_call_ends_the_response():
    fold = Fold(started(), append(said("a")), append(call("t", "c")), append(call("v", "d")))
    fold.take(event("patch_tool_call", call_id="d", status="completed", output="o"), append(said("b")))
    assert groups(fold) == [1, 1, 1, 2]


def test_users_never_join():
    assert groups(Fold(started(), append(user("u")), append(user("v")), append(said("a")))) == [1, 2, 3]


def test_a_call_joins_the_response_that_stands_before_it_after_something_was_taken_back():
    fold = Fold(started(), event("turn_started", turn=1), append(said("a", response_id="r")), append(user("u")))
    fold.take(event("remove", uuids=["u"]), append(call("t", "c", response_id="r")))
    assert groups(fold)[0] == groups(fold)[1]


def test_a_call_joins_its_response_across_a_compaction_that_kept_it():
    fold = Fold(started(), append(user("u")), event("turn_started", turn=1), append(said("a", response_id="r")))
    fold.take(event("compact_applied", uuid="d", trigger="overflow", preserved_uuids=["a"], summary="S"))
    fold.take(append(call("t", "c", response_id="r")))
    assert groups(fold)[1] == groups(fold)[2]


# patch_text


def test_a_text_patch_is_added_behind_the_text():
    fold = Fold(started(), append(said("a", "one")), event("patch_text", uuid="a", delta_text=" two\n"))
    assert bytes(fold.item(0).text) == b'"one two\\n"'


def test_a_text_patch_to_a_message_without_text_is_its_text():
    item = {"type": "assistant_message", "uuid": "a"}
    fold = Fold(started(), append(item), event("patch_text", uuid="a", delta_text="x"))
    assert bytes(fold.item(0).text) == b'"x"'


@pytest.mark.parametrize(
    ("blocks", "texts"),
    [
        ([{"type": "text", "text": "1"}], [b'"1x"']),
        ([{"type": "text", "text": "1"}, {"type": "thinking", "text": "2"}], [b'"1"', b'"2"', b'"x"']),
        ([], [b'"x"']),
    ],
)
def test_a_text_patch_to_blocks_reaches_the_last_text_or_adds_one(blocks, texts):
    item = {"type": "assistant_message", "uuid": "a", "blocks": blocks}
    fold = Fold(started(), append(item), event("patch_text", uuid="a", delta_text="x"))
    assert [bytes(block.text) for block in fold.item(0).blocks] == texts


@pytest.mark.parametrize("uuid", ["u", "t", "none"])
def test_a_text_patch_to_what_is_no_assistant_message_changes_nothing(uuid):
    fold = Fold(started(), append(user("u")), append(call("t", "c")))
    before = dump_state(fold.state)
    fold.take(event("patch_text", uuid=uuid, delta_text="x"))
    assert (dump_state(fold.state), fold.codes) == (before, ["LORE204"])


# patch_tool_call


def test_a_tool_patch_sets_what_it_carries_and_keeps_the_rest():
    fold = Fold(started(), append(call("t", "c", detail={"d": 1}, response_id="r")))
    fold.take(event("patch_tool_call", call_id="c", status="completed", output="o"))
    fold.take(event("patch_tool_call", call_id="c", status="failed", error="e"))
    item = fold.item(0)
    said = [bytes(content) for content in (item.output, item.error, item.detail)]
    assert (item.status, said) == ("failed", [b'"o"', b'"e"', b'{"d":1}'])
    assert (item.response_id, item.name) == ("r", "ls")


def test_a_tool_patch_reaches_the_most_recent_call_of_its_id():
    fold = Fold(started(), append(call("t", "c")), append(call("v", "c")))
    fold.take(event("patch_tool_call", call_id="c", status="completed", output="o"))
    assert [fold.item(n).status for n in (0, 1)] == ["running", "completed"]


def test_a_tool_patch_for_an_unknown_call_changes_nothing():
    fold = Fold(started(), append(user("c")))
    before = dump_state(fold.state)
    fold.take(event("patch_tool_call", call_id="c", status="completed"))
    assert (dump_state(fold.state), fold.codes) == (before, ["LORE204"])


def test_a_call_that_a_duplicate_renamed_is_unknown_by_its_old_id():
    fold = Fold(started(), append(call("t", "c")), append(call("t", "d")))
    fold.take(event("patch_tool_call", call_id="c", status="completed", output="o"))
    assert (fold.item(0).status, fold.codes) == ("running", ["LORE205", "LORE204"])


def test_a_patch_for_a_renamed_call_that_was_taken_back_is_a_problem():
    fold = Fold(started(), append(call("t", "c")), append(call("t", "d")), event("remove", uuids=["t"]))
    fold.take(event("patch_tool_call", call_id="c", status="completed", output="o"))
    assert fold.codes == ["LORE205", "LORE204"]


# tool_result_cleared


def test_cleared_results_become_the_placeholder_and_are_noted():
    fold = Fold(started(), append(call("t", "c", output="long", status="completed")))
    fold.take(event("tool_result_cleared", call_ids=["c"], placeholder="[gone]"))
    assert bytes(fold.item(0).output) == b'"[gone]"'
    assert [one.cause for one in fold.state.main().since] == ["LORE117"]


def test_cleared_results_have_a_placeholder_of_their_own_where_none_is_given():
    fold = Fold(started(), append(call("t", "c", output="long")), event("tool_result_cleared", call_ids=["c"]))
    assert bytes(fold.item(0).output) == b'"[Old tool result content cleared]"'


def test_clearing_unknown_calls_is_a_problem_and_clears_the_others():
    fold = Fold(
        started(), append(call("t", "c", output="long")), event("tool_result_cleared", call_ids=["c", "x", "y"])
    )
    assert [problem.message for problem in fold.problems] == ["tool_result_cleared names 2 unknown calls"]
    assert b"cleared" in bytes(fold.item(0).output)


def test_clearing_only_unknown_calls_entitles_to_nothing():
    fold = Fold(started(), event("tool_result_cleared", call_ids=["x"]))
    assert (fold.codes, fold.state.main().since) == (["LORE204"], ())


# remove


def test_removed_items_are_gone_and_what_follows_can_still_be_patched():
    fold = Fold(started(), *[append(user(f"u{n}")) for n in range(5)], event("turn_started", turn=1))
    fold.take(append(call("t", "c")), append(said("a")))
    fold.take(event("remove", uuids=["u1", "u3"]), event("patch_text", uuid="a", delta_text="!"))
    fold.take(event("patch_tool_call", call_id="c", status="completed"))
    assert fold.uuids == ["u0", "u2", "u4", "t", "a"]
    assert (bytes(fold.item(4).text), fold.item(3).status) == (b'"hi!"', "completed")
    assert [one.cause for one in fold.state.main().since] == ["LORE143"]


def test_a_removed_repeat_of_a_call_id_uncovers_the_one_before():
    fold = Fold(started(), append(call("t", "c")), append(call("v", "c")), event("remove", uuids=["v"]))
    fold.take(event("patch_tool_call", call_id="c", status="completed"))
    assert (fold.item(0).status, fold.problems) == ("completed", [])


def test_what_was_never_sent_can_be_taken_back_without_a_rewind():
    """A prompt that nobody sent was taken back, and passed for the reason why the next bill fell."""
    fold = Fold(started(), append(user("u")), event("turn_started", turn=1), append(user("v")))
    assert [one.cause for one in fold.take(event("remove", uuids=["v"])).state.main().since] == []
    assert [one.cause for one in fold.take(event("remove", uuids=["u"])).state.main().since] == ["LORE143"]


def test_removing_unknown_items_is_a_problem_and_no_rewind():
    fold = Fold(started(), append(user("u")), event("remove", uuids=["x"]))
    assert (fold.uuids, fold.codes, fold.state.main().since) == (["u"], ["LORE204"], ())


def test_an_older_state_that_is_folded_again_gives_the_same():
    fold = Fold(started(), append(call("t", "c")))
    older = fold.state
    fold.take(append(call("v", "c")), event("remove", uuids=["t"]))
    again = Fold()
    again.state = older
    again.take(append(call("v", "c")), event("remove", uuids=["t"]))
    assert dump_state(again.state) == dump_state(fold.state)


# streamed text


def _copied(deltas):
    """How many bytes are joined while a message arrives in pieces and then is read."""
    fold = Fold(started(), append(said("a", "")), *[event("patch_text", uuid="a", delta_text="x" * 20)] * deltas)
    return len(bytes(fold.item(0).text)), len(fold.state.chains["main"].stream.deltas)


def test_a_text_in_many_pieces_is_joined_once():
    """Each delta was joined at once: 40,000 of them took 16 seconds."""
    assert _copied(300) == (300 * 20 + 2, 300)


def test_pieces_are_joined_before_something_else_moves_the_message():
    fold = Fold(started(), append(said("a", "x")), append(said("b", "y")))
    fold.take(event("patch_text", uuid="b", delta_text="z"), event("remove", uuids=["a"]))
    assert (fold.state.chains["main"].stream, bytes(fold.item(0).text)) == (None, b'"yz"')


def test_pieces_for_two_messages_in_turn_reach_both():
    fold = Fold(started(), append(said("a", "")), append(said("b", "")))
    for uuid in ("a", "b", "a", "b"):
        fold.take(event("patch_text", uuid=uuid, delta_text=uuid))
    assert [bytes(fold.item(place).text) for place in (0, 1)] == [b'"aa"', b'"bb"']


def test_reading_a_state_while_text_arrives_costs_the_next_event_no_new_index():
    """Reading moved the index to a chain that nobody kept: each event after it built another."""
    fold = Fold(started(), append(said("a", "")), event("patch_text", uuid="a", delta_text="x"))
    index = fold.state.chains["main"].index
    assert bytes(fold.item(0).text) == b'"x"'
    fold.take(event("patch_text", uuid="a", delta_text="y"), event("turn_started", turn=1), append(user("u")))
    assert fold.state.chains["main"].index is index


@settings(max_examples=60)
@given(st.data())
def test_positions_behind_removals_are_those_of_an_index_built_anew(data):
    """An index that follows removals, insertions and appends says what one of the timeline itself says."""
    chain = Chain()
    chain.turn = SimpleNamespace(turn=1)  # within one turn calls join their response, in the middle
    for number in range(data.draw(st.integers(1, 40))):
        known = [entry.item.uuid for entry in chain.entries]
        kind = data.draw(st.sampled_from(["user", "call", "said", "remove", "patch"]))
        if kind == "remove":
            gone = data.draw(st.lists(st.sampled_from(known), max_size=4)) if known else ["?"]
            timeline.remove(chain, e.Remove(uuids=tuple(gone)))
        elif kind == "patch":
            uuid = data.draw(st.sampled_from(known)) if known else "?"
            timeline.patch_text(chain, e.PatchText(uuid=uuid, delta_text=Raw(b'"y"')))
        else:
            call_id = data.draw(st.sampled_from(["c1", "c2", f"n{number}"]))
            response = data.draw(st.sampled_from([None, "r1", "r2"]))
            item = {
                "user": UserMessage(f"u{number}", text=Raw(b'"x"')),
                "call": ToolCall(f"t{number}", call_id, "ls", Raw(b"{}"), response_id=response),
                "said": AssistantMessage(f"a{number}", text=Raw(b'"x"'), response_id=response),
            }[kind]
            timeline.append(chain, e.Append(item=item))
        timeline.settle(chain)
        index, anew = timeline.index_of(chain), Index(chain.entries)
        assert {uuid: index.place(uuid) for uuid in index.uuids} == anew.uuids
        assert {name: index.call(name) for name in index.calls} == anew.calls
