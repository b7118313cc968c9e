"""Values that return to what they were before the previous change, and caches that are read in part."""

import json

import pytest

from cli.running import lore
from formats.codex import Rollout
from judge.captures import SYSTEM, TEXT, asks, break_codes, call, judged, put, text, usage


def breaks_by_turn(tmp_path, efforts):
    """Return the cache breaks, by turn, of a Codex log whose user sets another effort with every prompt."""
    session = Rollout().meta().message("user", "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>")
    whole = 20_000
    for number, effort in enumerate(efforts):
        session.context(effort=effort).user(f"step {number}").call(f"a{number}").count(whole, 4_992)
        session.result(f"a{number}", "line " * 300).message("assistant", "done").count(whole + 400, whole - 32)
        whole += 1_000
    path = tmp_path / "rollout-2026-04-08T08-00-00-t-1.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in session.lines))
    findings = lore("check", "-v", "--json", str(path)).json["findings"]
    return {finding["turn"]: finding for finding in findings if finding["is_break"]}


def test_value_that_returns_is_reported_as_alternating(tmp_path):
    breaks = breaks_by_turn(tmp_path, ("high", "low", "high", "low"))
    assert [turn for turn, finding in breaks.items() if "the value alternates" in finding["message"]] == [5, 7]
    fixes = [finding["fix"].startswith("Keep one of the two values") for finding in breaks.values()]
    assert fixes == [False, True, True]


def test_value_that_changes_each_time_is_not_alternating(tmp_path):
    breaks = breaks_by_turn(tmp_path, ("high", "low", "medium", "minimal"))
    assert list(breaks) == [3, 5, 7]
    assert not [finding for finding in breaks.values() if "the value alternates" in finding["message"]]


def test_tools_that_come_and_go_contradict_no_usage(tmp_path):
    """The third request has the first one's tools, and reads what that left; its history has plain texts by then."""
    history, calls = [], []
    for number, bill in enumerate((usage(0, 6_000), usage(0, 5_900), usage(6_000, 300))):
        tools = ("ls", "cat") if number == 1 else ("ls", "cat", "find")
        calls.append(call(number * 30.0, asks(*history, text("user", f"{number}: {TEXT}"), tools=tools), bill))
        history += [{"role": "user", "content": f"{number}: {TEXT}"}, {"role": "assistant", "content": "done"}]
    verdicts, _ = judged(tmp_path, *calls)
    codes = [[cause.code for cause in verdict.causes if cause.kind != "expected"] for verdict in verdicts]
    assert codes == [[], ["LORE103"], []]


def ask_openai(model, texts, usages, **fields):
    """Return calls of OpenAI's chat API; `fields` has one value of each parameter for each request."""
    calls = []
    for number, (words, counts) in enumerate(zip(texts, usages, strict=True)):
        body = {"model": model, "messages": words}
        body |= {name: values[number] for name, values in fields.items()}
        whole, read, write = counts
        details = {"cached_tokens": read} | ({"cache_write_tokens": write} if write else {})
        bill = {"prompt_tokens": whole, "completion_tokens": 9, "prompt_tokens_details": details}
        calls.append(call(number * 10.0, body, bill, url="https://api.openai.com/v1/chat/completions"))
    return calls


@pytest.mark.parametrize(("keys", "fix"), [({}, "Send one prompt_cache_key"), ({"prompt_cache_key": "k"}, "Compare")])
def test_missing_key_is_named_if_nothing_was_read(tmp_path, keys, fix):
    asked = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TEXT}]
    texts, usages = (
        [asked, [*asked, *asked[1:]], [*asked, *asked[1:] * 2]],
        [(6_500, 0, 0), (6_600, 6_400, 0), (6_700, 0, 0)],
    )
    fields = {name: [value] * 3 for name, value in keys.items()}
    path = str(put(tmp_path, *ask_openai("gpt-5.4", texts, usages, **fields)))
    fixes = [found["fix"] for found in lore("check", "--json", path).json["findings"] if found["code"] == "LORE301"]
    assert [found.startswith(fix) for found in fixes] == [True]


def test_cache_keys_that_alternate_lose_part_each_time(tmp_path):
    """Two keys in turns were called costless once each cache held a part of the prompt."""
    history = [{"role": "user", "content": TEXT * 50}, {"role": "assistant", "content": "done"}]
    system = {"role": "system", "content": SYSTEM}
    texts = [[system, *history * number, history[0]] for number in range(1, 6)]
    usages = [(7_000, 0, 0), (7_900, 0, 0), (8_800, 6_912, 0), (9_700, 7_808, 0), (10_600, 8_704, 0)]
    verdicts, _ = judged(tmp_path, *ask_openai("gpt-5.4", texts, usages, prompt_cache_key=["a", "b", "a", "b", "a"]))
    codes = [[(cause.code, cause.kind) for cause in verdict.causes] for verdict in verdicts[1:]]
    assert codes == [[("LORE122", "waste")]] * 4
    assert "alternates" in verdicts[4].causes[0].qualifiers


