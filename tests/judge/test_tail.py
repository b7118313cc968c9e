"""Replaced tails: text that ended a request and is gone from the next one."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from judge.captures import SYSTEM, asks, call, judged, usage
from judge.captures import text as words
from judge.judged import leading_kind
from lore.judge.chains.chain import ComparedChain
from lore.judge.pairs.pair import lost_tokens
from lore.judge.pairs.rewrites import describe_tail, find_replaced_tail
from lore.model.differences import VolatileText
from lore.model.events import Usage
from lore.run.rules import PACKAGED
from model.making import assistant, body, parsed, turn

LONG = "one two " * 4000
CLOCK = "The current time is 2026-10-02 10:30:00."
OTHER = "The current time is 2026-10-02 10:31:00."
MARK = {"cache_control": {"type": "ephemeral"}}


def text(words, **fields):
    return {"type": "text", "text": words, **fields}


def user(*blocks):
    return {"role": "user", "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def result(content):
    return {"type": "tool_result", "tool_use_id": "t", "content": content}


def use():
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}]}


def replaced_tail(previous, current, dialect="anthropic"):
    return find_replaced_tail(parsed(previous, dialect), parsed(current, dialect))


def chat(*messages):
    roles = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "d": "developer"}
    return {
        "model": "gpt-5.1",
        "messages": [
            {"role": roles[role], "content": content}
            for role, _, content in (message.partition(":") for message in messages)
        ],
    }


@pytest.mark.parametrize(("previous", "current", "path", "role"), [
    (body("a", "now"), body("a", assistant("b"), "c", "then"), "messages[1]", "user"),
    (
        body("x", assistant("y"), user("a", "now")),
        body("x", assistant("y"), user("a"), assistant("b"), user("c", "then")), "messages[2].content[1]", "user"
    ),
    (
        body("a", use(), user(result("r"), "now")), body("a", use(), user(result("r")), assistant("b"), "c"),
        "messages[2].content[1]", "user"
    ),
    (body("a", {"role": "system", "content": "now"}), body("a", assistant("b"), "c"), "messages[1]", "system"),
])  # fmt: skip
def test_text_replaced_by_the_answer_is_a_tail(previous, current, path, role):
    tail = replaced_tail(previous, current)
    assert tail is not None
    assert (tail.segments[0].path, tail.role) == (path, role)
    assert not tail.repeated


@each("previous, current", [
    (body("a", assistant("b"), "c"), body("a", assistant("b"), "C", assistant("d"), "e")),  # edited
    (body("a", "now"), body("a", "then", assistant("b"), "c")),  # replaced by another text
    (body("a", "now"), body("a", assistant("b"), "now", "c")),  # it moved
    (body("now"), body(assistant("b"), "c")),  # there is no text before it
    (body("a", assistant("b")), body("a", "c")),  # an answer of the model
    (body("a", assistant("b"), "now"), body("a", assistant("b"), assistant("c"), "d")),  # the question is gone
    (body("a", use(), user(result("r"))), body("a", use(), assistant("b"), "c")),  # a result is gone
    (body("a", use(), user("x", result("r"))), body("a", use(), user("x"), assistant("b"))),
    (body("a", "now"), body("a")),  # the model has said nothing
    (body("a", "b"), body("a", "b", assistant("c"))),  # it stays
])  # fmt: skip
def test_similar_text_is_no_tail(previous, current):
    assert replaced_tail(previous, current) is None


@pytest.mark.parametrize(("previous", "current", "path"), [
    (body("a", CLOCK), body("a", OTHER), "messages[1]"),
    (
        body("x", assistant("y"), user("a", CLOCK)),
        body("x", assistant("y"), user("a", OTHER)),
        "messages[2].content[1]"
    ),
    (body("a", use(), user(result("r"), CLOCK)), body("a", use(), user(result("r"), OTHER)), "messages[2].content[1]"),
])  # fmt: skip
def test_resent_request_with_other_end_lost_the_end(previous, current, path):
    # a retry with a newer clock was reported as waste although the conversation was unchanged
    tail = replaced_tail(previous, current)
    assert tail is not None
    assert (tail.segments[0].path, tail.retried) == (path, True)


def test_resent_request_with_same_end_has_no_tail():
    # the document after the changed words was taken for the tail, and 9,807 lost tokens for a note
    assert (
        replaced_tail(
            body("x", assistant("y"), user("first A", "same", LONG)),
            body("x", assistant("y"), user("first B", "same", LONG)),
        )
        is None
    )


def test_tail_costs_at_most_the_billed_prompt():
    # an image in the tail was weighed by its base64: 125,022 tokens of a prompt of 3,000
    tail = replaced_tail(body("a", LONG), body("a", assistant("b"), "c", OTHER))
    assert tail is not None
    assert (describe_tail(tail, 4.0).tokens > 3000, describe_tail(tail, 4.0, 3000).tokens) == (True, 3000)


def test_tail_may_be_several_messages():
    # memory in one message, the time in the next: only the last message was looked at, the other was waste
    tail = replaced_tail(body("a", "recalled: tea", CLOCK), body("a", assistant("b"), "c", "recalled: milk", OTHER))
    assert tail is not None
    assert (tail.segments[0].path, tail.retried, tail.repeated) == ("messages[1]", False, False)
    assert sum(segment.kind == "envelope" for segment in tail.segments) == 2


@pytest.mark.parametrize("ends", [("now",), ()], ids=["followed by a note", "the last message"])
@pytest.mark.parametrize("output", ["r", []], ids=["text", "nothing"])
def test_tool_result_and_following_text_are_no_tail(output, ends):
    """A result that says nothing is an envelope alone, as a message of the user begins with one."""
    result, answer = {"type": "function_call_output", "call_id": "t", "output": output}, {"role": "assistant"}
    question, *notes = [{"role": "user", "content": text} for text in ("a", *ends)]
    previous, current = (
        [question, result, *notes],
        [question, {**answer, "content": "b"}, {"role": "user", "content": "c"}],
    )
    assert replaced_tail({"input": previous}, {"input": current}, "openai-responses") is None
    previous[1] = {"role": "tool", "tool_call_id": "t", "content": output}
    assert replaced_tail({"messages": previous}, {"messages": current}, "openai-chat") is None


def test_tail_has_its_volatile_part_and_cost():
    tail = replaced_tail(body("a", CLOCK), body("a", assistant("b"), "c", OTHER))
    assert tail is not None
    evidence = describe_tail(tail, 4.0)
    size = len('"role":"user"') + len(f'"{CLOCK}"')
    assert (evidence.path, evidence.bytes, evidence.tokens, evidence.role) == (
        "messages[1]", size, round(size / 4), "user",
    )  # fmt: skip
    assert evidence.holds == ("a clock",)


@pytest.mark.parametrize(
    ("note", "holds"), [("It is 09:00:00.", ("a clock",)), ("at 9:05", ("a clock",)), ("v1:10:3", ())]
)
def test_tail_with_a_bare_clock_is_named(note, holds):
    # the tail of the code's own fixture was not named
    tail = replaced_tail(body("a", note), body("a", assistant("b"), "c", OTHER))
    assert tail is not None
    assert describe_tail(tail, 4.0).holds == holds


# in pairs


def pair(previous, current, *, usages=(None, None), at=0.0, **fields):
    pairs = ComparedChain(PACKAGED.rules, **fields)
    pairs.compare_next(turn(parsed(previous), 1, usage=usages[0], sent=at))
    diff = pairs.compare_next(turn(parsed(current), 2, usage=usages[1], sent=at + 10.0))
    assert diff is not None
    return diff


def codes_and_kinds(diff):
    return [(cause.code, cause.kind) for cause in diff.causes]


def test_tail_is_expected_and_outside_the_reuse():
    diff = pair(body(LONG, CLOCK), body(LONG, assistant("b"), "c", OTHER))
    assert (codes_and_kinds(diff), diff.is_break, diff.reuse) == ([("LORE156", "expected")], False, 1.0)
    assert (diff.lost_bytes, lost_tokens(diff, diff.causes[0])) == (0, (0, "estimated"))


def test_tail_excuses_no_break_before_it():
    previous = body("Today is 2026-10-02. " + LONG, assistant("a"), "b", CLOCK)
    current = body("Today is 2026-10-03. " + LONG, assistant("a"), "b", assistant("c"), "d", OTHER)
    diff = pair(previous, current)
    assert (codes_and_kinds(diff)[-1], leading_kind(diff), diff.is_break) == (("LORE156", "expected"), "waste", True)
    assert diff.causes[0].lost > 30_000
    assert diff.causes[-1].lost == 0


def test_breakpoint_on_a_changing_folder_is_named_so(tmp_path):
    calls = [
        call(10.0 * n, asks(*[words("user", "go on")] * (n + 1), system=f"Working directory: /w/{n}\n{SYSTEM}"),
             usage(0, 6_000 + 20 * n))
        for n in range(2)
    ]  # fmt: skip
    _, final = judged(tmp_path, *calls)
    assert ["a working directory" in finding.message for finding in final if finding.code == "LORE153"] == [True]


@pytest.mark.parametrize(("mark", "code", "kind"), [({}, "LORE301", "unattributable"), (MARK, "LORE153", "waste")])
def test_fall_with_breakpoint_on_tail_is_its_fault(mark, code, kind):
    previous = body(user(text(LONG)), user(text(CLOCK, **mark)))
    current = body(user(text(LONG)), assistant("b"), user("c"), user(text(OTHER, **mark)))
    diff = pair(previous, current, usages=(Usage(3, 0, 9000), Usage(3, 0, 9100)))
    assert codes_and_kinds(diff) == [(code, kind), ("LORE156", "expected")]
    assert lost_tokens(diff, diff.causes[0]) == (9000, "recorded")
    if mark:
        evidence = diff.causes[0].evidence
        assert isinstance(evidence, VolatileText)
        assert evidence.on_breakpoint


def test_transcript_has_no_tail():
    """Its prompts were never sent; text that it removes has an event of its own."""
    pairs = ComparedChain(PACKAGED.rules)
    previous, current = parsed(body("a", "now")), parsed(body("a", assistant("b"), "c"))
    for number, prompt in enumerate((previous, current), 1):
        prompt = replace(prompt, fidelity="reconstructed")
        diff = pairs.compare_next(turn(prompt, number))
    assert diff is not None
    assert "LORE156" not in [cause.code for cause in diff.causes]


def test_unknown_role_of_a_tail_is_not_quoted():
    """A role was passed on as lore's own word, and redaction left it in."""
    tail = replaced_tail(
        chat("u:a") | {"messages": [{"role": "user", "content": "a"}, {"role": "bob@example.com", "content": "now"}]},
        chat("u:a", "a:b", "u:c"), "openai-chat",
    )  # fmt: skip
    assert tail is not None
    assert describe_tail(tail, 4.0).role == ""


