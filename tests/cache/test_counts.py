"""Lost lifetimes, and usage that contradicts its recorded body."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from lore.cache.counts import (
    block_tokens,
    contradiction,
    expiry,
    lost_lifetime,
    read_everything,
    reason_to_doubt,
    shortfall,
    too_few_tokens,
)
from lore.model.events import Usage
from lore.model.evidence import BillUnlikeBody
from lore.model.turn import Call, PromptBasis
from lore.model.vector import Vector
from model.making import body, parsed, turn

HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SHORT = {"cache_control": {"type": "ephemeral"}}
ANTHROPIC = Call(endpoint="api.anthropic.com/v1/messages")
SIZE = 50_000


def request_turn(*breakpoints, usage, call=ANTHROPIC, **fields):
    blocks = [{"type": "text", "text": f"{n}", **breakpoint} for n, breakpoint in enumerate(breakpoints or ({},))]
    return turn(parsed(body({"role": "user", "content": blocks}, **fields)), usage=usage, call=call)


@each("breakpoints, usage, lost", [
    ((HOUR,), Usage(write_tokens=9, write_5m_tokens=9, write_1h_tokens=0), True),
    ((HOUR, HOUR), Usage(write_tokens=9, write_5m_tokens=9), True),
    ((HOUR,), Usage(write_tokens=9, write_5m_tokens=4, write_1h_tokens=5), False),
    ((HOUR, SHORT), Usage(write_tokens=9, write_5m_tokens=9), False),
    ((SHORT,), Usage(write_tokens=9, write_5m_tokens=9), False),
    ((HOUR,), Usage(write_tokens=9), False),
    ((HOUR,), Usage(read_tokens=9, write_5m_tokens=0), False),
    ((HOUR,), None, False),
])  # fmt: skip
def test_lifetime_is_lost_if_no_hour_is_billed(breakpoints, usage, lost):
    assert bool(lost_lifetime(request_turn(*breakpoints, usage=usage))) is lost


@each("breakpoints, usage, evidence, words", [
    ((), Usage(write_tokens=900), BillUnlikeBody("no-breakpoint", 900), "no cache breakpoint"),
    (
        (SHORT,), Usage(write_tokens=900, write_1h_tokens=900), BillUnlikeBody("hour-unasked", 900),
        "for 1 hour, though no breakpoint",
    ),
    (
        (HOUR,), Usage(write_5m_tokens=1, write_1h_tokens=9), BillUnlikeBody("five-minutes-unasked", 1),
        "for 5 minutes, though every breakpoint",
    ),
    (
        (SHORT,), Usage(uncached_tokens=60_000), BillUnlikeBody("more-tokens-than-bytes", 60_000, SIZE),
        "60,000 tokens are billed for a prompt of 50,000 bytes",
    ),
    ((SHORT,), Usage(uncached_tokens=51_000, write_tokens=900), None, ""),
    ((), Usage(read_tokens=900, write_tokens=0), None, ""),
    ((), None, None, ""),
])  # fmt: skip
def test_usage_that_contradicts_its_body_is_reported(breakpoints, usage, evidence, words):
    conflict = contradiction(request_turn(*breakpoints, usage=usage), SIZE)
    assert conflict == evidence
    assert conflict is None or words in conflict.sentence()


def test_tool_argument_named_document_hides_no_tokens():
    """A tool's schema with a field `document` passed for a file, so its impossible usage was not reported."""
    tools = [{"name": "open", "input_schema": {"type": "object", "properties": {"document": {"type": "string"}}}}]
    usage = Usage(write_tokens=900)
    assert contradiction(request_turn(usage=usage, tools=tools), SIZE) == BillUnlikeBody("no-breakpoint", 900)
    tools.append({"type": "web_search_20250305", "name": "web_search"})
    assert contradiction(request_turn(usage=usage, tools=tools), SIZE) is None


THOUGHT = {"type": "thinking", "thinking": "", "signature": "c2ln" * 900}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVs" * 900}}
RULES = {"type": "text", "text": "Answer in one sentence. " * 150}  # 3,600 bytes


