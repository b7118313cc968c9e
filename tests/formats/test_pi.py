"""The reader of pi's sessions: requests, usage, the tree of entries, compactions, prompts."""

import pytest

from formats.pi import Pages, call, plain, thought, typed_texts
from formats.recorded import folded
from helpers.recognising import recognise
from lore.formats.agents.pi import Pi
from lore.model import events as e
from lore.model.items import OpaqueItem
from lore.run.checking.check import check
from lore.testing import ReaderContract


def turns(log):
    """The bills of a session's requests."""
    ends = [value for value in log.read() if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    return [end.usage and (end.usage.uncached_tokens, end.usage.read_tokens, end.usage.write_tokens) for end in ends]


def busy() -> Pages:
    """All that happens in one session: branches, compactions, other APIs, entries outside of prompts, damage."""
    log = plain().entry("custom", customType="x", data={"a": 1}).entry("label", targetId="00000003", label="l")
    log.entry("custom_message", customType="x", content="noted", display=True)
    log.message("bashExecution", None, command="ls", output="a", exitCode=1, cancelled=False, truncated=False)
    log.message("bashExecution", None, command="id", output="b", exitCode=0, excludeFromContext=True)
    log.user("go on").answer(call("c2"), stopReason="aborted", bill=(0, 0, 0, 0), errorMessage="by hand")
    log.user("again").answer(call("c3"), call("c4"), stopReason="toolUse").result("c3").result("c4", isError=True)
    back = log.leaf
    log.answer("wrong", model="gpt-5.5", api="openai-codex-responses").go(back)
    log.entry("branch_summary", fromId="x", summary="tried").user("other").answer("right")
    log.entry("thinking_level_change", thinkingLevel="high")
    log.entry("compaction", summary="so far", firstKeptEntryId=back, tokensBefore=9_000)
    log.user("on").answer(thought(signature='{"id":"rs_1","type":"reasoning","encrypted_content":"x"}'), "yes")
    log.go("00000003").user("before it").answer("back").entry("session_info", name="n").entry("hologram", x=1)
    image = {"type": "image", "data": "aa", "mimeType": "i"}
    tail = [
        {"role": "user", "content": "kept"}, {"role": "assistant", "content": [call("c9")], "stopReason": "toolUse"},
        {"role": "toolResult", "toolCallId": "c9", "content": [image]},
    ]  # fmt: skip
    log.entry("compaction", summary="all", retainedTail=tail, tokensBefore=1).user("ä \ud83d").answer("end")
    return log.entry("reset_boundary").user("anew").answer("end", stopReason="error", bill=(1, 2, 3, 4))


class TestContract(ReaderContract):
    reader = Pi
    samples = (
        plain().data(), plain(1).data(), busy().data(), busy().data()[:-1], busy().data().replace(b"\n", b"\r\n"),
    )  # fmt: skip


@pytest.mark.parametrize(("version", "member"), [(1, "branchedFrom"), (3, "parentSession")])
def test_requests_older_than_the_fork_are_inherited(tmp_path, version, member):
    log = plain(version)
    log.lines[0] |= {member: "/s/parent.jsonl", "timestamp": log.at}
    turn_count = len(turns(log.user("forked").answer("own")))
    (tmp_path / "fork.jsonl").write_bytes(log.data())
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (1, turn_count - 1)


def test_inherited_compaction_is_not_counted(tmp_path):
    made = Pages().user("go").answer("yes")
    for text in ("inherited", "own"):
        made.entry("compaction", summary="s", firstKeptEntryId=made.leaf, tokensBefore=110).user(text).answer("yes")
    made.lines[0] |= {"parentSession": "s-0", "timestamp": made.lines[-3]["timestamp"]}
    (tmp_path / "fork.jsonl").write_bytes(made.data())
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied, summary.compactions) == (1, 2, 1)


def test_session_is_recognised_by_its_header():
    assert recognise(plain().data()) is recognise(plain(1).data()) is Pi
    assert recognise(b'{"type":"title","title":"t"}\n' + busy().data()) is Pi
    assert recognise(b'{"type":"session","id":1,"cwd":"/"}\n') is not Pi
    assert recognise(b'{"type":"session","id":"1","version":0,"createdAt":0,"cwd":"/"}\n') is not Pi  # DeepSeek Harness
    assert recognise(b'{"type":"session.start","data":{}}\n') is not Pi


def test_log_without_its_first_line_is_recognised():
    headless = plain().data().split(b"\n", 1)[1]
    assert recognise(plain(1).data().split(b"\n", 1)[1]) is Pi  # version 1 has no ids: an answer shows the format
    prompt = b'{"type":"message","timestamp":"2026-04-08T08:00:00.000Z","message":{"role":"user","content":"go"}}\n'
    assert recognise(prompt) is not Pi
    extension = b'{"type":"hologram","id":"0000001d","parentId":"0000001c","timestamp":"2026-04-08T08:00:29.000Z"}\n'
    assert recognise(headless) is recognise(extension + headless) is Pi


def test_unknown_entry_that_comes_again_keeps_its_record():
    log = Pages().user("go").entry("hologram", x=1)
    back = log.leaf
    log.user("left").go(back).user("right").go(log.lines[1]["id"]).user("first again").go(back).user("right again")
    opaque = [value.item for value in log.read() if isinstance(value, e.Append) and isinstance(value.item, OpaqueItem)]
    assert [b"hologram" in bytes(item.record) for item in opaque] == [True, True]


