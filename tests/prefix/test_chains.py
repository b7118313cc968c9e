"""Chains: which request continues which."""

from __future__ import annotations

import json

from lore.model.limits import CHAINS_COMPARED
from lore.model.turn import Call, Exchange, StreamedOutput
from lore.prefix.chains import Chains
from model.making import assistant, body, dumps, parsed

TOOLS = [{"name": "ls", "input_schema": {}}]


def linked(*bodies):
    chains = Chains()
    return [tuple(chains.add(parsed(one))) for one in bodies]


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


def test_another_system_prompt_or_another_breakpoint_is_no_other_chain():
    cached = {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}
    plain = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    names = [chain for chain, _ in linked(body(cached), body(plain, assistant("b"), "c", system="Other"))]
    assert names == ["main", "main"]


def test_a_request_for_hardly_any_output_is_a_utility_call():
    assert linked(body("quota", max_tokens=1), body("a"), body("topic?", max_completion_tokens=8)) == [
        ("utility-2", 1), ("main", 1), ("utility-3", 1),
    ]  # fmt: skip


def test_a_request_that_drops_all_tools_is_another_chain():
    names = [
        chain
        for chain, _ in linked(body("a", tools=TOOLS), body("a", "sum up"), body("a", assistant("b"), "c", tools=TOOLS))
    ]
    assert names == ["main", "chain-2", "main"]


def test_the_number_of_chains_that_are_compared_is_bounded():
    many = [body("a", str(number) * 50) for number in range(CHAINS_COMPARED + 5)]
    names = {
        chain for chain, _ in linked(*[body(f"start {number}" * 9) for number in range(CHAINS_COMPARED + 5)], *many)
    }
    assert len(names) > CHAINS_COMPARED


def test_the_same_task_with_another_answer_is_another_run():
    """A benchmark that ran a task again was told that it had rewritten its history."""
    first = parsed({"model": "m", "messages": [_said("user", "task"), _said("assistant", "one"), _said("user", "go")]})
    again = parsed({"model": "m", "messages": [_said("user", "task"), _said("assistant", "two"), _said("user", "no")]})
    chains = Chains()
    assert [chains.add(one).chain for one in (first, again)] == ["main", "chain-2"]


def test_a_thinking_block_that_is_dropped_is_no_other_run():
    """A client that sent its history without thinking was taken for another run of the task, and never judged."""
    thought = {"type": "thinking", "thinking": "…", "signature": "s"}
    answer = {"type": "text", "text": "one"}
    full = body("task", {"role": "assistant", "content": [thought, answer]}, "go")
    bare = body("task", {"role": "assistant", "content": [answer]}, "go")
    assert linked(full, bare) == [("main", 1), ("main", 2)]


def test_an_answer_that_was_rewritten_among_much_that_was_not_is_the_same_run():
    def run(answer):
        rest = [_said(role, f"{role} {number}") for number in range(4) for role in ("user", "assistant")]
        return parsed({"model": "m", "messages": [_said("user", "task"), _said("assistant", answer), *rest]})

    chains = Chains()
    assert [chains.add(run(answer)).chain for answer in ("one", "two")] == ["main", "main"]


def _said(role, text):
    return {"role": role, "content": [{"type": "text", "text": text}]}


def test_a_chain_that_was_forgotten_is_not_continued():
    bodies = [body("a" * 50_000), body("b" * 50_000), body("c" * 50_000)]
    chains = Chains(remembered=120_000)
    names = [chains.add(parsed(one)).chain for one in bodies]
    assert chains.take_forgotten() == [names[0]]
    assert chains.take_forgotten() == []
    again = parsed(body("a" * 50_000, assistant("x"), "y"))
    assert chains.add(again) == ("chain-4", 1)
    assert chains.add(parsed(body("c" * 50_000, assistant("x"), "y"))) == ("chain-3", 2)


def test_what_goes_on_is_not_forgotten():
    history, chains = ["a" * 20_000], Chains(remembered=300_000)
    for number in range(50):
        assert chains.add(parsed(body(*history))) == ("main", number + 1)
        history += [assistant(f"answer {number}"), f"question {number}"]
        chains.add(parsed(body(f"{number}" * 10_000)))


def test_no_more_is_kept_than_there_is_room_for():
    """Every prompt that began a chain was kept for ever, and every first message that one ever had."""
    chains = Chains(remembered=1_000_000)
    for number in range(300):
        chains.add(parsed(body(f"{number}" * 5_000)))
        chains.add(parsed(body(f"It is {number}. " + "x" * 5_000, *["y", assistant("z")] * (number % 7))))
    kept = getattr(chains, "_chains")  # noqa: B009 - what is tested
    assert sum(len(segment.data) for chain in kept.values() for segment in chain.prompt) < 1_000_000
    alike = getattr(chains, "_by_first_message")  # noqa: B009
    assert {name for names in alike.values() for name in names} == set(kept)
    assert {name: set(chain.first_messages) for name, chain in kept.items()} == {
        name: {first for first, names in alike.items() if name in names} for name in kept
    }


