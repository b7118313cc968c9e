"""Which request continues which: by chains, and by the ends of requests."""

import json
from time import process_time

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.model.limits import CHAINS_COMPARED, ENDED_REQUESTS
from lore.model.turn import Call, Exchange, StreamedOutput
from lore.prefix import chains
from lore.prefix.chains import Chains, RequestEnds
from model.making import assistant, body, dumps, parsed, turn
from prefix.pairs import model, text, tool_result, tool_use, user

TOOLS = [{"name": "ls", "input_schema": {}}]
LONG = "It was the parser: an empty line has no first character, and no caller had asked for that."
SUMMARY = "This session is being continued from a previous conversation that ran out of context."


def exchange(session="", agent="", *, response_id="", output=b"", **call):
    return Exchange(
        b"{}", "wire", call=Call(session=session, agent=agent, **call), response_id=response_id, output=output
    )


def chains_of(*requests):
    """The chain of each request: a body, or a body with its exchange."""
    chains = Chains(join=lambda output: output.raw)
    pairs = [request if isinstance(request, tuple) else (request, None) for request in requests]
    return [chains.add(parsed(request_body), answer)[0] for request_body, answer in pairs]


def test_interleaved_conversations_are_separate_chains():
    first = [body("a"), body("a", assistant("b"), "c")]
    second = [body("x"), body("x", assistant("y"), "z")]
    assert chains_of(first[0], second[0], first[1], second[1]) == ["main", "chain-2", "main", "chain-2"]


def test_window_of_one_exchange_stays_one_chain():
    windows = body("a"), body("a", assistant("b"), "c"), body("c", assistant("d"), "e"), body("e", assistant("f"), "g")
    assert set(chains_of(*windows)) == {"main"}
    received = exchange(output=dumps({"role": "assistant", "content": "Another answer, which nobody sends back. " * 2}))
    assert chains_of((windows[1], received), windows[2]) == ["main", "main"]  # its answer is too short to be compared
    other = body("c", assistant(LONG), "e")
    assert chains_of((windows[1], received), other) == ["main", "chain-2"]
    assert chains_of(windows[1], body("c", "d")) == ["main", "chain-2"]


@pytest.mark.parametrize("size", [4, 5, 7])
def test_window_of_several_short_messages_stays_one_chain(size):
    talk = [
        "a",
        assistant("b"),
        "c",
        assistant("d"),
        "e",
        assistant("f"),
        "g",
        assistant("h"),
        "i",
        assistant("j"),
        "k",
    ]
    windows = [body(*talk[max(0, end - size) : end]) for end in range(1, len(talk) + 1, 2)]
    assert set(chains_of(*windows)) == {"main"}


def test_window_of_equal_messages_costs_linear_time():
    """8,000 pairs of equal messages took two minutes: each part of one prompt was compared with the other."""
    seconds = []
    for pairs in (500, 4_000):
        talk = [user("Go on."), assistant("Done.")] * pairs
        windows = [parsed({"messages": [*talk[start:], user(f"Step {start}")]}) for start in range(3)]
        known = Chains()
        began = process_time()
        for window in windows:
            known.add(window)
        seconds.append(process_time() - began)
    assert seconds[1] < 25 * seconds[0] + 0.1


def test_window_that_fits_two_conversations_continues_neither():
    said = [dumps({"role": "assistant", "content": f"{name}: {LONG}"}) for name in "AB"]
    ends = [body(f"task {name}", assistant(name), "Continue.") for name in "AB"]
    window = body("Continue.", assistant(f"A: {LONG}"), "And now?")
    assert chains_of(*ends, window) == ["main", "chain-2", "chain-3"]
    answered = [(end, exchange(output=output)) for end, output in zip(ends, said, strict=True)]
    assert chains_of(*answered, window) == ["main", "chain-2", "main"]


@pytest.mark.parametrize("other", [
    {"system": "Another agent."}, {"tools": TOOLS},
    {"messages": [user("Continue."), user("And now?")]}, {"messages": [assistant("Continue."), user("And now?")]},
])  # fmt: skip
def test_stranger_with_same_first_message_is_no_window(other):
    window = body("Continue.", assistant("Done."), "And now?")
    end = body("task", assistant("a"), "Continue.")
    assert chains_of(end, window) == ["main", "main"]
    assert chains_of(end, {**window, **other}) == ["main", "chain-2"]


