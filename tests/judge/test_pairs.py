"""Pairs: causes by usage and pauses, their cost, and the share that is reused."""

from __future__ import annotations

import html

import pytest
from msgspec.structs import replace

from helpers.each import each
from judge.judged import leading_kind
from lore.cache.counts import BYTES_PER_TOKEN, bytes_per_token, shortfall, significant_fall
from lore.judge.chains.chain import ComparedChain
from lore.judge.findings import findings_of
from lore.judge.pairs.pair import is_remark, lost_tokens
from lore.model.cause import Place, RuledOut
from lore.model.events import Usage
from lore.model.evidence import WithinBlock
from lore.model.state import Change
from lore.model.turn import Call
from lore.run.rules import PACKAGED
from model.making import assistant, body, dumps, parsed, turn

ONE = body("one " * 10_000)
TWO = body("one " * 10_000, assistant("two"), "three")
EDITED = body("one " * 10_000, assistant("TWO"), "three", "four")
CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}


def pair(*turns, **fields):
    pairs = ComparedChain(PACKAGED.rules, **fields)
    return [pairs.compare_next(request) for request in turns][-1]


def turns(previous, current, *, usages=(None, None), at=(0.0, 10.0), **fields):
    return (
        turn(parsed(previous), 1, usage=usages[0], sent=at[0]),
        turn(parsed(current), 2, usage=usages[1], sent=at[1], **fields),
    )


def codes(diff):
    return [cause.code for cause in diff.causes]


def test_edit_loses_the_bytes_after_it():
    diff = pair(*turns(TWO, EDITED))
    assert codes(diff) == ["LORE100"]
    stands = len('"Be brief."') + 2 * len('"role":"user"') + len('"role":"assistant"') + len(f'"{"one " * 10_000}"')
    assert diff.bytes.previous - diff.lost_bytes == stands - len('"role":"user"') + 1
    assert (diff.is_break, leading_kind(diff)) == (True, "waste")
    assert diff.reuse == pytest.approx(1 - diff.lost_bytes / diff.bytes.previous)


def test_reuse_of_empty_prompt_is_unknown():
    assert pair(*turns({"messages": []}, ONE)).reuse is None


# bills


def bill(read, write=0, uncached=0, **fields):
    return Usage(uncached, read, write, **fields)


@each("previous_usage, current_usage, short", [
    (None, bill(0), None),
    (bill(0), None, None),
    (bill(9), Usage(uncached_tokens=5), None),
    (Usage(uncached_tokens=5), bill(9), None),
    (bill(9000, 1000), bill(10000), 0),
    (bill(9000, 1000), bill(9000), 0),
    (bill(9000, 0), bill(8000), 0),
    (bill(9000, 1000), bill(8999), 1001),
    (bill(90_000, 10_000), bill(99_000), 0),
    (bill(90_000, 10_000), bill(98_999), 1001),
    (Usage(write_tokens=5000), bill(0), 5000),
    (Usage(0, 10_000), Usage(0, 9000), 0),
    (Usage(0, 10_000), Usage(0, 8999), 1001),
    (Usage(0, 100_000), Usage(0, 98_000), 0),
    (Usage(0, 100_000), Usage(0, 97_999), 2001),  # unbilled writes widen the tolerance
])  # fmt: skip
def test_read_below_cached_falls_beyond_a_tolerance(previous_usage, current_usage, short):
    has_no_writes = previous_usage is not None and previous_usage.write_tokens is None and previous_usage.read_tokens
    prompt = parsed(ONE, "openai-chat" if has_no_writes else "anthropic")
    before, after = turn(prompt, usage=previous_usage), turn(prompt, 2, usage=current_usage)
    assert significant_fall(before, shortfall(before, after)) == short


def test_usage_of_unlinked_turns_is_not_compared():
    assert codes(pair(*turns(ONE, TWO, usages=(bill(0, 9000), bill(0))), comparable=False)) == []


