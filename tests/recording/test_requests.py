"""Exchanges by their time."""

import json

import pytest

from formats.calls import ASKED, har
from helpers.each import each
from lore.formats.base import Read
from lore.model.codes import Problem
from lore.model.turn import Exchange
from lore.prefix.overlap import compare_prompts
from lore.recording import requests
from lore.recording.base import Problems, UnrecognisedError
from lore.recording.opening import Options
from lore.recording.requests import sort_by_time


def reads(*times):
    return [Read(Exchange(b"{}", "wire", at), place, 0) for place, at in enumerate(times, 1)]


def places(turns):
    return [turn.line for turn in turns]


@pytest.mark.parametrize(("times", "order"), [
    ((1.0, 2.0, 3.0), [1, 2, 3]),
    ((3.0, 2.0, 1.0), [3, 2, 1]),
    ((2.0, 1.0, 2.0, 1.0), [2, 4, 1, 3]),
    ((None, None), [1, 2]),
    ((5.0, None, 1.0, None), [3, 4, 1, 2]),
])  # fmt: skip
def test_exchanges_are_sorted_by_time(times, order):
    assert places(sort_by_time(reads(*times))) == order


def test_problem_is_not_sorted_with_requests():
    odd = Read(Problem("LORE201", "x"), 9, 0)
    assert places(sort_by_time([*reads(2.0), odd, *reads(1.0)])) == [9, 1, 1]


def test_no_more_is_held_back_than_fits(monkeypatch):
    monkeypatch.setattr(requests, "HELD_REQUESTS", 2)
    assert places(sort_by_time(reads(9.0, 8.0, 1.0, 2.0))) == [3, 4, 2, 1]


def test_export_in_reverse_order_is_one_conversation(tmp_path):
    """Its first request seemed to be a second conversation that stopped where the other one began."""
    turns = [
        {**ASKED, "max_tokens": 900, "messages": [{"role": "user", "content": str(n)} for n in range(size)]}
        for size in (1, 2, 3)
    ]
    log = json.loads(har(*turns))
    log["log"]["entries"].reverse()
    (tmp_path / "a.har").write_text(json.dumps(log))
    rows = [
        (turn.chain, turn.number, len(turn.prompt.messages)) for turn in Options().open(str(tmp_path / "a.har")).turns()
    ]
    assert [row[:2] for row in rows] == [("main", 1), ("main", 2), ("main", 3)]
    assert sorted(rows) == rows


CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Where is my order?"}]}]}
ANSWERED = {"usageMetadata": {"promptTokenCount": 9}, "modelVersion": "gemini-2.5-pro"}
AT = "https://generativelanguage.googleapis.com/v1beta/models/gemini-flash-latest:generateContent"


@pytest.mark.parametrize(("record", "model"), [
    ({"request": CONTENTS, "response": ANSWERED}, "gemini-2.5-pro"),
    ({"request": CONTENTS, "response": ANSWERED, "usage": {"promptTokenCount": 9}}, "gemini-2.5-pro"),
    ({"request": CONTENTS, "response_sse": f"data: {json.dumps(ANSWERED)}\n\n"}, "gemini-2.5-pro"),
    ({"request": {**CONTENTS, "model": "gemini-x"}, "response": ANSWERED}, "gemini-x"),
    ({"request": CONTENTS, "response": ANSWERED, "url": AT}, "gemini-flash-latest"),
    ({"request": CONTENTS, "response": {"usageMetadata": {"promptTokenCount": 9}}}, None),
])  # fmt: skip
def test_response_names_model_if_request_does_not(tmp_path, record, model):
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")

    (turn,) = Options().open(str(tmp_path / "a.jsonl")).turns()

    assert turn.model == model


CHAT = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
GROWING = "Keep the files tidy.\n" * 40 + "User: a\nAI:"
LONGER = CHAT + "hi<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"


