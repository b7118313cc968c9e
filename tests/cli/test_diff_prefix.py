"""`lore diff-prefix`: what a cache would read of the right side after the left; a turn and its previous turn."""

import json

import pytest

from cli.running import compacted, lore, put
from cli.test_overview import claude
from cli.test_simulate import LONG, body, capture, usage
from formats.claude import answered, asked, log_bytes, text
from model.making import dumps

THREE = (
    (body("one"), usage(0, 5000), 0),
    (body("one", "1", "two"), usage(5000, 100), 60),
    (body("one", "1", "two", "2", "three"), usage(5100, 90), 120),
)


def caches(*args: str) -> list[list[tuple[str, int | None, str]]]:
    result = lore("diff-prefix", *args, "--json")
    assert result.code == 0
    predictions = [json.loads(line)["caches"] for line in result.out.splitlines()]
    return [
        [(prediction["cache"], prediction["read_tokens"], prediction["confidence"]) for prediction in turn]
        for turn in predictions
    ]


def test_fail_under_of_a_session_without_pair_exits_3():
    path = capture(THREE[0])
    assert lore("diff-prefix", path).code == 2
    ran = lore("diff-prefix", path, "--fail-under", "0.5")
    assert (ran.code, "--fail-under cannot be judged: capture.jsonl holds 1 turn and no pair" in ran.err) == (3, True)


def test_prediction_of_pair_ignores_its_own_usage():
    assert caches(capture(*THREE)) == [[("anthropic", 5000, "rule")], [("anthropic", 5100, "rule")]]
    hidden = (*THREE[:2], (THREE[2][0], usage(0, 1), 120))
    assert caches(capture(*hidden))[1] == [("anthropic", 5100, "rule")]


def test_two_bodies_are_predicted_without_usage():
    for number in (1, 2):
        put(f"{number}.json", json.dumps(THREE[number][0]).encode())
    ((prediction,),) = caches("1.json", "2.json")
    tokens = lore("diff-prefix", "1.json", "2.json", "--json").json["prompt"]["left_tokens"]
    assert prediction[0] == "anthropic"
    assert prediction[1] == pytest.approx(tokens, rel=0.01), "the tokens that the answer counts are those that are read"
    assert prediction[2] == "ceiling"


def test_prediction_knows_usage_of_previous_turn():
    name = capture(*THREE)
    assert caches(f"{name}#1", f"{name}#2") == [[("anthropic", 5000, "rule")]]


def test_unknown_provider_has_no_prediction():
    bodies = body("one", model="house-model"), body("one", "1", "two", model="house-model")
    turns = [(request, None, 60 * number) for number, request in enumerate(bodies)]
    assert caches(capture(*turns)) == [[]]


def test_named_caches_are_predicted():
    ((first, two),) = caches(capture(*THREE[:2]), "--cache", "anthropic", "--cache", "deepseek")
    assert first == ("anthropic", 5000, "rule")
    assert two[0] == "deepseek"
    assert two[1] is not None
    assert 4000 < two[1] < 6000


def test_no_tokens_predicts_only_named_cache():
    name = capture(*THREE[:2])
    assert caches(name, "--no-tokens") == [[]]
    assert caches(name, "--no-tokens", "--cache", "anthropic") == [[("anthropic", 5000, "rule")]]


def test_unknown_cache_is_rejected():
    result = lore("diff-prefix", capture(*THREE[:2]), "--cache", "antropic")
    assert (result.code, "did you mean 'anthropic'?" in result.err) == (2, True)


@pytest.mark.parametrize("command", ["diff-prefix", "simulate"])
def test_model_with_lone_surrogate_is_predicted(command):
    turns = [(body(*texts, model="\ud83d"), usage(0, 9), 60) for texts in (("one",), ("one", "two"))]
    name = capture(*turns)
    assert lore(command, "--json", name).code == 0


@pytest.fixture(autouse=True)
def log():
    put("s.jsonl", compacted())


