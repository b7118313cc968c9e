"""Causes of a fallen read of an unchanged prompt: which leads, how strong it is, which evidence is shown with it."""

import msgspec
import pytest
from msgspec.structs import replace

from cache.talk import ONE_BY_ONE, bill
from helpers.each import each
from judge.judged import SIGN_CODES, Judged, dropped, opened, other_codes, rank
from lore.cache.base import Prediction
from lore.judge.findings import findings_of
from lore.judge.pairs.outside import find_other_endpoint
from lore.judge.pairs.pair import PairFacts
from lore.judge.what_if import make_paid_turn
from lore.model import evidence as e
from lore.model.cause import Place
from lore.model.codes import CODES, fix_of
from lore.model.events import Usage
from lore.model.state import Change, Sign
from lore.model.turn import Call
from lore.prefix.overlap import Overlap

PLACE = Place("a.jsonl")


@pytest.mark.parametrize("sign", ["client-version", "effort", "restart"])
@each("read, code", [
    (11_999, ""), (12_000, "LORE301"), (12_001, ""), (12_999, ""), (13_000, "LORE301"), (14_999, "LORE301"),
])  # fmt: skip
def test_tool_change_ruled_out_by_read_in_history(sign, read, code):
    """Just after the first breakpoint another head may end, which other sessions keep warm."""
    talk = opened()
    talk.turn(bill(12_300, 2_700))
    talk.use()
    talk.turn(bill(15_000, 2_000))  # breakpoints at 12,000, 12,300, 15,000 and 17,000
    talk.use()
    talk.turn(bill(read, 6_200), signs=(sign,))
    sign_code = SIGN_CODES[sign]
    assert talk.lead.code == (code if code and CODES[sign_code].section in ("tools", "system") else sign_code)
    reasons = [other for other in talk.lead.ruled_out if other.reason.startswith(CODES[sign_code].name)]
    limits = [(read, 12_000)] if talk.lead.code == "LORE301" else []
    assert [(reason.count, reason.limit) for reason in reasons] == limits


@pytest.mark.parametrize("sign", ["interrupt", "slash-command", "skill"])
@each("read, ruled_out", [(9_999, True), (10_000, False), (10_001, False)])
def test_other_messages_leave_the_head(sign, read, ruled_out):
    talk = opened()  # the first turn read 10,000 tokens that other sessions keep: tools and system prompt
    lead = dropped(talk, read, signs=(sign,))
    assert lead.code == ("LORE301" if ruled_out else SIGN_CODES[sign])
    reasons = [other for other in lead.ruled_out if other.reason.startswith(CODES[SIGN_CODES[sign]].name)]
    assert [(other.out, other.count, other.limit) for other in reasons] == ([(True, read, 10_000)] if ruled_out else [])


@pytest.mark.parametrize("read", [12_300, 12_000, 11_300, 13_000])
def test_small_fall_of_reads_is_no_drop(read):
    talk = opened()
    talk.turn(bill(read, 2_500))
    assert (talk.verdict.causes, talk.verdict.lost_tokens) == ((), 0)


def test_pause_over_lifetime_is_strong_without_grace():
    talk = opened()
    lead = dropped(talk, after=301.0)
    assert (rank(lead), lead.section) == (("LORE128", "strong", "expected"), "time")
    assert lead.evidence == e.Paused(301.0, 300.0)
    verdict = talk.verdict
    assert (verdict.lost_tokens, verdict.wasted_tokens, verdict.was_foreseen) == (2_300, 0, False)


def test_pause_within_one_hour_lifetime_explains_nothing():
    """Measured: with one-hour entries, reads fell equally often after and before five minutes."""
    lead = dropped(opened(hour=True), after=700.0)
    assert rank(lead) == ("LORE301", "weak", "unattributable")
    (expiry,) = [reason for reason in lead.ruled_out if reason.reason == "expiry"]
    assert (expiry.out, expiry.seconds, expiry.limit) == (True, 700.0, 3600.0)


@pytest.mark.parametrize(("after", "cause"), [
    (299.0, ("LORE301", "weak", None)),
    (438.0, ("LORE128", "weak", e.Paused(438.0, None, 3_600.0))),
    (3_601.0, ("LORE128", "strong", e.Paused(3_601.0, None, 3_600.0))),
])  # fmt: skip
def test_unbilled_writes_live_five_minutes_to_one_hour(after, cause):
    talk = Judged()
    for usage in (Usage(12_000, 0), Usage(300, 12_000), Usage(300, 12_300)):
        talk.turn(usage)
    talk.turn(Usage(12_900, 0), after=after)
    evidence = talk.lead.evidence if isinstance(talk.lead.evidence, e.Paused) else None
    assert (talk.lead.code, talk.lead.strength, evidence) == cause


