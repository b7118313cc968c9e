"""Real Codex rollouts: requests, tokens, calls and compactions counted again with plain json.

A request is a change of the sums; if they grew by more than the last response was billed, the rest is one more: that
of a response which was interrupted before its bill was written.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import agents
from formats.recordings import absent, figures, of_each, predicted_near, recordings, records
from lore.formats.codex.reader import Codex
from lore.model import events as e
from lore.testing import everything

FILES = recordings("codex/*.jsonl")
NAMES = ("input_tokens", "cached_input_tokens", "output_tokens")
FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")
MADE = ("reasoning", "function_call", "custom_tool_call", "web_search_call", "tool_search_call", "local_shell_call")
CALLS = ("function_call", "custom_tool_call", "tool_search_call", "local_shell_call")

pytestmark = pytest.mark.corpus


def changes(path: Path) -> Iterator[tuple[int, list[int], list[int], list[int]]]:
    """Yield each change of the sums: the number of the record, the sums, the latest usage, and the rest."""
    before: dict[str, int] | None = None
    for number, record in enumerate(records(path), 1):
        info = record["payload"].get("info") if record["type"] == "event_msg" else None
        if info and info["total_token_usage"] != before:
            total, last = info["total_token_usage"], info["last_token_usage"]
            difference = [total[name] - last[name] - (before or {}).get(name, 0) for name in NAMES]
            yield number, [total[name] for name in NAMES], [last[name] for name in NAMES], difference
            before = total


def plain_counts(path: Path) -> dict[str, Any]:
    """Count requests by changed sums, the usage of each, calls and compactions."""
    rows = list(changes(path))
    bills = [bill for _, _, last, difference in rows for bill in (last, difference) if any(bill)]
    sums = [sum(counts) for counts in zip(*bills, strict=True)]
    assert all(0 <= cached <= whole for whole, cached, _ in bills)
    assert sums == rows[-1][1]
    payloads = [record["payload"] for record in records(path) if record["type"] == "response_item"]
    return {
        "requests": len(bills),
        "usage": [sums[0] - sums[1], *sums[1:]],
        "calls": Counter(payload["call_id"] for payload in payloads if payload["type"] in CALLS),
        "compactions": sum(record["type"] == "compacted" for record in records(path)),
    }


@of_each(FILES)
def test_reader_counts_as_plain_json(path: Path) -> None:
    totals = figures(Codex, path, FIELDS)
    assert (totals["billed"], totals["unknown"]) == (totals["requests"], 0)
    assert {**totals, "calls": Counter(totals["calls"])} == {**totals, **plain_counts(path)}


@of_each(FILES)
def test_turn_starts_at_first_item_of_the_model(path: Path) -> None:
    starts = {item.line for item in everything(Codex(), path.read_bytes()) if isinstance(item.value, e.TurnStarted)}
    runs: list[int] = []
    run = False
    for number, record in enumerate(records(path), 1):
        payload = record["payload"]
        if record["type"] == "response_item":
            spoken = payload["type"] in MADE or payload.get("role") == "assistant"
            runs += [number] if spoken and not run else []
            run = spoken
    expected: set[int] = set()
    at = 0
    for number, _, _, difference in changes(path):
        since = [begin for begin in runs if at < begin < number]
        expected.update(since[-2:] if any(difference) else since[-1:])
        at = number
    assert starts == expected


@absent(FILES)
def test_prediction_beats_the_previous_input() -> None:
    near = predicted_near(FILES)
    assert near.predicted / near.turns >= 0.86
    assert near.predicted > near.previous


@absent(FILES)
def test_unrecorded_tools_are_equal_for_equal_versions() -> None:
    # Before 0.140 the tools of apps are in each prompt, and differ by the plugin.
    rows = list(agents.unseen())
    assert rows[0][3], rows
