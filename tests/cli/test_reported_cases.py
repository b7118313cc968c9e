"""Public bug reports of 2026, rebuilt as inputs: each is answered as its folder says is right.

The inputs lie in LORE_CASES, else in ../shared/cases beside the project; without them these tests skip. The kinds of
fault that they show are tested with inputs of our own in the tests of their rooms.
"""

import os
from pathlib import Path

import pytest

from cli.running import lore
from conftest import ROOT

CASES = Path(os.environ.get("LORE_CASES") or ROOT.parent / "shared" / "cases")
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CASES.is_dir(), reason="no reported cases: set LORE_CASES to their folder"),
]


def case(name):
    """Return an input by the beginning of its folder's name and the name in it."""
    folder, _, pattern = name.partition("/")
    if not pattern:
        return next(CASES.glob(f"*/{folder}*"))
    return next(next(CASES.glob(f"reports/{folder}*")).glob(pattern))


def codes(*args):
    """Return the exit code of a command, and the codes and severities of its findings."""
    result = lore(*args, "--json")
    return result.code, {
        (finding["code"], finding["severity"]) for finding in result.json["findings"] if finding["severity"] != "note"
    }


def totals(*args):
    """Return requests, uncached, read and output tokens as `simulate` sums them."""
    turns = lore("simulate", "--json", *args).json["turns"]
    billed = [turn["billed"] or {} for turn in turns]
    names = ("uncached_tokens", "read_tokens", "output_tokens")
    return len(turns), *(sum(usage.get(name) or 0 for usage in billed) for name in names)


@pytest.mark.parametrize(("name", "exit_code", "expected"), [
    ("04-openrouter/capture.jsonl", 1, {("LORE152", "error"), ("LORE231", "warning")}),
    ("06-nova/capture.jsonl", 1, {("LORE180", "error"), ("LORE231", "warning")}),
    ("09-cachepoint/capture.jsonl", 0, {("LORE114", "warning")}),
    ("11-cache-key/capture.jsonl", 1, {("LORE122", "error")}),
    ("13-gpt56/capture.jsonl", 1, {("LORE133", "error")}),
    ("14-openrouter/capture.jsonl", 1, {("LORE170", "error")}),
    ("14-openrouter/min.jsonl", 0, {("LORE301", "warning")}),
    ("14-openrouter/variant-native-1h.jsonl", 0, {("LORE301", "warning")}),
    ("14-openrouter/variant-native-1h-split.jsonl", 0, {("LORE301", "warning")}),
    ("19-streaming/projects", 0, set()),
    ("24-total-tokens/capture.jsonl", 1, {("LORE109", "error"), ("LORE151", "warning")}),
    ("25-billing-header/capture.jsonl", 1, {("LORE107", "error")}),
    ("27-mcp/capture.jsonl", 1, {("LORE102", "error")}),
    ("R2-codex/rollout*", 0, {("LORE130", "warning")}),
    ("R4-pi/min.jsonl", 0, set()),
    ("R6-rig", 0, set()),
    ("R7-rig/min.jsonl", 0, set()),
    ("01_flat_reads.jsonl", 0, {("LORE307", "warning")}),
])  # fmt: skip
def test_check_gives_the_right_findings(name, exit_code, expected):
    assert codes("check", str(case(name))) == (exit_code, expected)


@pytest.mark.parametrize(("name", "code", "place"), [
    ("04-openrouter/request.json", "LORE152", "messages[7].content[0]"),
    ("05-ttl/request.json", "LORE181", "messages[15].content[1]"),
    ("05-ttl/agno-request.json", "LORE181", "system[0]"),
    ("06-nova/capture.jsonl", "LORE180", "toolConfig.tools[17]"),
    ("09-cachepoint/capture.jsonl", "LORE114", "messages[0].content[0]"),
])  # fmt: skip
def test_lint_names_the_place(name, code, place):
    findings = lore("lint", str(case(name)), "--json").json["findings"]
    assert (code, place) in [(finding["code"], finding["json_path"]) for finding in findings]


def test_lint_takes_no_example_for_a_clock():
    findings = lore("lint", str(case("R11-lint/body.json")), "--json").json["findings"]
    assert not [finding for finding in findings if "time of day" in finding["message"]]


@pytest.mark.parametrize(("name", "sums"), [
    ("17-codex/sessions", (2, 23_404, 20_480, 11)),
    ("17-codex/sessions/2026/07/16/*0b.jsonl", (0, 0, 0, 0)),
    ("19-streaming/projects", (4, 7, 88_477, 1_954)),
    ("R2-codex/rollout*", (5, 131_091, 16_384, 1_425)),
    ("R5-gemini/session*", (31, 126_066, 927_523, 29_350)),
])  # fmt: skip
def test_simulate_counts_what_was_billed(name, sums):
    assert totals(str(case(name))) == sums


@pytest.mark.parametrize(("name", "previous", "right", "code", "path"), [
    ("13-gpt56", "turn3.json", "turn4.json", "LORE133", "messages[1].content"),
    ("23-date", "turn1.json", "turn2.json", "LORE101", "messages[0].content[0].text"),
    ("24-total-tokens", "turn3.json", "turn4.json", "LORE109", "system[1].text"),
    ("25-billing-header", "turn1.json", "turn2.json", "LORE107", "messages[0].content"),
    ("27-mcp", "turn1.json", "turn2.json", "LORE102", "tools[6].name"),
])  # fmt: skip
def test_diff_prefix_names_cause_and_place(name, previous, right, code, path):
    answer = lore("diff-prefix", "--json", *(str(case(f"{name}/{side}")) for side in (previous, right))).json
    assert (answer["causes"][0]["code"], answer["divergence"]["path"]) == (code, path)
    assert answer["relation"] == "diverged"


@pytest.mark.parametrize(("name", "recorder", "turns"), [
    ("21-copilot/session-state", "copilot", 8), ("R3-pi/min.jsonl", "pi", 1),
    ("R10-proxy/proxy-request.json", "proxy", 1),
])  # fmt: skip
def test_recording_is_read_in_its_format(name, recorder, turns):
    path = case(name)
    file = next(path.rglob("*.jsonl")) if path.is_dir() else path
    folded = lore("fold", "--json", str(file)).json
    assert (folded["session"]["format"], folded["usage"]["turns"]) == (recorder, turns)
