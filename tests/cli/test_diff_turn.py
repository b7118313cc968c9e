"""`lore diff-prefix FILE#N`: a turn with the one before it."""

from __future__ import annotations

import pytest

from cli.running import compacted, lore, put


@pytest.fixture(autouse=True)
def log():
    put("s.jsonl", compacted())


def test_a_turn_is_compared_with_the_one_before_it():
    found, named = lore("diff-prefix", "s.jsonl#3", "--json"), lore("diff-prefix", "s.jsonl#2", "s.jsonl#3", "--json")
    assert found.code == 0
    assert (found.json["left"]["name"], found.json["right"]["name"]) == ("s.jsonl#main:2", "s.jsonl#3")
    assert {**found.json, "left": None} == {**named.json, "left": None}
    assert lore("diff-prefix", "s.jsonl#main:2", "--json").json["left"]["name"] == "s.jsonl#main:1"


def test_nothing_stands_before_the_first_turn():
    ran = lore("diff-prefix", "s.jsonl#1")
    assert ran.code == 2
    assert "no turn stands before s.jsonl#1" in ran.err


@pytest.mark.parametrize("sides", [("s.jsonl#9",), ("s.jsonl#9", "s.jsonl#1"), ("s.jsonl#1", "s.jsonl#9")])
def test_a_turn_that_is_not_there_says_which_there_are(sides):
    ran = lore("diff-prefix", *sides)
    assert (ran.code, "it has turns 1 to 3" in ran.err) == (2, True)


@pytest.mark.parametrize("sides", [("s.jsonl#sub:1",), ("s.jsonl#sub:1", "s.jsonl#1")])
def test_a_chain_that_is_not_there_says_which_there_are(sides):
    ran = lore("diff-prefix", *sides)
    assert (ran.code, "#main:1 to 3" in ran.err) == (2, True)


def test_chains_are_not_named_where_content_is_left_out():
    assert "#main" not in lore("diff-prefix", "s.jsonl#sub:1", "--redact").err
