"""Claude Code's logs: responses over several lines, chains, compactions, rewinds, odd lines."""

from __future__ import annotations

import json

import pytest

from formats.claude import answered, asked, counts, folded, joined, line, read, result, text, use
from lore.formats.claude.reader import ClaudeCode
from lore.judge.policy import Budgets
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import CompactDivider, OpaqueItem, RawBlock, TextBlock, ThinkingBlock, ToolCall, UserMessage
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.testing import ReaderContract

PLAIN = [
    asked("u1", "list the files"),
    answered("a1", "r1", {"type": "thinking", "thinking": "", "signature": "sig"}, "u1", usage=counts(3, 100, 50, 1)),
    answered("a2", "r1", use("c1"), "a1", usage=counts(3, 100, 50, 1)),
    asked("u2", [result("c1", "a.py")], "a2"),
    answered("a3", "r1", use("c2"), "a2", usage=counts(3, 100, 50, 77)),
    asked("u3", [result("c2", [text("b.py")], is_error=True)], "a3"),
    answered("a4", "r2", text("two files"), "u3", usage=counts(1, 150, 20, 9)),
]
COMPACTED = [
    *PLAIN,
    line("system", "b1", None, subtype="compact_boundary", logicalParentUuid="a4", content="Conversation compacted",
         compactMetadata={"trigger": "auto", "preTokens": 900}),
    asked("u4", "This session is being continued", "b1", isCompactSummary=True, isVisibleInTranscriptOnly=True),
    asked("u5", "go on", "u4"),
    answered("a5", "r3", text("ok"), "u5", usage=counts(1, 0, 60, 2)),
]  # fmt: skip


class TestContract(ReaderContract):
    """The suite that every reader passes."""

    reader = ClaudeCode
    samples = (joined(*PLAIN), joined(*COMPACTED)[:-1], b"\xef\xbb\xbf" + joined(*PLAIN).replace(b"\n", b"\r\n"))


def turns(values):
    return [value for value in values if isinstance(value, e.TurnCompleted)]


# responses


def test_a_response_over_several_lines_that_are_not_neighbours_is_one_turn():
    assert [(one.turn, one.chain) for one in turns(read(*PLAIN))] == [(1, "main"), (2, "main")]


def test_usage_is_taken_once_from_the_last_line_of_a_response():
    first = turns(read(*PLAIN))[0].usage
    assert first == e.Usage(3, 100, 50, 77)


