"""One small round of the soak test holds, and its sessions repeat themselves."""

from __future__ import annotations

import json

import pytest

from soak import busy, lake, rounds, run


def test_the_same_seed_gives_the_same_session():
    assert list(busy.lines(30, seed=3)) == list(busy.lines(30, seed=3))
    assert list(busy.lines(30, seed=3)) != list(busy.lines(30, seed=4))


def test_a_busy_session_holds_what_a_long_one_may():
    kinds = {json.loads(line)["kind"] for seed in range(4) for line in busy.lines(200, seed=seed)}
    assert kinds >= {
        "session_started", "session_changed", "layer", "append", "patch_text", "patch_tool_call", "remove",
        "compact_started", "compact_applied", "turn_started", "turn_completed", "knowledge", "cache_reset",
    }  # fmt: skip


def test_a_small_round_holds(tmp_path):
    made = run.one(tmp_path, 4, 1)  # it raises where something does not hold
    assert made.plain.calls > 0


def test_every_command_holds_over_a_busy_session(tmp_path):
    rounds.write(tmp_path / "log.jsonl", busy.lines(120, seed=9, compact_every=30))
    assert rounds.holds(tmp_path / "log.jsonl", 120) is None  # they raise where something does not hold
    assert rounds.cold_equals_live(tmp_path / "log.jsonl", 11) is None


def test_a_small_lake_in_a_bucket_is_soaked_and_an_answer_that_differs_fails(tmp_path):
    pytest.importorskip("obstore")
    folder, answer = tmp_path / "lake", tmp_path / "answer"
    given = ["--bucket", "--small", "12", "--large-mb", "1", "--folder", str(folder), "--answer", str(answer)]
    assert lake.main([*given, "--runs", "process,processes"]) == 0
    code, found = answer.read_bytes().split(b"\n", 1)
    assert (code, json.loads(found)["summary"]["files"]) == (b"exit 0", 13)
    answer.write_bytes(b'exit 0\n{"summary":{}}')
    assert lake.main([*given, "--runs", "process"]) == 1
