"""Verdicts about session logs of providers whose caches take no breakpoints."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from cli.running import lore
from formats.codex import Rollout
from judge import pi_sessions as pi
from judge.captures import SYSTEM, asks, break_codes, call, judged, text, usage
from laws.law_11 import READ, assert_quick_judge_agrees
from lore.recording.base import Problems

BEGIN = datetime(2026, 5, 1, 9, tzinfo=UTC)


def log(tmp_path, bills, model="gpt-5.4", dialect="openai-responses", thoughts=0):
    """A session log of another program: `bills` are (seconds since the begin, whole prompt, read)."""
    no_input = dict.fromkeys(("uncached_tokens", "read_tokens", "write_tokens"), 0)
    thoughts_usage = {**no_input, "output_tokens": thoughts, "kind": "thoughts"}

    def at(seconds):
        return (BEGIN + timedelta(seconds=seconds)).isoformat()

    records = [{"kind": "session_started", "session_id": "s", "origin": "codex", "model": model,
                "dialect": dialect, "at": at(0)},
               {"kind": "append", "item": {"type": "user_message", "uuid": "u", "text": "Why?"}}]  # fmt: skip
    for turn, (seconds, whole, read) in enumerate(bills, 1):
        call = {"type": "tool_call", "uuid": f"c{turn}", "call_id": f"c{turn}", "name": "shell", "input": {},
                "status": "completed", "output": "line " * 1_600, "response_id": f"r{turn}"}  # fmt: skip
        usage = {"uncached_tokens": whole - read, "read_tokens": read, "output_tokens": 90,
                 "iterations": [thoughts_usage] * bool(thoughts)}  # fmt: skip
        records += [{"kind": "turn_started", "turn": turn, "at": at(seconds)}, {"kind": "append", "item": call},
                    {"kind": "turn_completed", "turn": turn, "at": at(seconds + 5), "usage": usage,
                     "response_id": f"r{turn}"}]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def written(tmp_path, rollout):
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(rollout.data())
    return path


def only_finding(path):
    (finding,) = json.loads(lore("check", str(path), "--json").out)["findings"]
    return finding


@pytest.mark.parametrize(("at", "read", "code", "lifetime"), [
    (9_000, 9_600, "LORE128", 600.0),  # was shown as a miss of the server's, the lifetime as not recorded
    (465, 9_600, "LORE128", None), (465, 9_728, "LORE130", None), (325, 0, "LORE130", None),
])  # fmt: skip
def test_documented_lifetimes_explain_read_of_the_head(at, read, code, lifetime, tmp_path):
    finding = only_finding(log(tmp_path, [(0, 20_000, 9_600), (30, 21_000, 19_968), (at, 22_000, read)]))
    assert (finding["code"], finding["evidence"].get("lifetime")) == (code, lifetime)


@pytest.mark.parametrize(("falls", "code"), [(1, "LORE117"), (3, "LORE301")])
def test_shorter_prompt_explains_no_read_at_a_floor(falls, code, tmp_path):
    bills, size = [(0, 40_000, 0), (10, 41_000, 40_000)], 41_000
    for number in range(2, 2 + 2 * falls, 2):  # to the floor, and back
        bills += [(10 * number, size + 500, 14_000), (10 * number + 10, size + 1_000, size)]
        size += 1_000
    path = str(log(tmp_path, [*bills, (200, size - 3_000, 14_200)]))
    findings = lore("check", "-v", "--json", path).json["findings"]
    assert [found["code"] for found in findings if found["turn"] == len(bills) + 1] == [code]


def test_prompt_shrunk_by_itself_is_no_waste(tmp_path):
    """Two requests of one turn lost 4,456 tokens in between; nothing shows that it was the client."""
    # nothing is missed if the rest was read: usage of parallel calls counted a share of the prompt
    assert of_turns(log(tmp_path, [(0, 20_000, 9_600), (30, 30_000, 19_968), (60, 10_000, 9_984)])) == {}
    finding = only_finding(log(tmp_path, [(0, 20_000, 9_600), (30, 30_000, 19_968), (60, 26_000, 9_600)]))
    assert (finding["code"], finding["kind"], finding["strength"]) == ("LORE117", "unattributable", "weak")
    assert "the client or the provider removed something" in finding["message"]


def test_interruption_explains_no_read_of_an_implicit_cache(tmp_path):
    rollout = Rollout().meta().context().user("look").call("c1").result("c1").count(30_000, 9_984)
    rollout.call("c2").result("c2").count(31_000, 29_952).event("turn_aborted", turn_id="t", reason="interrupted")
    rollout.user("go on").message("assistant", "ok").count(32_000, 9_984)
    assert only_finding(written(tmp_path, rollout))["code"] == "LORE130"


@pytest.mark.parametrize(("thoughts", "code"), [(1_000, "LORE301"), (900, "LORE117")])
def test_prompt_shrunk_by_thoughts_was_not_cleared(thoughts, code, tmp_path):
    """Gemini counts the thoughts since the user's prompt in some requests, and leaves them out of others."""
    bills = [(0, 20_000, 9_600), (30, 30_000, 19_968), (60, 25_600, 9_600)]
    finding = only_finding(log(tmp_path, bills, "gemini-3-pro", "gemini", thoughts))
    assert (finding["code"], finding["kind"]) == (code, "unattributable")


