"""Verdicts of a recording: whom they speak to."""

from __future__ import annotations

import pytest

from conftest import ROOT
from lore.recording.opening import Options
from lore.run.checking.verdicts import reader_of

FIXTURES = ROOT / "fixtures"


@pytest.mark.parametrize(
    ("path", "reader"),
    [
        ("sessions/plain.jsonl", "author"),  # a log of lore's own, though it holds events as a transcript does
        ("claude-code/compaction.jsonl", "user"),
        ("recordings/clock_in_system.jsonl", "author"),
    ],
)
def test_findings_speak_to_the_user_of_a_transcript_and_else_to_the_author(path, reader):
    recording = Options().open(str(FIXTURES / path))
    assert reader_of(recording, None) == reader
    assert [reader_of(recording, chosen) for chosen in ("author", "user")] == ["author", "user"]
