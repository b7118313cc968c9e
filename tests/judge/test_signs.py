"""What signs of a log and shrunken totals explain, how surely, and what confirms them."""

from __future__ import annotations

import pytest
from msgspec import Raw
from msgspec.structs import replace

from cache.talk import bill
from helpers.each import each
from judge.judged import SIGN_CODES, Judged, dropped, opened, other_codes, rank
from lore.judge.rules import FALLS
from lore.model.codes import CODES, fix_of
from lore.model.evidence import HookText, SignSeen, ToolsAnnounced, TotalShrank
from lore.model.items import ImageBlock, UserMessage
from lore.model.state import HOOKS, SIGNS, Change, Sign


def test_every_signal_has_an_existing_code():
    assert set(SIGN_CODES.values()) <= set(CODES)
    assert set(SIGN_CODES) | {*HOOKS, "image", "refusal", "teammate", "thinking"} == set(SIGNS)
    assert {rule.code for rule in FALLS.rows} >= set(SIGN_CODES.values())


@each([
    "resume", "api-error", "slash-command", "permission-mode", "interrupt", "instructions-delta", "skill",
])  # fmt: skip
def test_signal_that_rarely_breaks_prefix_is_weak(sign):
    talk = opened()
    cause = dropped(talk, signs=(sign,))
    assert (cause.code, cause.strength, cause.evidence) == (SIGN_CODES[sign], "weak", SignSeen(sign))
    assert cause.kind != "waste"
    assert talk.verdict.wasted_tokens == 0


@pytest.mark.parametrize(("read", "code"), [(12_000, "LORE120"), (12_300, "LORE301")])
def test_streaming_explains_no_read_of_the_other_kind(read, code):
    """Both kinds have entries of their own, and the previous request, of the other kind, had read 12,300 tokens."""
    talk = opened()
    talk.turn(bill(12_300, 1_500))
    assert dropped(talk, read, signs=(Sign("streaming", before="on", after="off"),)).code == code


@pytest.mark.parametrize("sign", ["effort", "client-version"])
def test_signal_that_always_breaks_prefix_is_strong(sign):
    cause = dropped(opened(), 10_001, signs=(sign,))
    assert (cause.code, cause.strength) == (SIGN_CODES[sign], "strong")


def test_slash_command_with_own_effort_is_named():
    signs = (Sign("effort", before="high", after="low"), Sign("slash-command", ("/review",)))
    evidence = dropped(opened(), signs=signs).evidence
    assert (evidence.names, evidence.fix_detail()) == (("/review",), "command")


@each("before, after, code, kind", [
    ("anthropic", "github-copilot", "LORE131", "expected"), ("anthropic", "anthropic", "LORE301", "unattributable"),
])  # fmt: skip
def test_other_provider_has_cold_cache(before, after, code, kind):
    cause = dropped(opened(), signs=(Sign("provider", before=before, after=after),))
    assert (cause.code, cause.kind) == (code, kind)


@each("before, after, read, code", [
    ("standard", "fast", 6_000, "LORE120"), ("fast", "standard", 6_000, "LORE120"), ("", "fast", 6_000, "LORE301"),
    ("fast", "fast", 6_000, "LORE301"), ("standard", "fast", 12_000, "LORE301"),  # the history was read
])  # fmt: skip
def test_other_speed_in_usage_explains_a_fall(before, after, read, code):
    talk = opened()
    talk.turn(replace(bill(12_300, 2_700), speed=before))
    talk.say()
    talk.turn(replace(bill(read, 9_500), speed=after))
    assert talk.lead.code == code


def test_first_image_in_a_log_is_a_possible_cause():
    talk = opened()
    assert rank(dropped(talk, signs=("image",))) == ("LORE118", "weak", "unattributable")
    talk.turn(bill(12_500, 200))
    talk.turn(bill(10_000, 2_800), signs=("image",))
    assert talk.lead.code == "LORE301"
    assert dropped(opened(), 9_999, signs=("image",)).code == "LORE301"  # not even the head was read