@pytest.mark.parametrize(("read", "code"), [(98_048, "LORE116"), (97_920, "LORE130"), (102_400, "LORE116")])
def test_read_two_percent_short_of_reasoning_is_exact(read, code, tmp_path):
    """Reads of long prompts often stop a few blocks before the end of what is cached."""
    rollout = Rollout().meta().context().user("look").thought().call("c1").result("c1").count(100_000, 9_984)
    rollout.thought().call("c2").result("c2").count(104_000, 99_968).message("assistant", "done").count(
        108_000, 103_936
    )
    rollout.user("and now?").thought().message("assistant", "that, too").count(105_000, read)
    finding = only_finding(written(tmp_path, rollout))
    assert finding["code"] == code
    assert code != "LORE116" or finding["evidence"]["tokens"] >= read  # of a higher read the place is a later one


@pytest.mark.parametrize(("read", "entries"), [(104_960, 6), (99_968, 1)])
def test_read_shows_which_reasoning_was_dropped(read, entries, tmp_path):
    """The second prompt seemed to keep the reasoning of the first one, whose place was then named for the third."""
    rollout = Rollout().meta().context().user("look").thought().call("c1").result("c1").count(100_000, 9_984)
    rollout.thought().message("assistant", "done").count(104_000, 99_968)
    rollout.user("and now?").thought().call("c2").result("c2").count(105_000, 103_936)
    rollout.thought().call("c3").result("c3").count(110_000, 104_960)
    rollout.thought().message("assistant", "that, too").count(125_000, 109_952)
    rollout.user("thanks").message("assistant", "welcome").count(124_900, read)
    finding = only_finding(written(tmp_path, rollout))
    assert (finding["code"], finding["evidence"]["exact"]) == ("LORE116", True)
    assert finding["evidence"]["entries"] == entries


@pytest.mark.parametrize(("before", "read", "codes"), [
    (40_064, 99_968, ["LORE116"]),
    (99_968, 99_968, ["LORE116"]),
    (40_064, 102_912, []),
    (40_064, 69_888, ["LORE130"]),
])  # fmt: skip
def test_dropped_reasoning_is_named_after_poor_read(before, read, codes, tmp_path):
    """The request before the prompt read so little that the prompt's read of all that it could was no fall."""
    rollout = Rollout().meta().context().user("look").thought().call("c1").result("c1").count(100_000, 9_984)
    rollout.thought().call("c2").result("c2").count(104_000, 99_968)
    rollout.thought().message("assistant", "done").count(108_000, before)
    rollout.user("and now?").thought().message("assistant", "that, too").count(105_000, read)
    path = written(tmp_path, rollout)
    findings = json.loads(lore("check", str(path), "--json").out)["findings"]
    assert [finding["code"] for finding in findings if finding["turn"] == 4] == codes
    assert_quick_judge_agrees(READ.open(str(path), Problems()).turns())


