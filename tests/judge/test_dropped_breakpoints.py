"""LORE114 of two requests: breakpoints that the previous request had are missing or precede what it cached."""

import pytest

from helpers.each import each
from judge.captures import MARK, SYSTEM, asks, break_codes, call, judged, text, tool, usage
from lore.judge.findings import findings_of
from lore.model.cause import Place
from lore.model.evidence import BreakpointsDropped

ONE = text("user", "Find the bug. " * 400)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
BASE = {"model": "claude-opus-5", "max_tokens": 4096, "tools": [tool("ls"), tool("cat")]}


def unmarked(*marks):
    """Return a request whose system prompt alone has a breakpoint, if any."""
    return {**BASE, "system": [{"type": "text", "text": SYSTEM, **dict(marks)}], "messages": [*TWO]}


@each("body, bill, codes, now", [
    (unmarked(), usage(0, 0, 9200), ["LORE114"], 0),
    (unmarked(*MARK.items()), usage(6500, 0, 2700), ["LORE114"], 1),
    (unmarked(), usage(0, 9200), ["LORE301"], None),  # a gateway set breakpoints
    (unmarked(), usage(7000, 0, 2200), ["LORE301"], None),
    (asks(*TWO), usage(0, 9200), ["LORE301"], None),
])  # fmt: skip
def test_breakpoints_that_were_dropped_explain_a_fall(tmp_path, body, bill, codes, now):
    verdicts, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 9000)), call(10, body, bill))
    assert break_codes(verdicts[1])[:1] == codes
    if now is not None:
        cause = verdicts[1].causes[0]
        assert (cause.kind, cause.evidence) == ("waste", BreakpointsDropped(2, now))
        assert verdicts[1].lost_tokens == 9000 - bill["cache_read_input_tokens"]


AUTO = {"cache_control": {"type": "ephemeral"}}


@each("before, after, codes", [
    (AUTO, {}, ["LORE114"]), (AUTO, AUTO, ["LORE301"]), ({}, AUTO, ["LORE301"]),
])  # fmt: skip
def test_automatic_breakpoint_that_was_dropped_explains_a_fall(tmp_path, before, after, codes):
    bodies = {**unmarked(), "messages": [ONE], **before}, {**unmarked(), **after}
    calls = call(0, bodies[0], usage(0, 9000)), call(10, bodies[1], usage(0, 0, 9200))
    verdicts, _ = judged(tmp_path, *calls)
    assert break_codes(verdicts[1])[:1] == codes


OTHER_SYSTEM = [{"type": "text", "text": SYSTEM + "Today is 2026-09-02."}]


@pytest.mark.parametrize(("body", "at", "read", "code", "also"), [
    ({**unmarked(), "messages": [*TWO[:2], text("user", "Forget it. " * 60)]}, 20, 0, "LORE114", ["LORE143"]),
    ({**unmarked(), "system": OTHER_SYSTEM}, 20, 0, "LORE114", ["LORE100"]),
    ({**unmarked(), "betas": ["context-1m-2025-08-07"]}, 20, 0, "LORE114", ["LORE122"]),
    ({**unmarked(), "system": OTHER_SYSTEM}, 900, 0, "LORE128", ["LORE100"]),
    ({**unmarked(), "model": "claude-sonnet-5"}, 20, 0, "LORE119", []),
    (asks(*TWO[:2], text("user", "Forget it. " * 60)), 20, 8400, "LORE143", []),
])  # fmt: skip
def test_request_without_breakpoints_reads_nothing_whatever_changed(tmp_path, body, at, read, code, also):
    calls = [call(0, asks(ONE), usage(0, 8400)), call(10, asks(*TWO), usage(8400, 600))]
    verdicts, _ = judged(tmp_path, *calls, call(at, body, usage(read, 0, 9000 - read)))
    lead = verdicts[2].causes[0]
    assert (lead.code, [cause.code for cause in lead.also]) == (code, also)


def test_lost_tokens_without_breakpoints_exclude_a_new_question(tmp_path):
    rewound = {**unmarked(), "messages": [*TWO[:2], text("user", "Forget it. " * 300)]}
    calls = [call(0, asks(ONE), usage(0, 8400)), call(10, asks(*TWO), usage(8400, 600))]
    verdicts, _ = judged(tmp_path, *calls, call(20, rewound, usage(0, 0, 9600)))
    assert 8_000 < verdicts[2].lost_tokens < 8_900
    assert verdicts[2].pair is not None
    ((_, finding),) = findings_of(verdicts[2].pair, Place("a.jsonl"))
    assert finding.json_path is None  # it is about usage, not about a difference


def talk(steps, words):
    said = ((text("user", f"{step}: {'now what? ' * words}"), text("assistant", f"{step}.")) for step in range(steps))
    return [message for pair in said for message in pair][:-1]


def test_marked_requests_to_qwen_need_further_breakpoints(tmp_path):
    """Model Studio uses its explicit cache for a request with breakpoints, and reads up to these alone."""
    calls = []
    for number in range(4):
        system = {"role": "system", "content": [{"type": "text", "text": SYSTEM, **MARK}]}
        bill = {
            "prompt_tokens": 7_000 + 900 * number, "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 6_000 if number else 0},
        }  # fmt: skip
        url = "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"
        body = {"model": "qwen3.6-plus", "messages": [system, *talk(number + 1, 300)]}
        calls.append(call(60 * number, body, bill, url=url))
    _, final_findings = judged(tmp_path, *calls)
    assert [(str(finding.code), finding.json_path) for finding in final_findings] == [
        ("LORE114", "messages[0].content[0]")
    ]


@pytest.mark.parametrize("read", [6_500, 0])
def test_history_without_breakpoint_leaves_out_a_cache_break(tmp_path, read):
    calls = []
    for number, kept in enumerate((0, 6_500, read)):
        body = {**unmarked(*MARK.items()), "messages": talk(number + 1, 600)}
        calls.append(call(60 * number, body, usage(kept, 6_500 - kept, 1_800 * (number + 1))))
    verdicts, final_findings = judged(tmp_path, *calls)
    (finding,) = [finding for finding in final_findings if finding.code == "LORE114"]
    assert verdicts[2].lost_tokens == 6_500 - read
    of_turns = 1_800 + (3_600 if read else 0)  # of the second and third request
    assert finding.lost_tokens == pytest.approx(of_turns, rel=0.2)