@pytest.mark.parametrize(("sign", "sentence"), [
    (Sign("instructions-delta", (), ("docs",)), "MCP server docs dropped out: the client withdrew the instructions"),
    (Sign("instructions-delta", ("docs",)), "the client announced other instructions of tool servers: docs"),
    (Sign("tools-delta", (), ("mcp__docs__find",)),
     "MCP server docs dropped out: the client removed mcp__docs__find from its tools"),
    (Sign("tools-delta", (), ("WebFetch",)), "the client announced other tools during the session: removed WebFetch"),
])  # fmt: skip
def test_tool_server_that_dropped_out_is_named(sign, sentence):
    assert dropped(opened(), signs=(sign,)).evidence.sentence() == sentence


@pytest.mark.parametrize(("verdict", "code"), [("messages_changed", "LORE118"), ("system_changed", "LORE159")])
def test_first_image_agrees_with_a_messages_verdict(verdict, code):
    lead = dropped(opened(), signs=("image",), verdict=verdict)
    assert code in (lead.code, *other_codes(lead))


@each([*sorted(SIGN_CODES)])
def test_signal_without_a_fall_is_no_cause(sign):
    talk = opened()
    talk.turn(bill(12_300, 200), signs=(sign,))
    assert talk.verdict.causes == ()


@pytest.mark.parametrize(("sign", "evidence"), [
    (Sign("effort", before="low", after="high"), SignSeen("effort", before="low", after="high")),
    (Sign("tools-delta", ("a",), ("b",)), ToolsAnnounced(("a",), ("b",))),
    (Sign("tools-delta", ("mcp__x__a", "mcp__y__b", "c"), ("mcp__x__d",)),
     ToolsAnnounced(("mcp__x__a", "mcp__y__b", "c"), ("mcp__x__d",), ("x", "y"))),
    (Sign("tools-delta", ("web__search__run", "mcp__x"), ("xmcp__y__z",)),  # a tool of no server may have such a name
     ToolsAnnounced(("web__search__run", "mcp__x"), ("xmcp__y__z",))),
    (Sign("skill", ("a", "b", "c", "d", "e")), SignSeen("skill", ("a", "b", "c", "d", "e"))),
    (Sign("instructions-delta", ("a",), ("b",)), SignSeen("instructions-delta", ("a", "b"), removed=("b",))),
])  # fmt: skip
def test_evidence_has_the_names_of_the_signal(sign, evidence):
    assert dropped(opened(), signs=(sign,)).evidence == evidence


def test_hook_text_is_strong_if_read_stops_there():
    for read, strength, hook in ((12_300, "strong", "PreToolUse:Bash"), (11_000, "weak", "PostToolUse")):
        talk = opened(hour=True)
        talk.turn(bill(12_300, 2_000, hour=True), signs=(Sign("hook-context", (hook,), line=17),))
        talk.ask()
        talk.turn(bill(read, 3_900, hour=True))
        assert (talk.lead.code, talk.lead.section, talk.lead.strength) == ("LORE158", "messages", strength)
        assert isinstance(talk.lead.evidence, HookText)
        assert talk.lead.evidence.line == 17
        assert talk.lead.evidence.exact is (strength == "strong")
        assert (talk.lead.kind == "unattributable") or strength == "strong"


CHECK = "No preview server is running. Before ending your turn, if this change is observable in the Browser pane, …"


@each("sign, text, kind, fix", [
    ("preview-context", "", "expected", "Nothing to do"), ("hook-context", CHECK, "waste", "autoVerify"),
])  # fmt: skip
def test_text_of_the_app_names_its_setting(sign, text, kind, fix):
    """The advice to fix what the hook reports was impossible: the desktop app asks for a check of each edit."""
    talk = opened(hour=True)
    talk.turn(bill(12_300, 2_000, hour=True), signs=(Sign(sign, ("PostToolUse:Edit",), after=text),))
    talk.ask()
    talk.turn(bill(12_300, 3_900, hour=True), verdict="messages_changed")
    assert rank(talk.lead) == ("LORE158", "strong", kind)
    assert fix in fix_of("LORE158", "user", kind, talk.lead.evidence.fix_detail())


