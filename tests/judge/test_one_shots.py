"""The first requests of conversations: heads that differ by chance, and requests that are sent together."""

import pytest

from cli.running import lore
from formats.opencode import Export
from helpers.each import each
from judge.captures import SYSTEM, call, judged, put, text, usage
from lore.model.cause import Place
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.run.checking.verdicts import verdicts
from lore.run.rules import Dated

MARK = {"cache_control": {"type": "ephemeral"}}
WRITTEN = {"input_tokens": 40, "cache_creation_input_tokens": 24_600, "cache_read_input_tokens": 0, "output_tokens": 9}
PERSONA = SYSTEM * 4
TOOLS = [
    {"name": name, "description": "Use it with care. " * 40, "input_schema": {}} for name in ("ask", "bring", "cut")
]


def ask(number, system, at=None, tools=(), bill=WRITTEN, question="Turn on lamp"):
    body = {
        "model": "claude-sonnet-4-6", "max_tokens": 9, "tools": [*tools],
        "system": [{"type": "text", "text": system, **MARK}],
        "messages": [{"role": "user", "content": f"{question} {number}."}],
    }  # fmt: skip
    return call(20.0 * number if at is None else at, body, bill)


def first_pairs(tmp_path, *calls):
    """Return the codes, kinds and lost tokens of each request after the first."""
    verdicts, _ = judged(tmp_path, *calls)
    return [([(cause.code, cause.kind) for cause in verdict.causes], verdict.lost_tokens) for verdict in verdicts[1:]]


@each("before, after, code", [
    ("Time: 15:09:20.\n", "Time: 15:09:34.\n", "LORE101"),
    (f"Request {'1' * 8}-427b-4b4a-97b7-50923ceb3ffd.\n", "Request d95bafc8-427b-4b4a-97b7-50923ceb3ffd.\n", "LORE108"),
    ("Rooms: hall, attic, cellar, garden.\n", "Rooms: cellar, hall, garden, attic.\n", "LORE100"),
])  # fmt: skip
def test_head_that_differs_by_chance_is_charged(tmp_path, before, after, code):
    heads = [before + PERSONA, after + PERSONA]
    assert first_pairs(tmp_path, *(ask(n, head) for n, head in enumerate(heads))) == [([(code, "waste")], 24_600)]


def test_changed_head_names_another_conversation(tmp_path):
    put(tmp_path, *(ask(number, f"Time: 15:09:2{number}.\n{PERSONA}") for number in range(2)))
    printed = lore("check", str(tmp_path / "calls.jsonl")).out
    assert "the prompt begins otherwise than that of an earlier conversation: a date or time" in printed
    assert "extend" not in printed


@each("first, code", [(0.0, None), (880.0, "LORE101")])
def test_head_that_lasts_longer_than_cache_is_free(tmp_path, first, code):
    """At midnight the date of all later conversations changes once; a clock that ticks is charged."""
    days = [(first, "2026-11-20"), (900.0, "2026-11-20"), (960.0, "2026-11-21")]
    calls = [ask(number, f"Today is {day}.\n{PERSONA}", at=at) for number, (at, day) in enumerate(days)]
    *_, (causes, _) = first_pairs(tmp_path, *calls)
    assert causes == ([] if code is None else [(code, "waste")])


@each("model, codes", [("claude-sonnet-4-6", ["LORE101"]), ("claude-haiku-4-5", [])])
def test_head_under_minimum_of_its_model_is_free(tmp_path, model, codes):
    """The request is long enough for a cache; its head of about 2,900 tokens is too short for one model."""
    bill = WRITTEN | {"cache_creation_input_tokens": 12_600}
    calls = [ask(n, f"Time: 15:09:2{n}.\n{PERSONA[:12_000]}", bill=bill, question="Why? " * 8_000) for n in range(2)]
    for exchange in calls:
        exchange["request"]["body"]["model"] = model
        (message,) = exchange["request"]["body"]["messages"]
        message["content"] = [{"type": "text", "text": message["content"], **MARK}]
    ((causes, _),) = first_pairs(tmp_path, *calls)
    assert [code for code, _ in causes] == codes


