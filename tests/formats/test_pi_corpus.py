"""Real sessions of pi: requests, tokens, calls and compactions counted again with plain json."""

import json
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import figures, of_each, recordings
from lore.formats.agents.pi import Pi
from lore.model.codes import Code
from lore.testing import everything

FILES = recordings("pi/*.jsonl")
NAMES = ("input", "cacheRead", "cacheWrite", "output")
FIELDS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")
SUMMARIES = ("compaction", "branch_summary")

pytestmark = pytest.mark.corpus


def records(path: Path) -> list[dict[str, Any]]:
    """Every record of a file: a line may hold two."""
    entries: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    for line in path.read_text("utf-8").split("\n"):
        at = 0
        while at < len(line):
            record, at = decoder.raw_decode(line, at)
            entries.append(record)
    return entries


def plain_counts(path: Path) -> dict[str, Any]:
    """What a person would count: answers and billed summaries, the counts of each, calls that later prompts hold."""
    every = records(path)
    answers = [record["message"] for record in every if record.get("message", {}).get("role") == "assistant"]
    summaries = [record["usage"] for record in every if record["type"] in SUMMARIES and "usage" in record]
    usage = [*(answer["usage"] for answer in answers), *summaries]
    assert all(bill["totalTokens"] == sum(bill[name] for name in NAMES) for bill in usage if "totalTokens" in bill)
    completed = [answer for answer in answers if answer["stopReason"] not in ("aborted", "error")]
    return {
        "requests": len(answers) + len(summaries),
        "billed": sum(any(bill[name] for name in NAMES) for bill in usage),
        "usage": [sum(bill[name] for bill in usage) for name in NAMES],
        "calls": [block["id"] for answer in completed for block in answer["content"] if block["type"] == "toolCall"],
        "compactions": sum(record["type"] == "compaction" for record in every),
    }


@of_each(FILES)
def test_counts_equal_those_of_plain_json(path: Path) -> None:
    totals = figures(Pi, path, FIELDS, Code.JOINED_LINES)
    assert totals == {**plain_counts(path), "unknown": totals["unknown"]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recorded_cost_is_sum_of_logged_costs(path):
    usages = [record.get("message", {}).get("usage") or record.get("usage") or {} for record in records(path)]
    logged = sum(usage.get("cost", {}).get("total", 0) for usage in usages)
    reads = [read.value for read in everything(Pi(), path.read_bytes())]
    bills = [value.usage for value in reads if getattr(value, "usage", None) is not None]
    assert sum(bill.recorded_dollars or 0 for bill in bills) == pytest.approx(logged)
