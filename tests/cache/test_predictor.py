"""Predictions of requests: parts that add up, copies of captures, and usage with another lifetime."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import lore
from conftest import CORPUS
from judge.captures import asks, call, put, text, usage
from lore.cache.base import Prediction
from lore.cache.predictor import Predictor, with_lifetime
from lore.model.events import Usage
from lore.model.turn import Prompt, Turn
from lore.recording.opening import Options
from lore.run.rules import load

BILL = Usage(3, 0, 22_500, 10, 22_500, 0)


def cache_state(pause=None):
    return SimpleNamespace(pause=pause, cached=22_000)


def billed(usage):
    return Turn("main", 1, Prompt("anthropic", "reconstructed"), usage=usage)


@pytest.mark.parametrize(
    ("pause", "why", "read"), [(3400.0, "goes-on", 22_000), (60.0, "goes-on", 0), (None, "goes-on", 0),
                               (4000.0, "goes-on", 0), (3400.0, "compaction", 0)],
)  # fmt: skip
def test_loss_that_the_lifetime_outlives_counts_as_read(pause, why, read):
    """Otherwise the read after an expiry was learned as the size of the head."""
    usage = with_lifetime(billed(BILL), 3600.0, cache_state(pause), 300.0, continues=why == "goes-on").usage
    assert (usage.read_tokens, usage.write_tokens) == (read, 22_500 - read)
    assert (usage.write_1h_tokens, usage.write_5m_tokens) == (usage.write_tokens, 0)


@pytest.mark.parametrize("pause", [60.0, 3400.0])
def test_usage_with_this_lifetime_is_unchanged(pause):
    """Otherwise a drop with another cause counted as read: 5 of 29 sessions with one-hour writes gained by it."""
    turn = billed(Usage(3, 0, 22_500, 10, 0, 22_500))
    assert with_lifetime(turn, 3600.0, cache_state(pause), 3600.0, continues=True) is turn


def test_unsplit_writes_have_the_default_lifetime():
    turn = billed(Usage(3, 20_000, 500, 10))
    assert with_lifetime(turn, 300.0, cache_state(), 300.0, continues=True) is turn
    assert with_lifetime(turn, 3600.0, cache_state(), 300.0, continues=True).usage.write_1h_tokens == 500


TALK = [text("user", "Find the bug. " * 80)]
for _number in range(6):
    TALK += [text("assistant", f"Step {_number}."), text("user", f"Go on with {_number}. " * 90)]
_counts = st.integers(0, 30_000)


def adds_up(prediction):
    if prediction.read is None:
        return True
    parts = prediction.read, prediction.write, prediction.uncached
    hour = prediction.write_1h or 0
    return min(parts) >= 0 and sum(parts) == prediction.total and 0 <= hour <= prediction.write


def predicted(*paths, cache=None):
    predictor = Predictor(load(), cache)
    predictions = []
    for path in paths:
        predictor.begin_recording()
        predictions.append([predictor.predict(turn).prediction for turn in Options().open(str(path)).turns()])
    return predictions


def capture(bills, tools=()):
    return [
        call(20.0 * number, asks(*TALK[: 1 + 2 * number], tools=("ls", "cat") if number in tools else ("ls",)), bill)
        for number, bill in enumerate(bills)
    ]


@given(st.lists(st.tuples(_counts, _counts, _counts), min_size=2, max_size=6), st.sets(st.integers(0, 5)))
def test_any_usage_gives_parts_that_add_up(bills, tools):
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder), *capture([usage(*counts) for counts in bills], tools))
        for cache in (None, "openai", "bedrock", "deepseek"):
            (predictions,) = predicted(path, cache=cache)
            assert all(map(adds_up, predictions))


@given(*[st.integers(-9_000, 9_000)] * 4)
def test_fitted_parts_stay_within_the_total(read, write, uncached, hour):
    prediction = Prediction(read, write, uncached, "rule", "", hour)
    fitted = prediction.fitted()
    assert adds_up(fitted)
    assert fitted.total == max(0, read + write + uncached)
    if adds_up(prediction):
        assert fitted == prediction


def test_copied_capture_changes_no_sums(tmp_path):
    calls = capture([usage(0, 7000), usage(0, 7300), usage(7300, 300)], {1})
    alone = put(tmp_path / "one" if (tmp_path / "one").mkdir() is None else tmp_path, *calls)
    both = tmp_path / "both"
    both.mkdir()
    put(both, *calls, name="a.jsonl")
    put(both, *calls, name="b.jsonl")
    checked = [lore("check", str(folder), "--json").json for folder in (alone, both)]
    names = ("turns", "breaks", "waste", "lost_tokens")
    assert [checked[1]["summary"][name] for name in names] == [checked[0]["summary"][name] for name in names]
    assert checked[1]["summary"]["files"] == 1
    assert len(checked[1]["findings"]) == len(checked[0]["findings"])


REAL = sorted(path for kind in ("capture", "vcr") for path in (CORPUS / kind).glob("*")) if CORPUS else []


@pytest.mark.corpus
@pytest.mark.skipif(not REAL, reason="no real recordings (LORE_CORPUS)")
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name[:40])
def test_predictions_of_real_captures_add_up(path):
    first, copy = predicted(path, path)
    assert all(map(adds_up, (*first, *copy)))
