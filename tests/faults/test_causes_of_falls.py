"""Falls of billed reads in sessions of Claude Code, each with its cause: what the log shows between two requests.

Every kind of fall has variations: other models, versions, orders of events, and the same signal without the fall.
"""

from typing import Any

import pytest

from cli.running import lore
from faults.sessions import HOUR, SHORT, Session

OPUS, SONNET = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"
EXIT = "<command-name>/exit</command-name>\n<command-message>exit</command-message>"
PLAN = "Implement the following plan:\n\n# Add a cache"
DECLINED = "The user doesn't want to proceed with this tool use."


def started_session(**options: Any) -> Session:
    """Return a session with a head of 16,000 tokens and 30,000 cached tokens, whose last answer holds no call."""
    session = Session(**{"version": "2.1.17", "model": OPUS, "ttl": SHORT, **options})
    session.ask("Look at the project.")
    session.answer(16_000, 10_000, 10, calls=("Read",))
    session.results("a line of output " * 600)
    session.answer(26_000, 3_000, 8, calls=("Read",))
    session.results("a line of output " * 200)
    session.answer(29_000, 1_000, 8)
    session.wait(20)
    return session


def breaks(session: Session, tmp_path: Any) -> list[tuple[int, str, str]]:
    """Return turn, code and kind of every cache break."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(session.written())
    findings = lore("check", "-v", "--json", str(path)).json["findings"]
    return [(finding["turn"], finding["code"], finding["kind"]) for finding in findings if finding["is_break"]]


def answered_prompts(model: str, *, shrinks: bool, thinking: bool = True, read: int = 27_000) -> Session:
    """A new prompt after answers with thinking; the prompt is 1,500 tokens shorter, or longer."""
    session = started_session(model=model)
    session.lines = [line for line in session.lines if thinking or not _has_thinking(line)]
    session.ask("Now the tests.")
    session.answer(read, 28_500 - read if shrinks else 33_000 - read, 10, thinking=thinking)
    return session


def _has_thinking(line: dict[str, Any]) -> bool:
    content = line.get("message", {}).get("content")
    return isinstance(content, list) and content[0].get("type") == "thinking"


@pytest.mark.parametrize("model", [
    SONNET, "claude-haiku-4-5-20251001", "claude-opus-4-1-20250805", "us.anthropic.claude-sonnet-4-20250514-v1:0",
])  # fmt: skip
@pytest.mark.parametrize("shrinks", [True, False])
def test_thinking_omitted_at_a_new_prompt_is_expected(model, shrinks, tmp_path):
    assert breaks(answered_prompts(model, shrinks=shrinks), tmp_path) == [(4, "LORE116", "expected")]


def test_omitted_thinking_may_leave_the_head_alone(tmp_path):
    assert breaks(answered_prompts(SONNET, shrinks=True, read=16_000), tmp_path) == [(4, "LORE116", "expected")]


def test_feedback_of_a_stop_hook_omits_thinking(tmp_path):
    """The client's own message after a finished answer is a new prompt to the provider."""
    session = started_session(model=SONNET)
    session.ask("Stop hook feedback:\n- [lint]: 2 problems", isMeta=True)
    session.answer(16_000, 12_500, 10)
    assert breaks(session, tmp_path) == [(4, "LORE116", "expected")]


@pytest.mark.parametrize("model", [OPUS, "claude-sonnet-4-6", "claude-opus-4-8"])
def test_shrunk_prompt_of_later_model_was_cleared(model, tmp_path):
    assert breaks(answered_prompts(model, shrinks=True), tmp_path) == [(4, "LORE117", "waste")]


def test_prompt_that_shrinks_without_thinking_lost_results(tmp_path):
    session = answered_prompts(SONNET, shrinks=True, thinking=False)
    assert breaks(session, tmp_path) == [(4, "LORE117", "waste")]


def test_summary_without_boundary_is_a_compaction(tmp_path):
    """Claude Code 1.0 logged the summary of a compaction as a message of the user, and nothing else."""
    session = started_session()
    session.ask("This session is being continued from a previous conversation. Summary: all.", isCompactSummary=True)
    session.answer(16_000, 4_000, 10)
    path = tmp_path / "session.jsonl"
    path.write_bytes(session.written())
    checked = lore("check", "-v", "--json", str(path)).json
    assert [(finding["code"], finding["kind"]) for finding in checked["findings"]] == [("LORE125", "expected")]
    assert (checked["summary"]["compactions"], checked["summary"]["waste"]) == (1, 0)


