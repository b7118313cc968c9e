"""Chains: which request continues which."""

from __future__ import annotations

from lore.prefix.chains import LOOK_BACK, Chains
from model.making import assistant, body, parsed

TOOLS = [{"name": "ls", "input_schema": {}}]


def linked(*bodies):
    chains = Chains()
    return [tuple(chains.link(parsed(one))) for one in bodies]


def test_a_conversation_that_goes_on_is_one_chain():
    assert linked(body("a"), body("a", assistant("b"), "c")) == [("main", 1), ("main", 2)]


def test_interleaved_conversations_are_told_apart():
    first = [body("a"), body("a", assistant("b"), "c")]
    second = [body("x"), body("x", assistant("y"), "z")]
    assert [chain for chain, _ in linked(first[0], second[0], first[1], second[1])] == [
        "main", "chain-2", "main", "chain-2",
    ]  # fmt: skip


def test_a_request_that_only_repeats_the_beginning_is_a_fork():
    names = [
        chain for chain, _ in linked(body("a", assistant("b"), "c"), body("a"), body("a", assistant("b"), "c", "d"))
    ]
    assert names == ["main", "chain-2", "main"]


def test_a_rewritten_history_stays_in_its_chain():
    names = [chain for chain, _ in linked(body("a", assistant("b"), "c"), body("a", assistant("B"), "c", "d"))]
    assert names == ["main", "main"]


def test_of_two_forks_the_one_whose_history_fits_goes_on():
    trunk = ("a", assistant("b"))
    left, right = body(*trunk, "left"), body(*trunk, "right")
    names = [chain for chain, _ in linked(left, body("a"), right, body(*trunk, "right", assistant("r"), "more"))]
    assert names[3] == names[2]


def test_another_system_prompt_or_another_mark_is_no_other_chain():
    marked = {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}
    plain = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    names = [chain for chain, _ in linked(body(marked), body(plain, assistant("b"), "c", system="Other"))]
    assert names == ["main", "main"]


def test_a_request_for_hardly_any_output_is_a_utility_call():
    assert linked(body("quota", max_tokens=1), body("a"), body("topic?", max_completion_tokens=8)) == [
        ("utility-2", 1), ("main", 1), ("utility-3", 1),
    ]  # fmt: skip


def test_a_utility_call_over_the_same_history_does_not_take_over_the_chain():
    names = [chain for chain, _ in linked(body("a"), body("a", "t?", max_tokens=5), body("a", assistant("b"), "c"))]
    assert names == ["main", "utility-2", "main"]


def test_a_request_that_drops_all_tools_is_another_chain():
    names = [
        chain
        for chain, _ in linked(body("a", tools=TOOLS), body("a", "sum up"), body("a", assistant("b"), "c", tools=TOOLS))
    ]
    assert names == ["main", "chain-2", "main"]


def test_requests_without_messages_are_a_chain():
    assert linked(body(), body()) == [("main", 1), ("main", 2)]


def test_the_number_of_chains_that_are_compared_is_bounded():
    many = [body("a", str(number) * 50) for number in range(LOOK_BACK + 5)]
    names = {chain for chain, _ in linked(*[body(f"start {number}" * 9) for number in range(LOOK_BACK + 5)], *many)}
    assert len(names) > LOOK_BACK


def test_the_same_task_with_another_answer_is_another_run():
    """A benchmark that ran a task again was told that it had rewritten its history."""
    first = parsed({"model": "m", "messages": [_said("user", "task"), _said("assistant", "one"), _said("user", "go")]})
    again = parsed({"model": "m", "messages": [_said("user", "task"), _said("assistant", "two"), _said("user", "no")]})
    chains = Chains()
    assert [chains.link(one).chain for one in (first, again)] == ["main", "chain-2"]


def test_an_answer_that_was_rewritten_among_much_that_was_not_is_the_same_run():
    def run(answer):
        rest = [_said(role, f"{role} {number}") for number in range(4) for role in ("user", "assistant")]
        return parsed({"model": "m", "messages": [_said("user", "task"), _said("assistant", answer), *rest]})

    chains = Chains()
    assert [chains.link(run(answer)).chain for answer in ("one", "two")] == ["main", "main"]


def _said(role, text):
    return {"role": role, "content": [{"type": "text", "text": text}]}