def test_the_lifetimes_of_writes_are_read():
    usage = {**counts(1, 2, 3, 4), "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 3}}
    billed = turns(read(asked("u", "x"), answered("a", "r", text("y"), "u", usage=usage)))[0].usage
    assert (billed.write_5m_tokens, billed.write_1h_tokens) == (0, 3)


def test_all_blocks_of_a_response_are_one_group_in_the_timeline():
    fold = folded(*PLAIN)
    entries = list(fold.state.main().entries)
    assert [entry.item.uuid for entry in entries] == ["u1", "a1", "a2", "a3", "a4"]
    assert len({entry.group for entry in entries[1:4]}) == 1
    assert fold.problems == []


def test_results_reach_their_calls():
    first, second = (folded(*PLAIN).item(n) for n in (2, 3))
    assert (first.status, bytes(first.output)) == ("completed", b'"a.py"')
    assert (second.status, json.loads(bytes(second.output))) == ("failed", [{"type": "text", "text": "b.py"}])


def test_a_turn_is_asked_when_its_user_spoke_and_answered_at_its_first_line():
    values = read(
        asked("u", "x", timestamp="2026-01-01T00:00:00Z"),
        answered("a", "r", text("1"), "u", timestamp="2026-01-01T00:00:05Z"),
        answered("b", "r", text("2"), "a", timestamp="2026-01-01T00:00:09Z"),
    )
    opened = next(value for value in values if isinstance(value, e.TurnStarted))
    assert (opened.at, turns(values)[0].at) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z")


def test_a_bill_that_came_late_is_its_turns_last_word_and_summed_once():
    lines = (
        asked("u", "x"),
        answered("a", "r1", use("c1"), "u", usage=counts(1, 1, 1, 1)),
        answered("b", "r2", text("2"), "a", usage=counts(2, 2, 2, 2)),
        answered("c", "r1", use("c2"), "a", usage=counts(1, 1, 1, 9)),
    )
    values, fold = read(*lines), folded(*lines)
    assert [one.turn for one in values if isinstance(one, e.TurnStarted)] == [1, 2]
    assert {one.turn: one.usage.output_tokens for one in turns(values)} == {1: 9, 2: 2}
    totals = fold.state.main().totals
    assert (totals.turns, totals.uncached_tokens, totals.output_tokens) == (2, 3, 11)
    assert fold.problems == []


def test_a_response_without_an_id_is_a_turn_by_its_line():
    assert len(turns(read(asked("u", "x"), answered("a", None, "plain text", "u")))) == 1


def test_synthetic_lines_are_shown_and_never_a_request():
    values = read(
        asked("u", "x"), answered("a", "r", text("API Error"), "u", model="<synthetic>", usage=counts(0, 0, 0, 0))
    )
    assert turns(values) == []
    assert isinstance(values[-1].item, OpaqueItem)


def test_another_model_is_a_changed_session():
    fold = folded(
        asked("u", "x"),
        answered("a", "r1", text("1"), "u", model="m-1"),
        asked("v", "y", "a"),
        answered("b", "r2", text("2"), "v", model="m-2"),
    )
    turn = fold.state.main().turn
    assert [one.cause for one in turn.since] == ["LORE119"]


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ({"type": "system_changed", "cache_missed_input_tokens": 7}, e.Verdict("system_changed", 7, "diagnostics")),
        ("tools_changed", e.Verdict("tools_changed", None, "diagnostics")),
        ({}, None),
        ("", None),
        (None, None),
    ],
)
def test_the_providers_verdict_is_read(reason, verdict):
    diagnosed = {"diagnostics": {"cache_miss_reason": reason}}
    values = read(asked("u", "x"), answered("a", "r", text("y"), "u", message=diagnosed))
    assert turns(values)[0].verdict == verdict


# content


def test_images_thinking_and_blocks_to_come_are_kept():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}
    cited = {"type": "text", "text": "t", "citations": [1]}
    fold = folded(asked("u", [image, linked, cited, {"type": "novel", "x": 1.0}]))
    blocks = fold.item(0).blocks
    assert (blocks[0].media_type, bytes(blocks[0].data)) == ("image/png", b'"AAAA"')
    assert [type(block) for block in blocks[1:]] == [RawBlock] * 3
    assert json.loads(bytes(blocks[3].json)) == {"type": "novel", "x": 1.0}


def test_thinking_keeps_its_signature_also_where_it_is_empty():
    block = folded(*PLAIN).item(1).blocks[0]
    assert block == ThinkingBlock(block.text, "sig")


def test_a_tool_reference_in_a_result_is_kept_verbatim():
    reference = {"type": "tool_reference", "tool_name": "Read"}
    fold = folded(asked("u", "x"), answered("a", "r", use("c"), "u"), asked("v", [result("c", [reference])], "a"))
    assert json.loads(bytes(fold.item(1).output)) == [{"type": "raw", "json": reference}]


@pytest.mark.parametrize(
    ("content", "output"), [(None, ""), ("", ""), ({"odd": 1}, [{"type": "raw", "json": {"odd": 1}}])]
)
def test_odd_contents_of_results_are_kept(content, output):
    fold = folded(asked("u", "x"), answered("a", "r", use("c"), "u"), asked("v", [result("c", content)], "a"))
    assert json.loads(bytes(fold.item(1).output)) == output


def test_text_beside_a_result_is_a_message_of_its_own_after_it():
    fold = folded(asked("u", "x"), answered("a", "r", use("c"), "u"), asked("v", [result("c"), text("and this")], "a"))
    assert isinstance(fold.item(2), UserMessage)
    assert [type(block) for block in fold.item(2).blocks] == [TextBlock]