@pytest.mark.parametrize(("read", "code"), [(30_600, "LORE301"), (16_000, "LORE128")])
def test_read_beyond_the_previous_one_shows_no_expiry(read, code, tmp_path):
    """After seven minutes more was read than by the request before: what that one wrote was alive."""
    session = started_session()
    session.ask()
    session.answer(30_000, 4_000, 10)
    session.wait(400)
    session.ask()
    session.answer(read, 36_000 - read, 10)
    assert [found[1] for found in breaks(session, tmp_path)] == [code]


def test_counts_that_begin_a_stream_show_no_read(tmp_path):
    """A gateway's first event counts all input as uncached and no output; the log has no later record of the answer."""
    session = started_session()
    session.ask()
    session.answer(0, 0, 19_000, output=0)
    session.ask()
    session.answer(30_000, 1_500, 10)
    assert breaks(session, tmp_path) == []


def test_thinking_is_kept_inside_a_tool_loop(tmp_path):
    session = started_session(model=SONNET)
    session.ask("Now the tests.")
    session.answer(30_000, 500, 10, calls=("Read",))
    session.results()
    session.answer(27_000, 1_000, 8)  # results are no new prompt
    assert breaks(session, tmp_path) == [(5, "LORE117", "waste")]


@pytest.mark.parametrize("ending", [EXIT, "<command-name>/quit</command-name>"])
@pytest.mark.parametrize("total", [20_000, 31_000])
def test_command_that_ends_the_client_is_a_restart(ending, total, tmp_path):
    session = started_session()
    session.ask(ending)
    session.ask("<local-command-stdout>Bye!</local-command-stdout>")
    session.wait(40)
    session.ask("Go on.")
    session.answer(16_000, total - 16_000, 10)
    assert breaks(session, tmp_path) == [(4, "LORE167", "waste")]


@pytest.mark.parametrize("ending", ["<command-name>/cost</command-name>", "<command-name>/exits</command-name>"])
def test_other_command_before_shorter_prompt_is_no_restart(ending, tmp_path):
    session = started_session()
    session.ask(ending)
    session.ask("Go on.")
    session.answer(16_000, 12_000, 10)
    assert breaks(session, tmp_path) == [(4, "LORE117", "waste")]


def dropped_server(session: Session) -> Session:
    session.attach(
        "deferred_tools_delta", addedNames=[], removedNames=["mcp__docs__find"], readdedNames=[],
        pendingMcpServers=["docs"],
    )  # fmt: skip
    session.attach("mcp_instructions_delta", addedNames=[], removedNames=["docs"])
    return session


@pytest.mark.parametrize(("verdict", "expected"), [
    ("system_changed", ("LORE166", "waste")), ("tools_changed", ("LORE103", "waste")),
    ("", ("LORE103", "unattributable")),
])  # fmt: skip
def test_server_that_connects_again_is_no_restart(verdict, expected, tmp_path):
    session = Session(version="2.1.217", model="claude-sonnet-5")
    session.attach("hook_success", hookName="SessionStart:startup", hookEvent="SessionStart")
    session.ask("Look at the project.")
    session.answer(16_000, 10_000, 2, calls=("Read",))
    session.results("a line of output " * 40)
    session.answer(26_000, 3_000, 2)
    session.wait(100)
    session.ask("And now?")
    dropped_server(session)
    session.answer(16_000, 14_000, 2, verdict=verdict, missed=12_000 if verdict else None)
    assert breaks(session, tmp_path) == [(3, *expected)]


@pytest.mark.parametrize("hook", ["SessionStart:startup", "SessionStart:resume"])
def test_start_hook_before_connecting_servers_is_a_restart(hook, tmp_path):
    session = Session(version="2.1.217", model="claude-sonnet-5")
    session.attach("hook_success", hookName="SessionStart:startup", hookEvent="SessionStart")
    session.ask("Look at the project.")
    session.answer(16_000, 10_000, 2)
    session.wait(100)
    session.attach("hook_success", hookName=hook, hookEvent="SessionStart")
    session.ask("And now?")
    dropped_server(session)
    session.answer(16_000, 14_000, 2)
    assert breaks(session, tmp_path) == [(2, "LORE167", "waste")]


@pytest.mark.parametrize(("pause", "read", "expected"), [
    (301, 16_000, ("LORE128", "expected")),  # 301 s from request to request, 299 s after the answer
    (301, 0, ("LORE128", "expected")),
    (290, 16_000, ("LORE301", "unattributable")),
])  # fmt: skip
def test_entries_age_from_request_to_request(pause, read, expected, tmp_path):
    session = started_session()
    session.wait(pause - 22)
    session.ask("Go on.")
    session.answer(read, 31_000 - read, 10)
    assert breaks(session, tmp_path) == [(4, *expected)]