def test_repeating_only_the_beginning_is_a_fork():
    requests = body("a", assistant("b"), "c"), body("a"), body("a", assistant("b"), "c", "d")
    assert chains_of(*requests) == ["main", "chain-2", "main"]


def test_the_fork_whose_history_fits_continues():
    trunk = ("a", assistant("b"))
    forks = body(*trunk, "left"), body("a"), body(*trunk, "right"), body(*trunk, "right", assistant("r"), "more")
    names = chains_of(*forks)
    assert names[3] == names[2]


CONTINUED = {
    "rewritten answer": [body("a", assistant("b"), "c"), body("a", assistant("B"), "c", "d")],
    "rewritten answer, marked last message": [
        body("a", assistant("b"), user(text("c", cache_control={"type": "ephemeral"}))),
        body("a", assistant("B"), "c", assistant("d"), user(text("e", cache_control={"type": "ephemeral"}))),
    ],
    "other system prompt and breakpoint": [
        body(user(text("a", cache_control={"type": "ephemeral"}))),
        body(user("a"), assistant("b"), "c", system="Other"),
    ],
    "thinking is dropped": [
        body("task", model({"type": "thinking", "thinking": "…", "signature": "s"}, "one"), "go"),
        body("task", model("one"), "go"),
    ],
    "one of many answers is rewritten": [
        body(user("task"), model(answer), *(user("go on"), model("later answer")) * 4) for answer in ("one", "two")
    ],
    "tools vanish inside a tool loop": [
        body("a", tools=TOOLS), body("a", model(tool_use()), user(tool_result())),
    ],
    "beginning is cut": [
        body("a", assistant(LONG + " 1"), "b", assistant(LONG + " 2"), "c"),
        body("b", assistant(LONG + " 2"), "c", assistant(LONG + " 3"), "d"),
    ],
    "summary replaces an answer": [
        body("a", assistant(LONG), "b", assistant("d"), "c"),
        body("a", f"<summary>{LONG}</summary>", assistant("e"), "f"),
    ],
    "another serialiser": [
        body(user("Why does it fail?")),
        json.dumps(body(user("Why does it fail?"), assistant(LONG), "c")).encode(),
    ],
    "another session id": [
        (body("a", assistant("b"), "c"), exchange("s")),
        (body("a", assistant("b"), "c", assistant("d"), "e"), exchange("t")),
    ],
    "another cache key": [
        (body("a", prompt_cache_key="key-1"), exchange("key-1")),
        (body("a", assistant("b"), "c", prompt_cache_key="key-2"), exchange("key-2")),
    ],
    "every text is rendered again": [
        body(f"{LONG} ({turns} turns ago)", assistant(f"{LONG} It fails {turns} turns later."), "b", *more)
        for turns, more in enumerate(((), (assistant("c"), "d")))
    ],
    "history in one text that counts its steps": [
        body(f"{LONG * 3} Steps so far: {len(steps)}. Log: {', '.join(steps)}")
        for steps in (["read"] * 9, ["read"] * 10)
    ],
    "history in one text": [body(f"{LONG * 3} Log: {steps}. Continue.") for steps in ("read", "read, write")],
}  # fmt: skip
SEPARATE = {
    "same task again": [body(user("task"), model("one"), user("go")), body(user("task"), model("two"), user("no"))],
    "same task again on another day": [
        body("task", user(day), model(tool_use(call_id=call)), user(tool_result(call_id=call)))
        for day, call in (("Monday", "toolu_01ReadTheFile4"), ("Friday", "toolu_02ReadAnother7"))
    ],
    "a short answer in common": [body("a", assistant("Done."), "b"), body("x", assistant("Done."), "y")],
    "an answer under another system prompt": [
        body("a", assistant(LONG), "b"), body("x", assistant(LONG), "y", system="Another agent."),
    ],
    "one text, two tasks": [
        body("a", system=f"Extract {what}.", tools=[{"name": "submit", "description": what, "input_schema": {}}])
        for what in ("topics", "moods")
    ],
    "short texts of another conversation": [
        body(user(text("a")), model("b"), "c"), body(user(text("d")), model("e"), "f", assistant("g"), "h"),
    ],
    "handoff to another agent": [
        body("a", system="Triage.", tools=[{"name": "transfer_to_billing", "input_schema": {}}]),
        body("a", model(tool_use(name="transfer_to_billing")), user(tool_result()), system="Billing.", tools=TOOLS),
    ],
    "one form of summary, two inputs": [
        body(f"Sum up {topic}. {LONG}\n<summary>\n[Yours]\n</summary>") for topic in ("a", "b")
    ],
    "one template, two inputs": [body(f"{LONG * 3} Word: {word}.") for word in ("cat", "giraffe")],
}  # fmt: skip