def test_meta_lines_are_context_that_was_put_in():
    assert folded(asked("u", "caveat", isMeta=True)).item(0).source == "context_injection"


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ({"kind": "task-notification"}, "tick"),
        ({"kind": "human"}, "user"),
        ({"kind": "something else"}, "user"),
        ({"kind": 7}, "user"),
        ({}, "user"),
        ("task-notification", "user"),
        (None, "user"),
    ],
)
def test_what_the_harness_notes_as_its_own_is_no_word_of_a_person(origin, source):
    """News of background tasks counted as user exchanges, so a policy compacted while nobody had spoken."""
    assert folded(asked("u", "<task-notification>", origin=origin)).item(0).source == source


def test_lines_that_only_the_transcript_shows_are_left_out():
    assert folded(asked("u", "shown", isVisibleInTranscriptOnly=True)).uuids == []


# sidechains


def side(one, **fields):
    return {**one, "isSidechain": True, **fields}


def test_a_sidechain_with_an_agent_id_is_a_chain_of_that_name():
    fold = folded(
        asked("u", "x"),
        side(asked("s1", "task"), agentId="agent-7"),
        side(answered("s2", "q", text("done"), "s1", usage=counts(1, 2, 3, 4)), agentId="agent-7"),
        answered("a", "r", text("y"), "u", usage=counts(1, 2, 3, 4)),
    )
    assert {name: (chain.kind, chain.turns, len(chain.entries)) for name, chain in fold.state.chains.items()} == {
        "main": ("main", 1, 2),
        "agent-7": ("subagent", 1, 2),
    }


def test_inline_sidechains_are_told_apart_by_their_roots():
    fold = folded(
        asked("u", "x"),
        side(asked("s1", "task one")),
        side(asked("t1", "task two")),
        side(answered("s2", "q1", text("1"), "s1")),
        side(answered("t2", "q2", text("2"), "t1")),
    )
    chains = {name: [entry.item.uuid for entry in chain.entries] for name, chain in fold.state.chains.items()}
    assert chains == {"main": ["u"], "sidechain-1": ["s1", "s2"], "sidechain-2": ["t1", "t2"]}


def test_a_subagents_own_file_has_its_chain_alone():
    fold = folded(side(asked("s1", "task"), agentId="a7"), side(answered("s2", "q", text("1"), "s1"), agentId="a7"))
    assert list(fold.state.chains) == ["a7"]
    assert fold.uuids == ["s1", "s2"]


# compaction


def test_a_boundary_and_its_summary_are_one_compaction():
    fold = folded(*COMPACTED)
    divider = fold.item(0)
    assert isinstance(divider, CompactDivider)
    assert (divider.uuid, divider.trigger, divider.pre_tokens, divider.pruned) == ("b1", "auto", 900, 5)
    assert bytes(divider.summary) == b'"This session is being continued"'
    assert fold.uuids == ["b1", "u5", "a5"]
    assert fold.problems == []


def test_the_turn_after_a_compaction_is_entitled_to_differ():
    turn = folded(*COMPACTED).state.main().turn
    assert [one.cause for one in turn.since] == ["LORE125"]


def test_a_summary_in_blocks_is_read_as_its_text():
    boundary = line("system", "b", None, subtype="compact_boundary", compactMetadata={"trigger": "manual"})
    fold = folded(asked("u", "x"), boundary, asked("v", [text("one"), text("two")], "b", isCompactSummary=True))
    assert bytes(fold.item(0).summary) == b'"one\\n\\ntwo"'


def test_a_summary_in_blocks_may_hold_lone_surrogates():
    boundary = line("system", "b", None, subtype="compact_boundary", compactMetadata={"trigger": "manual"})
    summary = json.dumps(asked("v", [text("cut \ud83d")], "b", isCompactSummary=True)).encode() + b"\n"
    fold = folded(asked("u", "x"), boundary, summary)
    assert (bytes(fold.item(0).summary), fold.codes) == (b'"cut \\ud83d"', [])


