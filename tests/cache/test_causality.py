"""A prediction does not depend on the usage of its own turn."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.talk import Talk
from fuzz.samples import CORPUS
from helpers.strategies import claude_logs
from lore.cache.transcripts import TranscriptCache
from lore.model.events import Usage, Verdict
from lore.recording.opening import Options
from lore.run.rules import packaged

SESSIONS = sorted((CORPUS / "claude-code").glob("*.jsonl"))
ODD = (None, Usage(), Usage(7, 1, 2, 3, 2, 0), Usage(-1, 2**60, 5))
_counts = st.one_of(st.none(), st.integers(-10, 10**9))
_bills = st.one_of(st.none(), st.builds(Usage, _counts, _counts, _counts, _counts, _counts, _counts))


def predictions(turns):
    levels, found = TranscriptCache(packaged()), []
    for turn in turns:
        found.append(levels.predict(turn))
        levels.learn(turn)
    return found


def with_bill(turn, usage):
    return msgspec.structs.replace(turn, usage=usage, verdict=Verdict("tools_changed"))


def check(turns, places, usages):
    """Assert that predictions up to each of these turns stay the same if its usage changes."""
    whole = predictions(turns)
    for place in places:
        for usage in usages:
            changed = [*turns[:place], with_bill(turns[place], usage)]
            assert predictions(changed) == whole[: place + 1]


@pytest.mark.corpus
@pytest.mark.skipif(not SESSIONS, reason="no real recordings (LORE_CORPUS)")
@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name[:30])
def test_real_prediction_ignores_its_own_usage(path):
    turns = list(Options().open(str(path)).turns())
    check(turns, range(1, len(turns), max(1, len(turns) // 6)), ODD)


@given(claude_logs(), _bills, st.data())
def test_generated_prediction_ignores_its_own_usage(data, usage, more):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        path.write_bytes(data)
        turns = list(Options().open(str(path)).turns())
    if turns:
        check(turns, [more.draw(st.integers(0, len(turns) - 1))], (usage,))


@given(
    st.lists(st.tuples(_bills, st.sampled_from(["use", "ask", "compact", "rewind", "model"]), st.integers(-9, 4000)))
)
def test_any_usage_gives_possible_predictions(steps):
    talk = Talk()
    for usage, what, after in steps:
        if what == "model":
            talk.model = "claude-y" if talk.model == "claude-x" else "claude-x"
        elif what == "rewind":
            talk.rewind(len(talk.entries) // 2)
        elif what == "compact":
            talk.compact()
        else:
            talk.ask() if what == "ask" else talk.use()
        found = talk.turn(usage, after=float(after), signs=("hook-context",))
        if found.read is not None:
            assert min(found.read, found.write, found.uncached) >= 0
            assert found.write_1h is None or 0 <= found.write_1h <= found.write
