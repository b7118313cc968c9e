"""Claude Code's lines as a graph: preserved segments, copies, parents that are not there, branches, neighbours."""

from __future__ import annotations

import json

import pytest

from formats.claude import answered, asked, counts, folded, joined, line, read, result, text, use
from helpers.fed import fed
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import CompactDivider, OpaqueItem, RawBlock, ToolCall

HISTORY = [
    asked("u1", "look around"),
    answered("a1", "r1", text("I will"), "u1"),
    answered("a2", "r1", use("c1"), "a1"),
    answered("a3", "r1", use("c2"), "a2"),
    asked("u2", [result("c1", "one")], "a2"),
    asked("u3", [result("c2", "two")], "a3"),
    answered("a4", "r2", text("seen"), "u3"),
    asked("u4", "and now?", "a4"),
    answered("a5", "r3", text("this"), "u4"),
]


def boundary(uuid, meta, **fields):
    return line("system", uuid, None, subtype="compact_boundary", compactMetadata={"trigger": "auto", **meta}, **fields)


def summary(uuid, parent, words="summary"):
    return asked(uuid, words, parent, isCompactSummary=True, isVisibleInTranscriptOnly=True)


def segment(head, tail, anchor="s1"):
    return {"preservedSegment": {"headUuid": head, "anchorUuid": anchor, "tailUuid": tail}}


# what a compaction kept


def test_a_segment_keeps_the_path_from_its_tail_to_its_head():
    fold = folded(*HISTORY, boundary("b1", segment("u4", "a5")), summary("s1", "b1"))
    assert (fold.uuids, fold.codes) == (["b1", "u4", "a5"], [])


def test_a_segment_keeps_the_parallel_calls_that_hang_beside_its_path():
    """A walk along single parents lost the siblings of a response."""
    fold = folded(*HISTORY, boundary("b1", segment("a1", "a5")), summary("s1", "b1"))
    assert fold.uuids == ["b1", "a1", "a2", "a3", "a4", "u4", "a5"]
    assert bytes(fold.item(2).output) == b'"one"'


def test_a_segment_keeps_a_call_that_no_path_leads_to():
    """Two calls of one response hang off the same line: a path of parents has only one of them."""
    lines = [
        asked("u1", "x"),
        answered("a1", "r1", use("c1"), "u1"),
        answered("a2", "r1", use("c2"), "u1"),
        asked("u2", [result("c1")], "a1"),
        asked("u3", [result("c2")], "a2"),
        answered("a3", "r2", text("done"), "u3"),
    ]
    fold = folded(*lines, boundary("b1", segment("a2", "a3")), summary("s1", "b1"))
    assert (fold.uuids, fold.codes) == (["b1", "a1", "a2", "a3"], [])


@pytest.mark.parametrize("anchor", ["s1", "b1"])
@pytest.mark.parametrize("parent", ["s1", "a5"])
def test_later_lines_may_hang_off_the_summary_or_the_kept_end_whatever_the_anchor(anchor, parent):
    fold = folded(
        *HISTORY, boundary("b1", segment("u4", "a5", anchor)), summary("s1", "b1"), asked("u5", "go on", parent)
    )
    assert (fold.uuids, fold.codes) == (["b1", "u4", "a5", "u5"], [])


@pytest.mark.parametrize(
    "meta",
    [
        {"preservedMessages": {"anchorUuid": "s1", "uuids": ["a5"]}, **segment("a1", "a5")},
        {"preservedMessages": {"anchorUuid": "s1", "uuids": ["a5"], "allUuids": ["a5", "hook"]}},
    ],
)
def test_a_list_of_messages_supersedes_a_segment(meta):
    assert folded(*HISTORY, boundary("b1", meta), summary("s1", "b1")).uuids == ["b1", "a5"]


def test_an_empty_list_of_messages_keeps_none():
    meta = {"preservedMessages": {"uuids": []}, **segment("u4", "a5")}
    fold = folded(*HISTORY, boundary("b1", meta), summary("s1", "b1"))
    assert (fold.uuids, fold.codes) == (["b1"], [])


@pytest.mark.parametrize("messages", [{"anchorUuid": "s1"}, {"uuids": None}])
def test_a_list_of_messages_that_names_none_leaves_the_word_to_the_segment(messages):
    """An object without `uuids` was taken for an empty list, and all was pruned in silence."""
    fold = folded(*HISTORY, boundary("b1", {"preservedMessages": messages, **segment("u4", "a5")}), summary("s1", "b1"))
    assert (fold.uuids, fold.codes) == (["b1", "u4", "a5"], [])


