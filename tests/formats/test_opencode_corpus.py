"""Real exports of OpenCode: requests, tokens, calls and compactions counted again with plain json."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from formats.recordings import absent, figures, of_each, recordings
from lore.commands.fold import fold
from lore.formats.agents.opencode import OpenCode
from lore.recording.opening import Options
from recording.test_opencode_store import stored, written

FILES = recordings("opencode/*.json")
FIELDS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")

pytestmark = pytest.mark.corpus


def plain_counts(path: Path) -> dict[str, Any]:
    """What a person would count: messages of the assistant with a step, the counts of each, calls, summaries."""
    messages = json.loads(path.read_bytes())["messages"]
    answers = [message for message in messages if message["info"]["role"] == "assistant"]
    steps = [message for message in answers if any(part["type"] == "step-start" for part in message["parts"])]
    usage = [message["info"]["tokens"] for message in steps]
    assert all(input_tokens(bill) <= bill["total"] for bill in usage if "total" in bill)
    output = [bill["total"] - input_tokens(bill) if "total" in bill else bill["output"] for bill in usage]
    return {
        "requests": len(steps),
        "usage": [*(sum(counts) for counts in zip(*map(counts_of, usage), strict=True)), sum(output)],
        "calls": [part["callID"] for message in answers for part in message["parts"] if part["type"] == "tool"],
        "compactions": sum(bool(message["info"].get("summary")) for message in answers),
    }


def counts_of(bill: dict[str, Any]) -> tuple[int, int, int]:
    """Counts that leave out one another."""
    return bill["input"], bill["cache"]["read"], bill["cache"]["write"]


def input_tokens(bill: dict[str, Any]) -> int:
    """All of the input."""
    return sum(counts_of(bill))


@of_each(FILES)
def test_counts_equal_those_of_plain_json(path: Path) -> None:
    totals = figures(OpenCode, path, FIELDS)
    assert totals == {**totals, **plain_counts(path)}


COUNTED = """
select count(*), sum(json_extract(data, '$.tokens.input')), sum(json_extract(data, '$.tokens.cache.read')),
       sum(json_extract(data, '$.tokens.cache.write')),
       sum(coalesce(json_extract(data, '$.tokens.total') - json_extract(data, '$.tokens.input')
           - json_extract(data, '$.tokens.cache.read') - json_extract(data, '$.tokens.cache.write'),
           json_extract(data, '$.tokens.output')))
from message where session_id = ? and json_extract(data, '$.role') = 'assistant'
     and exists (select 1 from part where message_id = message.id and json_extract(part.data, '$.type') = 'step-start')
"""


@absent(FILES)
def test_database_and_storage_count_like_sqlite(tmp_path: Path) -> None:
    exports: list[Any] = [Stored(**json.loads(path.read_bytes())) for path in FILES]
    database = written(tmp_path / "opencode.db", *exports)
    storage = stored(tmp_path, *exports) / "session" / "p"
    with closing(sqlite3.connect(database)) as connection:
        for export in exports:
            session = export.info["id"]
            turns, *expected = connection.execute(COUNTED, (session,)).fetchone()
            for name in (f"{database}#{session}", storage / f"{session}.json"):
                result = fold(str(name), Options()).result
                counts = [getattr(result.usage, field) or 0 for field in FIELDS]
                assert (result.session.id, result.usage.turns, counts) == (session, turns, expected)


class Stored(NamedTuple):
    """An export."""

    info: dict[str, Any]
    messages: list[Any]
