"""Bytes, usage and provider's verdict are judged separately, and contradictions are reported."""

import pytest

from helpers.each import each
from judge.judged import leading_kind
from lore.judge.chains.chain import ComparedChain
from lore.judge.findings import finding
from lore.judge.pairs.pair import dispute_of
from lore.model.cause import Place, RuledOut
from lore.model.events import Usage, Verdict
from lore.model.evidence import Disputed
from lore.model.turn import Call
from lore.report.sentences import columns_result
from lore.run.rules import PACKAGED
from model.making import assistant, body, parsed, turn

TOOLS = [{"name": "ls", "input_schema": {}}, {"name": "cat", "input_schema": {}}]
LONG = "long " * 4_000
NOBODY = Call()


def pair(
    previous, current, *, bills=(None, None), verdict=None, calls=(NOBODY, NOBODY), at=(0.0, 20.0),
    dialect="anthropic", **fields,
):  # fmt: skip
    pairs = ComparedChain(PACKAGED.rules, **fields)
    pairs.compare_next(turn(parsed(previous, dialect), usage=bills[0], call=calls[0], sent=at[0]))
    diff = pairs.compare_next(
        turn(parsed(current, dialect), 2, usage=bills[1], verdict=verdict, call=calls[1], sent=at[1])
    )
    assert diff is not None
    return diff


ONE, TWO = body(LONG, tools=TOOLS), body(LONG, assistant("b"), "c", tools=TOOLS)
EDITED = body(LONG, assistant("b"), "c", tools=TOOLS[::-1])
WROTE, READ, FELL = Usage(3, 0, 6000), Usage(3, 6000, 40), Usage(3, 0, 6040)


def test_columns_without_usage_or_verdict_show_only_bytes():
    diff = pair(ONE, TWO)
    columns = columns_result(diff)
    assert columns.bytes.startswith(f"the prompt continues: it begins with all {diff.bytes.previous:,} bytes")
    assert (columns.billed, columns.verdict) == ("not recorded", "none recorded")
    assert (columns.agree, columns.dispute) == (None, None)


def test_each_column_has_its_figures():
    diff = pair(ONE, EDITED, bills=(WROTE, FELL), verdict=Verdict("tools_changed", 6000, "d"))
    columns = columns_result(diff)
    shared = f"{diff.bytes.common + diff.overlap.common_bytes:,} of {diff.bytes.previous:,} bytes are shared"
    assert columns.bytes == f"they differ from tools[0].name on; {shared}"
    assert (columns.agree, columns.dispute) == (True, None)
    assert columns.billed == "0 of 6,000 cached tokens read (6,000 fewer)"
    assert columns.verdict == "tools_changed, 6,000 tokens missed"


@pytest.mark.parametrize(("model", "codes"), [("gpt-5.4", ["LORE102", "LORE302"]), ("deepseek-v4-flash", ["LORE102"])])
def test_tools_may_follow_the_system_prompt(model, codes):
    tools = [{"type": "function", "function": {"name": name}} for name in ("read", "write")]
    said = [{"role": role, "content": words} for role, words in (("system", LONG), ("user", "b"))]
    bodies = ({"model": model, "tools": order, "messages": said} for order in (tools, tools[::-1]))
    diff = pair(*bodies, bills=(Usage(1003, 5000, None), Usage(3, 6000, None)), dialect="openai-chat")
    assert [cause.code for cause in diff.causes] == codes


def test_read_beyond_shared_bytes_contradicts_them():
    diff = pair(ONE, EDITED, bills=(WROTE, READ))
    assert [cause.code for cause in diff.causes] == ["LORE102", "LORE302"]
    dispute = dispute_of(diff)
    assert (dispute.what, dispute.read_tokens) == ("bill-reads-more", 6000)
    assert "yet 6,000 were read" in dispute.sentence()
    assert columns_result(diff).agree is False
    assert (diff.is_break, diff.lost_bytes) == (False, 0)  # an error of 0 lost tokens failed CI
    assert diff.causes[0].qualifiers == ("nothing-lost",)