def test_head_with_reordered_tools_is_charged(tmp_path):
    calls = [ask(number, PERSONA, tools=TOOLS[:: 1 - 2 * number]) for number in range(2)]
    ((causes, lost),) = first_pairs(tmp_path, *calls)
    assert (causes, lost) == ([("LORE102", "waste")], 24_600)


def test_loss_of_one_shots_excludes_their_messages(tmp_path):
    """The breakpoint is at the end of the question, which no other request could have read."""
    bill = WRITTEN | {"cache_creation_input_tokens": 12_600}
    calls = [ask(n, f"Time: 15:09:2{n}.\n{PERSONA}", bill=bill, question="Why? " * 8_000) for n in range(2)]
    ((_, lost),) = first_pairs(tmp_path, *calls)
    assert lost == pytest.approx(len(PERSONA) / (len(PERSONA) + 40_000) * 12_600, rel=0.05)


@each("before, after", [
    (f"You sort mail. {PERSONA}", f"You write songs. {PERSONA}"),  # two programs
    (f"Time: 15:09:20.\n{PERSONA}", f"Time: 15:09:20.\n{PERSONA}"),
    (f"Time: 15:09:20.\n{PERSONA}", f"Time: 15:09:34. You write songs.\n{PERSONA}"),
])  # fmt: skip
def test_heads_of_other_programs_are_not_compared(tmp_path, before, after):
    assert first_pairs(tmp_path, *(ask(n, head) for n, head in enumerate((before, after)))) == [([], None)]


