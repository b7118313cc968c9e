"""The reader of Copilot CLI's logs: requests, system prompts, subagents, compactions, sums, damage."""

from formats.copilot import SYSTEM, Log, plain
from formats.recorded import folded, items
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.copilot.reader import Copilot
from lore.model import events as e
from lore.model.codes import Problem
from lore.testing import ReaderContract


def ends(log):
    """How the requests of a session ended."""
    return [value for value in log.read() if isinstance(value, e.TurnCompleted)]


def busy() -> Log:
    """All that happens in one session: subagents, a compaction, a rewind, a resume, sums."""
    log = plain().line("session.usage_checkpoint", {"totalNanoAiu": 1, "modelCacheState": []}).system()
    log.user("go on", source="user").answer("", "c2", "c3").result("c2", success=False, error={"message": "no"})
    log.line("subagent.started", {"toolCallId": "c3", "agentName": "car", "model": "claude-opus-5"}, "c3")
    log.user("look", "c3", source="agent-s-1").answer("", "d1", agent="c3", model="claude-opus-5")
    log.result("d1", agent="c3")
    log.answer("seen", agent="c3", model="claude-opus-5").result("c3", "seen")
    log.line("session.compaction_start", {"systemTokens": 1}).answer("", "c4").result("c4").compact()
    change = {"newModel": "gpt-5.4", "previousReasoningEffort": "low", "reasoningEffort": "high"}
    log.answer("on").line("session.model_change", change)
    log.line("session.mode_changed", {"previousMode": "interactive", "newMode": "plan"})
    log.system(SYSTEM + " Plan.").user("and?").answer("yes", model="gpt-5.4", api="resp_1")
    log.line("system.notification", {"content": "<n>done</n>", "kind": {"type": "shell_completed"}})
    log.line("abort", {"reason": "user"}).line("session.truncation", {"messagesRemovedDuringTruncation": 2})
    log.line("skill.invoked", {"name": "plan", "content": "x"}).shutdown(gpt_5_4=(1, 500, 100, 0, 10))
    log.line("session.resume", {"selectedModel": "gpt-5.4"}).user("again").answer("ok", model="gpt-5.4")
    return log.line("session.snapshot_rewind", {"upToEventId": f"e{len(log.lines)}"}).line("odd.kind", {"x": [1]})


def streamed() -> Log:
    """What the command line writes to its output as JSON: no start, an end of its own."""
    log = Log().line("session.mcp_server_status_changed", {"status": "connected"}).user("hello")
    for kind in ("model.call_started", "model.call_finished", "assistant.tool_call_delta"):
        log.line(kind, {"turnId": "0"}).lines[-1]["ephemeral"] = True
    log.line("model.call_failure", {"statusCode": 429, "errorMessage": "slow"}).answer("", "c1").result("c1")
    log.answer("yes").lines.append({"type": "result", "timestamp": "t", "sessionId": "s-1", "exitCode": 0})
    return log


class TestContract(ReaderContract):
    reader = Copilot
    samples = (
        plain().data(), streamed().data(), busy().data(), busy().data()[:-1], busy().data().replace(b"\n", b"\r\n"),
    )  # fmt: skip


def test_log_is_recognised_by_its_lines():
    assert recognise(plain().data()) is Copilot
    assert recognise(b"\xef\xbb\xbf\n" + busy().data()) is Copilot
    assert recognise(b'{"type":"session.start","data":{},"id":"a"}\n') is None
    assert recognise(b'{"type":"message","data":{},"id":"a","timestamp":"","parentId":null}\n') is None


def test_model_chosen_by_the_client_is_the_model():
    log = Log().start("auto").line("session.auto_mode_resolved", {"chosenModel": "gpt-5.4", "categoryScores": {}})
    read = log.user("hi").answer("ho", model=None).read()
    assert not [value for value in read if isinstance(value, Problem | e.OpaqueEvent)]
    assert [value.model for value in read if isinstance(value, e.SessionStarted)] == ["gpt-5.4"]


