"""Codex rollouts: recognition, any cut of a log, rollbacks, forks, damage; `cases` has single behaviours."""

from cli.running import lore
from formats.codex import BASE, Rollout, plain
from formats.recorded import items
from helpers.each import each
from helpers.recognising import recognise
from lore.commands.fold import fold
from lore.formats.codex.reader import Codex
from lore.formats.registry import reader_of
from lore.model import events as e
from lore.recording.opening import Options
from lore.report.forms.terminal import unseen_lines
from lore.run.checking.check import check
from lore.testing import ReaderContract


def turns(log):
    """Return the usage of each request: uncached, read and output tokens."""
    ends = [value for value in log.read() if isinstance(value, e.TurnCompleted)]
    return [(end.usage.uncached_tokens, end.usage.read_tokens, end.usage.output_tokens) for end in ends if end.usage]


def busy() -> Rollout:
    """Return a session with resumes, an interrupt, a rollback, compactions and usage records."""
    log = plain().event("task_complete", turn_id="x").meta().context(effort="low", approval_policy="on-request")
    log.user("go on").thought().call("c2").result("c2").event("turn_aborted", turn_id="x", reason="interrupted")
    log.message("user", "<turn_aborted>\nby hand\n</turn_aborted>").user("again").message("assistant", "ok")
    log.count(10_400, 10_112).event("thread_rolled_back", num_turns=1)
    log.user("once more").item("tool_search_call", call_id="c3", arguments={"query": "x"}, execution="client")
    tools = [{"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "ask"}]}]
    log.item("tool_search_output", call_id="c3", status="completed", tools=tools).count(10_600, 9_984)
    log.item("custom_tool_call", call_id="c4", name="apply_patch", input="*** Begin", status="completed")
    log.item("custom_tool_call_output", call_id="c4", output=[{"type": "input_text", "text": "Done"}])
    log.count(10_800, 9_984)
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "once more"}]}]
    history.append({"type": "compaction", "encrypted_content": "c2VjcmV0"})
    log.line("compacted", {"message": "", "replacement_history": history, "window_id": 1}).context()
    log.repeat_counts({"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 4_000})
    log.event("context_compacted").message("assistant", "on").recorded("resp_1", 5_000, 2_432)
    log.count(5_000, 2_432).line("world_state", {"full": True}).item("web_search_call", status="completed")
    log.item("additional_tools", id="at_1", role="developer", tools=[{"type": "function", "name": "late"}])
    log.line("inter_agent_communication", {"author": "/root/a", "recipient": "/root", "content": "found it"})
    return log.message("assistant", "end").recorded("resp_2", 5_100, 4_992, ordinal=9)


def branch() -> Rollout:
    """Return a fork that does not repeat the history that it continues."""
    log = Rollout().meta("t-2", forked_from_id="t-1", history_mode="paginated", history_base=BEFORE).context()
    return log.user("other way").message("assistant", "sure").recorded("resp_9", 10_400, 10_112)


def spawned(copied: Rollout) -> Rollout:
    """Return a subagent's log: copies of its parent's records, then its own."""
    thread = {"parent_thread_id": "t-1", "depth": 1}
    source = {"subagent": {"thread_spawn": thread}}
    log = Rollout().meta("t-3", forked_from_id="t-1", parent_thread_id="t-1", source=source)
    log.lines[0]["payload"]["subagent_history_start_ordinal"] = 1 + len(copied.lines)
    log.lines += [dict(line) for line in copied.lines]
    log.sums = dict(copied.sums)
    log.message("user", "your part").thought().message("assistant", "done").recorded("resp_7", 10_300, 10_112)
    log.count(10_300, 10_112)
    for number, line in enumerate(log.lines):
        line["ordinal"] = number
    return log


def early() -> Rollout:
    """Return a log of 2025: usage comes before the items of its response."""
    log = Rollout().meta(cli_version="0.53.0").context().user("look").count(10_000, 2_048, 30)
    log.thought().call("c1").result("c1").count(10_100, 9_984, 20).message("assistant", "done")
    return log.user("and now?").count(10_200, 2_048, 40).thought().message("assistant", "that's all")


BEFORE = {"thread_id": "t-1", "end_ordinal_exclusive": 12, "end_byte_offset": 4_096}


class TestContract(ReaderContract):
    reader = Codex
    samples = (
        plain().data(), busy().data(), busy().data()[:-1], busy().data().replace(b"\n", b"\r\n"), branch().data(),
        spawned(busy()).data(), early().data(),
    )  # fmt: skip


def test_rollout_is_recognised_by_its_first_line():
    assert recognise(plain().data()) is Codex
    assert isinstance(reader_of(b"\xef\xbb\xbf\n" + busy().data()), Codex)
    assert recognise(b'{"type":"session_meta","payload":[]}\n') is None
    assert recognise(b'{"type":"session.start","payload":{}}\n') is None


def test_rollback_removes_prompts_and_their_client_messages():
    log = plain().message("user", "<environment_context>\n new\n</environment_context>").user("go on")
    log.message("assistant", "yes").count(10_400, 10_112).event("thread_rolled_back", num_turns=1)
    assert [item.uuid for item in items(log)] == [item.uuid for item in items(plain())]
    assert [item.uuid for item in items(log.event("thread_rolled_back", num_turns=9))] == ["item-1", "item-2"]
    assert not log.folded().problems


def test_check_estimates_unrecorded_tools_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(plain().data().replace(b"t-1", name.encode()))
    result = check([str(tmp_path)]).result
    texts = BASE, "<permissions instructions>\nread only\n</permissions instructions>", "what is here?"
    char_count = len("".join(texts)) + len("<environment_context>\n  <cwd>/w</cwd>\n</environment_context>")
    (unseen,) = result.unseen
    assert (unseen.format, unseen.what, unseen.files) == ("codex", "the schemas of built-in tools", 2)
    assert unseen.tokens == 10_000 - round(char_count / 4.5)
    (sentence,) = unseen_lines(result)
    assert f"built-in tools, about {unseen.tokens:,} tokens of each prompt (estimated); summaries of" in sentence


def test_fork_beside_its_parent_counts_own_requests(tmp_path):
    parent = plain()
    fork = Rollout().meta("t-2", forked_from_id="t-1")
    fork.lines += parent.lines
    fork.sums = dict(parent.sums)
    fork.user("other way").message("assistant", "sure").count(10_400, 10_112)
    parent.user("this way").message("assistant", "yes").count(10_500, 10_112)
    (tmp_path / "a.jsonl").write_bytes(parent.data())
    (tmp_path / "b.jsonl").write_bytes(fork.data())
    summary = check([str(tmp_path)]).result.summary
    assert (summary.turns, summary.copied, summary.sessions) == (4, 2, 2)
    assert fork.read()[0].parent_session_id == "t-1"


def test_fork_without_its_parent_counts_no_inherited_request(tmp_path):
    parent, child = "019f6a10-0000-7000-8000-00000000000a", "019f6a20-0000-7000-8000-00000000000b"
    copied = Rollout().meta(parent).context(turn_id="019f6a10-1000-7000-8000-000000000001").user("Reply with ok.")
    copied.message("assistant", "ok").count(20_149, 9_984, 5)
    fork = Rollout().meta(child, forked_from_id=parent)
    fork.lines, fork.sums = fork.lines + copied.lines, dict(copied.sums)
    (tmp_path / "a.jsonl").write_bytes(fork.data())
    fork.context(turn_id="019f6a20-1000-7000-8000-000000000002").user("Again.").message("assistant", "ok")
    (tmp_path / "b.jsonl").write_bytes(fork.count(20_300, 20_096).data())
    assert requests_and_copies(tmp_path / "a.jsonl") == (0, 1, 0)
    assert "1 turn inherited or copied from other sessions" in lore("check", str(tmp_path / "a.jsonl")).out
    assert requests_and_copies(tmp_path / "b.jsonl") == (1, 1, 1)
    usage = fold(str(tmp_path / "b.jsonl"), Options()).result.usage
    assert (usage.turns, usage.uncached_tokens, usage.read_tokens) == (1, 204, 20_096)
    (tmp_path / "c.jsonl").write_bytes(copied.data())  # the parent, after its forks
    assert requests_and_copies(tmp_path) == (2, 1, 2)  # a.jsonl is an earlier version of b.jsonl


def test_usage_copied_by_a_fork_is_not_first():
    log = Rollout().meta("t-2", forked_from_id="t-1").context().count(9_000, 0)
    log.user("look").thought().call("c1").count(10_000, 9_984).result("c1").message("assistant", "done")
    values = log.count(10_100, 9_984).read()
    kinds = [type(value) for value in values if isinstance(value, e.Append | e.TurnStarted)]
    assert kinds == [e.TurnStarted, e.Append, e.TurnStarted, e.Append, e.Append, e.TurnStarted, e.Append]


def requests_and_copies(path):
    summary = check([str(path)]).result.summary
    return summary.turns, summary.copied, summary.chains


HOSTILE = (
    {"type": "response_item", "payload": {"type": "message", "role": 5}},
    {"type": "response_item", "payload": {"type": "function_call", "call_id": [], "name": "x"}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": {"a": 1}}},
    {"type": "response_item", "payload": []},
    {"type": "session_meta", "payload": {"id": 7}},
    {"type": "compacted", "payload": {"message": "", "replacement_history": [5]}},
    {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": "x"}}},
    {"type": "token_usage_record", "payload": {"usage": {"input_tokens": "1"}}},
    {"type": "turn_context", "payload": [1]},
    {"type": "response_item", "payload": {"type": "of the future", "x": 1}},
    {"type": "of_the_future", "payload": 1},
    {"payload": 1},
)


@each(HOSTILE)
def test_malformed_line_hides_no_request(line):
    log = plain()
    log.lines.insert(6, {"timestamp": "2026-04-08T08:00:01Z", **line})
    session = log.folded()
    assert len(turns(log)) == 2
    assert len(session.problems) == 1, session.problems
