"""Turns of `lore simulate` that are compared with their usage, and accuracy on real recordings."""

from pathlib import Path

import pytest

from cache.talk import Talk, bill
from fuzz.samples import CORPUS
from lore.cache.counts import DROP
from lore.cache.predictor import Predictor
from lore.formats.claude.reader import ClaudeCode
from lore.judge.agreement import measure_agreement
from lore.recording.base import Problems, Recording
from lore.recording.opening import Options
from lore.run.checking.verdicts import CheckContext
from lore.run.rules import packaged
from lore.run.simulation import Simulation, simulate

CASSETTES = Path(__file__).parents[2] / "fixtures" / "captures" / "vcr"
SESSIONS = sorted((CORPUS / "claude-code").glob("*.jsonl"))
real = pytest.mark.skipif(not SESSIONS, reason="no real recordings (LORE_CORPUS)")


class ListedTurns(Recording):
    """A transcript with given turns."""

    def __init__(self, turns):
        super().__init__("talk", ClaudeCode(), (), Problems(), Options())
        self._turns = turns

    def turns(self):
        return iter(self._turns)


def simulation_of():
    return Simulation(Predictor(packaged()))


def _turns(*bills, responses=None):
    talk, turns = Talk(), []
    for number, usage in enumerate(bills):
        talk.use()
        talk.turn(usage, response=None if responses is None else responses[number])
        turns.append(talk.last)
    return turns


def test_copied_response_is_compared_once():
    turns = _turns(bill(0, 5_000), bill(5_000, 10), bill(5_010, 10), responses=("a", "b", "c"))
    simulation = simulation_of()
    assert sum(outcome.row is not None for outcome in simulation.recording(ListedTurns(turns))) == 2
    assert list(simulation.recording(ListedTurns(turns))) == []
    assert simulation.copies.count == 3


def test_responses_with_a_constant_id_are_not_copies():
    turns = _turns(bill(0, 5_000), bill(5_000, 10), bill(5_000, 10), responses=("a", "a", "a"))
    simulation = simulation_of()
    assert len(list(simulation.recording(ListedTurns(turns)))) == 3
    assert simulation.copies.count == 0


def test_turn_without_possible_usage_is_not_compared():
    turns = _turns(bill(0, 5_000), None, bill(5_000, 10), bill(-1, 10), bill(5_010, 10))
    assert [outcome.row for outcome in simulation_of().recording(ListedTurns(turns))] == [None] * 5


def test_finding_about_copied_turn_names_no_other_recording():
    paths = [str(CASSETTES / name) for name in ("betamax.json", "breaks.yaml")]
    (result,) = simulate(paths, CheckContext())
    first, *_ = result.turns
    assert (first.path, first.turn, first.causes) == (paths[0], 1, [])  # LORE151 is about turn 1 of breaks.yaml


def _of(paths):
    simulation = simulation_of()
    every = [outcome for path in paths for outcome in simulation.recording(Options().open(str(path)))]
    return [outcome for outcome in every if outcome.row is not None]


@pytest.mark.corpus
@real
def test_real_sessions_are_predicted_accurately():
    turns = _of(SESSIONS)
    agreement = measure_agreement([turn.row for turn in turns])
    drops = [turn for turn in turns if turn.row.billed < turn.row.naive - DROP]
    assert agreement.turns > 1_500
    assert agreement.within_2_percent >= 0.975 * agreement.turns
    assert agreement.exact >= sum(turn.row.naive == turn.row.billed for turn in turns)
    assert agreement.mean_absolute_error_tokens <= 0.6 * agreement.naive_mean_absolute_error_tokens
    assert agreement.drops_predicted >= 0.45 * agreement.drops
    assert agreement.false_drops < 0.05 * agreement.drops_predicted
    assert all(turn.result.cause is not None and turn.result.cause.evidence for turn in drops)
    unexplained = [turn.result.cause for turn in drops if turn.result.cause.code == "LORE301"]
    assert unexplained
    assert all(cause.ruled_out for cause in unexplained)