@pytest.mark.parametrize(("read", "expected"), [
    (13_300, ("LORE155", "strong", "expected")), (10_000, ("LORE301", "weak", "unattributable")),  # the head alone
])  # fmt: skip
def test_older_entry_within_three_seconds_is_strong(read, expected):
    talk = Judged()
    talk.open(write=3_000)
    talk.turn(bill(read, 3_000))
    talk.use()
    talk.turn(bill(read, 3_100), after=1.0)
    assert rank(talk.lead) == expected
    assert (talk.lead.evidence == e.OlderEntry(1.0, read)) is (read == 13_300)


def test_too_many_new_positions_are_strong_evidence():
    talk = opened(ONE_BY_ONE)
    for _ in range(15):
        talk.use()
    lead = dropped(talk)
    assert rank(lead) == ("LORE113", "strong", "waste")
    assert isinstance(lead.evidence, e.LookbackExceeded)
    assert (lead.evidence.positions > lead.evidence.allowed, lead.evidence.missed_tokens) == (True, 2_300)
    assert talk.verdict.wasted_tokens == 2_300


def test_history_shrunk_without_event_is_strong():
    talk = opened()
    talk.entries = talk.entries.cut(1)
    lead = dropped(talk)
    assert (lead.code, lead.strength, lead.evidence) == ("LORE143", "strong", e.HistoryShrank(1, 2))


@pytest.mark.parametrize(("reason", "section"), [
    ("tools_changed", "tools"), ("system_changed", "system"), ("messages_changed", "messages"),
    ("model_changed", "model"),
])  # fmt: skip
def test_provider_verdict_alone_names_section_without_cause(reason, section):
    lead = dropped(opened(), verdict=reason)
    assert (rank(lead), lead.section) == (("LORE159", "strong", "unattributable"), section)
    assert (lead.evidence, lead.also) == (e.ProviderSaid(reason), ())


def test_expired_entries_lead_over_a_verdict():
    talk = opened()
    lead = dropped(talk, verdict="tools_changed", after=900.0)  # what had expired could not be read either way
    assert (rank(lead), other_codes(lead)) == (("LORE128", "strong", "expected"), ["LORE159"])


def test_verdict_that_contradicts_strong_evidence_leads():
    talk = opened()
    lead = dropped(talk, verdict="tools_changed", signs=("effort",))
    assert (rank(lead), other_codes(lead)) == (("LORE159", "strong", "unattributable"), ["LORE120"])
    assert lead.evidence == e.ProviderSaid("tools_changed", contradicts=("LORE120",))
    assert lead.also[0].qualifiers == ("contradicted",)
    ((_, finding),) = findings_of(talk.verdict.pair, PLACE)
    assert (finding.actor, finding.also[0].contradicted) == ("author", True)
    assert "ruled out by the provider's verdict: generation-settings-changed" in finding.message
    assert finding.lost_tokens == 2_300


@each("sign, verdict, code", [
    ("tools-delta", "tools_changed", "LORE103"),
    ("tools-delta", "messages_changed", "LORE159"),
    ("client-version", "tools_changed", "LORE157"),  # an update rewrites tools and system prompt
    ("client-version", "system_changed", "LORE157"),
    ("client-version", "messages_changed", "LORE159"),
    ("tools-delta", "model_changed", "LORE159"),
    ("restart", "previous_message_not_found", "LORE167"),  # these say nothing of the client
    ("restart", "unavailable", "LORE167"),
    ("restart", "system_changed", "LORE167"),
    ("restart", "tools_changed", "LORE167"),
    ("restart", "messages_changed", "LORE159"),
])  # fmt: skip
def test_provider_verdict_selects_evidence_of_its_section(sign, verdict, code):
    lead = dropped(opened(), verdict=verdict, signs=(sign,))
    other = ["LORE159"] if code != "LORE159" else [SIGN_CODES[sign]]
    says_nothing = verdict in ("previous_message_not_found", "unavailable")
    assert (lead.code, lead.strength, other_codes(lead)) == (code, "strong", [] if says_nothing else other)


