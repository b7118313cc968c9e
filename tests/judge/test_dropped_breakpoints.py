"""LORE114 of two requests: breakpoints that the previous request had are missing or precede what it cached."""

from helpers.each import each
from judge.captures import MARK, SYSTEM, asks, break_codes, call, judged, text, tool, usage
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
    (asks(*TWO), usage(0, 9200), ["LORE301"], None),
])  # fmt: skip
def test_breakpoints_that_were_dropped_explain_a_fall(tmp_path, body, bill, codes, now):
    found, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 9000)), call(10, body, bill))
    assert break_codes(found[1])[:1] == codes
    if now is not None:
        cause = found[1].causes[0]
        assert (cause.kind, cause.evidence) == ("unattributable", BreakpointsDropped(2, now))
        assert found[1].lost_tokens == 9000 - bill["cache_read_input_tokens"]


def test_marked_requests_to_qwen_need_further_breakpoints(tmp_path):
    """Model Studio uses its explicit cache for a request with breakpoints, and reads up to these alone."""
    calls = []
    for number in range(4):
        talk = [part for step in range(number + 1) for part in (
            {"role": "user", "content": f"{step}: {'now what? ' * 300}"}, {"role": "assistant", "content": f"{step}."},
        )]  # fmt: skip
        system = {"role": "system", "content": [{"type": "text", "text": SYSTEM, **MARK}]}
        bill = {
            "prompt_tokens": 7_000 + 900 * number, "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 6_000 if number else 0},
        }  # fmt: skip
        url = "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"
        body = {"model": "qwen3.6-plus", "messages": [system, *talk[:-1]]}
        calls.append(call(60 * number, body, bill, url=url))
    _, late = judged(tmp_path, *calls)
    assert [(str(one.code), one.json_path) for one in late] == [("LORE114", "messages[0].content[0]")]