def test_pause_within_billed_hour_explains_nothing():
    hour = Usage(0, 0, 9000, write_1h_tokens=9000)
    assert codes(pair(*turns(ONE, TWO, usages=(hour, bill(0)), at=(0.0, 3000.0)))) == ["LORE301"]


def test_pause_explains_an_edit_unless_cache_was_read():
    wrote = bill(0, 9000)
    assert codes(pair(*turns(TWO, EDITED, usages=(wrote, None), at=(0.0, 4000.0)))) == ["LORE128"]
    assert codes(pair(*turns(TWO, EDITED, usages=(wrote, bill(9000)), at=(0.0, 4000.0)))) == ["LORE100"]


@pytest.mark.parametrize(("read", "code"), [(0, "LORE128"), (1000, "LORE125")])
def test_compaction_leads_over_pause_if_anything_was_read(read, code):
    changes = (Change("LORE125", "compacted"),)
    usages = (bill(0, 9000), bill(read))
    assert codes(pair(*turns(TWO, EDITED, usages=usages, at=(0.0, 4000.0), changes=changes))) == [code]
    assert codes(pair(*turns(ONE, TWO, usages=usages, changes=changes))) == ["LORE125"]


def test_change_after_last_breakpoint_is_no_cache_break():
    previous = body({"role": "user", "content": [{"type": "text", "text": "a", **CACHE_CONTROL}]}, "now: noon")
    current = body({"role": "user", "content": [{"type": "text", "text": "a", **CACHE_CONTROL}]}, "now: one", "x")
    diff = pair(*turns(previous, current))
    assert (codes(diff), diff.is_break, diff.lost_bytes) == (["LORE146"], False, 0)
    assert lost_tokens(diff, diff.causes[0]) == (0, "estimated")


def test_fall_with_change_after_breakpoint_is_reported():
    long = {"role": "user", "content": [{"type": "text", "text": "a " * 10_000, **CACHE_CONTROL}]}
    previous, current = body(long, "now: noon"), body(long, "now: one", "x")
    assert codes(pair(*turns(previous, current, usages=(bill(0, 9000), bill(0))))) == ["LORE146", "LORE301"]


@each("count, read, expected", [
    (21, 0, [("LORE113", "waste")]), (20, 0, [("LORE113", "unattributable")]), (20, 9000, []),
    (19, 0, [("LORE301", "unattributable")]),
])  # fmt: skip
def test_twentieth_new_position_may_explain_a_miss(count, read, expected):
    """Anthropic counts the breakpoint, so that the entry before 20 new positions is the 21st; some were read."""
    long, mark = [{"type": "text", "text": "a " * 10_000}], {"type": "text", "text": "end", **CACHE_CONTROL}
    previous = body({"role": "user", "content": [{**long[0], **CACHE_CONTROL}]})
    new = {"role": "user", "content": [*({"type": "text", "text": f"{n}"} for n in range(count - 2)), mark]}
    current, at = body({"role": "user", "content": long}, assistant("a"), new), (1_789_000_000.0, 1_789_000_010.0)
    judged = pair(*turns(previous, current, usages=(bill(0, 9000), bill(read, 9100 - read)), at=at))
    assert [(cause.code, cause.kind) for cause in judged.causes] == expected


@pytest.mark.parametrize(("usages", "expected"), [((None, None), ["LORE113"]), ((bill(0, 2000), bill(2000)), [])])
def test_entry_beyond_lookback_is_remark_unless_read(usages, expected):
    def user_message(*blocks):
        return {"role": "user", "content": [{"type": "text", "text": f"{number}"} for number in blocks]}

    marked = {"role": "user", "content": [{"type": "text", "text": "end", **CACHE_CONTROL}]}
    first = [{"type": "text", "text": "first " * 3000}]
    previous = body({"role": "user", "content": [first[0] | CACHE_CONTROL]})
    current = body({"role": "user", "content": first}, assistant("a"), user_message(*range(40)), marked)
    assert codes(pair(*turns(previous, current, usages=usages))) == expected