@pytest.mark.parametrize("verdict", ["previous_message_not_found", "unavailable", "a_reason_to_come"])
def test_verdict_without_section_is_quoted_with_unexplained_fall(verdict):
    lead = dropped(opened(), verdict=verdict)
    assert rank(lead) == ("LORE301", "weak", "unattributable")
    assert ("what the provider says", False, verdict) in [(r.reason, r.out, r.detail) for r in lead.ruled_out]


@pytest.mark.parametrize(("after", "code"), [(299.0, "LORE301"), (301.0, "LORE128")])
def test_message_not_found_is_expiry_after_a_pause(after, code):
    assert dropped(opened(), verdict="previous_message_not_found", after=after).code == code


@pytest.mark.parametrize(("after", "read", "calls", "code", "lifetime"), [
    (600.0, 12_300, 1, "LORE128", 300.0),  # the hour's part was read
    (600.0, 10_000, 1, "LORE301", None),  # the hour's part had not expired
    (600.0, 10_000, 12, "LORE128", 300.0),  # it was out of the lookback's reach
    (4000.0, 10_000, 12, "LORE128", 3600.0),
    (200.0, 12_300, 1, "LORE301", None),
])  # fmt: skip
def test_expiry_counts_lifetime_of_the_readable_entry(after, read, calls, code, lifetime):
    talk = opened(hour=True)
    for _ in range(calls):
        talk.use()
    talk.turn(bill(12_300, 2_000))  # five minutes
    talk.turn(bill(read, 14_600 - read), after=after)
    assert (talk.lead.code, getattr(talk.lead.evidence, "lifetime", None)) == (code, lifetime)


@pytest.mark.parametrize(("verdict", "code", "other", "against"), [
    ("system_changed", "LORE167", ["LORE159", "LORE117"], set()),  # messages may have changed, too
    ("messages_changed", "LORE117", ["LORE159", "LORE167"], {"LORE167"}),
    ("model_changed", "LORE159", ["LORE117", "LORE167"], {"LORE117", "LORE167"}),
])  # fmt: skip
def test_recorded_change_keeps_evidence_of_the_verdict(verdict, code, other, against):
    change = Change("LORE117", "1 tool results cleared")
    lead = dropped(opened(), 10_001, changes=(change,), signs=("restart",), verdict=verdict)
    assert (lead.code, other_codes(lead)) == (code, other)
    assert {cause.code for cause in lead.also if "contradicted" in cause.qualifiers} == against


def test_restart_leads_over_compaction_on_system_verdict():
    talk = opened()
    change = talk.compact()
    lead = dropped(talk, changes=(change,), signs=("restart", "resume"), verdict="system_changed")
    assert (rank(lead), other_codes(lead)) == (("LORE167", "strong", "waste"), ["LORE123", "LORE159", "LORE125"])


@each("read, verdict, doubted", [
    (11_999, "tools_changed", False), (12_000, "tools_changed", True), (12_000, "system_changed", True),
    (12_001, "system_changed", True), (12_000, "messages_changed", False), (12_000, "model_changed", False),
])  # fmt: skip
def test_verdict_contradicted_by_read_names_no_section(read, verdict, doubted):
    talk = opened()
    talk.turn(bill(12_000, 5_100))
    talk.turn(bill(read, 5_200), verdict=verdict)
    lead, *remarks = talk.verdict.causes
    assert (rank(lead), lead.evidence) == (("LORE159", "strong", "unattributable"), e.ProviderSaid(verdict))
    assert (lead.section is None) is doubted
    noted = [(cause.code, cause.evidence) for cause in remarks]
    assert noted == ([("LORE302", e.Disputed("head-was-read", verdict, 12_000, read))] if doubted else [])
    findings = [finding for _, finding in findings_of(talk.verdict.pair, PLACE)]
    assert [finding.lost_tokens for finding in findings] == [17_100 - read, 0][: len(findings)]
    said = "a breakpoint of the history is at 12,000, so tools and system prompt were unchanged"
    assert [said in finding.message for finding in findings] == [False, True][: len(findings)]


def test_compaction_leads_over_other_causes():
    talk = opened()
    change = talk.compact()
    lead = dropped(talk, changes=(change,), after=900.0, signs=("slash-command",))
    recorded = e.RecordedChange("LORE125", change.detail)
    assert (rank(lead), lead.evidence) == (("LORE125", "strong", "expected"), recorded)


