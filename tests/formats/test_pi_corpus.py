"""Real sessions of pi: requests, tokens, calls and compactions counted again with plain json, read in parts."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import msgspec
import pytest

from lore.fold.step import step
from lore.formats.pi import Pi
from lore.judge.policy import Budgets
from lore.model import checkpoint
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import ToolCall
from lore.model.state import Session
from lore.recording.opening import Options
from lore.run.check import check
from lore.run.folding import fold
from lore.testing import everything

CORPUS = Path(os.environ.get("LORE_CORPUS") or Path(__file__).parents[2].parent / "shared" / "corpus")
FILES = sorted((CORPUS / "pi").glob("*.jsonl"))
NAMES = ("input", "cacheRead", "cacheWrite", "output")
FIELDS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")
SUMMARIES = ("compaction", "branch_summary")
CUTS = 40

pytestmark = pytest.mark.corpus
ABSENT = pytest.mark.skipif(not FILES, reason="no real recordings beside the project (LORE_CORPUS)")


def records(path):
    """Every record of a file: a line may hold two."""
    found, decoder = [], json.JSONDecoder()
    for line in path.read_text("utf-8").split("\n"):
        at = 0
        while at < len(line):
            record, at = decoder.raw_decode(line, at)
            found.append(record)
    return found


def counted(path):
    """What a person would count: answers and billed summaries, the counts of each, calls that later prompts hold."""
    every = records(path)
    answers = [record["message"] for record in every if record.get("message", {}).get("role") == "assistant"]
    summaries = [record["usage"] for record in every if record["type"] in SUMMARIES and "usage" in record]
    usage = [*(answer["usage"] for answer in answers), *summaries]
    assert all(bill["totalTokens"] == sum(bill[name] for name in NAMES) for bill in usage if "totalTokens" in bill)
    said = [answer for answer in answers if answer["stopReason"] not in ("aborted", "error")]
    return {
        "requests": len(answers) + len(summaries),
        "billed": sum(any(bill[name] for name in NAMES) for bill in usage),
        "usage": [sum(bill[name] for bill in usage) for name in NAMES],
        "calls": [block["id"] for answer in said for block in answer["content"] if block["type"] == "toolCall"],
        "compactions": sum(record["type"] == "compaction" for record in every),
    }


def read(path):
    """The same figures from the reader."""
    values = [found.value for found in everything(Pi(), path.read_bytes())]
    ends = [value.usage for value in values if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    bills = [bill for bill in ends if bill is not None]
    items = [value.item for value in values if isinstance(value, e.Append)]
    assert {value.code for value in values if isinstance(value, Problem)} <= {Code.JOINED_LINES}
    return {
        "requests": sum(isinstance(value, e.TurnStarted) for value in values),
        "billed": len(bills),
        "usage": [sum(getattr(bill, name) or 0 for bill in bills) for name in FIELDS],
        "calls": [item.call_id for item in items if isinstance(item, ToolCall)],
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
    assert [getattr(usage, name) or 0 for name in FIELDS] == expected["usage"]


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
    whole = everything(Pi(), data)
    chance = random.Random(path.name)
    compacted = [data.find(b'"type":"compaction"', at) for at in range(0, len(data), len(data) // 8 + 1)]
    places = sorted([*(chance.randint(0, len(data)) for _ in range(CUTS)), *(at for at in compacted if at > 0)])
    reader, session, reads, at = Pi(), Session(), [], 0
    for place in places:
        found = reader.feed(data[at:place])
        session = folded(session, found)
        reads.extend(found)
        reader, session, at = Pi.restore(reader.state), checkpoint.load(checkpoint.dump(session)), place
    last = everything(reader, data[at:])
    assert shown([*reads, *last]) == shown(whole)
    assert checkpoint.dump(folded(session, last)) == checkpoint.dump(folded(Session(), whole))