def test_stated_cost_is_recorded_once():
    log = plain().line("session.usage_checkpoint", {"totalNanoAiu": 3 * 10**11, "totalPremiumRequests": 1})
    log.user("go on").answer("yes").line("session.usage_checkpoint", {"totalNanoAiu": 5 * 10**11})
    log.shutdown(claude_sonnet_5=(59, 900, 0, 0, 9)).lines[-1]["data"] |= {"totalNanoAiu": 5 * 10**11}
    log.line("session.resume", {}).user("again").answer("ok").line("session.usage_checkpoint", {"totalNanoAiu": 10**11})
    last = {end.turn: end.usage.recorded for end in ends(log)}
    assert last[2] == e.RecordedCost(3.0, 0, 1.0)
    assert [last[turn].dollars for turn in (3, 4)] == [2.0, 1.0]
    assert last[1] is None


def test_written_tokens_are_those_that_were_charged():
    used = {"inputTokens": 900, "outputTokens": 90, "cacheReadTokens": 100, "cacheWriteTokens": 0}
    charged = {"input": 5, "cache_read": 100, "cache_write": 795, "output": 90}
    used["copilotUsage"] = {"tokenDetails": [{"tokenType": kind, "tokenCount": n} for kind, n in charged.items()]}
    fold = plain().compact(compactionTokensUsed=used).folded()
    usage = fold.state.chains["utility-1"].last.usage
    assert (usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.output_tokens) == (5, 100, 795, 90)
    assert [problem.code for problem in fold.problems] == ["LORE229"]


def test_json_output_of_command_line_is_read():
    assert recognise(streamed().data()) is Copilot
    assert [end.turn for end in ends(streamed())] == [1, 2]
    read = streamed().read()
    assert not [value for value in read if isinstance(value, Problem | e.OpaqueEvent)]
    assert [value.name for value in read if isinstance(value, e.Observed)] == ["api-error"]


def test_sums_of_one_request_are_its_usage():
    log = Log().start().system().user("hi").answer("ho", output=45)
    fold = log.shutdown(claude_sonnet_5=(1, 15_000, 9_000, 1_000, 45)).folded()
    bill = fold.state.main().last.usage
    assert (bill.uncached_tokens, bill.read_tokens, bill.write_tokens, bill.output_tokens) == (5_000, 9_000, 1_000, 45)
    assert fold.usage.output_tokens == 45


def test_sums_that_contradict_log_are_one_problem():
    fewer = plain().shutdown(claude_sonnet_5=(1, 10, 0, 0, 17)).folded().problems
    other = plain().shutdown(claude_sonnet_5=(2, 10, 0, 0, 18)).folded().problems
    assert ["one is incomplete" in problem.message for problem in (*fewer, *other)] == [True, True]
    assert not plain().shutdown(claude_sonnet_5=(2, 10, 0, 0, 17)).folded().problems
    assert not plain().shutdown(claude_sonnet_5=(5, 10, 0, 0, 90)).folded().problems  # titles and the like


def test_source_of_message():
    log = plain().user("a", source="system").user("b", source="skill-x").user("c", source="schedule-1")
    log.user("d", source="agent-s").line("system.notification", {"content": "e"})
    sources = [item.source for item in items(log)[4:]]
    assert sources == ["context_injection", "context_injection", "tick", "user", "context_injection"]


@each([
    b'{"type":"assistant.message","data":{"toolRequests":7},"id":"x","timestamp":"t","parentId":null}',
    b'{"type":"user.message","data":{"content":7},"id":"x","timestamp":"t","parentId":null}',
    b'{"type":"system.message","data":{},"id":"x","timestamp":"t","parentId":null}',
    b'{"type":"session.usage_checkpoint","data":[],"id":"x","timestamp":"t","parentId":null}',
    b'{"type":"session.shutdown","data":{"modelMetrics":[1]},"id":"x","timestamp":"t","parentId":null}',
    b'{"type":"tool.execution_complete","data":{"toolCallId":[]},"id":"x","timestamp":"t","parentId":null}',
])  # fmt: skip
def test_line_of_wrong_types_is_opaque_with_problem(line):
    session = folded(Copilot, plain().data() + line + b"\n" + Log().user("on").data())
    assert [(problem.code, problem.line) for problem in session.problems] == [("LORE207", 10)]


def test_silent_line_may_have_any_data_unless_torn():
    assert not folded(Copilot, plain().data() + b'{"type":"hook.start","data":7,"id":[],"timestamp":{}}\n').problems
    session = folded(Copilot, plain().data() + b'{"type":"hook.start","id":[],"data":{')
    assert [problem.code for problem in session.problems] == ["LORE202"]