@pytest.mark.parametrize(("blocks", "read", "signs", "says", "level"), [
    (3, 12_300, (), "usage confirms it", "strong"),
    (25, 10_000, (), "20 blocks back", "strong"),
    (25, 10_000, ("instructions-delta",), "20 blocks back", "weak"),  # both leave the head
    (3, 10_000, ("instructions-delta",), "next user message on", "weak"),
])  # fmt: skip
def test_read_of_the_head_confirms_no_hook_text(blocks, read, signs, says, level):
    talk = opened(hour=True)
    talk.turn(bill(12_300, 2_000, hour=True), signs=(Sign("hook-context", ("PostToolUse",)),))
    for _ in range(blocks):
        talk.say()
    talk.ask()
    talk.turn(bill(read, 16_200 - read, hour=True), signs=signs)
    assert (talk.lead.code, talk.lead.strength, talk.lead.evidence.exact) == ("LORE158", level, read == 12_300)
    assert says in talk.lead.evidence.sentence()
    assert ("usage confirms it" in talk.lead.evidence.sentence()) == (read == 12_300)
    assert other_codes(talk.lead) == ["LORE166" for _ in signs]


@each("verdict, strength, kind", [("messages_changed", "strong", "waste"), ("", "weak", "unattributable")])
def test_messages_verdict_confirms_hook_text(verdict, strength, kind):
    talk = opened(hour=True)
    talk.turn(bill(12_300, 2_000, hour=True), signs=(Sign("hook-context", ("PostToolUse",)),))
    talk.ask()
    talk.turn(bill(11_000, 3_900, hour=True), verdict=verdict)
    assert rank(talk.lead) == ("LORE158", strength, kind)


def test_removed_hook_text_explains_a_shrunk_prompt():
    for read, code, other in ((12_300, "LORE158", "LORE117"), (11_000, "LORE117", "LORE158")):
        talk = printed(hour=True)
        talk.turn(bill(12_300, 4_000, hour=True), signs=(Sign("hook-context", ("PostToolUse",)),))
        talk.ask()
        talk.turn(bill(read, 200, hour=True))
        assert (talk.lead.code, other_codes(talk.lead)) == (code, [other])


# a shrunken total


def printed(**fields):
    """Return a conversation with a tool result of 20,000 bytes."""
    talk = opened(**fields)
    talk.use(20_000)
    return talk


def shrank(after, **fields):
    """Return a conversation with a tool result whose prompt has 15,002 tokens, and then `after`."""
    talk = printed()
    talk.turn(bill(12_300, 2_700))
    talk.say()
    talk.turn(bill(11_000, after - 11_002), **fields)
    return talk


@pytest.mark.parametrize(("after", "code"), [
    (14_874, "LORE301"), (14_873, "LORE159"), (14_002, "LORE159"), (14_001, "LORE117"), (11_010, "LORE117"),
])  # fmt: skip
def test_prompt_shrunk_by_thousand_tokens_was_cleared(after, code):
    talk = shrank(after)
    assert talk.lead.code == code
    if code == "LORE117":
        kind = "waste" if talk.verdict.lost_tokens > 128 else "expected"
        assert (talk.lead.strength, talk.lead.kind, talk.lead.section) == ("strong", kind, "messages")
        assert talk.lead.evidence == TotalShrank(15_002, after, 15_000)


@pytest.mark.parametrize(("read", "code"), [(15_000, "LORE118"), (12_300, "LORE117")])
def test_prompt_shrunk_from_image_on_replaced_it(read, code):
    """The screenshot of the prompt before is sent as the path of a file: its own tokens are missing, nothing else."""
    talk = printed()
    talk.turn(bill(12_300, 2_700))
    talk.ask()
    talk.turn(bill(15_000, 2_000), signs=(Sign("image"),))
    talk.ask()
    talk.turn(bill(read, 15_900 - read))
    assert (talk.lead.code, talk.lead.section, talk.lead.evidence.image) == (code, "messages", code == "LORE118")


@pytest.mark.parametrize(("after", "lost"), [(14_001, 2_949), (11_010, 0), (15_900, 4_000)])
def test_cleared_tokens_are_not_lost(after, lost):
    """Cleared tokens were counted in: 42,541 were said to be lost in a turn that wrote 18."""
    assert shrank(after).verdict.lost_tokens == lost


