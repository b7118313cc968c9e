"""`lore simulate` as a user types it."""

import json
from itertools import count
from pathlib import Path

import pytest

from cli.running import lore, put, session
from helpers.plausible import FOLDER, recordings
from helpers.schemas import valid
from lore.session import Session

CACHE_CONTROL = {"type": "ephemeral"}
LONG = "word " * 4000  # far above every minimum


def body(*turns: str, system: str = LONG, ttl: str | None = None, model: str = "claude-opus-4-6", **more: object):
    """A request of Anthropic's: a system prompt, a history, breakpoints on the prompt and the last message."""
    breakpoint = CACHE_CONTROL if ttl is None else {**CACHE_CONTROL, "ttl": ttl}
    messages = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": [{"type": "text", "text": text}]}
        for number, text in enumerate(turns)
    ]
    messages[-1]["content"][0]["cache_control"] = breakpoint
    head = [{"type": "text", "text": system, "cache_control": breakpoint}]
    return {"model": model, "max_tokens": 9, "system": head, "messages": messages, **more}


def usage(read: int, write: int, uncached: int = 3, output: int = 10) -> dict[str, int]:
    return {
        "input_tokens": uncached, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
        "output_tokens": output,
    }  # fmt: skip


def capture(*turns) -> str:
    """Write (body, usage, seconds) as a capture."""
    start = 1_780_000_000
    lines = [{"request": request, "usage": bill, "timestamp": start + at} for request, bill, at in turns]
    put("capture.jsonl", "\n".join(json.dumps(line) for line in lines).encode() + b"\n")
    return "capture.jsonl"


def stable(*, gap: int = 60) -> str:
    """Three turns that continue, billed as by a working cache."""
    return capture(
        (body("one"), usage(0, 5000), 0),
        (body("one", "1", "two"), usage(5000, 100), gap),
        (body("one", "1", "two", "2", "three"), usage(5100, 100), 2 * gap),
    )


def reads(ran) -> list[int | None]:
    return [turn["predicted"]["read_tokens"] for turn in ran.json["turns"]]


def test_text_shows_the_largest_of_many_breaks():
    """A folder of sessions printed hundreds of turns before its sums."""
    expired = capture(*[(body(*map(str, range(2 * n + 1))), usage(0, 5000 + 100 * n), 400 * n) for n in range(24)])
    text = lore("simulate", expired).out
    assert text.count(" LORE128 cache-expired\n") == 20
    assert "\n   4 " not in text
    assert "\n   5 " in text
    assert "23 of 24 turns with a cache break, shown are the 20 with the largest loss" in text
    assert lore("simulate", expired, "-v").out.count(" LORE128 cache-expired\n") == 23


def test_parallel_requests_each_write():
    """A fan-out whose responses' beginnings were not recorded was read from its second request on."""
    together = [(body(f"{number}"), usage(0, 5000), 0.1 * number) for number in range(3)]
    assert reads(lore("simulate", capture(*together), "--json")) == [0, 0, 0]


def test_rebilled_tokens_are_at_most_billed_tokens():
    """A session's prompt shrank without a word: 42,541 tokens were said to be wasted in a turn that paid for 18."""
    path = capture(
        (body("one", system=f"It is 09:14. {LONG}"), usage(0, 5000), 0),
        (body("one", system=f"It is 09:15. {LONG}"), usage(0, 1_700, 18), 60),
    )
    late = lore("simulate", path, "--json").json["turns"][1]
    assert (late["lost_tokens"], late["waste_tokens"]) == (1_700, 1_700)
    assert late["cost"]["waste"] < late["cost"]["billed"]


def test_what_if_compares_only_turns_priced_in_both():
    """Half of a session had no price: with a cheaper model for all of it, lore said that it would cost more."""
    path = capture((body("one"), usage(0, 5000), 0), (body("other", model="claude-next-9"), usage(0, 5000), 10))
    result = lore("simulate", path, "--what-if", "model=claude-sonnet-5", "--json").json
    first = result["turns"][0]["cost"]["predicted"]
    assert result["what_if"][0]["saved"] == pytest.approx(first * (1 - 2 / 5))


def test_gemini_cached_content_is_predicted_as_read():
    """Gemini's `cachedContent` was taken for the implicit cache: a read of 3,512 tokens was predicted as 0."""
    lines = [
        {
            "url": "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
            "request": {"model": "gemini-2.5-flash", "cachedContent": "cachedContents/1",
                        "contents": [{"role": "user", "parts": [{"text": f"ask {number}"}]}]},
            "response": {"usageMetadata": {"promptTokenCount": 3520, "cachedContentTokenCount": 3512}},
            "timestamp": 1_780_000_000 + number,
        }
        for number in range(2)
    ]  # fmt: skip
    put("gemini.jsonl", "\n".join(map(json.dumps, lines)).encode())
    result = lore("simulate", "gemini.jsonl", "--json")
    assert result.json["cache"] == "gemini-explicit"
    assert reads(result) == [None, 3512]