def test_repeated_request_ages_from_its_answer(tmp_path):
    session = started_session()
    session.ask("Go on.")
    session.wait(200)
    session.line("system", subtype="api_error")
    session.answer(30_000, 500, 10)
    session.wait(150)
    session.ask("And now?")
    session.answer(16_000, 15_000, 10)  # 350 s after the first attempt, 150 s after the one that was answered
    assert "LORE128" not in {code for _, code, _ in breaks(session, tmp_path)}


@pytest.mark.parametrize("verdict", ["", "messages_changed", "system_changed"])
def test_expired_entries_are_not_lost_by_hook(verdict, tmp_path):
    session = Session(version="2.1.218", model="claude-opus-4-8", ttl=SHORT)
    session.ask("Look at the project.")
    session.answer(16_000, 10_000, 2, calls=("Bash",))
    session.results()
    session.attach("hook_additional_context", hookName="PostToolUse:Bash", hookEvent="PostToolUse", content=["note"])
    session.answer(26_000, 1_000, 2)
    session.wait(330)
    session.ask("And now?")
    session.answer(0, 28_000, 2, verdict=verdict, missed=20_000 if verdict else None)
    assert breaks(session, tmp_path) == [(3, "LORE128", "expected")]


def test_text_of_a_hook_moved_before_entries_expired(tmp_path):
    session = Session(version="2.1.218", model="claude-opus-4-8", ttl=SHORT)
    session.ask("Look at the project.")
    session.answer(16_000, 10_000, 2, calls=("Bash",))
    session.results()
    secret = "ghp_" + "a1B2" * 9
    session.attach("hook_additional_context", hookName="PostToolUse:Bash", hookEvent="PostToolUse",
                   content=[f"index is stale {secret}"])  # fmt: skip
    session.answer(26_000, 2_000, 2)
    session.wait(60)
    session.ask("And now?")
    session.answer(26_000, 3_000, 2)
    assert breaks(session, tmp_path) == [(3, "LORE158", "waste")]
    output = lore("check", str(tmp_path)).out
    assert "PostToolUse:Bash" in output
    assert '"index is stale' in output
    assert secret[4:] not in output


@pytest.mark.parametrize("command", ["<command-name>/review</command-name>", "Look at the pull request."])
def test_switched_thinking_has_entries_of_its_own(command, tmp_path):
    session = started_session()
    session.ask(command)
    session.answer(16_000, 16_000, 3, thinking=False)
    session.wait(20)
    session.ask("Go on.")
    session.answer(30_000, 2_800, 10)
    assert breaks(session, tmp_path) == [(4, "LORE120", "waste"), (5, "LORE120", "waste")]


def test_answer_without_thinking_is_no_switched_setting(tmp_path):
    session = started_session(model="claude-opus-4-8")  # has the same uncached tokens with and without thinking
    session.ask("Go on.")
    session.answer(16_000, 16_000, 10, thinking=False)
    assert "LORE120" not in {code for _, code, _ in breaks(session, tmp_path)}


@pytest.mark.parametrize(("version", "model", "thinking", "expected"), [
    ("2.1.32", "claude-opus-4-6", False, ("LORE168", "waste")),
    ("2.1.37", "claude-opus-4-6", False, ("LORE168", "waste")),
    ("2.1.38", "claude-opus-4-6", False, ("LORE301", "unattributable")),
    ("2.1.33", "claude-opus-4-6", True, ("LORE301", "unattributable")),
    ("2.1.33", "claude-sonnet-4-6", False, ("LORE301", "unattributable")),
])  # fmt: skip
def test_first_answer_without_thinking_costs_the_history(version, model, thinking, expected, tmp_path):
    session = Session(version=version, model=model)
    session.ask("Hello")
    session.answer(16_606, 26_000, 3, thinking=thinking)
    session.wait(40)
    session.ask("Write a page.")
    session.answer(16_606, 26_100, 3)
    assert breaks(session, tmp_path) == [(2, *expected)]
    turns = lore("simulate", "--json", str(tmp_path / "session.jsonl")).json["turns"]
    assert (turns[1]["predicted"]["read_tokens"] == 16_606) == (expected[0] == "LORE168")


