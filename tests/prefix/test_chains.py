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


def test_a_chain_that_was_forgotten_is_not_continued():
    bodies = [body("a" * 50_000), body("b" * 50_000), body("c" * 50_000)]
    chains = Chains(remembered=120_000)
    names = [chains.link(parsed(one)).chain for one in bodies]
    assert chains.forgotten() == [names[0]]
    assert chains.forgotten() == []
    again = parsed(body("a" * 50_000, assistant("x"), "y"))
    assert chains.link(again) == ("chain-4", 1)
    assert chains.link(parsed(body("c" * 50_000, assistant("x"), "y"))) == ("chain-3", 2)


def test_what_goes_on_is_not_forgotten():
    history, chains = ["a" * 20_000], Chains(remembered=300_000)
    for number in range(50):
        assert chains.link(parsed(body(*history))) == ("main", number + 1)
        history += [assistant(f"answer {number}"), f"question {number}"]
        chains.link(parsed(body(f"{number}" * 10_000)))


def test_the_latest_is_remembered_whatever_its_size():
    chains = Chains(remembered=10)
    assert [chains.link(parsed(one)) for one in (body("a"), body("a", assistant("b"), "c"))] == [
        ("main", 1),
        ("main", 2),
    ]
    assert chains.forgotten() == []


def test_no_more_is_kept_than_there_is_room_for():
    """Every prompt that began a chain was kept for ever, and every first message that one ever had."""
    chains = Chains(remembered=1_000_000)
    for number in range(300):
        chains.link(parsed(body(f"{number}" * 5_000)))
        chains.link(parsed(body(f"It is {number}. " + "x" * 5_000, *["y", assistant("z")] * (number % 7))))
    kept = [getattr(chains, name) for name in ("_last", "_sizes", "_turns", "_firsts")]
    assert len({frozenset(one) for one in kept}) == 1
    assert sum(len(segment.data) for prompt in kept[0].values() for segment in prompt) < 1_000_000
    listed = {name for names in getattr(chains, "_alike").values() for name in names}  # noqa: B009 - what is tested
    assert listed == set(kept[0])
