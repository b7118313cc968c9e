"""`lint` and `check` have one rule set: what lint says of a request, check says of its recording."""

from __future__ import annotations

import pytest

from cli.running import lore, put
from cli.test_lint import CLOCK, GOOD, LONG, MARK, REFUSED, body, text
from model.making import dumps

TOOLS = [{"name": name, "description": "d", "input_schema": {"type": "object"}} for name in ("write", "read")]
POINT = {"cachePoint": {"type": "default"}}
STUCK = {  # the only cache point is on the first message
    "modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "messages": [
        {"role": "user", "content": [{"text": LONG}, POINT]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "read", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": LONG * 4}]}}]},
        {"role": "assistant", "content": [{"text": "I read it."}]},
        {"role": "user", "content": [{"text": "Go on."}]},
    ],
}
UNMARKED = {**GOOD, "system": LONG}
SHORT = body(words="Be brief.")
OPENAI = {"model": "gpt-5.4", "instructions": LONG, "input": [{"role": "user", "content": "Go."}]}
BODIES = {
    "refused": REFUSED, "clock": CLOCK, "stuck": STUCK, "unmarked": UNMARKED, "short": SHORT,
    "tiny": {**GOOD, "system": "Be brief."},
    "unsorted": body(tools=TOOLS), "openai": OPENAI, "key": {**OPENAI, "prompt_cache_key": "k" * 65},
    "five": body(*(text("part", MARK) for _ in range(5))),
}  # fmt: skip


def codes(command: str, *paths: str) -> set[tuple[str, str]]:
    return {(finding["code"], finding["fix"]) for finding in lore(command, *paths, "-v", "--json").json["findings"]}


@pytest.mark.parametrize("name", BODIES)
def test_check_reports_what_lint_reports(name):
    put("a.json", dumps(BODIES[name]))
    assert codes("lint", "a.json")
    assert codes("check", "a.json") >= codes("lint", "a.json")


def test_check_reports_advice_once_a_recording():
    bodies = [body(text(f"Task {number}: look at file {number}."), tools=TOOLS) for number in range(5)]
    put("a.jsonl", b"".join(dumps(one) + b"\n" for one in bodies))
    found = lore("check", "a.jsonl", "-v", "--json").json["findings"]
    assert [finding["code"] for finding in found].count("LORE183") == 1


def next_of(first: dict) -> dict:
    messages = [*first["messages"], {"role": "assistant", "content": "Done."}, {"role": "user", "content": "More."}]
    system = [{**block, "text": block["text"].replace("09:00:12", "09:01:40")} for block in first["system"]]
    return {**first, "system": system, "messages": messages}


@pytest.mark.parametrize("command", ["check", "lint"])
def test_two_named_files_are_judged_like_one(command):
    first = body(words="The current time is 09:00:12.\n" + LONG)
    put("a.json", dumps(first))
    put("b.json", dumps(next_of(first)))
    put("both.jsonl", dumps(first) + b"\n" + dumps(next_of(first)) + b"\n")
    apart, together = (lore(command, *names, "--json") for names in (("a.json", "b.json"), ("both.jsonl",)))
    assert apart.code == together.code == 1
    kept = ("code", "severity", "chain", "turn", "message", "lost_tokens", "json_path")
    shown = [[{name: each[name] for name in kept} for each in ran.json["findings"]] for ran in (apart, together)]
    assert shown[0] == shown[1]
    assert {each["path"] for each in apart.json["findings"]} <= {"a.json", "b.json"}
    assert apart.json["summary"] == {**together.json["summary"], "files": 2}


def test_simulate_joins_named_bodies_like_check():
    first = body(words="The current time is 09:00:12.\n" + LONG)
    put("a.json", dumps(first))
    put("b.json", dumps(next_of(first)))
    put("both.jsonl", dumps(first) + b"\n" + dumps(next_of(first)) + b"\n")
    apart, together = (lore("simulate", *names, "--json").json for names in (("a.json", "b.json"), ("both.jsonl",)))
    assert apart["totals"] == together["totals"]
    assert [turn["predicted"] for turn in apart["turns"]] == [turn["predicted"] for turn in together["turns"]]


@pytest.mark.parametrize(
    ("request_body", "code"),
    [(GOOD, 0), (UNMARKED, 1), (SHORT, 1), (body(words="The current time is 09:00:12.\n" + LONG), 1), (CLOCK, 0)],
    ids=["good", "unmarked", "short", "clock-first", "clock-last"],
)
def test_lint_exits_1_if_nothing_is_cached(request_body, code):
    if request_body is CLOCK:  # everything before the clock has a breakpoint of its own
        request_body = {**CLOCK, "system": [text(LONG, MARK), text("The current time is 09:00:12.", MARK)]}
    assert lore("lint", put("a.json", dumps(request_body))).code == code


def test_constant_example_of_a_time_is_no_clock():
    tool = {
        "name": "CronCreate",
        "input_schema": {"type": "object"},
        "description": 'Schedule a prompt. Examples: "remind me at 2:30pm today", "at 9am".',
    }
    put("a.json", dumps(body(tools=[tool])))
    assert not codes("lint", "a.json") & {"LORE151", "LORE153", "LORE182"}
