"""The reader of pi's sessions: requests, usage, the tree of entries, compactions, prompts."""

from __future__ import annotations

import pytest

from formats.pi import Pages, call, plain, shown, thought
from formats.recorded import folded
from lore.formats.pi.reader import Pi
from lore.formats.registry import recognise
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.items import AssistantMessage, OpaqueItem, RawBlock, ThinkingBlock, ToolCall
from lore.recording.opening import Options
from lore.run.checking.check import check
from lore.testing import ReaderContract, everything


def turns(made):
    """The bills of a session's requests."""
    found = [value for value in made.read() if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    return [end.usage and (end.usage.uncached_tokens, end.usage.read_tokens, end.usage.write_tokens) for end in found]


def names(made):
    """What came of a session, without its items."""
    return [type(value).__name__ for value in made.read()]


def busy() -> Pages:
    """All that happens in one session: branches, compactions, other APIs, what is in no prompt, damage."""
    made = plain().entry("custom", customType="x", data={"a": 1}).entry("label", targetId="00000003", label="l")
    made.entry("custom_message", customType="x", content="noted", display=True)
    made.message("bashExecution", None, command="ls", output="a", exitCode=1, cancelled=False, truncated=False)
    made.message("bashExecution", None, command="id", output="b", exitCode=0, excludeFromContext=True)
    made.user("go on").answer(call("c2"), stopReason="aborted", bill=(0, 0, 0, 0), errorMessage="by hand")
    made.user("again").answer(call("c3"), call("c4"), stopReason="toolUse").result("c3").result("c4", isError=True)
    back = made.leaf
    made.answer("wrong", model="gpt-5.5", api="openai-codex-responses").go(back)
    made.entry("branch_summary", fromId="x", summary="tried").user("other").answer("right")
    made.entry("thinking_level_change", thinkingLevel="high")
    made.entry("compaction", summary="so far", firstKeptEntryId=back, tokensBefore=9_000)
    made.user("on").answer(thought(signature='{"id":"rs_1","type":"reasoning","encrypted_content":"x"}'), "yes")
    made.go("00000003").user("before it").answer("back").entry("session_info", name="n").entry("hologram", x=1)
    tail = [
        {"role": "user", "content": "kept"},
        {"role": "assistant", "content": [call("c9")], "stopReason": "toolUse"},
    ]
    tail.append(
        {"role": "toolResult", "toolCallId": "c9", "content": [{"type": "image", "data": "aa", "mimeType": "i"}]}
    )
    made.entry("compaction", summary="all", retainedTail=tail, tokensBefore=1).user("ä \ud83d").answer("end")
    return made.entry("reset_boundary").user("anew").answer("end", stopReason="error", bill=(1, 2, 3, 4))


class TestContract(ReaderContract):
    reader = Pi
    samples = (
        plain().data(),
        plain(1).data(),
        busy().data(),
        busy().data()[:-1],
        busy().data().replace(b"\n", b"\r\n"),
    )


def test_session_is_recognised_by_its_header():
    assert recognise(plain().data()) is recognise(plain(1).data()) is Pi
    assert recognise(b'{"type":"title","title":"t"}\n' + busy().data()) is Pi
    assert recognise(b'{"type":"session","id":1,"cwd":"/"}\n') is not Pi
    assert recognise(b'{"type":"session.start","data":{}}\n') is not Pi


def test_log_without_its_first_line_is_recognised():
    headless = plain().data().split(b"\n", 1)[1]
    assert recognise(headless) is Pi
    assert recognise(plain(1).data().split(b"\n", 1)[1]) is not Pi  # entries of version 1 have no ids


def test_unknown_entry_that_comes_again_keeps_its_record():
    made = Pages().user("go").entry("hologram", x=1)
    back = made.leaf
    made.user("left").go(back).user("right").go(made.lines[1]["id"]).user("first again").go(back).user("right again")
    kept = [value.item for value in made.read() if isinstance(value, e.Append) and isinstance(value.item, OpaqueItem)]
    assert [b"hologram" in bytes(item.record) for item in kept] == [True, True]


def test_title_of_session_is_read():
    made = Pages(title="first").user("go").entry("session_info", name="tidy up").entry("title_change", title="tidy up")
    values = [value for value in made.read() if isinstance(value, e.SessionStarted | e.SessionChanged)]
    assert [value.title for value in values] == ["first", "tidy up"]
    slot = b'{"type":"title","v":1,"title":"last"}\n' + Pages(title="first").user("go").data()
    assert everything(Pi(), slot)[0].value.title == "last"


def test_cost_of_response_is_recorded():
    made = plain().answer("free", usage={"input": 5, "output": 1, "cost": {"total": 0}})
    made.answer("odd", usage={"input": 5, "output": 1, "cost": "much"})
    bills = [value.usage for value in made.read() if isinstance(value, e.TurnCompleted)]
    assert [bill.recorded_dollars for bill in bills] == [0.1, 0.1, None, None]


def test_session_names_parent_by_path_or_id():
    path = "/h/.pi/agent/sessions/--w--/2026-04-08T07-00-00-000Z_019dc75a-7dc4-752d-b8f7-b9c759a59c4b.jsonl"
    assert Pages(parentSession=path).read()[0].parent_session_id == "019dc75a-7dc4-752d-b8f7-b9c759a59c4b"
    assert Pages(parentSession="s-0").read()[0].parent_session_id == "s-0"
    assert Pages(1, branchedFrom=path).read()[0].parent_session_id == "019dc75a-7dc4-752d-b8f7-b9c759a59c4b"


def test_copied_requests_of_fork_count_once(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(plain().data())
    (tmp_path / "b.jsonl").write_bytes(plain().user("more").answer("x").data().replace(b'"s-1"', b'"s-2"'))
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (3, 2)


def test_fork_copies_requests_without_response_id_too(tmp_path):
    old = plain().data().replace(b"responseId", b"noId")
    (tmp_path / "a.jsonl").write_bytes(old)
    (tmp_path / "b.jsonl").write_bytes(old.replace(b'"s-1"', b'"s-2"'))
    assert check([str(tmp_path)]).result.summary.copied == 2


def test_aborted_response_has_no_usage_and_no_items():
    made = plain().user("go").answer("part", call("c2"), stopReason="aborted", bill=(0, 0, 0, 0)).result("c2")
    assert turns(made)[2] is None
    assert names(made)[-2:] == ["TurnCanceled", "Observed"]
    assert shown(made)[-1] == ("UserMessage", '"go"')
    assert not made.folded().problems


def test_total_below_its_parts_is_contradiction():
    made = plain()
    made.lines[-1]["message"]["usage"]["totalTokens"] = 4_000
    found = [value.usage for value in made.read() if isinstance(value, e.TurnCompleted)]
    assert found[1] is not None
    assert found[1].contradiction
    assert found[1].uncached_tokens is None


def test_turns_have_dialect_of_their_answer(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(plain().user("go").answer("x", api="openai-codex-responses", model="gpt-5.5").data())
    assert [turn.dialect for turn in Options().open(str(path)).turns()] == [
        "anthropic",
        "anthropic",
        "openai-responses",
    ]


def test_openai_reasoning_item_names_its_type():
    item = '{"id":"rs_1","summary":[],"encrypted_content":"' + "x" * 400 + '","type":"reasoning"}'
    made = Pages().user("a").answer(thought(signature=item), "b").answer(thought(), "c")
    said = [entry.item for entry in made.folded().state.main().entries if isinstance(entry.item, AssistantMessage)]
    reasoning, signed = said[0].blocks[0], said[1].blocks[0]
    assert isinstance(reasoning, RawBlock)
    assert bytes(reasoning.json).startswith(b'{"type":"reasoning","id":"rs_1","summary":[],')
    assert signed == ThinkingBlock(signed.text, "sig")


def test_entry_may_continue_an_abandoned_branch():
    made = plain().user("one").answer("first")
    left = made.leaf
    made.go("00000006").user("two").answer("second").go(left).user("three")
    assert [text for _, text in shown(made)][-4:] == ['"a file"', '"one"', '"first"', '"three"']
    assert len(turns(made)) == 4


def test_branch_from_call_removes_its_result():
    made = plain().go("00000004").user("not that")
    items = made.folded().state.main().entries
    assert [type(entry.item).__name__ for entry in items][-2:] == ["ToolCall", "UserMessage"]
    assert [entry.item.status for entry in items if isinstance(entry.item, ToolCall)] == ["running"]


def test_version_1_compaction_keeps_by_line_index():
    made = plain(1).user("two").answer("b").entry("compaction", summary="so far", firstKeptEntryIndex=7, tokensBefore=9)
    assert [text for _, text in shown(made)] == ["so far", '"two"', '"b"']
    beyond = plain(1).entry("compaction", summary="so far", firstKeptEntryIndex=70, tokensBefore=9)
    assert [text for _, text in shown(beyond)] == ["so far"]


def test_later_compaction_may_keep_pruned_entries():
    made = plain().user("two").entry("compaction", summary="one", firstKeptEntryId="00000007", tokensBefore=9)
    made.user("three").entry("compaction", summary="both", firstKeptEntryId="00000006", tokensBefore=9)
    assert [text for _, text in shown(made)] == ["both", '"a file"', '"two"', '"three"']


@pytest.mark.parametrize("kind", ["compaction", "branch_summary"])
def test_summary_with_usage_is_request_of_its_own(kind):
    usage = {"input": 7, "output": 3, "cacheRead": 90, "cacheWrite": 0, "totalTokens": 100}
    made = plain().user("two").entry(kind, summary="so far", tokensBefore=9, fromId="00000002", usage=usage)
    made.user("three").answer("c").entry(kind, summary="more", usage=dict.fromkeys(usage, 0)).entry(kind, summary="x")
    found = [read.value for read in everything(Pi(), made.data())]
    bills = [value for value in found if isinstance(value, e.TurnCompleted) and value.chain != e.MAIN]
    assert [(end.chain, end.usage.uncached_tokens, end.usage.read_tokens) for end in bills] == [("utility-1", 7, 90)]
    assert bills[0].response_id == f"{made.lines[-5]['id']}:summary"


def test_compaction_may_list_messages_it_keeps():
    tail = [
        {"role": "user", "content": "kept"},
        {"role": "assistant", "content": [call("c9")], "stopReason": "toolUse"},
    ]
    tail.append({"role": "toolResult", "toolCallId": "c9", "content": [{"type": "text", "text": "r"}]})
    made = plain().entry("compaction", summary="all", retainedTail=tail, tokensBefore=9).user("on")
    assert [text for _, text in shown(made)] == ["all", '"kept"', '"r"', '"on"']
    assert len(turns(made)) == 2
    made.go("00000007").user("else")
    assert [text for _, text in shown(made)] == ["all", '"kept"', '"r"', '"else"']
    made.go("00000006").user("before")
    assert [text for _, text in shown(made)][-2:] == ['"a file"', '"before"']


def test_branch_before_compaction_has_whole_history():
    made = plain().user("two").entry("compaction", summary="so far", firstKeptEntryId="00000007", tokensBefore=9)
    fold = made.user("three").leaf
    before = plain().user("four")
    assert shown(made.go("00000006").user("four"))[1:] == shown(before)[1:]
    assert [text for _, text in shown(made.go(fold).user("five"))] == ["so far", '"two"', '"three"', '"five"']
    assert not made.folded().problems


def test_system_prompt_of_subagent_is_read():
    made = Pages().entry("session_init", systemPrompt="Be brief.", task="t", tools=["read"]).user("a").answer("b")
    assert text_of(bytes(made.folded().state.main().system)) == "Be brief."


def test_damaged_line_is_problem_and_rest_is_read():
    data = plain().data().splitlines(keepends=True)
    hurt = b"".join(
        [*data[:3], b'{"type":"message","id":"x', b"\n", *data[3:], b'{"type":"message","message":7}\n', b"{"]
    )
    made = folded(Pi, hurt)
    assert [problem.line for problem in made.problems] == [4, 9, 10]
    assert len(made.state.main().entries) == 4


def test_missing_parent_and_repeated_entry_are_problems():
    made = plain().go("nowhere").user("two")
    again = {**made.lines[-1], "timestamp": "2026-04-08T09:00:00.000Z"}
    made.raw(again)
    found = made.folded().problems
    assert ["is missing" in found[0].message, "came before" in found[1].message] == [True, True]
    assert [text for _, text in shown(made)][-2:] == ['"a file"', '"two"']


def test_entry_that_is_its_own_parent_follows_previous():
    made = plain()
    made.raw(
        {
            "type": "message",
            "id": "me",
            "parentId": "me",
            "timestamp": made.at,
            "message": {"role": "user", "content": "x"},
        }
    )
    assert shown(made)[-1] == ("UserMessage", '"x"')


def test_hostile_lines_never_raise():
    for value in (None, 1, "x", [], {}, -1, 1e400, "\ud800"):
        for key in ("id", "parentId", "timestamp", "message", "summary", "firstKeptEntryId", "retainedTail", "type"):
            made = plain().entry("compaction", summary="s", tokensBefore=9)
            made.lines[-1][key] = value
            made.user("x").answer("y")
            made.folded()
        for key in ("role", "content", "usage", "stopReason", "timestamp", "api", "model", "responseId"):
            made = plain()
            made.lines[-1]["message"][key] = value
            made.folded()