@each("block, counts, fields, reason", [
    (RULES, {"uncached_tokens": 5, "read_tokens": 0}, {}, "5 tokens for a prompt of 3,6"),
    (RULES, {"uncached_tokens": 5}, {}, "5 tokens for a prompt of 3,6"),
    (RULES, {"uncached_tokens": 5, "read_tokens": 900}, {}, ""),
    (RULES, {"output_tokens": 5}, {}, ""),
    (RULES, {"uncached_tokens": 5}, {"context_management": {"edits": []}}, ""),
    (THOUGHT, {"uncached_tokens": 5}, {}, ""),
    ({"type": "text", "text": "<think>" + "It is red. " * 400 + "</think>Red."}, {"uncached_tokens": 5}, {}, ""),
    (PICTURE, {"uncached_tokens": 5}, {}, ""),
    ({"type": "input_audio", "input_audio": {"data": "SUQz" * 900}}, {"uncached_tokens": 5}, {}, ""),
    ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64" + "A" * 3600}}, {"uncached_tokens": 5}, {}, ""),
    ({"type": "document_url", "document_url": "data:a;base64," + "A" * 3600}, {"uncached_tokens": 5}, {}, ""),
    ({"type": "tool_result", "tool_use_id": "a", "content": [RULES, RULES, PICTURE]}, {"uncached_tokens": 5}, {}, ""),
])  # fmt: skip
def test_usage_far_below_the_body_is_impossible(block, counts, fields, reason):
    request = turn(parsed(body({"role": "user", "content": [block]}, **fields)), usage=Usage(**counts))
    fault = too_few_tokens(request)
    assert fault.startswith(reason)
    assert bool(fault) is bool(reason)


def test_ollama_images_have_tokens_that_bytes_do_not_show():
    asked = {"model": "gemma3", "messages": [{"role": "user", "content": "What is it?", "images": ["iVBO" * 900]}]}
    assert not too_few_tokens(turn(parsed(asked, "openai-chat"), usage=Usage(uncached_tokens=8)))


@pytest.mark.parametrize(("member", "is_doubted"), [("reasoning", False), ("thinking", False), ("note", True)])
def test_reasoning_that_a_template_drops_has_no_tokens(member, is_doubted):
    answer = {"role": "assistant", "content": "Yes.", member: "The user asks if it is. " * 150}
    asked = {"model": "qwen3", "messages": [{"role": "user", "content": "Is it?"}, answer]}
    assert bool(too_few_tokens(turn(parsed(asked, "openai-chat"), usage=Usage(uncached_tokens=20)))) is is_doubted


@pytest.mark.parametrize(("searches", "doubt"), [((("web_search", 1),), ""), ((), "291 tokens written by lifetime")])
def test_lifetimes_after_web_search_are_of_last_pass(searches, doubt):
    """Recorded by Mirascope: 12,174 tokens written in all, of which 291 in `cache_creation`."""
    usage = Usage(10, 39_695, 12_174, 437, write_5m_tokens=291, write_1h_tokens=0, server_tools=searches)
    assert reason_to_doubt(usage).startswith(doubt)
    assert bool(reason_to_doubt(usage)) is bool(doubt)


def test_a_gateway_may_set_breakpoints_of_its_own():
    for call in (Call(), Call(endpoint="gateway.example/v1/messages"), Call(endpoint="/v1/messages")):
        assert not contradiction(request_turn(usage=Usage(write_tokens=900), call=call), SIZE)


@pytest.mark.parametrize("fields", [
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"mcp_servers": [{"url": "https://mcp.example"}]},
    {"system": [{"type": "document", "source": {"type": "url", "url": "https://a.example"}}]},
])  # fmt: skip
def test_provider_side_content_is_no_contradiction(fields):
    assert not contradiction(request_turn(SHORT, usage=Usage(uncached_tokens=90_000), **fields), SIZE)