def test_tail_may_have_very_many_blocks():
    """A hundred recalled documents, a block each, were taken for messages that were taken out."""
    tail = replaced_tail(body("a", user(*map(str, range(10_000)))), body("a", assistant("b"), "c"))
    assert tail is not None
    assert len(tail.segments) == 10_001
    found_behind = replaced_tail(
        body("x", use(), user(result("r"), *map(str, range(10_000)))),
        body("x", use(), user(result("r")), assistant("b")),
    )
    assert found_behind is not None
    assert found_behind.segments[0].path == "messages[2].content[1]"


def test_tail_may_repeat_text_of_the_history():
    """A reminder that was kept in the history once hid that each later one was replaced."""
    shared = ("a", assistant("b"), "be brief", assistant("c"), "d")
    tail = replaced_tail(body(*shared, "be brief"), body(*shared, assistant("e"), "f", "be brief"))
    assert tail is not None
    assert (tail.segments[0].path, tail.repeated) == ("messages[5]", True)


def billed_chat(reads):
    """Return the pair of a request sent twice and its successor, which replaces the last message."""
    stable, late = "u:" + LONG, "s:" + "It is 10:30 now. " * 300
    bodies = [chat(stable, late), chat(stable, late), chat(stable, "a:b", "u:c", "s:It is 10:31 now.")]
    pairs, diff = ComparedChain(PACKAGED.rules), None
    for number, (chat_body, read) in enumerate(zip(bodies, reads, strict=True), 1):
        usage = Usage(10_000 - read, read, 0)
        diff = pairs.compare_next(turn(parsed(chat_body, "openai-chat"), number, usage=usage, sent=10.0 * number))
    assert diff is not None
    return diff


@pytest.mark.parametrize(("read", "codes"), [(8064, ["LORE156"]), (2048, ["LORE301", "LORE156"])])
def test_cache_entry_of_the_tail_is_lost(read, codes):
    """A request that was retried had its tail cached; the next read less by the tail, and nothing explained it."""
    assert [cause.code for cause in billed_chat((0, 9856, read)).causes] == codes


def test_automatic_breakpoint_is_on_the_tail():
    """`cache_control` of the whole request marks the last block, and so the tail: LORE301 said nothing explains it."""
    previous = body(LONG, CLOCK, **MARK)
    current = body(LONG, assistant("b"), "c", OTHER, **MARK)
    diff = pair(
        previous, current, usages=(Usage(3, 0, 9000), Usage(3, 0, 9100)), at=1_789_000_000.0
    )  # of September 2026
    assert codes_and_kinds(diff) == [("LORE153", "waste"), ("LORE156", "expected")]
