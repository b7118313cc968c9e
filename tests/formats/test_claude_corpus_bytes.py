"""Real Claude Code logs, byte by byte: every line was read at its place, or is of a kind known to say nothing.

Nothing of lore's readers tells the test what a line is: lines are cut at LF and read with plain json.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from formats.recordings import of_each
from formats.test_claude_corpus import FILES
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.codes import Problem
from lore.testing import everything

pytestmark = pytest.mark.corpus
SILENT = {  # types that tell the model nothing, as counted over 769 sessions
    "progress", "file-history-snapshot", "file-history-delta", "queue-operation", "last-prompt", "mode",
    "permission-mode", "custom-title", "ai-title", "agent-name", "pr-link", "bridge-session", "summary", "frame-link",
}  # fmt: skip


def is_silent(record: dict[str, Any]) -> bool:
    """Tell whether a line need not show in what was read."""
    if record["type"] == "system":
        compacted: dict[str, Any] = record.get("microcompactMetadata") or {}
        cleared = compacted.get("compactedToolIds")
        return record.get("subtype") != "compact_boundary" and not cleared
    return record["type"] in SILENT or (record["type"] == "user" and bool(record.get("isVisibleInTranscriptOnly")))


def lines_of(data: bytes) -> dict[tuple[int, int], bytes]:
    """The lines that are not blank, by number and offset."""
    found: dict[tuple[int, int], bytes] = {}
    at = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            found[number, at] = line
        at += len(line) + 1
    return found


@of_each(FILES)
def test_every_line_was_read_at_its_place_or_says_nothing(path: Path) -> None:
    data = path.read_bytes()
    lines = lines_of(data)
    reads = everything(ClaudeCode(), data)
    places = {(one.line, one.byte) for one in reads}
    assert places <= lines.keys()
    known: Counter[str] = Counter()
    for place, line in lines.items():
        try:
            record = json.loads(line)
        except ValueError:  # two objects on one line: said so, at the line
            assert any((one.line, one.byte) == place and isinstance(one.value, Problem) for one in reads)
            known["told"] += 1
            continue
        known["read" if place in places else "silent" if is_silent(record) else "lost"] += 1
    assert known["lost"] == 0
    assert sum(known.values()) == len(lines)


@of_each(FILES)
def test_no_line_that_says_nothing_makes_an_event(path: Path) -> None:
    data = path.read_bytes()
    lines = lines_of(data)
    for read in everything(ClaudeCode(), data):
        if not isinstance(read.value, e.Append | e.TurnStarted | e.PatchToolCall | e.CompactApplied):
            continue
        try:
            record = json.loads(lines[read.line, read.byte])
        except ValueError:
            continue
        assert record["type"] not in SILENT


@of_each(FILES)
def test_what_comes_after_the_file_has_its_place(path: Path) -> None:
    """A broken line put behind it is met where plain counting puts it: no byte and no line was missed before."""
    data = path.read_bytes().rstrip(b"\n") + b"\n"
    last = everything(ClaudeCode(), data + b"{broken")
    (problem,) = (one.value for one in last if isinstance(one.value, Problem) and one.value.code == "LORE202")
    assert (problem.line, problem.byte) == (data.count(b"\n") + 1, len(data))