@pytest.mark.parametrize("meta", [{"preservedMessages": {"uuids": ["s1", "u5"]}}, segment("s1", "u5")])
def test_a_summary_that_the_next_compaction_keeps_stays_as_its_divider(meta):
    """The summary's line was taken for one that makes no item, and what it said was pruned in silence."""
    fold = folded(
        *HISTORY,
        boundary("b1", {}),
        summary("s1", "b1", "first"),
        asked("u5", "more", "s1"),
        boundary("b2", meta),
        summary("s2", "b2", "second"),
    )
    assert (fold.uuids, fold.codes) == (["b2", "b1", "u5"], [])
    assert bytes(fold.item(1).summary) == b'"first"'


@pytest.mark.parametrize("ends", [("u4", "nowhere"), ("nowhere", "a5"), ("a5", "u4"), (None, "a5"), ("u4", None)])
def test_a_walk_that_does_not_reach_its_head_prunes_nothing_and_says_so(ends):
    fold = folded(*HISTORY, boundary("b1", segment(*ends)), summary("s1", "b1"))
    assert fold.uuids == ["u1", "a1", "a2", "a3", "a4", "u4", "a5", "b1"]
    assert fold.codes == ["LORE208"]
    assert str(ends[0]) in fold.problems[0].message
    assert "nothing was pruned" in fold.problems[0].message


def test_what_a_broken_walk_left_can_still_be_kept_by_the_next_compaction():
    fold = folded(
        *HISTORY,
        boundary("b1", segment("nowhere", "a5")),
        summary("s1", "b1"),
        boundary("b2", {"preservedMessages": {"uuids": ["a5"]}}),
        summary("s2", "b2"),
    )
    assert (fold.uuids, fold.codes) == (["b2", "a5"], ["LORE208"])


def test_parents_in_a_ring_end_the_walk():
    ring = [asked("x1", "one", "x3"), asked("x2", "two", "x1"), asked("x3", "three", "x2"), asked("x4", "four", "x4")]
    fold = folded(*ring, boundary("b1", segment("u0", "x2")), summary("s1", "b1"))
    assert fold.codes == ["LORE208"]
    kept = folded(*ring, boundary("b1", segment("x4", "x4")), summary("s1", "b1"))
    assert (kept.uuids, kept.codes) == (["b1", "x4"], [])


def test_the_segment_of_an_older_boundary_is_stale_when_the_newest_has_none():
    fold = folded(
        *HISTORY,
        boundary("b1", segment("u4", "a5")),
        summary("s1", "b1"),
        asked("u5", "more", "a5"),
        boundary("b2", {}),
        summary("s2", "b2", "second"),
        asked("u6", "on", "s2"),
    )
    assert fold.uuids == ["b2", "u6"]
    assert bytes(fold.item(0).summary) == b'"second"'


def test_several_compactions_may_each_keep_what_the_one_before_kept():
    fold = folded(
        *HISTORY,
        boundary("b1", {"preservedMessages": {"uuids": ["u4", "a5"]}}),
        summary("s1", "b1"),
        asked("u5", "more", "a5"),
        boundary("b2", {"preservedMessages": {"uuids": ["a5", "u5"]}}),
        summary("s2", "b2"),
    )
    assert (fold.uuids, fold.codes) == (["b2", "a5", "u5"], [])


def test_a_kept_result_keeps_its_call():
    meta = {"preservedMessages": {"uuids": ["u3", "a4"]}}
    fold = folded(*HISTORY, boundary("b1", meta), summary("s1", "b1"))
    assert (fold.uuids, fold.codes) == (["b1", "a3", "a4"], [])
    assert isinstance(fold.item(1), ToolCall)


def test_a_fork_that_begins_at_a_boundary_says_that_what_was_kept_is_not_there():
    meta = {"preservedMessages": {"uuids": ["p1", "p2"]}}
    fold = folded(boundary("b1", meta, logicalParentUuid="p2"), summary("s1", "b1"), asked("u1", "on", "p2"))
    assert (fold.uuids, sorted(fold.codes)) == (["b1", "u1"], ["LORE206", "LORE208"])


