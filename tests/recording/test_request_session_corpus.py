"""Real captures as sessions: every text and every usage is kept, the verdicts are the same."""

import pytest

from conftest import CORPUS, recordings
from lore.model.codes import Code
from recording.test_request_session import Trip, opened, texts_in
from run.equal import converted, judged

SHAPE = Code.CONTENT_SHAPE_CHANGED
# Advice on single requests is for recorded bodies; a log has none.
LEFT_OUT = {SHAPE, Code.PROMPT_UNDER_MINIMUM, Code.VARYING_TEXT_IN_PREFIX, Code.TOOLS_UNSORTED, Code.IMAGE_BEFORE_TEXT,
            Code.CACHE_KEY_MISSING, Code.BREAKPOINT_NOT_TAKEN}  # fmt: skip
# What a compaction leaves unread is estimated from bytes, of which a body and a log have different numbers.
ESTIMATED = {Code.COMPACTION, Code.COLD_COMPACTION}
COUNTS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")


CAPTURES = recordings(file for name in ("capture", "vcr") for file in CORPUS.glob(f"{name}/*"))


@pytest.mark.parametrize("path", CAPTURES)
def test_captures_keep_their_texts_and_usage(path):
    round_trip = Trip(path.read_bytes(), path.name)
    assert not round_trip.problems.kept
    for name, prompt in round_trip.sent.items():
        assert sorted(texts_in(round_trip.made[name])) == sorted(texts_in(prompt)), name
    usage = [entry.usage for entry, turn in opened(path).exchanges() if turn and entry.usage]
    for name in COUNTS:
        billed = sum(getattr(counts, name) or 0 for entry in usage for counts in entry.passes)
        assert sum(getattr(turn, name) or 0 for turn in round_trip.rows) == billed


@pytest.mark.parametrize("path", CAPTURES)
def test_converted_log_is_judged_like_its_capture(path, tmp_path):
    """Except for a content that is a text now and a list of one text then: the layout writes one shape."""
    converted_path = tmp_path / f"{path.name}.jsonl"
    converted_path.write_bytes(converted(str(path)))
    of_turns = [
        [finding for finding in judged(str(name)) if finding.turn is not None] for name in (path, converted_path)
    ]
    before, after = (
        [
            (
                finding.code,
                finding.chain,
                finding.turn,
                finding.section,
                None if finding.code in ESTIMATED else finding.lost_tokens,
            )
            for finding in some
            if finding.code not in LEFT_OUT and getattr(finding.evidence, "spelling", "") != "shape"
        ]
        for some in of_turns
    )
    assert after == before