@each([*CONTINUED])
def test_changed_request_stays_in_its_chain(name):
    assert chains_of(*CONTINUED[name]) == ["main", "main"]


@pytest.mark.parametrize("name", SEPARATE)
def test_similar_request_begins_another_chain(name):
    assert chains_of(*SEPARATE[name]) == ["main", "chain-2"]


def test_same_question_in_parallel_is_two_conversations():
    """The calls have no arguments, so that only their ids and results differ."""
    asked = [{"role": "user", "content": "Roll the dice."}]
    talks = [
        [*asked, {"type": "function_call", "call_id": f"call_{number}", "name": "roll", "arguments": "{}"},
         {"type": "function_call_output", "call_id": f"call_{number}", "output": str(number)}]
        for number in (1, 2)
    ]  # fmt: skip
    chains = Chains()
    prompts = [parsed({"model": "gpt-5", "input": variant}, "openai-responses") for variant in (asked, asked, *talks)]
    assert [chains.add(prompt)[0] for prompt in prompts] == ["main", "main", "main", "chain-2"]


def test_notice_before_system_prompt_keeps_its_chain():
    system = {"role": "system", "content": "Be brief."}
    first = [system, *body("a", assistant(LONG), "b")["messages"]]
    second = [{"role": "user", "content": "notice"}, *first, assistant("c"), {"role": "user", "content": "d"}]
    other = [second[0], {"role": "system", "content": "Another agent."}, *second[2:]]
    for messages, expected in ((second, ["main", "main"]), (other, ["main", "chain-2"])):
        chains = Chains()
        prompts = [parsed({"model": "qwen3", "messages": variant}, "openai-chat") for variant in (first, messages)]
        assert [chains.add(prompt)[0] for prompt in prompts] == expected


def test_requests_for_few_tokens_are_side_calls():
    requests = body("quota", max_tokens=1), body("a"), body("topic?", system=None, max_completion_tokens=8)
    assert chains_of(*requests) == ["utility-2", "main", "utility-3"]


def test_compared_chains_are_bounded():
    starts = [body(f"start {number}" * 9) for number in range(CHAINS_COMPARED + 5)]
    others = [body("a", str(number) * 50) for number in range(CHAINS_COMPARED + 5)]
    assert len(set(chains_of(*starts, *others))) > CHAINS_COMPARED


def test_main_loop_side_calls_and_subagents_are_separate():
    main, sub = exchange("s"), exchange("s", "a1")
    assert chains_of(
        (body("a", tools=TOOLS), main),
        (body("a", system="Generate a title for it."), main),
        (body("count", tools=TOOLS), exchange("s", purpose="count_tokens")),
        (body("dig", tools=TOOLS, system="You dig."), sub),
        (body("a", assistant("b"), "c", tools=TOOLS), main),
        (body("dig", assistant("dug"), "on", tools=TOOLS, system="You dig."), sub),
        (body("look", tools=TOOLS, system="You look."), main),
        (body("Is it safe?", system="You judge commands."), main),
    ) == ["main", "utility-2", "utility-3", "a1", "main", "a1", "agent-4", "utility-5"]


def test_name_of_forgotten_agent_is_not_reused():
    chains = Chains(remembered=1)
    first_agent, second_agent = exchange("s", "a1"), exchange("s", "a2")
    added = [
        chains.add(parsed(body(text)), agent)
        for text, agent in (("dig", first_agent), ("look", second_agent), ("dig", first_agent))
    ]
    assert added == [("a1", 1), ("a2", 1), ("agent-2", 1)]


def test_agent_id_with_odd_characters_gets_a_number():
    assert chains_of((body("a"), exchange("s")), (body("b"), exchange("s", "a:1#\x1b"))) == ["main", "agent-2"]


