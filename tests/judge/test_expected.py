"""Expected causes that two requests show by themselves, and what looks like them."""

import pytest

from helpers.each import each
from judge.captures import asks, call, judged, text, usage
from judge.judged import leading_kind
from lore.judge.chains.chain import ComparedChain
from lore.model.events import Usage
from lore.model.evidence import MessagesTakenBack
from lore.model.turn import Call
from lore.run.rules import PACKAGED
from model.making import assistant, body, parsed, turn

LONG = "long " * 10_000
SUMMARY = "This session is being continued from a previous conversation. It was about "
TOOLS = [{"name": "ls", "input_schema": {}}]


def pair(*turns):
    pairs = ComparedChain(PACKAGED.rules)
    diff = [pairs.compare_next(current) for current in turns][-1]
    assert diff is not None
    return diff


def request(number, *messages, at=None, answered=None, read=None, write=None, status=None, **fields):
    usage = None if read is None and write is None else Usage(3, read, write)
    prompt = parsed(body(*messages, **fields))
    return turn(prompt, number, sent=at, answered=answered, usage=usage, call=Call(status=status))


def block(text, kind="text"):
    return {"type": kind, "text": text}


def codes(*turns):
    return [cause.code for cause in pair(*turns).causes]


# compaction


def test_summary_at_first_difference_is_a_compaction():
    before = request(1, "a", assistant("b"), "c", assistant("d"), "e")
    assert codes(before, request(2, SUMMARY + "a.", assistant("f"), "g")) == ["LORE125"]
    assert codes(before, request(2, "a", SUMMARY + "b and c.")) == ["LORE125"]


def test_summary_before_a_grown_prompt_is_no_compaction():
    before = request(1, SUMMARY + "one thing.", assistant("b"))
    assert codes(before, request(2, SUMMARY + "another.", assistant("c"), "d", assistant("e"), "f")) != ["LORE125"]


def test_compaction_with_changed_system_prompt_is_not_expected():
    before = request(1, "a", assistant("b"), "c", assistant("d"), "e")
    assert codes(before, request(2, SUMMARY + "a.", system="Other.")) != ["LORE125"]


# rewinds


def test_return_to_an_earlier_user_message_is_rewind():
    before = request(1, "a", assistant("b"), "c", assistant("d"), "e")
    diff = pair(before, request(2, "a", assistant("b"), "not that"))
    assert [cause.code for cause in diff.causes] == ["LORE143"]
    assert diff.causes[0].evidence == MessagesTakenBack(3, examples=True)  # no request received the answers
    assert leading_kind(diff) == "expected"


@pytest.mark.parametrize("shots", ["aBpQrSxy", "pQcDxy"])
def test_changed_examples_of_program_are_named(shots):
    """A few-shot program sends other examples in each request: upper-case letters are answers."""
    before, after = (
        [assistant(text * 20) if text.isupper() else text * 20 for text in texts] for texts in ("aBcDe", shots)
    )
    (cause,) = pair(request(1, *before), request(2, *after)).causes
    assert (cause.code, cause.evidence.fix_detail()) == ("LORE143", "examples")


def test_clock_in_each_message_is_no_example():
    before, after = (
        [f"It is 10:3{now}. Go on, {at}." if at % 2 == 0 else assistant(f"Step {at}") for at in range(size)]
        for now, size in ((1, 3), (2, 5))
    )
    assert codes(request(1, *before), request(2, *after)) == ["LORE101"]


@pytest.mark.parametrize("after", [
    ("a", assistant("b"), "C", assistant("d"), "e", "f"),  # rewritten, and on
    ("a", assistant("B"), "c"),  # an answer was changed
    ("a", assistant("b"), "e"),  # the middle was dropped
])  # fmt: skip
def test_rewritten_history_is_no_rewind(after):
    assert codes(request(1, "a", assistant("b"), "c", assistant("d"), "e"), request(2, *after)) != ["LORE143"]


def test_respelled_first_message_is_no_example():
    asked = "Read the log before you change the parser. "
    blocks = {"type": "text", "text": asked}, {"text": asked, "type": "text"}
    before, after = ({"role": "user", "content": [block]} for block in blocks)
    requests = request(1, before, assistant("b"), "c"), request(2, after, assistant("x" * 50), "y")
    assert codes(*requests) == ["LORE105", "LORE100"]