def test_rewritten_last_message_after_explicit_breakpoint_is_noted(tmp_path):
    """After the fix of LORE133 a read that ends at the explicit breakpoint had no cause."""
    part = {"type": "text", "text": SYSTEM, "prompt_cache_breakpoint": {"mode": "explicit"}}
    steps = [{"role": "user", "content": TEXT * 30 * number} for number in range(1, 5)]
    texts = [[{"role": "system", "content": [part]}, step] for step in steps]
    usages = [(6_500, 0, 6_500), (7_800, 6_020, 1_780), (8_400, 6_020, 2_380), (9_000, 6_020, 2_980)]
    verdicts, _ = judged(tmp_path, *ask_openai("gpt-5.6-luna", texts, usages))
    assert [[cause.code for cause in verdict.causes] for verdict in verdicts[1:]] == [["LORE146"]] * 3


def test_new_end_of_every_request_loses_the_whole_prompt(tmp_path):
    """A state that ends each request was called a replaced tail, and the fall of the read unexplained."""
    system, ask = {"role": "system", "content": SYSTEM}, {"role": "user", "content": "Find the bug."}
    loop = [
        part for number in range(3)
        for part in ({"role": "assistant", "content": f"step {number}"}, {"role": "user", "content": TEXT * 30})
    ]  # fmt: skip
    texts = [
        [system, ask, *loop[: 2 * number], {"role": "user", "content": f"<state>line {number}</state>"}]
        for number in range(4)
    ]
    bills = [(6_000 + 500 * number, 0, 6_000 + 500 * number) for number in range(4)]
    verdicts, _ = judged(tmp_path, *ask_openai("gpt-5.6-terra", texts, bills))
    assert [[cause.code for cause in verdict.causes] for verdict in verdicts[1:]] == [["LORE133"]] * 3
    assert [verdict.lost_tokens for verdict in verdicts[1:]] == [6_000, 6_500, 7_000]


def test_system_prompt_that_flips_is_charged_each_time(tmp_path):
    """Each variant reads what it had sent itself; what the other one sent in between is billed again."""
    history = [{"role": "user", "content": TEXT * 50}, {"role": "assistant", "content": "done"}]
    systems = [{"role": "system", "content": SYSTEM + ending} for ending in ("", "\nDelegate first.")]
    texts = [[systems[number % 2], *history * number, history[0]] for number in range(1, 7)]
    usages = [(7_900, 0, 0), (8_800, 6_912, 0), (9_700, 7_808, 0), (10_600, 8_704, 0), (11_500, 9_600, 0)]
    verdicts, _ = judged(tmp_path, *ask_openai("gpt-5.4", texts[:5], usages))
    codes = [[(cause.code, cause.kind) for cause in verdict.causes] for verdict in verdicts[1:]]
    assert codes == [[("LORE100", "waste")]] * 4
    assert [verdict.lost_tokens for verdict in verdicts[2:]] == [896, 896, 896]
    assert ["alternates" in verdict.causes[0].qualifiers for verdict in verdicts[1:]] == [False, True, True, True]


WATCHER = "You watch an agent at work and note what a person should know of it. " * 200


def loop(question, system, tools, begin):
    """Return four calls of one loop, every second of a recording: each reads what the previous one left."""
    messages, calls = [text("user", question)], []
    for number in range(4):
        bill = usage(0, begin) if number == 0 else usage(begin + 200 * (number - 1), 200)
        calls.append(call(2.0 * number, asks(*messages, system=system, tools=tools), bill))
        messages += (text("assistant", f"{begin} {number}, as I said before."), text("user", f"go on {number}"))
    return calls


@pytest.mark.parametrize("has_ids", [False, True])
@pytest.mark.parametrize("question", ["Find the bug. " * 60, "Note what happens. " * 60])
@pytest.mark.parametrize(("system", "tools"), [
    (WATCHER, ("note", "read")), (WATCHER, ("ls", "cat")), (SYSTEM, ("note", "read"))
])  # fmt: skip
@pytest.mark.parametrize("gap", [1.0, 0.4])
def test_background_loop_is_no_part_of_main_loop(tmp_path, system, tools, question, has_ids, gap):
    """Its first request was compared with the main loop's: other tools, another system prompt, or sent together."""
    calls = loop("Find the bug. " * 60, SYSTEM, ("ls", "cat"), 7_000)
    for own, other in zip(calls, loop(question, system, tools, 3_000), strict=True):
        for part in ("request", "response"):
            other[part]["timestamp"] = own[part]["timestamp"] + gap
        other["response"]["body"]["id"] = own["response"]["body"]["id"] + "-b"
        if has_ids:
            for number, exchange in enumerate((own, other)):
                exchange["request"]["headers"] = {"x-claude-code-session-id": f"session-{number}"}
        calls = [*calls, other]
    calls.sort(key=lambda exchange: exchange["request"]["timestamp"])
    verdicts, _ = judged(tmp_path, *calls)
    assert [break_codes(verdict) for verdict in verdicts] == [[]] * 8
