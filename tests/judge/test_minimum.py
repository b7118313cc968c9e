"""Prompts that no cache holds lose nothing: by the dated minimum of the model, from the bill or from bytes."""

import pytest

from judge.captures import asks, break_codes, call, judged, text, usage

CHAT = "https://api.openai.com/v1/chat/completions"
WORDS = "one two three four five six seven eight nine ten. "  # some 11 tokens in 50 bytes


def claude(number, tools=("ls",), model="claude-opus-4-8"):
    """Return a request whose prompt has about `number` tokens."""
    return asks(text("user", WORDS * (number // 11)), tools=tools, system="Be brief.", model=model)


def chat(number, system="Be brief."):
    talk = [{"role": "system", "content": system}, {"role": "user", "content": WORDS * (number // 11)}]
    return {"model": "gpt-4o", "messages": talk}


def bill(tokens, read=0):
    return {"prompt_tokens": tokens, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": read}}


@pytest.mark.parametrize(("tokens", "lost", "pause"), [(1_023, 0, 10), (1_024, 1_024, 10), (1_023, 0, 9e5)])
def test_usage_below_model_minimum_lost_nothing(tmp_path, tokens, lost, pause):
    bodies = chat(1000), chat(1000, "Be wordy.")
    verdicts, _ = judged(tmp_path, *(call(pause * n, made, bill(tokens), url=CHAT) for n, made in enumerate(bodies)))
    assert break_codes(verdicts[1]) == ["LORE100"]  # the change is there all the same; nothing was there to expire
    assert verdicts[1].lost_tokens == lost
    assert (verdicts[1].pair.lost_bytes == 0, verdicts[1].leading.kind) == (not lost, "waste" if lost else "expected")


# Of 1,024; bytes may be off by half.
@pytest.mark.parametrize(("tokens", "lost"), [(600, False), (1_100, True)])
def test_minimum_without_usage_is_estimated_with_margin(tmp_path, tokens, lost):
    bodies = claude(tokens - 150, ("ls",)), claude(tokens - 150, ("cat",))
    verdicts, _ = judged(tmp_path, *(call(10 * n, made, None) for n, made in enumerate(bodies)))
    assert "LORE103" in break_codes(verdicts[1])
    assert bool(verdicts[1].lost_tokens) is lost
    assert ("under-minimum" in verdicts[1].causes[0].qualifiers) is not lost


def test_prompt_cached_once_is_above_the_minimum(tmp_path):
    verdicts, _ = judged(tmp_path, call(0, claude(300), usage(0, 500)), call(10, claude(300, ("cat",)), usage(0, 510)))
    assert verdicts[1].lost_tokens == 500


def test_short_request_after_a_long_one_loses_nothing(tmp_path):
    """A prompt below the minimum is neither written to the cache nor looked up."""
    verdicts, _ = judged(
        tmp_path, call(0, claude(3_000), usage(0, 3_000)), call(10, claude(3_000, ("cat",)), usage(0, 0, 900)),
        call(20, claude(3_000), usage(0, 0, 1_100)),
    )  # fmt: skip
    assert [verdict.lost_tokens for verdict in verdicts[1:]] == [0, 1_100]


def test_claude_without_breakpoints_loses_nothing(tmp_path):
    """Behind OpenAI's shape nothing says what is written; without a breakpoint nothing is."""
    url, router = "https://openrouter.ai/api/v1/chat/completions", {"model": "anthropic/claude-sonnet-4.6"}
    first, second = ({**chat(3_000, system), **router} for system in ("Be brief.", "Be wordy."))
    verdicts, findings = judged(tmp_path, call(0, first, bill(3_000), url=url), call(10, second, bill(3_000), url=url))
    assert (verdicts[1].lost_tokens, verdicts[1].wasted_tokens) == (0, 0)
    assert "waste" not in {finding.kind for finding in findings}


def test_copilot_breakpoints_are_no_content(tmp_path):
    mark, url = {"copilot_cache_control": {"type": "ephemeral"}}, "https://api.githubcopilot.com/chat/completions"
    question, answer = {"role": "user", "content": WORDS * 100}, {"role": "assistant", "content": WORDS}
    calls = [
        call(at, {"model": "claude-sonnet-4.6", "messages": [*talk[:-1], {**talk[-1], **mark}]}, bill(1_200), url=url)
        for at, talk in ((0, [question]), (9, [question, answer, question]))
    ]
    verdicts, _ = judged(tmp_path, *calls)
    assert break_codes(verdicts[1]) == []


@pytest.mark.parametrize(("tokens", "qualifiers"), [(200, ("under-minimum", "too-short-by-usage")), (0, ())])
def test_nova_prompt_below_minimum_is_expected(tmp_path, tokens, qualifiers):
    """Usage without counts of the cache says how long the prompt is."""
    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-2-lite-v1:0/converse"
    ask, more = [{"role": "user", "content": [{"text": "Go."}]}], WORDS * (tokens // 11 or 400)
    bodies = [{"system": [{"text": role + more}], "messages": ask} for role in ("Add.", "Subtract.")]
    paid = {"inputTokens": tokens, "outputTokens": 5, "totalTokens": tokens + 5} if tokens else None
    verdicts, _ = judged(tmp_path, *[call(10 * n, body, paid, url=url) for n, body in enumerate(bodies)])
    assert (verdicts[1].leading.qualifiers, verdicts[1].leading.kind == "expected") == (qualifiers, bool(qualifiers))


@pytest.mark.parametrize(("model", "lost"), [("gemini-2.0-flash-001", 0), ("gemini-2.5-flash", 4_864)])
def test_gemini_before_2_5_caches_nothing_unmarked(tmp_path, model, lost):
    url = f"https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent"
    talk = [{"role": "user", "parts": [{"text": WORDS * 400}]}]
    bodies = [{"systemInstruction": {"parts": [{"text": role}]}, "contents": talk} for role in ("Add.", "Subtract.")]
    billed = {"promptTokenCount": 4_900, "candidatesTokenCount": 5}
    verdicts, _ = judged(tmp_path, *[call(10 * n, body, billed, url=url) for n, body in enumerate(bodies)])
    assert verdicts[1].causes[0].code == "LORE100"  # the change is there all the same
    assert (verdicts[1].lost_tokens, bool(break_codes(verdicts[1]))) == (lost, bool(lost))


@pytest.mark.parametrize(("words", "ran", "lost"), [
    (90, {}, [1_089 + 1_214]), (3, {}, [1_089 + 1_214]), (3, {"server_tool_use": {"web_search_requests": 1}}, []),
])  # fmt: skip
def test_missing_breakpoints_cost_what_usage_counted(tmp_path, words, ran, lost):
    talk, calls = [{"role": "user", "content": WORDS * words}], list[dict]()
    asked = {"model": "claude-sonnet-4-5", "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    for number, tokens in enumerate((1_089, 1_214, 1_359)):
        calls.append(call(10 * number, {**asked, "messages": list(talk)}, usage(0, 0, tokens, **ran)))
        talk += [{"role": "assistant", "content": "done"}, {"role": "user", "content": WORDS * (words // 10)}]
    assert [found.lost_tokens for found in judged(tmp_path, *calls)[1] if found.code == "LORE114"] == lost


@pytest.mark.parametrize(("status", "codes"), [(200, ["LORE114"]), (400, [])])
def test_refused_request_gets_no_advice_on_its_cache(tmp_path, status, codes):
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 900, "messages": [{"role": "user", "content": WORDS * 900}]}
    assert [found.code for found in judged(tmp_path, call(0, asked, None, status=status))[1]] == codes


def test_small_change_without_breakpoint_is_within_no_block(tmp_path):
    """Claude's cache has no blocks: nothing was cached because no breakpoint asked for it."""
    bodies = [{"model": "claude-sonnet-4-5", "max_tokens": 900, "messages": [
        {"role": "user", "content": WORDS * 90}, {"role": "assistant", "content": "Done."},
        {"role": "user", "content": f"It is 2026-11-28T08:0{minute}:11Z. Check the parser again."},
    ]} for minute in range(2)]  # fmt: skip
    verdicts, _ = judged(tmp_path, *(call(60 * n, made, usage(0, 0, 1_300)) for n, made in enumerate(bodies)))
    assert "within-a-block" not in {name for cause in verdicts[-1].causes for name in cause.qualifiers}


def test_changed_setting_of_short_prompt_names_the_minimum(tmp_path):
    bodies = [{**chat(99), "reasoning_effort": effort} for effort in ("low", "high")]
    (cause,) = judged(tmp_path, *(call(9 * n, made, bill(109), url=CHAT) for n, made in enumerate(bodies)))[0][1].causes
    assert (cause.code, cause.kind, cause.qualifiers[0]) == ("LORE120", "expected", "under-minimum")
