"""`caches` of `lore diff-prefix`: what a cache would read of the right side after the left."""

from __future__ import annotations

import json

import pytest

from cli.running import lore, put
from cli.test_simulate import body, capture, usage

THREE = (
    (body("one"), usage(0, 5000), 0),
    (body("one", "1", "two"), usage(5000, 100), 60),
    (body("one", "1", "two", "2", "three"), usage(5100, 90), 120),
)


def caches(*args: str) -> list[list[tuple[str, int | None, str]]]:
    ran = lore("diff-prefix", *args, "--json")
    assert ran.code == 0
    found = [json.loads(line)["caches"] for line in ran.out.splitlines()]
    return [[(one["cache"], one["read_tokens"], one["confidence"]) for one in each] for each in found]


def test_prediction_of_pair_ignores_its_own_usage():
    assert caches(capture(*THREE)) == [[("anthropic", 5000, "rule")], [("anthropic", 5100, "rule")]]
    hidden = (*THREE[:2], (THREE[2][0], usage(0, 1), 120))
    assert caches(capture(*hidden))[1] == [("anthropic", 5100, "rule")]


def test_two_bodies_are_predicted_without_usage():
    for number in (1, 2):
        put(f"{number}.json", json.dumps(THREE[number][0]).encode())
    ((found,),) = caches("1.json", "2.json")
    assert found[0] == "anthropic"
    assert found[1] == pytest.approx(20_000 / 3.6, rel=0.05)
    assert found[2] == "ceiling"


def test_prediction_knows_usage_of_previous_turn():
    name = capture(*THREE)
    assert caches(f"{name}#1", f"{name}#2") == [[("anthropic", 5000, "rule")]]


def test_unknown_provider_has_no_prediction():
    bodies = body("one", model="house-model"), body("one", "1", "two", model="house-model")
    turns = [(one, None, 60 * number) for number, one in enumerate(bodies)]
    assert caches(capture(*turns)) == [[]]


def test_named_caches_are_predicted():
    ((one, two),) = caches(capture(*THREE[:2]), "--cache", "anthropic", "--cache", "deepseek")
    assert one == ("anthropic", 5000, "rule")
    assert two[0] == "deepseek"
    assert two[1] is not None
    assert 4000 < two[1] < 6000


def test_no_tokens_predicts_only_named_cache():
    name = capture(*THREE[:2])
    assert caches(name, "--no-tokens") == [[]]
    assert caches(name, "--no-tokens", "--cache", "anthropic") == [[("anthropic", 5000, "rule")]]


def test_unknown_cache_is_rejected():
    ran = lore("diff-prefix", capture(*THREE[:2]), "--cache", "antropic")
    assert (ran.code, "did you mean 'anthropic'?" in ran.err) == (2, True)


@pytest.mark.parametrize("command", ["diff-prefix", "simulate"])
def test_model_with_lone_surrogate_is_predicted(command):
    """Half a character (a lone surrogate), as JavaScript may write: it was a bug's exit code."""
    turns = [(body(*texts, model="\ud83d"), usage(0, 9), 60) for texts in (("one",), ("one", "two"))]
    name = capture(*turns)
    assert lore(command, "--json", name).code == 0
