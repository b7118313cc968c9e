"""Real trajectories of mini-swe-agent: requests, tokens and calls are counted again with plain json."""

import json
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import absent, judged, of_each, recordings, used
from lore.cache.predictor import Predictor
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.recording.opening import Options
from lore.run.rules import packaged
from lore.testing import everything
from lore_plugins.formats.swe_agent import MiniSweAgent

MINI = recordings("mini-swe-agent/*.json")
FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")

pytestmark = pytest.mark.corpus


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message.get("tool_calls") or []


def counted(path: Path) -> dict[str, Any]:
    """Requests, tokens and calls of a trajectory, counted with plain json."""
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


@absent(MINI)
def test_deepseek_reads_are_predicted_to_the_block() -> None:
    """The other reads fell short of the previous prompt by more than its answer; no request explains that."""
    exact = turns = 0
    for path in MINI:
        predictor = Predictor(packaged())
        for turn in Options().open(str(path)).turns():
            read, predicted = turn.usage.read_tokens, predictor.predict(turn).prediction.read
            turns += predicted is not None
            exact += predicted is not None and 0 < read == predicted
    assert exact / turns >= 0.4
