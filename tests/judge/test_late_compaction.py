"""Logs of pi: a compaction or another model counts from the request whose usage shows it; which parts a log lacks."""

import pytest

from cli.running import lore
from judge.pi_sessions import BEGIN, entry, session
from model.making import dumps


@pytest.mark.parametrize(("usages", "expected"), [
    ([(90_000, 0), (400, 90_000), (9_000, 2_000), (60, 11_000)], [(3, "LORE125")]),  # it shortens the next prompt
    ([(90_000, 0), (400, 90_000), (90_800, 0), (60, 90_800), (9_000, 2_000)], [(3, "LORE301"), (5, "LORE125")]),
    ([(90_000, 0), (400, 90_000), (76_000, 15_000)], [(3, "LORE125")]),  # a long message follows it
    ([(90_000, 0), (400, 90_000), (400, 90_400), (60, 90_800), (9_000, 2_000)], [(5, "LORE125")]),
    ([(90_000, 0), (400, 90_000), (0, 0), (9_000, 2_000), (60, 11_000)], [(4, "LORE125")]),  # the request was aborted
])  # fmt: skip
@pytest.mark.parametrize("command", ["check", "simulate"])
def test_compaction_counts_from_the_shortened_prompt(tmp_path, usages, expected, command):
    output = lore(command, session(tmp_path / "a.jsonl", *usages, compacted=2), "--json").json
    if command == "check":
        assert [(finding["turn"], finding["code"]) for finding in output["findings"]] == expected
    else:
        assert [(turn["turn"], cause["code"]) for turn in output["turns"] for cause in turn["causes"]] == expected


def test_compaction_of_a_log_that_reads_nothing_loses_nothing(tmp_path):
    usage = {"input": 20_000, "cacheRead": 0, "cacheWrite": 0, "output": 9, "totalTokens": 20_009}
    ask = {"role": "user", "content": [{"type": "text", "text": "line " * 8_000}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "api": "openai-completions",
              "provider": "ollama", "model": "kimi-k2.5", "usage": usage}  # fmt: skip
    records = [entry(number, "message", number, message=answer if number % 2 else ask) for number in range(2, 8)]
    records.insert(4, entry(9, "compaction", 6, summary="Fixed.", firstKeptEntryId="00000004", tokensBefore=20_000))
    records[5]["parentId"], records[4]["parentId"] = records[4]["id"], records[3]["id"]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(map(dumps, [BEGIN, *records])))
    (found,) = (found for found in lore("check", str(path), "--json").json["findings"] if found["code"] == "LORE125")
    assert found["lost_tokens"] == 0


@pytest.mark.parametrize(("models", "usages", "expected"), [
    ("AABA", [(90_000, 0), (400, 90_000), (0, 0), (400, 90_400)], []),
    ("AABCC", [(90_000, 0), (400, 90_000), (0, 0), (0, 0), (91_000, 0)], [(5, "LORE119", 90_000)]),
])  # fmt: skip
def test_unanswered_request_to_other_model_loses_nothing(tmp_path, models, usages, expected):
    output = lore("check", session(tmp_path / "a.jsonl", *usages, models=models), "--json").json
    assert [(finding["turn"], finding["code"], finding["lost_tokens"]) for finding in output["findings"]] == expected


@pytest.mark.parametrize("command", ["check", "simulate", "diff-prefix"])
@pytest.mark.parametrize("system", ["", "Be brief."])
def test_recorded_system_prompt_is_not_missing(tmp_path, system, command):
    result = lore(command, session(tmp_path / "a.jsonl", (20_000, 0), (20_400, 0), system=system))
    text = result.out + result.err
    assert "not recorded" in text
    assert ("system prompt" in text.partition("not recorded")[2]) == (not system)