def test_cost_of_response_is_recorded():
    log = plain().answer("free", usage={"input": 5, "output": 1, "cost": {"total": 0}})
    log.answer("odd", usage={"input": 5, "output": 1, "cost": "much"})
    bills = [value.usage for value in log.read() if isinstance(value, e.TurnCompleted)]
    assert [bill.recorded_dollars for bill in bills] == [0.1, 0.1, None, None]


def test_printed_json_has_the_same_requests():
    log = plain()
    printed = [{"type": "message_end", "message": line["message"]} for line in log.lines if "message" in line]
    log.lines[1:] = [{"type": "turn_start"}, *printed, {**printed[-1], "type": "turn_end", "toolResults": []}]
    assert turns(log) == turns(plain())
    assert log.folded().problems == []


def test_openclaw_copy_of_a_chat_message_is_no_request():
    log = plain().answer("Good morning.", provider="openclaw", model="delivery-mirror")
    assert log.folded().state.main().turns == plain().folded().state.main().turns


def test_session_names_parent_by_path_or_id():
    path = "/h/.pi/agent/sessions/--w--/2026-04-08T07-00-00-000Z_019dc75a-7dc4-752d-b8f7-b9c759a59c4b.jsonl"
    assert Pages(parentSession=path).read()[0].parent_session_id == "019dc75a-7dc4-752d-b8f7-b9c759a59c4b"
    assert Pages(parentSession="s-0").read()[0].parent_session_id == "s-0"
    assert Pages(1, branchedFrom=path).read()[0].parent_session_id == "019dc75a-7dc4-752d-b8f7-b9c759a59c4b"


def test_thinking_level_of_header_is_first_one():
    log = Pages(1, thinkingLevel="off").user("a").answer("b").entry("thinking_level_change", thinkingLevel="high")
    started = [value for value in log.user("c").answer("d").read() if isinstance(value, e.Observed)]
    assert [(change.name, change.before, change.after) for change in started] == [("effort", "off", "high")]


def test_thinking_level_changed_after_prompt_holds_for_next_one():
    """Two falls of a public session were explained by levels that were only set while the request was running."""
    log = Pages(1, thinkingLevel="off").user("a").entry("thinking_level_change", thinkingLevel="high").answer("b")
    assert not any(isinstance(value, e.Observed) for value in log.answer("c").read())
    changes = [value for value in log.user("d").answer("e").read() if isinstance(value, e.Observed)]
    assert [(change.name, change.before, change.after) for change in changes] == [("effort", "off", "high")]


def test_setting_changed_before_aborted_request_explains_fall(tmp_path):
    log = Pages(1, thinkingLevel="off").user("a").answer("b", bill=(10, 0, 9_000, 5))
    log.entry("thinking_level_change", thinkingLevel="high").user("c")
    log.answer("d", stopReason="aborted", bill=(0, 0, 0, 0)).user("e").answer("f", bill=(10, 0, 9_300, 5))
    (tmp_path / "a.jsonl").write_bytes(log.data())
    assert [(finding.code, finding.turn) for finding in check([str(tmp_path / "a.jsonl")]).result.findings] == [
        ("LORE120", 3)
    ]


def test_mode_of_client_explains_fall_after_it(tmp_path):
    """Each mode of oh-my-pi has tools of its own; the log names the mode."""
    log = Pages().user("a").answer("b", bill=(4, 0, 30_000, 5)).user("c").answer("d", bill=(4, 30_000, 90, 5))
    log.entry("mode_change", mode="goal").user("e").answer("f", bill=(4, 0, 30_300, 5))
    (tmp_path / "a.jsonl").write_bytes(log.data())
    (finding,) = check([str(tmp_path / "a.jsonl")]).result.findings
    assert (finding.code, finding.turn, finding.kind) == ("LORE145", 3, "unattributable")


@pytest.mark.parametrize("name", [b"responseId", b"noId"])
def test_copied_requests_of_fork_count_once(tmp_path, name):
    for file, log, session in (("a.jsonl", plain(), b"s-1"), ("b.jsonl", plain().user("more").answer("x"), b"s-2")):
        (tmp_path / file).write_bytes(log.data().replace(b"responseId", name).replace(b"s-1", session))
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied) == (3, 2)


def test_damaged_line_is_problem_and_rest_is_read():
    data = plain().data().splitlines(keepends=True)
    hurt = b"".join([*data[:3], b'{"type":"message","id":"x\n', *data[3:], b'{"type":"message","message":7}\n{'])
    session = folded(Pi, hurt)
    assert [problem.line for problem in session.problems] == [4, 9, 10]
    assert len(session.state.main().entries) == 5


def test_entry_that_is_its_own_parent_follows_previous():
    log = plain()
    message = {"role": "user", "content": "x"}
    log.raw({"type": "message", "id": "me", "parentId": "me", "timestamp": log.at, "message": message})
    assert typed_texts(log)[-1] == ("UserMessage", '"x"')


def test_provider_of_answer_with_usage_is_signal():
    log = Pages().user("a").answer("b").user("c").answer("d", provider="openrouter", bill=(0, 0, 0, 0))
    log.user("e").answer("f", provider="github-copilot").user("g").answer("h", provider="github-copilot")
    signs = [value for value in log.read() if isinstance(value, e.Observed) and value.name == "provider"]
    assert [(sign.before, sign.after) for sign in signs] == [("anthropic", "github-copilot")]