def test_last_message_resent_reworded_is_no_rewind():
    before, after = (request(n, "a", assistant("b"), f"It is 10:3{n}.") for n in (1, 2))
    assert codes(before, after) != ["LORE143"]


# times


def test_request_before_first_answer_could_read_nothing():
    first = request(1, LONG, at=0.0, answered=2.0, read=0, write=9000)
    assert codes(first, request(2, LONG, at=0.5, answered=2.5, read=0, write=9000)) == ["LORE129"]
    assert codes(first, request(2, LONG, at=2.5, answered=4.0, read=0, write=9000)) == ["LORE301"]
    assert codes(first, request(2, LONG, at=0.5, answered=2.5, read=9000, write=0)) == []


@pytest.mark.parametrize(
    ("at", "read", "code"), [(11.5, 9000, "LORE155"), (13.1, 9000, "LORE301"), (11.5, 8000, "LORE301")]
)
def test_request_within_seconds_may_get_older_entry(at, read, code):
    turns = (
        request(1, LONG, at=0.0, read=0, write=9000),
        request(2, LONG, assistant("b"), "c", at=10.0, read=9000, write=3000),
        request(3, LONG, assistant("b"), "c", assistant("d"), "e", at=at, read=read, write=4000),
    )
    assert codes(*turns) == [code]


# requests that failed


def test_failed_request_is_in_no_pair():
    """A refused request between two others made the next one lose a cache that it had read."""
    pairs = ComparedChain(PACKAGED.rules)
    assert pairs.compare_next(request(1, LONG, read=0, write=9000)) is None
    assert pairs.compare_next(request(2, "broken", status=429)) is None
    diff = pairs.compare_next(request(3, LONG, assistant("b"), "c", read=9000, write=100, status=200))
    assert diff is not None
    assert (diff.previous.number, diff.causes) == (1, ())


# compactions in other words, and cuts

WORK = [assistant(f"I changed parse_line_{n} in lore/parse_{n}.py, and the {n} tests of it pass.") for n in range(6)]
HISTORY = ["Mend the parser.", WORK[0], "b", WORK[1], "c", WORK[2], "d", WORK[3], "e"]
LATEST = [*HISTORY[5:], WORK[4], "f"]
RETOLD = "So far lore/parse_0.py and lore/parse_1.py: parse_line_0 and parse_line_1 were changed, and tests pass. " * 3
PLAIN = "The weather in the north is fine at this time of the year, as people say who live there. " * 3


@pytest.mark.parametrize("first", [(), ("Mend the parser.",)])
@pytest.mark.parametrize(("words", "kind"), [(RETOLD, "expected"), (PLAIN, "unattributable")])
def test_text_retelling_removed_messages_is_a_compaction(first, words, kind):
    diff = pair(request(1, *HISTORY), request(2, *first, words, *LATEST))
    assert [(cause.code, cause.kind) for cause in diff.causes] == [("LORE125", kind)]


@pytest.mark.parametrize("first", [(), ("Mend the parser.",), ("[4 earlier messages were removed]",)])
def test_cut_history_is_waste_not_compaction(first):
    diff = pair(request(1, *HISTORY), request(2, *first, *LATEST))
    assert [(cause.code, cause.kind) for cause in diff.causes] == [("LORE100", "waste")]
    assert "messages were removed" in diff.causes[0].evidence.sentence()


def test_compaction_followed_by_long_turn_is_recognised():
    """Counted in segments, a long answer after the summary made the prompt look as if it had grown."""
    results = [block("r", "tool_result")] * 9
    before = request(1, "a", assistant("b"), "c", assistant("d"), "e")
    after = request(2, "a", SUMMARY + "b.", {"role": "assistant", "content": results}, "f", "g", "h")
    assert codes(before, after) == ["LORE125"]


@pytest.mark.parametrize(("read", "expected"), [(0, ["LORE128"]), (9000, [])])
def test_miss_within_grace_of_the_lifetime_is_expiry(read, expected):
    """Four seconds past five minutes expiry was ruled out, and the fall had no cause."""
    before = request(1, LONG, at=0.0, answered=1.0, read=0, write=9000)
    assert codes(before, request(2, LONG, assistant("b"), "c", at=305.0, read=read, write=50)) == expected


