"""Whole responses of five dialects: usage, id, verdict, output."""

import pytest

from helpers.each import each
from lore.formats.answers import NOTHING, answer_of, answer_of_stream
from lore.model.events import Usage, Verdict
from model.making import dumps

TEXT, PARTS = [{"type": "text", "text": "x"}], {"role": "model", "parts": []}


def test_last_chunk_of_a_list_has_the_usage():
    assert answer_of(dumps([{"usageMetadata": {"promptTokenCount": n}} for n in (1, 2)])).usage == Usage(
        uncached_tokens=2, read_tokens=0
    )


@each("reason, verdict", [
    ({"type": "system_changed", "cache_missed_input_tokens": 9}, Verdict("system_changed", 9, "diagnostics")),
    ("expired", Verdict("expired", None, "diagnostics")),
    ({"type": "x", "cache_missed_input_tokens": True}, Verdict("x", None, "diagnostics")),
    ({"type": 5}, None),
    ("", None),
    (None, None),
    ([], None),
])  # fmt: skip
def test_verdict_of_the_provider_is_read(reason, verdict):
    assert answer_of(dumps({"diagnostics": {"cache_miss_reason": reason}})).verdict == verdict


@each([b"", b"null", b"5", b"[]", b"[5]", b"{", b'"x"', b'{"usage":5,"id":[],"output":7,"choices":{},"content":[]}'])
def test_other_values_are_no_answer(raw):
    assert answer_of(raw) == NOTHING


def test_ollama_counts_next_to_the_message():
    last = {"message": {"role": "assistant", "content": ""}, "done": True, "prompt_eval_count": 26, "eval_count": 3}
    stream = dumps({"message": {"role": "assistant", "content": "Hi"}, "done": False}) + b"\n" + dumps(last) + b"\n"
    assert answer_of(dumps(last)).usage == answer_of(stream).usage == Usage(26, output_tokens=3)
    assert answer_of(dumps(last)).output == dumps([last["message"]])


TIMED = {"prompt_tokens": 237, "completion_tokens": 1}


@each("answer, uncached, read", [
    ({"usage": TIMED, "timings": {"cache_n": 236, "prompt_n": 1, "predicted_n": 1}}, 1, 236),
    ({"usage": TIMED, "timings": {"prompt_n": 1}}, 1, 236),  # before September 2025
    ({"usage": TIMED, "timings": {"cache_n": 0, "prompt_n": 237}}, 237, 0),
    # `/completion`: what the slot holds in the end (`tokens_cached`) was not all read
    ({"tokens_evaluated": 237, "tokens_cached": 237, "timings": {"prompt_n": 1, "predicted_n": 1}}, 1, 236),
    ({"tokens_evaluated": 237, "tokens_cached": 237, "timings": {"cache_n": 0, "prompt_n": 237}}, 237, 0),
    ({"usage": {**TIMED, "prompt_tokens_details": {"cached_tokens": 5}}, "timings": {"cache_n": 9}}, 232, 5),
])  # fmt: skip
def test_llama_cpp_timings_complete_the_usage(answer, uncached, read):
    bill = answer_of(dumps(answer)).usage

    assert bill is not None
    assert (bill.uncached_tokens, bill.read_tokens) == (uncached, read)


def test_llama_cpp_stream_has_timings_at_end():
    last = {"choices": [], "usage": TIMED, "timings": {"cache_n": 200, "prompt_n": 37, "predicted_n": 1}}
    answer = answer_of_stream(b'data: {"id":"c","choices":[]}\n\ndata: ' + dumps(last) + b"\n\ndata: [DONE]\n")

    assert answer.usage == Usage(uncached_tokens=37, read_tokens=200, output_tokens=1)
    assert answer.provider == "llama.cpp"


@pytest.mark.parametrize("answer", [
    {"timings": {"cache_n": -1, "prompt_n": 3}},
    {"timings": {"cache_n": 10**12}},
    {"timings": [1]},
    {"timings": {"prompt_n": 8}},
])  # fmt: skip
def test_impossible_timings_are_ignored(answer):
    assert answer_of(dumps(answer)).usage is None


@each("last, doubt", [
    ({"cache_read_input_tokens": 900}, ""),
    ({"cache_read_input_tokens": 40}, "cache_read_input_tokens is 800, then 40 in one stream; the latter is used"),
])  # fmt: skip
def test_counter_that_falls_in_a_stream_is_named(last, doubt):
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 800}}}
    end = {"type": "message_delta", "usage": {**last, "output_tokens": 7}}
    usage = answer_of_stream(b"".join(b"data: " + dumps(event) + b"\n\n" for event in (start, end))).usage
    assert (usage.read_tokens, usage.contradiction) == (last["cache_read_input_tokens"], doubt)
