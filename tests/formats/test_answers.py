"""Whole responses of five dialects: usage, id, verdict, what was said."""

from __future__ import annotations

import json

import pytest

from lore.formats.answers import NOTHING, answer_of
from lore.model.events import Billed, Verdict
from model.making import dumps

MESSAGE = {"role": "assistant", "content": "yes"}
TEXT, PARTS = [{"type": "text", "text": "x"}], {"role": "model", "parts": []}
COUNTED = {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 1}}
SAID = {
    "anthropic": (
        {"id": "a", "role": "assistant", "content": TEXT, "usage": {"input_tokens": 1}},
        Billed(uncached_tokens=1), "a", [{"role": "assistant", "content": TEXT}],
    ),
    "chat": (
        {"id": "c", "choices": [{"message": MESSAGE}], "usage": {"prompt_tokens": 2}},
        Billed(uncached_tokens=2), "c", [MESSAGE],
    ),
    "responses": (
        {"id": "r", "output": [{"type": "message"}], "usage": COUNTED},
        Billed(uncached_tokens=2, read_tokens=1), "r", [{"type": "message"}],
    ),
    "gemini": (
        {"responseId": "g", "candidates": [{"content": PARTS}], "usageMetadata": {"promptTokenCount": 4}},
        Billed(uncached_tokens=4), "g", [{"role": "model", "parts": []}],
    ),
    "bedrock": (
        {"output": {"message": MESSAGE}, "usage": {"inputTokens": 5}},
        Billed(uncached_tokens=5), "", [MESSAGE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", SAID)
def test_every_dialect_says_what_was_billed_and_said(dialect):
    response, usage, name, output = SAID[dialect]
    found = answer_of(dumps(response))
    assert (found.usage, found.response_id, json.loads(found.output)) == (usage, name, output)


def test_gemini_streams_a_list_of_which_the_last_counts():
    assert answer_of(dumps([{"usageMetadata": {"promptTokenCount": n}} for n in (1, 2)])).usage == Billed(
        uncached_tokens=2
    )


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ({"type": "system_changed", "cache_missed_input_tokens": 9}, Verdict("system_changed", 9, "diagnostics")),
        ("expired", Verdict("expired", None, "diagnostics")),
        ({"type": "x", "cache_missed_input_tokens": True}, Verdict("x", None, "diagnostics")),
        ({"type": 5}, None),
        ("", None),
        (None, None),
        ([], None),
    ],
)
def test_the_providers_verdict_is_kept(reason, verdict):
    assert answer_of(dumps({"diagnostics": {"cache_miss_reason": reason}})).verdict == verdict


@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"5", b"[]", b"[5]", b"{", b'"x"', b'{"usage":5,"id":[],"output":7,"choices":{},"content":[]}'],
)
def test_what_says_nothing_is_no_answer(raw):
    assert answer_of(raw) == NOTHING