# another API


@pytest.mark.parametrize(("model", "code"), [("gpt-5.1", "LORE119"), ("claude-x", "LORE131")])
def test_request_in_other_dialect_reads_another_cache(model, code):
    # two dialects in one chain shared nothing, and no cause was given
    previous = turn(parsed(body("a")), 1)
    current = turn(parsed({"model": model, "messages": [{"role": "user", "content": "a"}]}, "openai-chat"), 2)
    assert codes(previous, current) == [code]


# thinking that the API omits


THOUGHT = {"type": "thinking", "thinking": "The parser drops the last line. " * 60, "signature": "EqoBCkgIARABGAIiQ"}
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "parser.py " * 200}]}


@each("model, thought, prompt, expected", [
    ("claude-sonnet-4-5", True, "Fix it.", [("LORE116", "expected")]),
    ("claude-opus-4-8", True, "Fix it.", [("LORE301", "unattributable")]),  # it keeps earlier thinking
    ("claude-sonnet-4-5", False, "Fix it.", [("LORE301", "unattributable")]),
    ("claude-sonnet-4-5", True, "", [("LORE301", "unattributable")]),  # within the turn of the user
])  # fmt: skip
def test_recorded_thinking_omitted_by_api_is_expected(tmp_path, model, thought, prompt, expected):
    """The body still holds the thinking of the user's previous turn, and the API leaves it out."""
    begin = text("user", "Find the bug. " * 400)
    answer = {"role": "assistant", "content": [*([THOUGHT] if thought else []), TOOL_USE]}
    again = {"role": "assistant", "content": [{**TOOL_USE, "id": "toolu_2"}]}
    results = {**RESULT, "content": [{**RESULT["content"][0], "tool_use_id": "toolu_2"}]}
    more = (text("assistant", "It is the parser."), text("user", prompt)) if prompt else (again, results)
    turns, _ = judged(
        tmp_path,
        call(0, asks(begin, model=model), usage(0, 9_000)),
        call(10, asks(begin, answer, RESULT, model=model), usage(9_000, 1_800)),
        call(40, asks(begin, answer, RESULT, *more, model=model), usage(9_000, 1_300)),
    )
    assert [(str(cause.code), cause.kind) for cause in turns[2].causes] == expected


# images


@pytest.mark.parametrize(("first", "read", "codes"), [
    (False, 6_000, [("LORE118", "strong", "expected")]),
    (False, 12_000, [("LORE301", "weak", "unattributable")]),  # the read reaches into the messages
    (True, 6_000, [("LORE301", "weak", "unattributable")]),
])  # fmt: skip
def test_first_image_explains_a_read_of_the_head(tmp_path, first, read, codes):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    prompt = text("user", "Look at it. " * 3600)
    old = {**prompt, "content": [*([image] if first else []), *prompt["content"]]}
    new = {"role": "user", "content": [image, {"type": "text", "text": "And this?"}]}
    verdicts, _ = judged(
        tmp_path, call(0, asks(old), usage(0, 18_000)),
        call(60, asks(old, text("assistant", "I see."), new), usage(read, 19_600 - read)),
    )  # fmt: skip
    assert [(cause.code, cause.strength, cause.kind) for cause in verdicts[1].causes] == codes


@each("model, expected", [
    ("claude-sonnet-4-5", [("LORE116", "expected")]),
    ("claude-opus-4-8", [("LORE115", "waste")]),  # it would have read the earlier thinking
])  # fmt: skip
def test_client_that_omits_unread_thinking_is_expected(tmp_path, model, expected):
    """The client leaves out the thinking of the user's previous turn, as the API of some models does itself."""
    begin = text("user", "Find the bug. " * 400)
    use = {"role": "assistant", "content": [THOUGHT, TOOL_USE]}
    more = ({**use, "content": [TOOL_USE]}, RESULT, text("assistant", "It is the parser."), text("user", "Fix it."))
    turns, _ = judged(
        tmp_path,
        call(0, asks(begin, model=model), usage(0, 9_000)),
        call(10, asks(begin, use, RESULT, model=model), usage(9_000, 1_800)),
        call(40, asks(begin, *more, model=model), usage(9_000, 1_300)),
    )
    assert [(str(cause.code), cause.kind) for cause in turns[2].causes] == expected