def test_diff_prefix_compares_turn_with_previous_turn():
    implied, explicit = (
        lore("diff-prefix", "s.jsonl#3", "--json"),
        lore("diff-prefix", "s.jsonl#2", "s.jsonl#3", "--json"),
    )
    assert implied.code == 0
    assert (implied.json["left"]["name"], implied.json["right"]["name"]) == ("s.jsonl#2", "s.jsonl#3")
    assert {**implied.json, "left": None} == {**explicit.json, "left": None}
    assert lore("diff-prefix", "s.jsonl#main:2", "--json").json["left"]["name"] == "s.jsonl#1"


def test_diff_prefix_rejects_first_turn():
    result = lore("diff-prefix", "s.jsonl#1")
    assert result.code == 2
    assert "s.jsonl#1 has no previous turn" in result.err


@pytest.mark.parametrize("sides", [("s.jsonl#9",), ("s.jsonl#9", "s.jsonl#1"), ("s.jsonl#1", "s.jsonl#9")])
def test_diff_prefix_names_turns_for_missing_turn(sides):
    result = lore("diff-prefix", *sides)
    assert (result.code, "it has turns 1 to 3" in result.err) == (2, True)


@pytest.mark.parametrize("sides", [("s.jsonl#sub:1",), ("s.jsonl#sub:1", "s.jsonl#1")])
def test_diff_prefix_names_chains_for_missing_chain(sides):
    result = lore("diff-prefix", *sides)
    assert (result.code, "#main:1 to 3" in result.err) == (2, True)


def test_redact_hides_names_of_chains():
    assert "#main" not in lore("diff-prefix", "s.jsonl#sub:1", "--redact").err


@pytest.mark.parametrize(("model", "extra_price"), [("claude-opus-4-6", 6.25 - 0.5), ("claude-unheard-of", None)])
def test_two_bodies_without_usage_show_lost_dollars(model, extra_price):
    for name in ("a", "b"):
        put(f"{name}.json", dumps(body("one", system=f"It is {name}. {LONG * 3}", model=model)))
    (cause,) = lore("diff-prefix", "a.json", "b.json", "--json").json["causes"]
    assert cause["tokens"] == "estimated"
    assert cause["lost_tokens"] > 1_000
    dollars = None if extra_price is None else pytest.approx(cause["lost_tokens"] * extra_price / 1e6, rel=0.01)
    assert cause["lost_dollars"] == dollars
    assert ("re-billed ($" in lore("diff-prefix", "a.json", "b.json").out) == (dollars is not None)
    assert cause["fix"].startswith("Move text that changes out of the system prompt")


def test_two_bodies_show_an_entry_out_of_reach():
    """`check` of the two files does."""
    put("a.json", dumps(body(LONG * 3)))
    later = body(LONG * 3, "1", "two")
    later["messages"][-1]["content"][:0] = [{"type": "text", "text": f"{number}"} for number in range(24)]
    put("b.json", dumps(later))
    for command in ("check", "diff-prefix"):
        result = lore(command, "a.json", "b.json", "--json").json
        assert "LORE113" in [cause["code"] for cause in result["findings" if command == "check" else "causes"]]


def test_prediction_is_that_of_simulate_after_prompt_shrank():
    name = claude("a", [(10, 0, 20_000, 100), (10, 5_000, 1_000, 100)])
    (turn,) = [turn for turn in lore("simulate", name, "--json").json["turns"] if turn["turn"] == 2]
    ((prediction,),) = caches(name)
    assert prediction[1] == turn["predicted"]["read_tokens"] == 6_010


def test_two_sessions_have_no_cause_and_no_fix():
    for name in ("a", "b"):
        put(
            f"{name}.jsonl", log_bytes(asked("u1", f"the question of {name}"), answered("a1", name, text("well"), "u1"))
        )
    result = lore("diff-prefix", "a.jsonl", "b.jsonl", "--json").json
    assert (result["relation"], result["causes"], result["caches"]) == ("unrelated", [], [])
