"""Real chats of Gemini CLI: requests, tokens and calls counted again with plain json."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import figures, of_each, recordings
from helpers.recognising import recognise
from lore.formats.agents.gemini import GeminiCliDocument

FILES = recordings("gemini/*.json")

pytestmark = pytest.mark.corpus


def plain_counts(path: Path) -> dict[str, Any]:
    """Count messages of the model; calls alone after a message without calls are part of it."""
    messages = json.loads(path.read_text("utf-8"))["messages"]
    requests, usage, open_calls = 0, [0, 0, 0], False
    calls: Counter[str] = Counter()
    for message in messages:
        if message["type"] == "user":
            open_calls = False
        if message["type"] != "gemini":
            continue
        counts = message["tokens"]
        assert 0 <= counts["cached"] <= counts["input"]
        assert counts["total"] == sum(counts[name] for name in ("input", "output", "thoughts", "tool"))
        silent = not (message["content"] or message.get("thoughts") or counts["total"])
        requests += not (silent and open_calls)
        usage[0] += counts["input"] - counts["cached"]
        usage[1] += counts["cached"]
        usage[2] += counts["output"] + counts["thoughts"]
        message_calls: list[dict[str, Any]] = message.get("toolCalls") or []
        calls.update(call["id"] for call in message_calls)
        open_calls = not message_calls
    return {"requests": requests, "usage": usage, "calls": calls}


FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")


@of_each(FILES)
def test_counts_equal_those_of_plain_json(path: Path) -> None:
    assert recognise(path.read_bytes()) is GeminiCliDocument
    totals = figures(GeminiCliDocument, path, FIELDS)
    assert totals["unknown"] == 0
    assert {**totals, "calls": Counter(totals["calls"])} == {**totals, **plain_counts(path)}