@pytest.mark.parametrize(("read", "code"), [(99_712, "LORE116"), (9_984, "LORE128")])
def test_read_up_to_dropped_reasoning_did_not_expire(read, code, tmp_path):
    """Reads 8 seconds after the documented ten minutes, a block or two short, were called expired."""
    rollout = Rollout().meta().context().user("look").thought().call("c1").result("c1").count(100_000, 9_984)
    rollout.thought().call("c2").result("c2").count(104_000, 99_968).message("assistant", "done").count(
        108_000, 103_936
    )
    rollout.second += 608
    rollout.user("and now?").thought().message("assistant", "that, too").count(105_000, read)
    assert only_finding(written(tmp_path, rollout))["code"] == code


def test_cache_without_documented_lifetime_has_no_expiry(tmp_path):
    """Findings about Gemini's implicit cache named the 60 minutes of its explicit ones."""
    bills = [(0, 20_000, 9_600), (30, 21_000, 19_968), (1_500, 22_000, 9_600)]
    finding = only_finding(log(tmp_path, bills, "gemini-3-pro", "gemini"))
    assert finding["code"] == "LORE130"
    expiry = next(reason for reason in finding["ruled_out"] if reason["reason"] == "expiry")
    assert (expiry["out"], expiry["limit"]) == (None, None)
    assert "lifetime unknown" in finding["message"]


@pytest.mark.parametrize(("read", "lost"), [(23_936, 20_352), (16_000, 6_400)])
def test_loss_reaches_previous_end_if_earlier_reads_did(read, lost, tmp_path):
    """The usage of these caches reports no writes, so only reads show how much of a prompt is kept."""
    bills = [(0, 20_000, 9_600), (30, 24_000, min(read, 19_968)), (60, 30_000, read), (90, 31_000, 9_600)]
    assert only_finding(log(tmp_path, bills))["lost_tokens"] == lost


@pytest.mark.parametrize(("model", "dialect"), [("gemini-3-pro", "gemini"), ("gpt-5.5", "openai-responses")])
def test_hours_within_unsure_lifetime_may_be_expiry(model, dialect, tmp_path):
    """A miss after 7.6 hours was shown as the server's; no entry of GPT-5.5 (24 hours) outlived 31 minutes."""
    bills = [(0, 20_000, 9_600), (30, 21_000, 19_968), (9_000, 22_000, 9_600)]
    finding = only_finding(log(tmp_path, bills, model, dialect))
    assert (finding["code"], finding["strength"], finding["actor"]) == ("LORE128", "weak", "nobody")
    assert finding["evidence"]["lifetime"] is None
    assert "5 min" not in finding["message"]


def test_predicted_cost_counts_the_whole_prompt(tmp_path):
    """Predicted writes had no price, so the whole turn had none: $0.09 was shown next to a billed $0.26."""
    path = log(tmp_path, [(0, 20_000, 9_600), (30, 22_000, 19_968), (60, 24_000, 21_888)])
    ran = lore("simulate", str(path), "--json")
    for turn in ran.json["turns"][1:]:
        predicted = turn["predicted"]
        assert predicted["write_tokens"] == 0
        price = (predicted["uncached_tokens"] * 2.5 + predicted["read_tokens"] * 0.25 + 90 * 15) / 10**6
        assert abs(turn["cost"]["predicted"] - price) < 1e-6
    text = lore("simulate", str(path)).out
    assert " in 2 of 3 turns (billed in these: " in text


def test_repeated_falls_are_one_finding_a_file(tmp_path):
    """One recording of Codex printed some 110 findings that said the same."""
    bills = [(30 * n, 20_000 + 1_000 * n, 9_600 if n % 2 else 20_000 + 1_000 * n - 1_100) for n in range(9)]
    path = str(log(tmp_path, bills))
    ran = lore("check", path)
    assert ran.out.count("! LORE130 server-side-miss") == 1
    assert "turns 2, 4, 6, 8" in ran.out
    assert lore("check", path, "-v").out.count("! LORE130 server-side-miss") == 4  # the sums name it, too
    assert len(json.loads(lore("check", path, "--json").out)["findings"]) == 4


