"""Real recordings of other agents: requests, tokens and calls counted again with plain json; read in parts as whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from lore.cache.bills import total
from lore.cache.predictor import Predictor
from lore.fold.step import step
from lore.formats.mini_swe_agent import MiniSweAgent
from lore.judge.policy import Budgets
from lore.model import checkpoint
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.model.state import Session
from lore.recording.opening import Options
from lore.run.check import check
from lore.run.folding import fold
from lore.run.rules import packaged
from lore.testing import everything

CORPUS = Path(os.environ.get("LORE_CORPUS") or Path(__file__).parents[2].parent / "shared" / "corpus")
ROO = sorted((CORPUS / "cline-roo").glob("*-ui_messages.json"))
MINI = sorted((CORPUS / "mini-swe-agent").glob("*.json"))
FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")
CUTS = 40

pytestmark = pytest.mark.corpus
ABSENT = pytest.mark.skipif(not MINI, reason="no real recordings beside the project (LORE_CORPUS)")


def counted(path):
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
        "calls": sorted(call["id"] for message in messages for call in message.get("tool_calls") or []),
    }


@ABSENT
@pytest.mark.parametrize("path", MINI, ids=lambda path: path.name)
def test_mini_swe_agent_counts_what_plain_json_counts(path):
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
    summary = check([str(path)], Budgets(), Options()).result.summary
    usage = fold(str(path), Options()).result.usage
    assert (summary.turns, usage.turns, summary.problems) == (expected["requests"], expected["requests"], 0)
    assert [getattr(usage, name) for name in FIELDS] == expected["usage"]


@ABSENT
@pytest.mark.parametrize("path", MINI, ids=lambda path: path.name)
def test_read_and_folded_in_parts_it_is_what_it_is_as_a_whole(path):
    data = path.read_bytes()
    whole = everything(MiniSweAgent(), data)
    for cut in range(0, len(data), len(data) // CUTS + 1):
        reader = MiniSweAgent()
        first = [*reader.feed(data[:cut])]
        session = checkpoint.load(checkpoint.dump(folded(Session(), first)))
        last = everything(MiniSweAgent.restore(reader.state), data[cut:])
        assert shown([*first, *last]) == shown(whole), cut
        assert checkpoint.dump(folded(session, last)) == checkpoint.dump(folded(Session(), whole)), cut


@ABSENT
def test_reads_of_deepseek_are_predicted_better_than_by_the_previous_input():
    near = previous = count = 0
    for path in MINI:
        predictor, before = Predictor(packaged()), None
        for turn in Options().open(str(path)).turns():
            read, whole, predicted = turn.usage.read_tokens, total(turn.usage), predictor.turn(turn).prediction.read
            if before is not None and predicted is not None:
                count += 1
                near += abs(predicted - read) <= 0.02 * whole
                previous += abs(min(before, whole) - read) <= 0.02 * whole
            before = whole
    assert near / count >= 0.7
    assert near > previous


def roo_counted(path):
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


@ABSENT
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("path", ROO, ids=lambda path: path.name)
def test_roo_counts_what_plain_json_counts(path, joined, tmp_path):
    """The screen's file alone, and the task that it belongs to."""
    for name in ("ui_messages.json", "api_conversation_history.json", "task_metadata.json")[: 3 if joined else 1]:
        file = path.with_name(path.name.replace("ui_messages.json", name))
        if file.exists():
            shutil.copyfile(file, tmp_path / name)
    turns, expected = roo_counted(path)
    named = [str(tmp_path), str(tmp_path / "ui_messages.json")]
    for name in named:
        summary = check([name], Budgets(), Options()).result.summary
        usage = fold(named[1], Options()).result.usage
        assert (summary.turns, usage.turns, summary.problems, summary.files) == (turns, turns, 0, 1)
        assert [getattr(usage, field) for field in FIELDS] == expected


def folded(session, reads):
    """The session after these reads."""
    for found in reads:
        if not isinstance(found.value, Problem):
            session, _ = step(session, found.value)
    return session


def shown(reads):
    """Reads as bytes that can be compared."""
    return [(msgspec.json.encode(found.value), found.line, found.byte) for found in reads]
