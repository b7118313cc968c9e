"""Real chats of Gemini CLI: requests, tokens and calls counted again with plain json."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import of_each, recordings
from lore.formats.agents.gemini import GeminiCliDocument
from lore.formats.registry import recognise
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.testing import everything

FILES = recordings("gemini/*.json")

pytestmark = pytest.mark.corpus


def counted(path: Path) -> dict[str, Any]:
    """What a person would count: messages of the model; calls alone, behind one that has not called, are part of it."""
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
        made: list[dict[str, Any]] = message.get("toolCalls") or []
        calls.update(call["id"] for call in made)
        open_calls = not made
    return {"requests": requests, "usage": usage, "calls": calls}


def read(path: Path) -> dict[str, Any]:
    """The same figures from the reader."""
    values = [found.value for found in everything(GeminiCliDocument(), path.read_bytes())]
    ends = [value.usage for value in values if isinstance(value, e.TurnCompleted)]
    bills = [counts for usage in ends if usage is not None for counts in usage.passes]
    items = [value.item for value in values if isinstance(value, e.Append)]
    assert not [value for value in values if isinstance(value, Problem)]
    return {
        "requests": sum(isinstance(value, e.TurnStarted) for value in values),
        "usage": [sum(getattr(bill, name) for bill in bills) for name in FIELDS],
        "calls": Counter(item.call_id for item in items if isinstance(item, ToolCall)),
    }


FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")


@of_each(FILES)
def test_the_reader_counts_what_plain_json_counts(path: Path) -> None:
    assert recognise(path.read_bytes()) is GeminiCliDocument
    assert read(path) == counted(path)
