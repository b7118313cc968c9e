"""Routers: another provider or deployment answered, by its own word or by ids of calls that were never received."""

import pytest

from judge.captures import TEXT, asks, break_codes, call, compared_turn, judged, text, usage
from lore.judge.findings import findings_of
from lore.model.cause import Place
from lore.model.evidence import ModelChanged, Rerouted, RoutedElsewhere

ROUTER = "https://openrouter.ai/api/v1/messages"
ONE = text("user", "Find the bug. " * 60)
TWO = (ONE, text("assistant", "I look into it."), text("user", "Go on. " * 60))
THREE = (*TWO, text("assistant", "It is in the parser."), text("user", "Mend it. " * 60))
FOUR = (*THREE, text("assistant", "It is mended."), text("user", "Test it. " * 60))


def tool_turn(name, number=1):
    """An answer that calls a tool, and the result."""
    return (
        {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": "ls", "input": {"n": number}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": "a b c " * 40}]},
    )


def evidence(verdict):
    return verdict.causes[0].evidence


@pytest.mark.parametrize(("before", "after", "codes"), [
    ("Anthropic", "Amazon Bedrock", ["LORE170"]),
    ("Anthropic", "Anthropic", ["LORE301"]),
    ("", "Anthropic", ["LORE301"]),
])  # fmt: skip
def test_providers_named_by_router_are_compared(tmp_path, before, after, codes):
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000), url=ROUTER, **({"provider": before} if before else {})),
        call(10, asks(*TWO), usage(0, 7200), url=ROUTER, provider=after),
    )
    assert break_codes(verdicts[1]) == codes
    if codes == ["LORE170"]:
        assert evidence(verdicts[1]) == RoutedElsewhere("Anthropic", "Amazon Bedrock")
        cause = verdicts[1].causes[0]
        assert (cause.kind, cause.strength, verdicts[1].lost_tokens) == ("waste", "strong", 7000)


def test_each_provider_of_a_router_has_own_cache(tmp_path):
    # the third request continues the first one, which the same provider answered
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000), url=ROUTER, provider="Anthropic"),
        call(10, asks(*TWO), usage(0, 7200), url=ROUTER, provider="Amazon Bedrock"),
        call(20, asks(*THREE), usage(7000, 400), url=ROUTER, provider="Anthropic"),
        call(30, asks(*FOUR), usage(7400, 200), url=ROUTER, provider="Anthropic"),
    )
    assert [break_codes(verdict) for verdict in verdicts] == [[], ["LORE170"], [], []]
    assert compared_turn(verdicts[2]) == ("main", 1)


def test_return_to_a_provider_leads_over_another_shape(tmp_path):
    """A client writes texts with a breakpoint as blocks, others not; the other provider's entry is missing."""
    questions = [f"{number}: " + "Find the bug. " * 500 for number in range(4)]
    plain = [{"role": role, "content": words} for question in questions for role,
        words in (("user", question), ("assistant", "Yes."))]  # fmt: skip
    talk = [[*plain[: 2 * size], text("user", questions[size])] for size in range(4)]
    calls = [("Anthropic", 0, 8_000), ("Google", 0, 9_000), ("Anthropic", 8_000, 3_000), ("Anthropic", 11_000, 2_000)]
    verdicts, _ = judged(tmp_path, *(
        call(10 * at, asks(*messages), usage(read, write), url=ROUTER, provider=by)
        for at, (messages, (by, read, write)) in enumerate(zip(talk, calls, strict=True))
    ))  # fmt: skip
    assert [break_codes(verdict)[:1] for verdict in verdicts] == [[], ["LORE170"], ["LORE170"], []]


def test_deployments_of_a_gateway_are_compared(tmp_path):
    url = "https://llm.example.com/v1/messages"
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000), url=url, headers={"x-litellm-model-id": "d1"}),
        call(10, asks(*TWO), usage(0, 7200), url=url, headers={"x-litellm-model-id": "d2"}),
        call(20, asks(*THREE), usage(7200, 200), url=url, headers={"X-LiteLLM-Model-Id": "d2"}),
    )
    assert [break_codes(verdict) for verdict in verdicts] == [[], ["LORE170"], []]
    assert evidence(verdicts[1]) == RoutedElsewhere(deployment_before="d1", deployment_after="d2")


