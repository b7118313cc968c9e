"""Responses that took several passes of a model, and service terms: each pass is billed once.

The shapes are those of Anthropic's pages on compaction, the advisor tool, refusals and fallback, fast mode, batches.
"""

from hypothesis import given
from hypothesis import strategies as st

from lore.formats.answers import answer_of, answer_of_stream
from lore.formats.bills import decode_usage
from lore.formats.claude.reader import ClaudeCode
from lore.model.events import TurnCompleted, Usage
from model.making import dumps

KINDS = ("message", "compaction", "advisor_message", "fallback_message")


def passed(kind="message", uncached=1, output=1, read=0, write=0, model=None):
    counts = {"type": kind, "input_tokens": uncached, "output_tokens": output, "cache_read_input_tokens": read}
    split = {"ephemeral_5m_input_tokens": write, "ephemeral_1h_input_tokens": 0}
    counts |= {"cache_creation_input_tokens": write, "cache_creation": split}
    return counts if model is None else counts | {"model": model}


def usage(*passes, **top):
    return {"input_tokens": 0, "output_tokens": 0, **top, "iterations": list(passes)}


def test_one_pass_equals_the_counts():
    billed = decode_usage(dumps(usage(passed(uncached=3, output=9), input_tokens=3, output_tokens=9)))
    assert billed == Usage(3, output_tokens=9)


def test_compaction_alone_keeps_the_counts():
    billed = decode_usage(dumps(usage(passed("compaction", 900, 90), input_tokens=0, output_tokens=0)))
    assert (billed.uncached_tokens, billed.output_tokens) == (0, 0)
    assert [part.kind for part in billed.iterations] == ["compaction"]


def test_advisor_is_billed_by_its_model():
    first, last = passed(uncached=412, output=89), passed(uncached=1348, read=412, output=442)
    advised = passed("advisor_message", 823, 1612, model="claude-fable-5")
    billed = decode_usage(dumps(usage(first, advised, last, input_tokens=412, output_tokens=531)))
    assert (billed.uncached_tokens, billed.read_tokens, billed.output_tokens) == (1348, 412, 442)
    assert [(part.kind, part.model, part.uncached_tokens, part.output_tokens) for part in billed.iterations] == [
        ("message", None, 412, 89),
        ("advisor_message", "claude-fable-5", 823, 1612),
    ]
    assert billed.model is None


def test_fallback_is_billed_by_its_model():
    first = passed(uncached=2, output=2, read=30_000, write=20_000, model="claude-fable-5")
    second = passed("fallback_message", 2, 136, read=50_000, model="claude-opus-4-8")
    billed = decode_usage(
        dumps(usage(first, second, input_tokens=2, output_tokens=136, cache_read_input_tokens=50_000))
    )
    assert (billed.model, billed.read_tokens, billed.output_tokens) == ("claude-opus-4-8", 50_000, 136)
    assert billed.iterations == (Usage(2, 30_000, 20_000, 2, 20_000, 0, kind="message", model="claude-fable-5"),)


def test_declined_attempt_is_not_billed():
    first = passed(uncached=535, output=0, model="claude-fable-5")
    second = passed("fallback_message", 412, 264, model="claude-opus-4-8")
    billed = decode_usage(dumps(usage(first, second, input_tokens=412, output_tokens=264)))
    assert billed.iterations == ()
    assert billed.model == "claude-opus-4-8"


def test_pass_without_output_or_fallback_is_billed():
    billed = decode_usage(dumps(usage(passed(uncached=7, output=0), passed(uncached=9, output=4))))
    assert [part.uncached_tokens for part in billed.passes] == [9, 7]


def test_pinned_fallback_names_its_model():
    alone = passed("fallback_message", 10, 5, model="claude-opus-4-8")
    assert decode_usage(dumps(usage(alone, input_tokens=10, output_tokens=5))).model == "claude-opus-4-8"


