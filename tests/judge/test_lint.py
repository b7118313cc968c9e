"""One request: what a cache would keep of it, and each rule that only one request shows, for every dialect."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from judge import captures
from lore.errors import LoreError
from lore.judge.requests import lint
from lore.judge.requests.lint import Linter
from lore.model.events import Usage
from lore.model.turn import Call, Turn
from lore.run.rules import PACKAGED
from model.making import parsed, turn

RULES = PACKAGED.rules
MARK, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
LONG = "Read before you write, run the tests, and say what you changed and why. " * 100  # about 2,000 tokens
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}

CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
CODE_CALL = {**CALL, "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}


def text(words="Begin.", mark=None):
    return {"type": "text", "text": words} | ({} if mark is None else {"cache_control": mark})


def entry(role, *blocks):
    return {"role": role, "content": list(blocks)}


def claude(*messages, system=None, **fields):
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": system or [text(LONG, MARK)]}
    return turn(parsed({**body, **fields, "messages": list(messages) or [entry("user", text())]}))


def openai(model="gpt-5.4", **fields):
    body = {"model": model, "prompt_cache_key": "k", "instructions": LONG,
        "input": [{"role": "user", "content": "Go."}]}  # fmt: skip
    return turn(parsed({**body, **fields}, "openai-responses"))


def gemini(**fields):
    body = {"model": "gemini-2.5-pro", "systemInstruction": {"parts": [{"text": LONG * 2}]}}
    return turn(parsed({**body, "contents": [{"role": "user", "parts": [{"text": "Go."}]}], **fields}, "gemini"))


def bedrock(*content, model="us.anthropic.claude-sonnet-4-5-20250929-v1:0", **fields):
    system = [{"text": LONG}, {"cachePoint": {"type": "default"}}]
    body = {"modelId": model, "system": system, "messages": [{"role": "user", "content": [*content, {"text": "Go."}]}]}
    return turn(parsed({**body, **fields}, "bedrock"))


def defect_codes(request: Turn, **options):
    """Return the codes of the defects, with the kind if it differs from the code's own."""
    defects = Linter(RULES, **options).defects(request)
    return [f"{defect.code}{'' if defect.kind is None else ' ' + defect.kind}" for defect in defects]


def only_defect(request: Turn, code: str):
    (defect,) = (candidate for candidate in Linter(RULES).defects(request) if candidate.code == code)
    return defect


def calls(number):
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "read", "input": {}} for n in range(number)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "done"} for n in range(number)]
    return [entry("assistant", *uses), entry("user", *results)]


@each([claude(), claude(system=[text(LONG)], cache_control=MARK), openai(), gemini(), bedrock(),
     turn(parsed({"model": "gpt-4.1", "prompt_cache_key": "k",
                  "messages": [entry("system", text(LONG)), entry("user", text())]}, "openai-chat"))])  # fmt: skip
def test_well_made_request_is_clean_and_cached(case):
    assert defect_codes(case) == []
    outlook = Linter(RULES).outlook(case)
    assert outlook.cached is not None
    assert 0.7 < outlook.cached / outlook.tokens <= 1
    assert outlook.second is not None
    assert outlook.uncached is not None
    assert outlook.second < outlook.uncached


def test_outlook_has_cached_tokens_lifetime_and_cost():
    outlook = Linter(RULES).outlook(claude(entry("user", text("x " * 4000))))
    assert (outlook.cache, outlook.until, outlook.minimum, outlook.lifetime) == ("anthropic", "system[0]", 1024, 300)
    assert outlook.marks[0].path == "system[0]"
    assert outlook.cached == outlook.marks[0].tokens < outlook.tokens
    price = 3 / 1e6  # claude-sonnet-4-5: $3 a million; a write 1.25 of it, a read 0.1
    uncached_tokens = outlook.tokens - outlook.cached
    assert outlook.first == pytest.approx((outlook.cached * 1.25 + uncached_tokens) * price, abs=1e-6)
    assert outlook.second == pytest.approx((outlook.cached * 0.1 + uncached_tokens) * price, abs=1e-6)