def test_results_that_were_cleared_lead_and_are_foreseen():
    talk, stood = Judged(), 12_000
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    for _ in range(20):
        talk.use()
        talk.turn(bill(stood, 500))
        stood += 500
    entries = talk.entries
    item = msgspec.structs.replace(entries[1].item, output=msgspec.Raw(b'"[cleared]"'))
    talk.entries = entries.set(1, msgspec.structs.replace(entries[1], item=item))
    talk.use()
    talk.turn(bill(10_000, 9_000), changes=(Change("LORE117", "1 tool results cleared"),))
    assert (talk.lead.code, talk.lead.strength, talk.verdict.was_foreseen) == ("LORE117", "strong", True)
    assert talk.lead.evidence == e.RecordedChange("LORE117", "1 tool results cleared")


HOSTS = e.Rerouted(host_before="a.example", host_after="b.example")


@each("before, after, expected", [
    (("a.example/v1", "k"), ("b.example/v1", "k"), HOSTS),
    (("a.example/v1", ""), ("b.example/v1", "k"), HOSTS),  # the previous key is unknown
    (("a.example/v1", "j"), ("b.example/v1", "k"), msgspec.structs.replace(HOSTS, account=True)),
    (("a.example/v1", "j"), ("a.example/v1", "k"), e.Rerouted(account=True)),
    (("a.example/v1", "k"), ("a.example/v1", "k"), None),
    (("a.example/v1", "k"), ("a.example/v1", ""), None),
])  # fmt: skip
def test_other_account_is_named_if_both_keys_known(before, after, expected):
    talk = opened()
    previous, current = (msgspec.structs.replace(talk.last, call=Call(endpoint=where, account=key))
                   for where, key in (before, after))  # fmt: skip
    covered = Overlap(0, 0, 0, is_covered=True, is_covered_canonically=True)
    facts = PairFacts(previous, current, covered, 2_300, comparable=True, lifetime=300.0)
    assert find_other_endpoint(facts) == expected


def test_another_model_that_no_event_tells_is_strong():
    talk = opened()
    talk.model = "claude-y"
    lead = dropped(talk, 0)
    assert (rank(lead), lead.evidence) == (("LORE119", "strong", "expected"), e.ModelChanged("claude-x", "claude-y"))


@each("turns, is_prompted, words", [
    (2, True, "a user message had come"), (2, False, "the conversation had just begun"),
    (3, True, "a user message had come"), (3, False, "the conversation had just begun"), (4, False, ""),
])  # fmt: skip
def test_unexplained_fall_at_beginning_points_to_the_client(turns, is_prompted, words):
    talk = opened()
    for _ in range(turns - 2):
        talk.turn(bill(12_300, 0))
        talk.use()
    if is_prompted:
        talk.ask()
    lead = dropped(talk)
    is_by_client = "the client probably changed the prompt" in lead.evidence.sentence()
    assert (lead.code, lead.evidence.at_prompt, is_by_client) == ("LORE301", is_prompted, bool(words))
    assert words in lead.evidence.sentence()
    assert ("compare those" in fix_of(lead.code, "author", lead.kind, lead.evidence.fix_detail())) is is_by_client


def test_unexplained_fall_lists_ruled_out_causes():
    talk = opened()
    lead = dropped(talk, verdict="unavailable")
    fell = e.ReadFell(2_300, 12_300, 10_000, at_begin=True)
    assert (rank(lead), lead.evidence) == (("LORE301", "weak", "unattributable"), fell)
    first = lead.ruled_out[0]
    assert (first.reason, first.out, first.seconds, first.limit) == ("expiry", True, 20.0, 300.0)
    looked = {ruled.reason: ruled.out for ruled in lead.ruled_out}
    examined = ("model", "blocks since the last breakpoint", "compaction, cleared results, rewind")
    assert {looked[name] for name in examined} == {True}
    assert looked["system prompt, tools, breakpoints, parameters and endpoint"] is None
    out = ", ".join(reason for reason, is_out in looked.items() if is_out)
    assert not any(name in out for name in ("tools", "effort", "version"))  # many logs have none of them
    assert (talk.verdict.wasted_tokens, talk.verdict.unexplained_tokens) == (0, 2_300)