@given(st.lists(st.builds(passed, st.sampled_from(KINDS), *[st.integers(0, 9999)] * 4), min_size=2, max_size=6))
def test_passes_sum_to_the_listed_counts(listed):
    answering = [at for at, entry in enumerate(listed) if entry["type"] in ("message", "fallback_message")]
    fallback = max((at for at in answering if listed[at]["type"] == "fallback_message"), default=-1)
    declined = [at for at in answering if at < fallback and not listed[at]["output_tokens"]]
    billed = [entry for at, entry in enumerate(listed) if at not in declined]
    top = listed[answering[-1]] if answering else {}
    result = decode_usage(dumps({**top, "input_tokens": top.get("input_tokens", 0), "iterations": listed}))
    counts = {
        "uncached_tokens": "input_tokens",
        "read_tokens": "cache_read_input_tokens",
        "write_tokens": "cache_creation_input_tokens",
        "output_tokens": "output_tokens",
    }
    for name, theirs in counts.items():
        assert sum(getattr(entry, name) or 0 for entry in result.passes) == sum(entry[theirs] for entry in billed)
    if answering:
        assert result.read_tokens == listed[answering[-1]]["cache_read_input_tokens"]


def test_impossible_count_of_a_pass_is_contradiction():
    billed = decode_usage(dumps(usage(passed(uncached=-1), passed())))
    assert billed is not None
    assert billed.contradiction


def test_usage_unlike_its_iterations_shows_both_values():
    billed = decode_usage(dumps(usage(passed(uncached=3, read=800, output=9), input_tokens=3, output_tokens=7)))
    assert billed.contradiction == "7 output_tokens in all, 9 in its iterations"
    billed = decode_usage(dumps(usage(passed(uncached=3, read=800, output=9), input_tokens=4, output_tokens=7)))
    assert billed.contradiction == "4 input_tokens and 7 output_tokens in all, 3 and 9 in its iterations"


def test_iterations_of_another_shape_are_ignored():
    for odd in (None, [], 5, "x", [5], {"type": "message"}):
        assert decode_usage(dumps({"input_tokens": 3, "iterations": odd})) == Usage(3)


def test_service_terms_are_kept():
    counts = {"input_tokens": 3, "speed": "fast", "service_tier": "standard", "inference_geo": "us"}
    counts["server_tool_use"] = {"web_search_requests": 2, "web_fetch_requests": 0, "odd_requests": "x", "other": 4}
    billed = decode_usage(dumps(counts))
    assert (billed.speed, billed.service_tier, billed.inference_geo) == ("fast", "standard", "us")
    assert billed.server_tools == (("web_search", 2),)


def test_openai_tier_is_read():
    response = {"id": "r", "service_tier": "flex", "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    assert answer_of(dumps(response)).usage.service_tier == "flex"
    chunk = b'data: {"id":"c","service_tier":"priority","choices":[],"usage":{"prompt_tokens":5}}\n\ndata: [DONE]\n\n'
    assert answer_of_stream(chunk).usage.service_tier == "priority"


def test_stream_lists_passes_at_the_end():
    start = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9, "service_tier": "batch"}}}
    end = {"type": "message_delta", "usage": usage(passed("compaction", 50, 5), passed(uncached=9), input_tokens=9)}
    text = b"".join(b"data: " + dumps(event) + b"\n\n" for event in (start, end))
    billed = answer_of_stream(text).usage
    assert billed.service_tier == "batch"
    assert [part.uncached_tokens for part in billed.passes] == [9, 50]


def test_claude_code_passes_are_read():
    counts = usage(passed("compaction", 50, 5), passed(uncached=9), input_tokens=9, output_tokens=1, speed="fast")
    counts["server_tool_use"] = {"web_search_requests": 1}
    line = {
        "type": "assistant", "uuid": "u1", "parentUuid": None, "sessionId": "s", "version": "2.1.58",
        "timestamp": "2026-03-01T10:00:00Z",
        "message": {"id": "m1", "role": "assistant", "model": "claude-opus-4-8", "content": [], "usage": counts},
    }  # fmt: skip
    reader = ClaudeCode()
    reads = list(reader.read([dumps(line) + b"\n"]))
    (bill,) = [read.value.usage for read in reads if isinstance(read.value, TurnCompleted)]
    assert (bill.speed, bill.server_tools, bill.client) == ("fast", (("web_search", 1),), "claude-code 2.1.58")
    assert [part.uncached_tokens for part in bill.passes] == [9, 50]
