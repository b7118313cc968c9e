"""Real captures as sessions: every request is given back, every bill is kept, the verdicts are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from lore.recording.request_session import MARKS, SPACE, WRITTEN_OUT
from recording.test_request_session import Trip, opened
from run.equal import converted, judged

pytestmark = pytest.mark.corpus
COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


def files(corpus):
    return sorted(path for name in ("capture", "vcr") for path in (corpus / name).iterdir())


def test_every_request_is_given_back_and_every_bill_is_kept(corpus):
    for path in files(corpus):
        found = Trip(path.read_bytes(), path.name)
        found.check(MARKS, SPACE, WRITTEN_OUT)
        bills = [one.usage for one, turn in opened(path).exchanges() if turn and one.usage]
        for name in COUNTS:
            billed = sum(getattr(counts, name) or 0 for bill in bills for counts in bill.passes)
            assert sum(getattr(turn, name) or 0 for turn in found.turns) == billed


def test_a_log_is_judged_as_the_capture_was(corpus, tmp_path):
    for path in files(corpus):
        made = tmp_path / f"{path.name}.jsonl"
        made.write_bytes(converted(str(path)))
        of_turns = [[one for one in judged(str(name)) if one.turn is not None] for name in (path, made)]
        before, after = (
            [(one.code, one.chain, one.turn, one.section, one.lost_tokens) for one in some] for some in of_turns
        )
        assert after == before, Path(path).name
