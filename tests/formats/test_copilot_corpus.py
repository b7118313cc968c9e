"""Real logs of Copilot CLI: requests, tokens, calls and compactions counted again with plain json."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import folded, of_each, recordings, records
from lore.cache.counts import total
from lore.formats.copilot.reader import Copilot
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import ToolCall
from lore.model.state import FoldedSession
from lore.testing import everything

FILES = recordings("copilot/*.jsonl")

pytestmark = pytest.mark.corpus


def plain_counts(path: Path) -> dict[str, Any]:
    """What a person would count: requests and answers by agent, compactions with their bills, calls."""
    answers = [record for record in records(path) if record["type"] == "assistant.message"]
    compactions = [record["data"] for record in records(path) if record["type"] == "session.compaction_complete"]
    used = [data["compactionTokensUsed"] for data in compactions]
    assert all(0 <= use["cacheReadTokens"] + use["cacheWriteTokens"] <= use["inputTokens"] for use in used)
    written = [record["data"].get("outputTokens") for record in answers]
    return {
        "requests": Counter([record.get("agentId", "main") for record in answers]),
        "output": sum(filter(None, written)) + sum(use["outputTokens"] for use in used),
        "calls": Counter(call["toolCallId"] for record in answers for call in record["data"]["toolRequests"]),
        "compactions": [(use["cacheReadTokens"], use["inputTokens"]) for use in used],
    }


def read(path: Path) -> dict[str, Any]:
    """The same figures from the reader."""
    values = [item.value for item in everything(Copilot(), path.read_bytes())]
    problem_codes = {value.code for value in values if isinstance(value, Problem)}
    assert problem_codes <= {
        Code.FIELDS_FILLED_IN
    }  # a compaction's written tokens may be 0 although Copilot charged for them
    ends = {(value.chain, value.turn): value.usage for value in values if isinstance(value, e.TurnCompleted)}
    utility_usage = [usage for (chain, _), usage in ends.items() if usage and chain.startswith("utility-")]
    items = [value.item for value in values if isinstance(value, e.Append)]
    return {
        "requests": Counter(chain for chain, _ in ends if not chain.startswith("utility-")),
        "output": sum(usage.output_tokens or 0 for usage in ends.values() if usage),
        "calls": Counter(item.call_id for item in items if isinstance(item, ToolCall)),
        "compactions": [(use.read_tokens, total(use)) for use in utility_usage],
    }


@of_each(FILES)
def test_counts_equal_those_of_plain_json(path: Path) -> None:
    assert read(path) == plain_counts(path)


@of_each(FILES)
def test_every_chain_has_its_logged_system_prompt(path: Path) -> None:
    prompts = [
        (record.get("agentId", "main"), record["data"]["content"])
        for record in records(path)
        if record["type"] == "system.message"
    ]
    state = folded(FoldedSession(), everything(Copilot(), path.read_bytes()))
    for chain, text in dict(prompts).items():
        assert json.loads(bytes(state.chains[chain].system)) == text