@pytest.mark.parametrize(("region", "codes"), [
    ("Sweden Central", ["LORE170"]), ("East US", ["LORE301"]), ("", ["LORE301"])
])  # fmt: skip
def test_other_azure_region_is_routing(tmp_path, region, codes):
    url = "https://contoso.azure-api.net/openai/deployments/gpt-5/chat/completions?api-version=2025-04-01-preview"
    talk = [{"role": "system", "content": TEXT * 400}, {"role": "user", "content": "Find the bug."}]
    more = [{"role": "assistant", "content": "In a.py."}, {"role": "user", "content": "Mend it."}]
    calls = [(talk, "East US"), (talk + more, "East US"), (talk + more * 2, region)]
    verdicts, _ = judged(tmp_path, *(
        call(10 * at, {"model": "gpt-5", "messages": messages}, {
            "prompt_tokens": 6_000 + 20 * at, "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 5_888 if at == 1 else 0},
        }, url=url, headers={"x-ms-region": where} if where else {})
        for at, (messages, where) in enumerate(calls)
    ))  # fmt: skip
    assert [break_codes(verdict) for verdict in verdicts] == [[], [], codes]
    if codes == ["LORE170"]:
        assert evidence(verdicts[2]) == RoutedElsewhere(region_before="East US", region_after="Sweden Central")


def test_organisations_that_responses_name_are_compared(tmp_path):
    """A proxy that spreads a conversation over accounts: their tokens are redacted, their organisations are not."""
    verdicts, _ = judged(tmp_path, *(
        call(10 * number, asks(*talk), usage(*bill), headers={"anthropic-organization-id": f"0f8c52aa-{who}"})
        for number, (talk, bill, who) in enumerate([
            ((ONE,), (0, 7000), "a"), (TWO, (0, 9000), "b"), (THREE, (7000, 2200), "a")
        ])
    ))  # fmt: skip
    assert [break_codes(verdict) for verdict in verdicts] == [[], ["LORE131"], ["LORE131"]]
    assert "alternates" not in verdicts[2].causes[0].qualifiers


@pytest.mark.parametrize(("host", "name", "expected"), [
    ({}, "msg_2", "LORE301"),  # the provider itself
    ({"url": "https://llm.example.com/v1/messages"}, "msg_vrtx_2", RoutedElsewhere("bedrock", "vertex")),
])  # fmt: skip
def test_response_ids_name_the_cloud_of_a_gateway(tmp_path, host, name, expected):
    first = call(0, asks(ONE), usage(0, 7000), id="msg_bdrk_1", **host)
    verdicts, _ = judged(tmp_path, first, call(10, asks(*TWO), usage(0, 7200), id=name, **host))
    assert expected in (evidence(verdicts[1]), *break_codes(verdicts[1]))


@pytest.mark.parametrize(("first", "second", "kind"), [
    ("toolu_01a", "tooluse_1", "waste"),
    ("toolu_01a", "toolu_01b", "unattributable"),
    ("call_1", "call_2", "unattributable"),
])  # fmt: skip
def test_unreceived_answers_were_given_elsewhere(tmp_path, first, second, kind):
    # a recording of one of several servers: 20 answers later its entry is out of reach, whatever the breakpoints
    between = [part for number in range(24) for part in tool_turn(f"{second}{number}", number)]
    start = (ONE, *tool_turn(f"{first}0"))
    verdicts, _ = judged(tmp_path, call(0, asks(*start), usage(0, 7000)),
        call(10, asks(*start, *tool_turn(f"{first}1"), *between), usage(0, 9000)))  # fmt: skip
    assert break_codes(verdicts[1]) == ["LORE170"] if kind == "waste" else "LORE170" in break_codes(verdicts[1])
    assert verdicts[1].causes[0].kind == kind
    assert evidence(verdicts[1]).unreceived == 24
    assert bool(evidence(verdicts[1]).ids) is (kind == "waste")


def test_old_responses_do_not_name_the_current_provider(tmp_path):
    """A conversation was moved to another provider: its old calls keep their ids, and all new ones are its own."""
    start = (ONE, *tool_turn("call_0"))
    verdicts, _ = judged(tmp_path, call(0, asks(*start), usage(0, 7000)),
        call(10, asks(*start, *tool_turn("toolu_1"), *tool_turn("toolu_2")), usage(0, 9000)))  # fmt: skip
    assert (break_codes(verdicts[1]), verdicts[1].causes[0].kind) == (["LORE170"], "unattributable")
    assert evidence(verdicts[1]) == RoutedElsewhere(unreceived=1)


