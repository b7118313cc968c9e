"""Real exports of OpenCode: requests, tokens, calls and compactions counted again with plain json, read in parts."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from lore.fold.step import step
from lore.formats.opencode import OpenCode
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
from recording.test_opencode_store import stored, written

CORPUS = Path(os.environ.get("LORE_CORPUS") or Path(__file__).parents[2].parent / "shared" / "corpus")
FILES = sorted((CORPUS / "opencode").glob("*.json"))
FIELDS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")
CUTS = 40

pytestmark = pytest.mark.corpus
ABSENT = pytest.mark.skipif(not FILES, reason="no real recordings beside the project (LORE_CORPUS)")


def counted(path):
    """What a person would count: messages of the assistant with a step, the counts of each, calls, summaries."""
    messages = json.loads(path.read_bytes())["messages"]
    answers = [message for message in messages if message["info"]["role"] == "assistant"]
    steps = [message for message in answers if any(part["type"] == "step-start" for part in message["parts"])]
    usage = [message["info"]["tokens"] for message in steps]
    assert all(sent(bill) <= bill["total"] for bill in usage if "total" in bill)
    output = [bill["total"] - sent(bill) if "total" in bill else bill["output"] for bill in usage]
    return {
        "requests": len(steps),
        "usage": [*(sum(counts) for counts in zip(*map(counts_of, usage), strict=True)), sum(output)],
        "calls": [part["callID"] for message in answers for part in message["parts"] if part["type"] == "tool"],
        "compactions": sum(bool(message["info"].get("summary")) for message in answers),
    }


def counts_of(bill):
    """Counts that leave out one another."""
    return bill["input"], bill["cache"]["read"], bill["cache"]["write"]


def sent(bill):
    """All of the input."""
    return sum(counts_of(bill))


def read(path):
    """The same figures from the reader."""
    values = [found.value for found in everything(OpenCode(), path.read_bytes())]
    ends = [value.usage for value in values if isinstance(value, e.TurnCompleted | e.TurnFailed | e.TurnCanceled)]
    bills = [bill for bill in ends if bill is not None]
    items = [value.item for value in values if isinstance(value, e.Append)]
    assert not [value for value in values if isinstance(value, Problem)]
    return {
        "requests": sum(isinstance(value, e.TurnStarted) for value in values),
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


COUNTED = """
select count(*), sum(json_extract(data, '$.tokens.input')), sum(json_extract(data, '$.tokens.cache.read')),
       sum(json_extract(data, '$.tokens.cache.write')),
       sum(coalesce(json_extract(data, '$.tokens.total') - json_extract(data, '$.tokens.input')
           - json_extract(data, '$.tokens.cache.read') - json_extract(data, '$.tokens.cache.write'),
           json_extract(data, '$.tokens.output')))
from message where session_id = ? and json_extract(data, '$.role') = 'assistant'
     and exists (select 1 from part where message_id = message.id and json_extract(part.data, '$.type') = 'step-start')
"""


@ABSENT
def test_in_a_database_and_a_storage_folder_they_count_what_sqlite_counts(tmp_path):
    exports = [Stored(**json.loads(path.read_bytes())) for path in FILES]
    database = written(tmp_path / "opencode.db", *exports)
    storage = stored(tmp_path, *exports) / "session" / "p"
    with closing(sqlite3.connect(database)) as connection:
        for made in exports:
            session = made.info["id"]
            turns, *expected = connection.execute(COUNTED, (session,)).fetchone()
            for name in (f"{database}#{session}", storage / f"{session}.json"):
                result = fold(str(name), Options()).result
                found = [getattr(result.usage, field) or 0 for field in FIELDS]
                assert (result.session.id, result.usage.turns, found) == (session, turns, expected)


class Stored(NamedTuple):
    """An export."""

    info: dict
    messages: list


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
    whole = everything(OpenCode(), data)
    chance = random.Random(path.name)
    compacted = [data.find(b'"type": "compaction"', at) for at in range(0, len(data), len(data) // 8 + 1)]
    places = sorted([*(chance.randint(0, len(data)) for _ in range(CUTS)), *(at for at in compacted if at > 0)])
    reader, session, reads, at = OpenCode(), Session(), [], 0
    for place in places:
        found = reader.feed(data[at:place])
        session = folded(session, found)
        reads.extend(found)
        reader, session, at = OpenCode.restore(reader.state), checkpoint.load(checkpoint.dump(session)), place
    last = everything(reader, data[at:])
    assert shown([*reads, *last]) == shown(whole)
    assert checkpoint.dump(folded(session, last)) == checkpoint.dump(folded(Session(), whole))
