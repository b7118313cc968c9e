"""Servers of open models: engines known by their answers, caches that are off, reasoning that templates omit."""

from helpers.each import each
from judge.captures import SYSTEM, asks, call, judged, text, usage
from lore.formats.answers import answer_of, answer_of_stream
from model.making import dumps

VLLM = {"system_fingerprint": "vllm-0.23.0-tp1-3f9ac1d2", "kv_transfer_params": None}
CHAT = "http://10.20.0.5:8000/v1/chat/completions"
MESSAGES = "http://10.20.0.5:8000/v1/messages"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Use {name}. " * 60, "parameters": {}}}
    for name in ("edit", "grep", "read")
]


def chat(number, messages, read, whole, url=CHAT, headers=None, model="qwen3-coder", **answer):
    """Return a call of a server that answers in the shape of Chat Completions."""
    bill = {"prompt_tokens": whole, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": read}}
    exchange = call(20.0 * number, {"model": model, "messages": messages, "tools": TOOLS}, bill, url=url)
    exchange["request"]["headers"] = headers or {}
    answer_message = {"role": "assistant", "content": "done"}
    exchange["response"]["body"] = {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "model": model, "usage": bill,
        "choices": [{"index": 0, "message": answer_message, "finish_reason": "stop"}], **answer,
    }  # fmt: skip
    return exchange


def grown(number, system=SYSTEM):
    """Return the messages of a conversation that grew by some 120 tokens in each request."""
    turns = [
        part for step in range(number + 1)
        for part in ({"role": "user", "content": f"{step}: what now? " * 20}, {"role": "assistant", "content": "done"})
    ]  # fmt: skip
    return [{"role": "system", "content": system}, *turns[:-1]]


def causes(verdicts):
    return [[(str(cause.code), cause.kind) for cause in verdict.causes] for verdict in verdicts[1:]]


@each("fields, provider", [
    ({"kv_transfer_params": None}, "vllm"),
    ({"system_fingerprint": "vllm-0.22.0-d254c4e0"}, "vllm"),
    ({"choices": [{"index": 0, "matched_stop": None}]}, "sglang"),
    ({"choices": [{"index": 0, "message": {"content": 'a "matched_stop"'}}]}, ""),
    ({"system_fingerprint": "fp_1"}, ""),
])  # fmt: skip
def test_engine_is_known_by_its_answer(fields, provider):
    answer = {"id": "c1", "object": "chat.completion", "choices": [], **fields}
    assert answer_of(dumps(answer)).provider == provider
    assert answer_of_stream(b"data: %s\n\ndata: [DONE]\n\n" % dumps(answer)).provider == provider


def test_engine_behind_known_provider_is_not_named(tmp_path):
    url = "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"
    (verdict,), _ = judged(tmp_path, chat(0, grown(0), 0, 6_000, url=url, choices=[{"index": 0, "matched_stop": None}]))
    assert verdict.turn.call.answered_by == ""


def clocked(number):
    return grown(number, f"{SYSTEM}\nCurrent date and time: Thursday, July 2, 2026 at 02:1{number}:07 PM")


def test_clock_is_free_if_engine_reads_nothing(tmp_path):
    """Some 6,000 tokens precede the clock and are not read either: the server has no prefix cache."""
    verdicts, final_findings = judged(tmp_path, *(chat(n, clocked(n), 0, 6_400 + 120 * n, **VLLM) for n in range(4)))
    assert causes(verdicts) == [[("LORE101", "expected")]] * 3
    assert [verdict.lost_tokens for verdict in verdicts[1:]] == [0, 0, 0]
    (plateau,) = [finding for finding in final_findings if finding.code == "LORE307"]
    assert plateau.evidence.reasons == ("engine-reads-nothing",)
    assert "vllm were started without a prefix cache" in plateau.message
    assert "--enable-prefix-caching" in plateau.fix


@each("system, read", [("", 0), (SYSTEM, 6_000)])
def test_clock_is_charged_if_engine_reads_what_precedes_it(tmp_path, system, read):
    def timed_messages(number):
        return [*grown(number, f"{system}\nThe time is 02:1{number}:07 PM.\n{SYSTEM}")]

    reads = [0, read, read]
    verdicts, _ = judged(tmp_path, *(chat(n, timed_messages(n), reads[n], 12_400 + 120 * n, **VLLM) for n in range(3)))
    assert causes(verdicts) == [[("LORE101", "waste")]] * 2


def thinking(step, **fields):
    return {"role": "assistant", "content": f"{step}.", "reasoning_content": "Hm, let me see. " * 60, **fields}


def loop(steps, *, is_kept=True):
    """Return a turn of the user in which the model called a tool several times, thinking each time."""
    messages = [{"role": "user", "content": "Find the leak."}]
    for step in range(steps):
        used = {"id": f"call_{step}", "type": "function", "function": {"name": "grep", "arguments": "{}"}}
        answer = thinking(step, tool_calls=[used])
        if not is_kept:
            del answer["reasoning_content"]
        messages += [answer, {"role": "tool", "tool_call_id": f"call_{step}", "content": "line " * 400}]
    return messages


HEAD = [{"role": "system", "content": SYSTEM}]
NEXT = [{"role": "assistant", "content": "Found."}, {"role": "user", "content": "Add a metric."}]


@each("read, expected", [
    (6_600, [("LORE116", "expected")]),  # what precedes the first reasoning
    (8_200, [("LORE116", "expected")]),  # more, so that it is only possible
    (300, [("LORE301", "unattributable")]),
])  # fmt: skip
def test_reasoning_that_template_omits_is_expected(tmp_path, read, expected):
    calls = [
        chat(0, [*HEAD, *loop(3)], 0, 9_400, **VLLM), chat(1, [*HEAD, *loop(4)], 9_400, 10_200, **VLLM),
        chat(2, [*HEAD, *loop(4), *NEXT], read, 9_300, **VLLM),
    ]  # fmt: skip
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == [[], expected]


def test_client_that_omits_reasoning_at_new_prompt_is_unsure(tmp_path):
    """The template of the model would have omitted it, too."""
    calls = [
        chat(0, [*HEAD, *loop(4)], 0, 10_200, **VLLM),
        chat(1, [*HEAD, *loop(4, is_kept=False), *NEXT], 6_600, 9_300, **VLLM),
    ]  # fmt: skip
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == [[("LORE115", "unattributable")]]


@each("model, url, expected", [
    ("qwen3-coder", CHAT, "waste"),  # a template had omitted it at the previous prompt already
    ("anthropic/claude-opus-4.8", "https://openrouter.ai/api/v1/chat/completions", "waste"),  # it has no chat template
])  # fmt: skip
def test_reasoning_of_older_turn_is_charged_if_read_falls(tmp_path, model, url, expected):
    old = [*HEAD, *loop(4), *NEXT]
    new = [*HEAD, *loop(4, is_kept=False), *NEXT, *NEXT]
    calls = [chat(n, [*prompt], read, whole, url, model=model) for n, (prompt, read, whole) in
             enumerate(((old, 9_600, 10_200), (new, 6_600, 9_300)))]  # fmt: skip
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == [[("LORE115", expected)]]


@each("model, url, codes", [
    ("qwen3-coder", MESSAGES, [[("LORE107", "waste")]]), ("claude-opus-5", MESSAGES, [[("LORE107", "expected")]]),
])  # fmt: skip
def test_engine_behind_messages_api_reports_no_writes(tmp_path, model, url, codes):
    """It reports writes of 0, and nothing read: that it had cached nothing was concluded."""

    def request(number):
        header = f"x-anthropic-billing-header: cc_version=2.1.200.a{number}; cch=0000{number};"
        body = asks(*[text("user", f"{step}?") for step in range(number + 1)], model=model)
        return {**body, "system": [{"type": "text", "text": header}, *body["system"]]}

    calls = [call(20.0 * n, request(n), usage(0, 0, 6_400 + 20 * n), url=url) for n in range(2)]
    assert causes(judged(tmp_path, *calls)[0]) == codes


def test_client_that_omits_reasoning_within_turn_is_charged(tmp_path):
    calls = [
        chat(0, [*HEAD, *loop(3)], 0, 9_400, **VLLM), chat(1, [*HEAD, *loop(4, is_kept=False)], 6_600, 9_300, **VLLM)
    ]  # fmt: skip
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == [[("LORE115", "waste")]]


@each("ids, expected", [
    (("a1f0", "b2e1", "c3d2"), [[("LORE122", "waste")]] * 2),
    (("a1f0", "a1f0", "a1f0"), [[], [("LORE301", "unattributable")]]),
])  # fmt: skip
def test_changed_conversation_id_of_grok_is_charged(tmp_path, ids, expected):
    url, reads = "https://api.x.ai/v1/chat/completions", (0, 4_608, 128)
    calls = [
        chat(n, grown(n), reads[n], 6_400 + 120 * n, url=url, headers={"x-grok-conv-id": ids[n]}, model="grok-4.6")
        for n in range(3)
    ]  # fmt: skip
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == expected


def test_header_that_the_server_removes_contradicts_nothing(tmp_path):
    """vLLM strips the header of requests of Anthropic's API: more was read than the bytes share."""
    calls = []
    for number in range(4):
        request_body = asks(*[text("user", "go on")] * (number + 1), model="qwen3-coder", tools=())
        header = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.120.a; cch={number:05x};"}
        request_body["system"].insert(0, header)
        read = 0 if number == 0 else 6_000 + 10 * (number - 1)
        calls.append(call(20.0 * number, request_body, usage(read, 0, 6_010 + 10 * number - read), url=MESSAGES))
    verdicts, final = judged(tmp_path, *calls)
    assert {cause.code for verdict in verdicts for cause in verdict.causes} == {"LORE107"}
    assert {finding.severity for finding in final} == {"note"}


def test_short_answer_explains_no_unread_prompt(tmp_path):
    """A server computed every prompt anew, and the two tokens of an answer that a log left out were charged."""
    head = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Find the bug."}]
    use = {"id": "c0", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    step = [
        {"role": "assistant", "content": None, "tool_calls": [use]},
        {"role": "tool", "tool_call_id": "c0", "content": "line " * 400},
    ]
    calls = [chat(n, [*head, *step * n], 0, 6_000 + 500 * n, **VLLM) for n in range(4)]
    verdicts, final = judged(tmp_path, *calls)
    assert causes(verdicts) == [[], [], []]
    assert "LORE307" in {finding.code for finding in final}


def test_changed_cache_key_of_mistral_is_charged(tmp_path):
    """Its documentation asks for one key; that Anthropic calls features unavailable says nothing of it."""
    calls = [
        chat(n, grown(n), 0, 6_400 + 120 * n, "https://api.mistral.ai/v1/chat/completions", model="mistral-medium-3.5")
        for n in range(2)
    ]  # fmt: skip
    for number, exchange in enumerate(calls):
        exchange["request"]["body"]["prompt_cache_key"] = f"request-{number}"
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == [[("LORE122", "waste")]]
    assert "Anthropic" not in verdicts[1].causes[0].evidence.sentence()


@each("url, lost", [
    ("https://api.deepseek.com/chat/completions", 7_488),  # all whole blocks
    ("https://api.openai.com/v1/chat/completions", 3_100),  # OpenAI keeps the tools before the system prompt
])  # fmt: skip
def test_change_of_system_prompt_loses_tools_after_it(tmp_path, url, lost):
    """Half of the prompt are tools, and nothing of it is read after a change at the beginning of the system prompt."""
    calls = [
        chat(n, [{"role": "system", "content": f"It is 02:1{n}:07 PM.\n{SYSTEM[:15_000]}"}, *NEXT[1:]], 0, 7_500, url)
        for n in range(2)
    ]  # fmt: skip
    for exchange in calls:
        exchange["request"]["body"]["tools"] = [{**tool, "description": "Use it. " * 800} for tool in TOOLS]
    verdicts, _ = judged(tmp_path, *calls)
    assert causes(verdicts) == [[("LORE101", "waste")]]
    assert abs(verdicts[1].lost_tokens - lost) < 300


@each("url, name", [(CHAT, "cache_salt"), (MESSAGES.replace("messages", "chat/completions"), "extra_key")])
def test_other_salt_is_charged(tmp_path, url, name):
    """Of vLLM and SGLang: requests with another value share no entry."""
    calls = [chat(n, grown(n), 6_000 * (n == 1), 6_400 + 120 * n, url) for n in range(3)]
    for number, exchange in enumerate(calls):
        exchange["request"]["body"][name] = "a" if number < 2 else "b"
    assert causes(judged(tmp_path, *calls)[0]) == [[], [("LORE122", "waste")]]


def test_loss_below_a_block_without_writes_is_noted(tmp_path):
    """Gemini read as much of the second object as of the first; a block of 128 would have been 60 tokens more."""
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.5-flash:generateContent"

    def request(number):
        said = [{"role": ("user", "model")[n % 2], "parts": [{"text": f"{n}. " * 30}]} for n in range(2 * number + 1)]
        bill = {"promptTokenCount": 9_000 + 60 * number, "cachedContentTokenCount": 8_900, "candidatesTokenCount": 4}
        made = call(20.0 * number, {"cachedContent": f"cachedContents/{number}", "contents": said}, None, url=url)
        made["response"]["body"] = {"candidates": [], "usageMetadata": bill}
        return made

    verdicts, _ = judged(tmp_path, *map(request, range(1, 3)))
    (cause,) = verdicts[1].causes
    assert (cause.code, cause.kind, cause.qualifiers) == ("LORE122", "expected", ("little-lost",))


@each("mark, code", [({"cache_control": {"type": "ephemeral"}}, "LORE128"), ({}, "LORE301")])
def test_marked_prompt_of_qwen_lives_five_minutes(tmp_path, mark, code):
    url = "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"

    def request(number, at, read):
        messages = grown(number)
        messages[0] = {"role": "system", "content": [{"type": "text", "text": SYSTEM, **mark}]}
        made = chat(number, messages, read, 6_100 + 120 * number, url, model="qwen3-max")
        made["request"]["timestamp"] += at - 20.0 * number
        made["response"]["timestamp"] = made["request"]["timestamp"] + 1
        return made

    verdicts, _ = judged(tmp_path, request(0, 0, 5_900), request(1, 60, 5_900), request(2, 460, 0))
    assert [code for code, _ in causes(verdicts)[1]] == [code]


@each("read, lost", [(0, 0), (6_400, 6_400)])
def test_undocumented_setting_loses_only_what_was_cached(tmp_path, read, lost):
    url = "https://llm.example.com/v1/chat/completions"
    calls = [chat(n, grown(n), read * (1 - n), 6_400 + 120 * n, url) for n in range(2)]
    for number, exchange in enumerate(calls):
        exchange["request"]["body"] |= {"model": "tiny-1", "response_format": {"type": ("text", "json_object")[number]}}
    _, verdict = judged(tmp_path, *calls)[0]
    assert (verdict.leading.code, verdict.leading.kind, verdict.lost_tokens) == ("LORE135", "unattributable", lost)
