"""`lore diff-prefix FILE#N`: a turn and its previous turn."""

from __future__ import annotations

import pytest

from cli.running import compacted, lore, put
from cli.test_simulate import LONG, body
from model.making import dumps


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


@pytest.mark.parametrize(("model", "extra_price"), [("claude-opus-4-6", 6.25 - 0.5), ("claude-unheard-of", None)])
def test_two_bodies_without_usage_show_lost_dollars(model, extra_price):
    for name in ("a", "b"):
        put(f"{name}.json", dumps(body("one", system=f"It is {name}. {LONG * 3}", model=model)))
    (cause,) = lore("diff-prefix", "a.json", "b.json", "--json").json["causes"]
    assert cause["tokens"] == "estimated"
    assert cause["lost_tokens"] > 1_000
    known = None if extra_price is None else pytest.approx(cause["lost_tokens"] * extra_price / 1e6, rel=0.01)
    assert cause["lost_dollars"] == known
    assert ("re-billed ($" in lore("diff-prefix", "a.json", "b.json").out) == (known is not None)
