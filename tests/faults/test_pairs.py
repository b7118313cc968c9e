"""Two independent causes in one turn: both are named."""

import pytest

from faults.pairs import pairs
from faults.saying import findings_on_turn, missed_faults, table
from faults.serving import judged
from helpers.matrix import some

ENOUGH = 0.95


@pytest.mark.parametrize("count", some([1, 4]))
def test_two_causes_in_one_turn_are_both_named(count, tmp_path):
    cases = pairs(count)
    assert len(cases) >= 50 * count
    judged_cases = list(zip(cases, judged([case.capture for case in cases], tmp_path), strict=True))
    missed = [row for case, findings in judged_cases for row in missed_faults(case, findings)]
    whole = len(cases) - len({miss.case for miss in missed})
    assert whole >= ENOUGH * len(cases), table(missed, len(cases))
    nothing = [case.name for case, findings in judged_cases if not findings_on_turn(case, findings)]
    assert not nothing