# who asks, and what for


def exchange(session="", agent="", **fields):
    call = Call(endpoint=fields.pop("endpoint", ""), session=session, agent=agent, previous=fields.pop("previous", ""),
                status=fields.pop("status", None), purpose=fields.pop("purpose", ""))  # fmt: skip
    return Exchange(b"{}", "wire", call=call, **fields)


def named(*asked):
    chains = Chains()
    return [chains.add(parsed(one), who).chain for one, who in asked]


def test_main_loop_side_calls_and_subagents_of_one_session_are_told_apart():
    main, sub = exchange("s"), exchange("s", "a1")
    found = named(
        (body("a", tools=TOOLS), main),
        (body("a", system="Generate a title for it."), main),
        (body("count", tools=TOOLS), exchange("s", purpose="count_tokens")),
        (body("dig", tools=TOOLS, system="You dig."), sub),
        (body("a", assistant("b"), "c", tools=TOOLS), main),
        (body("dig", assistant("dug"), "on", tools=TOOLS, system="You dig."), sub),
        (body("look", tools=TOOLS, system="You look."), main),
        (body("Is it safe?", system="You judge commands."), main),
    )
    assert found == ["main", "utility-2", "utility-3", "a1", "main", "a1", "agent-4", "utility-5"]


def test_an_agents_id_that_could_not_be_named_on_a_command_line_gets_a_number():
    assert named((body("a"), exchange("s")), (body("b"), exchange("s", "a:1#\x1b"))) == ["main", "agent-2"]


def test_a_session_that_was_resumed_under_another_id_goes_on():
    before, after = body("a", assistant("b"), "c"), body("a", assistant("b"), "c", assistant("d"), "e")
    assert named((before, exchange("s")), (after, exchange("t"))) == ["main", "main"]


def test_a_request_continues_the_response_that_it_names():
    one, two = body("a", assistant("b"), "left"), body("a", assistant("b"), "right")
    found = named(
        (one, exchange(response_id="r1")),
        (body("a"), exchange(response_id="r2")),
        (two, exchange(previous="r2", response_id="r3")),
        (body("a", assistant("b"), "left", assistant("c"), "d"), exchange(previous="r1")),
    )
    assert found == ["main", "chain-2", "chain-2", "main"]


def test_a_request_that_failed_is_not_what_the_next_one_goes_on_from():
    start, broken = body("a", assistant("b"), "c"), body("a", assistant("b"), "too much " * 50)
    chains = Chains()
    chains.add(parsed(start), exchange())
    assert chains.add(parsed(broken), exchange(status=429)) == ("main", 2)
    assert chains.add(parsed(body("a", assistant("b"), "c", assistant("d"), "e")), exchange()) == ("main", 3)


SUMMARY = "This session is being continued from a previous conversation that ran out of context."


def test_a_conversation_goes_on_behind_its_summary_and_the_request_for_it_is_beside():
    long = ("a", assistant("b"), "c", assistant("d"), "e")
    found = named(
        (body(*long, tools=TOOLS), exchange("s")),
        (body(*long, "Create a summary of the conversation.", tools=TOOLS), exchange("s")),
        (body(SUMMARY, assistant("f"), "g", tools=TOOLS), exchange("s")),
    )
    assert found == ["main", "utility-2", "main"]


def test_a_chain_without_tools_says_which_chain_it_gave_up():
    chains = Chains()
    chains.add(parsed(body("a", tools=TOOLS)))
    assert (chains.add(parsed(body("a", assistant("b"), "sum up"))).chain, chains.given_up) == ("chain-2", "main")
    chains.add(parsed(body("a", assistant("b"), "c", tools=TOOLS)))
    assert chains.given_up == ""
    chains.add(parsed(body("a", assistant("b"), "c", assistant("d"), "e", system="Other.")))
    assert chains.given_up == ""


def test_tools_that_vanish_inside_a_tool_loop_begin_no_chain():
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}
    assert [chain for chain, _ in linked(body("a", tools=TOOLS), body("a", call, result))] == ["main", "main"]


def test_what_is_known_of_forgotten_chains_is_forgotten_too():
    chains = Chains(remembered=100_000)
    for number in range(200):
        chains.add(parsed(body(f"{number} " * 5_000)), exchange(f"s{number}", response_id=f"r{number}"))
    kept = getattr(chains, "_chains")  # noqa: B009 - what is tested
    responses = getattr(chains, "_by_response")  # noqa: B009
    assert {chain.response: chain.name for chain in kept.values()} == {
        response: chain.name for response, chain in responses.items()
    }


