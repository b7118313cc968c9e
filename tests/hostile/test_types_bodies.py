"""Wrong types in every field of request bodies and of records of them."""

from __future__ import annotations

import pytest

from hostile.wrong import WRONG
from strategies import write

REQUEST = {"model": "claude-x", "max_tokens": 9, "system": "s", "tools": [{"name": "n", "input_schema": {}}],
           "messages": [{"role": "user", "content": "hi"}], "cache_control": None, "temperature": 1}  # fmt: skip
MESSAGE = {"role": "user", "content": "hi", "name": "n", "tool_calls": [], "tool_call_id": "t", "cache_control": {}}
RECORD = {"request": REQUEST, "response": {"usage": {}}, "usage": {"input_tokens": 1}, "timestamp": 1, "ts": 1}
COUNTERS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens", "prompt_tokens",
            "completion_tokens", "prompt_tokens_details", "cache_creation", "input_tokens_details")  # fmt: skip


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
