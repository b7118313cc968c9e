"""Real Claude Code logs: requests, compactions, tool calls, usage and places counted again with plain json."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import absent, of_each, recordings
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.testing import everything

FILES = recordings("claude-code/*.jsonl")
COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
FIELDS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")

SILENT = {  # types of records that the model never sees, as counted over 769 sessions
    "progress", "file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt", "mode",
    "permission-mode", "custom-title", "ai-title", "agent-name", "pr-link", "bridge-session", "summary", "frame-link",
}  # fmt: skip

pytestmark = pytest.mark.corpus


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every JSON object of a file; a line may hold two."""
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


def plain_counts(path: Path) -> dict[str, Any]:
    """Count requests by message id, usage of the last line, calls and compactions."""
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
    sums = [sum(counts.get(name) or 0 for counts in usage.values()) for name in COUNTS]
    every = [counts for bill in usage.values() for counts in passes_of(bill)]
    return {
        "requests": len(usage),
        "compactions": compactions,
        "calls": Counter(calls),
        "results": Counter(results),
        "usage": sums,
        "every pass": [sum(counts.get(name) or 0 for counts in every) for name in COUNTS],
    }


def passes_of(bill: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the billed counts of a response: its passes if it lists several, else its own."""
    listed: list[dict[str, Any]] = bill.get("iterations") or []
    return listed if len(listed) > 1 else [bill]


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content blocks of a message; a text has none."""
    return message["content"] if isinstance(message.get("content"), list) else []


def read(path: Path) -> dict[str, Any]:
    """Return the same figures from the reader."""
    values = [value.value for value in everything(ClaudeCode(), path.read_bytes())]
    ends = {(value.chain, value.turn): value.usage for value in values if isinstance(value, e.TurnCompleted)}
    items = [value.item for value in values if isinstance(value, e.Append)]
    return {
        "requests": sum(isinstance(value, e.TurnStarted) for value in values),
        "compactions": sum(isinstance(value, e.CompactApplied) for value in values),
        "calls": Counter(item.call_id for item in items if isinstance(item, ToolCall)),
        "results": Counter(value.call_id for value in values if isinstance(value, e.PatchToolCall)),
        "usage": [sum(getattr(value, name) or 0 for value in ends.values() if value) for name in FIELDS],
        "every pass": [
            sum(getattr(value, name) or 0 for bill in ends.values() if bill for value in bill.passes) for name in FIELDS
        ],
    }


@of_each(FILES)
def test_reader_counts_as_plain_json(path: Path) -> None:
    assert read(path) == plain_counts(path)


@absent(FILES)
def test_server_added_in_mid_session_is_named() -> None:
    (path,) = recordings("claude-code/JanDeDobbeleer__oh-my-posh__6c0a282a*.jsonl")
    signals = [item.value for item in everything(ClaudeCode(), path.read_bytes()) if isinstance(item.value, e.Observed)]
    servers = [item.names for item in signals if item.name == "instructions-delta"]
    tools = [item.names for item in signals if item.name == "tools-delta"]
    assert servers == [("context7",), ("context7",)]
    assert [any(name.startswith("mcp__context7__") for name in names) for names in tools] == [False, True, True]
    assert [len(names) for names in tools] == [36, 5, 41]


def is_silent(record: dict[str, Any]) -> bool:
    """Return whether a reader may skip a record."""
    if record["type"] == "system":
        cleared = (record.get("microcompactMetadata") or {}).get("compactedToolIds")
        return record.get("subtype") != "compact_boundary" and not cleared
    return record["type"] in SILENT or (record["type"] == "user" and bool(record.get("isVisibleInTranscriptOnly")))


@of_each(FILES)
def test_records_are_read_at_their_places_unless_silent(path: Path) -> None:
    data = path.read_bytes()
    kinds = (e.Append, e.TurnStarted, e.PatchToolCall, e.CompactApplied)
    items = everything(ClaudeCode(), data)
    reads = {(item.line, item.byte) for item in items}
    content = {(item.line, item.byte) for item in items if isinstance(item.value, kinds)}
    at, lost, places = 0, list[int](), set[tuple[int, int]]()
    for number, line in enumerate(data.split(b"\n"), 1):
        place = (number, at)
        at += len(line) + 1
        if not line.strip():
            continue
        places.add(place)
        try:
            record = json.loads(line)
        except ValueError:  # two objects on one line, which is a problem
            record = {"type": "user"}
        if place not in reads and not is_silent(record):
            lost.append(number)
        assert place not in content or record["type"] not in SILENT
    assert reads <= places
    assert lost == []


@of_each(FILES)
def test_broken_line_after_a_log_has_its_place(path: Path) -> None:
    data = path.read_bytes().rstrip(b"\n") + b"\n"
    values = [item.value for item in everything(ClaudeCode(), data + b"{broken")]
    (problem,) = (value for value in values if isinstance(value, Problem) and value.code == "LORE202")
    assert (problem.line, problem.byte) == (data.count(b"\n") + 1, len(data))