READ = {"name": "read", "input_schema": {}}
PUT_OFF = {"name": "jira", "input_schema": {}, "defer_loading": True}


@pytest.mark.parametrize("tools", [([READ], [READ, PUT_OFF]), ([READ, PUT_OFF], [READ])])
@each("usages, code", [
    ((None, None), None), ((bill(0, 9000), bill(9000, 40)), None), ((bill(0, 9000), bill(0, 9040)), "LORE301"),
])  # fmt: skip
def test_deferred_tools_are_outside_the_prefix(tools, usages, code):
    """They were waste in 6 of 6 captures and cassettes that followed what the fix recommends."""
    previous, current = ONE | {"tools": tools[0]}, TWO | {"tools": tools[1]}
    diff = pair(*turns(previous, current, usages=usages))
    first = diff.causes[0]
    assert (first.code, first.kind, first.qualifiers) == ("LORE124", "expected", ("outside-the-prefix",))
    breaks = [cause.code for cause in diff.causes if not is_remark(cause)]
    assert (diff.is_break, breaks) == (code is not None, [] if code is None else [code])
    assert lost_tokens(diff, diff.causes[0])[0] == 0


def test_deferred_tool_put_in_list_breaks_the_prefix():
    diff = pair(*turns(ONE | {"tools": [READ, PUT_OFF]}, TWO | {"tools": [READ, PUT_OFF | {"defer_loading": False}]}))
    assert [(cause.code, cause.kind) for cause in diff.causes] == [("LORE124", "waste")]


# tokens


def test_lost_tokens_with_usage_are_recorded():
    part = pair(*turns(TWO, EDITED, usages=(bill(0, 9000), bill(2000, 7100))))
    assert lost_tokens(part, part.causes[0]) == (7000, "recorded")
    whole = pair(*turns(TWO, EDITED, usages=(bill(0, 9000), bill(9000))))
    assert lost_tokens(whole, whole.causes[0]) == (0, "recorded")


def test_lost_tokens_without_usage_are_estimated():
    diff = pair(*turns(TWO, EDITED))
    assert lost_tokens(diff, diff.causes[0]) == (round(diff.lost_bytes / BYTES_PER_TOKEN), "estimated")


def unbilled(read, uncached):
    return Usage(uncached, read, None)


LONG = "It is %s. " + "one two " * 1000  # about 2,000 tokens


def automatic(first, second, usages, endpoint="api.openai.com/v1/chat/completions"):
    """A pair at a provider that caches by itself and bills no writes."""
    bodies = [dumps({"model": "gpt-5.1", "messages": messages}) for messages in (first, second)]
    call = Call(endpoint=endpoint)
    sent = enumerate(zip(bodies, usages, strict=True), 1)
    return pair(*(turn(parsed(raw, "openai-chat"), n, usage=usage, call=call) for n, (raw, usage) in sent))


def message(text, role="user"):
    return {"role": role, "content": text}


@pytest.mark.parametrize(("usages", "lost", "how"), [
    ((unbilled(0, 2000), unbilled(0, 2100)), 1920, "recorded"),  # 15 blocks of 128 tokens
    ((unbilled(128, 1900), unbilled(0, 2100)), 1920, "recorded"),
    ((unbilled(1920, 80), unbilled(0, 2100)), 1920, "recorded"),
    ((unbilled(1920, 80), unbilled(1920, 180)), 0, "recorded"),
])  # fmt: skip
def test_break_without_billed_writes_costs_unread_prompt(usages, lost, how):
    """A clock in the system prompt lost all of each prompt, and was said to cost 0 tokens, as nothing was ever read."""
    first = [message(LONG % "noon", "system"), message("a")]
    second = [message(LONG % "late", "system"), message("a"), message("b", "assistant"), message("c")]
    diff = automatic(first, second, usages)
    tokens, source = lost_tokens(diff, diff.causes[0])
    assert (tokens, source) == (lost, how)


