"""`lore simulate` on logs of engines, and of recordings beside them."""

from __future__ import annotations

import json
import os

import jsonschema
import pytest

from cli.running import lore, put
from plugins.engines.logs.writing import (
    START,
    joined,
    prefill,
    rate,
    served,
    sglang,
    vllm,
)

WORDS = "word " * 4000
TALK = [{"role": "user", "content": WORDS}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]


def body(messages: int) -> dict[str, object]:
    return {"model": "m", "messages": TALK[:messages]}


def recording(*bills: tuple[int, int]) -> str:
    """Two requests that go on, billed so many tokens, of them so many read."""
    lines = [
        {
            "request": body(2 * number + 1),
            "response": {
                "id": f"r{number}",
                "choices": [{"message": {"role": "assistant", "content": "a"}}],
                "usage": {
                    "prompt_tokens": size,
                    "completion_tokens": 1,
                    "prompt_tokens_details": {"cached_tokens": read},
                },
            },
            "timestamp": START + 60 * number,
        }
        for number, (size, read) in enumerate(bills)
    ]
    put("run.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return "run.jsonl"


def engine(*lines: str) -> str:
    put("engine.log", joined(sglang(0, "server_args=ServerArgs()"), *lines))
    return "engine.log"


def test_measured_requests_stand_beside_the_turns_of_their_responses():
    path = recording((4001, 0), (4010, 3500))
    log = engine(*served(0, "r0", body(1), 4001, 0), *served(60, "r1", body(3), 4010, 2000))
    ran = lore("simulate", path, "--measured", log)
    assert ran.code == 0
    assert "cache: sglang" in ran.out  # the engine's own, unless another is asked for
    assert "each request beside the turn of the same response id" in ran.out
    assert "turn 2" in ran.out
    assert "49.9%" in ran.out
    answer = lore("simulate", path, "--measured", log, "--json").json
    jsonschema.validate(answer, lore("schema", "simulate").json)
    rows = answer["measured"]["rows"]
    assert [(row["turn"], row["cached_tokens"]) for row in rows] == [(1, 0), (2, 2000)]
    assert rows[1]["predicted_tokens"] == answer["turns"][1]["predicted"]["read_tokens"] > 3900


def test_a_log_that_holds_bodies_is_judged_and_compared_with_itself():
    log = engine(*served(0, "r0", body(1), 4001, 0), *served(60, "r1", body(3), 4010, 4000))
    out = lore("simulate", log).out
    assert "2 turns; predicted: read" in out
    assert "read of the prompts: measured 49.9%, predicted" in out
    assert lore("check", log).code == 0


def test_hit_rates_of_vllm_stand_beside_the_turns_until_then():
    put("vllm.log", joined(vllm(0, "vLLM API server"), rate(10, 0.0), rate(70, 45.0)))
    ran = lore("simulate", recording((4001, 0), (4010, 3500)), "--measured", "vllm.log")
    assert "cache: vllm" in ran.out
    assert "measured 45.0%" in ran.out
    assert "what was measured and predicted of the same times" in ran.out
    assert "it names no year" in ran.out


def test_check_says_what_an_engines_log_is_good_for():
    put("logs/engine.log", joined(prefill(1, 900, 0)))
    ran = lore("check", "logs/engine.log")
    assert ran.code == 2
    assert "holds no prompts to judge" in ran.err
    assert "lore simulate RECORDING --measured logs/engine.log" in ran.err
    put("logs/body.json", json.dumps(body(1)).encode())
    assert lore("check", "logs", "--json").json["summary"]["skipped"] == 1


def test_what_measures_nothing_is_an_error_that_says_what_does():
    put("a.log", joined(vllm(0, "vLLM API server")))
    ran = lore("simulate", recording((4001, 0)), "--measured", "a.log")
    assert ran.code == 2
    assert "a.log (vllm-log) measures nothing of a cache" in ran.err
    ran = lore("simulate", recording((4001, 0)), "--measured", recording((4001, 0)))
    assert (ran.code, "run.jsonl is no log of an engine" in ran.err) == (2, True)


def test_redacted_output_carries_no_text_of_a_log():
    log = engine(*served(0, "secret-id", body(1), 4001, 0), *served(60, "other-id", body(3), 4010, 2000))
    for form in ((), ("--json",), ("--markdown",), ("--csv",)):
        out = lore("simulate", log, "--redact", "--all", *form).out
        assert "secret-id" not in out
        assert "word word" not in out


def test_the_newest_recording_is_no_log_that_holds_none():
    path = recording((4001, 0), (4010, 3500))
    os.utime(path, (1, 1))
    put("engine.log", joined(prefill(1, 900, 0)))
    assert lore("check", ".", "--last", "--json").json["summary"]["turns"] == 2


def test_a_scrape_that_measures_nothing_is_named_with_the_first_problem_in_it():
    put("nan.txt", joined("vllm:prefix_cache_queries_total NaN", "vllm:prefix_cache_hits_total NaN"))
    for command in (["simulate", "nan.txt"], ["simulate", recording((4001, 0)), "--measured", "nan.txt"]):
        ran = lore(*command)
        assert ran.code == 2
        assert "measures nothing of a cache; line 1: unreadable line: a sample that is no count" in ran.err


@pytest.mark.parametrize("redact", [[], ["--redact"]])
def test_lines_of_another_engine_are_said_without_being_asked_for(redact):
    put("both.log", joined(rate(0, 5.0), rate(10, 6.0), prefill(1, 900, 0)))
    for command in (["simulate", "both.log"], ["simulate", recording((4001, 0)), "--measured", "both.log"]):
        ran = lore(*command, *redact)
        assert ran.code == 0
        assert "passed over (1 of sglang-log): this file is read as vllm-log" in ran.out