def test_usage_with_impossible_lifetimes_is_reported():
    """A request was billed 1,000,000 tokens for an hour of 5,000 written in all: nothing was said of it."""
    odd = {**usage(0, 5000), "cache_creation": {"ephemeral_1h_input_tokens": 1_000_000}}
    result = lore("simulate", capture((body("one"), odd, 0)), "--json").json
    assert [problem["code"] for problem in result["problems"]] == ["LORE303"]
    assert "by lifetime" in result["problems"][0]["message"]


def test_what_if_model_uses_one_cache():
    """`--what-if model=` priced a session that went from model to model as if it still did."""
    path = capture(
        (body("one"), usage(0, 5000), 0), (body("one", "1", "two", model="claude-sonnet-5"), usage(0, 5100), 9)
    )
    result = lore("simulate", path, "--what-if", "model=claude-sonnet-5", "--json").json
    assert (result["what_if"][0]["turns"], result["what_if"][0]["tokens"]) == (1, 5000)


@pytest.mark.parametrize(
    ("model", "change", "reason"),
    [("gpt-5.4", "ttl=1h", "only Anthropic and Bedrock let a client choose"),
     ("gpt-5.6-sol", "ttl=5m", "only Anthropic and Bedrock let a client choose"),
     ("gpt-5.4", "breakpoints=auto", "caches with breakpoints"),
     ("claude-opus-4-6", "model=claude-next-9", "no price is known")],
)  # fmt: skip
def test_what_if_without_effect_gives_reason(model, change, reason):
    """`--what-if ttl=1h` on another provider's requests was taken and answered "0 tokens" without a word."""
    lines = [
        {"request": {"model": model, "messages": [{"role": "user", "content": LONG}]}, "timestamp": 1_790_000_000 + at,
         "usage": {"input_tokens": 4000, "cached_tokens": 0, "output_tokens": 1}}
        for at in (0, 20)
    ]  # fmt: skip
    put("one.jsonl", "\n".join(map(json.dumps, lines)).encode())
    result = lore("simulate", "one.jsonl", "--what-if", change, "--json").json
    assert [note for note in result["notes"] if f"--what-if {change} changes nothing here" in note and reason in note]


def test_what_if_auto_breakpoints_keep_requested_lifetime():
    """`--what-if breakpoints=auto` made five minutes of an hour, and an agent that set them right lost all it read."""
    path = capture((body("one", ttl="1h"), usage(0, 5000), 0), (body("one", "1", "two", ttl="1h"), usage(5000, 9), 900))
    result = lore("simulate", path, "--what-if", "breakpoints=auto", "--json").json
    assert result["what_if"][0]["tokens"] == 0


def test_expiry_after_pause_suggests_longer_lifetime():
    """Of a session that lost most to pauses only the fix of its smallest cause was named."""
    path = capture((body("one"), usage(0, 5000), 0), (body("one", "1", "two"), usage(0, 5100), 1000))
    output = lore("simulate", path).out
    assert "5,000 tokens were written again after pauses: --what-if ttl=1h" in output
    assert "5,000  $0.0288  LORE128 cache-expired\n" in output  # written at $6.25, instead of read at $0.50
    assert "re-billed as expected: 5,000 tokens ($0.0288)" in lore("check", path).out


def test_waste_without_read_price_has_unknown_cost():
    """A model with only an uncached price re-billed 5,000 tokens for $0.00."""
    row = 'rule = "price_{}"\nvalue = {}\nprovider = "anthropic"\nmodel = "claude-next-9"\n'
    put("rules.toml", ("[[rules]]\n" + row.format("uncached", 5) + "[[rules]]\n" + row.format("output", 25)
                       + "[[rules]]\n" + row.format("read", '"unknown"')).encode())  # fmt: skip
    path = capture(
        (body("one", system=f"It is 09:14. {LONG}", model="claude-next-9"), usage(0, 5000), 0),
        (body("one", system=f"It is 09:15. {LONG}", model="claude-next-9"), usage(0, 5100), 60),
    )
    late = lore("simulate", path, "--rules-file", "rules.toml", "--json").json["turns"][1]
    assert (late["waste_tokens"], late["cost"]["waste"]) == (5000, None)


