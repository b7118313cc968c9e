"""Three columns: bytes, bill and verdict each speak for themselves, and contradictions are told."""

from __future__ import annotations

import pytest

from lore.judge.pairs import Pairs
from lore.model.events import Billed, Verdict
from lore.model.exchange import Call
from model.making import assistant, body, parsed, turn

TOOLS = [{"name": "ls", "input_schema": {}}, {"name": "cat", "input_schema": {}}]
LONG = "long " * 4_000
NOBODY = Call()


def pair(left, right, *, bills=(None, None), verdict=None, calls=(NOBODY, NOBODY), at=(0.0, 20.0), **fields):
    pairs = Pairs(**fields)
    pairs.advance(turn(parsed(left), usage=bills[0], call=calls[0], asked=at[0]))
    found = pairs.advance(turn(parsed(right), 2, usage=bills[1], verdict=verdict, call=calls[1], asked=at[1]))
    assert found is not None
    return found


ONE, TWO = body(LONG, tools=TOOLS), body(LONG, assistant("b"), "c", tools=TOOLS)
EDITED = body(LONG, assistant("b"), "c", tools=TOOLS[::-1])
WROTE, READ, FELL = Billed(3, 0, 6000), Billed(3, 6000, 40), Billed(3, 0, 6040)


def test_bytes_speak_alone_where_nothing_else_is_recorded():
    three = pair(ONE, TWO).columns
    assert three.bytes.startswith("the prompt goes on: all ")
    assert (three.billed, three.verdict, three.agree, three.dispute) == ("not recorded", "none recorded", None, "")


def test_each_column_has_its_figures():
    three = pair(ONE, EDITED, bills=(WROTE, FELL), verdict=Verdict("tools_changed", 6000, "d")).columns
    assert three.bytes.startswith("they part at tools[0].name; ")
    assert three.billed == "0 of 6,000 cached tokens read: 6,000 fell"
    assert three.verdict == "tools_changed, 6,000 tokens missed"
    assert three.agree is True


def test_a_bill_that_reads_what_the_bytes_do_not_share_contradicts_them():
    found = pair(ONE, EDITED, bills=(WROTE, READ))
    assert [cause.code for cause in found.causes] == ["LORE102", "LORE302"]
    assert "yet the bill read 6,000" in found.columns.dispute
    assert found.columns.agree is False
    assert (found.worst, found.lost[1]) == ("waste", 0)


def test_a_change_in_the_last_words_contradicts_no_bill():
    left, right = body(LONG, assistant("b"), "noon"), body(LONG, assistant("b"), "one", assistant("d"), "e")
    assert "LORE302" not in [cause.code for cause in pair(left, right, bills=(WROTE, READ)).causes]


@pytest.mark.parametrize(
    ("right", "bill", "reason", "missed", "said"),
    [
        (TWO, FELL, "tools_changed", 6000, "nothing that was to be cached changed"),
        (TWO, READ, "messages_changed", 6000, "nothing that was to be cached changed"),
        (EDITED, FELL, "messages_changed", 6000, "the bytes part in the tools"),
        (TWO, FELL, "model_changed", 6000, "both requests ask for claude-x"),
        (EDITED, FELL, "tools_changed", 6000, ""),
        (TWO, READ, "unavailable", None, ""),
        (TWO, FELL, "previous_message_not_found", 6000, ""),
    ],
)
def test_a_verdict_is_compared_with_the_bytes(right, bill, reason, missed, said):
    found = pair(ONE, right, bills=(WROTE, bill), verdict=Verdict(reason, missed, "d"))
    told = next((cause.evidence for cause in found.causes if cause.code == "LORE302"), "")
    assert (said in told) if said else not told


def test_an_expired_cache_explains_a_verdict():
    found = pair(ONE, TWO, bills=(WROTE, FELL), verdict=Verdict("messages_changed", 6000, "d"), at=(0.0, 900.0))
    assert [cause.code for cause in found.causes] == ["LORE128"]


def test_a_fall_that_nothing_explains_is_a_contradiction_of_its_own():
    found = pair(ONE, TWO, bills=(WROTE, FELL))
    assert [cause.code for cause in found.causes] == ["LORE301"]
    assert found.columns.agree is False
    assert "yet 6,000 tokens were not read again" in found.columns.dispute


def test_a_read_beyond_what_was_recorded_is_no_contradiction_while_the_bytes_go_on():
    found = pair(ONE, TWO, bills=(WROTE, Billed(3, 9000, 40)))
    assert (found.causes, found.columns.agree) == ((), True)
    assert "3,000 more than the request before left" in found.columns.billed


def test_two_requests_that_do_not_follow_each_other_are_not_compared_by_bills():
    three = pair(ONE, TWO, bills=(WROTE, FELL), billed=False).columns
    assert (three.billed, three.dispute) == ("0 tokens read", "")


# what is ruled out


def test_what_was_ruled_out_is_named_with_its_figure():
    calls = (Call(endpoint="api.anthropic.com/v1/messages"),) * 2
    found = pair(ONE, TWO, bills=(WROTE, FELL), calls=calls).causes[0].evidence
    for said in (
        "expiry (20 s of 5 min)", "an older entry (20 s later)", "model (claude-x)", "endpoint (api.anthropic.com)",
        "parameters (the same)", "not recorded: a parallel start (when the answer began), breakpoints (none were sent)",
    ):  # fmt: skip
        assert said in found


def test_parameters_that_changed_are_not_ruled_out():
    right = {**TWO, "thinking": {"type": "disabled"}, "metadata": {"user_id": "u"}}
    evidence = " ".join(cause.evidence for cause in pair(ONE, right, bills=(WROTE, FELL)).causes)
    assert "thinking" in evidence
    assert "metadata" not in evidence


@pytest.mark.parametrize(
    ("mine", "theirs", "code"),
    [
        (Call(endpoint="a.example/v1/messages"), Call(endpoint="b.example/v1/messages"), "LORE131"),
        (Call(account="1"), Call(account="2"), "LORE131"),
        (Call(endpoint="a.example/x"), Call(), "LORE301"),
        (Call(endpoint="a.example/x"), Call(endpoint="a.example/x"), "LORE301"),
    ],
)
def test_a_request_that_went_elsewhere_could_not_read_this_cache(mine, theirs, code):
    assert [cause.code for cause in pair(ONE, TWO, bills=(WROTE, FELL), calls=(mine, theirs)).causes] == [code]
    assert pair(ONE, TWO, bills=(WROTE, READ), calls=(mine, theirs)).causes == ()


def test_a_change_of_endpoint_hides_no_change_of_bytes():
    calls = Call(endpoint="a.example/x"), Call(endpoint="b.example/x")
    found = pair(ONE, EDITED, bills=(WROTE, FELL), calls=calls)
    assert [cause.code for cause in found.causes] == ["LORE131", "LORE102"]
    assert found.worst == "waste"


def test_what_holds_of_a_whole_chain_is_said_once():
    pairs, said = Pairs(), []
    for number, one in enumerate((body("a"), body("a", "b"), body("a", "b", "c")), 1):
        found = pairs.advance(turn(parsed(one), number, usage=Billed(3, 9000, 0)))
        said += [] if found is None else [cause.code for cause in found.causes]
    assert said == ["LORE303"]