@pytest.mark.parametrize(("between", "codes"), [(True, ["LORE301"]), (False, ["LORE170"])])
def test_answer_received_by_another_request_is_not_missing(tmp_path, between, codes):
    """An agent changes its system prompt for one request and back: that one received the answer between."""
    calls = [call(0, asks(ONE), usage(0, 7000)), call(10, asks(*TWO, system="Other words. " * 400), usage(0, 7200)),
        call(20, asks(*THREE), usage(0, 7400))]  # fmt: skip
    verdicts, _ = judged(tmp_path, *(calls if between else calls[::2]))
    assert break_codes(verdicts[-1]) == codes
    assert compared_turn(verdicts[-1]) == ("main", 1)


def many_calls(begin, number=12):
    """Return an answer with `number` calls at once, and their results."""
    calls = [{"type": "tool_use", "id": f"{begin}{n}", "name": "ls", "input": {"n": n}} for n in range(number)]
    results = [{"type": "tool_result", "tool_use_id": tool_call["id"], "content": "a b c"} for tool_call in calls]
    return {"role": "assistant", "content": calls}, {"role": "user", "content": results}


@pytest.mark.parametrize(("number", "also"), [(12, ["LORE113"]), (2, [])])
def test_missing_answer_keeps_the_lookback_cause(tmp_path, number, also):
    """Answers of one family are missing in a recording, and 48 positions are new: both may be so, neither is sure."""
    new = [part for begin in ("toolu_a", "toolu_b") for part in many_calls(begin, number)]
    verdicts, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 7000)), call(10, asks(ONE, *new), usage(0, 9000)))
    assert break_codes(verdicts[1]) == ["LORE170"]
    others = [(str(cause.code), cause.strength) for cause in verdicts[1].causes[0].also]
    assert others == [(code, "weak") for code in also]


def test_lookback_is_the_cause_without_a_router(tmp_path):
    many = asks(ONE, *many_calls("toolu_", 15))
    verdicts, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 7000)), call(10, many, usage(0, 9000)))
    assert break_codes(verdicts[1]) == ["LORE113"]
    between = [part for number in range(24) for part in tool_turn(f"tooluse_{number}", number)]
    verdicts, _ = judged(tmp_path, call(0, asks(ONE), usage(0, 7000)),
        call(10, asks(ONE, *tool_turn("toolu_1"), *between), usage(0, 9000)))  # fmt: skip
    assert break_codes(verdicts[1]) == ["LORE170"]
    assert not verdicts[1].causes[0].also


@pytest.mark.parametrize(("provider", "pinned"), [
    ({"order": ["Anthropic"], "allow_fallbacks": False}, True),
    ({"only": ["Anthropic"]}, True),
    ({"order": ["Anthropic", "Amazon Bedrock"], "allow_fallbacks": False}, False),
    ({"order": ["Anthropic"]}, False),
    ({"order": 1, "allow_fallbacks": False}, False),
])  # fmt: skip
def test_request_naming_one_provider_gets_no_pinning_fix(tmp_path, provider, pinned):
    """A request allowed one provider alone, and the router gave it to another."""
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE, provider=provider), usage(0, 7000), url=ROUTER, provider="Anthropic"),
        call(10, asks(*TWO, provider=provider), usage(0, 7200), url=ROUTER, provider="Amazon Bedrock"),
    )
    assert break_codes(verdicts[1]) == ["LORE170"]
    (_, finding), *_ = findings_of(verdicts[1].pair, Place("calls.jsonl"))
    assert ("Report it to the router" in finding.fix) is pinned


def test_capture_with_bodies_gets_no_recording_fix(tmp_path):
    """The provider says that the system prompt changed, and the bodies that were recorded say that it did not."""
    diagnostics = {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 7000}}
    verdicts, _ = judged(
        tmp_path, call(0, asks(ONE), usage(0, 7000)), call(10, asks(*TWO), usage(0, 7200), diagnostics=diagnostics)
    )
    fixes = [finding.fix for _, finding in findings_of(verdicts[1].pair, Place("calls.jsonl"))]
    assert break_codes(verdicts[1]) == ["LORE159", "LORE302"]
    assert not any("ecord request bodies" in fix or "on the wire" in fix for fix in fixes)


# one model on other platforms, one name for several models


VIRGINIA, IRELAND = "bedrock-runtime.us-east-1.amazonaws.com", "bedrock-runtime.eu-west-1.amazonaws.com"
US, EU = "us.anthropic.claude-opus-5-v1:0", "eu.anthropic.claude-opus-5-v1:0"
OLDER = "us.anthropic.claude-opus-4-8-v1:0"


