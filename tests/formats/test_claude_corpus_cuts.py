"""Real Claude Code logs, stopped and gone on with: at 50 random places and at every compaction.

The reader and the session are saved, loaded and gone on with at each place in turn, so one reading passes through
all of them; what it reads and folds to is what one reading without a stop does.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from formats.test_claude_corpus import ABSENT, FILES
from lore.fold.step import step
from lore.formats.claude_code import ClaudeCode
from lore.model import checkpoint
from lore.model.codes import Problem
from lore.model.state import Session
from lore.testing import everything

pytestmark = pytest.mark.corpus
CUTS = 50


def folded(state, reads):
    """Fold events; problems stay out."""
    for read in reads:
        if not isinstance(read.value, Problem):
            state = step(state, read.value).state
    return state


def shown(reads):
    """What was read, so that it can be compared."""
    return [(type(one.value).__name__, msgspec.json.encode(one.value), one.line, one.byte) for one in reads]


def compactions(data: bytes) -> list[int]:
    """Where lines of a compaction begin, where they end, and a place inside."""
    found, at = [], 0
    for line in data.split(b"\n"):
        if b'"compact_boundary"' in line or b'"isCompactSummary":true' in line:
            found += [at, at + len(line) // 2, at + len(line) + 1]
        at += len(line) + 1
    return [min(place, len(data)) for place in found]


@ABSENT
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_log_that_is_read_in_parts_is_read_as_a_whole(path):
    data = path.read_bytes()
    whole = everything(ClaudeCode(), data)
    chance = random.Random(path.name)
    places = sorted([*(chance.randint(0, len(data)) for _ in range(CUTS)), *compactions(data)])
    reader, session, reads, at = ClaudeCode(), Session(), [], 0
    for place in places:
        found = reader.feed(data[at:place])
        session = folded(session, found)
        reads.extend(found)
        reader, session, at = ClaudeCode.restore(reader.state), checkpoint.load(checkpoint.dump(session)), place
    last = everything(reader, data[at:])
    assert shown([*reads, *last]) == shown(whole)
    assert checkpoint.dump(folded(session, last)) == checkpoint.dump(folded(Session(), whole))