@pytest.mark.parametrize("result", [0, 3_000])
def test_shrunk_prompt_with_short_results_cleared_none(result):
    talk = Judged()
    talk.ask()
    talk.turn(bill(10_000, 2_000))
    talk.use(result)
    talk.turn(bill(12_000, 3_000))
    talk.ask()
    talk.turn(bill(10_500, 1_000))
    assert rank(talk.lead) == ("LORE159", "strong", "unattributable")
    assert isinstance(talk.lead.evidence, TotalShrank)


def test_prompt_shrunk_for_other_reason_was_not_cleared():
    talk = opened()
    talk.turn(bill(12_300, 2_700))
    talk.entries = talk.entries.cut(2)
    talk.turn(bill(11_000, 50))
    assert (talk.lead.code, other_codes(talk.lead)) == ("LORE143", [])
    talk = opened()
    talk.turn(bill(12_300, 2_700))
    talk.model = "claude-y"
    talk.turn(bill(0, 9_000))
    assert "LORE117" not in (talk.lead.code, *other_codes(talk.lead))
    talk = opened()
    talk.turn(bill(12_300, 2_700))
    talk.turn(bill(11_000, 50), changes=(talk.compact(),))
    assert (talk.lead.code, other_codes(talk.lead)) == ("LORE125", [])


@pytest.mark.parametrize(("read", "code", "section"), [(9_999, "LORE159", None), (10_000, "LORE117", "messages")])
def test_read_below_the_head_is_no_cleared_result(read, code, section):
    """The prompt shrank all the same: the client removed something unknown."""
    talk = printed()
    talk.turn(bill(12_300, 2_700))
    talk.turn(bill(read, 500))
    assert (talk.lead.code, talk.lead.section, talk.lead.strength) == (code, section, "strong")
    assert talk.lead.evidence == TotalShrank(15_002, read + 502, 15_000)


@pytest.mark.parametrize(("read", "signs", "code", "other"), [
    (10_000, ("restart",), "LORE167", "LORE117"),  # exactly the head: servers that are pending leave tools out
    (10_000, ("restart", "resume"), "LORE167", "LORE159"),  # what a resumed session leaves out may be anything
    (10_001, ("restart", "resume"), "LORE167", "LORE159"),
    (10_001, ("restart",), "LORE117", "LORE167"),  # one sign alone is weak,
])  # fmt: skip
def test_seen_restart_is_the_cause_of_smaller_head(read, signs, code, other):
    talk = printed()
    talk.turn(bill(12_300, 7_700))
    talk.turn(bill(read, 500), signs=signs)
    assert (talk.lead.code, talk.lead.strength, other in other_codes(talk.lead)) == (code, "strong", True)


@pytest.mark.parametrize(("read", "after", "code"), [
    (12_000, 400.0, "LORE117"),  # a breakpoint as old as the last one
    (11_999, 400.0, "LORE128"),
    (12_000, 303.0, "LORE128"),  # within the grace some entries still live,
])  # fmt: skip
def test_read_of_history_after_pause_rules_out_expiry(read, after, code):
    talk = printed()
    talk.turn(bill(12_300, 7_700))
    talk.say()
    talk.turn(bill(read, 500), after=after)
    assert talk.lead.code == code
    ruled_out = [ruled for ruled in talk.lead.ruled_out if ruled.reason.startswith("cache-expired")]
    assert [(ruled.count, ruled.limit) for ruled in ruled_out] == ([(12_000, 12_000)] if code == "LORE117" else [])