def test_unread_beginning_is_not_lost_by_a_late_change():
    """The last message changed, and nothing at all was read: a miss that the change does not explain."""
    first, second = ([message(LONG, "system"), message(word * 300), message("Go on.")] for word in ("one ", "two "))
    diff = automatic(first, [*second, message("done", "assistant")], (unbilled(0, 2400), unbilled(0, 2410)))
    tokens, source = lost_tokens(diff, diff.causes[0])
    assert (source, 200 < tokens < 500) == ("estimated", True)


NOTED = (
    [message(LONG, "system"), message("a"), message("<env>12:00</env>")],
    [message(LONG, "system"), message("a"), message("b", "assistant"), message("c"), message("<env>12:01</env>")],
)


@each("usages", [(None, None), (unbilled(0, 2000), unbilled(0, 2180)), (unbilled(0, 2000), unbilled(1920, 180))])
def test_replaced_note_is_a_tail_with_its_cost(usages):
    """A client that keeps its clock at the end, as advised, had waste in each turn though nothing was lost."""
    diff = automatic(*NOTED, usages)
    assert (codes(diff), leading_kind(diff), diff.is_break, diff.lost_bytes) == (["LORE156"], "expected", False, 0)
    tail = diff.causes[0].evidence
    size = len('"role":"user"') + len('"<env>12:00</env>"')
    assert (tail.path, tail.bytes, tail.role, tail.repeated) == ("messages[2]", size, "user", False)
    assert diff.tail_bytes == size
    assert tail.tokens == round(size / diff.bytes_per_token)


def edited_at_the_end(words):
    """Return two requests: the second has another clock inside the same message, and continues."""
    first = [message(LONG, "system"), message("a"), message("12:00 " + words)]
    return first, [message(LONG, "system"), message("a"), message("12:01 " + words), message("b", "assistant"),
        message("c")]  # fmt: skip


@pytest.mark.parametrize("usages", [(None, None), (unbilled(0, 2000), unbilled(0, 2180))])
def test_edited_end_counts_beyond_one_block(usages):
    diff = automatic(*edited_at_the_end("word " * 200), usages)
    assert (leading_kind(diff), diff.is_break, diff.lost_bytes > 1000) == ("waste", True, True)
    diff = automatic(*edited_at_the_end("word"), usages)
    assert (codes(diff), leading_kind(diff), diff.is_break) == (["LORE146"], "expected", False)
    within = diff.causes[0].also[0].evidence
    assert (within.block_tokens, 0 < within.tokens < 128) == (128, True)
    assert lost_tokens(diff, diff.causes[0])[0] == 0


# Who serves, by the model or the host: the tokens of one block of its cache.
AZURE = "own.openai.azure.com/openai/deployments/own/chat/completions"
BLOCKS = [("deepseek-chat", "", 64), ("gpt-5.1", "", 128), ("own", AZURE, 128), ("kimi-k2", "", 256), ("own", "", 128)]
UNSHARED = len('0 "')  # of `"12:00 "` and `"12:01 "`


@pytest.mark.parametrize(("model", "endpoint", "block"), BLOCKS)
@each("over", [0, 1])
def test_edited_end_limit_is_the_providers_block(model, endpoint, block, over):
    lost = int(block * BYTES_PER_TOKEN) + over
    bodies = [{"model": model, "messages": messages} for messages in edited_at_the_end("x" * (lost - UNSHARED))]
    call = Call(endpoint=endpoint)
    diff = pair(*(turn(parsed(sent, "openai-chat"), number, call=call) for number, sent in enumerate(bodies, 1)))
    assert diff.bytes.previous - diff.bytes.common - diff.overlap.common_bytes == lost
    assert (codes(diff) == ["LORE146"], diff.is_break, diff.lost_bytes) == (not over, bool(over), lost * over)
    if not over:
        assert diff.causes[0].also[0].evidence == WithinBlock(block, block)


