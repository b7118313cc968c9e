"""Usage counters of several families of APIs in lore's counts: split, unknown never 0."""

import pytest

from helpers.each import each
from lore.formats.bills import decode_usage, reconcile, usage_of_object
from lore.model.events import RecordedCost, Usage
from model.making import dumps

SHAPES = (
    ({"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50, "output_tokens": 7},
     Usage(3, 100, 50, 7)),
    ({"input_tokens": 3, "cache_creation_input_tokens": 50,
      "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}},
     Usage(uncached_tokens=3, write_tokens=50, write_5m_tokens=20, write_1h_tokens=30)),
    # a whole input under Anthropic's names, and one that the sum shows to be the uncached part
    ({"input_tokens": 103, "cache_read_input_tokens": 100, "output_tokens": 7, "total_tokens": 110},
     Usage(3, 100, None, 7)),
    ({"input_tokens": 103, "cache_read_input_tokens": 100, "output_tokens": 7, "total_tokens": 210},
     Usage(103, 100, None, 7)),
    # OpenAI Chat
    ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}},
     Usage(36, 64, None, 5)),
    ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 16}},
     Usage(20, 64, 16, None)),
    ({"prompt_tokens": 100, "completion_tokens": 5}, Usage(100, None, None, 5)),
    ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 64}}, Usage(10, 64, None, None)),
    # OpenAI Responses
    ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 5}, Usage(40, 60, None, 5)),
    ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
     Usage(10, 60, 30, None)),
    ({"input_tokens": 100, "input_tokens_details": None}, Usage(100)),
    # Gemini
    ({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
      "totalTokenCount": 107}, Usage(40, 60, None, 7)),
    ({"prompt_token_count": 100, "cached_content_token_count": 60, "thoughts_token_count": 2}, Usage(40, 60, None, 2)),
    ({"promptTokenCount": 100, "candidatesTokenCount": 5}, Usage(100, 0, None, 5)),
    ({"candidatesTokenCount": 1, "thoughtsTokenCount": 96, "totalTokenCount": 672}, Usage(output_tokens=97)),
    ({"promptTokenCount": 100, "toolUsePromptTokenCount": 30, "candidatesTokenCount": 5},
     Usage(100, 0, None, 5, iterations=(Usage(30, 0, 0, 0, kind="tool_use_prompt"),))),
    ({"total_input_tokens": 100, "total_cached_tokens": 60, "total_output_tokens": 5, "total_thought_tokens": 2,
      "total_tool_use_tokens": 0, "total_tokens": 107}, Usage(40, 60, None, 7)),  # Interactions
    # Bedrock
    ({"inputTokens": 3, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 50, "outputTokens": 7},
     Usage(3, 100, 50, 7)),
    ({"inputTokens": 3, "cacheReadInputTokenCount": 100, "outputTokens": 7}, Usage(3, 100, None, 7)),  # Nova
    ({"inputTokens": 3, "cacheWriteInputTokens": 50, "cacheDetails": [{"ttl": "1h", "inputTokens": 50}, None]},
     Usage(uncached_tokens=3, write_tokens=50, write_1h_tokens=50)),
    ({"inputTokens": 3, "cacheDetails": {"ttl": "1h"}}, Usage(3)),
    # LiteLLM over Anthropic, DeepSeek, OpenRouter, an engine
    ({"prompt_tokens": 21569, "completion_tokens": 397,
      "prompt_tokens_details": {"audio_tokens": None, "cached_tokens": 1348},
      "cache_creation_input_tokens": 20216, "cache_read_input_tokens": 1348}, Usage(5, 1348, 20216, 397)),
    ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
     Usage(36, 64, None, 5)),
    ({"prompt_tokens": 100, "native_tokens_cached": 64, "cost": 0.1}, Usage(36, 64, recorded=RecordedCost(0.1))),
    ({"prompt_tokens": 100, "num_cached_tokens": 64}, Usage(36, 64)),
    # Vercel's AI SDK: 6, 5 over Anthropic, one of its models
    ({"inputTokens": 100, "inputTokenDetails": {"noCacheTokens": 20, "cacheReadTokens": 64, "cacheWriteTokens": 16},
      "outputTokens": 5, "cachedInputTokens": 64}, Usage(20, 64, 16, 5)),
    ({"inputTokens": 3, "cachedInputTokens": 64, "outputTokens": 5, "totalTokens": 8}, Usage(3, 64, None, 5)),
    ({"inputTokens": {"total": 100, "noCache": 20, "cacheRead": 64, "cacheWrite": 16}, "outputTokens": {"total": 5}},
     Usage(20, 64, 16, 5)),
)  # fmt: skip