@pytest.mark.parametrize("spelled", ["preserved_messages", "preserved_segment"])
def test_metadata_in_snake_case_is_the_same(spelled):
    """The live stream writes compact_metadata, pre_tokens, preserved_segment.head_uuid."""
    kept = {"preserved_messages": {"uuids": ["u4", "a5"]}, "preserved_segment": {"head_uuid": "u4", "tail_uuid": "a5"}}
    meta = {"trigger": "manual", "pre_tokens": 900, "post_tokens": 90, spelled: kept[spelled]}
    one = {"type": "system", "subtype": "compact_boundary", "session_id": "s", "uuid": "b1", "parent_uuid": None,
           "is_sidechain": False, "compact_metadata": meta}  # fmt: skip
    two = {"type": "user", "session_id": "s", "uuid": "s1", "parent_uuid": "b1", "is_compact_summary": True,
           "message": {"role": "user", "content": "summary"}}  # fmt: skip
    fold = folded(*HISTORY, one, two)
    divider = fold.item(0)
    assert isinstance(divider, CompactDivider)
    assert (divider.pre_tokens, divider.post_tokens, divider.trigger) == (900, 90, "manual")
    assert (bytes(divider.summary), fold.uuids, fold.codes) == (b'"summary"', ["b1", "u4", "a5"], [])


def test_lines_between_a_boundary_and_its_summary_do_not_part_them():
    """A hook's line came between the two, and the summary was taken for a prompt."""
    fold = folded(
        *HISTORY,
        boundary("b1", {}),
        line("system", "h1", "b1", subtype="stop_hook_summary", hookCount=1),
        line("attachment", "t1", "b1", attachment={"type": "compact_file_reference"}),
        summary("s1", "b1"),
        asked("u5", "go on", "s1"),
    )
    assert (fold.uuids, bytes(fold.item(0).summary)) == (["b1", "t1", "u5"], b'"summary"')


@pytest.mark.parametrize("meta", [{"preTokens": "many"}, {"preservedMessages": {"uuids": [5]}}, {"trigger": 7}])
def test_a_boundary_of_the_wrong_types_is_opaque_and_changes_nothing(meta):
    fold = folded(*HISTORY, boundary("b1", meta))
    assert (fold.codes, len(fold.uuids), fold.state.opaque) == (["LORE207"], 7, 1)


def test_nulls_in_metadata_are_what_is_not_said():
    """A trigger of null made the whole boundary opaque."""
    meta = {"trigger": None, "preTokens": None, "postTokens": None, "preservedMessages": None, "preservedSegment": None}
    fold = folded(*HISTORY, boundary("b1", meta), summary("s1", "b1"))
    assert (fold.uuids, fold.codes, fold.item(0).trigger) == (["b1"], [], "manual")


def test_cleared_results_in_snake_case_are_cleared():
    one = {"type": "system", "subtype": "microcompact_boundary", "session_id": "s", "uuid": "m", "parent_uuid": None,
           "microcompact_metadata": {"trigger": "auto", "pre_tokens": 9, "compacted_tool_ids": ["c1"]}}  # fmt: skip
    fold = folded(*HISTORY, one)
    assert b"cleared" in bytes(fold.item(2).output)


# copies


def test_history_that_is_written_again_after_a_compaction_does_not_come_back():
    """A second /compact appended history again, under the same uuids: it grew with every compaction."""
    again = [one for one in HISTORY if one["uuid"] in ("u1", "a1", "a4")]
    fold = folded(*HISTORY, boundary("b1", {}), summary("s1", "b1"), *again, asked("u5", "go on", "s1"))
    assert fold.uuids == ["b1", "u5"]
    assert fold.codes == ["LORE205"] * 3
    assert fold.state.main().turns == 3


def test_a_line_that_comes_twice_has_its_first_place_and_its_last_content():
    fold = folded(*HISTORY[:2], asked("u1", "look there"))
    assert (fold.uuids, bytes(fold.item(0).text), fold.codes) == (["u1", "a1"], b'"look there"', ["LORE205"])


# parents


def test_a_parent_that_comes_later_in_the_file_is_no_problem():
    """Order is the file's: a child may be written before its parent."""
    assert (
        folded(asked("u1", "x"), answered("a1", "r1", text("1"), "a0"), answered("a0", "r1", text("0"), "u1")).codes
        == []
    )