@each("url, request_, answer", [
    ("https://a.example/v1/completions", {"model": "m", "max_tokens": 90},
     {"id": "c", "choices": [{"text": "x"}],
      "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}}}),
    ("http://localhost:8080/completion", {"n_predict": 9, "cache_prompt": True},
     {"content": "x", "tokens_evaluated": 9, "tokens_cached": 12, "timings": {"prompt_n": 4, "predicted_n": 3}}),
    ("", {"model": "m", "stop": ["x"]}, {"usage": {"prompt_tokens": 9, "cached_tokens": 5}}),
])  # fmt: skip
@each(
    "first, second",
    [(CHAT, LONGER), ([CHAT], [LONGER]), ([7, 8, 9], [7, 8, 9, 10]), (GROWING, GROWING + " b\nUser: c\nAI:")],
)
def test_completions_of_a_text_are_one_conversation(tmp_path, url, request_, answer, first, second):
    """Their bodies have a `prompt`, no messages: no request was found, or its usage was lost."""
    records = [{"url": url, "request": {**request_, "prompt": text}, "response": answer} for text in (first, second)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    turns = list(Options().open(str(tmp_path / "a.jsonl")).turns())

    assert [(turn.chain, turn.number) for turn in turns] == [("main", 1), ("main", 2)]
    assert {(turn.usage.uncached_tokens, turn.usage.read_tokens) for turn in turns} == {(4, 5)}
    sides = [turn.prompt for turn in turns]
    assert compare_prompts(*sides).is_covered == (first != GROWING)
    assert {side.fidelity for side in sides} == {"rendered"}


@each("record", [
    {"prompt": "a", "completion": "b"}, {"prompt": "a", "chosen": "b", "rejected": "c"},
    {"model": "dall-e-3", "prompt": "a cat", "n": 1, "size": "1024x1024"}, {"prompt": "a", "temperature": 0.5},
])  # fmt: skip
def test_other_records_with_a_prompt_are_no_requests(tmp_path, record):
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")

    with pytest.raises(UnrecognisedError):
        list(Options().open(str(tmp_path / "a.jsonl")).turns())


@each(
    "change",
    [{}, {"note": "edited"}, {"timestamp": "2026-10-01T10:00:01Z"}, {"response": {"usage": {"input_tokens": 2}}}],
)
def test_copy_of_request_without_id_has_its_time(tmp_path, change):
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    answer = {"content": [{"type": "text", "text": "Hello."}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    record = {"request": body, "response": answer, "timestamp": "2026-10-01T10:00:00Z"}
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (record, record | change)))
    first, second = [turn.response_id for turn in Options().open(str(tmp_path / "s.jsonl")).turns()]
    assert (first == second) == (change.keys() <= {"note"})


@pytest.mark.parametrize(("change", "requests_"), [
    ({}, 1), ({"timestamp": "2026-10-01T10:00:01Z"}, 2), ({"response": {"id": "msg_2"}}, 2),
])  # fmt: skip
def test_record_that_is_written_twice_is_one_request(tmp_path, change, requests_):
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    record = {"request": body, "response": {"id": "msg_1"}, "timestamp": "2026-10-01T10:00:00Z"}
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (record, record | change)))
    assert len(list(Options().open(str(tmp_path / "s.jsonl")).turns())) == requests_


def test_copy_of_refused_request_has_its_time(tmp_path):
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    refusal = {"error": {"message": "too long"}}
    record = {"request": body, "response": refusal, "status": 400, "timestamp": "2026-10-01T10:00:00Z"}
    for number, change in enumerate([{}, {}, {"timestamp": "2026-10-01T10:00:01Z"}]):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(record | change) + "\n")
    names = [turn.response_id for n in range(3) for turn in Options().open(str(tmp_path / f"{n}.jsonl")).turns()]
    assert names[0] == names[1] != names[2]
    assert None not in names


def test_request_without_time_and_id_is_no_copy(tmp_path):
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    record = {"request": body, "response": {"usage": {"input_tokens": 1, "output_tokens": 1}}}
    (tmp_path / "s.jsonl").write_text(json.dumps(record) + "\n")
    assert [turn.response_id for turn in Options().open(str(tmp_path / "s.jsonl")).turns()] == [None]


@each("statuses, said", [
    ((529, 429), ["no request was answered (2 recorded): HTTP 429: Busy"]), ((429, 200), []),
    ((0,), ["no request was answered (1 recorded): no response"]),
])  # fmt: skip
def test_recording_without_an_answer_says_why(tmp_path, statuses, said):
    bodies = {200: {"id": "msg_1"}, 0: {}}
    records = [
        {
            "request": {**ASKED, "max_tokens": status + 1},
            "response": bodies.get(status, {"error": {"message": "Busy."}}),
            "status": status,
        }
        for status in statuses
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    problems = Problems()
    assert len(list(Options().open(str(tmp_path / "s.jsonl"), problems).turns())) == len(statuses)
    assert [problem.message for problem in problems.kept] == said