def chat(at, messages, read, whole):
    """Return a call of OpenAI's, whose response has no time."""
    bill = {"prompt_tokens": whole, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
    body = {"model": "gpt-5.4", "messages": messages}
    exchange = call(at, body, bill, url="https://api.openai.com/v1/chat/completions")
    del exchange["response"]["timestamp"], exchange["logged_at"]
    return exchange


SMALL = "You sort mail. " * 100
ASKED = "Why? " * 8_000


@each("pause, system, read, whole, causes", [
    (20.0, f"Time: 15:09:2{{}}.\n{PERSONA}", 0, 34_400, [("LORE101", "waste")]),
    (86_400.0, f"Today is 2026-05-0{{}}.\n{PERSONA}", 0, 34_400, []),  # the entry had expired
    (20.0, f"{PERSONA}Time: 15:09:2{{}}.", 24_320, 34_400, []),  # all that precedes the clock was read
    (20.0, f"Time: 15:09:2{{}}.\n{SMALL}", 0, 10_400, []),  # too short for a cache
])  # fmt: skip
def test_head_that_no_cache_held_is_not_charged(tmp_path, pause, system, read, whole, causes):
    calls = [
        chat(number * pause, [text("system", system.format(number)), text("user", f"{number} {ASKED}")], got, whole)
        for number, got in enumerate((0, read))
    ]
    assert [codes_and_kinds for codes_and_kinds, _ in first_pairs(tmp_path, *calls)] == [causes]


def test_loss_of_one_shots_begins_at_the_change(tmp_path):
    """Half of the head precedes the id, and was read; the questions were never sent before."""
    calls = [
        chat(20.0 * number, [
            {"role": "system", "content": f"{SYSTEM * 2}User {number}bf9c122-427b-4b4a-97b7-50923ceb3ff. {SYSTEM * 2}"},
            text("user", f"{number} " + "Why? " * 2_000)
        ], read, 26_900)
        for number, read in enumerate((0, 12_160))
    ]  # fmt: skip
    ((causes, lost),) = first_pairs(tmp_path, *calls)
    assert (causes, lost) == ([("LORE108", "waste")], pytest.approx(12_200, rel=0.02))


def test_head_without_breakpoint_is_not_charged(tmp_path):
    calls = []
    for number in range(2):
        exchange = ask(
            number, f"Time: 15:09:2{number}.\n{PERSONA}", bill=WRITTEN | {"cache_creation_input_tokens": 34_400}
        )
        body = exchange["request"]["body"]
        body["system"], body["messages"] = body["system"][0]["text"], [text("user", f"{number} {ASKED}", **MARK)]
        calls.append(exchange)
    assert first_pairs(tmp_path, *calls) == [([], None)]


def test_cut_history_at_instant_server_is_charged(tmp_path):
    """The second request has no more messages than the first, but its answer: they were not sent together."""
    talk = [text(("user", "assistant")[number % 2], f"{number} {ASKED}") for number in range(7)]
    system = {"role": "system", "content": PERSONA}
    calls = [
        chat(0.000, [system, *talk[:3]], 0, 54_000), chat(0.003, [system, *talk[:5]], 53_888, 74_000),
        chat(0.006, [system, *talk[2:7]], 24_320, 74_000),
    ]  # fmt: skip
    assert [causes for causes, _ in first_pairs(tmp_path, *calls)] == [[], [("LORE100", "waste")]]


@each("pause, codes", [(0.1, [("LORE129", "expected")]), (2.0, [])])
def test_requests_without_answer_times_may_start_together(tmp_path, pause, codes):
    calls = [ask(number, PERSONA, at=number * pause) for number in range(2)]
    for exchange in calls:
        del exchange["response"]["timestamp"], exchange["logged_at"]
    pairs = first_pairs(tmp_path, *calls)
    assert [causes for causes, _ in pairs] == [codes]


def test_history_without_breakpoints_has_a_cost(tmp_path):
    talk = [text("user", "Why? " * 3_000)]
    calls = []
    for number in range(4):
        body = {"model": "claude-sonnet-4-6", "max_tokens": 9, "system": PERSONA, "messages": [*talk]}
        calls.append(call(20.0 * number, body, usage(0, 0, 28_150 + 800 * number)))
        talk += [text("assistant", "Because. " * 300), text("user", "And? " * 100)]
    _, final_findings = judged(tmp_path, *calls)
    (finding,) = [candidate for candidate in final_findings if candidate.code == "LORE114"]
    assert finding.lost_tokens == pytest.approx(28_150 + 28_950 + 29_750, rel=0.01)
    assert finding.lost_dollars == pytest.approx(finding.lost_tokens * (3.0 - 0.3) / 1e6, rel=0.01)  # dollars a million


@each("whole, kind", [(42_400, "expected"), (43_800, "unattributable")])
def test_another_agent_with_fewer_tools_is_named(tmp_path, whole, kind):
    bills = [("build", 41_000, 0), ("build", 42_000, 40_900), ("plan", 43_700, 41_900), ("ask", whole, 0)]
    export = Export()
    for agent, size, read in bills:
        export.user("Go on.", agent=agent).answer("Done.", bill=(size - read, read, 90), agent=agent)
    path = tmp_path / "ses_1.json"
    path.write_bytes(export.data())
    recording = Options().open(str(path), Problems())
    *_, (last, _), _ = verdicts(recording, Dated().judge(), Place("ses_1.json"))
    assert [(cause.code, cause.kind) for cause in last.causes] == [("LORE145", kind)]


def test_cold_summary_on_openai_costs_the_whole_conversation(tmp_path):
    """The last request had read 16,000 tokens, and left all of its 18,000 in the cache."""
    talk = [{"role": "system", "content": PERSONA}, {"role": "user", "content": "Why? " * 400}]
    tools = [{"type": "function", "function": {"name": "ask", "description": "Ask it. " * 200}}]
    ask_for_it = {"role": "user", "content": "Write a summary of the conversation for another model."}
    calls = []
    for messages, request_tools, whole, read in (
        (talk, tools, 17_000, 0),
        ([*talk, {"role": "assistant", "content": "Because. " * 400}, talk[1]], tools, 18_000, 16_896),
        ([*talk, {"role": "assistant", "content": "Because. " * 400}, talk[1], ask_for_it], [], 17_990, 0),
    ):
        bill = {"prompt_tokens": whole, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": read}}
        body = {"model": "gpt-5.4", "messages": messages, **({"tools": request_tools} if request_tools else {})}
        calls.append(call(30.0 * len(calls), body, bill, url="https://api.openai.com/v1/chat/completions"))
    verdicts, _ = judged(tmp_path, *calls)
    assert [(cause.code, cause.evidence.cached_tokens) for cause in verdicts[2].causes] == [("LORE171", 17_920)]
    assert verdicts[2].lost_tokens == 17_920


def engine_call(number, messages, read, whole, answer):
    """Return a call of llama-server that generated 600 tokens."""
    bill = {"prompt_tokens": whole, "completion_tokens": 600, "prompt_tokens_details": {"cached_tokens": read}}
    exchange = call(
        20.0 * number, {"model": "qwen3", "messages": messages}, bill, url="http://127.0.0.1:8080/v1/chat/completions"
    )
    exchange["response"]["body"] = {
        "id": f"c{number}", "object": "chat.completion", "model": "qwen3", "usage": bill,
        "choices": [{"index": 0, "message": answer, "finish_reason": "tool_calls"}],
        "timings": {"cache_n": read, "prompt_n": whole - read, "predicted_n": 600},
    }  # fmt: skip
    return exchange


SENT = '{"path": "a.py", "new": "' + "line " * 400 + '", "old": "x"}'
SORTED = '{"new": "' + "line " * 400 + '", "old": "x", "path": "a.py"}'


def writes(arguments, **fields):
    called = {"id": "call_1", "type": "function", "function": {"name": "edit", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [called], **fields}


@each("answer, back, read, codes", [
    (writes(SENT), writes(SORTED), 24_300, ["LORE105"]),
    (writes(SENT), writes(SORTED), 24_850, []),  # all of it was read
    (writes(SENT), writes(SENT), 24_300, []),  # the template renders it otherwise
    (writes(SENT, reasoning_content="Hm. " * 300), writes(SENT), 24_300, ["LORE115"]),
])  # fmt: skip
def test_answer_sent_back_otherwise_is_charged(tmp_path, answer, back, read, codes):
    start = [{"role": "system", "content": PERSONA}, {"role": "user", "content": "Edit it."}]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "done"}
    calls = [
        engine_call(0, start, 0, 24_300, answer), engine_call(1, [*start, back, result], read, 24_950, writes("{}"))
    ]  # fmt: skip
    verdicts, _ = judged(tmp_path, *calls)
    assert [cause.code for cause in verdicts[1].causes] == codes
    assert (verdicts[1].lost_tokens or 0) == (24_900 // 128 * 128 - read if codes else 0)


def test_answer_with_another_call_id_is_doubtful(tmp_path):
    start = [{"role": "system", "content": PERSONA}, {"role": "user", "content": "Edit it."}]
    back = writes(SENT)
    back["tool_calls"] = [back["tool_calls"][0] | {"id": "call_7"}]
    result = {"role": "tool", "tool_call_id": "call_7", "content": "done"}
    calls = [
        engine_call(0, start, 0, 24_300, writes(SENT)), engine_call(1, [*start, back, result], 24_300, 24_950, back)
    ]  # fmt: skip
    assert [causes for causes, _ in first_pairs(tmp_path, *calls)] == [[("LORE108", "unattributable")]]


def test_reasoning_omitted_at_new_prompt_is_not_charged(tmp_path):
    """A template may omit the reasoning of earlier turns by itself, once the user writes again."""
    start = [{"role": "system", "content": PERSONA}, {"role": "user", "content": "Explain it."}]
    answer = {"role": "assistant", "content": "It parses.", "reasoning_content": "Hm. " * 300}
    back = [{"role": "assistant", "content": "It parses."}, {"role": "user", "content": "And then?"}]
    calls = [engine_call(0, start, 0, 24_300, answer), engine_call(1, [*start, *back], 24_300, 24_450, writes("{}"))]
    assert [causes for causes, _ in first_pairs(tmp_path, *calls)] == [[]]
