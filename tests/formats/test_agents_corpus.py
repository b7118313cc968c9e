"""Real recordings of other agents: requests, tokens and calls counted again with plain json; read in parts as whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import absent, assert_parts_are_the_whole, judged, of_each, predicted_near, recordings, used
from lore.formats.agents.swe_agent import MiniSweAgent
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.testing import everything

ROO = recordings("cline-roo/*-ui_messages.json")
MINI = recordings("mini-swe-agent/*.json")
FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")

pytestmark = pytest.mark.corpus


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of a message, if any."""
    return message.get("tool_calls") or []


def counted(path: Path) -> dict[str, Any]:
    """What a person would count in a trajectory of mini-swe-agent."""
    messages = json.loads(path.read_bytes())["messages"]
    bills = [message["extra"]["response"]["usage"] for message in messages if message["role"] == "assistant"]
    for bill in bills:
        hit, miss = bill["prompt_cache_hit_tokens"], bill["prompt_cache_miss_tokens"]
        assert 0 <= hit <= bill["prompt_tokens"] == hit + miss  # inclusive
    return {
        "requests": len(bills),
        "usage": [
            sum(bill[name] for bill in bills)
            for name in ("prompt_cache_miss_tokens", "prompt_cache_hit_tokens", "completion_tokens")
        ],
        "calls": sorted(call["id"] for message in messages for call in calls_of(message)),
    }


@of_each(MINI)
def test_mini_swe_agent_counts_what_plain_json_counts(path: Path) -> None:
    expected = counted(path)
    values = [found.value for found in everything(MiniSweAgent(), path.read_bytes())]
    assert not [value for value in values if isinstance(value, Problem)]
    bills = [value.usage for value in values if isinstance(value, e.TurnCompleted)]
    items = [value.item for value in values if isinstance(value, e.Append)]
    assert {
        "requests": len(bills),
        "usage": [sum(getattr(bill, name) for bill in bills) for name in FIELDS],
        "calls": sorted(item.call_id for item in items if isinstance(item, ToolCall)),
    } == expected
    summary = judged(path)
    usage = used(path)
    assert (summary.turns, usage.turns, summary.problems) == (expected["requests"], expected["requests"], 0)
    assert [getattr(usage, name) for name in FIELDS] == expected["usage"]


@of_each(MINI)
def test_read_and_folded_in_parts_it_is_what_it_is_as_a_whole(path: Path) -> None:
    assert_parts_are_the_whole(MiniSweAgent, path)


@absent(MINI)
def test_reads_of_deepseek_are_predicted_better_than_by_the_previous_input() -> None:
    near = predicted_near(MINI)
    assert near.predicted / near.turns >= 0.7
    assert near.predicted > near.previous


def roo_counted(path: Path) -> tuple[int, list[int]]:
    """What a person would count in the records of a screen: requests, and the bills of those that have one."""
    shown = [
        json.loads(record["text"]) for record in json.loads(path.read_bytes()) if record.get("say") == "api_req_started"
    ]
    bills = [request for request in shown if "tokensIn" in request]
    usage = [0, 0, 0]
    for bill in bills:
        whole, read = bill["tokensIn"], bill["cacheReads"]
        if bill.get("apiProtocol") == "openai":
            assert read <= whole  # inclusive
            whole -= read + bill["cacheWrites"]
        usage = [count + more for count, more in zip(usage, (whole, read, bill["tokensOut"]), strict=True)]
    return len(shown), usage


@pytest.mark.parametrize("joined", [False, True])
@of_each(ROO)
def test_roo_counts_what_plain_json_counts(path: Path, joined: bool, tmp_path: Path) -> None:
    """The screen's file alone, and the task that it belongs to."""
    for name in ("ui_messages.json", "api_conversation_history.json", "task_metadata.json")[: 3 if joined else 1]:
        file = path.with_name(path.name.replace("ui_messages.json", name))
        if file.exists():
            shutil.copyfile(file, tmp_path / name)
    turns, expected = roo_counted(path)
    named = [tmp_path, tmp_path / "ui_messages.json"]
    for name in named:
        summary = judged(name)
        usage = used(named[1])
        assert (summary.turns, usage.turns, summary.problems, summary.files) == (turns, turns, 0, 1)
        assert [getattr(usage, field) for field in FIELDS] == expected