def test_unnamed_micro_compaction_explains_a_fall():
    cause = dropped(opened(), 11_000, signs=("micro-compaction",))
    assert (rank(cause), cause.evidence) == (("LORE117", "weak", "unattributable"), SignSeen("micro-compaction"))
    with_verdict = dropped(opened(), 11_000, signs=("micro-compaction",), verdict="messages_changed")
    assert rank(with_verdict) == ("LORE117", "strong", "waste")
    talk = shrank(12_002, signs=("micro-compaction",))
    assert (talk.lead.evidence, talk.lead.also) == (TotalShrank(15_002, 12_002, 15_000, boundary=True), ())
    talk = opened()
    talk.add(UserMessage("shown", blocks=(ImageBlock("image/png", Raw(b'"aGk="')),)))
    assert rank(dropped(talk, 11_000, signs=("micro-compaction",))) == ("LORE118", "weak", "unattributable")


@each("model, read, codes", [
    ("claude-y", 0, ["LORE128", "LORE119"]), ("", 0, ["LORE128", "LORE125"]), ("", 10_000, ["LORE125"]),
])  # fmt: skip
def test_expired_entries_lead_over_model_and_compaction(model, read, codes):
    """To keep the model could have saved nothing; a compaction takes away messages, but not tools and system prompt."""
    talk = opened()
    talk.model = model or talk.model
    change = Change("LORE119", "model changed") if model else talk.compact()
    talk.turn(bill(read, 2_500), after=700.0, changes=(change,))
    assert [talk.lead.code, *other_codes(talk.lead)] == codes


# counted signals


SEARCH = "tool-reference"
HEAD, ABOVE = 10_000, 10_001  # the read after a tool change: exactly this, or up to one more


def searched(version, read=10_500, *, before=0, **fields):
    """Find tools in a client of this version; `before` is the number of earlier searches that lost nothing."""
    talk, stood = opened(), 12_300
    for _ in range(before):
        talk.turn(bill(stood, 100), signs=(Sign(SEARCH, version=version),))
        talk.use()
        stood += 100
    talk.turn(bill(read, 2_500), signs=(Sign(SEARCH, ("WebSearch",), version=version),), **fields)
    return talk.lead


@each("version, code", [
    ("2.1.118", "LORE124"), ("2.1.119", "LORE124"), ("2.1.207", "LORE124"), ("2.1.208", "LORE124"),
    ("2.1.209", "LORE301"), ("2.1.300", "LORE301"), ("", "LORE124"),
])  # fmt: skip
def test_tool_search_is_a_cause_by_version(version, code):
    is_counted = code == "LORE124" and version > "2.1.118"
    assert rank(searched(version)) == (code, *(("strong", "waste") if is_counted else ("weak", "unattributable")))
    assert searched(version, HEAD).strength == ("strong" if code == "LORE124" else "weak")
    assert searched(version, verdict="tools_changed").code == ("LORE124" if code == "LORE124" else "LORE159")
    assert searched(version, verdict="messages_changed").code == "LORE159"


@pytest.mark.parametrize(("model", "code"), [
    ("claude-opus-4-5-20251101", "LORE168"), ("claude-sonnet-4-5-20250929", "LORE168"),
    ("claude-opus-4-6", "LORE301"), ("claude-x", "LORE301"),
])  # fmt: skip
@each("verdict, strength", [("", "weak"), ("messages_changed", "strong"), ("system_changed", "strong")])
def test_missing_thinking_is_cause_for_two_models(model, code, verdict, strength):
    talk = Judged()
    talk.model = model
    talk.open()
    talk.ask()
    cause = dropped(talk, ABOVE, signs=("no-thinking",), verdict=verdict)
    if verdict == "system_changed" or (verdict and code == "LORE301"):
        code = "LORE159"
    assert (cause.code, cause.strength) == (code, "weak" if code == "LORE301" else strength)
    if code == "LORE168":
        assert cause.kind == ("waste" if strength == "strong" else "unattributable")


@pytest.mark.parametrize(("falls", "code"), [(2, "LORE163"), (3, "LORE301")])
def test_signal_explains_no_fall_among_others_like_it(falls, code):
    """A skill was offered as the cause where each neighbouring turn of the log lost as much without one."""
    talk = Judged()
    talk.open(write=20_000)
    for _ in range(falls):
        talk.ask()
        talk.turn(bill(10_000, 20_000))
    talk.ask()
    talk.turn(bill(10_000, 20_000), signs=("interrupt",))
    assert talk.lead.code == code