@pytest.mark.parametrize(("alternates", "expected"), [(True, []), (False, [(7, "LORE117", "waste")])])
def test_requests_of_two_loops_in_one_log_lose_nothing(alternates, expected, tmp_path):
    session = started_session()
    session.ask("Are you there?")
    for read, written in (
        (30_000, 1_000), (30_000 if alternates else 31_000, 300), (31_000 if alternates else 31_300, 18_000),
        (30_300 if alternates else 31_000, 3_000), (49_000, 300),
    ):  # fmt: skip
        session.answer(read, written, 8, calls=("Bash",))
        session.results("a line of output " * 600)
        session.wait(20)
    assert breaks(session, tmp_path) == expected


@pytest.mark.parametrize(("wait", "third", "fourth", "expected"), [
    (60, 48_000, 70_000, []), (60, 48_000, 15_000, [(7, "LORE301", "unattributable")]),
    (7200, 15_000, 70_000, [(6, "LORE128", "expected")]),
])  # fmt: skip
def test_processes_of_one_session_continue_their_own_branches(wait, third, fourth, expected, tmp_path):
    """Two versions of the client continue a session by turns; `third` and `fourth` are reads."""
    session = started_session(ttl=HOUR)
    fork, branches = session.parents[""], {}
    for version, pause, read, prompt in (
        ("2.1.17", 20, 30_000, 48_000), ("2.1.20", 20, 30_000, 70_000), ("2.1.17", wait, third, 50_000),
        ("2.1.20", 20, fourth, 71_000),
    ):  # fmt: skip
        session.version, session.parents[""] = version, branches.get(version, fork)
        session.wait(pause)
        session.ask(f"Continue with {version}.")
        session.answer(read, prompt - read, 8)
        branches[version] = session.parents[""]
    assert breaks(session, tmp_path) == [(5, "LORE143", "expected"), *expected]  # the second branch looks like a rewind
    turns = lore("simulate", "--json", str(tmp_path / "session.jsonl")).json["turns"]
    assert turns[6]["predicted"]["read_tokens"] == (70_000 if wait == 60 else 15_000)


@pytest.mark.parametrize(("wait", "read", "expected"), [
    (60, 30_000, ("LORE143", "expected")), (60, 24_000, ("LORE301", "unattributable")),
    (7200, 15_000, ("LORE128", "expected")),
])  # fmt: skip
def test_loss_after_rewind_has_its_own_cause(wait, read, expected, tmp_path):
    session = started_session(ttl=HOUR)
    fork = session.parents[""]
    session.ask("Try a list.")
    session.answer(30_000, 8_000, 8)
    session.parents[""] = fork
    session.wait(wait)
    session.ask("Try a table.")
    session.answer(read, 38_500 - read, 8)
    assert breaks(session, tmp_path)[-1] == (5, *expected)


@pytest.mark.parametrize(("version", "fields", "expected"), [
    ("2.1.39", {"agentName": "lint", "teamName": "site"}, ["LORE159", "LORE159", "LORE301", "LORE159", "LORE301"]),
    ("2.1.42", {"teamName": "site"}, ["LORE301"] * 5),  # the session that leads the team
    ("2.1.43", {"agentName": "lint", "teamName": "site"}, ["LORE301"] * 5),
])  # fmt: skip
def test_falls_of_a_teammate_have_a_possible_cause(version, fields, expected, tmp_path):
    session = Session(version=version, model="claude-opus-4-6")
    for requests in (range(4), range(4, 5), range(5, 6)):
        session.ask("<teammate-message>Look at it.</teammate-message>", **fields)
        for number in requests:
            session.answer(25_857, 11_000 + 500 * number, 1, calls=("Read",))
            session.results("a line of output " * 40)
            session.wait(20)
        session.answer(36_857 + 500 * requests[-1], 250, 1)
        session.wait(20)
    found = breaks(session, tmp_path)
    assert [code for _, code, _ in found] == expected
    assert {kind for _, _, kind in found} == {"unattributable"}
    turns = lore("simulate", "--json", str(tmp_path / "session.jsonl")).json["turns"]
    assert (turns[1]["predicted"]["read_tokens"] == 25_857) == (expected[0] == "LORE159")


def cleared(session: Session, prompt: str) -> Session:
    """Add a new conversation that reads the head of other sessions."""
    session.ask(prompt)
    session.answer(15_000, 6_000, 10, calls=("Read",))
    session.results("a line of output " * 10)
    session.answer(21_000, 500, 8)
    return session


