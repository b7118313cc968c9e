"""Items are appended, patched, cleared and removed; text that streams in is joined once."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from helpers.states import dump_state
from lore.fold import timeline
from lore.model import events as e
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.state import Chain, Entry, Index
from lore.model.vector import Vector
from model.making import Fold, append, call, event, said, started, user


def groups(fold):
    return [entry.group for entry in fold.state.main().entries]


def causes(fold):
    return [change.cause for change in fold.state.main().since]


def patch(call_id, status="completed", **fields):
    return event("patch_tool_call", call_id=call_id, status=status, **fields)


def stream(uuid, text):
    return event("patch_text", uuid=uuid, delta_text=text)


# append


def test_repeated_uuid_keeps_place_and_new_content():
    fold = Fold(started(), append(user("u", "1")), append(user("v")), append(user("u", "2")))
    assert (fold.uuids, bytes(fold.item(0).text), fold.codes) == (["u", "v"], b'"2"', ["LORE205"])


def test_repeated_item_leaves_the_timeline_as_it_was():
    fold = Fold(started(), append(user("u")))
    entries = fold.state.main().entries
    assert fold.take(append(user("u"))).state.main().entries is entries
    assert fold.codes == ["LORE205"]


def test_repeated_call_keeps_its_outcome():
    """A copied line of a call took its result away, and the prompt seemed to have been rewritten."""
    fold = Fold(started(), append(call("t", "c")), patch("c", "failed", output="o", error="e"))
    before = fold.item(0)
    fold.take(append(call("t", "c")))
    assert (fold.item(0), fold.codes) == (before, ["LORE205"])


@pytest.mark.parametrize("again", [call("t", "d"), call("t", "c", output="p"), call("t", "c", status="failed")])
def test_repeated_call_with_outcome_or_other_id_replaces(again):
    fold = Fold(started(), append(call("t", "c")), patch("c", output="o"), append(again))
    assert b"o" not in bytes(fold.item(0).output)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([append(user("u")), append(user("v")), append(said("a"))], [1, 2, 3]),
        ([append(said("a", response_id="r")), append(said("b", response_id="q"))], [1, 2]),
        (
            [event("turn_started", turn=1), append(said("a", response_id="r")), append(call("t", "c", response_id="r")),
             append(call("v", "d", response_id="r"))],
            [1, 1, 1],
        ),
        (
            [event("turn_started", turn=1), append(said("a")), append(call("t", "c")), event("turn_started", turn=2),
             append(said("b"))],
            [1, 1, 2],
        ),
        (
            [append(said("a")), append(call("t", "c")), append(call("v", "d")), patch("d", output="o"),
             append(said("b"))],
            [1, 1, 1, 2],
        ),
    ],
    ids=["users", "two responses", "one response", "without ids: a turn", "without turns: up to a result"],
)  # fmt: skip
def test_items_of_one_response_are_one_group(events, expected):
    assert groups(Fold(started(), *events)) == expected


def test_call_joins_its_response_after_what_came_between():
    late = append(call("t", "c", response_id="r"))
    fold = Fold(started(), event("turn_started", turn=1), append(said("a", response_id="r")), append(user("u")), late)
    assert (fold.uuids, groups(fold)) == (["a", "t", "u"], [1, 1, 2])


@pytest.mark.parametrize("between", [
    event("remove", uuids=["u"]),
    event("compact_applied", uuid="d", trigger="overflow", preserved_uuids=["a"], summary="S"),
], ids=["a removal", "a compaction that keeps it"])  # fmt: skip
def test_call_joins_its_response_across(between):
    fold = Fold(started(), append(user("u")), event("turn_started", turn=1), append(said("a", response_id="r")))
    fold.take(between, append(call("t", "c", response_id="r")))
    assert groups(fold)[-1] == groups(fold)[-2]


# patches


@pytest.mark.parametrize(("blocks", "texts"), [
    ([{"type": "text", "text": "1"}], [b'"1x"']),
    ([{"type": "text", "text": "1"}, {"type": "thinking", "text": "2"}], [b'"1"', b'"2"', b'"x"']),
    ([], [b'"x"']),
])  # fmt: skip
def test_text_is_added_to_the_last_text_block(blocks, texts):
    item = {"type": "assistant_message", "uuid": "a", "blocks": blocks}
    fold = Fold(started(), append(item), stream("a", "x"))
    assert [bytes(block.text) for block in fold.item(0).blocks] == texts


@pytest.mark.parametrize(("fields", "text"), [({"text": "one"}, b'"one x\\n"'), ({}, b'" x\\n"')])
def test_text_is_added_to_the_text(fields, text):
    fold = Fold(started(), append({"type": "assistant_message", "uuid": "a", **fields}), stream("a", " x\n"))
    assert bytes(fold.item(0).text) == text


@pytest.mark.parametrize("unfit", [stream("u", "x"), stream("t", "x"), stream("none", "x"), patch("u")])
def test_patch_of_an_unknown_item_changes_nothing(unfit):
    fold = Fold(started(), append(user("u")), append(call("t", "c")))
    before = dump_state(fold.state)
    fold.take(unfit)
    assert (dump_state(fold.state), fold.codes) == (before, ["LORE204"])


def test_tool_patch_keeps_what_it_does_not_carry():
    fold = Fold(started(), append(call("t", "c", detail={"d": 1}, response_id="r")))
    fold.take(patch("c", output="o"), patch("c", "failed", error="e"))
    item = fold.item(0)
    contents = [bytes(content) for content in (item.output, item.error, item.detail)]
    assert (item.status, contents, item.response_id) == ("failed", [b'"o"', b'"e"', b'{"d":1}'], "r")


def test_tool_patch_reaches_last_call_of_its_id():
    fold = Fold(started(), append(call("t", "c")), append(call("v", "c")), patch("c", output="o"))
    assert [fold.item(place).status for place in (0, 1)] == ["running", "completed"]
    again = Fold(started(), append(call("t", "c")), append(call("v", "c")), event("remove", uuids=["v"]), patch("c"))
    assert (again.item(0).status, again.problems) == ("completed", [])


@pytest.mark.parametrize("more", [[], [event("remove", uuids=["t"])]], ids=["present", "removed"])
def test_renamed_call_is_unknown_by_its_old_id(more):
    fold = Fold(started(), append(call("t", "c")), append(call("t", "d")), *more, patch("c", output="o"))
    assert fold.codes == ["LORE205", "LORE204"]


# cleared results


@pytest.mark.parametrize(
    ("fields", "text"), [({"placeholder": "[gone]"}, b'"[gone]"'), ({}, b'"[Old tool result content cleared]"')]
)
def test_cleared_result_becomes_the_placeholder(fields, text):
    fold = Fold(started(), append(call("t", "c", output="long", status="completed")))
    fold.take(event("tool_result_cleared", call_ids=["c", "x", "y"], **fields))
    assert (bytes(fold.item(0).output), causes(fold)) == (text, ["LORE117"])
    assert [change.detail for change in fold.state.main().since] == ["the agent cleared 1 tool result"]
    assert [problem.message for problem in fold.problems] == ["cleared results of 2 unknown tool calls"]


def test_repeated_call_id_counts_once():
    fold = Fold(started(), append(call("t", "c", output="long", status="completed")))
    fold.take(event("tool_result_cleared", call_ids=["c", "c", "x", "x"]))
    assert [change.detail for change in fold.state.main().since] == ["the agent cleared 1 tool result"]
    assert [problem.message for problem in fold.problems] == ["cleared results of 1 unknown tool call"]


def test_clearing_unknown_calls_is_not_noted():
    fold = Fold(started(), event("tool_result_cleared", call_ids=["x"]))
    assert (fold.codes, causes(fold)) == (["LORE204"], [])


# removal


def test_items_after_removed_ones_can_be_patched():
    fold = Fold(started(), *[append(user(f"u{number}")) for number in range(5)], event("turn_started", turn=1))
    fold.take(append(call("t", "c")), append(said("a")), event("remove", uuids=["u1", "u3"]), stream("a", "!"))
    fold.take(patch("c"))
    assert (fold.uuids, causes(fold)) == (["u0", "u2", "u4", "t", "a"], ["LORE143"])
    assert (bytes(fold.item(4).text), fold.item(3).status) == (b'"hi!"', "completed")


def test_only_removal_of_sent_items_is_a_rewind():
    """The removal of an unsent prompt was reported as the cause of the next cache break."""
    fold = Fold(started(), append(user("u")), event("turn_started", turn=1), append(user("v")))
    assert causes(fold.take(event("remove", uuids=["v"]))) == []
    assert causes(fold.take(event("remove", uuids=["u"]))) == ["LORE143"]


def test_removal_of_unknown_items_is_a_problem():
    fold = Fold(started(), append(user("u")), event("remove", uuids=["x"]))
    assert (fold.uuids, fold.codes, causes(fold)) == (["u"], ["LORE204"], [])


def test_older_state_folds_again_to_the_same():
    fold = Fold(started(), append(call("t", "c")))
    again = Fold()
    again.state = fold.state
    for one in (fold, again):
        one.take(append(call("v", "c")), event("remove", uuids=["t"]))
    assert dump_state(again.state) == dump_state(fold.state)


# streamed text


def test_streamed_text_is_joined_once_when_read():
    """Each piece was joined at once: 40,000 of them took 16 seconds."""
    fold = Fold(started(), append(said("a", "")), *[stream("a", "x" * 20)] * 300)
    assert (len(bytes(fold.item(0).text)), len(fold.state.chains["main"].stream.deltas)) == (300 * 20 + 2, 300)


def test_streamed_text_is_joined_before_its_message_moves():
    fold = Fold(started(), append(said("a", "x")), append(said("b", "y")), stream("b", "z"))
    fold.take(event("remove", uuids=["a"]))
    assert (fold.state.chains["main"].stream, bytes(fold.item(0).text)) == (None, b'"yz"')


def test_streams_of_two_messages_reach_both():
    fold = Fold(started(), append(said("a", "")), append(said("b", "")), *[stream(uuid, uuid) for uuid in "abab"])
    assert [bytes(fold.item(place).text) for place in (0, 1)] == [b'"aa"', b'"bb"']


def test_reading_while_text_streams_costs_no_new_index():
    """Reading moved the index to a chain that was thrown away: each event after it built another."""
    fold = Fold(started(), append(said("a", "")), stream("a", "x"))
    index = fold.state.chains["main"].index
    assert bytes(fold.item(0).text) == b'"x"'
    fold.take(stream("a", "y"), event("turn_started", turn=1), append(user("u")))
    assert fold.state.chains["main"].index is index


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_index_follows_every_change_of_the_timeline(data):
    chain = Chain()
    chain.turn = SimpleNamespace(turn=1)  # within one turn calls join their response, in the middle
    for number in range(data.draw(st.integers(1, 40))):
        known = [entry.item.uuid for entry in chain.entries]
        kind = data.draw(st.sampled_from(["user", "call", "said", "remove", "patch"]))
        if kind == "remove":
            removed = data.draw(st.lists(st.sampled_from(known), max_size=4)) if known else ["?"]
            timeline.remove(chain, e.Remove(uuids=tuple(removed)))
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
        timeline.join_stream(chain)
        index, fresh = timeline.index_of(chain), Index(chain.entries)
        assert {uuid: index.place(uuid) for uuid in index.numbers} == fresh.numbers
        assert {name: index.call(name) for name in index.call_numbers} == fresh.call_numbers


def test_earlier_call_is_found_once_repeat_is_removed():
    """A call that was put in the middle hid the earlier call of its id from the index."""
    first, repeated = (ToolCall(uuid, "c", "ls", Raw(b"{}")) for uuid in ("t1", "t2"))
    before = Vector([Entry(first, 0, 1), Entry(UserMessage("u", text=Raw(b'"x"')), 0, 2)])
    index = Index(before)
    index.insert(Vector([before[0], Entry(repeated, 0, 1), before[1]]), 1)
    index.remove([repeated], before)
    assert index.call("c") == 0


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
    fold.take(compact(preserved_uuids=["t1", "x"]))
    assert (fold.uuids, fold.codes) == (["d", "t1"], ["LORE208"])


@pytest.mark.parametrize(("origin", "codes"), [(None, ["LORE208"]), ("claude-code", [])])
def test_removed_open_call_is_problem_in_own_sessions(origin, codes):
    fold = Fold(started(origin=origin), append(user("u1")), append(call("t1", "c1")), compact(preserved_uuids=["u1"]))
    assert (fold.uuids, fold.codes) == (["d", "u1"], codes)
    assert all("'c1'" in problem.message for problem in fold.problems)


def test_only_unknown_preserved_items_prune_nothing(fold):
    """Each such compaction built the timeline again: a log of 1.8 MB with 10,000 of them took minutes."""
    before = fold.state.main().index
    fold.take(compact(preserved_uuids=["x", "y"]), append(user("u3")))
    assert fold.uuids == ["u1", "a1", "u2", "t1", "a2", "d", "u3"]
    assert (fold.codes, "nothing was pruned" in fold.problems[0].message) == (["LORE208"], True)
    assert fold.state.main().index is before


def test_log_that_begins_with_compaction_says_so():
    """ "Keep a session's file whole" was the only advice, for a file that the agent itself had begun so."""
    fold = Fold(started(), compact(preserved_uuids=["x", "y"]), append(user("u3")))
    assert (fold.uuids, fold.codes) == (["d", "u3"], ["LORE208"])
    assert fold.problems[0].message.startswith("nothing precedes the compaction in this log")


def test_divider_records_the_compaction(fold):
    fold.take(compact(trigger="auto", duration_ms=37_000, preserved_uuids=["u2"], pre_tokens=10, post_tokens=3))
    divider = fold.item(0)
    assert (divider.trigger, divider.pruned, divider.duration_ms) == ("auto", 4, 37_000)
    assert (divider.pre_tokens, divider.post_tokens, bytes(divider.summary)) == (10, 3, b'"S"')


def test_second_compaction_prunes_the_first_divider(fold):
    fold.take(compact(preserved_uuids=["a2"]), compact(uuid="e", preserved_uuids=["a2"]))
    assert (fold.uuids, fold.item(0).pruned) == (["e", "a2"], 1)


@pytest.mark.parametrize(("kept", "codes"), [(["t1"], []), ([], ["LORE208", "LORE204"])])
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