def test_every_line_with_a_missing_parent_is_counted_at_its_place():
    values = read(asked("u1", "x", "gone"), answered("a1", "r1", text("1"), "u1"), asked("u2", "y", "gone"))
    missing = [value for value in values if isinstance(value, Problem)]
    assert [(one.code, one.line) for one in missing] == [("LORE206", 1), ("LORE206", 3)]


def test_a_branch_that_hangs_off_a_progress_line_is_taken_back_with_its_prompt():
    """Lines of progress are no items, and may be parents: what hung off them stayed."""
    fold = folded(
        asked("u1", "x"),
        answered("a1", "r1", text("1"), "u1"),
        asked("u2", "first try", "a1"),
        {"type": "progress", "uuid": "p1", "parentUuid": "u2", "sessionId": "s", "data": {"type": "hook_progress"}},
        answered("a2", "r2", use("c1"), "p1"),
        asked("u3", [result("c1")], "a2"),
        asked("u4", "second try", "a1"),
    )
    assert (fold.uuids, fold.codes) == (["u1", "a1", "u4"], [])


def test_what_does_not_descend_from_a_prompt_stays_when_it_is_taken_back():
    fold = folded(
        asked("u1", "x"),
        asked("u2", "first try", "u1"),
        line("attachment", "t1", "u1", attachment={"type": "date_change"}),
        asked("u4", "second try", "u1"),
    )
    assert fold.uuids == ["u1", "t1", "u4"]


def test_texts_beside_parallel_results_are_no_rewind():
    """Two results under one parent, each with a text: the second took the first and its call back."""
    fold = folded(
        *HISTORY[:4],
        asked("u2", [result("c1", "one"), text("n1")], "a3"),
        asked("u3", [result("c2", "two"), text("n2")], "a3"),
        answered("a4", "r2", text("seen"), "a3"),
    )
    assert (fold.uuids, fold.codes) == (["u1", "a1", "a2", "a3", "u2", "u3", "a4"], [])


@pytest.mark.parametrize("model", ["<synthetic>", "claude-x"])
def test_a_prompt_that_something_else_was_said_in_place_of_is_taken_back(model):
    """A session was left with /exit and resumed before that: the lines of leaving stayed in its prompts."""
    fold = folded(
        *HISTORY[:7],
        asked("x1", "<command-name>/exit</command-name>", "a4"),
        asked("x2", "<local-command-stdout>Bye!</local-command-stdout>", "x1"),
        answered("y1", "r7", text("No response requested."), "a4", model=model),
        asked("u4", "and now?", "y1"),
        answered("a5", "r3", text("this"), "u4"),
    )
    assert (fold.uuids[-4:], fold.codes) == (["a4", "y1", "u4", "a5"], [])


def test_a_branch_that_was_left_and_is_gone_on_with_is_told():
    """What a rewind took back does not return, and the prompts that lacked it were said to be whole."""
    fold = folded(*HISTORY, asked("u5", "rather this", "a4"), asked("u6", "back again", "a5"))
    assert (fold.uuids[-2:], fold.codes) == (["u5", "u6"], ["LORE206"])
    assert "'a5' was taken back" in fold.problems[0].message


# neighbours


def test_calls_of_one_response_stay_together_when_attachments_come_between_their_results():
    fold = folded(
        asked("u1", "x"),
        answered("a1", "r1", use("c1"), "u1"),
        asked("u2", [result("c1")], "a1"),
        line("attachment", "t1", "u2", attachment={"type": "hook_success"}),
        answered("a2", "r1", use("c2"), "a1"),
        asked("u3", [result("c2")], "a2"),
        answered("a3", "r2", text("done"), "u3"),
    )
    entries = list(fold.state.main().entries)
    assert [entry.item.uuid for entry in entries] == ["u1", "a1", "a2", "t1", "a3"]
    assert entries[1].group == entries[2].group
    assert fold.codes == []


def test_an_answer_is_not_moved_before_what_was_already_sent():
    fold = folded(
        asked("u1", "x"),
        answered("a1", "r1", text("1"), "u1"),
        asked("u2", "y", "a1"),
        answered("a2", "r2", text("2"), "u2"),
        answered("a3", "r1", text("late"), "a1"),
    )
    assert fold.uuids == ["u1", "a1", "u2", "a2", "a3"]