@each("made, codes", [
    (claude(system=[text(LONG)]), ["LORE114"]),
    (claude(system=[text("Be brief.", MARK)]), ["LORE306"]),
    (claude(system=[text("Be brief.")]), ["LORE306 expected"]),
    (claude(entry("user", text(LONG)), system=[text("Be brief.", MARK)]), ["LORE114"]),
    (openai(instructions="Be brief."), ["LORE306 expected"]),
    (openai("gpt-5.6-sol", prompt_cache_options={"mode": "explicit"}), ["LORE114"]),
    (openai("gpt-5.6-sol"), []),
    (claude(model="claude-haiku-5-5", system=[text("Be brief.", MARK)]), []),  # its minimum is unknown
    (claude(model="acme-1", system=[text(LONG)]), []),  # nobody knows who serves it
    (claude(system=[text((LONG * 2)[:14_400])], model="claude-haiku-4-5"), []),  # 3,600 tokens may be 4,096
])  # fmt: skip
def test_short_prefix_before_last_breakpoint_is_a_defect(made, codes):
    assert defect_codes(made) == codes


def test_history_after_last_breakpoint_is_a_defect():
    talk = [entry("user", text(LONG)), entry("assistant", text("Done.")), entry("user", text("More."))]
    defect = only_defect(claude(*talk), "LORE114")
    assert defect.path == "system[0]"
    assert 1500 < defect.tokens < 3000  # the history after the breakpoint only
    assert defect.dollars == pytest.approx(defect.tokens * 2.7e-6, abs=1e-6)
    assert defect_codes(claude(entry("user", text(LONG)))) == []  # the first request has no history yet


@pytest.mark.parametrize(("messages", "codes"), [
    ([entry("user", text()), *calls(9), entry("user", text("More.", MARK))], []),
    ([entry("user", text()), *calls(11), entry("user", text("More.", MARK))], ["LORE148"]),
    ([entry("user", text(mark=MARK)), *calls(11), entry("user", text("More.", MARK))], ["LORE148 expected"]),
    ([entry("user", text(mark=MARK)), *calls(1), *calls(1) * 8, entry("user", text(mark=MARK))], []),
])  # fmt: skip
def test_lookup_reaches_the_entry_of_previous_request(messages, codes):
    assert defect_codes(claude(*messages)) == codes


