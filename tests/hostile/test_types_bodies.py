"""Wrong types in every field of request bodies and of records of them."""

from __future__ import annotations

import pytest

from helpers.matrix import some
from helpers.strategies import write
from hostile.wrong import WRONG
from lore.model.turn import Memo
from lore.prompt.dialects import DIALECTS

REQUEST = {"model": "claude-x", "max_tokens": 9, "system": "s", "tools": [{"name": "n", "input_schema": {}}],
           "messages": [{"role": "user", "content": "hi"}], "cache_control": None, "temperature": 1}  # fmt: skip
MESSAGE = {"role": "user", "content": "hi", "name": "n", "tool_calls": [], "tool_call_id": "t", "cache_control": {}}
RECORD = {"request": REQUEST, "response": {"usage": {}}, "usage": {"input_tokens": 1}, "timestamp": 1, "ts": 1}
COUNTERS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens", "prompt_tokens",
            "completion_tokens", "prompt_tokens_details", "cache_creation", "input_tokens_details", "promptTokenCount",
            "cachedContentTokenCount", "thoughtsTokenCount", "inputTokens", "cacheReadInputTokens",
            "cacheDetails")  # fmt: skip


BODY_PLACES = [
    *REQUEST,
    "messages.0",
    *(f"messages.{field}" for field in MESSAGE),
    *(f"record.{field}" for field in RECORD),
    *(f"usage.{field}" for field in COUNTERS),
]


@pytest.mark.parametrize("place", BODY_PLACES)
def test_a_wrong_type_in_a_body_stops_no_command(lore, desk, place):
    outer, _, field = place.partition(".")
    lines = [RECORD]
    for wrong in WRONG:
        if outer == "record":
            lines.append({**RECORD, field: wrong})
        elif outer == "usage":
            lines.append({**RECORD, "usage": {**RECORD["usage"], field: wrong}})
        elif field:
            message = wrong if field == "0" else {**MESSAGE, field: wrong}
            lines.append({**RECORD, "request": {**REQUEST, "messages": [MESSAGE, message]}})
        else:
            lines.append({**RECORD, "request": {**REQUEST, outer: wrong}})
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, [*lines, RECORD, RECORD])))
    assert lore("check", "log.jsonl", "--json").code in (0, 1, 3)
    assert lore("diff-prefix", "log.jsonl", "--json", "--no-tokens").code == 0


OTHERS = {
    "openai-responses": {
        "model": "gpt-5.6",
        "instructions": "I",
        "store": False,
        "tools": [{"type": "function", "name": "n", "parameters": {}}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "o"}]},
        ],
    },
    "gemini": {
        "model": "gemini-3",
        "systemInstruction": {"role": "system", "parts": [{"text": "S"}]},
        "tools": [{"functionDeclarations": [{"name": "n", "parameters": {}}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "n", "response": {"result": "o"}}}]},
        ],
    },
    "bedrock": {
        "modelId": "m",
        "system": [{"text": "S"}, {"cachePoint": {"type": "default"}}],
        "toolConfig": {"tools": [{"toolSpec": {"name": "n", "inputSchema": {"json": {}}}}], "toolChoice": {}},
        "messages": [{"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]}],
    },
}


def _places(value, path=()):
    """Every place of a value, as the keys that lead to it."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield from _places(one, (*path, key))


def _with(value, path, wrong):
    """A copy of a value with something else at a place."""
    if not path:
        return wrong
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], wrong)
    return copy


@pytest.mark.parametrize("step", some([4, 1]))
@pytest.mark.parametrize("dialect", OTHERS)
def test_a_wrong_type_at_any_place_of_a_body_stops_no_command_and_no_dialect(lore, desk, dialect, step):
    body, shape = OTHERS[dialect], DIALECTS[dialect]
    wrongs = [(path, wrong) for path in _places(body) for wrong in WRONG]
    lines = [{"request": _with(body, path, wrong)} for path, wrong in wrongs[::step]]
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, [{"request": body}, *lines, {"request": body}])))
    assert lore("check", "log.jsonl", "--json").code in (0, 1, 3)
    assert lore("diff-prefix", "log.jsonl", "--json", "--no-tokens").code == 0
    for line in lines:
        prompt = shape.parse(write(line["request"]), "wire", Memo())
        again = shape.parse(shape.write(prompt), "wire", Memo())
        assert [(one.path, one.kind, one.data) for one in again] == [(one.path, one.kind, one.data) for one in prompt]