def test_two_earlier_falls_confirm_the_signal():
    talk, strengths = Judged(), []
    talk.model = "claude-opus-4-5"
    talk.open(write=20_000)
    for _ in range(3):
        talk.ask()
        talk.turn(bill(20_000, 20_000), signs=("no-thinking",))
        strengths.append(talk.lead.strength)
    assert strengths == ["weak", "weak", "strong"]
    talk.ask()
    talk.turn(bill(40_000, 100), signs=("no-thinking",))  # once it did not fall
    talk.ask()
    talk.turn(bill(20_000, 20_500), signs=("no-thinking",))
    assert (talk.lead.code, talk.lead.strength) == ("LORE168", "weak")


@each("read, signs, verdict, strength", [
    (ABOVE, ("restart",), "", "weak"),
    (HEAD, ("restart",), "", "strong"),
    (ABOVE, ("restart",), "system_changed", "strong"),
    (ABOVE, ("restart",), "tools_changed", "strong"),
    (ABOVE, ("restart", "resume"), "", "strong"),
    (ABOVE, (Sign("restart", ("pendingMcpServers", "/exit")),), "", "strong"),
    (ABOVE, (Sign("restart", ("pendingMcpServers",)), "tools-delta"), "", "weak"),
])  # fmt: skip
def test_restart_needs_two_kinds_of_evidence(read, signs, verdict, strength):
    cause = dropped(opened(), read, signs=signs, verdict=verdict)
    assert rank(cause) == ("LORE167", strength, "waste" if strength == "strong" else "unattributable")
    assert "LORE103" in other_codes(cause) if "tools-delta" in signs else "LORE103" not in other_codes(cause)


@pytest.mark.parametrize(("read", "verdict", "strength"), [
    (ABOVE, "", "weak"),
    (HEAD, "", "weak"),  # whatever changes the head leaves the same
    (ABOVE, "tools_changed", "strong"),
])  # fmt: skip
def test_announced_tools_are_outside_prefix_unless_confirmed(read, verdict, strength):
    cause = dropped(opened(), read, signs=("tools-delta",), verdict=verdict)
    assert rank(cause) == ("LORE103", strength, "waste" if strength == "strong" else "unattributable")


@pytest.mark.parametrize(("verdict", "strength"), [("", "weak"), ("messages_changed", "strong")])
def test_verdict_confirms_resume(verdict, strength):
    cause = dropped(opened(), ABOVE, signs=("resume",), verdict=verdict)
    assert rank(cause) == ("LORE123", strength, "waste" if strength == "strong" else "unattributable")


def test_first_read_of_resumed_conversation_confirms_nothing():
    talk = Judged()
    talk.ask()
    talk.number = 1
    talk.say()
    talk.number = 0
    talk.turn(bill(10_000, 2_000))
    talk.use()
    talk.turn(bill(12_000, 300))
    assert dropped(talk, HEAD, signs=("restart",)).strength == "weak"


@pytest.mark.parametrize(("version", "read", "code", "strength"), [
    ("2.1.58", 12_001, "LORE161", "weak"),
    ("2.1.58", 12_300, "LORE161", "strong"),  # exactly the prompt before the skill's text
    ("2.1.59", 12_300, "LORE301", "weak"),
    ("", 12_300, "LORE301", "weak"),
])  # fmt: skip
def test_skill_before_new_prompt_breaks_old_versions(version, read, code, strength):
    talk = opened()
    talk.turn(bill(12_300, 2_700), signs=(Sign("skill", ("pdf",), version=version),))
    talk.ask()
    talk.turn(bill(read, 4_000))
    assert (talk.lead.code, talk.lead.strength) == (code, strength)
    assert (talk.verdict.wasted_tokens > 0) is (strength == "strong")


@pytest.mark.parametrize(("read", "code"), [(11_900, "LORE301"), (12_000, "LORE163")])
def test_first_read_of_own_message_is_above_head(read, code):
    """Runs of one prompt find all of it: their first read is longer than the head alone."""
    talk = Judged()
    talk.open(read=read, write=12_000 - read)
    assert dropped(talk, 9_900, signs=("interrupt",)).code == code
