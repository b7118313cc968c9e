"""Bytes, usage and provider's verdict are judged separately, and contradictions are reported."""

import pytest

from helpers.each import each
from lore.judge.base import finding
from lore.judge.chains.chain import ComparedChain
from lore.judge.pairs.pair import dispute_of
from lore.model.cause import Place, RuledOut
from lore.model.events import Usage, Verdict
from lore.model.evidence import Disputed
from lore.model.turn import Call
from lore.report.sentences.findings import columns_result
from model.making import assistant, body, parsed, turn

TOOLS = [{"name": "ls", "input_schema": {}}, {"name": "cat", "input_schema": {}}]
LONG = "long " * 4_000
NOBODY = Call()


def pair(left, right, *, bills=(None, None), verdict=None, calls=(NOBODY, NOBODY), at=(0.0, 20.0), **fields):
    pairs = ComparedChain(**fields)
    pairs.compare_next(turn(parsed(left), usage=bills[0], call=calls[0], sent=at[0]))
    found = pairs.compare_next(turn(parsed(right), 2, usage=bills[1], verdict=verdict, call=calls[1], sent=at[1]))
    assert found is not None
    return found


ONE, TWO = body(LONG, tools=TOOLS), body(LONG, assistant("b"), "c", tools=TOOLS)
EDITED = body(LONG, assistant("b"), "c", tools=TOOLS[::-1])
WROTE, READ, FELL = Usage(3, 0, 6000), Usage(3, 6000, 40), Usage(3, 0, 6040)


def test_columns_without_usage_or_verdict_show_only_bytes():
    found = pair(ONE, TWO)
    said = columns_result(found)
    assert said.bytes == f"the prompt continues: it begins with all {found.bytes.previous:,} bytes of the previous one"
    assert (said.billed, said.verdict, said.agree, said.dispute) == ("not recorded", "none recorded", None, None)


def test_each_column_has_its_figures():
    found = pair(ONE, EDITED, bills=(WROTE, FELL), verdict=Verdict("tools_changed", 6000, "d"))
    said = columns_result(found)
    shared = f"{found.bytes.common + found.overlap.common_bytes:,} of {found.bytes.previous:,} bytes are shared"
    assert said.bytes == f"they differ from tools[0].name on; {shared}"
    assert (said.agree, said.dispute) == (True, None)
    assert said.billed == "0 of 6,000 cached tokens read (6,000 fewer)"
    assert said.verdict == "tools_changed, 6,000 tokens missed"


def test_read_beyond_shared_bytes_contradicts_them():
    found = pair(ONE, EDITED, bills=(WROTE, READ))
    assert [cause.code for cause in found.causes] == ["LORE102", "LORE302"]
    dispute = dispute_of(found)
    assert (dispute.what, dispute.read_tokens) == ("bill-reads-more", 6000)
    assert "yet 6,000 were read" in dispute.sentence()
    assert columns_result(found).agree is False
    assert (found.is_break, found.lost_bytes) == (False, 0)  # an error of 0 lost tokens failed CI
    assert found.causes[0].qualifiers == ("nothing-lost",)


@each("right, bill, reason, missed, evidence, said", [
    (
        TWO, FELL, "tools_changed", 6000, Disputed("no-change-in-bytes", "tools_changed"),
        "nothing that was to be cached changed",
    ),
    (
        TWO, READ, "messages_changed", 6000, Disputed("no-change-in-bytes", "messages_changed"),
        "nothing that was to be cached changed",
    ),
    (
        EDITED, READ, "tools_changed", 6000, Disputed("bill-reads-more", tokens=3, read_tokens=6000),
        "yet 6,000 were read",
    ),
    (
        EDITED, FELL, "messages_changed", 6000,
        Disputed("other-section", "messages_changed", section="tools", path="tools[0].name"),
        "the bytes first differ in tools",
    ),
    (
        TWO, FELL, "model_changed", 6000, Disputed("same-model", "model_changed", model="claude-x"),
        "both requests ask for claude-x",
    ),
    (EDITED, FELL, "tools_changed", 6000, None, ""),
    (TWO, READ, "unavailable", None, None, ""),
    (TWO, FELL, "previous_message_not_found", 6000, None, ""),
])  # fmt: skip
def test_verdict_is_compared_with_the_bytes(right, bill, reason, missed, evidence, said):
    found = pair(ONE, right, bills=(WROTE, bill), verdict=Verdict(reason, missed, "d"))
    disputed = next((cause.evidence for cause in found.causes if cause.code == "LORE302"), None)
    assert disputed == evidence
    assert disputed is None or said in disputed.sentence()


