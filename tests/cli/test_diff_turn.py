"""`lore diff-prefix FILE#N`: a turn and its previous turn."""

from __future__ import annotations

import pytest

from cli.running import compacted, lore, put


@pytest.fixture(autouse=True)
def log():
    put("s.jsonl", compacted())


def test_diff_prefix_compares_turn_with_previous_turn():
    found, named = lore("diff-prefix", "s.jsonl#3", "--json"), lore("diff-prefix", "s.jsonl#2", "s.jsonl#3", "--json")
    assert found.code == 0
    assert (found.json["left"]["name"], found.json["right"]["name"]) == ("s.jsonl#main:2", "s.jsonl#3")
    assert {**found.json, "left": None} == {**named.json, "left": None}
    assert lore("diff-prefix", "s.jsonl#main:2", "--json").json["left"]["name"] == "s.jsonl#main:1"


def test_diff_prefix_rejects_first_turn():
    ran = lore("diff-prefix", "s.jsonl#1")
    assert ran.code == 2
    assert "s.jsonl#1 has no previous turn" in ran.err


@pytest.mark.parametrize("sides", [("s.jsonl#9",), ("s.jsonl#9", "s.jsonl#1"), ("s.jsonl#1", "s.jsonl#9")])
def test_diff_prefix_names_turns_for_missing_turn(sides):
    ran = lore("diff-prefix", *sides)
    assert (ran.code, "it has turns 1 to 3" in ran.err) == (2, True)


@pytest.mark.parametrize("sides", [("s.jsonl#sub:1",), ("s.jsonl#sub:1", "s.jsonl#1")])
def test_diff_prefix_names_chains_for_missing_chain(sides):
    ran = lore("diff-prefix", *sides)
    assert (ran.code, "#main:1 to 3" in ran.err) == (2, True)


def test_redact_hides_names_of_chains():
    assert "#main" not in lore("diff-prefix", "s.jsonl#sub:1", "--redact").err
