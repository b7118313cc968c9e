"""Two independent causes in one turn: both are named."""

import pytest

from faults.pairs import pairs
from faults.saying import here, named, table
from faults.serving import judged
from helpers.matrix import some

ENOUGH = 0.95


@pytest.mark.parametrize("each", some([1, 4]))
def test_two_causes_in_one_turn_are_both_named(each, tmp_path):
    cases = pairs(each)
    assert len(cases) >= 50 * each
    said = list(zip(cases, judged([one.capture for one in cases], tmp_path), strict=True))
    missed = [row for case, findings in said for row in named(case, findings)]
    whole = len(cases) - len({one.case for one in missed})
    assert whole >= ENOUGH * len(cases), table(missed, len(cases))
    nothing = [case.name for case, findings in said if not here(case, findings)]
    assert not nothing