def test_a_boundary_without_a_summary_is_still_a_compaction():
    boundary = line(
        "system", "b", None, subtype="compact_boundary", compactMetadata={"trigger": "manual", "preTokens": 9}
    )
    assert folded(asked("u", "x"), boundary).uuids == ["b"]
    assert folded(asked("u", "x"), boundary, asked("v", "y", "b")).uuids == ["b", "v"]


def test_preserved_lines_that_make_no_item_are_no_problem():
    meta = {"trigger": "auto", "preservedMessages": {"uuids": ["n", "a4"]}}
    noise = line("system", "n", "a4", subtype="turn_duration", durationMs=3)
    boundary = line("system", "b", None, subtype="compact_boundary", compactMetadata=meta)
    assert folded(*PLAIN, noise, boundary, asked("v", "s", "b", isCompactSummary=True)).problems == []


def test_a_microcompaction_clears_the_results_that_it_names():
    meta = {"trigger": "auto", "preTokens": 9, "tokensSaved": 3, "compactedToolIds": ["c1"]}
    fold = folded(*PLAIN, line("system", "m", "a4", subtype="microcompact_boundary", microcompactMetadata=meta))
    assert b"cleared" in bytes(fold.item(2).output)
    assert bytes(fold.item(3).output) != bytes(fold.item(2).output)


def test_a_microcompaction_that_names_nothing_changes_nothing():
    meta = {"trigger": "auto", "compactedToolIds": []}
    fold = folded(*PLAIN, line("system", "m", "a4", subtype="microcompact_boundary", microcompactMetadata=meta))
    assert fold.state.main().since == ()


# rewinds


def test_a_second_prompt_under_one_parent_takes_the_first_branch_back():
    fold = folded(
        asked("u1", "x"),
        answered("a1", "r1", text("1"), "u1"),
        asked("u2", "first try", "a1"),
        answered("a2", "r2", text("2"), "u2"),
        asked("u3", "second try", "a1"),
        answered("a3", "r3", text("3"), "u3"),
    )
    assert (fold.uuids, fold.state.main().turns) == (["u1", "a1", "u3", "a3"], 3)
    assert [one.cause for one in fold.state.main().turn.since] == ["LORE143"]


def test_a_meta_line_under_the_same_parent_is_no_rewind():
    fold = folded(
        asked("u1", "x"),
        answered("a1", "r", text("1"), "u1"),
        asked("m", "c", "a1", isMeta=True),
        asked("u2", "y", "a1"),
    )
    assert fold.uuids == ["u1", "a1", "m", "u2"]


# damage


def test_unknown_types_are_opaque_and_counted():
    fold = folded(asked("u", "x"), line("novelty", "n", "u", payload=1))
    assert (fold.codes, fold.state.opaque, fold.uuids) == (["LORE203"], 1, ["u"])


def test_known_metadata_is_passed_over():
    assert folded(asked("u", "x"), {"type": "summary", "summary": "s", "leafUuid": "u"}).problems == []


@pytest.mark.parametrize(
    "odd",
    [{"nothing": 1, "sessionId": "s"}, {"type": 3}, asked("u", 5) | {"message": {"content": 5, "model": 7}}],
)
def test_records_of_the_wrong_shape_are_opaque(odd):
    fold = folded(asked("u0", "x"), odd)
    assert (fold.codes, fold.state.opaque) == (["LORE207"], 1)


def test_lone_surrogates_are_kept_as_they_were_spelled():
    data = json.dumps(asked("u", "cut \ud83d")).encode() + b"\n"
    data += json.dumps(answered("a", "r", text("also \ud83d"), "u")).encode() + b"\n"
    fold = folded(data)
    assert bytes(fold.item(0).text) == b'"cut \\ud83d"'
    assert bytes(fold.item(1).blocks[0].text) == b'"also \\ud83d"'
    assert fold.problems == []


def test_a_line_without_a_uuid_is_named_by_its_number():
    assert folded(asked("u", "x"), asked(None, "y")).uuids == ["u", "line-2"]


