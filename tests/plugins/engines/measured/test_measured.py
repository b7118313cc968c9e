"""`lore simulate` with logs of engines."""

import json
import os

import jsonschema
import pytest

from cli.running import lore, put
from plugins.engines.logs.writing import START, join_lines, prefill, rate, served, sglang, vllm

WORDS = "word " * 4000
TALK = [{"role": "user", "content": WORDS}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]


def body(messages: int) -> dict[str, object]:
    return {"model": "m", "messages": TALK[:messages]}


def recording(*bills: tuple[int, int]) -> str:
    """Write a recording of two requests, billed as (prompt tokens, read tokens)."""
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
    put("engine.log", join_lines(sglang(0, "server_args=ServerArgs()"), *lines))
    return "engine.log"


def test_measured_requests_are_paired_by_response_id():
    path = recording((4001, 0), (4010, 3500))
    log = engine(*served(0, "r0", body(1), 4001, 0), *served(60, "r1", body(3), 4010, 2000))
    ran = lore("simulate", path, "--measured", log)
    assert ran.code == 0
    assert "cache: sglang" in ran.out  # the engine's own is the default
    assert "requests paired with turns by response id" in ran.out
    assert "turn 2" in ran.out
    assert "49.9%" in ran.out
    answer = lore("simulate", path, "--measured", log, "--json").json
    jsonschema.validate(answer, lore("schema", "simulate").json)
    rows = answer["measured"]["rows"]
    assert [(row["turn"], row["cached_tokens"]) for row in rows] == [(1, 0), (2, 2000)]
    assert rows[1]["predicted_tokens"] == answer["turns"][1]["predicted"]["read_tokens"] > 3900


def test_log_with_bodies_is_simulated_and_measured():
    log = engine(*served(0, "r0", body(1), 4001, 0), *served(60, "r1", body(3), 4010, 4000))
    out = lore("simulate", log).out
    assert "tokens predicted: " in out
    assert "read of the prompts: measured 49.9%, predicted" in out
    assert lore("check", log).code == 0


def test_vllm_hit_rates_are_compared_by_time():
    put("vllm.log", join_lines(vllm(0, "vLLM API server"), rate(10, 0.0), rate(70, 45.0)))
    ran = lore("simulate", recording((4001, 0), (4010, 3500)), "--measured", "vllm.log")
    assert "cache: vllm" in ran.out
    assert "measured 45.0%" in ran.out
    assert "compared over the same spans of time" in ran.out
    assert "the log names neither year nor zone" in ran.out


def test_check_points_to_simulate_for_engine_logs():
    put("logs/engine.log", join_lines(prefill(1, 900, 0)))
    ran = lore("check", "logs/engine.log")
    assert ran.code == 2
    assert "holds no prompts to judge" in ran.err
    assert "lore simulate RECORDING --measured logs/engine.log" in ran.err
    put("logs/body.json", json.dumps(body(1)).encode())
    assert lore("check", "logs", "--json").json["summary"]["skipped"] == 1


def test_log_without_measurements_is_an_error():
    put("a.log", join_lines(vllm(0, "vLLM API server")))
    ran = lore("simulate", recording((4001, 0)), "--measured", "a.log")
    assert ran.code == 2
    assert "a.log (vllm-log) measures nothing of a cache" in ran.err
    ran = lore("simulate", recording((4001, 0)), "--measured", recording((4001, 0)))
    assert (ran.code, "run.jsonl is not a log of an engine" in ran.err) == (2, True)


def test_redacted_output_has_no_log_text():
    log = engine(*served(0, "secret-id", body(1), 4001, 0), *served(60, "other-id", body(3), 4010, 2000))
    for form in ((), ("--json",)):
        out = lore("simulate", log, "--redact", "--all", *form).out
        assert "secret-id" not in out
        assert "word word" not in out


def test_last_skips_logs_without_requests():
    path = recording((4001, 0), (4010, 3500))
    os.utime(path, (1, 1))
    put("engine.log", join_lines(prefill(1, 900, 0)))
    assert lore("check", ".", "--last", "--json").json["summary"]["turns"] == 2


def test_unreadable_scrape_is_named_with_its_problem():
    put("nan.txt", join_lines("vllm:prefix_cache_queries_total NaN", "vllm:prefix_cache_hits_total NaN"))
    for command in (["simulate", "nan.txt"], ["simulate", recording((4001, 0)), "--measured", "nan.txt"]):
        ran = lore(*command)
        assert ran.code == 2
        assert "measures nothing of a cache; line 1: unreadable line: a sample that is not a count" in ran.err


@pytest.mark.parametrize("redact", [[], ["--redact"]])
def test_simulate_reports_lines_of_other_engines(redact):
    put("both.log", join_lines(rate(0, 5.0), rate(10, 6.0), prefill(1, 900, 0)))
    for command in (["simulate", "both.log"], ["simulate", recording((4001, 0)), "--measured", "both.log"]):
        ran = lore(*command, *redact)
        assert ran.code == 0
        assert "skipped (1 of sglang-log): this file is read as vllm-log" in ran.out
