"""Agreement: what is counted, and what the level model reaches on real sessions."""

from __future__ import annotations

import pytest

from cache.talk import Talk, bill
from fuzz.samples import CORPUS
from lore.check.agreement import Agreement, Row, agreement
from lore.check.simulated import simulated
from lore.run.recording import Recording

SESSIONS = sorted((CORPUS / "claude-code").glob("*.jsonl"))
real = pytest.mark.skipif(not SESSIONS, reason="no real recordings beside the project (LORE_CORPUS)")


def test_exact_near_and_far_are_counted_for_both_rules():
    found = agreement([Row(100, 100, 100), Row(100, 98, 110), Row(100, 90, 100)])
    assert (found.turns, found.exact, found.within, found.error) == (3, 1, 2, 12)
    assert (found.naive_exact, found.naive_within, found.naive_error) == (2, 2, 10)
    assert (found.mean_error, found.naive_mean_error) == (4.0, 10 / 3)


def test_drops_are_foreseen_missed_or_false():
    rows = [
        Row(0, 0, 5_000),
        Row(0, 5_000, 5_000),
        Row(5_000, 0, 5_000),
        Row(4_000, 4_500, 5_000),
        Row(0, 2_000, 5_000),
    ]
    found = agreement(rows)
    assert (found.drops, found.foreseen, found.false_drops) == (3, 2, 1)


def test_silence_is_compared_as_the_naive_rule():
    assert agreement([Row(90, None, 100)]).error == 10


def test_of_nothing_there_is_no_mean():
    assert agreement([]).mean_error is None
    assert Agreement().plus(Agreement(1, 1)).turns == 1


def _turns(*bills, responses=None):
    talk, found = Talk(), []
    for number, usage in enumerate(bills):
        talk.use()
        talk.turn(usage, response=None if responses is None else responses[number])
        found.append(talk.last)
    return found


def test_a_copied_response_is_compared_once():
    turns = _turns(bill(0, 5_000), bill(5_000, 10), bill(5_010, 10), responses=("a", "b", "c"))
    known = set()
    assert sum(one.row is not None for one in simulated(turns, known)) == 2
    assert sum(one.row is not None for one in simulated(turns, known)) == 0
    assert [one.copied for one in simulated(turns, known)] == [True] * 3


def test_what_is_not_billed_or_cannot_be_is_not_compared():
    turns = _turns(bill(0, 5_000), None, bill(5_000, 10), bill(-1, 10), bill(5_010, 10))
    rows = [(one.row is not None, bool(one.odd)) for one in simulated(turns)]
    assert rows == [(False, False), (False, False), (False, False), (False, True), (False, False)]


def _of(paths):
    found, known, drops = Agreement(), set[str](), []
    for path in paths:
        every = list(simulated(Recording(str(path)).turns(), known))
        found = found.plus(agreement(one.row for one in every if one.row is not None))
        drops += [one for one in every if one.row is not None and one.row.fell]
    return found, drops


@pytest.mark.corpus
@real
def test_the_floors_hold_on_real_sessions():
    found, drops = _of(SESSIONS)
    assert found.turns > 1_500
    assert found.within >= 0.975 * found.turns
    assert found.exact >= found.naive_exact
    assert found.error <= 0.6 * found.naive_error
    assert found.foreseen >= 0.45 * found.drops
    assert found.false_drops < 0.05 * found.foreseen
    assert all(one.drop is not None and (one.drop.evidence or one.drop.ruled_out) for one in drops)
    assert all(one.drop.ruled_out for one in drops if one.drop.name == "unattributable")


@pytest.mark.corpus
@real
def test_no_single_session_carries_the_floors():
    """Each left out in its turn, the others still meet them."""
    alone = [_of([path])[0] for path in SESSIONS]
    for out in range(len(alone)):
        rest = Agreement()
        for place, one in enumerate(alone):
            rest = rest if place == out else rest.plus(one)
        assert rest.within >= 0.975 * rest.turns, SESSIONS[out].name
        assert rest.error <= 0.6 * rest.naive_error, SESSIONS[out].name
        assert rest.foreseen >= 0.45 * rest.drops, SESSIONS[out].name
        assert rest.false_drops < 0.05 * rest.foreseen, SESSIONS[out].name