@each("usage, billed", SHAPES)
def test_counts_with_cached_tokens_are_split(usage, billed):
    assert decode_usage(dumps(usage)) == billed


@pytest.mark.parametrize("count", [True, -1, 1.5, "3", None])
def test_counts_of_other_types_are_unknown(count):
    billed = decode_usage(dumps({"input_tokens": count, "output_tokens": 2}))
    assert billed is not None
    assert (billed.uncached_tokens, billed.output_tokens) == (None, 2)
    assert (billed is not None and billed.contradiction != "") == (type(count) in (bool, str) or count == -1)


@each("cost", [rb'"\ud800"', b"[1]", b"{}", b"true", b"null", b"-1", b"0", b"1e300", b"9" * 400])
def test_odd_costs_are_unknown(cost):
    assert decode_usage(b'{"input_tokens":3,"cost":%b}' % cost) == Usage(3)


@pytest.mark.parametrize("count", [10**9 + 1, 2**53 + 1, 10**20])
def test_impossible_count_is_a_contradiction(count):
    billed = decode_usage(dumps({"input_tokens": count, "output_tokens": 10**9}))
    assert billed is not None
    assert (billed.uncached_tokens, billed.output_tokens) == (None, 10**9)
    assert billed.contradiction == f"input_tokens is {count if count < 10**17 else 'beyond any count'}"


def test_all_contradictions_of_a_usage_are_named():
    """Only the first one was: others seemed to be right."""
    odd = decode_usage(dumps({"input_tokens": -1, "output_tokens": "3", "cache_read_input_tokens": 9}))
    doubt = "input_tokens is -1 and output_tokens is not a number"
    assert odd == Usage(None, 9, contradiction=doubt)
    both = reconcile(odd, Usage(3, 8), "the record", "its stream")
    assert (
        both.contradiction
        == f"{doubt}; 9 input and 9 read tokens in the record, 11 and 8 in its stream; the former are used"
    )


@pytest.mark.parametrize(("other", "doubt"), [
    (Usage(100, None, None, 5), ""),
    (None, ""),
    (Usage(20, 80, None, 9), "5 output tokens in the record, 9 in its stream; the former are used"),
    (Usage(40, 60, None, 5), "80 read tokens in the record, 60 in its stream; the former are used"),
    (Usage(20, 90, None, 9),
     "100 input, 80 read and 5 output tokens in the record, 110, 90 and 9 in its stream; the former are used"),
])  # fmt: skip
def test_two_usages_that_disagree_are_a_contradiction(other, doubt):
    usage = reconcile(Usage(20, 80, None, 5), other, "the record", "its stream")
    assert usage == Usage(20, 80, None, 5, contradiction=doubt)


def test_two_counters_of_reads_that_disagree_are_named():
    usage = {"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_tokens_details": {"cached_tokens": 0}}
    found = usage_of_object(usage)
    assert (found.uncached_tokens, found.read_tokens) == (36, 64)
    assert found.contradiction == "0 cached_tokens and 64 prompt_cache_hit_tokens of one prompt; 64 are used"
    assert not usage_of_object({**usage, "prompt_tokens_details": {"cached_tokens": 64}}).contradiction


@pytest.mark.parametrize(("counts", "doubt"), [
    ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}, ""),
    ({"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 6},
     "70 tokens of cache hits and misses, 100 in the prompt"),
    ({"total_tokens": 160}, ""), ({"total_tokens": 90}, "100 tokens in the prompt, 90 in all"),
    ({"cached_tokens": 120, "total_tokens": 105},
     "120 cached tokens are more than all 100 of the prompt, which the total counts"),
    ({"cached_tokens": 120, "total_tokens": 225}, ""),
])  # fmt: skip
def test_parts_unlike_the_whole_are_a_contradiction(counts, doubt):
    assert usage_of_object({"prompt_tokens": 100, "completion_tokens": 5, **counts}).contradiction == doubt