@each("right, bill, reason, missed, evidence, words", [
    (
        TWO, FELL, "tools_changed", 6000, Disputed("no-change-in-bytes", "tools_changed"),
        "nothing that was to be cached changed"
    ),
    (
        TWO, READ, "messages_changed", 6000, Disputed("no-change-in-bytes", "messages_changed"),
        "nothing that was to be cached changed"
    ),
    (
        EDITED, READ, "tools_changed", 6000, Disputed("bill-reads-more", tokens=3, read_tokens=6000),
        "yet 6,000 were read"
    ),
    (
        EDITED, FELL, "messages_changed", 6000,
        Disputed("other-section", "messages_changed", section="tools", path="tools[0].name"),
        "the bytes first differ in tools"
    ),
    (
        TWO, FELL, "model_changed", 6000, Disputed("same-model", "model_changed", model="claude-x"),
        "both requests ask for claude-x"
    ),
    (EDITED, FELL, "tools_changed", 6000, None, ""),
    (TWO, READ, "unavailable", None, None, ""),
    (TWO, FELL, "previous_message_not_found", 6000, None, ""),
])  # fmt: skip
def test_verdict_is_compared_with_the_bytes(right, bill, reason, missed, evidence, words):
    diff = pair(ONE, right, bills=(WROTE, bill), verdict=Verdict(reason, missed, "d"))
    disputed = next((cause.evidence for cause in diff.causes if cause.code == "LORE302"), None)
    assert disputed == evidence
    assert disputed is None or words in disputed.sentence()


def test_expiry_leads_over_verdict_naming_a_section():
    verdict = Verdict("messages_changed", 6000, "d")
    diff = pair(ONE, TWO, bills=(WROTE, FELL), verdict=verdict, at=(0.0, 900.0))
    causes = [(cause.code, cause.section, [other.code for other in cause.also]) for cause in diff.causes]
    assert causes == [("LORE128", "time", ["LORE159"])]
    assert leading_kind(diff) == "expected"


def test_read_beyond_recording_is_fine_if_bytes_continue():
    diff = pair(ONE, TWO, bills=(WROTE, Usage(3, 9000, 40)))
    columns = columns_result(diff)
    assert (diff.causes, columns.agree) == ((), True)
    assert columns.billed == "9,000 tokens read (3,000 more than the previous usage shows as cached)"


# causes that were ruled out


def test_ruled_out_cause_has_its_figure():
    calls = (Call(endpoint="api.anthropic.com/v1/messages"),) * 2
    cause = pair(ONE, TWO, bills=(WROTE, FELL), calls=calls).causes[0]
    assert cause.ruled_out == (
        RuledOut("expiry", out=True, seconds=20.0, limit=300.0),
        RuledOut("a parallel start", out=None),
        RuledOut("an older entry", out=True, seconds=20.0),
        RuledOut("model", out=True, detail="claude-x"),
        RuledOut("breakpoints", out=None),
        RuledOut("endpoint", out=True, detail="api.anthropic.com"),
        RuledOut("parameters", out=True),
    )
    message = finding(cause.code, Place("a"), cause.evidence, ruled_out=cause.ruled_out).message
    assert "ruled out: expiry (20 s of 5 min), an older entry (20 s), model (claude-x), endpoint" in message
    assert "not recorded: a parallel start, breakpoints" in message


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


@pytest.mark.parametrize(("read", "kind"), [(4_096, "expected"), (0, "waste")])
def test_read_beyond_the_tools_excuses_a_schema(read, kind):
    """An output schema was blamed for 640 tokens although as much was read as before (a cassette of crewAI)."""
    chat = {"model": "gpt-4.1-mini", "messages": [{"role": "user", "content": LONG}]}
    asked = {**chat, "response_format": {"type": "json_object"}}
    pairs = ComparedChain(PACKAGED.rules)
    pairs.compare_next(turn(parsed(chat, "openai-chat"), usage=Usage(904, 4_096)))
    diff = pairs.compare_next(turn(parsed(asked, "openai-chat"), 2, usage=Usage(5_000 - read, read), sent=20.0))
    assert diff is not None
    assert (diff.causes[0].code, diff.causes[0].kind) == ("LORE135", kind)
