"""A prediction does not depend on the usage of its own turn."""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.talk import Chains
from conftest import CORPUS, recordings
from helpers.strategies import claude_logs
from lore.model.events import Usage, Verdict
from lore.recording.opening import Options

ODD = (None, Usage(), Usage(7, 1, 2, 3, 2, 0), Usage(-1, 2**60, 5))
_counts = st.one_of(st.none(), st.integers(-10, 10**9))
_bills = st.one_of(st.none(), st.builds(Usage, _counts, _counts, _counts, _counts, _counts, _counts))


def predictions(turns):
    cache, forecasts = Chains(), []
    for turn in turns:
        forecasts.append(cache.predict(turn))
        cache.learn(turn)
    return forecasts


def with_bill(turn, usage):
    return msgspec.structs.replace(turn, usage=usage, verdict=Verdict("tools_changed"))


def check(turns, places, usages):
    """Assert that predictions up to each of these turns stay the same if its usage changes."""
    whole = predictions(turns)
    for place in places:
        for usage in usages:
            changed = [*turns[:place], with_bill(turns[place], usage)]
            assert predictions(changed) == whole[: place + 1]


@pytest.mark.parametrize("path", recordings((CORPUS / "claude-code").glob("*.jsonl")))
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
