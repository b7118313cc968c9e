"""DeepSeek, which does not keep the unit of every request: what the request before read is there, its own perhaps."""

from __future__ import annotations

import pytest

from lore.cache.predictor import Predictor
from lore.recording.opening import Options
from lore.run.rules import packaged
from lore_plugins.formats.swe_agent import MiniSweAgent
from plugins.formats.test_mini_swe_agent import SYSTEM, TASK, answer, result, trajectory, usage


def predictions(tmp_path, bills):
    """What is predicted of requests that were billed so: (whole, read)."""
    messages = [SYSTEM, TASK]
    for number, (whole, read) in enumerate(bills, 1):
        messages += [
            answer(number, usage(whole, read), "ls"),
            result(f"c{number}.0", "x" * 4000, 1.7e9 + 10 * number + 8),
        ]
    path = tmp_path / "run.traj.json"
    path.write_bytes(trajectory(*messages))
    predictor = Predictor(packaged())
    recording = Options().open(str(path))
    assert type(recording.reader) is MiniSweAgent
    return [predictor.turn(turn).prediction for turn in recording.turns()]


def test_a_read_that_stays_where_it_was_is_an_outcome(tmp_path):
    found = predictions(tmp_path, [(2000, 0), (3000, 1984), (4000, 1984), (5000, 1984)])
    reads = {outcome.read: outcome.probability for outcome in found[3].outcomes}
    assert set(reads) == {1984, 4000}  # the unit that the request before read, and its own input
    assert sum(reads.values()) == pytest.approx(1)
    assert found[3].read == 1984


def test_a_session_whose_units_are_kept_shows_it(tmp_path):
    bills = [(2000 + 1000 * number, max(0, (1000 + 1000 * number) // 64 * 64)) for number in range(10)]
    found = predictions(tmp_path, [(2000, 0), *bills[1:]])
    assert found[9].read == 10_000
    kept = next(outcome for outcome in found[9].outcomes if outcome.read == found[9].read)
    assert kept.probability > 0.7