def of_turns(path):
    """Causes by turn, as `check` and `simulate` say them: code, tokens lost."""
    checked, simulated = (lore(command, str(path), "--json").json for command in ("check", "simulate"))
    of_check = {finding["turn"]: (finding["code"], finding["lost_tokens"]) for finding in checked["findings"]}
    assert of_check == {
        turn["turn"]: (cause["code"], cause["lost_tokens"]) for turn in simulated["turns"] for cause in turn["causes"]
    }
    return of_check


def test_unread_turn_after_unread_turn_is_reported(tmp_path):
    """Turn 26 of a session read nothing after turn 25 had read nothing, without a finding."""
    path = log(tmp_path, [(0, 20_000, 17_000), (30, 21_000, 0), (60, 22_000, 0), (90, 23_000, 17_000)], "gemini-3-pro")
    assert of_turns(path) == {2: ("LORE130", 17_000), 3: ("LORE130", 17_000)}


@pytest.mark.parametrize(("reads", "lost"), [
    ([9_600, 19_968, 21_888, 4_992, 4_992, 27_904], {4: 18_944, 5: 20_992}),
    ([9_600, 12_000, 17_408, 4_992, 4_992, 27_904], {4: 12_416, 5: 12_416}),  # none reached the end of a prompt
    ([9_600, 19_968, 21_888, 0, 2_432, 8_064, 4_992, 31_872], {4: 23_936, 5: 23_552, 6: 19_840, 7: 24_960}),
])  # fmt: skip
def test_second_low_read_is_reported(reads, lost, tmp_path):
    """It missed the prompt before it, also if it read more than its predecessor (stella#3690)."""
    path = log(tmp_path, [(30 * n, 20_000 + 2_000 * n, read) for n, read in enumerate(reads)])
    assert of_turns(path) == {turn: ("LORE130", tokens) for turn, tokens in lost.items()}


@pytest.mark.parametrize(("read", "model", "lost"), [
    (21_888, "gpt-5.4", {}), (20_992, "gpt-5.4", {4: ("LORE130", 2_944)}), (20_992, "gpt-5.5", {4: ("LORE130", 2_560)}),
    (21_700, "gemini-3-pro", {}),
])  # fmt: skip
def test_smaller_read_after_whole_ones_missed_the_new_part(read, model, lost, tmp_path):
    """Whole blocks of it, 512 tokens of GPT-5.5; Gemini counts the same entry lower from one request to the next."""
    reads = (9_600, 19_840, 21_888, read)
    path = log(tmp_path, [(30 * n, 20_000 + 2_000 * n, one) for n, one in enumerate(reads)], model)
    assert of_turns(path) == lost


def test_never_read_history_is_reported_without_number(tmp_path):
    path = log(tmp_path, [(0, 20_000, 0), (30, 21_000, 0), (60, 22_000, 19_968)])
    assert of_turns(path) == {2: ("LORE130", 0)}
    assert only_finding(path)["evidence"] == {"type": "nothing-read", "tokens": 20_000}
    assert "an unknown number of tokens in 1 cache break" in lore("check", str(path)).out


def test_cache_that_never_reads_is_one_break(tmp_path):
    path = log(tmp_path, [(0, 20_000, 0), (30, 21_000, 0), (60, 22_000, 0), (90, 23_000, 0)])
    assert of_turns(path) == {2: ("LORE130", 0), 3: ("LORE307", 43_000)}
    assert "1 cache break:" in lore("check", str(path)).out


def test_short_prompt_or_unknown_cache_misses_nothing(tmp_path):
    for whole, model in ((900, "gpt-5.4"), (4_000, "gemini-3.5-flash"), (6_000, "gemini-3-flash")):
        assert of_turns(log(tmp_path, [(0, whole, 0), (30, whole + 50, 0)], model)) == {}
    assert of_turns(log(tmp_path, [(0, 20_000, 0), (30, 21_000, 0)], "nobodys-9", "openai-chat")) == {}


def test_pause_over_lifetime_explains_a_missing_read(tmp_path):
    path = log(tmp_path, [(0, 20_000, 17_024), (30, 21_000, 0), (9_000, 22_000, 0)])
    assert of_turns(path) == {2: ("LORE130", 17_024), 3: ("LORE128", 17_024)}