def test_request_continues_the_response_that_it_names():
    assert chains_of(
        (body("a", assistant("b"), "left"), exchange(response_id="r1")),
        (body("a"), exchange(response_id="r2")),
        (body("a", assistant("b"), "right"), exchange(previous="r2", response_id="r3")),
        (body("a", assistant("b"), "left", assistant("c"), "d"), exchange(previous="r1")),
    ) == ["main", "chain-2", "chain-2", "main"]


def test_failed_request_is_not_continued():
    chains = Chains()
    chains.add(parsed(body("a", assistant("b"), "c")), exchange())
    assert chains.add(parsed(body("a", assistant("b"), "too much " * 50)), exchange(status=429)) == ("main", 2)
    assert chains.add(parsed(body("a", assistant("b"), "c", assistant("d"), "e")), exchange()) == ("main", 3)


def test_conversation_continues_after_its_summary():
    long = ("a", assistant("b"), "c", assistant("d"), "e")
    assert chains_of(
        (body(*long, tools=TOOLS), exchange("s")),
        (body(*long, "Create a summary of the conversation.", tools=TOOLS), exchange("s")),
        (body(SUMMARY, assistant("f"), "g", tools=TOOLS), exchange("s")),
    ) == ["main", "utility-2", "main"]


def test_dropping_all_tools_begins_a_chain():
    chains = Chains()
    chains.add(parsed(body("a", tools=TOOLS)))
    assert (chains.add(parsed(body("a", assistant("b"), "sum up")))[0], chains.given_up) == ("chain-2", "main")
    assert chains.add(parsed(body("a", assistant("b"), "c", tools=TOOLS)))[0] == "main"
    assert chains.given_up == ""
    chains.add(parsed(body("a", assistant("b"), "c", assistant("d"), "e", system="Other.")))
    assert chains.given_up == ""


# Replies

DOCUMENTS = "<context>" + " ".join(f"fact {number}" for number in range(300)) + "</context> "
ASKED = (body(DOCUMENTS + "Why?"), exchange("s", output=StreamedOutput(dumps([assistant(LONG)]))))


@pytest.mark.parametrize(("request_body", "session", "chain"), [
    (body("Why?", assistant(LONG), "And?"), "s", "main"),
    (body("Why?", assistant("Another answer."), "And?"), "s", "chain-2"),
    (body("Why?", assistant(LONG), "And?", system="Other."), "s", "agent-2"),
    (body("Why?", assistant(LONG), "And?"), "t", "chain-2"),
])  # fmt: skip
def test_request_without_documents_is_known_by_reply(request_body, session, chain):
    assert chains_of(ASKED, (request_body, exchange(session)))[1] == chain


def test_reply_joins_requests_that_name_other_sessions():
    """A client sent a random cache key with each request, which is read as its session."""
    question = body("Why?"), exchange("key-1", output=StreamedOutput(dumps([assistant(LONG)])))
    for answer, chain in ((LONG, "main"), ("Another answer.", "chain-2")):
        assert chains_of(question, (body("Why?", assistant(answer), "And?"), exchange("key-2")))[1] == chain


def test_short_reply_joins_only_right_after_its_question():
    question = body("Why?"), exchange("key-1", output=dumps([assistant("Ok.")]))
    for history, chain in (("Ok.", "main"), ("No.", "chain-2")):
        assert chains_of(question, (body("Why?", assistant(history), "Go."), exchange("key-2")))[1] == chain
    late = body("Why?", "Well?", assistant("Ok."), "Go."), exchange("key-2")
    assert chains_of(question, late)[1] == "chain-2"


def test_replies_are_joined_only_if_nothing_else_decides():
    joined_outputs = []
    chains = Chains(join=lambda output: joined_outputs.append(output) or b"")
    history = ["a"]
    for number in range(5):
        chains.add(parsed(body(*history)), exchange(output=StreamedOutput(b'"x"')))
        history += [assistant(f"{LONG} {number}"), "more"]
    for number in range(5):
        chains.add(parsed(body(f"A question of its own: {number}")), exchange(output=StreamedOutput(b'"x"')))
    assert joined_outputs == []
    for number in range(3):  # the first message has changed: the reply may show whose it is
        chains.add(parsed(body(f"Changed {number}", assistant(LONG), "more")), exchange())
    assert len(joined_outputs) == 6  # replies: each is joined once, though three requests asked for it


