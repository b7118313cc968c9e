"""Reliability: of turns that only append, inside the lifetime, how many were read."""

import json

from cli.running import lore
from cli.test_overview import claude
from conftest import ROOT
from judge.captures import asks, call, put, text, usage


def reliability(path):
    return json.loads(lore("simulate", str(path), "--json").out)["reliability"]


def rows(path, by):
    return [(row["name"], row["read"], row["appends"], row["share"]) for row in reliability(path) if row["by"] == by]


def test_read_and_missed_appends_are_counted(tmp_path):
    talk = [text("user", "Find the bug. " * 80)]
    for number in range(4):
        talk += [text("assistant", f"Step {number}."), text("user", f"Go on with {number}. " * 90)]
    bills = [usage(0, 7000), usage(7000, 400), usage(7400, 400), usage(0, 8200), usage(8200, 400)]
    calls = [call(20.0 * at, asks(*talk[: 1 + 2 * at], tools=("ls",)), bill) for at, bill in enumerate(bills)]
    path = put(tmp_path, *calls, name="a.jsonl")
    assert rows(path, "all") == [("", 3, 4, 0.75)]
    assert sum(appends for _, _, appends, _ in rows(path, "hour")) == 4
    assert rows(path, "model")[0][1:] == (3, 4, 0.75)


def test_change_by_the_client_is_no_append(tmp_path):
    talk = [text("user", "Find the bug. " * 80), text("assistant", "Step."), text("user", "Go on. " * 90)]
    calls = [
        call(0.0, asks(talk[0], tools=("ls",)), usage(0, 7000)),
        call(20.0, asks(*talk, tools=("cat", "ls")), usage(0, 7600)),
    ]
    assert rows(put(tmp_path, *calls, name="a.jsonl"), "all") == []


def test_dropped_reasoning_is_no_append():
    causes = ROOT / "fixtures" / "causes"
    assert rows(causes / "LORE116" / "positive.jsonl", "all") == [("", 4, 4, 1.0)]
    assert rows(causes / "LORE130" / "positive.jsonl", "all") == [("", 3, 4, 0.75)]
    output = lore("simulate", str(causes / "LORE130" / "positive.jsonl"), "--by", "reliability").out
    assert output.startswith("reliability: 75.0 % (3 of 4 turns that only appended read the whole cached prefix")
    assert "gpt-5.4: 75.0 % (3 of 4)  (few turns)" in output


def test_compare_and_simulate_count_the_same_appends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paused = [(10, 0, 10_000, 100), (10, 10_000, 1_000, 100), (10, 11_000, 1_000, 100), (10, 2_000, 11_000, 100)]
    path = claude("a", paused, minutes=20)
    (row,) = [row for row in reliability(path) if row["by"] == "all"]
    measures = lore("compare", path, path, "--json").json["measures"]
    (side,) = [measure["left"] for measure in measures if measure["name"] == "reliability"]
    assert (row["read"], row["appends"]) == (side["events"], side["trials"])
