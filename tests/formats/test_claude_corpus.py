"""Real Claude Code logs: requests, compactions, tool calls and usage counted again with plain json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import absent, of_each, recordings
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.items import ToolCall
from lore.testing import everything

FILES = recordings("claude-code/*.jsonl")
COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
FIELDS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")

pytestmark = pytest.mark.corpus


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Every JSON object of a file, also where two stand on one line."""
    decoder = json.JSONDecoder()
    for line in path.read_bytes().decode("utf-8").split("\n"):
        at = 0
        while at < len(line):
            try:
                value, at = decoder.raw_decode(line, at)
            except ValueError:
                break
            yield value
            while at < len(line) and line[at].isspace():
                at += 1


def counted(path: Path) -> dict[str, Any]:
    """What a person would count: requests by message id, the last line's usage, calls, compactions."""
    usage: dict[str, dict[str, Any]] = {}
    calls: list[str] = []
    results: list[str] = []
    compactions = 0
    for record in records(path):
        message: dict[str, Any] = record.get("message") or {}
        if record.get("type") == "assistant" and message.get("model") != "<synthetic>":
            usage[message.get("id") or record["uuid"]] = message.get("usage") or {}
            calls += [block["id"] for block in blocks(message) if block["type"] == "tool_use"]
        if record.get("type") == "user":
            results += [block["tool_use_id"] for block in blocks(message) if block["type"] == "tool_result"]
        compactions += record.get("type") == "system" and record.get("subtype") == "compact_boundary"
    sums = [sum(one.get(name) or 0 for one in usage.values()) for name in COUNTS]
    every = [one for bill in usage.values() for one in passes_of(bill)]
    return {
        "requests": len(usage),
        "compactions": compactions,
        "calls": Counter(calls),
        "results": Counter(results),
        "usage": sums,
        "every pass": [sum(one.get(name) or 0 for one in every) for name in COUNTS],
    }


def passes_of(bill: dict[str, Any]) -> list[dict[str, Any]]:
    """What was billed for a response: each of its passes where it lists several, else what it says of itself."""
    listed: list[dict[str, Any]] = bill.get("iterations") or []
    return listed if len(listed) > 1 else [bill]


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of a message; a text has none."""
    return message["content"] if isinstance(message.get("content"), list) else []


def read(path: Path) -> dict[str, Any]:
    """The same figures from the reader."""
    values = [one.value for one in everything(ClaudeCode(), path.read_bytes())]
    ends = {(one.chain, one.turn): one.usage for one in values if isinstance(one, e.TurnCompleted)}
    items = [one.item for one in values if isinstance(one, e.Append)]
    return {
        "requests": sum(isinstance(one, e.TurnStarted) for one in values),
        "compactions": sum(isinstance(one, e.CompactApplied) for one in values),
        "calls": Counter(item.call_id for item in items if isinstance(item, ToolCall)),
        "results": Counter(one.call_id for one in values if isinstance(one, e.PatchToolCall)),
        "usage": [sum(getattr(one, name) or 0 for one in ends.values() if one) for name in FIELDS],
        "every pass": [
            sum(getattr(one, name) or 0 for bill in ends.values() if bill for one in bill.passes) for name in FIELDS
        ],
    }


@of_each(FILES)
def test_the_reader_counts_what_plain_json_counts(path: Path) -> None:
    assert read(path) == counted(path)


@absent(FILES)
def test_a_server_that_comes_in_mid_session_is_named() -> None:
    (path,) = recordings("claude-code/JanDeDobbeleer__oh-my-posh__6c0a282a*.jsonl")
    seen = [one.value for one in everything(ClaudeCode(), path.read_bytes()) if isinstance(one.value, e.Observed)]
    servers = [one.names for one in seen if one.name == "instructions-delta"]
    tools = [one.names for one in seen if one.name == "tools-delta"]
    assert servers == [("context7",), ("context7",)]
    assert [any(name.startswith("mcp__context7__") for name in names) for names in tools] == [False, True, True]
    assert [len(names) for names in tools] == [36, 5, 41]