@pytest.mark.parametrize(("short", "is_break"), [(128, False), (129, True), (1000, True)])
def test_short_edited_end_breaks_if_block_unread(short, is_break):
    """A bill that misses 1,000 tokens has not fallen beyond the tolerance, and yet read less than all but the end."""
    diff = automatic(*edited_at_the_end("word"), (unbilled(1920, 180), unbilled(1920 - short, 300)))
    assert (diff.fell, diff.short, diff.is_break) == (0, short, is_break)


@each("fields, code", [
    ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "LORE120"), ({"tool_choice": {"type": "any"}}, "LORE121"),
])  # fmt: skip
def test_changed_field_loses_all_messages_despite_same_end(fields, code):
    """Only the last message was measured, so a field that loses all messages was reported as a note."""
    first = [*ONE["messages"], assistant("two"), "three"]
    goes_on, hardly = [*first, assistant("four"), "five"], [*first[:-1], "3", assistant("four"), "five"]
    for previous, current in ((first, goes_on), (first, hardly), (first[:1], first)):
        diff = pair(*turns(body(*previous, model="claude-opus-4-5", **fields), body(*current, model="claude-opus-4-5")))
        assert (codes(diff)[0], diff.causes[0].kind, leading_kind(diff)) == (code, "waste", "waste")
        assert diff.causes[0].lost > 30_000


def test_changed_field_is_not_shown_at_a_tool():
    """Both cost from the first tool on, which also changed."""
    bodies = [body("one", output_format={"type": kind}, tools=[{"name": kind}]) for kind in ("json", "text")]
    paths = {finding.code: finding.json_path for _, finding in findings_of(pair(*turns(*bodies)), Place("a"))}
    assert paths == {"LORE103": "tools[0].name", "LORE135": "output_format"}


def test_changed_field_of_short_prompt_is_a_note():
    previous, current = body("one", tool_choice={"type": "any"}), body("one", assistant("two"), "three")
    diff = pair(*turns(previous, current))
    assert (codes(diff), diff.is_break) == (["LORE146"], False)
    size = len('"role":"user"') + len('"one"')
    assert diff.causes[0].also[0].evidence == WithinBlock(round(size / BYTES_PER_TOKEN), 128)


@each("usage, size, ratio", [
    (None, 100, BYTES_PER_TOKEN),
    (bill(20, 20, 10), 150, 3.0),
    (bill(0), 100, BYTES_PER_TOKEN),
    (bill(1), 100, BYTES_PER_TOKEN),
    (bill(1000), 100, BYTES_PER_TOKEN),
    (bill(10), 0, BYTES_PER_TOKEN),
])  # fmt: skip
def test_bytes_per_token_come_from_plausible_usage(usage, size, ratio):
    assert bytes_per_token(turn(parsed(ONE), usage=usage), size) == ratio


def test_lifetime_is_that_of_the_last_write():
    hour = Usage(0, 0, 9000, write_1h_tokens=9000)
    first = turn(parsed(ONE), 1, usage=hour, sent=0.0)
    second = turn(parsed(TWO), 2, usage=bill(9000), sent=1.0)
    third = turn(parsed(body("one " * 10_000, assistant("two"), "three", "x")), 3, usage=bill(0), sent=2000.0)
    assert codes(pair(first, second, third)) == ["LORE301"]


# another spelling that lost nothing

TEXT = "one <b>two</b> & three " * 400
GO_ON = (assistant("x"), "y")
SPELLED = {
    "JSON's own": (dumps(body(TEXT, *GO_ON)), dumps(body(TEXT, *GO_ON)).replace(b"<", b"\\u003c")),
    "entities": (body(TEXT, *GO_ON), body(html.escape(TEXT), *GO_ON)),
    "newlines": (body(TEXT + "\n", *GO_ON), body(TEXT + "\r\n", *GO_ON)),
    "shape": (body(TEXT, *GO_ON), body({"role": "user", "content": [{"type": "text", "text": TEXT}]}, *GO_ON)),
}  # fmt: skip