def test_a_call_in_a_response_without_an_id_is_kept_as_a_block():
    fold = folded(asked("u", "x"), answered("a", "r", {"type": "tool_use", "name": "n", "input": {}}, "u"))
    assert isinstance(fold.item(1).blocks[0], RawBlock)


def test_several_blocks_on_one_line_are_items_of_one_response():
    fold = folded(asked("u", "x"), answered("a", "r", text("1"), "u", message={"content": [text("1"), use("c")]}))
    assert fold.uuids == ["u", "a", "a:1"]
    assert isinstance(fold.item(2), ToolCall)


@pytest.mark.parametrize(
    ("head", "known"),
    [
        (joined(line("file-history-snapshot", None, messageId="m", snapshot={})), True),
        (joined({"type": "summary", "summary": "s", "leafUuid": "u"}), True),
        (joined({"type": "user", "message": {}}), False),
        (joined({"type": "novelty", "sessionId": "s"}), False),
        (b"not json\n" + joined(*PLAIN[:1]), True),
        (b"", False),
        (b"{", False),
    ],
)
def test_files_are_recognised_by_content(head, known):
    assert ClaudeCode.recognises(head) is known


def test_a_sidechain_line_without_a_uuid_is_one_chain():
    """The first line of a file was given two names."""
    line = b'{"type":"user","isSidechain":true,"sessionId":"s","message":{"role":"user","content":"x"}}\n'
    reader = ClaudeCode()
    chains = {one.value.chain for one in list(reader.read([line]))}
    assert chains == {"sidechain-1"}


def test_a_record_of_too_many_values_is_passed_over():
    (found,) = ClaudeCode().read([b'{"type":"user","x":[' + b"{}," * 400_000 + b"{}]}\n"])
    assert (found.value.code, found.line) == (Code.CAPTURE_TOO_LARGE, 1)


def forked(*lines):
    copies = [{**one, "sessionId": "f", "forkedFrom": {"sessionId": "s", "messageUuid": one["uuid"]}} for one in lines]
    own = [asked("u8", "another way", "a4"), answered("a8", "r8", text("sure"), "u8", usage=counts(1, 170, 9, 5))]
    return [*copies, *({**one, "sessionId": "f"} for one in own)]


def test_claude_fork_without_its_parent_counts_no_inherited_request(tmp_path):
    (tmp_path / "fork.jsonl").write_bytes(joined(*forked(*PLAIN)))
    summary = check([str(tmp_path)], Budgets(), Options()).result.summary
    assert (summary.turns, summary.copied) == (1, 2)
    (tmp_path / "parent.jsonl").write_bytes(joined(*PLAIN))  # is read after its fork
    summary = check([str(tmp_path)], Budgets(), Options()).result.summary
    assert (summary.turns, summary.copied) == (3, 2)
    assert read(*forked(*PLAIN))[0].parent_session_id == "s"


def title(kind, name, **fields):
    member = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}[kind]
    return {"type": kind, member: name, "sessionId": "s", **fields}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*PLAIN, title("ai-title", "List files"), title("ai-title", "Read files")), "Read files"),
        ((*PLAIN, title("custom-title", "mine"), title("ai-title", "Read files")), "mine"),
        ((title("ai-title", "List files"), *PLAIN), "List files"),
        ((title("summary", "List files", leafUuid="a4"), title("summary", "x", leafUuid="x9"), *PLAIN), "List files"),
        ((title("summary", "of another session", leafUuid="x9"), *PLAIN), None),
        ((*PLAIN, title("ai-title", "List files"), title("summary", "Old", leafUuid="a4")), "List files"),
    ],
)  # fmt: skip
def test_claude_title_is_the_user_s_else_the_model_s(lines, expected):
    assert folded(*lines).state.title == expected


def test_claude_title_that_comes_again_is_one_event():
    made = read(*PLAIN, title("ai-title", "List files"), title("ai-title", "List files"))
    assert sum(isinstance(value, e.SessionChanged) and value.title is not None for value in made) == 1