def test_quick_answers_of_lores_sessions_are_cached():
    """A mock answers in a tenth of a second: what it wrote can be read from then on."""
    ticks = count()
    session = Session("claude-opus-5", system=LONG, clock=lambda: f"2026-10-20T10:00:{next(ticks) / 10:06.3f}Z")
    for question in ("one", "two", "three"):
        session.user(question)
        session.request()
        session.assistant({"type": "message", "role": "assistant", "content": [], "usage": usage(0, 4000)})
    put("s.jsonl", session.log())
    first, *later = reads(lore("simulate", "s.jsonl", "--json"))
    assert first == 0
    assert all(later)


def test_turns_without_usage_are_counted_as_unknown():
    result = lore("simulate", capture((body("one"), None, 0), (body("one", "1", "two"), None, 60)), "--json").json
    assert [turn["billed"] for turn in result["turns"]] == [None, None]
    assert result["totals"]["unbilled"] == 2
    assert result["totals"]["billed"]["read_tokens"] is None
    assert result["agreement"]["turns"] == 0
    assert result["turns"][1]["predicted"]["read_tokens"] == pytest.approx(4000, rel=0.02)  # as o200k_base counts
    assert any("counted with o200k_base" in note for note in result["notes"])


def test_simulate_says_that_no_prediction_was_made():
    path = capture(
        (body("one", model="acme-1"), usage(0, 5000), 0), (body("one", "1", model="acme-1"), usage(5000, 9), 60)
    )
    result = lore("simulate", path)
    assert "predictions cannot be compared with usage: none was made" in result.out


def test_simulate_json_follows_schema():
    for args in ((), ("--cache", "deepseek"), ("--what-if",), ("--what-if", "ttl=1h")):
        valid(lore("simulate", stable(), *args, "--json").json, "simulate")


def test_model_without_price_has_unknown_cost():
    path = capture((body("one", model="claude-next-9"), usage(0, 5000), 0))
    result = lore("simulate", path, "--json").json
    assert result["turns"][0]["cost"] is None
    assert (result["totals"]["unpriced"], result["totals"]["cost"]["billed"]) == (1, None)
    assert any("no price is known for claude-next-9" in note for note in result["notes"])


def test_usage_contradicting_body_is_not_learned_from():
    path = capture(
        (body("one"), usage(0, 5000), 0),
        (body("one", "1", "two"), usage(61_838, 900_000), 60),
        (body("one", "1", "two", "2", "three"), usage(5000, 200), 120),
    )
    result = lore("simulate", path, "--json").json
    causes = [cause["code"] for turn in result["turns"] for cause in turn["causes"]]
    assert causes == [finding["code"] for finding in lore("check", path, "--json").json["findings"]]
    assert causes[0] == "LORE303"
    assert any(
        note.startswith(f"not learned from: usage of 1 turn ({path} turn 2: 961,838 ") for note in result["notes"]
    )
    assert result["problems"] == []
    assert result["turns"][2]["predicted"]["read_tokens"] < 6000


def test_sums_over_some_turns_name_their_number():
    """The first turn of a transcript is not predicted, so billed and predicted sums cover different turns."""
    path = capture((body("one"), usage(0, 5000), 0), (body("other", model="nobodys-9"), usage(0, 5000), 10))
    out = lore("simulate", path).out
    assert out.count(" in 1 of 2 turns (billed in these: ") == 2