@pytest.mark.parametrize("how", SPELLED)
def test_other_spelling_is_no_waste_if_all_read(how):
    """The provider tokenises decoded text, so the usage shows no loss; a finding was reported all the same."""
    diff = pair(*turns(*SPELLED[how], usages=(bill(0, 9000), bill(9000, 50))))
    assert (codes(diff), leading_kind(diff), diff.is_break) == (["LORE112" if how == "shape" else "LORE106"],
        "expected", False)  # fmt: skip
    assert diff.causes[0].qualifiers == ("read-all-the-same",)
    assert lost_tokens(diff, diff.causes[0]) == (0, "recorded")


def test_fall_with_provider_editing_allowed_names_it():
    edits = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    first_body, second_body = {**ONE, **edits}, {**TWO, **edits}
    diff = pair(*turns(first_body, second_body, usages=(bill(0, 9000), bill(2000, 7500))))
    assert (codes(diff), leading_kind(diff)) == (["LORE301"], "unattributable")
    edited = "the provider's own editing of the context"
    assert RuledOut(edited, out=False, detail="clear_tool_uses_20250919") in diff.causes[0].ruled_out
    for edit, out in (("clear_tool_uses_20250919", True), ("compact_20260112", False)):  # a response that says: none
        settings = {"context_management": {"edits": [{"type": edit}]}}
        previous, current = turns({**ONE, **settings}, {**TWO, **settings}, usages=(bill(0, 9000), bill(2000, 7500)))
        diff = pair(previous, replace(current, call=replace(current.call, edits=())))
        assert RuledOut(edited, out=out, detail=edit) in diff.causes[0].ruled_out
    without = pair(*turns(ONE, TWO, usages=(bill(0, 9000), bill(2000, 7500))))
    assert edited not in [excluded.reason for excluded in without.causes[0].ruled_out]


THREE = body("one " * 10_000, assistant("two"), "three", assistant("four"), "five")


def rebuilt(*sources):
    return [replace(made, source=replace(made.prompt, fidelity="reconstructed")) for made in sources]


def test_unbilled_turn_hides_no_fall():
    """An agent died between request and answer; then the whole prompt was re-billed without a finding."""
    first, lost = rebuilt(*turns(ONE, TWO, usages=(bill(0, 9000), None)))
    paid, read = rebuilt(*(turn(parsed(THREE), 3, usage=usage, sent=20.0) for usage in (bill(0, 9100), bill(9000, 9))))
    diff = pair(first, lost, paid)
    assert (codes(diff), diff.previous.number, diff.fell) == (["LORE301"], 1, 9000)
    assert codes(pair(first, lost, read)) == []


def marked_system(clock, *marked):
    """Return a system prompt of a long block and a changing one, with breakpoints on some of them."""
    blocks = [{"type": "text", "text": "Sort this letter. " * 50}, {"type": "text", "text": f"Desk {clock}."}]
    return [block | (CACHE_CONTROL if number in marked else {}) for number, block in enumerate(blocks)]


def test_unmarked_system_before_changed_breakpoint_is_lost():
    """12 tokens were named of 1,748: only the changing block at the end of the system prompt had a breakpoint."""
    sides = [[body("a", system=marked_system(clock, *marked)) for clock in "AB"] for marked in ((1,), (0, 1))]
    unmarked, marked = (pair(*turns(*side)) for side in sides)
    first, changed = unmarked.previous.prompt.head
    assert unmarked.lost_bytes == len(first.data) + len(changed.data)
    assert marked.lost_bytes == len(changed.data)
    assert "out of the system prompt" in findings_of(marked, Place("a"))[0][1].fix


def test_change_at_end_of_marked_block_loses_all():
    """Five tokens were named of 3,138: the date was at the end of the only block of the system prompt."""
    blocks = [[{"type": "text", "text": "Sort this letter. " * 500 + clock, **CACHE_CONTROL}] for clock in "AB"]
    diff = pair(*turns(*[body("a", system=block) for block in blocks]))
    assert diff.lost_bytes == len(diff.previous.prompt.head[0].data)