# Memory


def test_forgotten_chain_is_not_continued():
    chains = Chains(remembered=120_000)
    names = [chains.add(parsed(body(letter * 50_000)))[0] for letter in "abc"]
    assert (chains.take_forgotten(), chains.take_forgotten()) == ([names[0]], [])
    assert chains.add(parsed(body("a" * 50_000, assistant("x"), "y"))) == ("chain-4", 1)
    assert chains.add(parsed(body("c" * 50_000, assistant("x"), "y"))) == ("chain-3", 2)


def test_memory_of_chains_is_bounded():
    chains = Chains(remembered=1_000_000)
    for number in range(300):
        request_body = body(f"It is {number}. " + "x" * 5_000, *["y", assistant("z")] * (number % 7))
        chains.add(parsed(request_body), exchange(f"s{number}", response_id=f"r{number}"))
    kept_chains = vars(chains)["_chains"]
    assert sum(len(segment.data) for chain in kept_chains.values() for segment in chain.prompt) < 1_000_000


def test_replies_count_as_memory_of_chains():
    chains = Chains(remembered=1_000_000)
    for number in range(50):
        chains.add(parsed(body(f"{number}")), exchange(f"s{number}", output=dumps([f"{number:100000}"])))
    assert len(vars(chains)["_chains"]) < 10


TALK = ("a", assistant("b"), "c", assistant("d"), "e", assistant("f"), "g")


def request(number, messages, *, tools=None, chain="main", **fields):
    prompt = parsed(body(*TALK[:messages], **({"tools": tools} if tools else {})))
    return replace(turn(prompt, number, **fields), chain=chain)


def last_end(*requests):
    ends = RequestEnds()
    return [ends.add(request) for request in requests][-1]


def test_a_chain_that_grows_continues_its_last_request():
    assert last_end(request(1, 1), request(2, 3), request(3, 5)) is None


def test_returning_tools_continue_the_earlier_request():
    end = last_end(request(1, 1, tools=TOOLS), request(2, 3, tools=TOOLS), request(3, 3), request(4, 5, tools=TOOLS))
    assert (end.turn.number, end.used.number) == (2, 2)
    end = last_end(request(1, 1, tools=TOOLS), request(2, 1), request(3, 3, tools=TOOLS))
    assert (end.turn.number, end.used.number) == (1, 1)


def test_requests_about_one_image_are_separate_chains():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 400}}
    described = {"role": "user", "content": [image, text("Describe the image for a search index, in two sentences.")]}
    asked = {"role": "user", "content": [image, image, text("Which of the two figures shows the reward function?")]}
    assert chains_of(body(described), body(asked, system="You answer questions about papers.")) == ["main", "chain-2"]


def test_equal_requests_of_two_chains_share_one_end():
    first, copy, again = request(1, 1), request(1, 1, chain="copy"), request(2, 3)
    other = replace(turn(parsed(body("a", assistant("z"), "y")), 2), chain="other")
    assert last_end(first, copy, again, request(1, 3, tools=TOOLS, chain="other"), other).used is again


def test_another_endpoint_is_another_cache():
    elsewhere = Call("eu.example.com/v1/messages")
    assert last_end(request(1, 1, tools=TOOLS, call=elsewhere), request(2, 1), request(3, 3, tools=TOOLS)) is None


def test_first_request_of_a_chain_continues_none():
    assert last_end(request(1, 1), request(2, 3), request(1, 3, chain="fork")) is None


def test_only_the_latest_ends_are_kept():
    others = [replace(turn(parsed(body(f"task {n}"))), chain=f"chain-{n}") for n in range(ENDED_REQUESTS)]
    assert last_end(request(1, 1, tools=TOOLS), *others, request(2, 1), request(3, 3, tools=TOOLS)) is None


def test_repeated_segments_are_hashed_once(monkeypatch):
    hashed, original = [], chains.iterate_from

    def count(prompt, position, *, tail):
        segments = list(original(prompt, position, tail=tail))
        hashed.append(len(segments))
        return segments

    monkeypatch.setattr(chains, "iterate_from", count)
    last_end(*(request(number, messages) for number, messages in enumerate(range(1, 8, 2), 1)))
    assert len(set(hashed[1:])) == 1  # an answer and a question, however long the history