def test_plan_with_cleared_context_begins_new_conversation(tmp_path):
    session = started_session()
    session.ask("Plan it.")
    session.answer(30_000, 500, 10, calls=("ExitPlanMode",))
    session.results(DECLINED)
    session.ask([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    assert breaks(cleared(session, PLAN), tmp_path) == [(5, "LORE154", "expected")]


def test_cleared_context_is_a_new_conversation(tmp_path):
    session = started_session()
    session.ask("<command-name>/clear</command-name>")
    assert breaks(cleared(session, "Something else."), tmp_path) == [(4, "LORE154", "expected")]


def test_plan_in_same_context_begins_no_conversation(tmp_path):
    session = started_session()
    session.ask("Plan it.")
    session.answer(30_000, 500, 10, calls=("ExitPlanMode",))
    session.results("User has approved your plan.")
    session.answer(30_500, 500, 8)
    assert breaks(session, tmp_path) == []


def test_unlogged_request_is_predicted_once_seen(tmp_path):
    session = Session(version="2.1.209", model="claude-fable-5")
    session.ask("Look at the project.")
    session.answer(16_000, 10_000, 2, output=3_000)
    session.wait(60)
    session.ask("And the tests?")
    session.answer(29_000, 100, 2, output=2_500)  # it read the answer, so a request that is not logged wrote it
    session.wait(60)
    session.ask("And now?")
    session.answer(31_600, 100, 2)
    assert breaks(session, tmp_path) == []
    turns = lore("simulate", "--json", str(tmp_path / "session.jsonl")).json["turns"]
    assert abs(turns[2]["predicted"]["read_tokens"] - 31_600) <= 0.02 * 31_600


@pytest.mark.parametrize(("earlier", "expected"), [(1, "LORE162"), (3, "LORE162"), (5, "LORE301")])
def test_signal_that_cost_nothing_before_explains_no_fall(earlier, expected, tmp_path):
    session = started_session(version="2.1.217", model="claude-opus-4-8")
    total = 30_000
    for _ in range(earlier):
        session.ask("<command-name>/cost</command-name>")
        session.ask("Go on.")
        session.answer(total, 300, 2)
        total += 300
    session.ask("<command-name>/cost</command-name>")
    session.ask("Go on.")
    session.answer(20_000, total + 300 - 20_000, 2)
    assert breaks(session, tmp_path) == [(4 + earlier, expected, "unattributable")]


@pytest.mark.parametrize(("total", "kind"), [(20_000, "waste"), (31_500, "unattributable")])
def test_resumed_session_whose_prompt_shrank_was_rendered_again(total, kind, tmp_path):
    session = started_session()
    session.wait(60)
    session.attach("hook_success", hookName="SessionStart:resume", hookEvent="SessionStart")
    session.ask("Go on.")
    session.answer(16_000, total - 16_000, 10)
    assert breaks(session, tmp_path) == [(4, "LORE123", kind)]
    output = lore("simulate", str(tmp_path / "session.jsonl"), "--what-if").out
    assert ("cause=LORE123 resume-rerendered: " in output, "LORE117" in output) == (kind == "waste", False)


@pytest.mark.parametrize(("verdict", "expected"), [
    ("", ("LORE167", "unattributable")), ("system_changed", ("LORE167", "waste")),
    ("messages_changed", ("LORE159", "unattributable")),
])  # fmt: skip
def test_idle_desktop_process_needs_the_verdict_to_be_waste(verdict, expected, tmp_path):
    session = started_session(version="2.1.217", model="claude-opus-4-8", ttl=HOUR)
    session.wait(1_900)
    session.lines += [
        {"type": "last-prompt", "lastPrompt": "Look."},
        {"type": "queue-operation", "operation": "enqueue"},
    ]
    session.ask("Go on.", entrypoint="claude-desktop")
    session.answer(12_000, 18_500, 10, verdict=verdict)
    assert breaks(session, tmp_path) == [(4, *expected)]
    assert ("idle processes" in lore("check", "-v", str(tmp_path / "session.jsonl")).out) is (expected[0] == "LORE167")


@pytest.mark.parametrize(("verdict", "kind"), [("", "unattributable"), ("tools_changed", "waste")])
def test_remote_control_explains_a_fall_in_a_loop(verdict, kind, tmp_path):
    session = started_session(version="2.1.217", model="claude-opus-4-8")
    session.ask("Go on.")
    session.answer(30_000, 300, 2, calls=("Read",))
    session.line("system", subtype="bridge_status", content="/remote-control is active")
    session.results()
    session.answer(0, 31_000, 2, verdict=verdict)
    assert breaks(session, tmp_path) == [(5, "LORE103", kind)]