LONG = "It was the parser: an empty line has no first character, and nobody had asked for that."


def test_a_body_that_another_serialiser_wrote_stays_in_its_chain():
    """With white space in every block the next request was taken for another conversation."""
    chains = Chains()
    spaced = json.dumps(body([{"type": "text", "text": "Why does it fail?"}], assistant(LONG), "c")).encode()
    chains.add(parsed(body([{"type": "text", "text": "Why does it fail?"}])))
    assert chains.add(parsed(spaced)).chain == "main"


def test_a_history_whose_beginning_was_cut_stays_in_its_chain():
    """An agent that drops its oldest messages began a chain with each request, and no waste was seen."""
    before = body("a", assistant(LONG + " 1"), "b", assistant(LONG + " 2"), "c")
    after = body("b", assistant(LONG + " 2"), "c", assistant(LONG + " 3"), "d")
    assert [chain for chain, _ in linked(before, after)] == ["main", "main"]


def test_a_notice_before_the_system_prompt_stays_in_its_chain():
    """netclaw puts one at index 0: the system prompt no longer leads, and the loss of it all was in no chain."""
    system = {"role": "system", "content": "Be brief."}
    chat = [[system, *body("a", assistant(LONG), "b")["messages"]]]
    chat.append([{"role": "user", "content": "notice"}, *chat[0], assistant("c"), {"role": "user", "content": "d"}])
    chains = Chains()
    made = [chains.add(parsed({"model": "qwen3", "messages": one}, "openai-chat")).chain for one in chat]
    assert made == ["main", "main"]
    chat[1][1] = {"role": "system", "content": "Another agent."}
    chains = Chains()
    made = [chains.add(parsed({"model": "qwen3", "messages": one}, "openai-chat")).chain for one in chat]
    assert made == ["main", "chain-2"]


def test_one_answer_said_in_two_conversations_does_not_join_them():
    first, second = body("a", assistant("Done."), "b"), body("x", assistant("Done."), "y")
    assert [chain for chain, _ in linked(first, second)] == ["main", "chain-2"]
    other = body("x", assistant(LONG), "y", system="Another agent.")
    assert [chain for chain, _ in linked(body("a", assistant(LONG), "b"), other)] == ["main", "chain-2"]


def test_a_summary_where_the_answer_stood_is_no_other_run_of_the_task():
    summary = "<summary>" + LONG + "</summary>"
    names = linked(body("a", assistant(LONG), "b", assistant("d"), "c"), body("a", summary, assistant("e"), "f"))
    assert [chain for chain, _ in names] == ["main", "main"]


DOCUMENTS = "<context>" + " ".join(f"fact {number}" for number in range(300)) + "</context> "


def told(*asked):
    chains = Chains(join=lambda output: b"" if isinstance(output, bytes) else output.raw)
    return [chains.add(parsed(one), exchange(output=StreamedOutput(dumps(said)))).chain for one, said in asked]


def test_a_first_message_that_loses_its_documents_stays_in_its_chain():
    """An agent that sends retrieved documents with the latest question alone began a chain with its second request."""
    first = (body(DOCUMENTS + "Why?"), [assistant(LONG)])
    assert told(first, (body("Why?", assistant(LONG), "And?"), [])) == ["main", "main"]
    assert told(first, (body("Why?", assistant("Another answer."), "And?"), [])) == ["main", "chain-2"]


def test_a_reply_under_another_system_prompt_or_in_another_session_is_another_conversation():
    first = (body(DOCUMENTS + "Why?"), [assistant(LONG)])
    assert told(first, (body("Why?", assistant(LONG), "And?", system="Other."), [])) == ["main", "chain-2"]
    chains = Chains()
    chains.add(parsed(first[0]), exchange("s", output=dumps(first[1])))
    assert chains.add(parsed(body("Why?", assistant(LONG), "And?")), exchange("t")).chain == "chain-2"


def test_a_reply_is_looked_for_only_where_nothing_else_tells_the_chain():
    """Put together for every request, replies cost as much as all of the requests."""
    asked = []
    chains = Chains(join=lambda output: asked.append(output) or b"")
    history = ["a"]
    for number in range(5):
        chains.add(parsed(body(*history)), exchange(output=StreamedOutput(b'"x"')))
        history += [assistant(f"{LONG} {number}"), "more"]
    for number in range(5):
        chains.add(parsed(body(f"A question of its own: {number}")), exchange(output=StreamedOutput(b'"x"')))
    assert asked == []
