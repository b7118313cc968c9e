"""Every cause, in every dialect: one fault is named alone, two are both named, none means no cause."""

from __future__ import annotations

from itertools import combinations

import pytest

from lore.prefix.causes import causes
from lore.prefix.overlap import overlap
from model.making import parsed
from prefix.injecting import DIALECTS, FAULTS, conversation, extended, write


def found(dialect, *names):
    left, right = conversation(), extended(conversation())
    for name in names:
        FAULTS[name][1](right)
    mine, theirs = parsed(write(left, dialect), dialect), parsed(write(right, dialect), dialect)
    return causes(mine, theirs, overlap(mine, theirs), ())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_that_goes_on_has_no_cause(dialect):
    assert found(dialect) == ()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_fault_is_named_and_nothing_else(dialect, name):
    assert {cause.code for cause in found(dialect, name)} == {FAULTS[name][0]}


PAIRS = [pair for pair in combinations(FAULTS, 2) if FAULTS[pair[0]][0] != FAULTS[pair[1]][0]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_two_faults_are_both_named(dialect):
    missed = []
    for pair in PAIRS:
        wanted = {FAULTS[name][0] for name in pair}
        if not wanted <= {cause.code for cause in found(dialect, *pair)}:
            missed.append((pair, [cause.code for cause in found(dialect, *pair)]))
    assert len(missed) <= 0.02 * len(PAIRS), missed
