"""Real chats of Gemini CLI: requests, tokens and calls counted again with plain json; read in parts as whole."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from lore.formats.gemini_cli import GeminiCliDocument
from lore.formats.registry import recognise
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.testing import everything

CORPUS = Path(os.environ.get("LORE_CORPUS") or Path(__file__).parents[2].parent / "shared" / "corpus")
FILES = sorted((CORPUS / "gemini").glob("*.json"))
CUTS = 40

pytestmark = pytest.mark.corpus
ABSENT = pytest.mark.skipif(not FILES, reason="no real recordings beside the project (LORE_CORPUS)")


def counted(path):
    """What a person would count: messages of the model; calls alone, behind one that has not called, are part of it."""
    messages = json.loads(path.read_text("utf-8"))["messages"]
    requests, usage, calls, open_calls = 0, [0, 0, 0], Counter(), False
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
        calls.update(call["id"] for call in message.get("toolCalls") or [])
        open_calls = not message.get("toolCalls")
    return {"requests": requests, "usage": usage, "calls": calls}


def read(path):
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


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_reader_counts_what_plain_json_counts(path):
    assert recognise(path.read_bytes()) is GeminiCliDocument
    assert read(path) == counted(path)


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_in_parts_is_read_as_the_whole(path):
    data = path.read_bytes()
    whole = [msgspec.json.encode(found) for found in everything(GeminiCliDocument(), data)]
    for cut in random.Random(path.name).sample(range(len(data)), CUTS):
        reader = GeminiCliDocument()
        first = [*reader.feed(data[:cut])]
        rest = everything(GeminiCliDocument.restore(reader.state), data[cut:])
        assert [msgspec.json.encode(found) for found in (*first, *rest)] == whole, cut