WRONG = {
    "no such cache": (("--cache", "redis"), "there is no cache 'redis'"),
    "no such key": (("--what-if", "colour=red"), "option of one cache"),
    "no such option": (("--cache", "deepseek", "--what-if", "colour=1"), "no option 'colour'"),
    "no lifetime": (("--what-if", "ttl=2d"), "ttl=5m or ttl=1h"),
    "no cause": (("--what-if", "cause=LORE9"), "no finding has the code"),
    "no rules": (("--rules-file", "none.toml"), "none.toml"),
    "a filter without rules": (("--model", "x"), "--rules"),
    "rules of one cache": (("--rules", "--cache", "openai"), "--rules lists the rules of all caches"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_options_are_one_line_errors(what):
    args, message = WRONG[what]
    result = lore("simulate", stable(), *args)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_simulate_without_recordings_exits_2():
    assert lore("simulate").code == 2
    put("notes.txt", b"none\n")
    assert lore("simulate", ".").code == 2


def test_rules_of_a_model_are_printed():
    result = lore("simulate", "--rules", "--model", "claude-opus-4-6", "--json")
    values = {rule["rule"]: rule["value"] for rule in result.json["rules"] if not rule["platform"]}
    assert (values["minimum_tokens"], values["price_uncached"]) == (4096, 5)
    assert "price_uncached" in lore("simulate", "--rules").out
    openai = lore("simulate", "--rules", "--model", "gpt-5.5", "--json").json["rules"]
    assert {rule["provider"] for rule in openai} == {"openai", "*"}, "others have rules for any model of theirs"
    assert lore("simulate", "--rules", "--model", "none-such").code == 2


def test_own_price_replaces_the_packaged_one():
    row = 'rule = "price_uncached"\nvalue = 50\nunit = "usd_per_mtok"\nprovider = "anthropic"\n'
    row += 'model = "claude-opus-4-6"\nvalid_from = 2020-01-01\nsource = "measured"\nevidence = "M"\n'
    put("tenfold.toml", f"[[rules]]\n{row}".encode())
    own, packaged = (
        lore("simulate", stable(), *rules, "--json").json["totals"]["by_price"]["uncached"]
        for rules in (("--rules-file", "tenfold.toml"), ())
    )
    assert own == pytest.approx(10 * packaged)


def test_unreadable_file_in_folder_exits_3():
    put("logs/a.jsonl", session())
    for folder in ("logs", "."):
        assert [lore(command, folder).code for command in ("check", "simulate")] == [0, 0]
    put("logs/b.jsonl.zst", b"\x28\xb5\x2f\xfdno frame")
    for folder in ("logs", "."):
        assert [lore(command, folder).code for command in ("check", "simulate")] == [3, 3]
        assert lore("simulate", folder, "--json").json["problems"][0]["code"] == "LORE215"
    assert [lore(command, "logs/b.jsonl.zst").code for command in ("check", "simulate")] == [2, 2]


def test_row_shows_both_sides_of_change():
    """What every such row said alike took so much room that the second text of two was cut."""
    path = capture(
        (body("one", system=f"It is 2026-01-01 09:14. {LONG}"), usage(0, 5000), 0),
        (body("one", "1", "two", system=f"It is 2026-01-01 09:15. {LONG}"), usage(0, 5100), 60),
    )
    rows = iter(lore("simulate", path).out.splitlines())
    assert any("LORE101" in row for row in rows)
    evidence = next(rows)
    assert "09:14" in evidence.partition(" became ")[0]
    assert "09:15" in evidence.partition(" became ")[2]


def test_loss_without_cause_is_not_ranked():
    """LORE301 has no fix, so it is not among the savings."""
    result = lore("simulate", capture((body("one"), usage(0, 5000), 0), (body("one", "1", "two"), usage(0, 5100), 60)))
    assert "LORE301" in result.out
    assert "cause=LORE301" not in result.out


def test_what_if_current_lifetime_is_reported():
    """The note said that only Anthropic lets a client choose, of a session of Anthropic's."""
    result = lore("simulate", stable(), "--what-if", "ttl=5m")
    assert "equals the recording" in result.out


def test_expected_losses_are_not_counted_as_lost():
    # the totals of simulate counted what another model could not read, those of check did not
    path = str(Path(__file__).parents[2] / "fixtures" / "sessions" / "changed_session.jsonl")
    simulated, checked = lore("simulate", path, "--json").json, lore("check", path, "--json").json
    assert any(turn["lost_tokens"] for turn in simulated["turns"])
    assert simulated["totals"]["lost_tokens"] == checked["summary"]["lost_tokens"] == 0


def test_recordings_are_those_that_the_script_writes():
    assert {name: FOLDER.joinpath(name).read_bytes() for name in recordings()} == recordings()


def test_resent_prompt_is_predicted_from_first_count():
    """The first request is counted, the others are measured in bytes: both have to give the same size."""
    answer = lore("simulate", "--all", "--json", str(FOLDER.parent / "captures" / "har" / "breaks.har")).json
    for turn in answer["turns"][:3]:
        assert turn["predicted"]["write_tokens"] == pytest.approx(turn["billed"]["write_tokens"], rel=0.03)


@pytest.mark.parametrize("name", ["stable.jsonl", "clock_in_system.jsonl"])
def test_prediction_equals_the_recorded_usage(name):
    answer = lore("simulate", "--all", "--json", str(FOLDER / name)).json
    for turn in answer["turns"]:
        read, billed = turn["predicted"]["read_tokens"], turn["billed"]["read_tokens"]
        assert abs(read - billed) <= 3
        whole = billed + turn["billed"]["write_tokens"] + turn["billed"]["uncached_tokens"]
        predicted = read + turn["predicted"]["write_tokens"] + turn["predicted"]["uncached_tokens"]
        assert predicted == pytest.approx(whole, rel=0.03)
    assert answer["agreement"]["within_2_percent"] == 3