def test_the_clock_orders_nothing():
    """Time stamps of one line in twelve are earlier than that of a line above it."""
    backwards = [{**one, "timestamp": f"2026-01-01T00:00:{59 - n}Z"} for n, one in enumerate(HISTORY)]
    ends = [boundary("b1", segment("u4", "a5"), timestamp="2025-01-01T00:00:00Z"), summary("s1", "b1")]
    assert folded(*backwards, *ends).uuids == folded(*HISTORY, *ends).uuids
    assert folded(*backwards).uuids == ["u1", "a1", "a2", "a3", "a4", "u4", "a5"]


# shapes


@pytest.mark.parametrize("version", ["1.0.24", "2.1.219", "3.0.0-beta", "", None, "absent"])
def test_the_shape_of_a_line_says_what_it_is_and_never_its_version(version):
    log = [*HISTORY, boundary("b1", segment("u4", "a5")), summary("s1", "b1"), asked("u5", "go on", "a5")]
    told = log if version == "absent" else [{**one, "version": version} for one in log]
    assert [read(one) for one in told] == [read(one) for one in log]
    assert (folded(*told).uuids, folded(*told).codes) == (["b1", "u4", "a5", "u5"], [])


def test_what_versions_to_come_say_of_a_call_does_not_make_it_another():
    call = {**use("c1"), "caller": {"type": "direct"}, "novel": [1]}
    fold = folded(asked("u1", "x"), answered("a1", "r1", call, "u1"), asked("u2", [result("c1", "ok", novel=2)], "a1"))
    assert isinstance(fold.item(1), ToolCall)
    assert (bytes(fold.item(1).output), fold.codes) == (b'"ok"', [])


def test_a_fallback_block_and_reasoning_without_text_are_kept():
    fallback = {"type": "fallback", "from": "m-1", "to": "m-2"}
    fold = folded(
        asked("u1", "x"),
        answered("a1", "r1", {"type": "thinking", "thinking": "", "signature": "sig"}, "u1"),
        answered("a2", "r1", fallback, "a1"),
    )
    (block,) = fold.item(2).blocks
    assert isinstance(block, RawBlock)
    assert json.loads(bytes(block.json)) == fallback


def test_attachments_are_carried_with_their_type():
    fold = folded(asked("u1", "x"), line("attachment", "t1", "u1", attachment={"type": "nested_memory", "path": "a"}))
    item = fold.item(1)
    assert isinstance(item, OpaqueItem)
    assert json.loads(bytes(item.record))["attachment"]["type"] == "nested_memory"


def test_embedded_messages_of_progress_and_queued_prompts_are_never_requests():
    embedded = {"type": "assistant", "message": {"id": "r9", "model": "m", "content": [], "usage": counts(9, 9, 9, 9)}}
    values = read(
        asked("u1", "x"),
        {"type": "progress", "uuid": "p1", "parentUuid": "u1", "sessionId": "s", "isSidechain": True,
         "data": {"type": "agent_progress", "agentId": "a7", "message": embedded}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "content": "later"},
        answered("a1", "r1", text("1"), "u1", usage=counts(1, 2, 3, 4)),
    )  # fmt: skip
    assert [value.response_id for value in values if isinstance(value, e.TurnCompleted)] == ["r1"]
    assert {value.chain for value in values} == {"main"}


def test_an_agent_that_calls_itself_main_is_not_the_main_chain():
    task = {**asked("s1", "task"), "isSidechain": True, "agentId": "main"}
    assert list(folded(asked("u1", "x"), task).state.chains) == ["main", "agent-main"]


def test_a_slice_that_begins_in_the_middle_is_read_in_the_order_of_its_lines():
    fold = folded(asked("u2", [result("c0")], "a0"), answered("a4", "r2", text("seen"), "u2"), *HISTORY[7:])
    assert fold.uuids == ["a4", "u4", "a5"]
    assert sorted(fold.codes) == ["LORE204", "LORE206"]


@pytest.mark.parametrize("head", ["a0", "nowhere"])
def test_many_compactions_that_name_one_long_path_cost_what_the_file_does(head):
    """Each walked the whole path anew: a log of 6 MB took minutes."""
    lines = [answered(f"a{n}", f"m{n}", text("x"), f"a{n - 1}" if n else None) for n in range(300)]
    meta = {"trigger": "auto", "preservedSegment": {"headUuid": head, "anchorUuid": "x", "tailUuid": "a299"}}
    bounds = [line("system", f"c{n}", subtype="compact_boundary", compactMetadata=meta) for n in range(300)]
    reader = ClaudeCode()
    fed(reader, joined(*lines, *bounds))
    assert reader._graph.walked < 20 * 600
