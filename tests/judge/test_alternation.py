"""Values that return to what they were before the previous change."""

from __future__ import annotations

import json

from cli.running import lore
from formats.codex import Rollout


def found_in(tmp_path, efforts):
    """Return the cache breaks, by turn, of a Codex log whose user sets another effort with every prompt."""
    made = Rollout().meta().message("user", "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>")
    whole = 20_000
    for number, effort in enumerate(efforts):
        made.context(effort=effort).user(f"step {number}").call(f"a{number}").count(whole, 4_992)
        made.result(f"a{number}", "line " * 300).message("assistant", "done").count(whole + 400, whole - 32)
        whole += 1_000
    path = tmp_path / "rollout-2026-04-08T08-00-00-t-1.jsonl"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in made.lines))
    findings = lore("check", "-v", "--json", str(path)).json["findings"]
    return {one["turn"]: one for one in findings if one["is_break"]}


def test_value_that_returns_is_reported_as_alternating(tmp_path):
    found = found_in(tmp_path, ("high", "low", "high", "low"))
    assert [turn for turn, one in found.items() if "the value alternates" in one["message"]] == [5, 7]
    assert [one["fix"].startswith("Keep one of the two values") for one in found.values()] == [False, True, True]


def test_value_that_changes_each_time_is_not_alternating(tmp_path):
    found = found_in(tmp_path, ("high", "low", "medium", "minimal"))
    assert list(found) == [3, 5, 7]
    assert not [one for one in found.values() if "the value alternates" in one["message"]]
