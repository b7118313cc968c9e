"""Falls of reads in caches without breakpoints, requests next to a conversation, and cut-outs of real recordings."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.running import lore
from conftest import ROOT
from formats.codex import Rollout

CASES = Path(os.environ.get("LORE_CASES") or ROOT.parent / "shared" / "cases") / "truth"


def breaks(path: Path) -> list[tuple[int, str, str]]:
    """Return turn, code and kind of every cache break."""
    findings = lore("check", "-v", "--json", str(path)).json["findings"]
    return [(finding["turn"], finding["code"], finding["kind"]) for finding in findings if finding["is_break"]]


# Codex


def rollout() -> Rollout:
    session = (
        Rollout().meta().message("user", "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>").context()
    )
    return session.user("what is here?")


def written(session: Rollout, tmp_path: Path) -> Path:
    path = tmp_path / "rollout-2026-04-08T08-00-00-t-1.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in session.lines))
    return path


@pytest.mark.parametrize("between", [0, 5])
def test_read_returning_to_earlier_level_is_another_machine(between, tmp_path):
    session = rollout().call("c1").result("c1", "line " * 800).count(24_395, 4_992)
    session.call("c2").result("c2", "line " * 100)
    session.second -= 2  # the next request follows within a second
    session.count(25_642, 23_424)
    session.second += between
    session.call("c3").result("c3", "line " * 100).count(26_302, 4_992)
    assert breaks(written(session, tmp_path)) == [(3, "LORE130", "unattributable")]


@pytest.mark.parametrize("event", ["tool-search", "resume"])
def test_events_without_effect_explain_no_fall(event, tmp_path):
    session = rollout().call("c1").result("c1", "line " * 800).count(24_395, 23_424)
    session.call("c2").result("c2", "line " * 100).count(25_642, 24_320)
    if event == "resume":
        session.meta().context().user("and now?")
    else:
        session.item(
            "tool_search_call", call_id="s1", status="completed", execution="client", arguments={"query": "js"}
        )
        tools = [{"type": "namespace", "name": "mcp__js", "description": "x", "tools": [{"name": "run"}]}]
        session.item("tool_search_output", call_id="s1", status="completed", execution="client", tools=tools)
    session.count(26_302, 4_992)
    assert breaks(written(session, tmp_path)) == [(3, "LORE130", "unattributable")]


def reasoned() -> Rollout:
    """Return a task with reasoning in three answers; 24,000 tokens precede the reasoning."""
    session = rollout().call("c1").result("c1", "line " * 800).count(20_000, 4_992)
    session.thought().call("c2").result("c2", "line " * 800).count(24_000, 19_968, output=1_200)
    session.thought().call("c3").result("c3").count(26_000, 23_936, output=1_200)
    return session.thought().message("assistant", "It is done.").count(27_300, 25_984, output=1_200)


def losses(path: Path) -> list[tuple[int, str, int, list[str]]]:
    """Return turn, code, re-billed tokens and other causes of every cache break."""
    findings = lore("check", "-v", "--json", str(path)).json["findings"]
    return [
        (finding["turn"], finding["code"], finding["lost_tokens"], [also["code"] for also in finding["also"]])
        for finding in findings if finding["is_break"]
    ]  # fmt: skip


@pytest.mark.parametrize(("pause", "total", "read", "expected"), [
    (0, 25_200, 23_936, ("LORE116", "expected", 25_200 - 23_936 - 7, [])),  # no loss but the reasoning's
    (0, 25_200, 4_992, ("LORE130", "unattributable", 24_000 - 4_992, ["LORE116"])),  # without the reasoning
    (3_000, 25_200, 4_992, ("LORE128", "expected", 24_000 - 4_992, ["LORE116"])),
])  # fmt: skip
def test_loss_at_dropped_reasoning_has_its_own_cause(pause, total, read, expected, tmp_path):
    session = reasoned()
    session.second += pause
    path = written(session.user("and the tests?").call("c4").count(total, read), tmp_path)
    ((_, code, lost, also),) = losses(path)
    assert (code, breaks(path)[0][2], lost, also) == expected


def test_cached_tokens_after_dropped_reasoning_are_named(tmp_path):
    session = reasoned().user("and the tests?").call("c4").count(25_200, 4_992)
    output = lore("check", "-v", str(written(session, tmp_path))).out
    assert "the 3,264 cached tokens after it were not readable either way" in output


def test_possible_expiry_names_the_longest_lifetime(tmp_path):
    session = Rollout().meta().context("gpt-5.5").user("what is here?").call("c1").result("c1").count(20_000, 4_992)
    session.call("c2").result("c2").count(20_100, 19_968)
    session.second += 3_000
    path = written(session.user("and the tests?").call("c3").count(20_200, 4_992), tmp_path)
    assert breaks(path) == [(3, "LORE128", "expected")]
    assert "the cache lifetime is not recorded: 24.0 h at most" in lore("check", "-v", str(path)).out


@pytest.mark.parametrize(("read", "code"), [(19_968, "LORE116"), (19_712, "LORE116"), (4_992, "LORE128")])
def test_read_up_to_dropped_reasoning_rules_out_expiry(read, code, tmp_path):
    session = rollout().thought().call("c1").result("c1", "line " * 800).count(20_000, 4_992, output=1_200)
    session.thought().call("c2").result("c2", "line " * 800).count(24_000, 19_968, output=1_200)
    session.thought().message("assistant", "It is done.").count(26_200, 23_936, output=1_200)
    session.second += 3_000
    session.user("and the tests?").call("c3").count(24_000, read)
    (loss,) = losses(written(session, tmp_path))
    assert (loss[1], loss[2] > 2_000) == (code, True)


def test_reasoning_kept_at_a_steering_message_drops_later(tmp_path):
    session = reasoned().user("use pytest").call("c4").count(28_600, 27_264).call("c5").count(28_700, 28_544)
    session.user("and the docs?").call("c6").count(25_900, 23_936)
    assert breaks(written(session, tmp_path)) == [(7, "LORE116", "expected")]


def test_total_shows_that_a_steering_message_kept_reasoning(tmp_path):
    session = rollout().call("c1").result("c1", "line " * 800).count(20_000, 4_992)
    session.thought().message("assistant", "Done.").count(21_000, 19_968, output=1_600)
    session.user("use pytest").call("c3").count(22_700, 20_992).call("c4").count(22_800, 22_656)
    session.user("and the docs?").call("c5").count(22_300, 20_992)
    assert breaks(written(session, tmp_path)) == [(5, "LORE116", "expected")]


@pytest.mark.parametrize(("minutes", "code"), [(4, "LORE130"), (7, "LORE128")])
def test_expiry_between_five_and_ten_minutes_is_possible(minutes, code, tmp_path):
    session = rollout().call("c1").result("c1", "line " * 800).count(24_395, 23_424)
    session.call("c2").result("c2", "line " * 100).count(25_642, 24_320)
    session.second += minutes * 60
    session.user("and now?").call("c3").count(26_302, 4_992)
    assert [found[1] for found in breaks(written(session, tmp_path))] == [code]


def test_shrunk_total_does_not_rule_out_cleared_results(tmp_path):
    session = reasoned().user("and the tests?").call("c4").count(24_200, 4_992)
    findings = lore("check", "-v", "--json", str(written(session, tmp_path))).json["findings"]
    ruled = next(entry["ruled_out"] for entry in findings if entry["is_break"])
    assert [entry["out"] for entry in ruled if entry["reason"].startswith("compaction, cleared")] == [None]


# requests next to a conversation

TOOLS = [{"name": name, "description": "does " * 20, "input_schema": {"type": "object"}} for name in ("bash", "read")]
RECALL = {"name": "recall", "description": "finds " * 60, "input_schema": {"type": "object"}}
QUESTION = {"type": "text", "text": "Why does the build fail on the main branch since Tuesday, and who broke it?"}
FOUND = "Here is what was found in earlier sessions about the build: " + "a note; " * 90


def exchange(
    seconds: float, messages: list[Any], tools: list[Any], answer: list[Any], read: int, write: int, uncached: int = 3
) -> dict[str, Any]:  # fmt: skip
    marked = {"type": "ephemeral"}
    system = [{"type": "text", "text": "You are an engineer. " * 300, "cache_control": marked}]
    usage = {
        "input_tokens": uncached, "cache_creation_input_tokens": write, "cache_read_input_tokens": read,
        "output_tokens": 50,
    }  # fmt: skip
    body = {"model": "claude-sonnet-4-6", "max_tokens": 99, "system": system, "tools": tools, "messages": messages}
    response = {
        "id": f"msg_{int(seconds):020}", "type": "message", "role": "assistant", "model": body["model"],
        "content": answer, "stop_reason": "tool_use", "usage": usage,
    }  # fmt: skip
    return {"ts": 1_779_147_402 + seconds, "url": "https://api.anthropic.com/v1/messages", "request": body,
            "response": response}  # fmt: skip


def marked(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "cache_control": {"type": "ephemeral"}}


def captured(tmp_path: Path, *, inlined: bool, other_tools: bool) -> Path:
    """Write a conversation with a request between its two turns that holds another answer (`inlined`), other tools."""
    call = {"type": "tool_use", "id": "toolu_01NdMFBsEaTkNSDEZ8HgYWqY", "name": "recall", "input": {"query": "build"}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "see below"}
    aside = [{"type": "text", "text": "I searched all archives of earlier sessions for the failing build."}]
    aside = aside if inlined else [call]
    ask = {"role": "user", "content": [QUESTION]}
    between = [ask, {"role": "assistant", "content": aside},
               {"role": "user", "content": [{"type": "text", "text": FOUND}] if inlined else [result]}]  # fmt: skip
    after = [ask, {"role": "assistant", "content": [call]}, {"role": "user", "content": [marked(result)]}]
    tools = [*TOOLS, RECALL]
    lines = [
        exchange(0, [{"role": "user", "content": [marked(QUESTION)]}], tools, [call], 0, 2_500),
        exchange(
            5, between, TOOLS if other_tools else tools, [{"type": "text", "text": "A summary. " * 9}], 0, 1_800, 900
        ),
        exchange(9, after, tools, [{"type": "text", "text": "It was the cache. " * 9}], 2_500, 300),
    ]
    path = tmp_path / "capture.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_request_with_other_tools_is_no_turn(tmp_path):
    path = captured(tmp_path, inlined=True, other_tools=True)
    assert breaks(path) == []
    chains = [turn["chain"] for turn in lore("simulate", "--json", str(path)).json["turns"]]
    assert chains[0] == chains[2] != chains[1]


def test_request_with_other_tools_continuing_answer_is_turn(tmp_path):
    cache_breaks = breaks(captured(tmp_path, inlined=False, other_tools=True))
    assert (2, "LORE103", "waste") in cache_breaks


# cut-outs of recordings


@pytest.mark.corpus
@pytest.mark.skipif(not CASES.is_dir(), reason="no cut-outs: set LORE_CASES to the folder above them")
@pytest.mark.parametrize(("name", "expected"), [
    ("01", [(7, "LORE116", "expected")]),
    ("02", [(5, "LORE116", "expected")]),
    ("03", [(4, "LORE154", "expected")]),
    ("04", [(10, "LORE167", "waste")]),
    ("05", [(8, "LORE128", "expected")]),
    ("06", [(12, "LORE166", "waste")]),
    ("07", [(2, "LORE168", "waste")]),
    ("08", [(5, "LORE128", "expected")]),
    ("09", [(5, "LORE120", "waste"), (6, "LORE120", "waste")]),
    ("10", []),
    ("11", [(2, "LORE130", "unattributable")]),
    ("12", [(3, "LORE130", "unattributable")]),
    ("13", [(4, "LORE130", "unattributable")]),
    ("14", [(2, "LORE126", "waste")]),  # of the conversation: 341 tokens, by memory in its system prompt
    ("15", []),
])  # fmt: skip
def test_excerpt_of_recording_gets_the_right_cause(name, expected):
    (path,) = CASES.glob(f"{name}-*")
    assert breaks(path) == expected


@pytest.mark.corpus
@pytest.mark.skipif(not CASES.is_dir(), reason="no cut-outs: set LORE_CASES to the folder above them")
def test_deepseek_excerpt_is_predicted_with_the_answer():
    (path,) = CASES.glob("15-*")
    agreement = lore("simulate", "--json", str(path)).json["agreement"]
    assert agreement["within_2_percent"] == agreement["turns"] == 4