def bedrock(model, host=VIRGINIA):
    return f"https://{host}/model/{model}/invoke"


@pytest.mark.parametrize(("url", "code", "expected"), [
    (bedrock(EU), "LORE131", Rerouted(endpoint_before=US, endpoint_after=EU)),
    (bedrock(EU, IRELAND), "LORE131", Rerouted(host_before=VIRGINIA, host_after=IRELAND)),
    (bedrock(OLDER), "LORE119", ModelChanged(US, OLDER)),
])  # fmt: skip
def test_other_region_of_bedrock_is_another_cache(tmp_path, url, code, expected):
    bodies = [{**asks(*messages), "anthropic_version": "bedrock-2023-05-31"} for messages in ((ONE,), TWO, THREE)]
    for body in bodies:
        del body["model"]
    bills = usage(0, 7000), usage(7000, 200), usage(0, 7400)
    urls = bedrock(US), bedrock(US), url
    verdicts, _ = judged(tmp_path, *(call(10 * n, bodies[n], bills[n], url=urls[n]) for n in range(3)))
    assert (break_codes(verdicts[2]), evidence(verdicts[2])) == ([code], expected)


GATEWAY = "https://gateway.example/v1/messages"


@pytest.mark.parametrize(("answered", "read", "codes"), [
    (("claude-opus-5", "openai/gpt-5.2"), 0, ["LORE119"]),
    (("claude-opus-5", "anthropic/claude-opus-5-20260724"), 0, ["LORE119"]),
    (("claude-opus-5", "claude-opus-5"), 0, ["LORE301"]),
    (("claude-opus-5", "claude-sonnet-5"), 7000, []),
])  # fmt: skip
def test_answering_model_behind_an_alias_explains_a_fall(tmp_path, answered, read, codes):
    verdicts, _ = judged(tmp_path, *(
        call(10 * n, asks(*messages, model="smart"), bill, url=GATEWAY, model=answered[n])
        for n, (messages, bill) in enumerate((((ONE,), usage(0, 7000)), (TWO, usage(read, 7200 - read))))
    ))  # fmt: skip
    assert break_codes(verdicts[1]) == codes
    if codes == ["LORE119"]:
        assert evidence(verdicts[1]) == ModelChanged(*answered)


@pytest.mark.parametrize(("snapshots", "read", "codes"), [
    (("claude-opus-5-20260724", "claude-opus-5-20260901"), 0, ["LORE119"]),
    (("claude-opus-5-20260724", "claude-opus-5-20260901"), 7000, []),
    (("claude-opus-5-20260724", "claude-opus-5"), 0, ["LORE301"]),
])  # fmt: skip
def test_alias_moved_to_another_snapshot_is_named(tmp_path, snapshots, read, codes):
    bills = usage(0, 7000), usage(read, 7200 - read)
    verdicts, _ = judged(tmp_path, *(
        call(10 * n, asks(*messages), bills[n], model=snapshots[n]) for n, messages in enumerate(((ONE,), TWO))
    ))  # fmt: skip
    assert break_codes(verdicts[1]) == codes
    if codes == ["LORE119"]:
        ((_, result),) = findings_of(verdicts[1].pair, Place("calls.jsonl"))
        assert result.evidence == ModelChanged(*snapshots, "claude-opus-5")
        assert "from claude-opus-5-20260724 to claude-opus-5-20260901" in result.message
        assert (result.actor, result.kind, "snapshot" in result.fix) == ("author", "expected", True)


def test_other_model_has_no_path(tmp_path):
    """The finding named the text that had changed, too."""
    verdicts, _ = judged(
        tmp_path,
        call(0, asks(ONE), usage(0, 7000)),
        call(10, asks(text("user", "Find the bug. " * 60 + "!"), *TWO[1:], model="claude-opus-4-8"), usage(0, 7200)),
    )
    results = [result for _, result in findings_of(verdicts[1].pair, Place("calls.jsonl"))]
    assert [(result.code, result.section, result.json_path) for result in results] == [("LORE119", "model", None)]


def test_renamed_model_that_reads_everything_is_no_break(tmp_path):
    calls = call(0, asks(ONE), usage(0, 7000)), call(10, asks(*TWO, model="claude-opus-5-20260724"), usage(7000, 200))
    verdicts, _ = judged(tmp_path, *calls)
    assert break_codes(verdicts[1]) == []