def asked_again(tmp_path, model, pause, url="https://api.openai.com/v1/chat/completions", **fields):
    """Return the causes of the second of two captured requests, which read nothing after a pause."""
    first = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Go on."}]
    bodies = [{"model": model, "messages": first + first[1:] * number, **fields} for number in range(2)]
    bills = [{"prompt_tokens": 7_000, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
             for read in (6_912, 0)]  # fmt: skip
    calls = [call(pause * at, body, bill, url=url) for at, (body, bill) in enumerate(zip(bodies, bills, strict=True))]
    verdicts, _ = judged(tmp_path, *calls)
    return verdicts[1].causes


@pytest.mark.parametrize(("model", "pause", "strength"), [
    ("gpt-5.4", 90_000, "strong"),  # longer than the 24 hours that are the most
    ("gpt-5.5", 30_000, "weak"), ("kimi-k3", 700, "strong"),
    ("gpt-5.4", 30, ""), ("gpt-5.5", 1_500, ""), ("gpt-5.6", 900, ""),
])  # fmt: skip
def test_captured_request_expires_after_its_documented_lifetime(tmp_path, model, pause, strength):
    host = "api.moonshot.ai" if model == "kimi-k3" else "api.openai.com"
    (cause,) = asked_again(tmp_path, model, pause, f"https://{host}/v1/chat/completions")
    assert cause.code == ("LORE128" if strength else "LORE301")
    assert not strength or (cause.kind, cause.strength) == ("expected", strength)


@pytest.mark.parametrize("model", ["deepseek-v4-flash", "glm-5", "kimi-k2.5"])
def test_no_writes_of_automatic_cache_hide_no_loss(model, tmp_path):
    """A clock passed as green: over Anthropic's API these providers report 0 writes, whatever their caches keep."""

    def request(n):
        body = asks(text("user", "question " * 40), system=f"It is 10:0{n}. {SYSTEM}", model=model)
        return call(60 * n, body, usage(0, 0, uncached=6_000), url="https://gateway.example/v1/messages")

    turns, _ = judged(tmp_path, *map(request, range(3)))
    assert [break_codes(turn) for turn in turns] == [[], ["LORE101"], ["LORE101"]]
    assert {turn.causes[0].kind for turn in turns[1:]} == {"waste"}


@pytest.mark.parametrize(("thinks", "whole", "read", "code", "kind"), [
    (True, 30_400, 19_968, "LORE116", "expected"),  # exactly what precedes the thinking was read
    (True, 28_900, 5_376, "LORE116", "expected"),  # the prompt shrank by a little
    (True, 30_400, 5_376, "LORE301", "unattributable"),
    (False, 28_900, 5_376, "LORE117", "waste"),
])  # fmt: skip
def test_unknown_cache_omits_thinking_at_prompt(tmp_path, thinks, whole, read, code, kind):
    """The advice was to print less, for an agent that clears no results."""
    records, thinking = [pi.BEGIN], [{"type": "thinking", "thinking": "The parser?"}] if thinks else []
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    for number, (blocks, total, cached) in enumerate([
        ([*thinking, call], 20_000, 0), ([call], 30_000, 19_968), ([text_of("Done.")], 30_300, 29_952),
        ([text_of("Yes.")], whole, read),
    ]):  # fmt: skip
        asked = {"role": "user", "content": [text_of(f"Step {number}.")]}
        answered = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": [text_of("src " * 1_000)]}
        billed = {"input": total - cached, "cacheRead": cached, "cacheWrite": 0, "totalTokens": total + 40}
        answer = {"role": "assistant", "content": blocks, "api": "openai-completions", "provider": "zai",
                  "model": "glm-5.1", "usage": billed | {"output": 40}, "stopReason": "stop"}  # fmt: skip
        for message in (answered if number in (1, 2) else asked, answer):
            records.append(pi.entry(len(records), "message", number, message=message))
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    finding = only_finding(path)
    assert (finding["code"], finding["kind"]) == (code, kind)


def text_of(value):
    return {"type": "text", "text": value}
