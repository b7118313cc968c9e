"""Real Codex rollouts: requests, tokens, calls and compactions counted again with plain json; read in parts as whole.

A request is a change of the sums; where they grew by more than the last response was billed, the rest is one more: that
of a response which was interrupted before its bill was written.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from bench import agents
from lore.cache.bills import total
from lore.cache.predictor import Predictor
from lore.fold.step import step
from lore.formats.codex import Codex
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
FILES = sorted((CORPUS / "codex").glob("*.jsonl"))
NAMES = ("input_tokens", "cached_input_tokens", "output_tokens")
FIELDS = ("uncached_tokens", "read_tokens", "output_tokens")
MADE = ("reasoning", "function_call", "custom_tool_call", "web_search_call", "tool_search_call", "local_shell_call")
CALLS = ("function_call", "custom_tool_call", "tool_search_call", "local_shell_call")
CUTS = 40

pytestmark = pytest.mark.corpus
ABSENT = pytest.mark.skipif(not FILES, reason="no real recordings beside the project (LORE_CORPUS)")


def records(path):
    """Every line of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def changes(path):
    """Where the sums of a file change: the number of the record, the sums, the last bill, and what was not in it."""
    before = None
    for number, record in enumerate(records(path), 1):
        info = record["payload"].get("info") if record["type"] == "event_msg" else None
        if info and info["total_token_usage"] != before:
            total, last = info["total_token_usage"], info["last_token_usage"]
            rest = [total[name] - last[name] - (before or {}).get(name, 0) for name in NAMES]
            yield number, [total[name] for name in NAMES], [last[name] for name in NAMES], rest
            before = total


def counted(path):
    """What a person would count: requests by changed sums, the counts of each, calls, compactions."""
    found = list(changes(path))
    bills = [bill for _, _, last, rest in found for bill in (last, rest) if any(bill)]
    sums = [sum(counts) for counts in zip(*bills, strict=True)]
    assert all(0 <= cached <= whole for whole, cached, _ in bills)
    assert sums == found[-1][1]
    payloads = [record["payload"] for record in records(path) if record["type"] == "response_item"]
    return {
        "requests": len(bills),
        "usage": [sums[0] - sums[1], *sums[1:]],
        "calls": Counter(payload["call_id"] for payload in payloads if payload["type"] in CALLS),
        "compactions": sum(record["type"] == "compacted" for record in records(path)),
    }


def read(path):
    """The same figures from the reader."""
    values = [found.value for found in everything(Codex(), path.read_bytes())]
    ends = [value.usage for value in values if isinstance(value, e.TurnCompleted)]
    items = [value.item for value in values if isinstance(value, e.Append)]
    assert not [value for value in values if isinstance(value, Problem)]
    return {
        "requests": sum(isinstance(value, e.TurnStarted) for value in values),
        "usage": [sum(getattr(bill, name) for bill in ends) for name in FIELDS],
        "calls": Counter(item.call_id for item in items if isinstance(item, ToolCall)),
        "compactions": sum(isinstance(value, e.CompactApplied) for value in values),
    }


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_reader_counts_what_plain_json_counts(path):
    assert read(path) == counted(path)


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_commands_count_what_plain_json_counts(path):
    expected = counted(path)
    summary = check([str(path)], Budgets(), Options()).result.summary
    usage = fold(str(path), Options()).result.usage
    assert (summary.turns, summary.compactions) == (expected["requests"], expected["compactions"])
    assert usage.turns == expected["requests"]
    assert [getattr(usage, name) for name in FIELDS] == expected["usage"]
    assert not summary.problems


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_request_begins_where_the_model_began_to_speak(path):
    starts = {found.line for found in everything(Codex(), path.read_bytes()) if isinstance(found.value, e.TurnStarted)}
    runs, run = [], False
    for number, record in enumerate(records(path), 1):
        payload = record["payload"]
        if record["type"] == "response_item":
            spoken = payload["type"] in MADE or payload.get("role") == "assistant"
            runs += [number] if spoken and not run else []
            run = spoken
    expected, at = set(), 0
    for number, _, _, rest in changes(path):
        since = [begin for begin in runs if at < begin < number]
        expected.update(since[-2:] if any(rest) else since[-1:])
        at = number
    assert starts == expected


def folded(state, reads):
    """Fold events; problems stay out."""
    for found in reads:
        if not isinstance(found.value, Problem):
            state = step(state, found.value).state
    return state


def shown(reads):
    """What was read, so that it can be compared."""
    return [(type(found.value).__name__, msgspec.json.encode(found.value), found.line, found.byte) for found in reads]


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_log_that_is_read_in_parts_is_read_as_a_whole(path):
    data = path.read_bytes()
    whole = everything(Codex(), data)
    chance = random.Random(path.name)
    compacted = [data.find(b'"type":"compacted"', at) for at in range(0, len(data), len(data) // 8 + 1)]
    places = sorted([*(chance.randint(0, len(data)) for _ in range(CUTS)), *(at for at in compacted if at > 0)])
    reader, session, reads, at = Codex(), Session(), [], 0
    for place in places:
        found = reader.feed(data[at:place])
        session = folded(session, found)
        reads.extend(found)
        reader, session, at = Codex.restore(reader.state), checkpoint.load(checkpoint.dump(session)), place
    last = everything(reader, data[at:])
    assert shown([*reads, *last]) == shown(whole)
    assert checkpoint.dump(folded(session, last)) == checkpoint.dump(folded(Session(), whole))


@ABSENT
def test_reads_are_predicted_better_than_by_the_previous_input():
    near = previous = count = 0
    for path in FILES:
        predictor, before = Predictor(packaged()), None
        for turn in Options().open(str(path)).turns():
            read, whole, predicted = turn.usage.read_tokens, total(turn.usage), predictor.turn(turn).prediction.read
            if before is not None and predicted is not None:
                count += 1
                near += abs(predicted - read) <= 0.02 * whole
                previous += abs(min(before, whole) - read) <= 0.02 * whole
            before = whole
    assert near / count >= 0.86
    assert near > previous


@ABSENT
def test_what_the_logs_lack_is_the_same_where_the_same_tools_are_connected():
    """A version alone does not tell: before 0.140 the tools of apps stand in each prompt, and differ by the plugin."""
    rows = list(agents.unseen())
    assert rows[0][3], rows