def test_files_of_bedrock_and_code_interpreter_are_no_contradiction():
    stored = {"document": {"name": "a", "format": "pdf", "source": {"s3Location": {"uri": "s3://b/a.pdf"}}}}
    document = {"modelId": "us.amazon.nova-pro-v1:0", "messages": [{"role": "user", "content": [stored]}]}
    code = {
        "model": "gpt-5.4",
        "input": "Draw.",
        "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
    }
    for request in (document, code):
        assert not contradiction(turn(parsed(request), usage=Usage(90_000)), 600)
    assert contradiction(turn(parsed({**code, "tools": []}), usage=Usage(90_000)), 600)


def test_summed_tool_steps_show_no_shortfall():
    """A stable recording got a finding about a fallen read: its usage was the sum of five requests."""
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    previous, current = (
        request_turn(SHORT, usage=Usage(3, 9000, 9000), tools=search),
        request_turn(SHORT, usage=Usage(3, 9000, 40)),
    )
    assert shortfall(previous, current) is None
    assert shortfall(request_turn(SHORT, usage=Usage(3, 9000, 9000)), current) == 9000


CALLED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}
SAID = {"type": "text", "text": "Done."}


@each("answer, usage, short", [
    ([SAID], Usage(3, 9000, 9000), 9000), ([CALLED, SAID], Usage(3, 9000, 9000), None),
    (None, Usage(3, 9000, 9000), None),
    ([CALLED, SAID], Usage(3, 9000, 9000, iterations=(Usage(3, 0, 9000, kind="message"),)), 9000),
])  # fmt: skip
def test_usage_without_provider_calls_is_of_one_step(answer, usage, short):
    """In sessions that only allow a web search no fallen read was reported."""
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    previous, current = request_turn(SHORT, usage=usage, tools=search), request_turn(SHORT, usage=Usage(3, 9000, 40))
    if answer is not None:
        segments = [*parsed(body({"role": "assistant", "content": answer})).messages]
        previous = replace(previous, generated=lambda: segments)
    assert shortfall(previous, current) == short


def test_partial_recording_is_no_contradiction():
    whole = request_turn(SHORT, usage=Usage(uncached_tokens=90_000))
    assert contradiction(whole, SIZE)
    for fields in ({"partial": True}, {"fidelity": "reconstructed"}):
        prompt = parsed(body("a"))
        assert not contradiction(turn(replace(prompt, **fields), usage=whole.usage), SIZE)


@each("dialect, previous_usage, current_usage, again", [
    ("anthropic", Usage(5, 9000, 1000), Usage(5, 10_000, 50), True),
    ("anthropic", Usage(5, 9000, 1000), Usage(5, 9000, 1050), False),  # the last breakpoint was not read
    ("openai-chat", Usage(7000, 2000), Usage(500, 8960), True),  # whole blocks of 128
    ("openai-chat", Usage(7000, 2000), Usage(7500, 2000), False),  # only tokens cached before the previous request
    ("openai-chat", Usage(500, 2000, 6500), Usage(500, 8500), True),
    ("anthropic", Usage(5, 9000, 1000), Usage(5), False),
    ("anthropic", Usage(5, 0, 0), Usage(5, 0), False),
    ("anthropic", None, Usage(5, 9000), False),
])  # fmt: skip
def test_everything_is_read_up_to_the_last_block(dialect, previous_usage, current_usage, again):
    turns = [turn(parsed({"messages": []}, dialect), usage=usage) for usage in (previous_usage, current_usage)]
    assert read_everything(*turns) is again


@each("model, logged, recorded", [("gpt-5.6-sol", 1024, 128), ("gpt-5.5", 512, 512), ("kimi-k3", 256, 256)])
def test_block_of_gpt_5_6_is_longer_in_logs(model, logged, recorded):
    request = turn(parsed({"model": model, "messages": []}, "openai-chat"))
    log = replace(request, basis=PromptBasis(Vector(), "openai-chat", model))
    assert (block_tokens(log), block_tokens(request)) == (logged, recorded)


@each("pause, missed, expired", [(300.0, True, True), (299.9, True, False), (300.0, False, False)])
def test_missed_entry_expires_at_its_lifetime(pause, missed, expired):
    turns = [turn(parsed({"model": "claude-opus-5", "messages": []}), n + 1, sent=n * pause) for n in range(2)]
    assert (expiry(*turns, 300.0, missed=missed) is not None) is expired