@pytest.mark.parametrize(("read", "reason", "limit", "unknown"), [
    (12_001, "tools and system prompt", 12_000, "breakpoints, parameters and endpoint"),
    (12_000, "tools and system prompt", 12_000, "breakpoints, parameters and endpoint"),
    (11_999, "", None, "system prompt, tools, breakpoints, parameters and endpoint"),
    (10_000, "", None, "system prompt, tools, breakpoints, parameters and endpoint"),
    (9_999, "messages alone", 10_000, "system prompt, tools, breakpoints, parameters and endpoint"),
])  # fmt: skip
def test_unexplained_fall_lists_causes_ruled_out_by_read(read, reason, limit, unknown):
    talk = opened()
    talk.use()
    talk.turn(bill(12_000, 5_100))  # breakpoints at 12,000 and 17,100
    talk.use()
    talk.turn(bill(read, 7_300))
    assert talk.lead.code == "LORE301"
    levels = [ruled for ruled in talk.lead.ruled_out if ": the read " in ruled.reason]
    assert [(ruled.reason.partition(":")[0], ruled.out, ruled.count, ruled.limit) for ruled in levels] == (
        [(reason, True, read, limit)] if reason else []
    )
    assert [ruled.reason for ruled in talk.lead.ruled_out if ruled.out is None] == [unknown]


@pytest.mark.parametrize(("read", "signs", "expected"), [
    (11_999, (), [(True, "")]),
    (11_999, (Sign("tool-reference", version="2.1.209"),), [(False, "tool-reference")]),
    (12_000, ("client-version",), []),  # that the level rules it out is said once
])  # fmt: skip
def test_unexplained_fall_uses_log_evidence_of_the_head(read, signs, expected):
    talk = opened()
    talk.use()
    talk.turn(bill(12_000, 5_100))
    talk.use()
    talk.turn(bill(read, 7_300), signs=signs)
    assert talk.lead.code == "LORE301"
    name = "a change of the client that the log notes"
    assert [(ruled.out, ruled.detail) for ruled in talk.lead.ruled_out if ruled.reason == name] == expected


@pytest.mark.parametrize(("after", "out"), [(-5_000.0, None), (-0.5, None), (4.0, True)])
def test_backward_clock_rules_nothing_out(after, out):
    lead = dropped(opened(), after=after)
    assert lead.code == "LORE301"
    out_by_reason = {reason.reason: reason.out for reason in lead.ruled_out}
    assert [out_by_reason[name] for name in ("expiry", "a parallel start", "an older entry")] == [out, out, out]


def test_fall_is_measured_across_an_unbilled_turn():
    talk = opened()
    talk.turn(None)
    assert talk.verdict.causes == ()
    talk.use()
    talk.turn(bill(0, 2_500))
    (cause,) = talk.verdict.causes
    assert (cause.code, cause.evidence.tokens_after) == ("LORE159", 2_502)


@pytest.mark.parametrize(("pauses", "code", "strength", "says"), [
    ((20, 20), "LORE301", "weak", "not recorded: what 1 request without usage read"),
    ((200, 200), "LORE128", "weak", "but 1 request without usage in between may have kept it alive"),
    ((20, 400), "LORE128", "strong", "7 min since the previous request; the cache lives 5 min"),
    ((400, 20), "LORE128", "strong", "7 min since the previous request; the cache lives 5 min"),
])  # fmt: skip
def test_request_without_usage_may_have_read_entries(pauses, code, strength, says):
    talk = opened()
    talk.turn(None, after=pauses[0])
    talk.ask()
    talk.turn(bill(0, 13_000), after=pauses[1])
    ((cause, finding),) = findings_of(talk.verdict.pair, PLACE)
    assert (cause.code, cause.strength) == (code, strength)
    assert says in finding.message


@pytest.mark.parametrize(("after", "can_help"), [(700.0, True), (4_000.0, False)])
def test_longer_lifetime_is_advised_only_if_it_would_last(after, can_help):
    talk = opened()
    assert dropped(talk, after=after).code == "LORE128"
    ((_, finding),) = findings_of(talk.verdict.pair, PLACE)
    assert ("a longer cache lifetime" in finding.fix or "Ask for a longer" in finding.fix) is can_help


def test_tools_that_a_search_found_advise_an_update():
    talk = opened()
    dropped(talk, signs=(Sign("tool-reference", ("WebFetch",), version="2.1.150"),), verdict="tools_changed")
    ((_, finding),) = findings_of(talk.verdict.pair, replace(PLACE, audience="user"))
    assert (finding.code, "from 2.1.209 on" in finding.fix) == ("LORE124", True)


@pytest.mark.parametrize(("names", "detail"), [(("review",), "aside"), ((), "")])
def test_what_if_names_the_fix_of_the_evidence(names, detail):
    talk = opened()
    dropped(talk, signs=(Sign("thinking", names, before="on", after="off"),))
    paid = make_paid_turn(talk.verdict, Prediction(None, None, None, "ceiling"), None)
    assert [(cache_break.code, cache_break.detail) for cache_break in paid.breaks] == [("LORE120", detail)]
