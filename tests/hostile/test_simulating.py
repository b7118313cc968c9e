"""Simulating long recordings takes bounded memory."""

import json
import os

import pytest

from formats.claude import answered, asked, counts, log_bytes, text
from hostile import child
from hostile.child import MEGABYTE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="peaks of memory are measured on POSIX")
TURNS = 10_000


@pytest.mark.soak
def test_ten_thousand_turns_are_simulated_in_200_mb(desk):
    lines, read = [], 20_000
    for number in range(TURNS):
        before = f"a{number - 1}" if number else None
        lines.append(asked(f"u{number}", f"question {number}", before))
        bill = counts(3, read, 40, 10)
        lines.append(answered(f"a{number}", f"msg_{number}", text("well " * 20), f"u{number}", usage=bill))
        read += 40
    (desk / "log.jsonl").write_bytes(log_bytes(*lines))
    ended = child.lore("simulate", "log.jsonl", "--json")
    assert ended.code == 0
    assert ended.peak < 200 * MEGABYTE
    assert ended.json["agreement"]["turns"] == TURNS - 1


def test_requests_that_grow_are_simulated_in_200_mb(desk):
    messages = []
    with (desk / "log.jsonl").open("wb") as file:
        for number in range(200):
            messages.append({"role": ("user", "assistant")[number % 2], "content": f"{number} " + "x" * 2000})
            body = {"model": "claude-opus-4-6", "max_tokens": 9, "system": "s" * 9000, "messages": messages,
                    "cache_control": {"type": "ephemeral"}}  # fmt: skip
            usage = {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9}
            file.write(
                json.dumps({"request": body, "usage": usage, "timestamp": 1_780_000_000 + number}).encode() + b"\n"
            )
    ended = child.lore("simulate", "log.jsonl", "--json")
    assert ended.code == 0
    assert ended.peak < 200 * MEGABYTE
    assert len(json.loads(ended.out)["turns"]) == 200