def test_expiry_leads_over_verdict_naming_a_section():
    said = Verdict("messages_changed", 6000, "d")
    found = pair(ONE, TWO, bills=(WROTE, FELL), verdict=said, at=(0.0, 900.0))
    causes = [(cause.code, cause.section, [one.code for one in cause.also]) for cause in found.causes]
    assert causes == [("LORE128", "time", ["LORE159"])]
    assert found.kind == "expected"


def test_read_beyond_recording_is_fine_if_bytes_continue():
    found = pair(ONE, TWO, bills=(WROTE, Usage(3, 9000, 40)))
    said = columns_result(found)
    assert (found.causes, said.agree) == ((), True)
    assert said.billed == "9,000 tokens read (3,000 more than the previous usage shows as cached)"


# causes that were ruled out


def test_ruled_out_cause_has_its_figure():
    calls = (Call(endpoint="api.anthropic.com/v1/messages"),) * 2
    found = pair(ONE, TWO, bills=(WROTE, FELL), calls=calls).causes[0]
    assert found.ruled_out == (
        RuledOut("expiry", out=True, seconds=20.0, limit=300.0),
        RuledOut("a parallel start", out=None),
        RuledOut("an older entry", out=True, seconds=20.0),
        RuledOut("model", out=True, detail="claude-x"),
        RuledOut("breakpoints", out=None),
        RuledOut("endpoint", out=True, detail="api.anthropic.com"),
        RuledOut("parameters", out=True),
    )
    said = finding(found.code, Place("a"), found.evidence, ruled_out=found.ruled_out).message
    assert "ruled out: expiry (20 s of 5 min), an older entry (20 s), model (claude-x), endpoint" in said
    assert "not recorded: a parallel start, breakpoints" in said


def test_parameters_that_changed_are_not_ruled_out():
    right = {**TWO, "thinking": {"type": "disabled"}, "metadata": {"user_id": "u"}}
    (cause,) = pair(ONE, right, bills=(WROTE, FELL)).causes
    assert (cause.code, cause.ruled_out[-1]) == ("LORE301", RuledOut("parameters", out=False, detail="thinking"))


@pytest.mark.parametrize(("mine", "theirs", "code"), [
    (Call(endpoint="a.example/v1/messages"), Call(endpoint="b.example/v1/messages"), "LORE131"),
    (Call(account="1"), Call(account="2"), "LORE131"),
    (Call(endpoint="a.example/x"), Call(), "LORE301"),
    (Call(endpoint="a.example/x"), Call(endpoint="a.example/x"), "LORE301"),
])  # fmt: skip
def test_request_to_another_host_cannot_read_this_cache(mine, theirs, code):
    assert [cause.code for cause in pair(ONE, TWO, bills=(WROTE, FELL), calls=(mine, theirs)).causes] == [code]
    assert pair(ONE, TWO, bills=(WROTE, READ), calls=(mine, theirs)).causes == ()


def test_finding_on_a_whole_chain_is_reported_once():
    pairs, said = ComparedChain(), []
    for number, one in enumerate((body("a"), body("a", "b"), body("a", "b", "c")), 1):
        found = pairs.compare_next(turn(parsed(one), number, usage=Usage(3, 9000, 0)))
        said += [] if found is None else [cause.code for cause in found.causes]
    assert said == ["LORE303"]