@each("case, reason", [
    (claude(entry("user", text(), text("", MARK))), "empty-text"),
    (claude(entry("assistant", {"type": "thinking", "thinking": "hm", "signature": "s", "cache_control": MARK}),
            entry("user", text())), "thinking"),
    (claude(tools=[{"name": "a", "input_schema": {}, "defer_loading": True, "cache_control": MARK}]),
     "deferred-tool"),
    (claude({**entry("user", text()), "cache_control": MARK}), "message"),
    (claude(entry("user", text(mark={"type": "ephemeral", "ttl": "2h"}))), "lifetime"),
    (claude(entry("user", text(mark={"type": "default"}))), "type"),
    (claude(cache_control={"type": "default"}), "type"),
    (openai("gpt-5.6-sol", input=[{"role": "assistant", "content": [
        {"type": "output_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}]}]), "not-input"),
    (bedrock({"text": ""}, {"cachePoint": {"type": "default"}}), "empty-text"),
    (claude(entry("user", text()), entry("assistant", {**CODE_CALL, "cache_control": MARK}), entry("user", text())),
     "called-by-code"),
    (claude(entry("user", text()), entry("assistant", CODE_CALL), entry("user", {**RESULT, "cache_control": MARK})),
     "called-by-code"),
])  # fmt: skip
def test_ineffective_breakpoint_is_a_defect(case, reason):
    defect = only_defect(case, "LORE180")
    assert (defect.evidence.fix_detail(), defect.kind) == (reason, None)
    answered = only_defect(replace(case, usage=Usage(1, 0, 0, 1)), "LORE180")
    assert answered.kind == "unattributable"  # somebody took it all the same


def test_breakpoint_on_a_direct_calls_result_counts():
    direct = entry("assistant", {**CALL, "caller": {"type": "direct"}})
    assert "LORE180" not in defect_codes(
        claude(entry("user", text()), direct, entry("user", {**RESULT, "cache_control": MARK}))
    )


def test_request_surely_under_minimum_is_kept_by_no_cache():
    """One estimate called it long enough for a cache, the other too short."""
    linter = Linter(RULES)
    tools = [{"name": "ls", "description": (LONG * 2)[:10_500], "cache_control": MARK}]
    request = claude(tools=tools, system=[text("Be brief.")], model="claude-haiku-4-5")
    assert [defect.code for defect in linter.defects(request)] == ["LORE306"]
    assert (linter.outlook(request).cached, linter.outlook(request).second) == (0, linter.outlook(request).uncached)


@pytest.mark.parametrize(("model", "words", "tokens"), [
    ("gemini-flash-latest", "Be brief.", 0), ("gemini-3-flash-preview", "Be brief.", 0),
    ("gemini-flash-latest", LONG * 2, 4_000), ("gemini-2.0-flash", LONG * 2, 0),
])  # fmt: skip
def test_unknown_minimum_is_the_lowest_of_the_provider(model, words, tokens):
    outlook = Linter(RULES).outlook(gemini(model=model, systemInstruction={"parts": [{"text": words}]}))
    assert outlook.cached == pytest.approx(tokens, rel=0.2)
    assert outlook.minimum == (None if model == "gemini-2.0-flash" else 1024)


def test_first_request_repeats_at_most_its_head():
    long, short = ([text(words)] for words in (LONG, "Be brief."))
    request = claude(entry("user", text(LONG * 3)), system=long)
    defect = only_defect(request, "LORE114")
    assert 1_500 < defect.tokens < 2_500
    assert defect.evidence.fix_detail() == "first"
    assert defect_codes(claude(entry("user", text(LONG * 3)), system=short)) == ["LORE114 expected"]
    talk = [entry("user", text(LONG * 3)), entry("assistant", text("Done.")), entry("user", text("More."))]
    assert defect_codes(claude(*talk, system=short)) == ["LORE114"]


@each("host, codes", [
    ("bedrock-runtime.eu-central-1.amazonaws.com/model/eu.anthropic.claude-opus-4-8/invoke", ["LORE180"]),
    ("api.anthropic.com/v1/messages", []),
])  # fmt: skip
def test_automatic_breakpoint_needs_an_api_that_has_it(host, codes):
    body = {"model": "claude-opus-4-8", "cache_control": MARK, "system": LONG, "messages": [entry("user", text())]}
    assert defect_codes(turn(parsed(body), call=Call(host), sent=1_789_000_000.0)) == codes


@each("mark, codes", [(MARK, []), (HOUR, ["LORE180"])])
def test_automatic_breakpoint_takes_lifetime_of_last_block(mark, codes):
    """Anthropic's documentation: with another one the request is refused."""
    assert defect_codes(claude(entry("user", text(mark=MARK)), system=[text(LONG)], cache_control=mark)) == codes


def test_breakpoint_for_an_automatic_cache_is_a_note():
    request = turn(parsed({"model": "deepseek-chat", "messages": [entry("user", text(LONG, MARK))]}, "openai-chat"))
    assert defect_codes(request) == ["LORE180 expected"]


@pytest.mark.parametrize(
    ("head", "last", "codes"), [(MARK, HOUR, ["LORE181"]), (HOUR, MARK, []), (HOUR, HOUR, []), (MARK, MARK, [])]
)
def test_longer_lifetime_must_come_first(head, last, codes):
    assert defect_codes(claude(entry("user", text(mark=last)), system=[text(LONG, head)])) == codes
    assert defect_codes(claude(entry("user", text()), system=[text(LONG, head)], cache_control=last)) == codes


@each("last, marks, code", [(HOUR, 1, "LORE181"), (MARK, 4, "LORE152")])
def test_answered_request_was_not_refused(last, marks, code):
    blocks = [text(str(n), last) for n in range(marks)]
    case = claude(entry("user", *blocks), system=[text(LONG, MARK)])
    assert only_defect(case, code).kind is None  # the code's own: waste
    assert only_defect(replace(case, usage=Usage(1, 0, 0, 1)), code).kind == "unattributable"


def test_fifth_breakpoint_is_a_defect():
    blocks = [text(str(n), MARK) for n in range(4)]
    assert defect_codes(claude(entry("user", *blocks))) == ["LORE152"]
    assert defect_codes(claude(entry("user", *blocks[1:]))) == []
    assert defect_codes(claude(entry("user", *blocks[1:]), cache_control=MARK)) == ["LORE152"]


@each("words, codes", [
    ("The current time is 09:00:12.", ["LORE151", "LORE153"]),
    ("Today's date: 2026-07-14", ["LORE182 expected"]),
    ("Working directory: /home/ann/x", ["LORE182 expected"]),
    ("Session id: 0192-7fa3", ["LORE182"]),
    ("gitStatus: clean\nCurrent branch: main", ["LORE182"]),
    ("gitStatus: a snapshot, and will not update during the conversation.\nclean", ["LORE182 expected"]),
    ("Token usage: 1200/200000", ["LORE151", "LORE153"]),
    ("Time: 2026-07-14 09:00:12\nToday's date: 2026-07-14", ["LORE151", "LORE153", "LORE182 expected"]),
    ("<total_tokens>1500 tokens left</total_tokens>\n" * 2, ["LORE151", "LORE153"]),
    ("Version 2 of 2026-07-14 fixed bug 4711.", []),
    ('Log lines look like {"timestamp": "2025-06-03T09:00:12Z"}.', []),
    ("Use ISO's format, if you like; current time: 09:00:12", ["LORE151", "LORE153"]),
])  # fmt: skip
def test_volatile_system_text_is_a_defect(words, codes):
    assert defect_codes(claude(system=[text(f"{LONG}\n{words}", MARK)])) == codes


@pytest.mark.parametrize(("words", "pause", "warned"), [
    ("The current time is 09:00:12.", 10, True), ("The current time is 09:00:12.", 70, False),
    ("Token usage: 1200/200000", 10, False),
])  # fmt: skip
def test_text_that_a_later_request_repeats_is_frozen(tmp_path, words, pause, warned):
    system, prompt = f"{captures.SYSTEM}\n{words}", captures.text("user", "Find the bug.")
    later = prompt, captures.text("assistant", "Where?"), captures.text("user", "In the parser.")
    _, findings = captures.judged(
        tmp_path, captures.call(0, captures.asks(prompt, system=system), captures.usage(0, 7000)),
        captures.call(pause, captures.asks(*later, system=system), captures.usage(7000, 100)),
    )  # fmt: skip
    assert ({"LORE151", "LORE153"} <= {finding.code for finding in findings}) == warned


@pytest.mark.parametrize(("names", "sorted_"), [
    ("abc", True), ("aBc", True), ("BZac", True), ("BaZc", False), ("acb", False), ("a", True), ("", True),
])  # fmt: skip
def test_unsorted_tools_are_a_defect(names, sorted_):
    tools = [{"name": name, "input_schema": {}} for name in names]
    assert defect_codes(claude(tools=tools)) == ([] if sorted_ else ["LORE183"])


def test_image_before_longer_text_is_a_defect():
    assert defect_codes(claude(entry("user", IMAGE, text(LONG)))) == ["LORE184"]
    assert defect_codes(claude(entry("user", IMAGE, text("What is it?")))) == []
    assert defect_codes(claude(entry("user", text(LONG), IMAGE))) == []
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x" * 900}}
    assert defect_codes(claude(entry("user", IMAGE, pdf))) == []
    later = [entry("user", text()), entry("assistant", text("Yes?")), entry("user", IMAGE, text(LONG))]
    assert "LORE184" not in defect_codes(claude(*later))


def test_unread_text_after_other_images_is_re_billed(tmp_path):
    sources = ({**IMAGE["source"], "data": data} for data in ("iVBORw0KGgo=", "iVBORw0KGgp="))
    bodies = [captures.asks(entry("user", {**IMAGE, "source": source}, text(LONG))) for source in sources]
    calls = (captures.call(60 * n, body, captures.usage(0, 3_000)) for n, body in enumerate(bodies))
    (finding,) = [finding for finding in captures.judged(tmp_path, *calls)[1] if finding.code == "LORE184"]
    assert (finding.kind, 400 < finding.lost_tokens < 900) == ("unattributable", True)


REASONS = {"reasoning": {"effort": "high"}, "store": False}
CALLED = [{"role": "user", "content": "Go."}, {"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"},
          {"type": "function_call_output", "call_id": "c", "output": "done"}]  # fmt: skip


@each("made, codes", [
    (openai(prompt_cache_key=None), ["LORE185"]),
    (openai(prompt_cache_key=None, instructions="Be brief."), ["LORE306 expected"]),  # no key would help
    (openai(prompt_cache_key="k" * 65), ["LORE186 waste"]),
    (openai(prompt_cache_retention="in_memory"), ["LORE186"]),
    (openai(prompt_cache_retention="24h"), []),
    (openai("gpt-5.6-sol", prompt_cache_retention="24h"), ["LORE186 expected"]),
    (openai(truncation="auto"), ["LORE186 expected"]),
    (openai(**REASONS, input=CALLED), ["LORE186"]),
    (openai(**REASONS, input=CALLED, include=["reasoning.encrypted_content"]), []),
    (openai(store=False, input=CALLED), []),
    (openai("grok-4.5", input=CALLED), ["LORE186"]),
    *[(openai(model, input=CALLED), []) for model in ("grok-4-fast-non-reasoning", "grok-3", "xai/grok-2-1212")],
    (openai("grok-3-mini", input=CALLED), ["LORE186"]),
    (openai("grok-4.5", input=[*CALLED, {"type": "item_reference", "id": "rs_1"}]), []),
    (openai("grok-4.5", input=CALLED, conversation="conv_1"), []),
    (bedrock(model=None, system=[{"text": LONG * 3}]), ["LORE114"]),
    (openai(**REASONS), []),
    (gemini(cachedContent="cachedContents/a"), ["LORE186 waste"]),
    (gemini(cachedContent="cachedContents/a", systemInstruction=None), []),
    (gemini(cachedContent="cachedContents/a", systemInstruction=None, toolConfig={"a": 1}), ["LORE186 waste"]),
])  # fmt: skip
def test_fields_that_prevent_caching_are_defects(made, codes):
    assert defect_codes(made) == codes


@each("call, codes", [
    (Call("api.x.ai/v1/chat/completions", betas=()), ["LORE185"]),
    (Call("api.x.ai/v1/chat/completions", betas=(), route="x-grok-conv-id: c1"), []),
    (Call("api.x.ai/v1/chat/completions"), []),  # its headers are not recorded
])  # fmt: skip
def test_missing_conversation_id_of_xai_is_a_defect(call, codes):
    body = {"model": "grok-4.6", "messages": [{"role": "system", "content": LONG}, {"role": "user", "content": "Go."}]}
    assert defect_codes(turn(parsed(body, "openai-chat"), call=call)) == codes


def test_unknown_model_has_no_cache():
    request = turn(parsed({"model": "acme-1", "messages": [entry("user", text(LONG))]}, "openai-chat"))
    assert Linter(RULES).outlook(request).cached is None
    assert Linter(RULES, cache="deepseek").outlook(request).cached


@pytest.mark.parametrize(("tokens", "codes"), [(1020, ["LORE306 expected"]), (1030, [])])
def test_openai_tokens_near_the_minimum_are_counted(tokens, codes):
    request = openai(instructions=LONG[:4000])  # about 1,100 tokens
    assert defect_codes(request) == []
    assert not Linter(RULES).outlook(request).sure
    counts: list[bytes] = []

    def count(data: bytes) -> int:
        counts.append(data)
        return tokens if len(data) > 1000 else 0

    linter = Linter(RULES, count=count)
    assert [f"{defect.code} {defect.kind}" for defect in linter.defects(request)] == codes
    outlook = linter.outlook(request)
    assert (outlook.sure, bool(outlook.cached)) == (True, not codes)
    times_counted = len(counts)
    linter.defects(openai(instructions=LONG * 3))
    linter.defects(claude())
    assert len(counts) == times_counted  # far from a minimum, and for models of others, nothing is counted


def test_request_continuing_another_has_no_size():
    request = openai()
    request.source = replace(request.prompt, partial=True)
    assert defect_codes(request) == []
    assert Linter(RULES).outlook(request).cached is None


def test_shared_head_is_parsed_once(monkeypatch):
    read = []
    monkeypatch.setattr(lint, "find_varying_text", lambda words, **_: read.append(words) or [])
    linter = Linter(RULES)
    for number in range(20):
        linter.defects(claude(entry("user", text(str(number)))))
    assert len(read) == 1


def test_unknown_cache_is_reported_before_reading():
    with pytest.raises(LoreError, match="no cache"):
        Linter(RULES, cache="vlm")
