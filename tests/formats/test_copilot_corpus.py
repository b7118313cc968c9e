"""Real logs of Copilot CLI: requests, tokens, calls and compactions counted again with plain json; parts as whole."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from lore.fold.step import step
from lore.formats.copilot import Copilot
from lore.judge.policy import Budgets
from lore.model import checkpoint
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.items import ToolCall
from lore.model.state import Session
from lore.recording.opening import Options
from lore.run.check import check
from lore.run.folding import fold
from lore.testing import everything

CORPUS = Path(os.environ.get("LORE_CORPUS") or Path(__file__).parents[2].parent / "shared" / "corpus")
FILES = sorted((CORPUS / "copilot").glob("*.jsonl"))
CUTS = 40

pytestmark = pytest.mark.corpus
ABSENT = pytest.mark.skipif(not FILES, reason="no real recordings beside the project (LORE_CORPUS)")


def records(path):
    """Every line of a file."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def counted(path):
    """What a person would count: requests and answers by agent, compactions with their bills, calls."""
    answers = [record for record in records(path) if record["type"] == "assistant.message"]
    done = [record["data"] for record in records(path) if record["type"] == "session.compaction_complete"]
    used = [data["compactionTokensUsed"] for data in done]
    assert all(0 <= use["cacheReadTokens"] + use["cacheWriteTokens"] <= use["inputTokens"] for use in used)
    written = [record["data"].get("outputTokens") for record in answers]
    return {
        "requests": Counter([record.get("agentId", "main") for record in answers]),
        "output": sum(filter(None, written)) + sum(use["outputTokens"] for use in used),
        "calls": Counter(call["toolCallId"] for record in answers for call in record["data"]["toolRequests"]),
        "compactions": [(use["cacheReadTokens"], use["inputTokens"]) for use in used],
    }


def read(path):
    """The same figures from the reader."""
    values = [found.value for found in everything(Copilot(), path.read_bytes())]
    assert not [value for value in values if isinstance(value, Problem)]
    ends = {(value.chain, value.turn): value.usage for value in values if isinstance(value, e.TurnCompleted)}
    own = [usage for (chain, _), usage in ends.items() if chain.startswith("utility-")]
    items = [value.item for value in values if isinstance(value, e.Append)]
    return {
        "requests": Counter(chain for chain, _ in ends if not chain.startswith("utility-")),
        "output": sum(usage.output_tokens or 0 for usage in ends.values() if usage),
        "calls": Counter(item.call_id for item in items if isinstance(item, ToolCall)),
        "compactions": [(use.read_tokens, use.uncached_tokens + use.read_tokens + use.write_tokens) for use in own],
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
    requests = sum(expected["requests"].values()) + len(expected["compactions"])
    assert (summary.turns, summary.compactions) == (requests, len(expected["compactions"]))
    assert (usage.turns, usage.output_tokens or 0) == (requests, expected["output"])
    assert not summary.problems


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_chain_says_the_system_prompt_that_the_log_says(path):
    prompts = [
        (record.get("agentId", "main"), record["data"]["content"])
        for record in records(path)
        if record["type"] == "system.message"
    ]
    state = Session()
    for found in everything(Copilot(), path.read_bytes()):
        state = step(state, found.value).state
    for chain, text in dict(prompts).items():
        assert json.loads(bytes(state.chains[chain].system)) == text


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
    whole = everything(Copilot(), data)
    chance = random.Random(path.name)
    compacted = [data.find(b'"type":"session.compaction_', at) for at in range(0, len(data), len(data) // 8 + 1)]
    places = sorted([*(chance.randint(0, len(data)) for _ in range(CUTS)), *(at for at in compacted if at > 0)])
    reader, session, reads, at = Copilot(), Session(), [], 0
    for place in places:
        found = reader.feed(data[at:place])
        session = folded(session, found)
        reads.extend(found)
        reader, session, at = Copilot.restore(reader.state), checkpoint.load(checkpoint.dump(session)), place
    last = everything(reader, data[at:])
    assert shown([*reads, *last]) == shown(whole)
    assert checkpoint.dump(folded(session, last)) == checkpoint.dump(folded(Session(), whole))
