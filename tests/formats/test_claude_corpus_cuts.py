"""Real Claude Code logs, stopped and gone on with: at 40 random places and at every compaction.

The reader and the session are saved, loaded and gone on with at each place in turn, so one reading passes through
all of them; what it reads and folds to is what one reading without a stop does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.recordings import assert_parts_are_the_whole, of_each
from formats.test_claude_corpus import FILES
from lore.formats.claude.reader import ClaudeCode

pytestmark = pytest.mark.corpus


def compactions(data: bytes) -> list[int]:
    """Where lines of a compaction begin, where they end, and a place inside."""
    found: list[int] = []
    at = 0
    for line in data.split(b"\n"):
        if b'"compact_boundary"' in line or b'"isCompactSummary":true' in line:
            found += [at, at + len(line) // 2, at + len(line) + 1]
        at += len(line) + 1
    return [min(place, len(data)) for place in found]


@of_each(FILES)
def test_a_log_that_is_read_in_parts_is_read_as_a_whole(path: Path) -> None:
    assert_parts_are_the_whole(ClaudeCode, path, compactions(path.read_bytes()))
